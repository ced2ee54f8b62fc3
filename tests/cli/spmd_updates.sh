#!/bin/sh
# Updates of several parameters by one op, of which each lies its own way on a mesh of 2 x 3: all ranks leave what the
# serial program leaves, and are proved; one that takes another parameter's gradient is not.
. tests/support/shell.sh
. tests/support/python.sh

program() { # the op that updates, and its state
    cat <<END_OF
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    x: {float32: [4, 6], need_check_feed: true}
    u: {float32: [6, 6], persistable: true, parameter: true}
    w: {float32: [6, 6], persistable: true, parameter: true}
    rate: {float32: [1], persistable: true}
$2
    a: {float32: [4, 6]}
    b: {float32: [4, 6]}
    ab: {float32: [4, 6]}
    loss: {float32: []}
    u_sum: {float32: [6, 6]}
    w_sum: {float32: [6, 6]}
    u_grad: {float32: [6, 6]}
    w_grad: {float32: [6, 6]}
  ops:
  - {matmul_v2: {X: x, Y: u}, out: {Out: a}, attrs: {.role: forward}}
  - {matmul_v2: {X: x, Y: w}, out: {Out: b}, attrs: {.role: forward}}
  - {elementwise_mul: {X: a, Y: b}, out: {Out: ab}, attrs: {axis: -1, .role: forward}}
  - {reduce_mean: {X: ab}, out: {Out: loss}, attrs: {dim: [0], reduce_all: true, .role: loss}}
  - {matmul_v2: {X: x, Y: b}, out: {Out: u_sum}, attrs: {trans_x: true, .role: backward}}
  - {matmul_v2: {X: x, Y: a}, out: {Out: w_sum}, attrs: {trans_x: true, .role: backward}}
  - {scale: {X: u_sum}, out: {Out: u_grad}, attrs: {scale: 0.0416666679, .role: backward}}
  - {scale: {X: w_sum}, out: {Out: w_grad}, attrs: {scale: 0.0416666679, .role: backward}}
  - {$1}
END_OF
}
momentum='merged_momentum: {Param: [u, w], Grad: [u_grad, w_grad], Velocity: [uv, wv], LearningRate: [rate]},
    out: {ParamOut: [u, w], VelocityOut: [uv, wv]}, attrs: {mu: 0.9, use_nesterov: true, .role: optimize}'
velocities='    uv: {float32: [6, 6], persistable: true}
    wv: {float32: [6, 6], persistable: true}'
adam='merged_adam: {Param: [u, w], Grad: [u_grad, w_grad], Moment1: [um, wm], Moment2: [us, ws], Beta1Pow: [u1, w1],
    Beta2Pow: [u2, w2], LearningRate: [rate]}, out: {ParamOut: [u, w], Moment1Out: [um, wm], Moment2Out: [us, ws],
    Beta1PowOut: [u1, w1], Beta2PowOut: [u2, w2]}, attrs: {beta1: 0.9, beta2: 0.99, .role: optimize}'
moments=$(for v in um wm us ws; do echo "    $v: {float32: [6, 6], persistable: true}"; done
    for v in u1 w1 u2 w2; do echo "    $v: {float32: [1], persistable: true}"; done)

"$PYTHON" - "$folder" <<'END'
import sys
import numpy as np
rng = np.random.default_rng(5)
draw = lambda *shape: rng.standard_normal(shape).astype('float32')
state = {n: draw(6, 6) for n in ('u', 'w', 'uv', 'wv', 'um', 'wm')} | {n: draw(6, 6) ** 2 for n in ('us', 'ws')}
powers = {n: np.array([p], 'float32') for n, p in (('u1', .9), ('w1', .81), ('u2', .99), ('w2', .98), ('rate', .1))}
np.savez(sys.argv[1] + '/params.npz', **state, **powers)
np.savez(sys.argv[1] + '/feeds.npz', **{f'{s}/x': draw(4, 6) for s in range(3)})
END
cat >"$folder/compare.py" <<'END'
import sys
import numpy as np
a, b = (np.load(f'{sys.argv[1]}/{n}.npz') for n in ('serial', 'ranks'))
assert sorted(a.files) == sorted(b.files)
for n in a.files:
    assert a[n].shape == b[n].shape and np.allclose(a[n], b[n], rtol=1e-5, atol=1e-6), n
END

ranks="$folder/rank0.yaml $folder/rank1.yaml $folder/rank2.yaml $folder/rank3.yaml $folder/rank4.yaml $folder/rank5.yaml"
given="--params $folder/params.npz --feed $folder/feeds.npz"
proves() { "$weft" verify $ranks --reading by_bytes --against "$folder/serial.yaml"; }
holds() { # op, its state, how u and w lie
    what="${1%%:*}, parameters $3 and $4"
    rm -f "$folder"/rank*.yaml "$folder"/*.dist.json
    program "$1" "$2" >"$folder/serial.yaml"
    echo '{"meshes": [{"shape": [2, 3], "ids": [0, 1, 2, 3, 4, 5], "dims": ["dp", "mp"]}], "vars": {
        "x": {"mesh": 0, "dims_mapping": ["dp", -1]}, "u": {"mesh": 0, "dims_mapping": ['"$3"']},
        "w": {"mesh": 0, "dims_mapping": ['"$4"']}}}' >"$folder/annotate.json"
    "$weft" opt -q "$folder/serial.yaml" --dist "$folder/annotate.json" --passes configs/spmd.yaml -o "$folder/rank{rank}.yaml"
    ok $? "$what: six programs"
    grep -q ' u: {float32: \['"$5"'\]' "$folder/rank4.yaml"; ok $? "$what: a part is $5"
    "$weft" run "$folder/serial.yaml" $given --save "$folder/serial.npz" 2>/dev/null >"$folder/out" &&
        "$weft" run $ranks --ranks 6 $given --save "$folder/ranks.npz" 2>"$folder/err" >"$folder/out" &&
        "$PYTHON" "$folder/compare.py" "$folder"
    ok $? "$what: ranks leave what the serial program leaves"
    prints 0 'against the serial program: same' "$what: proved" proves
}
for of in momentum adam; do
    eval "op=\$$of"
    [ $of = adam ] && state=$moments || state=$velocities
    holds "$op" "$state" '-1, "mp"' '"mp", -1' '6, 2'
    holds "$op" "$state" '"mp", -1' '-1, ["mp", "dp"]' '2, 6'
    holds "$op" "$state" '"dp", "mp"' '"dp", "mp"' '3, 2'
    sed -i '/merged_/s/Grad: \[\([^],]*\), \([^],]*\)\]/Grad: [\2, \1]/' "$folder/rank3.yaml"
    prints 1 'not proved' "merged_$of: another parameter's gradient" proves
done
finish

#!/bin/sh
# Repeated rows of which each rank has some, and their gradient: how often is counted by rank, and proved.
. tests/support/shell.sh
. tests/support/python.sh

cat >"$folder/serial.yaml" <<'END'
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    p: {float32: [4, 8], persistable: true, parameter: true}
    r: {float32: [4, 32], need_check_feed: true}
    rate: {float32: [1], persistable: true}
    t: {float32: [4, 32]}
    y: {float32: [4, 32]}
    loss: {float32: []}
    loss@GRAD: {float32: []}
    y@GRAD: {float32: [4, 32]}
    t@GRAD: {float32: [4, 32]}
    p@GRAD: {float32: [4, 8]}
  ops:
  - {tile: {X: p}, out: {Out: t}, attrs: {repeat_times: [1, 4], .role: forward}}
  - {elementwise_mul: {X: t, Y: r}, out: {Out: y}, attrs: {axis: -1, .role: forward}}
  - {reduce_mean: {X: y}, out: {Out: loss}, attrs: {dim: [], reduce_all: true, .role: loss}}
  - {fill_constant: {}, out: {Out: loss@GRAD}, attrs: {dtype: 5, value: 1.0, shape: [], op_role: 257}}
  - {reduce_mean_grad: {X: y, Out@GRAD: loss@GRAD}, out: {X@GRAD: y@GRAD}, attrs: {dim: [], reduce_all: true, .role: backward}}
  - {elementwise_mul_grad: {X: t, Y: r, Out@GRAD: y@GRAD}, out: {X@GRAD: t@GRAD}, attrs: {axis: -1, .role: backward}}
  - {tile_grad: {X: p, Out@GRAD: t@GRAD}, out: {X@GRAD: p@GRAD}, attrs: {repeat_times: [1, 4], .role: backward}}
  - {sgd: {Param: p, Grad: p@GRAD, LearningRate: rate}, out: {ParamOut: p}, attrs: {.role: optimize}}
END
cat >"$folder/data.py" <<'END'
import sys
import numpy as np
at = sys.argv[2]
if sys.argv[1] == 'make':
    rng = np.random.default_rng(9)
    draw = lambda *shape: rng.standard_normal(shape).astype('float32')
    np.savez(at + '/params.npz', p=draw(4, 8), rate=np.array([0.5], 'float32'))
    np.savez(at + '/feeds.npz', **{f'{step}/r': draw(4, 32) for step in range(2)})
else:
    a, b = (np.load(f'{at}/{n}.npz')['p'] for n in ('serial', 'ranks'))
    assert a.shape == b.shape and np.abs(a - b).max() < 1e-6
END
"$PYTHON" "$folder/data.py" make "$folder"
given="--params $folder/params.npz --feed $folder/feeds.npz"
"$weft" run "$folder/serial.yaml" $given --save "$folder/serial.npz" >"$folder/out" 2>&1; ok $? 'the serial program runs'
ranks="$folder/rank0.yaml $folder/rank1.yaml $folder/rank2.yaml $folder/rank3.yaml"
proves() { "$weft" verify $ranks --reading by_bytes --against "$folder/serial.yaml"; }

holds() { # placements, how often a rank has the gradient
    echo '{"meshes": [{"shape": [2, 2], "ids": [0, 1, 2, 3], "dims": ["a", "b"]}], "vars": {'"$1"'}}' >"$folder/annotate.json"
    rm -f "$folder"/rank*.yaml
    "$weft" opt -q "$folder/serial.yaml" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.yaml"
    ok $? "$1: four programs"
    grep -q "{tile_grad: .*repeat_times: \[$2\]" "$folder/rank0.yaml"; ok $? "$1: a rank's gradient repeats $2"
    "$weft" run $ranks --ranks 4 $given --save "$folder/ranks.npz" >"$folder/out" 2>&1 && "$PYTHON" "$folder/data.py" compare "$folder"
    ok $? "$1: ranks leave what the serial program leaves"
    prints 0 'against the serial program: same' "$1: proved" proves
}
at() { # var, dims_mapping
    echo '"'"$1"'": {"mesh": 0, "dims_mapping": ['"$2"']}'
}
holds "$(at t@GRAD '-1, 1')" '1, 2'
holds "$(at t@GRAD '1, 0')" '1, 2'
sed -i '/tile_grad/s/repeat_times: \[1, 2\]/repeat_times: [1, 4]/' "$folder/rank1.yaml"
prints 1 'not proved' 'as often as the whole is repeated' proves
holds "$(at t@GRAD '-1, [0, 1]')" '1, 1'
sed -i '0,/starts: \[8\]/s/ends: \[16\]\(.*\)starts: \[8\]/ends: [12]\1starts: [4]/' "$folder/rank1.yaml"
prints 1 'not proved' 'columns that are no whole repeat' proves
finish

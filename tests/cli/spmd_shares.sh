#!/bin/sh
# Sums over ranks that meet. What all ranks have is added in shares where that leaves one sum to be made; factors of a
# product are made in parts. Runs leave what the serial program leaves, and are proved. A share too large is not.
. tests/support/shell.sh
. tests/support/python.sh

program() { # type, op
    cat <<END_OF
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    x: {$1: [6, 12], need_check_feed: true}
    y: {$1: [6, 12], need_check_feed: true}
    w: {$1: [6], persistable: true, parameter: true}
    u: {$1: [12, 6], persistable: true, parameter: true}
    v: {$1: [6, 6], persistable: true, parameter: true}
    a: {$1: [6]}
    b: {$1: [6]}
  ops:
  - {reduce_sum: {X: x}, out: {Out: a}, attrs: {dim: [1], keep_dim: false, .role: forward}}
  - {reduce_sum: {X: y}, out: {Out: b}, attrs: {dim: [1], keep_dim: false, .role: forward}}
  - {$2, attrs: {.role: forward}}
END_OF
}
"$PYTHON" - "$folder" <<'END'
import sys
import numpy as np
rng = np.random.default_rng(7)
for kind in ('float32', 'int64'):
    draw = lambda *shape: rng.integers(-9, 9, shape).astype(kind)
    np.savez(f'{sys.argv[1]}/params.{kind}.npz', w=draw(6), u=draw(12, 6), v=draw(6, 6))
    np.savez(f'{sys.argv[1]}/feeds.{kind}.npz', **{f'{s}/{n}': draw(6, 12) for s in range(2) for n in 'xy'})
END
cat >"$folder/compare.py" <<'END'
import sys
import numpy as np
a, b = (np.load(f'{sys.argv[1]}/{n}.npz') for n in ('serial', 'ranks'))
for n in 'wuv':
    assert a[n].dtype == b[n].dtype and np.array_equal(a[n], b[n]), n
END
proves() { "$weft" verify $ranks --reading by_bytes --against "$folder/serial.yaml"; }
holds() { # type, op, number of ranks, how many sums are made, by which collective
    what="$2 of $1 on $3 ranks"
    rm -f "$folder"/rank*
    program "$1" "$2" >"$folder/serial.yaml"
    given="--params $folder/params.$1.npz --feed $folder/feeds.$1.npz"
    ids=$(seq -s, 0 $(($3 - 1)))
    echo '{"meshes": [{"shape": ['"$3"'], "ids": ['"$ids"'], "dims": ["mp"]}], "vars": {
        "x": {"mesh": 0, "dims_mapping": [-1, "mp"]}, "y": {"mesh": 0, "dims_mapping": [-1, "mp"]},
        "u": {"mesh": 0, "dims_mapping": ["mp", -1]}}}' >"$folder/annotate.json"
    "$weft" opt -q "$folder/serial.yaml" --dist "$folder/annotate.json" --passes configs/spmd.yaml -o "$folder/rank{rank}.yaml"
    ok $? "$what: programs"
    ranks=$(ls "$folder"/rank*.yaml)
    [ "$(grep -c "$5" "$folder/rank0.yaml")" = "$4" ]; ok $? "$what: $5: $4"
    "$weft" run "$folder/serial.yaml" $given --save "$folder/serial.npz" 2>"$folder/err" >"$folder/out" &&
        "$weft" run $ranks --ranks "$3" $given --save "$folder/ranks.npz" 2>"$folder/err" >"$folder/out" &&
        "$PYTHON" "$folder/compare.py" "$folder"
    ok $? "$what: ranks leave what the serial program leaves"
    prints 0 'against the serial program: same' "$what: proved" proves
}
sum_of() { echo "sum: {X: [$1]}, out: {Out: w}"; }
for n in 2 3; do
    holds float32 "$(sum_of 'a, w')" $n 2 c_allreduce_sum # the other one is of b
    ! grep -q pad: "$folder/rank0.yaml"; ok $? "$n ranks: added behind the sum where that sends no more"
    holds int64 "$(sum_of 'a, w, b')" $n 1 c_allreduce_sum
    holds float32 "$(sum_of 'a, w, b')" $n 1 c_allreduce_sum
    sed -i 's/\[a, w@RESHARD[_0-9]*, b\]/[a, w, b]/' "$folder/rank1.yaml"
    prints 1 'not proved' "$n ranks: the whole on one of them" proves
    holds float32 'elementwise_mul: {X: a, Y: b}, out: {Out: w}' $n 2 c_reducescatter
    sed -i '/c_reducescatter: {X: \[b\]/s/X: \[b\]/X: [a]/' "$folder"/rank*.yaml
    prints 1 'not proved' "$n ranks: a factor twice" proves
    # the other one is of b; what is added to a product is not made before
    holds float32 'aten_addmm: {self: a, mat1: x, mat2: u}, out: {out: v}' $n 2 c_allreduce_sum
    sed -i 's/{self: \[a\]/{self: [w]/' "$folder/rank1.yaml"
    prints 1 'not proved' "$n ranks: another addend on one of them" proves
done
finish

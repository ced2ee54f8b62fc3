#!/bin/sh
# Mesh axes that a reshape divides: 16 rows over 8 ranks become [2, 8] over 2 x 4 of them. The ranks leave what the
# serial program leaves, and are proved equal to it.
. tests/support/shell.sh
. tests/support/python.sh

serial() { # meshes, placement of w, the shape between
    cat >"$folder/annotated.yaml" <<END
weft: 1
version: 2006002
meshes:
$1
blocks:
- idx: 0
  vars:
    w: {float32: [16, 6], persistable: true, dist: $2}
    rate: {float32: [1], persistable: true}
    a: {float32: [16, 6]}
    b: {float32: [$3]}
    bx: {float32: [0, 16, 6]}
    c: {float32: [$3]}
    f: {float32: [16, 6]}
    fx: {float32: [0, $3]}
  ops:
  - {tanh: {X: w}, out: {Out: a}, attrs: {.role: forward}}
  - {reshape2: {X: a}, out: {Out: b, XShape: bx}, attrs: {shape: [$3], .role: forward}}
  - {tanh: {X: b}, out: {Out: c}, attrs: {.role: forward}}
  - {reshape2: {X: c}, out: {Out: f, XShape: fx}, attrs: {shape: [16, 6], .role: backward}}
  - {sgd: {Param: w, LearningRate: rate, Grad: f}, out: {ParamOut: w}, attrs: {.role: optimize}}
END
    sed 's/, dist: {.*}}$/}/' "$folder/annotated.yaml" >"$folder/serial.yaml"
}
"$PYTHON" - "$folder" <<'END'
import sys
import numpy as np
np.savez(sys.argv[1] + '/params.npz', w=np.random.RandomState(0).randn(16, 6).astype('f'), rate=np.array([0.5], 'f'))
END
expand() { # pass list
    rm -f "$folder"/rank*
    "$weft" opt "$folder/annotated.yaml" --passes "$1" -o "$folder/rank{rank}.yaml" 2>"$folder/report"
}
holds() { # what
    of_all=$(ls "$folder"/rank*.yaml)
    "$weft" run "$folder/serial.yaml" --params "$folder/params.npz" --steps 3 --save "$folder/serial.npz" >/dev/null 2>&1 &&
        "$weft" run $of_all --params "$folder/params.npz" --steps 3 --save "$folder/ranks.npz" >/dev/null 2>"$folder/err" &&
        "$PYTHON" -c "import sys, numpy as np; a, b = (np.load(f)['w'] for f in sys.argv[1:]); assert a.shape == b.shape and abs(a - b).max() < 1e-6" "$folder/serial.npz" "$folder/ranks.npz"
    ok $? "$1: w is what the serial program leaves"
    prints 0 'against the serial program: same' "$1: proved" "$weft" verify $of_all --reading by_bytes --against "$folder/serial.yaml"
}
moves_nothing() { # what
    ! "$weft" show "$folder/rank1.yaml" | grep -qE 'c_all|c_concat|alltoall|reducescatter'; ok $? "$1: nothing is sent"
}
eight='- {shape: [8], ids: [0, 1, 2, 3, 4, 5, 6, 7], dims: [x]}'

serial "$eight" '{mesh: 0, dims_mapping: [0, -1]}' '2, 8, 6'
for passes in spmd_expand 'spmd_propagate, spmd_partition'; do
    expand "$passes"; holds "rows that are split, $passes"; moves_nothing "rows that are split, $passes"
    grep -q 'mesh axis x into 2 x 4 divided: a rank sends 0 bytes, else 336' "$folder/report"; ok $? 'the report tells of it'
    grep -qE 'shape: \[2, 4\].*"?x:\(1\)2"?.*"?x:\(2\)4"?' "$folder/rank0.yaml" && ! grep -q 'shape: \[8\]' "$folder/rank0.yaml"; ok $? 'the mesh is the divided one'
done
serial "$eight" '{mesh: 0, dims_mapping: [0, -1]}' '2, 2, 4, 6'
expand spmd_expand; holds 'rows that are split twice'; moves_nothing 'rows that are split twice'
grep -q 'into 2 x 2 x 2 divided' "$folder/report"; ok $? 'an axis is divided twice'
serial "$eight" '{mesh: 0, dims_mapping: [0, -1]}' '8, 2, 6'
expand spmd_expand; holds 'rows that need no division'; moves_nothing 'rows that need no division'
! grep -q divided "$folder/report"; ok $? 'an axis that fits is not divided'

# A mesh of two axes, the minor one divided; ranks in another order.
serial '- {shape: [2, 4], ids: [7, 6, 5, 4, 3, 2, 1, 0], dims: [dp, mp]}' '{mesh: 0, dims_mapping: [1, 0]}' '2, 8, 6'
expand spmd_expand; holds 'one of two axes'; moves_nothing 'one of two axes'
grep -q 'mesh axis mp into 2 x 2 divided' "$folder/report"; ok $? 'the one that shards rows is divided'

# What the user divides: a placement on a mesh that divides the other.
serial "$eight
- {shape: [2, 4], ids: [0, 1, 2, 3, 4, 5, 6, 7], dims: [major, minor]}" '{mesh: 1, dims_mapping: [1, 0]}' '4, 4, 6'
expand spmd_expand; holds 'parts of an axis'; moves_nothing 'parts of an axis'
serial "$eight
- {shape: [2, 4], ids: [0, 1, 2, 3, 4, 5, 6, 7], dims: [major, minor]}" '{mesh: 0, dims_mapping: [0, -1]}' '2, 8, 6'
expand spmd_expand; holds 'an axis of the mesh that is divided'; moves_nothing 'an axis of the mesh that is divided'
serial '- {shape: [4, 2], ids: [0, 1, 2, 3, 4, 5, 6, 7], dims: [a, b]}
- {shape: [2, 4], ids: [0, 1, 2, 3, 4, 5, 6, 7], dims: [major, minor]}' '{mesh: 1, dims_mapping: [1, 0]}' '4, 4, 6'
expand spmd_expand; [ $? = 1 ] && grep -q 'expected one mesh, or one that divides the axes of the others, found 2' "$folder/report"
ok $? 'meshes of which none divides the other are refused'
finish

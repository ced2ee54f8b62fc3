#!/bin/sh
# Complex numbers in collectives: what two ranks send each other gives what the serial program gives.
. tests/support/shell.sh
. tests/support/python.sh

cat >"$folder/serial.yaml" <<'END'
weft: 1
version: 2006002
blocks:
- idx: 0
  vars:
    x: {complex64: [4, 6], need_check_feed: true}
    w: {complex64: [6, 8], persistable: true, parameter: true}
    a: {complex64: [4, 8]}
    t: {complex64: [8, 4]}
    z: {complex64: [8, 4]}
    p: {complex64: [4, 4]}
  ops:
  - {matmul_v2: {X: x, Y: w}, out: {Out: a}, attrs: {.role: forward}}
  - {transpose2: {X: a}, out: {Out: t}, attrs: {axis: [1, 0], .role: forward}}
  - {scale: {X: t}, out: {Out: z}, attrs: {scale: 0.5, .role: forward}}
  - {matmul_v2: {X: a, Y: z}, out: {Out: p}, attrs: {.role: forward}}
END
cat >"$folder/data.py" <<'END'
import sys
import numpy as np
at = sys.argv[2]
if sys.argv[1] == 'make':
    rng = np.random.default_rng(7)
    draw = lambda *shape: (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype('complex64')
    np.savez(at + '/params.npz', w=draw(6, 8))
    np.savez(at + '/feeds.npz', **{'0/x': draw(4, 6)})
else:
    a, b = (np.load(f'{at}/{n}.npz')['p'] for n in ('serial', 'ranks'))
    assert a.dtype == b.dtype == np.complex64 and np.abs(a.imag).max() > 1
    assert np.abs(a - b).max() < 1e-5 * np.abs(a).max()
END
"$PYTHON" "$folder/data.py" make "$folder"
given="--params $folder/params.npz --feed $folder/feeds.npz --fetch p"
"$weft" run "$folder/serial.yaml" $given --save "$folder/serial.npz" >"$folder/out" 2>&1; ok $? 'the serial program runs'

sends() { # collective, placements
    echo '{"meshes": [{"shape": [2], "ids": [0, 1], "dims": ["a"]}], "vars": {'"$2"'}}' >"$folder/annotate.json"
    rm -f "$folder"/rank*.yaml "$folder/ranks.npz"
    "$weft" opt -q "$folder/serial.yaml" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.yaml" &&
        grep -q "{$1:" "$folder/rank0.yaml" &&
        "$weft" run "$folder/rank0.yaml" "$folder/rank1.yaml" --ranks 2 $given --save "$folder/ranks.npz" >"$folder/out" 2>&1 &&
        "$PYTHON" "$folder/data.py" compare "$folder"
    ok $? "$1 of complex numbers"
}
rows='"mesh": 0, "dims_mapping": [0, -1]' columns='"mesh": 0, "dims_mapping": [-1, 0]'
sends c_concat '"x": {'"$rows"'}'
sends c_allreduce_sum '"w": {'"$rows"'}'
sends c_reducescatter '"w": {'"$rows"'}, "p": {'"$rows"'}'
sends alltoall '"w": {'"$columns"'}, "t": {'"$columns"'}'
finish

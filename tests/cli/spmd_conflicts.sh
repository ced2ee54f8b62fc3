#!/bin/sh
# Where arguments of an op disagree about what a mesh axis shards, the report and `show --why` tell the price of each side.
. tests/support/shell.sh

program() { # placements of a and b
    cat <<END
weft: 1
version: 2006002
meshes:
- {shape: [2], ids: [0, 1], dims: [mp]}
blocks:
- idx: 0
  vars:
    a: {float32: [4, 6], persistable: true, dist: {mesh: 0, dims_mapping: $1}}
    b: {float32: [4, 6], persistable: true, dist: {mesh: 0, dims_mapping: $2}}
    c: {float32: [4, 6]}
    d: {float32: [4, 6]}
    e: {float32: [4, 6]}
  ops:
  - {elementwise_add: {X: a, Y: b}, out: {Out: c}, attrs: {axis: -1, .role: forward}}
  - {elementwise_add: {X: a, Y: b}, out: {Out: d}, attrs: {axis: -1, .role: forward}}
  - {elementwise_mul: {X: c, Y: d}, out: {Out: e}, attrs: {axis: -1, .role: forward}}
END
}

# 96 bytes; halves of 48, of which all-to-all moves 24. Rows: b comes in rows. Columns: a comes in columns, and the sum,
# which is wanted in rows, goes back. None: a and b are gathered.
program '[0, -1]' '[-1, 0]' >"$folder/odds.yaml"
told='conflict over mesh axis mp at elementwise_add #0, a rank receives: dimension 0 of a 24 bytes \(taken\), dimension 1 of b 48 bytes, none 96 bytes'
says 0 "did: $told" 'spmd_propagate tells what each side costs' \
    "$weft" opt --no-prove "$folder/odds.yaml" --passes spmd_propagate -o "$folder/placed.yaml"
for var in a b c; do
    prints 0 "^  $told$" "show --why tells it of $var" "$weft" show "$folder/placed.yaml" --why $var
done
"$weft" show "$folder/placed.yaml" --why e | grep -q conflict; [ $? = 1 ]
ok $? 'and of none that no side is about'
says 0 "did: $told" 'spmd_expand tells it' "$weft" opt --no-prove "$folder/odds.yaml" --passes spmd_expand -o "$folder/rank{rank}.yaml"
prints 0 "^  $told$" 'show --why tells it of the program of a rank' "$weft" show "$folder/rank0.yaml" --why b
says 0 'a rank receives 24 bytes: state and feeds, for elementwise_add' 'a rank receives what the side that was taken costs' \
    "$weft" opt --no-prove "$folder/odds.yaml" --passes spmd_expand -o "$folder/rank{rank}.yaml"

# In time too: a message of 10 us, 24 bytes at 1.5 GB/s, and copies.
says 0 'dimension 0 of a 24 bytes in 10\.[0-9]* us \(taken\), dimension 1 of b 48 bytes in 20\.[0-9]* us, none 96 bytes in 20\.[0-9]* us' \
    'with a cluster, in microseconds' \
    "$weft" opt --no-prove "$folder/odds.yaml" --passes 'spmd_propagate: {cluster: configs/clusters/threads.yaml}' -o "$folder/placed.yaml"
says 1 'nowhere.yaml: cannot open' 'a cluster file that is not there' \
    "$weft" opt --no-prove "$folder/odds.yaml" --passes 'spmd_expand: {cluster: nowhere.yaml}' -o "$folder/rank{rank}.yaml"

program '[0, -1]' '[0, -1]' >"$folder/one.yaml"
"$weft" opt --no-prove "$folder/one.yaml" --passes spmd_propagate -o "$folder/placed.yaml" 2>&1 | grep -q conflict; [ $? = 1 ]
ok $? 'no conflict is told where all lie alike'

# Two axes that are to shard the same rows.
sed 's/shape: \[2\], ids: \[0, 1\], dims: \[mp\]/shape: [2, 2], ids: [0, 1, 2, 3], dims: [dp, mp]/; s/^    b: .*/    b: {float32: [4, 6], persistable: true, dist: {mesh: 0, dims_mapping: [1, -1]}}/' \
    "$folder/one.yaml" >"$folder/axes.yaml"
for axis in dp:a mp:b; do
    says 0 "conflict over mesh axis ${axis%:*} at elementwise_add #0, a rank receives: dimension 0 of ${axis#*:} [0-9]* bytes.*, none [0-9]* bytes" \
        "two axes that ask for one dimension: ${axis%:*}" "$weft" opt --no-prove "$folder/axes.yaml" --passes spmd_propagate -o "$folder/placed.yaml"
done
# What is annotated with a priority spreads in rounds: batch first, then parts of layers, then of state.
program '[0, -1]' '[-1, 0]' >"$folder/rounds.yaml"
first() { # priorities of a and b, how the sum lies
    for var in a:$1 b:$2; do
        sed -i "s/^    ${var%:*}: \(.*\)\(\], extra: .*\|\]\)}}$/    ${var%:*}: \1], extra: '{\"priority\": ${var#*:}}'}}/" "$folder/rounds.yaml"
    done
    "$weft" opt -q --no-prove "$folder/rounds.yaml" --passes spmd_propagate -o "$folder/placed.yaml" &&
        "$weft" show "$folder/placed.yaml" --placements | grep -q "^c: $3$"
    ok $? "priorities $1 and $2: the sum lies as $3"
}
first 0 0 '\[mp, -\]'
first 1 0 '\[-, mp\]'
first 3 7 '\[mp, -\]'
first 7 3 '\[-, mp\]'
sed -i 's/"priority": 3/"priority": -3/' "$folder/rounds.yaml"
says 1 'var b: expected a priority from 0 to 255' 'a priority is no negative number' \
    "$weft" opt --no-prove "$folder/rounds.yaml" --passes spmd_propagate -o "$folder/placed.yaml"
sed "s/, dist: {.*}}$/}/; /^meshes/d; /^- {shape/d" "$folder/rounds.yaml" >"$folder/plain.yaml"
printf '{"meshes": [{"shape": [2], "ids": [0, 1], "dims": ["mp"]}], "vars": {"a": {"mesh": 0, "dims_mapping": ["mp", -1], "priority": 1}, "b": {"mesh": 0, "dims_mapping": [-1, "mp"]}}}' >"$folder/annotate.json"
"$weft" opt -q --no-prove "$folder/plain.yaml" --dist "$folder/annotate.json" --passes spmd_propagate -o "$folder/placed.yaml" &&
    "$weft" show "$folder/placed.yaml" --placements | grep -q '^c: \[-, mp\]$'
ok $? 'a sidecar gives priorities'
# Layers that are alike are told once.
sed 's/elementwise_mul: {X: c, Y: d}/elementwise_add: {X: a, Y: b}/' "$folder/odds.yaml" >"$folder/again.yaml"
says 0 'conflict over mesh axis mp at elementwise_add #[0-9], .*; and [12] ops like it' 'ops that are alike are told once' \
    "$weft" opt --no-prove "$folder/again.yaml" --passes spmd_propagate -o "$folder/placed.yaml"
finish

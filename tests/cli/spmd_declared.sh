#!/bin/sh
# What a rank's program declares of extents is no proof that its ops make them: elements in the right order under other
# extents are multiplied otherwise.
. tests/support/shell.sh

program() { # op that makes t
    cat <<END_OF
weft: 1
version: 2006002
meshes:
- {shape: [2], ids: [0, 1], dims: [a]}
blocks:
- idx: 0
  vars:
    w: {float32: [1, 2, 3], persistable: true}
    r: {float32: [3, 1, 2], need_check_feed: true, dist: {mesh: 0, dims_mapping: [-1, -1, -1]}}
    t: {float32: [3, 1, 2], dist: {mesh: 0, dims_mapping: [-1, -1, -1]}}
    y: {float32: [3, 1, 2], dist: {mesh: 0, dims_mapping: [-1, -1, -1]}}
    m: {float32: []}
  ops:
  - $1
  - {elementwise_mul: {X: t, Y: r}, out: {Out: y}, attrs: {axis: -1, .role: forward}}
  - {reduce_mean: {X: y}, out: {Out: m}, attrs: {dim: [0], reduce_all: true, .role: loss}}
END_OF
}
verify() { "$weft" verify "$folder/right.yaml" "$folder/$1.yaml" --reading by_bytes --against "$folder/right.yaml"; }
turned() { # axes
    program "{transpose2: {X: w}, out: {Out: t}, attrs: {axis: $1, .role: forward}}"
}
shaped() { # extents
    program "{reshape2: {X: w}, out: {Out: t}, attrs: {shape: $1, .role: forward}}"
}

turned '[2, 0, 1]' >"$folder/right.yaml"
cp "$folder/right.yaml" "$folder/same.yaml"
turned '[0, 2, 1]' >"$folder/wrong.yaml"
prints 0 'against the serial program: same' 'dimensions turned as declared are proved' verify same
prints 1 'against the serial program: not proved' 'dimensions turned otherwise are not' verify wrong
shaped '[3, 1, 2]' >"$folder/right.yaml"
shaped '[3, -1, 2]' >"$folder/same.yaml"
shaped '[1, 3, 2]' >"$folder/wrong.yaml"
prints 0 'against the serial program: same' 'extents as declared are proved' verify same
prints 1 'against the serial program: not proved' 'other extents are not' verify wrong
finish

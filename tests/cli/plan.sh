#!/bin/sh
# weft plan of programs whose feeds leave extents open.
. tests/support/shell.sh
cat >"$folder/open.yaml" <<'END'
weft: 1
blocks:
- vars:
    x: {float32: [-1, 4]}
    t: {float32: [-1, -1]}
    w: {float32: [4, 4], persistable: true}
    y: {float32: [-1, 4]}
    z: {float32: [-1, 4]}
    m: {float32: [-1, -1]}
  ops:
  - {matmul_v2: {X: [x], "Y": [w]}, out: {Out: ["y"]}}
  - {relu: {X: ["y"]}, out: {Out: [z]}}
  - {relu: {X: [t]}, out: {Out: [m]}}
END
in=$folder/open.yaml
says 1 'matmul_v2 #0: "x" has extent -1 on axis 0: what is fed must be known' 'an open batch' "$weft" plan "$in"
says 1 'relu #2: "t" has extent -1 on axis 1: what is fed must be known' 'an open length' "$weft" plan "$in" --batch 8
prints 0 'float32, dims: \[8, 4\]' 'a batch and a shape' "$weft" plan "$in" --batch 8 --shape t=2,16
prints 0 'float32, dims: \[2, 16\]' 'a shape has precedence' "$weft" plan "$in" --batch 8 --shape t=2,16
prints 0 'float32, dims: \[3, 4\]' 'shapes of all' "$weft" plan "$in" --shape x=3,4 --shape t=3,1
prints 0 '^instructions  3 ' 'a summary' "$weft" plan "$in" --batch 8 --shape t=8,2 --summary
says 2 '--shape: expected NAME=DIMS' 'a shape without a name' "$weft" plan "$in" --shape 8,4
says 2 '--shape: expected NAME=DIMS' 'a shape of words' "$weft" plan "$in" --shape x=many
says 2 '--batch: expected a whole number' 'a batch of no rows' "$weft" plan "$in" --batch 0
says 1 'feed "q": block 0 has no such var' 'a feed that is not there' "$weft" plan "$in" --batch 8 --shape q=8

# A rank's program gets its part of the batch.
"$weft" opt -q "$in" --passes 'data_parallel: {ranks: 2, replicate: [t]}' -o "$folder/dp.yaml" 2>/dev/null
prints 0 'float32, dims: \[4, 4\]' 'the rows of a rank' "$weft" plan "$folder/dp.yaml" --batch 8 --shape t=2,2
says 1 'feed "x": 7 rows do not divide by 2 ranks' 'rows that ranks do not divide' "$weft" plan "$folder/dp.yaml" --batch 7 --shape t=2,2
"$weft" opt -q "$in" --passes 'data_parallel: {ranks: 2, uneven: pad, replicate: [t]}' -o "$folder/dp.yaml" 2>/dev/null
prints 0 'float32, dims: \[4, 4\]' 'the longest part' "$weft" plan "$folder/dp.yaml" --batch 7 --shape t=2,2
finish

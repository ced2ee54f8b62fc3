#!/bin/sh
# weft run --check-finite: the first output that is not finite ends the run, and is named.
. tests/support/shell.sh
. tests/support/python.sh
cat >"$folder/p.yaml" <<'END'
weft: 1
blocks:
- vars:
    x: {float32: [-1, 4]}
    l: {float32: [-1, 4]}
    y: {float32: [-1, 4]}
    s: {float32: []}
  ops:
  - {log: {X: [x]}, out: {Out: [l]}}
  - {scale: {X: [l]}, out: {Out: [y]}, attrs: {scale: 2.0}}
  - {reduce_sum: {X: [y]}, out: {Out: [s]}, attrs: {reduce_all: true}}
END
# Step 3, rows of rank 1: a zero, whose logarithm is -inf.
"$PYTHON" - "$folder/f.npz" <<'END'
import numpy, sys
steps = {f'{k}/x': numpy.ones((4, 4), 'f') for k in range(6)}
steps['3/x'][2, 1] = 0
numpy.savez(sys.argv[1], **steps)
END
train() { "$weft" run "$folder/p.yaml" --feed "$folder/f.npz" --fetch s "$@"; }
says 0 '' 'without it nothing is looked at' train --ranks 2
says 1 'rank 1, log #0: output "l" is not finite: element 1 of 8 is -inf, in step 3' 'op, var, rank and step' train --ranks 2 --check-finite
grep -q '^2,1,s,' "$folder/out" && ! grep -q '^3,' "$folder/out"; ok $? 'the steps before were run'
says 0 '' 'a step that is not looked at' train --check-finite=2
says 1 'rank 0, log #0: output "l"' 'every third is' train --check-finite=3
says 2 'check-finite: expected a whole number' 'not a number' train --check-finite=0
train --ranks 2 --steps 3 >"$folder/plain" 2>/dev/null && train --ranks 2 --steps 3 --check-finite >"$folder/checked" 2>/dev/null &&
    cmp -s "$folder/plain" "$folder/checked"
ok $? 'the same results'
says 2 '--check-finite: the null device computes nothing' 'a simulation has no values' train --device null --check-finite
finish

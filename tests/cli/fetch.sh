#!/bin/sh
# weft run: what is fetched never disappears without a word.
. tests/support/shell.sh
. tests/support/python.sh
cat >"$folder/p.yaml" <<'END'
weft: 1
blocks:
- vars:
    x: {float32: [4, 8]}
    z: {float32: [4, 8]}
  ops:
  - {scale: {X: [x]}, out: {Out: [z]}, attrs: {scale: 2.0}}
  - {reduce_sum: {X: [z]}, out: {Out: [s]}, attrs: {reduce_all: true}}
  - {scale: {X: [z]}, out: {Out: [u]}, attrs: {scale: 3.0}}
  - {reduce_sum: {X: [u]}, out: {Out: [t]}, attrs: {reduce_all: true}}
END
"$PYTHON" -c 'import numpy, sys; numpy.savez(sys.argv[1], x=numpy.ones((4, 8), "f"))' "$folder/f.npz"
train() { "$weft" run "$folder/p.yaml" --feed "$folder/f.npz" "$@"; }
prints 0 '^0,0,s,64$' 'an undeclared var is fetched like others' train --fetch s,t,u
grep -q '^0,0,t,192$' "$folder/out"; ok $? 'so is another'
says 0 'note: fetch "u" is not one number: .*--save F.npz would keep it' 'several elements: a note' train --fetch s,u
says 0 'note: fetch "u" .*--save keeps it' 'a note with --save' train --fetch s,u --save "$folder/saved.npz"
"$PYTHON" -c 'import numpy, sys
assert (numpy.load(sys.argv[1])["u"] == 6).all()' "$folder/saved.npz"; ok $? 'it is saved'
train --fetch s --steps 3 2>&1 >/dev/null | grep -c note: | grep -q '^0$'; ok $? 'one number: no note'
train --fetch s,u --steps 3 2>&1 >/dev/null | grep -c note: | grep -q '^1$'; ok $? 'one note, not one a step'
says 0 'note: nothing is fetched' 'no fetch op and no --fetch' train
[ ! -s "$folder/out" ]; ok $? 'stdout has nothing then'
finish

#!/bin/sh
# A program means what its ops meant in the version of Paddle that it carries; weft info names where that matters.
. tests/support/shell.sh
. tests/support/python.sh
write() { # FILE VERSION-LINE
    cat >"$1" <<END
weft: 1
$2
blocks:
- vars:
    x: {float32: [7]}
    r: {float32: [7]}
    s: {float32: [-1]}
    n: {float32: []}
  ops:
  - {round: {X: [x]}, out: {Out: [r]}}
  - {strided_slice: {Input: [x]}, out: {Out: [s]}, attrs: {axes: [0], starts: [-1], ends: [-100], strides: [-2], infer_flags: [1]}}
  - {reduce_sum: {X: [s]}, out: {Out: [n]}, attrs: {reduce_all: true}}
END
}
write "$folder/old.yaml" 'version: 2006002'
write "$folder/new.yaml" 'version: 3003001'
write "$folder/none.yaml" ''
"$PYTHON" -c 'import numpy, sys; numpy.savez(sys.argv[1], x=numpy.arange(7, dtype="f") + 0.5)' "$folder/f.npz"
prints 0 '^0,0,n,13.5$' '2.6.2: elements 6, 4, 2' "$weft" run "$folder/old.yaml" --feed "$folder/f.npz" --fetch n,r --save "$folder/old.npz"
prints 0 '^0,0,n,14$' '3.3.1: elements 6, 4, 2, 0' "$weft" run "$folder/new.yaml" --feed "$folder/f.npz" --fetch n,r --save "$folder/new.npz"
prints 0 '^0,0,n,14$' 'without a version as the newest' "$weft" run "$folder/none.yaml" --feed "$folder/f.npz" --fetch n
"$PYTHON" - "$folder" <<'END'
import numpy, sys
old, new = (numpy.load(f'{sys.argv[1]}/{n}.npz')['r'] for n in ('old', 'new'))
assert (old == [1, 2, 3, 4, 5, 6, 7]).all() and (new == [0, 2, 2, 4, 4, 6, 6]).all(), (old, new)
END
ok $? 'halves are rounded away from 0, and to even'
"$weft" opt -q "$folder/old.yaml" -o "$folder/again.pdmodel" &&
    "$weft" run "$folder/again.pdmodel" --feed "$folder/f.npz" --fetch n 2>/dev/null | grep -q '^0,0,n,13.5$'
ok $? 'the version goes through a .pdmodel'
"$weft" plan "$folder/old.yaml" | grep -q '^program_version: 2006002$'; ok $? 'and through a plan'
! "$weft" plan "$folder/new.yaml" | grep -q program_version; ok $? 'where it matters'
prints 0 'round: this program means the older definition' 'info names what is older' "$weft" info "$folder/old.yaml"
grep -q '^Paddle *2.6.2$' "$folder/out"; ok $? 'and the version'
prints 0 'strided_slice: this program means the newer definition' 'info of a newer program' "$weft" info "$folder/new.yaml"
sed 's/round:/unheard_of:/' "$folder/none.yaml" >"$folder/unknown.yaml"
prints 0 'unheard_of  .not in the op table: cannot run' 'info marks ops without a kernel' "$weft" info "$folder/unknown.yaml"
finish

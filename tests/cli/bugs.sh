#!/bin/sh
# bench/bugs: every bug that is not listed as a known miss is found, and no correct twin is refused. The programs do what their cases say
# when they run.
. tests/support/shell.sh
. tests/support/python.sh
WEFT=$weft sh bench/bugs/run.sh >"$folder/table"
result=$?
[ $result = 0 ] || grep -E 'MISSED|FALSE ALARM|missed.txt' "$folder/table"
ok $result 'the benchmark of known bugs'
[ "$(grep -c -E ' (correct|refused|failed)' "$folder/table")" -ge 40 ]; ok $? 'at least 40 pairs'
"$PYTHON" tests/bugs.py "$weft" bench/bugs; ok $? 'the bugs show when programs run'
finish

#!/bin/sh
# Programs made data-parallel train to what one rank trains to, or are refused in words.
. tests/support/shell.sh
. tests/support/python.sh
"$PYTHON" tests/data_parallel.py "$weft" >"$folder/cases" 2>&1
result=$?
grep -v 'passed, 0 failed' "$folder/cases"
ok $result 'programs on ranks against one rank'
[ "$(sed -n 's/ passed.*//p' "$folder/cases")" = "$(cat tests/data_parallel_*.py | grep -c "^def case_")" ]; ok $? 'all cases ran'
finish

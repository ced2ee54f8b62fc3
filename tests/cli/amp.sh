#!/bin/sh
# Programs in mixed precision (O1 and O2, fp16 with loss scaling and bf16) train as the same nets did in fp32, on ranks too.
. tests/support/shell.sh
. tests/support/python.sh
"$PYTHON" tests/amp.py "$weft" tests/data/amp >"$folder/cases" 2>&1
result=$?
grep -v 'passed, 0 failed' "$folder/cases"
ok $result 'mixed precision against fp32'
[ "$(sed -n 's/ passed.*//p' "$folder/cases")" = "$(ls tests/data/amp/*/O*.pdmodel | wc -l)" ]; ok $? 'all cases ran'
finish

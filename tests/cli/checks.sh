#!/bin/sh
# The check scripts that are kept beside the fixtures, where they are there.
. tests/support/shell.sh
. tests/support/python.sh
checks=$fixtures/../checks
if [ ! -f "$checks/check_programs.py" ]; then
    skipped=1
    finish
    exit
fi
"$PYTHON" "$checks/check_programs.py" "$weft" "$fixtures"

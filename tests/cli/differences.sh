#!/bin/sh
# docs/differences.md is right about every recorded program and graph.
. tests/support/shell.sh
. tests/support/python.sh
"$PYTHON" tests/differences.py "$weft" "$fixtures" --check docs/differences.md; first=$?
"$PYTHON" tests/differences_torch.py "$weft" "$fixtures" --check docs/differences.md; second=$?
ok $first 'the rows of programs'
ok $second 'the rows of traced graphs'
finish

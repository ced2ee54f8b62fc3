#!/bin/sh
# docs/differences.md tells the truth about every recorded program.
. tests/support/shell.sh
. tests/support/python.sh
exec "$PYTHON" tests/differences.py "$weft" "$fixtures" --check docs/differences.md

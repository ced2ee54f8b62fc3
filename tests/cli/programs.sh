#!/bin/sh
# Recorded programs train to the recorded losses (tests/programs.py says what is run).
. tests/support/shell.sh
. tests/support/python.sh
exec "$PYTHON" tests/programs.py "$weft" "$fixtures" ${WEFT_LONG_TESTS:+--long}

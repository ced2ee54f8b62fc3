#!/bin/sh
# Prints what each benchmark measured, with the command that produced it.
set -eu
bench=${BENCH:-build/release/bench}
echo "# $bench/scale 1000 10000 100000"
"$bench/scale" 1000 10000 100000

#!/bin/sh
# cuda_coverage.sh BUILD: how many lines of the host's code of device cuda and its engines of rings the tests on stand-ins run.
# BUILD/coverage/weft_cuda.so is compiled for it. `make coverage-cuda`.
set -eu
built=$1
at=$built/coverage
rm -rf "$at/tests" "$at/standin"
mkdir -p "$at/tests/plain"
cp "$built/tests/libtested.so" "$at/tests/"
cp -r "$built/standin" "$at/standin"
find "$at" -name '*.gcda' -delete
for t in cuda_device cuda_kernels cuda_rings cuda_loopback cuda_rules cuda_rules_dnn cuda_registered cuda_lost_waits cuda_epilogues; do
    cp "$built/tests/plain/$t" "$at/tests/plain/$t" # each looks for the plugin two folders above itself
    "$at/tests/plain/$t"
done
find "$at" -name '*.gcda' | sort | while read -r data; do
    gcov -n -o "$(dirname "$data")" "$data" 2>/dev/null
done | awk '
    /^File / { file = $2; gsub(/\047/, "", file) }
    /^Lines executed:/ && file ~ /^executor\/(devices\/cuda|comm\/nccl|comm\/loopback)\/[a-z_]*\.c$/ {
        split($0, part, /[:% ]+/)
        run += part[3] * part[5] / 100
        all += part[5]
        printf "%6.1f%% of %4d  %s\n", part[3], part[5], file
    }
    { if (/^Lines executed:/) file = "" }
    END { printf "%6.1f%% of %4d lines\n", 100 * run / all, all }'

#!/bin/sh
# Load, the full pass list and save grow linearly: 100,000 ops take at most 12 times what 10,000 take, and under a second
# together (release build; the median of three).
. tests/support/shell.sh
bench=$(dirname "$weft")/bench/scale
make --no-print-directory BUILD="${BUILD:-build}" VARIANT="$(basename "$(dirname "$weft")")" "$bench" >/dev/null || exit 1
"$bench" 10000 100000 >"$folder/times" || exit 1
cat "$folder/times"
awk -F, 'NR == 2 { small = $2 + $3 + $4 } NR == 3 { large = $2 + $3 + $4 }
    END { printf "ratio %.1f, %.3f s\n", large / small, large; exit !(large <= 12 * small) }' "$folder/times"
ok $? "100,000 ops within 12 times 10,000"
awk -F, 'NR == 3 { exit !($2 < 1 && $3 < 1 && $4 < 1) }' "$folder/times"
ok $? "100,000 ops under a second each"
finish

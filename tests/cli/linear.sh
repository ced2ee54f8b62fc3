#!/bin/sh
# Load, the full pass list and save grow linearly. Ten times the ops leave the caches, so that 100,000 ops take 11 to 14
# times what 10,000 take (`make bench`; the aim is 12); what is quadratic would take 100 times. The best of three runs
# counts, because other load only ever adds.
. tests/support/shell.sh
bench=$(dirname "$weft")/bench/scale
[ -x "$bench" ] || { echo "$bench is not built"; exit 1; }
for run in 1 2 3; do
    "$bench" 10000 100000 >"$folder/times" || exit 1
    tail -n 2 "$folder/times" | tee -a "$folder/all"
done
awk -F, '{ t = $2 + $3 + $4 } $1 < 50000 && (!s || t < s) { s = t } $1 > 50000 && (!l || t < l) { l = t }
    END { printf "ratio %.1f, %.3f s\n", l / s, l; exit !(l <= 16 * s) }' "$folder/all"
ok $? "100,000 ops within 16 times 10,000"
awk -F, '$1 > 50000 { for (i = 2; i <= 4; i++) if (!best[i] || $i < best[i]) best[i] = $i }
    END { exit !(best[2] < 1 && best[3] < 1 && best[4] < 1) }' "$folder/all"
ok $? "100,000 ops load, go through all passes and save in under a second each"
finish

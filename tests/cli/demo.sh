#!/bin/sh
# `make demo`'s script: losses match, and the summary reports what was gained.
. tests/support/shell.sh
WEFT=$weft BUILD=$folder sh examples/demo.sh >"$folder/out" 2>&1
ok $? "the demo exits 0: $(tail -n 5 "$folder/out")"
grep -q 'scale ops removed' "$folder/out"; ok $? 'it reports how many scales went'
grep -q 'hidden' "$folder/out"; ok $? 'it reports how many collectives were hidden'
[ -s "$folder/demo/timeline.html" ] && [ -s "$folder/demo/timeline.json" ]; ok $? 'it leaves a timeline'
grep -q 'a step [0-9.]* -> [0-9.]* ms' "$folder/out"; ok $? 'it simulates a step before and after'
before=$(sed -n 's/.*compute waits for: \([0-9.]*\) -> .*/\1/p' "$folder/out")
after=$(sed -n 's/.*compute waits for: [0-9.]* -> \([0-9.]*\) ms/\1/p' "$folder/out")
awk -v before="$before" -v after="$after" 'BEGIN { exit !(before > 0 && after < before / 2) }'
ok $? "most of what compute waited for is gone: $before -> $after ms"
WEFT=$weft sh tools/pictures.sh "$folder" && cmp "$folder/overlap.svg" docs/overlap.svg
ok $? 'docs/overlap.svg is what the commands give (make docs)'
cmp "$folder/micro_pipeline.svg" docs/micro_pipeline.svg
ok $? 'docs/micro_pipeline.svg is, too'
for kind in experts heads reduce back; do
    cmp "$folder/micro_pipeline_$kind.svg" docs/micro_pipeline_$kind.svg
    ok $? "docs/micro_pipeline_$kind.svg is, too"
done
finish

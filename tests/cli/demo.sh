#!/bin/sh
# `make demo`'s script: losses match, and the summary reports what was gained.
. tests/support/shell.sh
WEFT=$weft BUILD=$folder sh examples/demo.sh >"$folder/out" 2>&1
ok $? "the demo exits 0: $(tail -n 5 "$folder/out")"
grep -q 'scale ops removed' "$folder/out"; ok $? 'it reports how many scales went'
grep -q 'hidden' "$folder/out"; ok $? 'it reports how many collectives were hidden'
[ -s "$folder/demo/timeline.html" ] && [ -s "$folder/demo/timeline.json" ]; ok $? 'it leaves a timeline'
finish

#!/bin/sh
# micro_pipeline_tp where the link is slow, simulated at 1 Gbit/s: chunks hide what can be hidden, and the guard takes no pair that they make
# slower; run where messages and products sleep as long, they hide it too. WEFT_LONG_TESTS=1: 200 shapes in place of 20, and thread ranks run 40.
. tests/support/shell.sh
. tests/support/python.sh
"$PYTHON" tests/micro_link.py "$weft" "$folder" hidden >"$folder/hidden" 2>&1
ok $? "layers hide 95 % of what can be hidden: $(grep -v ,1.000 "$folder/hidden")"
"$PYTHON" tests/micro_link.py "$weft" "$folder" late 0.95 >"$folder/late" 2>&1
status=$?
# 77: others have the processors.
[ $status != 77 ] && ok $status "run where neither link nor products take a processor, a layer hides 95 %: $(cat "$folder/late")"
[ $status != 77 ] || skipped=$((skipped + 1))
shapes=20
[ -z "${WEFT_LONG_TESTS:-}" ] || shapes=200
"$PYTHON" tests/micro_link.py "$weft" "$folder" guard $shapes >"$folder/guard" 2>&1
ok $? "with the guard none is slower: $(cat "$folder/guard")"
grep -q ' [1-9][0-9]* in chunks' "$folder/guard"
ok $? "some gain: $(cat "$folder/guard")"
"$PYTHON" tests/micro_link.py "$weft" "$folder" guard $((shapes / 2)) configs/clusters/threads.yaml >"$folder/guard" 2>&1
ok $? "nor on thread ranks: $(cat "$folder/guard")"
grep -q ' [0-2] in chunks' "$folder/guard"
ok $? "on thread ranks nearly all are left: $(cat "$folder/guard")"
if [ -n "${WEFT_LONG_TESTS:-}" ]; then
    "$PYTHON" tests/micro_link.py "$weft" "$folder" drawn 40 >"$folder/drawn" 2>&1
    ok $? "on thread ranks none is slower, measured: $(cat "$folder/drawn")"
fi
finish

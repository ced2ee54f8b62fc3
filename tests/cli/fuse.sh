#!/bin/sh
# Ops that take turns at rows, and threads that share them, change nothing in the results.
. tests/support/shell.sh
model=examples/gpt_tiny
run() {
    name=$1
    shift
    "$weft" run $model/serial.pdmodel --params $model/params.npz --feed $model/feeds.npz --steps 2 \
        --save "$folder/$name.npz" "$@" >/dev/null 2>&1
}
"$weft" plan $model/serial.pdmodel -o "$folder/gpt.plan"
grep -q 'fused: 2' "$folder/gpt.plan"; ok $? 'the plan tells which instructions take turns'
"$weft" plan "$folder/gpt.plan" | cmp -s - "$folder/gpt.plan"; ok $? 'and is read back with them'
sed 's/fused: 2/fused: 9/' "$folder/gpt.plan" >"$folder/wrong.plan"
"$weft" plan "$folder/wrong.plan" 2>&1 | grep -q 'cannot take turns'; ok $? 'instructions that cannot are refused'
run fused && run alone --no-fuse && run shared --threads 2; ok $? 'it runs fused, op by op, and on 2 threads'
cmp -s "$folder/fused.npz" "$folder/alone.npz"; ok $? 'fused or not, the same bytes'
cmp -s "$folder/fused.npz" "$folder/shared.npz"; ok $? 'on 2 threads, the same bytes'
finish

#!/bin/sh
# A plan with only the waits that the program states: right for a program that is safe in order, however late an op is;
# and where a wait is missing, a late op shows the race that is there.
. tests/support/shell.sh
case=$fixtures/paddle26/mlp_sgd_dp2
program=$folder/overlapped.yaml
"$weft" opt "$case/serial.pdmodel" --passes 'data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm' -o "$program" 2>/dev/null

# train PROGRAM OPTION...: the losses of all steps
train() {
    "$weft" run "$@" --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" --fetch mean_0.tmp_0 2>"$folder/log"
}
# number TYPE: of the last op of that type but one
number() {
    "$weft" show "$program" --type "$1" | tail -n 2 | awk '/->/ { print $1; exit }'
}

train "$program" >"$folder/right"; ok $? 'the plan by bytes runs'
train "$program" --reading in_order >/dev/null; [ $? = 1 ] && grep -q unsafe "$folder/log"
ok $? 'a plan with stated waits is refused without --unsafe'
reduce=$(number c_allreduce_sum)
for late in "$reduce:4" "$reduce:4:1" "$((reduce - 1)):4" "$((reduce + 2)):4:0"; do
    train "$program" --reading in_order --unsafe --delay "$late" | cmp -s - "$folder/right"
    ok $? "overlapped gradients are right in order with op $late late"
done

wait=$(sed -n 's/.*{sgd: .*, dist: {wait: \[\(grad_sync.[0-9]*\)\]}}$/\1/p' "$program" | head -n 1)
sed "s|, dist: {wait: \[$wait\]}||" "$program" >"$folder/racy.yaml"
cmp -s "$program" "$folder/racy.yaml"; [ $? = 1 ]; ok $? "the mutant lacks a wait"
train "$folder/racy.yaml" | cmp -s - "$folder/right"; ok $? 'by bytes the mutant is right'
train "$folder/racy.yaml" --reading in_order --unsafe --delay "$reduce:20" | cmp -s - "$folder/right"; [ $? = 1 ]
ok $? 'in order the mutant reads a gradient that is not reduced yet'

"$weft" plan "$program" --reading in_order -o "$folder/a.plan" && grep -q '^stated_waits: true' "$folder/a.plan" &&
    "$weft" plan "$folder/a.plan" | cmp -s - "$folder/a.plan"
ok $? 'such a plan says so in its text, and reads back'
"$weft" plan "$program" --reading sideways 2>/dev/null; [ $? = 2 ]; ok $? 'an unknown reading is a usage error'
"$weft" run "$program" --delay x 2>/dev/null; [ $? = 2 ]; ok $? 'a malformed delay is a usage error'
finish

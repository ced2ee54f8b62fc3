#!/bin/sh
# A plan with only the waits of a reading: right for a program that is safe under it, however late an op is; and where a
# wait is missing, a late op shows the race that is there.
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
ok $? 'a plan with given waits is refused without --unsafe'
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

"$weft" plan "$program" --reading in_order -o "$folder/a.plan" && grep -q '^given_waits: true' "$folder/a.plan" &&
    "$weft" plan "$folder/a.plan" | cmp -s - "$folder/a.plan"
ok $? 'such a plan says so in its text, and reads back'
# By name: what Paddle's pass made, for both ranks: safe as it is, but not without the nop before the reduce.
for rank in 0 1; do
    "$weft" opt "$case/rank$rank.after.default.pdmodel" -o "$folder/paddle$rank.yaml"
    sed '/{nop: {X: \[linear_0.w_0@GRAD\]}/d' "$folder/paddle$rank.yaml" >"$folder/nameless$rank.yaml"
done
op() { # TYPE NAME: number of the op of that type that names NAME
    "$weft" show "$folder/nameless0.yaml" --type "$1" | awk -v name="$2" '/->/ && index($0, name) { print $1; exit }'
}
producer=$(op matmul_v2_grad linear_0.w_0@GRAD) reduce=$(op c_allreduce_sum coalesce_grad_0_0)
for late in "$producer:4" "$reduce:4" "$reduce:4:1" "0:4:0"; do
    train "$folder/paddle0.yaml" "$folder/paddle1.yaml" --reading by_name --unsafe --delay "$late" | cmp -s - "$folder/right"
    ok $? "by name Paddle's program is right with op $late late"
done
"$weft" verify "$folder/nameless0.yaml" "$folder/nameless1.yaml" --reading by_name >"$folder/found"; [ $? = 1 ] &&
    grep -q "race: matmul_v2_grad #$producer .*c_allreduce_sum #$reduce " "$folder/found"
ok $? 'by name the last producer races with the reduce'
train "$folder/nameless0.yaml" "$folder/nameless1.yaml" | cmp -s - "$folder/right"; ok $? 'by bytes it is right'
train "$folder/nameless0.yaml" "$folder/nameless1.yaml" --reading by_name --unsafe --delay "$producer:20" |
    cmp -s - "$folder/right"; [ $? = 1 ]
ok $? 'by name the reduce takes a gradient that is not there yet'

# Another order of launches: the producer of another member of the bucket comes last, which the nop does not name.
if [ -d "$fixtures/paddle26/gpt_tiny_adamw_dp2" ]; then
    case=$fixtures/paddle26/gpt_tiny_adamw_dp2
    gpt() {
        train "$case/rank0.after.default.pdmodel" "$case/rank1.after.default.pdmodel" --steps 2 "$@"
    }
    gpt >"$folder/right"
    gpt --reading by_name --unsafe --delay 143:20 | cmp -s - "$folder/right"; ok $? 'GPT is right with op 143 late'
    gpt --reading by_name --unsafe --late 143 --delay 143:20 | cmp -s - "$folder/right"; [ $? = 1 ]
    ok $? 'but not where it is launched last of what the reduce comes after'
    "$weft" plan "$case/rank0.after.default.pdmodel" --reading by_name --late 143 >"$folder/a.plan" &&
        "$weft" plan "$folder/a.plan" | cmp -s - "$folder/a.plan"
    ok $? 'a plan in another order reads back'
else
    skipped=$((skipped + 3))
fi
"$weft" plan "$program" --reading in_order --late 3 2>/dev/null; [ $? = 2 ]; ok $? 'in order no op is launched late'
"$weft" plan "$program" --reading by_name --late x 2>/dev/null; [ $? = 2 ]; ok $? 'a malformed op is a usage error'
"$weft" plan "$program" --reading by_name --late 100000 2>/dev/null; [ $? = 1 ]; ok $? 'so many ops there are not'
"$weft" plan "$program" --reading sideways 2>/dev/null; [ $? = 2 ]; ok $? 'an unknown reading is a usage error'
"$weft" run "$program" --delay x 2>/dev/null; [ $? = 2 ]; ok $? 'a malformed delay is a usage error'
finish

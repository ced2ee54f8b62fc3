#!/bin/sh
# The null device: plays plans without parameters or feeds, the same each time; shows races and hangs that are claimed.
. tests/support/shell.sh
case=$fixtures/paddle26/mlp_sgd_dp2
program=$folder/overlapped.yaml
"$weft" opt "$case/serial.pdmodel" --passes 'data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm' -o "$program" 2>/dev/null
null() { # OPTION...
    "$weft" run "$program" --ranks 2 --device null "$@"
}

says 0 '0 races seen' 'a program runs without parameters and feeds' null
says 0 'rank 1: compute .* ms, collectives .* hidden behind compute' 'it says where each rank spent its time' null
null --steps 3 --trace "$folder/a.json" --trace "$folder/a.html" >"$folder/out1" 2>"$folder/err1" &&
    null --steps 3 --trace "$folder/b.json" --trace "$folder/b.html" >"$folder/out2" 2>"$folder/err2" &&
    cmp -s "$folder/a.json" "$folder/b.json" && cmp -s "$folder/a.html" "$folder/b.html" &&
    cmp -s "$folder/err1" "$folder/err2" && grep -q '"name":"c_allreduce_sum","cat":"collective"' "$folder/a.json"
ok $? 'the same timeline twice'
null --feed "$case/feeds.npz" 2>&1 | grep -q '^summary: 10 steps'; ok $? 'feeds give steps and shapes'
step() { # OPTION...: ms a step
    null "$@" 2>&1 | sed -n 's/.*ranks, \([0-9.]*\) ms a step.*/\1/p'
}
[ "$(step --delay 5:1000 | cut -d. -f1)" = 1000 ]; ok $? 'a delay counts'
[ "$(step --op-time 1000000 | cut -d. -f1)" -ge 15000 ]; ok $? 'rates count'

# A race that is claimed, and the program that has none.
reduce=$("$weft" show "$program" --type c_allreduce_sum | tail -n 1 | awk '{ print $1 }')
wait=$(sed -n 's/.*{sgd: .*, dist: {wait: \[\(grad_sync.[0-9]*\)\]}}$/\1/p' "$program" | tail -n 1)
sed "s|, dist: {wait: \[$wait\]}||" "$program" >"$folder/racy.yaml"
cmp -s "$program" "$folder/racy.yaml"; [ $? = 1 ]; ok $? 'the mutant lacks a wait'
"$weft" verify "$folder/racy.yaml" --ranks 2 --reading in_order 2>/dev/null | grep -q "race: c_allreduce_sum #$reduce "
ok $? 'verify claims a race'
prints 1 "^race: c_allreduce_sum #$reduce on gradient_sync writes .* and after it in the program sgd #.* on compute reads" \
    'it is seen' "$weft" run "$folder/racy.yaml" --ranks 2 --device null --reading in_order --unsafe --delay "$reduce:1"
says 0 '0 races seen' 'by bytes it is not' "$weft" run "$folder/racy.yaml" --ranks 2 --device null --delay "$reduce:1"
says 0 '0 races seen' 'nor in the program with the wait' null --reading in_order --unsafe --delay "$reduce:1"
says 1 'unsafe' 'a plan with given waits is refused without --unsafe' null --reading in_order

# A race between steps: nobody outside of a block waits for what it does on a stream of its own.
cat >"$folder/block.yaml" <<'END'
weft: 1
blocks:
- vars: {x: {float32: [4], need_check_feed: true}, g: {float32: [4]}, kept: {float32: [4], persistable: true}, c: {bool: [1], persistable: true}}
  ops:
  - {relu: {X: x}, out: {Out: g}}
  - {c_sync_calc_stream: {X: g}, out: {Out: g}}
  - {conditional_block: {Cond: c, Input: g}, out: {Out: kept}, attrs: {sub_block: !block 1, is_scalar_condition: true}}
- parent: 0
  vars: {i: {float32: [4]}}
  ops:
  - {relu: {X: g}, out: {Out: i}, dist: {stream: s}}
END
block() { # OPTION...
    "$weft" run "$folder/block.yaml" --device null --unsafe --delay 2:1 "$@"
}
"$weft" verify "$folder/block.yaml" --reading by_name 2>/dev/null | grep -q 'race: relu #2 on stream s reads "g" in one step, relu #0'
ok $? 'verify claims a race between steps'
says 0 '0 races seen' 'one step shows none' block --reading by_name
prints 1 '^race: relu #2 \(step 0 of those in flight\) on s reads "g" .* relu #0 \(step 1 of those in flight\) on compute writes' \
    'two steps in flight show it' block --reading by_name --steps-in-flight 2
says 2 'expected --reading by_name' 'by others steps never overlap' block --reading in_order --steps-in-flight 2

# A rank that dies.
says 1 "rank 0, c_allreduce_sum #$reduce, ring 0: waits for ever, since .* ms, for rank 1 \(died before c_allreduce_sum #$reduce at" \
    'who waits for whom' null --fault "$reduce:1" --trace "$folder/hang.json"
grep -q '"name":"c_allreduce_sum"' "$folder/hang.json"; ok $? 'the timeline of a step that hangs'

cat >"$folder/open.yaml" <<'END'
weft: 1
blocks:
- vars:
    x: {float32: [-1, 4]}
    y: {float32: [-1, 4]}
  ops:
  - {scale: {X: [x]}, out: {Out: ["y"]}, attrs: {scale: 2.0}}
END
says 1 '"x" has extent -1 on axis 0: what is fed must be known' 'an open extent needs a feed' "$weft" run "$folder/open.yaml" --device null
says 2 'expected cpu or null' 'an unknown device' "$weft" run "$program" --device abacus
says 2 'expected OP or OP:RANK' 'a malformed fault' null --fault 3:x
says 2 'expected --device null' 'faults are of the null device' "$weft" run "$program" --ranks 2 --fault 3
says 2 'computes nothing' 'there is nothing to save' null --save "$folder/state.npz"
says 1 'no such instruction' 'a fault before an op that is not there' null --fault 1000
finish

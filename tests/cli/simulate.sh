#!/bin/sh
# Simulation: plays plans without parameters or feeds, the same each time; shows races and hangs that are claimed.
. tests/support/shell.sh
. tests/support/python.sh
case=$fixtures/paddle26/mlp_sgd_dp2
program=$folder/overlapped.yaml
"$weft" opt "$case/serial.pdmodel" --passes 'data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm' -o "$program" 2>/dev/simulate
simulate() { # OPTION...
    "$weft" simulate "$program" --ranks 2 "$@"
}

says 0 '0 races seen' 'a program runs without parameters and feeds' simulate
says 0 'a rank: compute [0-9.]+ ms, collectives .* hidden behind compute and [0-9.]+ exposed$' 'it says where ranks spent their time' simulate
simulate --steps 3 --trace "$folder/a.json" --trace "$folder/a.html" >"$folder/out1" 2>"$folder/err1" &&
    simulate --steps 3 --trace "$folder/b.json" --trace "$folder/b.html" >"$folder/out2" 2>"$folder/err2" &&
    cmp -s "$folder/a.json" "$folder/b.json" && cmp -s "$folder/a.html" "$folder/b.html" &&
    cmp -s "$folder/err1" "$folder/err2" && grep -q '"name":"c_allreduce_sum","cat":"collective"' "$folder/a.json"
ok $? 'the same timeline twice'
simulate --feed "$case/feeds.npz" 2>&1 | grep -q '^summary: 10 steps'; ok $? 'feeds give steps and shapes'
step() { # OPTION...: ms a step
    simulate "$@" 2>&1 | sed -n 's/.*ranks, \([0-9.]*\) ms a step.*/\1/p'
}
[ "$(step --delay 5:1000 | cut -d. -f1)" = 1000 ]; ok $? 'a delay counts'
[ "$(step --op-time 1000000 | cut -d. -f1)" -ge 15000 ]; ok $? 'rates count'

# Buckets: three ways on one clock; what is planned ends a step no later than the others, and at the bound.
cat >"$folder/compare.py" <<'END'
import json, re, sys
ways = json.load(open(sys.argv[1]))
each, fixed, planned = (w['step_seconds'] for w in ways)
assert planned <= min(each, fixed) and planned < each and ways[0]['collectives'] > ways[2]['collectives'] >= 1, ways
lanes = json.loads(re.search(r'^const trace = (.*?\});$', open(sys.argv[2]).read(), re.M | re.S).group(1))['lanes']
assert [l['label'] for l in lanes if l['stream'] == 'compute'] == [w['buckets'] for w in ways], 'a lane a way'
for way in ways:
    spans = [l['events'][i:i + 4] for l in lanes if l['label'] == way['buckets'] for i in range(0, len(l['events']), 4)]
    assert min(s[2] for s in spans) == 0, 'all begin at once'
    assert abs(max(s[2] + s[3] for s in spans) - 1e9 * way['step_seconds']) < 2, 'and end with their steps'
END
for of in "$case/rank0.pdmodel" tests/data/torch/ddp/mlp6.w2/before.fx.json; do
    "$weft" simulate "$of" --ranks 2 --buckets --json --link-bytes 1e8 --trace "$folder/ways.html" 2>"$folder/ways.json" &&
        "$PYTHON" "$folder/compare.py" "$folder/ways.json" "$folder/ways.html"
    ok $? "buckets are compared: $of"
done
prints 0 '^no buckets in this order end a step before [0-9.]+ ms' 'as a table' "$weft" simulate "$case/rank0.pdmodel" --ranks 2 --buckets
says 2 'buckets: expected no --delay' 'of a plain step' "$weft" simulate "$case/rank0.pdmodel" --ranks 2 --buckets --delay 5:1

# A race that is claimed, and the program that has none.
reduce=$("$weft" show "$program" --type c_allreduce_sum | tail -n 1 | awk '{ print $1 }')
wait=$(sed -n 's/.*{sgd: .*, dist: {wait: \[\(grad_sync.[0-9]*\)\]}}$/\1/p' "$program" | tail -n 1)
sed "s|, dist: {wait: \[$wait\]}||" "$program" >"$folder/racy.yaml"
cmp -s "$program" "$folder/racy.yaml"; [ $? = 1 ]; ok $? 'the mutant lacks a wait'
"$weft" verify "$folder/racy.yaml" --ranks 2 --reading in_order 2>/dev/null | grep -q "race: c_allreduce_sum #$reduce "
ok $? 'verify claims a race'
prints 1 "^race: c_allreduce_sum #$reduce on gradient_sync writes .* and after it in the program sgd #.* on compute reads" \
    'it is seen' "$weft" simulate "$folder/racy.yaml" --ranks 2 --reading in_order --unsafe --delay "$reduce:1"
says 0 '0 races seen' 'by bytes it is not' "$weft" simulate "$folder/racy.yaml" --ranks 2 --delay "$reduce:1"
says 0 '0 races seen' 'nor in the program with the wait' simulate --reading in_order --unsafe --delay "$reduce:1"
says 1 'unsafe' 'a plan with given waits is refused without --unsafe' simulate --reading in_order

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
    "$weft" simulate "$folder/block.yaml" --unsafe --delay 2:1 "$@"
}
"$weft" verify "$folder/block.yaml" --reading by_name 2>/dev/null | grep -q 'race: relu #2 on stream s reads "g" in one step, relu #0'
ok $? 'verify claims a race between steps'
says 0 '0 races seen' 'one step shows none' block --reading by_name
prints 1 '^race: relu #2 \(step 0 of those in flight\) on s reads "g" .* relu #0 \(step 1 of those in flight\) on compute writes' \
    'two steps in flight show it' block --reading by_name --steps-in-flight 2
says 2 'expected --reading by_name' 'by others steps never overlap' block --reading in_order --steps-in-flight 2

# A rank that dies.
says 1 "rank 0, c_allreduce_sum #$reduce, ring 0: waits for ever, since .* ms, for rank 1 \(died before c_allreduce_sum #$reduce at" \
    'who waits for whom' simulate --fault "$reduce:1" --trace "$folder/hang.json"
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
says 1 '"x" has extent -1 on axis 0: what is fed must be known' 'an open extent needs a feed' "$weft" simulate "$folder/open.yaml"
says 2 'expected cpu, cuda or null' 'an unknown device' "$weft" run "$program" --device abacus
says 2 'expected OP or OP:RANK' 'a malformed fault' simulate --fault 3:x
says 2 'expected --device null' 'faults are of simulations' "$weft" run "$program" --ranks 2 --fault 3

# weft run --device null hands over, with its own options unread.
null() { # OPTION...
    "$weft" run "$program" --ranks 2 --device null --params "$case/params.npz" "$@"
}
says 0 'note: --device null is weft simulate' 'the null device is a simulation' null
null --steps 3 --trace "$folder/null.json" 2>"$folder/err3" && cmp -s "$folder/a.json" "$folder/null.json" &&
    sed 1d "$folder/err3" | cmp -s - "$folder/err1"
ok $? 'it says the same'
prints 1 "^race: c_allreduce_sum #$reduce " 'it sees a race' \
    "$weft" run "$folder/racy.yaml" --ranks 2 --device null --reading in_order --unsafe --delay "$reduce:1"
says 1 "waits for ever" 'it takes faults' null --fault "$reduce:1"
says 2 'computes nothing' 'it has nothing to save' null --save "$folder/state.npz"
says 2 'no option "--save"' 'there is nothing to save' simulate --save "$folder/state.npz"
says 1 'no such instruction' 'a fault before an op that is not there' simulate --fault 1000
# Clusters: rings that span nodes are slower, single rates override, mistakes have a place.
printf 'seconds_per_op: 1.0e-6\nlinks:\n- {ranks: 2, seconds_per_message: 1.0e-3}\n- {seconds_per_message: 0.1}\n' >"$folder/nodes.yaml"
slow() { # RANKS OPTION...: whole ms a step
    ranks=$1
    shift
    "$weft" simulate "$program" --ranks "$ranks" --cluster "$folder/nodes.yaml" "$@" 2>&1 |
        sed -n 's/.*ranks, \([0-9]*\)\.[0-9]* ms a step.*/\1/p'
}
within=$(slow 2)
"$weft" opt "$case/serial.pdmodel" --passes 'data_parallel: {ranks: 4}, prune_grad_scale, overlap_comm' -o "$folder/four.yaml" 2>/dev/null
program=$folder/four.yaml
[ "$(slow 4)" -ge $((100 * within)) ]; ok $? 'a ring over two nodes takes the link between them'
[ "$(slow 4 --link-latency 0.001)" -lt "$within" ]; ok $? '--link-latency holds for all links'
[ "$(slow 4 --op-time 10000000)" -ge 100000 ]; ok $? '--op-time overrides'
for file in configs/clusters/*.yaml; do
    says 0 '0 races seen' "$file" "$weft" simulate "$program" --ranks 4 --cluster "$file"
done
echo 'links: [{ranks: 2}, {ranks: 3}]' >"$folder/odd.yaml"
says 1 "odd.yaml:1:21: error: ranks: expected a multiple of the 2 of the link before, found 3" 'a cluster that makes no sense' \
    "$weft" simulate "$program" --ranks 4 --cluster "$folder/odd.yaml"
echo 'links: [{ranks: 2}]' >"$folder/pair.yaml"
says 1 'no link of the cluster joins ranks 1 and 2' 'ranks that nothing joins' \
    "$weft" simulate "$program" --ranks 4 --cluster "$folder/pair.yaml"
says 1 'none.yaml' 'no such cluster' "$weft" simulate "$program" --ranks 4 --cluster "$folder/none.yaml"
finish

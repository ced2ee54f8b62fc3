#!/bin/sh
# micro_pipeline_tp on recorded tensor-parallel graphs: what is taken and what is left, and all forms run to plain maths
# on all ranks (the check script beside the fixtures); programs of chunks are safe under every reading, with the bits of
# the graph, and refused with an event gone.
. tests/support/shell.sh
. tests/support/python.sh
cases=$fixtures/torch/micropipe
[ -d "$cases" ] && [ -f "$fixtures/../checks/check_micropipe.py" ] || { skipped=1; finish; exit 0; }
"$PYTHON" "$fixtures/../checks/check_micropipe.py" "$weft" "$fixtures/torch" >"$folder/check" 2>&1
ok $? "$(cat "$folder/check")"

chunks() { # case, options: programs of four ranks in $programs
    rm -f "$folder"/rank*
    "$weft" opt -q "$cases/$1/before.fx.json" --passes "micro_pipeline_tp: {guard: off$2}" -o "$folder/rank{rank}.yaml" 2>"$folder/err"
}
programs=$(for r in 0 1 2 3; do echo "$folder/rank$r.yaml"; done)
for case in ag_qkv.3d.dim0.w4 ag_mm.2d.dim0.retA.w4 mm_rs.3d.dim1.avg.w4 sp_mlp.dim1.w4; do
    [ -d "$cases/$case" ] || continue
    for options in '' ', chunks_per_shard: 2' ', strict_bits: true'; do
        chunks $case "$options"; ok $? "$case$options: one program a rank"
        for reading in in_order by_name by_bytes; do
            "$weft" verify $programs --reading $reading >"$folder/verify" 2>&1; ok $? "$case$options is safe $reading"
        done
        bits='same bits'
        case "$case$options" in *strict*|ag_*) ;; *) bits='same over the real numbers' ;; esac
        prints 0 "what ranks ran before: $bits" "$case$options: computes what the graph does" \
            "$weft" verify $programs --reading in_order --against "$cases/$case/before.fx.json"
    done
done

# rows that go to another rank, and programs of other ranks than they say, are refused
chunks ag_qkv.3d.dim0.w4 ''
sed '/p_send/s/peer: 3/peer: 1/' "$folder/rank0.yaml" >"$folder/wrong.yaml"
prints 1 'not_proved: rank' 'a chunk that goes to another rank is not proved' "$weft" verify "$folder/wrong.yaml" \
    ${programs#*.yaml} --reading in_order --against "$cases/ag_qkv.3d.dim0.w4/before.fx.json"
prints 1 '"against": "before", "grade": "not proved"' 'ranks in another order are not proved' "$weft" verify --json "$folder/rank1.yaml" "$folder/rank0.yaml" \
    "$folder/rank2.yaml" "$folder/rank3.yaml" --reading in_order --against "$folder/rank{rank}.yaml"

# rows that are multiplied twice are shown to be wrong by a value; others of the plan are right
chunks mm_rs.2d.dim0.sum.w4 ''
product=$(grep -n 'matmul_v2' "$folder/rank0.yaml" | head -n 2 | sed 's/.*X: \[\([^]]*\)\].*/\1/' | tr '\n' ' ')
# shellcheck disable=SC2086
set -- $product
[ "$1" != "$2" ] && sed "s|X: \[$2\]|X: [$1]|" "$folder/rank0.yaml" >"$folder/wrong.yaml"
prints 1 'wrong_value: rank' 'other rows are multiplied: a value shows it' "$weft" verify "$folder/wrong.yaml" \
    ${programs#*.yaml} --reading in_order --against "$cases/mm_rs.2d.dim0.sum.w4/before.fx.json"
grep -q 'shown by random data: element .* of rank' "$folder/out"; ok $? 'the value, its rank and its element are named'

# feeds of a case as files, a rank each; runs of it and of its chunks leave the same bytes
feeds='import sys, json, numpy as np
z = np.load(sys.argv[1] + "/numeric.npz"); g = json.load(open(sys.argv[1] + "/before.fx.json"))
for r in range(4): np.savez(f"{sys.argv[2]}/feed.{r}.npz", **{i["name"]: z["rank%d.in.%s" % (r, i["name"])] for i in g["inputs"]})'
same='import sys, numpy as np
for r in range(4):
    a, b = (np.load(f"{sys.argv[1]}/{w}.{r}.npz") for w in ("plain", "chunks"))
    assert sorted(a.files) == sorted(b.files) and all(a[k].tobytes() == b[k].tobytes() for k in a.files), r'
for case in ag_qkv.2d.dim0.w4 ag_mm.3d.dim1.w4 mm_rs.2d.dim0.sum.w4 mm_rs.3d.dim1.avg.w4; do
    "$PYTHON" -c "$feeds" "$cases/$case" "$folder"
    "$weft" run "$cases/$case/before.fx.json" --ranks 4 --feed "$folder/feed.{rank}.npz" --steps 1 --save "$folder/plain.{rank}.npz" >/dev/null 2>&1
    for options in '' ', chunks_per_shard: 2'; do
        chunks $case "$options, strict_bits: true"
        "$weft" run $programs --ranks 4 --feed "$folder/feed.{rank}.npz" --steps 1 --save "$folder/chunks.{rank}.npz" >/dev/null 2>"$folder/err" &&
            "$PYTHON" -c "$same" "$folder"
        ok $? "$case$options: with strict_bits the bits of the graph"
    done
done

# torch's fused nodes run as what they are defined to be, and come back byte for byte
for case in ag_qkv.3d.dim0.w4 ag_mm.2d.dim0.retA.w4 ag_mm.3d.dim1.w4 mm_rs.3d.dim1.avg.w4; do
    "$PYTHON" -c "$feeds" "$cases/$case" "$folder"
    "$weft" run "$cases/$case/before.fx.json" --ranks 4 --feed "$folder/feed.{rank}.npz" --steps 1 --save "$folder/plain.{rank}.npz" >/dev/null 2>&1
    "$weft" opt -q "$cases/$case/before.fx.json" --passes 'micro_pipeline_tp: {form: fused, guard: off}' -o "$folder/fused.fx.json" &&
        "$weft" opt -q "$folder/fused.fx.json" -o "$folder/again.fx.json" && cmp -s "$folder/fused.fx.json" "$folder/again.fx.json"
    ok $? "$case: a fused graph comes back byte for byte"
    for graph in "$folder/fused.fx.json" "$cases/$case/after.fx.json"; do
        "$weft" verify "$graph" --reading by_bytes >/dev/null 2>"$folder/err" &&
            "$weft" run "$graph" --ranks 4 --feed "$folder/feed.{rank}.npz" --steps 1 --save "$folder/chunks.{rank}.npz" >/dev/null 2>"$folder/err" &&
            "$PYTHON" -c "$same" "$folder"
        ok $? "$case: ${graph##*/} has the bits of the graph"
    done
done

# each wait of a step of rank 0 for another, gone (those around the plan are for what stands there)
for case in mm_rs.2d.dim0.sum.w4 ag_mm.2d.dim0.retA.w4; do
    chunks $case ''
    cp "$folder/rank0.yaml" "$folder/whole.yaml"
    waits=$(grep -v nop "$folder/whole.yaml" | grep -c 'wait: \[.*/[0-9]*\]') k=0
    [ "$waits" -ge 3 ]; ok $? "$case has waits"
    while [ $k -lt "$waits" ]; do
        k=$((k + 1))
        awk -v k=$k '!/nop/ && /wait: \[.*\/[0-9]*\]/ && ++n == k { sub(/,? ?wait: \[[^]]*\]/, "") } { print }' "$folder/whole.yaml" >"$folder/rank0.yaml"
        prints 1 race "$case without wait $k is refused" "$weft" verify $programs --reading in_order
    done
done
# a layer as large as in a model of 70B: all four pairs gain, as much as the guard says, and most of what was exposed is hidden
cluster=configs/clusters/h100_nodes.yaml
step_of() { "$weft" simulate "$@" --cluster $cluster 2>&1 | sed -n 's/.* ranks, \([0-9.]*\) ms a step.*/\1/p'; }
exposed_of() { "$weft" simulate "$@" --cluster $cluster 2>&1 | sed -n 's/.* and \([0-9.]*\) exposed$/\1/p'; }
for n in 8 4; do
    "$PYTHON" tests/micro_layer.py 8192 $n 8192 1 >"$folder/layer.fx.json"
    rm -f "$folder"/rank*
    "$weft" opt "$folder/layer.fx.json" --passes "micro_pipeline_tp: {cluster: $cluster}" -o "$folder/rank{rank}.yaml" 2>"$folder/report"
    [ "$(grep -c 'predicted gain' "$folder/report")" = 4 ]; ok $? "a large layer on $n ranks has four pairs that gain"
    awk -v before="$(step_of "$folder/layer.fx.json" --ranks $n)" -v after="$(step_of "$folder"/rank*.yaml --ranks $n)" \
        '/predicted gain/ { split($0, part, ": "); split(part[4], us, " "); gain += us[4] - us[1] }
        END { saved = 1000 * (before - after); print before, after, gain; exit !(gain > 100 && saved > 0.95 * gain && saved < 1.05 * gain) }' "$folder/report" >"$folder/gain"
    ok $? "a simulated step is shorter by what the guard says: $(cat "$folder/gain")"
    awk -v before="$(exposed_of "$folder/layer.fx.json" --ranks $n)" -v after="$(exposed_of "$folder"/rank*.yaml --ranks $n)" \
        'BEGIN { print before, after; exit !(before > 1 && after > 0 && after < 0.4 * before) }' >"$folder/exposed"
    ok $? "on $n ranks most of the exposed communication is hidden: $(cat "$folder/exposed")"
    [ "$("$weft" plan "$folder/rank1.yaml" --chunks | grep -c '^[a-z]')" = 4 ]; ok $? 'plan --chunks prints four plans'
done
"$PYTHON" tests/micro_layer.py 64 4 64 1 >"$folder/small.fx.json"
"$weft" opt "$folder/small.fx.json" -v --passes micro_pipeline_tp -o "$folder/small.yaml" 2>"$folder/report"
[ "$(grep -c 'too small to gain' "$folder/report")" = 4 ]; ok $? 'a small layer is left as it is'

# where few rows were measured to be slow, or products and messages to slow one another down, nothing gains
{ cat $cluster; echo 'products: {rows: [2048, 8192], flops_per_second: [2.0e+13, 9.89e+14]}'; } >"$folder/rows.yaml"
{ cat $cluster; echo 'compute_beside_collective: 2.2'; echo 'collective_beside_compute: 2.2'; } >"$folder/beside.yaml"
for measured in rows beside; do
    "$weft" opt "$folder/layer.fx.json" -v --no-prove --passes "micro_pipeline_tp: {cluster: $folder/$measured.yaml}" -o "$folder/left{rank}.yaml" 2>"$folder/report"
    [ "$(grep -c 'too small to gain' "$folder/report")" = 4 ]; ok $? "$measured: nothing gains: $(cat "$folder/report")"
done

# the same of the other kinds: experts, heads (the first of two pairs), an all-reduce; what does not gain is left
for case in 'wide_experts 2' 'wide_heads 1' 'wide_reduce 1' 'wide_reduce 1 all_reduce: scattered, chunks_per_shard: 4'; do
    # shellcheck disable=SC2086
    set -- $case
    name=$1 pairs=$2
    shift 2
    rm -f "$folder"/rank*
    "$PYTHON" tests/micro_patterns.py write "$name" 4 "$folder"
    "$weft" opt "$folder/graph.fx.json" --no-prove --passes "micro_pipeline_tp: {cluster: $cluster${*:+, $*}}" -o "$folder/rank{rank}.yaml" 2>"$folder/report"
    [ "$(grep -c 'predicted gain' "$folder/report")" = "$pairs" ]; ok $? "$case: all pairs gain: $(cat "$folder/report")"
    awk -v before="$(step_of "$folder/graph.fx.json" --ranks 4)" -v after="$(step_of $programs --ranks 4)" '/predicted gain/ { split($0, part, ": "); split(part[4], us, " "); gain += us[4] - us[1] }
        END { saved = 1000 * (before - after); print before, after, gain; exit !(gain > 10 && saved > 0.9 * gain - 10 && saved < 1.1 * gain + 10) }' "$folder/report" >"$folder/gain"
    ok $? "$case: a simulated step is shorter by what the guard says: $(cat "$folder/gain")"
done
"$PYTHON" tests/micro_patterns.py write wide_back 4 "$folder"
says 0 'all_gather #0: too small to gain' 'what is added up in memory again and again is left' \
    "$weft" opt "$folder/graph.fx.json" -v --passes "micro_pipeline_tp: {cluster: $cluster}" -o "$folder/left.yaml"

# both ways at once gain where links are direct, not where a switch has one port for a rank
sed 's/ranks: 8, /ranks: 8, topology: switch, /' $cluster >"$folder/switch.yaml"
predicted() { # CLUSTER DIRECTIONS: microseconds in chunks of a layer's four pairs
    "$weft" opt "$folder/layer.fx.json" -v --no-prove --passes "micro_pipeline_tp: {cluster: $1, directions: $2, guard: off}" -o "$folder/way{rank}.yaml" 2>&1 |
        awk '/predicted gain/ { split($0, part, ": "); split(part[4], us, " "); sum += us[1] } END { print sum }'
}
for links in $cluster "$folder/switch.yaml"; do
    awk -v one="$(predicted "$links" one)" -v both="$(predicted "$links" both)" -v gains="$([ "$links" = $cluster ] && echo 1)" \
        'BEGIN { print one, both; exit !(one > 0 && (gains ? both < 0.97 * one : both >= 0.99 * one)) }' >"$folder/ways"
    ok $? "both ways on $(basename "$links"): $(cat "$folder/ways")"
done

says 1 '\{rank\}' 'chunks need a program a rank' "$weft" opt "$cases/ag_mm.2d.dim0.w4/before.fx.json" --passes 'micro_pipeline_tp: {guard: off}'
says 0 'left alone \(dependency\): all_gather #0' 'a candidate that is left says why' \
    "$weft" opt "$cases/neg.A_is_rhs.w4/before.fx.json" -v --passes 'micro_pipeline_tp: {guard: off}'
finish

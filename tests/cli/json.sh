#!/bin/sh
# --json: documents of the schemas in docs/json.md, with the numbers that the text has.
. tests/support/shell.sh
. tests/support/python.sh
model=examples/gpt_tiny
list=tests/golden/full_list/out.yaml
# The document in FILE holds what the expression says of it as d.
holds() { # FILE EXPRESSION WHAT
    "$PYTHON" -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert eval(sys.argv[2]), sys.argv[2]' "$1" "$2" 2>"$folder/why" || { tail -n 1 "$folder/why"; false; }
    ok $? "$3"
}

# --- ops, passes, info ---
"$weft" ops --json >"$folder/ops.json"
holds "$folder/ops.json" 'len(d["ops"]) > 100 and {"type", "family", "summary", "inputs", "outputs", "attrs", "effects", "devices", "has_inference"} == set(d["ops"][0])' 'ops --json has every column'
[ "$("$weft" ops | wc -l)" = "$("$PYTHON" -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["ops"]))' "$folder/ops.json")" ]
ok $? 'and every row'
"$weft" ops relu --json >"$folder/relu.json"
holds "$folder/relu.json" '[o["type"] for o in d["ops"]] == ["relu"] and d["ops"][0]["devices"] == ["cpu"]' 'ops TYPE --json is one row'
"$weft" passes --json >"$folder/passes.json"
holds "$folder/passes.json" '{o["name"]: o for p in d["passes"] if p["name"] == "data_parallel" for o in p["options"]}["ranks"]["type"] == "int" and any(p["changes_meaning"] for p in d["passes"])' 'passes --json has options with types'
"$weft" passes data_parallel --json >"$folder/one.json"
holds "$folder/one.json" '[p["name"] for p in d["passes"]] == ["data_parallel"] and any(o["choices"] and "mean" in o["choices"] for o in d["passes"][0]["options"])' 'passes PASS --json has choices'
says 1 'no pass "nope"' 'passes NOPE --json is an error' "$weft" passes nope --json
"$weft" info --json >"$folder/info.json"
holds "$folder/info.json" 'd["version"].startswith("weft ") and any(f["name"] == "oneDNN" or f["found"] for f in d["features"])' 'info --json has the features'
"$weft" info $list --json >"$folder/info.json"
holds "$folder/info.json" 'd["ops"]["all"] == sum(d["op_types"].values()) and d["vars"]["persistable"] > 0 and list(d["op_types"].values()) == sorted(d["op_types"].values(), reverse=True)' 'info PROGRAM --json counts'

# --- opt ---
dp='data_parallel: {ranks: 2}, overlap_comm, coalesce_grads, insert_dependencies'
"$weft" opt $model/serial.pdmodel --passes "$dp" -o "$folder/dp.pdmodel" --json >"$folder/opt.json" 2>"$folder/err"
ok $? 'opt --json'
holds "$folder/opt.json" '[p["pass"] for p in d["passes"]] == ["data_parallel", "overlap_comm", "coalesce_grads", "insert_dependencies"] and d["error"] is None' 'opt --json names the passes, on stdout'
holds "$folder/opt.json" 'd["passes"][0]["not_checked"] and d["passes"][2]["proof"]["grade"] == "same bits" and d["passes"][2]["counts"]["buckets"] == d["summary"]["buckets"] > 0 and d["passes"][-1]["ops_after"] == d["summary"]["ops_after"]' 'with counts, proofs and sums'
[ -s "$folder/err" ]; [ $? = 1 ]; ok $? 'and no text beside it'
"$weft" opt $model/serial.pdmodel --passes "$dp" --json="$folder/opt2.json" >"$folder/dp.yaml" 2>/dev/null
"$weft" opt $model/serial.pdmodel --passes "$dp" --quiet | cmp -s - "$folder/dp.yaml"; ok $? 'opt --json=F leaves stdout to the program'
holds "$folder/opt2.json" 'len(d["passes"]) == 4' 'and F has the report'
says 1 'weft opt: ' 'a list that fails' \
    "$weft" opt "$folder/dp.pdmodel" --passes 'data_parallel: {ranks: 2}' -o "$folder/none.yaml" --json="$folder/failed.json"
holds "$folder/failed.json" 'd["error"] and d["summary"] is None and d["passes"][0]["failure"]' 'is told in the report, which sums up nothing'

# --- show, plan ---
"$weft" show $list --vars --placements --json >"$folder/show.json"
holds "$folder/show.json" 'len(d["blocks"][0]["ops"]) == d["blocks"][0]["nops"] and len(d["blocks"][0]["vars"]) == d["blocks"][0]["nvars"] and "placement" in d["blocks"][0]["vars"][0]' 'show --json has ops and vars'
"$weft" show "$folder/dp.pdmodel" --type c_allreduce_sum --json >"$folder/show.json"
holds "$folder/show.json" 'all(o["type"] == "c_allreduce_sum" and o["ring"] == 0 and o["stream"] == "gradient_sync" and o["inputs"]["X"] for o in d["blocks"][0]["ops"]) and "vars" not in d["blocks"][0]' 'show --type --json chooses'
"$weft" plan "$folder/dp.pdmodel" --json >"$folder/plan.json"
holds "$folder/plan.json" "d['collectives'] == $("$weft" plan "$folder/dp.pdmodel" --summary | sed -n 's/^collectives *//p') and d['memory']['live_nbytes'] > 0 and any(v['persistable'] for v in d['values'])" 'plan --json counts as --summary does'

holds "$folder/plan.json" 'len(d["schedule"]) == d["instructions"] and any(i["ring"] == 0 and i["stream"] == "gradient_sync" and i["after"].get("compute", 0) > 0 for i in d["schedule"])' 'and has every instruction with what it waits for'
holds "$folder/plan.json" 'all(v["offset"] + v["nbytes"] <= d["memory"][v["space"] + "_nbytes"] for v in d["values"]) and {n for i in d["schedule"] for s in i["in"].values() for n in s if n} <= {v["name"] for v in d["values"]}' 'and every value with its place'

# --- run, simulate ---
"$weft" run "$folder/dp.pdmodel" --params $model/params.npz --feed $model/feeds.npz --steps 3 --fetch mean_0.tmp_0 --trace "$folder/t.json" --json="$folder/run.json" >"$folder/csv" 2>"$folder/err"
ok $? 'run --json=F'
holds "$folder/run.json" 'd["ranks"] == 2 and d["steps"]["done"] == 3 and 0 < d["steps"]["least_seconds"] <= d["steps"]["median_seconds"] and d["overlap"]["collectives"] > 0 and d["next_step"] == 3 and d["stopped_by"] is None' 'run --json sums up'
grep -q summary "$folder/err"; [ $? = 1 ]; ok $? 'in place of the lines'
[ "$(grep -c mean_0 "$folder/csv")" = 6 ]; ok $? 'the CSV is as ever'
"$weft" simulate "$folder/dp.pdmodel" --json 2>"$folder/simulate.json" >/dev/null
holds "$folder/simulate.json" 'd["races"] == 0 and d["overlap"] is None and [r["rank"] for r in d["rank_times"]] == [0, 1] and d["rank_times"][0]["compute_seconds"] > 0' 'simulate --json, on stderr'
says 1 'nowhere/r.json' 'a report that cannot be written is told before the first step' \
    "$weft" run "$folder/dp.pdmodel" --params $model/params.npz --feed $model/feeds.npz --json="$folder/nowhere/r.json"

# --- verify ---
cat >"$folder/declared.yaml" <<'END'
weft: 1
blocks:
- idx: 0
  vars:
    x: {float32: [4, 8]}
    y: {float32: [5, 8]}
  ops:
  - {relu: {X: [x]}, out: {Out: [y]}}
END
"$weft" verify "$folder/declared.yaml" --json | head -n 1 >"$folder/declared.json"
holds "$folder/declared.json" 'd["reading"] == "declared" and d["result"]["findings"][0]["verdict"] == "invalid_program" and "float32 [5, 8] declared" in d["result"]["findings"][0]["message"]' 'verify --json has what declarations contradict'

# --- names that are not UTF-8, quotes ---
printf 'weft: 1\nblocks:\n- vars:\n    "a\\"b\\\\c": {float32: [2]}\n  ops: []\n' >"$folder/quoted.yaml"
"$weft" show "$folder/quoted.yaml" --vars --json >"$folder/quoted.json"
holds "$folder/quoted.json" 'd["blocks"][0]["vars"][0]["name"] == "a\"b\\c"' 'names are quoted'
printf 'weft: 1\nblocks:\n- vars:\n    zzzz: {float32: [2]}\n  ops:\n  - {qqqq: {X: [zzzz]}, out: {Out: [zzzz]}}\n' >"$folder/u.yaml"
"$weft" opt "$folder/u.yaml" --quiet -o "$folder/u.pdmodel"
"$PYTHON" -c 'import sys
b = open(sys.argv[1], "rb").read()
open(sys.argv[1], "wb").write(b.replace(b"zzzz", b"z\xff\xfez").replace(b"qqqq", b"q\xff\xfeq"))' "$folder/u.pdmodel"
"$weft" show "$folder/u.pdmodel" --vars --json >"$folder/u.json"
holds "$folder/u.json" 'd["blocks"][0]["ops"][0]["type"] == "q\ufffd\ufffdq" and d["blocks"][0]["vars"][0]["name"] == "z\ufffd\ufffdz"' 'bytes that are not UTF-8 are replaced'
"$weft" info "$folder/u.pdmodel" --json >"$folder/u.json"
holds "$folder/u.json" 'd["op_types"] == {"q\ufffd\ufffdq": 1}' 'in keys too'
finish

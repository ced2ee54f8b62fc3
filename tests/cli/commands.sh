#!/bin/sh
# The sub-commands on a recorded program: what scripts and people see.
. tests/support/shell.sh
. tests/support/python.sh
case=$fixtures/paddle26/mlp_sgd_dp2

"$weft" opt "$case/rank0.pdmodel" -o "$folder/a.yaml" && "$weft" opt "$folder/a.yaml" -o "$folder/a.pdmodel"
ok $? 'opt converts to YAML and back'
cmp -s "$case/rank0.pdmodel" "$folder/a.pdmodel"; ok $? 'through YAML and back gives the same bytes'
[ -f "$folder/a.dist.json" ]; ok $? 'the sidecar is written beside a .pdmodel'
"$weft" opt - <"$folder/a.yaml" | cmp -s - "$folder/a.yaml"; ok $? 'YAML on stdin to YAML on stdout is the same text'
"$weft" opt "$case/rank0.pdmodel" -o "$folder/a.pdmodel.gz" && gunzip -c "$folder/a.pdmodel.gz" | cmp -s - "$case/rank0.pdmodel"
ok $? '.gz is gzip'
"$weft" diff "$case/rank0.pdmodel" "$folder/a.pdmodel" >/dev/null 2>&1; ok $? 'diff of equal programs exits 0'
"$weft" diff "$case/rank0.pdmodel" "$case/serial.pdmodel" >"$folder/diff" 2>/dev/null
[ $? = 1 ] && grep -q '^-.*c_allreduce_sum' "$folder/diff"; ok $? 'diff shows the removed ops and exits 1'

"$weft" opt "$case/serial.pdmodel" --passes configs/data_parallel.yaml --set data_parallel.ranks=2 -o "$folder/dp.pdmodel" 2>"$folder/log"
ok $? 'opt with a preset and --set'
grep -q 'summary: ops 1[0-9] -> .*scale' "$folder/log"; ok $? 'the report ends with a summary'
grep -q 'not checked: it makes the program one rank' "$folder/log" && [ "$(grep -c 'proved in .*: same' "$folder/log")" = 4 ]
ok $? 'every pass but data_parallel is proved to keep what the program computes'
"$weft" opt --no-prove "$case/serial.pdmodel" --passes 'prune_grad_scale' -o "$folder/b.pdmodel" 2>&1 | grep -q 'proved'
[ $? = 1 ]; ok $? 'without proofs where the list turns them off'
"$weft" show "$folder/dp.pdmodel" --type c_allreduce_sum | grep -q 'stream gradient_sync'; ok $? 'show names the stream'
"$weft" show "$folder/dp.pdmodel" | grep -q c_wait_compute; [ $? = 1 ]; ok $? 'a finished program holds no c_wait_compute'
"$weft" plan "$folder/dp.pdmodel" -o "$folder/dp.plan" && "$weft" plan "$folder/dp.plan" | cmp -s - "$folder/dp.plan"
ok $? 'a printed plan reads back to the same text'
"$weft" plan "$folder/dp.pdmodel" --summary | grep -q '^collectives'; ok $? 'plan --summary'
"$weft" opt "$fixtures/torch/ddp/mlp6.w2/before.fx.json" --passes 'fuse_allreduce_buckets: {mode: concat}' --stats -o "$folder/f.fx.json" 2>"$folder/log"
grep -q '12 all_reduce, ring 0, float32: 196.4 KiB' "$folder/log" && grep -q '  1 all_reduce, ring 0, float32: 196.4 KiB' "$folder/log" && grep -q 'bucket 0: fingerprint [0-9a-f]*$' "$folder/log"
ok $? 'opt --stats reports collectives and bytes before and after, and fingerprints'
"$weft" plan "$folder/f.fx.json" --summary | grep -q '^buckets       1 of 196.4 KiB together, the largest 196.4 KiB'
ok $? 'plan --summary reports what buckets take'
"$weft" info | grep -q oneDNN; ok $? 'info reports what the build found'
"$weft" info "$case/rank0.pdmodel" | grep -q 'c_allreduce_sum'; ok $? 'info on a program counts op types'
"$weft" ops | grep -q matmul_v2; ok $? 'ops lists the table'
"$weft" ops --markdown | cmp -s - docs/ops.md; ok $? 'docs/ops.md is what `weft ops --markdown` prints'
"$weft" passes | grep -q coalesce_grads; ok $? 'passes lists the table'
sh tools/passes_doc.sh "$weft" | cmp -s - docs/passes.md; ok $? 'docs/passes.md is what tools/passes_doc.sh prints'

"$weft" run "$folder/dp.pdmodel" --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" --fetch mean_0.tmp_0 \
    --save "$folder/final.{rank}.npz" --trace "$folder/t.json" --trace "$folder/t.html" >"$folder/csv" 2>"$folder/log"
ok $? 'run with a trace and a file per rank'
[ "$(grep -c '^[0-9]*,[01],mean_0.tmp_0,' "$folder/csv")" = 20 ]; ok $? 'CSV: a line per step and rank'
[ -f "$folder/final.0.npz" ] && [ -f "$folder/final.1.npz" ]; ok $? '{rank} in --save gives a file per rank'
"$PYTHON" -c 'import json, sys; t = json.load(open(sys.argv[1])); e = [x for x in t["traceEvents"] if x["ph"] == "X"]
assert {x["pid"] for x in e} == {0, 1} and len({x["tid"] for x in e}) == 2' "$folder/t.json"
ok $? 'the trace is JSON with a lane per rank and stream'
grep -q '<html' "$folder/t.html" && ! grep -q -E 'src="http|href="http' "$folder/t.html"; ok $? 'the HTML page needs no network'
"$weft" run "$case/serial.pdmodel" --params "$case/params.pdiparams" --feed "$case/feeds.npz" --fetch mean_0.tmp_0 >"$folder/a.csv" 2>/dev/null &&
    "$weft" run "$case/serial.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch mean_0.tmp_0 2>/dev/null | cmp -s - "$folder/a.csv"
ok $? 'parameters from .pdiparams and .npz are the same'
fetch_two() { "$weft" run "$case/serial.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz" "$@" 2>/dev/null; }
fetch_two --fetch mean_0.tmp_0 --fetch opt_learning_rate_0 >"$folder/two.csv" && fetch_two --fetch mean_0.tmp_0,opt_learning_rate_0 | cmp -s - "$folder/two.csv" &&
    grep -q ',opt_learning_rate_0,' "$folder/two.csv" && grep -q ',mean_0.tmp_0,' "$folder/two.csv"
ok $? '--fetch names more vars each time that it is given'
"$weft" run "$case/startup.pdmodel" --save "$folder/init.npz" --seed 7 2>/dev/null && "$weft" run "$case/startup.pdmodel" --save "$folder/again.npz" --seed 7 2>/dev/null &&
    cmp -s "$folder/init.npz" "$folder/again.npz"
ok $? 'a startup program runs, and the same seed gives the same parameters'

# A norm over a coalesced buffer counts its members only: what earlier values left in the padding is cleared.
cat >"$folder/padding.yaml" <<'END'
weft: 1
blocks:
- idx: 0
  vars:
    t: {float32: [4096]}
    u: {float32: [4096]}
    "n": {float32: [1]}
    a: {float32: [3]}
    b: {float32: [3]}
    f: {float32: []}
    norm: {float32: [1]}
  ops:
  - {fill_constant: {}, out: {Out: [t]}, attrs: {shape: !longs [4096], dtype: 5, value: 7.0}}
  - {scale: {X: [t]}, out: {Out: [u]}, attrs: {scale: 1.0}}
  - {squared_l2_norm: {X: [u]}, out: {Out: ["n"]}}
  - {coalesce_tensor: {Input: [a, b]}, out: {FusedOutput: [f], Output: [a, b]}, attrs: {dtype: 5, use_align: true, align_size: 256}}
  - {fill_constant: {}, out: {Out: [a]}, attrs: {shape: !longs [3], dtype: 5, value: 1.0}}
  - {fill_constant: {}, out: {Out: [b]}, attrs: {shape: !longs [3], dtype: 5, value: 1.0}}
  - {squared_l2_norm: {X: [f]}, out: {Out: [norm]}}
END
[ "$("$weft" run "$folder/padding.yaml" --fetch norm 2>/dev/null | tail -n 1)" = "0,0,norm,6" ]; ok $? 'padding of a coalesced buffer is zero'
# Results that get lost are an error, whichever flush has lost them.
train() { "$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz" --steps 2 --fetch mean_0.tmp_0; }
on_full() { train >/dev/full; }
on_none() { train >&-; }
says 1 'cannot write to standard output' 'a full disk behind stdout' on_full
says 1 'cannot write to standard output' 'stdout is closed' on_none
launched() { WEFT_LAUNCH=$1 train; }
says 2 'WEFT_LAUNCH: expected mpi or mpi:RANKS .*, found "mpx"' 'another way to launch' launched mpx
says 2 'WEFT_LAUNCH: .*, found "mpi:0"' 'processes without ranks' launched mpi:0
finish

#!/bin/sh
# Costs: a machine is measured, a run profiled, prices set beside it; all commands read the files; wrong files are refused.
. tests/support/shell.sh
case=$fixtures/paddle26/mlp_sgd_dp2
program=$case/rank0.pdmodel
cluster=$folder/cluster.yaml
times=$folder/times.json
"$weft" calibrate "$program" --ranks 2 --steps 3 --most-bytes 16384 -o "$cluster" &&
    grep -q '^flops_per_second: [0-9]' "$cluster" && grep -q '^- op: reduce_scatter' "$cluster"
ok $? 'a machine is measured'
"$weft" run "$program" --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" "--profile=$times" >/dev/null 2>&1
ok $? 'a run is profiled'
grep -q '"median_step_seconds":' "$times" && grep -q '"median_seconds":' "$times"
ok $? 'a profile has medians'
prints 0 '^c_allreduce_sum #.* measured +[0-9.]+ +[+-][0-9.]+%' 'prices of collectives stand beside what was measured' \
    "$weft" plan "$program" --costs --cluster "$cluster" --times "$times"
prints 0 '^the measured step took [0-9.]+ ms' 'and the step' "$weft" plan "$program" --costs --times "$times"
prints 0 ' NCCL [a-zA-Z ]+ (LL|LL128|Simple) ' 'the way that NCCL would take is named' sh -c \
    "printf 'machine: h100\\nlinks: [{ranks: 8, bytes_per_second: 3.7e+11}]\\n' >'$folder/nccl.yaml' &&
     '$weft' plan '$program' --costs --cluster '$folder/nccl.yaml'"
predicted=$("$weft" opt "$program" --passes "prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: auto, cluster: $cluster, times: $times}" -o "$folder/out.pdmodel" 2>&1 |
    sed -n 's/.*the step ends at \([0-9.]*\) ms.*/\1/p')
"$weft" simulate "$folder/out.pdmodel" --ranks 2 --cluster "$cluster" --times "$times" --json 2>"$folder/json" &&
    python3 - "$folder/json" "$predicted" <<'END'
import json, sys
sys.exit(abs(1e3 * json.load(open(sys.argv[1]))["steps"]["median_seconds"] - float(sys.argv[2])) > 1e-6)
END
ok $? 'buckets are planned by them, and the simulation agrees'

# Processes measure together, and one of them writes what all agree on: else they would run other programs next.
if "$weft" info | grep -q '^MPI *yes' && command -v mpirun >/dev/null; then
    "$weft" calibrate --launch --ranks 3 --processes 2 --steps 2 --most-bytes 4096 -o "$folder/processes.yaml" 2>"$folder/err" &&
        [ "$(grep -c '^  ranks: 3' "$folder/processes.yaml")" = 4 ] &&
        "$weft" simulate "$program" --ranks 2 --cluster "$folder/processes.yaml" 2>/dev/null
    ok $? "processes are measured: $(tail -n 2 "$folder/err")"
    says 2 'expected ordered or library' 'sums of another kind' "$weft" calibrate --launch --collectives fast
fi

for pass in plan_buckets 'coalesce_grads: {bucket_mb: auto}'; do
    "$weft" opt "$program" --passes "overlap_comm, $pass" -o "$folder/by.yaml" -q && mv "$folder/by.yaml" "$folder/by.$(echo "$pass" | cut -c1-4).yaml"
done
cmp -s "$folder/by.plan.yaml" "$folder/by.coal.yaml"; ok $? 'plan_buckets is coalesce_grads with bucket_mb: auto'
says 0 'did: most_mb: the step ends 0.0[0-9]* ms later than without it' 'the price of a limit of size is told' \
    "$weft" opt "$program" --passes 'overlap_comm, plan_buckets: {most_mb: 0.004}' -o "$folder/capped.yaml"
says 0 'did: [0-9.]* MiB of temporaries are live at once, at most; most_live_mb lets be' 'memory is told' \
    "$weft" opt "$program" --passes 'overlap_comm, plan_buckets: {most_live_mb: 100}' -o "$folder/live.yaml"
says 1 'most_live_mb: .* with a reduce for each gradient: expected no less, found 0.001' 'too little memory' \
    "$weft" opt "$program" --passes 'overlap_comm, plan_buckets: {most_live_mb: 0.001}' -o "$folder/none.yaml"
"$weft" opt -q "$program" --passes 'prune_grad_scale, overlap_comm, plan_buckets: {most_mb: 0.004}' -o "$folder/capped.yaml" \
    --certificate "$folder/capped.json"
prints 0 'no buckets end a step before .*; these end it at .*, [0-9.]+% later' 'the bound of a certificate is of all buckets' \
    "$weft" verify --certificate "$folder/capped.json" "$program" "$folder/capped.yaml"
says 1 'most_mb: only bucket_mb: auto asks for one' 'a fixed size has no other limit' \
    "$weft" opt "$program" --passes 'overlap_comm, coalesce_grads: {most_mb: 1}' -o "$folder/none.yaml"

# Reduces on a slow link: the last one has to wait for it, though it is ready first: its result is needed last.
printf 'links: [{bytes_per_second: 1.0e+9, seconds_per_message: 1.0e-6}]\n' >"$folder/link.yaml"
for why in '1 reduces are sent behind later ones that the step needs first: it ends 0.000253 ms earlier' \
    'reduce 1: .* 0.000000 hidden; 8448 bytes exposed: it is ready no sooner, and what waits is sgd #19' \
    'reduce 2: .* hidden behind sgd #19 to sgd #21; 214 bytes exposed: its stream is busy until then, and what waits is sgd #22'; do
    says 0 "$why" 'why bytes are exposed is told' "$weft" opt "$program" \
        --passes "prune_grad_scale, overlap_comm, plan_buckets: {cluster: $folder/link.yaml}" -o "$folder/why.yaml"
done

other=$fixtures/paddle26/mlp_adam_dp2_amp/rank0.pdmodel
says 1 'times.json:[0-9]+:1: error: the profile is of another program: this one has no ' 'of another program: a simulation' \
    "$weft" simulate "$other" --ranks 2 --times "$times"
says 1 'the profile is of another program' 'a pass' "$weft" opt "$other" \
    --passes "overlap_comm, coalesce_grads: {bucket_mb: auto, times: $times}" -o "$folder/none.pdmodel"
says 1 'the profile is of another program' 'prices' "$weft" plan "$other" --costs --times "$times"
says 1 'times: only bucket_mb: auto asks for one' 'a fixed size asks for no profile' "$weft" opt "$program" \
    --passes "overlap_comm, coalesce_grads: {times: $times}" -o "$folder/none.pdmodel"
printf 'collectives:\n- {op: all_reduce, ranks: 2, bytes: [1, 2], seconds: [2, 1]}\n' >"$folder/bad.yaml"
says 1 'bad.yaml:2:58: error: seconds: expected no less than the 2 before' 'contradicting figures' \
    "$weft" simulate "$program" --ranks 2 --cluster "$folder/bad.yaml"
says 2 'expected --costs' 'a cluster without costs' "$weft" plan "$program" --cluster "$cluster"
says 2 '--steps: expected a whole number' 'a malformed number' "$weft" calibrate --steps none
finish

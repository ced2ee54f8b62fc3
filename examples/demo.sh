#!/bin/sh
# A small GPT that Paddle recorded, made data-parallel over 4 ranks and optimized. It is trained for 10 steps on threads of this process,
# and compared with the losses that Paddle computed. Leaves a timeline that a browser or Perfetto opens.
set -eu
cd "$(dirname "$0")/.."
weft=${WEFT:-build/release/weft}
out=${BUILD:-build}/demo
model=examples/gpt_tiny
mkdir -p "$out"

echo "== 1. the serial program becomes data-parallel over 4 ranks, then cheap"
# The model is small (0.5 MiB of gradients), so the buckets are small too: several can travel during the backward pass.
"$weft" opt "$model/serial.pdmodel" --passes configs/data_parallel.yaml --set data_parallel.ranks=4 \
    --set coalesce_grads.bucket_mb=0.1 --set coalesce_grads.first_bucket_mb=0.02 -o "$out/gpt_tiny.pdmodel" 2>"$out/opt.log" ||
    { cat "$out/opt.log"; exit 1; }
cat "$out/opt.log"

echo
echo "== 2. ten steps on 4 ranks, each with a compute and a gradient-sync stream"
result=0
"$weft" run "$out/gpt_tiny.pdmodel" --ranks 4 --params "$model/params.npz" --feed "$model/feeds.npz" --steps 10 \
    --fetch mean_0.tmp_0 --expect "$model/losses.npz" --tolerance 1e-4 --save "$out/final.npz" \
    --trace "$out/timeline.json" --trace "$out/timeline.html" >"$out/losses.csv" 2>"$out/run.log" || result=$?
cat "$out/run.log"

echo
echo "== 3. a step on 4 GPUs of a described node, before and after the passes"
"$weft" opt "$model/serial.pdmodel" --quiet --passes 'data_parallel: {ranks: 4}' -o "$out/before.pdmodel"
simulate() { # PROGRAM NAME
    "$weft" simulate "$1" --ranks 4 --cluster configs/clusters/h100_nodes.yaml --feed "$model/feeds.npz" --steps 1 \
        --trace "$out/$2.json" --trace "$out/$2.html" 2>"$out/$2.log" || { cat "$out/$2.log"; exit 1; }
}
simulate "$out/before.pdmodel" simulated_before
simulate "$out/gpt_tiny.pdmodel" simulated_after
step_of() { sed -n 's/^summary: .*, \([0-9.]*\) ms a step.*/\1/p' "$out/$1.log"; }
exposed_of() { sed -n 's/^summary: a rank: .* and \([0-9.]*\) exposed.*/\1/p' "$out/$1.log"; }
echo "   simulated, configs/clusters/h100_nodes.yaml: a step $(step_of simulated_before) -> $(step_of simulated_after) ms"
echo "   communication that compute waits for: $(exposed_of simulated_before) -> $(exposed_of simulated_after) ms"
hidden=$(sed -n 's/^summary: .*hidden.*/&/p' "$out/run.log" | tail -n 1)
echo "   the run above: ${hidden#summary: }"
echo "   There a reduce needs a core like any op. 8 streams share $(nproc), so little of it can hide."

echo
echo "== 4. the timelines, one lane per rank and stream"
echo "   $out/timeline.html   (any browser)"
echo "   $out/timeline.json   (https://ui.perfetto.dev)"
echo "   $out/simulated_before.html, $out/simulated_after.html"

echo
echo "== 5. summary"
sed -n 's/^summary: /   /p' "$out/opt.log" "$out/run.log"
exit $result

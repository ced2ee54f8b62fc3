#!/bin/sh
# A small GPT that Paddle recorded, made data-parallel over 4 ranks, optimized, trained for 10 steps on threads of this
# process, and compared with the losses that Paddle computed. Leaves a timeline that a browser or Perfetto opens.
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
echo "== 3. the timeline, one lane per rank and stream"
echo "   $out/timeline.html   (any browser)"
echo "   $out/timeline.json   (https://ui.perfetto.dev)"

echo
echo "== 4. summary"
sed -n 's/^summary: /   /p' "$out/opt.log" "$out/run.log"
exit $result

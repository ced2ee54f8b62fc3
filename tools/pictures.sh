#!/bin/sh
# Makes docs/overlap.svg: a step of the example on 4 GPUs of one node, as data_parallel leaves it and after all passes. Then
# docs/micro_pipeline.svg, and docs/micro_pipeline_KIND.svg.
# usage: tools/pictures.sh [FOLDER]     where to write; default: docs
set -eu
cd "$(dirname "$0")/.."
weft=${WEFT:-build/release/weft}
. tests/support/python.sh
to=${1:-docs}
model=examples/gpt_tiny
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

timeline() { # NAME PASS-OPTION...
    name=$1
    shift
    "$weft" opt "$model/serial.pdmodel" --quiet "$@" -o "$folder/$name.pdmodel"
    "$weft" simulate "$folder/$name.pdmodel" --ranks 4 --cluster configs/clusters/h100_nodes.yaml \
        --feed "$model/feeds.npz" --steps 1 --trace "$folder/$name.json" 2>/dev/null
}
timeline before --passes 'data_parallel: {ranks: 4}'
timeline after --passes configs/data_parallel.yaml --set data_parallel.ranks=4 --set coalesce_grads.bucket_mb=0.1 \
    --set coalesce_grads.first_bucket_mb=0.02
python3 tools/overlap_svg.py "$folder/before.json" "$folder/after.json" >"$to/overlap.svg"

# docs/micro_pipeline.svg: the products of a transformer layer on 4 GPUs, sequence parallel, as they are and in chunks.
python3 tests/micro_layer.py 4096 4 4096 1 >"$folder/layer.fx.json"
"$weft" opt "$folder/layer.fx.json" --quiet --no-prove -o "$folder/rank{rank}.yaml" \
    --passes 'micro_pipeline_tp: {cluster: configs/clusters/h100_nodes.yaml, guard: off}'
"$weft" simulate "$folder/layer.fx.json" --ranks 4 --cluster configs/clusters/h100_nodes.yaml --trace "$folder/before.json" 2>/dev/null
"$weft" simulate "$folder/rank0.yaml" "$folder/rank1.yaml" "$folder/rank2.yaml" "$folder/rank3.yaml" --ranks 4 \
    --cluster configs/clusters/h100_nodes.yaml --trace "$folder/after.json" 2>/dev/null
python3 tools/overlap_svg.py "$folder/before.json" "$folder/after.json" communication >"$to/micro_pipeline.svg"

# docs/micro_pipeline_KIND.svg: the other kinds of pairs (tests/micro_patterns.py), as they are and in chunks.
for kind in experts heads reduce back; do
    "$PYTHON" tests/micro_patterns.py write wide_$kind 4 "$folder"
    "$weft" opt "$folder/graph.fx.json" --quiet --no-prove -o "$folder/rank{rank}.yaml" \
        --passes 'micro_pipeline_tp: {cluster: configs/clusters/h100_nodes.yaml, guard: off, directions: both}'
    "$weft" simulate "$folder/graph.fx.json" --ranks 4 --cluster configs/clusters/h100_nodes.yaml --trace "$folder/before.json" 2>/dev/null
    "$weft" simulate "$folder/rank0.yaml" "$folder/rank1.yaml" "$folder/rank2.yaml" "$folder/rank3.yaml" --ranks 4 \
        --cluster configs/clusters/h100_nodes.yaml --trace "$folder/after.json" 2>/dev/null
    python3 tools/overlap_svg.py "$folder/before.json" "$folder/after.json" communication >"$to/micro_pipeline_$kind.svg"
done

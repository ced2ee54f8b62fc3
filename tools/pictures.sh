#!/bin/sh
# Makes docs/overlap.svg: a step of the example on 4 GPUs of one node, as data_parallel leaves it and after all passes.
# usage: tools/pictures.sh [FOLDER]     where to write; default: docs
set -eu
cd "$(dirname "$0")/.."
weft=${WEFT:-build/release/weft}
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

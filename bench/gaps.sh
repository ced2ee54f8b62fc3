#!/bin/sh
# Planned buckets of five models on two ranks over three links, without and with factors for what slows one another down: the step, the
# bound that the certificate's checker proves, the gap, and what it comes from. A model's figures: no machine is measured.
# usage: bench/gaps.sh [COMPUTE COLLECTIVE]     the factors, default 1.2 and 1.9, as of two busy cores
. tests/support/shell.sh
echo '| model | link | factors | reduces | step ms | bound ms | gap | since |'
echo '| --- | --- | --- | --- | --- | --- | --- | --- |'
for model in mlp lenet gpt_tiny gpt_mini resnet18; do
    "$weft" opt -q "$fixtures/peers/$model/serial.pdmodel" --passes 'data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm' -o "$folder/dp.pdmodel" || exit 1
    for link in '1.18e+8 5.0e-5 1 Gbit/s' '1.18e+9 2.0e-5 10 Gbit/s' '1.18e+10 5.0e-6 100 Gbit/s'; do
        for factors in '1 1' "${1:-1.2} ${2:-1.9}"; do
            # shellcheck disable=SC2046,SC2086
            printf '{flops_per_second: 1.0e+11, bytes_per_second: 2.0e+10, compute_beside_collective: %s, collective_beside_compute: %s,
                links: [{bytes_per_second: %s, seconds_per_message: %s}]}' $factors $(echo "$link" | cut -d ' ' -f 1,2) >"$folder/cluster.yaml"
            "$weft" opt "$folder/dp.pdmodel" --passes "plan_buckets: {cluster: \"$folder/cluster.yaml\"}, insert_dependencies" -o "$folder/out.pdmodel" \
                --certificate "$folder/c.json" 2>/dev/null || exit 1
            "$weft" verify --certificate "$folder/c.json" "$folder/dp.pdmodel" "$folder/out.pdmodel" >"$folder/verdict" || exit 1
            sed -n "s#.* a step before \([0-9.]*\) ms; these end it at \([0-9.]*\) ms, \([0-9.]*%\) later\(, since \(.*\)\)\{0,1\}#| $model | $(
                echo "$link" | cut -d ' ' -f 3-) | $factors | $(grep -c '"start_ns"' "$folder/c.json") | \2 | \1 | \3 | \5 |#p" "$folder/verdict"
        done
    done
done

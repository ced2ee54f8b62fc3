#!/bin/sh
# MLPs on a mesh of 2 x 4: no more collectives than XLA makes of them on 8 devices, which combines those of a kind
# (jaxlib 0.10.2, XLA:CPU; tests/spmd_xla.py has the placements). Gradients are summed in buckets, and all is proved.
. tests/support/shell.sh
. tests/support/python.sh
for name in megatron sequence megatron_gradients fsdp_gradients data_parallel_gradients; do
    rm -f "$folder"/rank*
    most=$("$PYTHON" tests/spmd_xla.py $name "$folder")
    "$weft" opt -q "$folder/serial.yaml" --dist "$folder/annotate.json" --passes configs/spmd.yaml -o "$folder/rank{rank}.yaml"
    made=$("$weft" show "$folder/rank0.yaml" | grep -c -E ' (c_all|c_reduce|c_concat|c_broadcast|alltoall|all_)[a-z_]*\(')
    [ "${made:-0}" -ge 1 ] && [ "$made" -le "$most" ]; ok $? "$name: $made collectives, XLA makes $most"
    "$weft" verify "$folder"/rank?.yaml --reading by_bytes --against "$folder/serial.yaml" >"$folder/verify" 2>&1
    ok $? "$name is proved to be the serial program"
done
finish

#!/bin/sh
# Recorded programs on processes of any MPI: the bits of threads, and an end in time when one dies.
. tests/support/shell.sh
. tests/support/python.sh
among_mpi
if ! "$weft" info | grep -q '^MPI *yes' || ! command -v mpirun >/dev/null; then
    skipped=1
    finish
    exit
fi
trains() { # CASE RANKS LAUNCH
    case=$fixtures/$1
    [ -f "$case/serial.pdmodel" ] || { skipped=$((skipped + 1)); return; }
    loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
    "$weft" opt -q "$case/serial.pdmodel" --passes "configs/$4.yaml" --set data_parallel.ranks="$2" -o "$folder/dp.pdmodel"
    for launch in '' "$3"; do
        WEFT_LAUNCH=$launch "$weft" run "$folder/dp.pdmodel" --ranks "$2" --params "$case/params.npz" --feed "$case/feeds.npz" \
            --fetch "$loss" --steps 3 --save "$folder/$launch.npz" >"$folder/$launch.csv" 2>"$folder/err"
        ok $? "$1, '$launch': $(tail -n 1 "$folder/err")"
    done
    cmp -s "$folder/.csv" "$folder/$3.csv" && cmp -s "$folder/.npz" "$folder/$3.npz"
    ok $? "$1 on $2 ranks, $3, $4: the bits of threads"
}
trains paddle26/gpt_tiny_adamw_dp2 2 mpi shard_updates
trains paddle26/gpt_tiny_adamw_dp2 4 mpi:2 data_parallel
case=$fixtures/paddle3/mlp_adam_dp2
mkdir "$folder/sweep"
"$PYTHON" tests/support/kill_sweep.py "$weft" "$folder/sweep" 2 5 "$case/rank0.pdmodel" "$case/rank1.pdmodel" -- \
    --params "$case/params.npz" --feed "$case/feeds.npz" >"$folder/out"
ok $? "two kills: $(cat "$folder/out")"
finish

#!/bin/sh
# Processes killed and stopped before, inside and behind ops that are drawn by chance: the others end in time, with the name of who has
# gone and where. WEFT_LONG_TESTS=1: 500 of them, on 2, 3 and 4 ranks; and on 2 ranks a kill at each place of each op.
. tests/support/shell.sh
. tests/support/python.sh
case=$fixtures/paddle3/mlp_adam_dp2
if ! "$weft" info | grep -q '^MPI *yes' || ! command -v mpirun >/dev/null || [ ! -f "$case/rank0.pdmodel" ]; then
    skipped=1
    finish
    exit
fi
sweep() { # KILLS SEED PROGRAM...
    kills=$1 seed=$2
    shift 2
    "$PYTHON" tests/support/kill_sweep.py "$weft" "$folder/sweep" "$kills" "$seed" "$@" -- --params "$case/params.npz" \
        --feed "$case/feeds.npz" >"$folder/out"
    result=$?
    grep -v ' 0 failed$' "$folder/out"
    ok $result "$kills processes of $# killed or stopped"
}
mkdir "$folder/sweep"
if [ -z "${WEFT_LONG_TESTS:-}" ]; then
    sweep 4 1 "$case/rank0.pdmodel" "$case/rank1.pdmodel"
else
    sweep every 0 "$case/rank0.pdmodel" "$case/rank1.pdmodel"
    sweep 250 1 "$case/rank0.pdmodel" "$case/rank1.pdmodel"
    for ranks in 3 4; do
        "$weft" opt -q "$case/serial.pdmodel" --passes 'data_parallel' --set data_parallel.ranks=$ranks -o "$folder/dp.pdmodel"
        # shellcheck disable=SC2046
        sweep 125 $ranks $(for _ in $(seq $ranks); do echo "$folder/dp.pdmodel"; done)
    done
fi
finish

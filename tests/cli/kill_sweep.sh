#!/bin/sh
# Processes killed and stopped before, inside and behind ops that are drawn by chance: the others end in time, with the name of who has
# gone and where. WEFT_LONG_TESTS=1: 500 of them, on 2, 3 and 4 ranks; and a kill and a stop at each place of each op.
. tests/support/shell.sh
. tests/support/python.sh
among_mpi
case=$fixtures/paddle3/mlp_adam_dp2
if ! "$weft" info | grep -q '^MPI *yes' || ! command -v mpirun >/dev/null || [ ! -f "$case/rank0.pdmodel" ]; then
    skipped=1
    finish
    exit
fi
feeds=$case/feeds.npz
sweep() { # KILLS SEED PROGRAM...
    kills=$1 seed=$2
    shift 2
    "$PYTHON" tests/support/kill_sweep.py "$weft" "$folder/sweep" "$kills" "$seed" "$@" -- --params "$case/params.npz" \
        --feed "$feeds" >"$folder/out"
    result=$?
    grep -v ' 0 failed$' "$folder/out"
    ok $result "$kills processes of $# killed or stopped"
}
mkdir "$folder/sweep"
if [ -z "${WEFT_LONG_TESTS:-}" ]; then
    sweep 4 1 "$case/rank0.pdmodel" "$case/rank1.pdmodel"
else
    export WEFT_SWEEP_JOBS="${WEFT_SWEEP_JOBS:-3}"
    for fault in SIGKILL SIGSTOP; do sweep $fault 0 "$case/rank0.pdmodel" "$case/rank1.pdmodel"; done
    sweep 250 1 "$case/rank0.pdmodel" "$case/rank1.pdmodel"
    # 16 rows a step, or 12 where there are 3 ranks
    "$weft" opt -q "$case/serial.pdmodel" -o "$folder/rows16.yaml"
    sed 's/: \[16, /: [12, /' "$folder/rows16.yaml" >"$folder/rows12.yaml"
    "$PYTHON" - "$case/feeds.npz" "$folder/feeds12.npz" <<'EOF'
import sys
import numpy as np
z = np.load(sys.argv[1])
np.savez(sys.argv[2], **{k: z[k][:12] for k in z.files})
EOF
    for ranks in 4 3; do
        rows=$([ $ranks = 3 ] && echo 12 || echo 16)
        "$weft" opt -q "$folder/rows$rows.yaml" --passes 'data_parallel' --set data_parallel.ranks=$ranks -o "$folder/dp.pdmodel"
        [ $ranks = 3 ] && feeds=$folder/feeds12.npz
        # shellcheck disable=SC2046
        set -- $(for _ in $(seq $ranks); do echo "$folder/dp.pdmodel"; done)
        for kills in 125 SIGKILL SIGSTOP; do sweep $kills $ranks "$@"; done
    done
fi
finish

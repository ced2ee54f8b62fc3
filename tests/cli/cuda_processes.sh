#!/bin/sh
# Ranks as processes on device cuda, over stand-ins: each has a GPU, and rings of NCCL go from process to process. Results
# have the bits of ranks that are threads. Skipped where there is no plugin for CUDA, or no MPI. WEFT_LONG_TESTS=1: more programs,
# and two ranks a process.
. tests/support/shell.sh
. tests/support/python.sh
standin=$(dirname "$weft")/standin
if ! [ -f "$(dirname "$weft")/weft_cuda.so" ] || ! "$weft" info | grep -q '^MPI *yes' || ! command -v mpirun >/dev/null; then
    skipped=1
    finish
    exit
fi
export WEFT_CUDA_PATH="$standin" WEFT_STANDIN_GPUS=8

programs_of="paddle3/mlp_adam_dp2 paddle26/gpt_tiny_dp2_mp2"
forms=mpi
[ -n "${WEFT_LONG_TESTS:-}" ] && programs_of="$programs_of paddle26/mlp_dp2_sharding paddle26/mlp_dp2_sp2_tworings" && forms="mpi mpi:2"
for name in $programs_of; do
    case=$fixtures/$name
    [ -f "$case/rank0.pdmodel" ] && [ -f "$case/params.npz" ] && [ -f "$case/feeds.npz" ] || continue
    programs=$(for r in 0 1 2 3; do [ -f "$case/rank$r.pdmodel" ] && echo "$case/rank$r.pdmodel"; done)
    n=$(echo "$programs" | wc -l)
    loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
    run() { # WHAT ENVIRONMENT... : results in $folder/WHAT.*
        what=$1
        shift
        # shellcheck disable=SC2086
        env "$@" "$weft" run $programs --ranks "$n" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" \
            --unsafe --device cuda --watchdog 100:300 --steps 3 --save "$folder/$what.npz" >"$folder/$what.csv" 2>"$folder/$what.err"
        ok $? "$name, $what: $(tail -n 2 "$folder/$what.err")"
    }
    run threads WEFT_LAUNCH=
    for form in $forms; do
        [ "$form" = mpi ] || [ "$n" -gt 2 ] || continue
        mkdir "$folder/shared"
        one= # a process of one rank takes memory on no GPU but that one's
        [ "$form" = mpi ] && one=WEFT_STANDIN_ONE_GPU=1
        run processes WEFT_LAUNCH=$form WEFT_STANDIN_SHARED="$folder/shared" ${one:+"$one"}
        cmp "$folder/threads.csv" "$folder/processes.csv"
        ok $? "$name, $form: the same losses"
        same_bits "$folder/threads.npz" "$folder/processes.npz" "$name, $form"
        [ "$(ls "$folder/shared" | grep -c call)" -gt "$n" ]
        ok $? "$name, $form: data went from process to process"
        rm -r "$folder/shared"
    done
done

# --- what goes wrong in one process ends all ----------------------------------------------------------------------------
case=$fixtures/paddle26/mlp_sgd_dp2
loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
fails() { # FAIL PATTERN WHAT WATCHDOG
    mkdir "$folder/shared"
    WEFT_LAUNCH=mpi WEFT_STANDIN_FAIL=$1 WEFT_STANDIN_SHARED="$folder/shared" timeout 300 "$weft" run \
        "$case/rank0.pdmodel" "$case/rank1.pdmodel" --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" \
        --fetch "$loss" --device cuda --watchdog "$4" >"$folder/out" 2>"$folder/err"
    status=$?
    [ $status != 0 ] && [ $status != 124 ] && grep -q -E "$2" "$folder/err"
    ok $? "$3: exit $status: $(cat "$folder/err")"
    rm -r "$folder/shared"
}
fails allreduce:3 'rank [01], .*c_allreduce_sum.*a failure of the stand-in' 'a collective that is refused' 100:300
fails hang:5 'ring' 'a collective that does not end' 1:5
fails init:1 'ncclCommInitRankConfig' 'a rank without a communicator' 100:300
finish

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

# --- ranks dealt to hosts in turn -----------------------------------------------------------------------------------------
# Two hosts of two GPUs: process p is on host p % 2, as number p / 2 of it. The stand-in refuses two ranks on one GPU.
cat >"$folder/sum.yaml" <<'EOF'
weft: 1
rings: {0: [0, 1, 2, 3]}
blocks:
- vars:
    x: {float32: [1, 3]}
    y: {float32: [1, 3]}
  ops:
  - {c_allreduce_sum: {X: [x]}, out: {Out: [y]}, attrs: {ring_id: 0}}
EOF
"$PYTHON" -c "import numpy, sys; numpy.savez(sys.argv[1], x=numpy.arange(12, dtype='float32').reshape(4, 3))" "$folder/x.npz"
sum="$folder/sum.yaml --ranks 4 --feed $folder/x.npz --fetch y --steps 1"
# shellcheck disable=SC2086
"$weft" run $sum --save "$folder/cpu.npz" >"$folder/out" 2>"$folder/err"
ok $? 'a sum of 4 ranks on CPUs'
cat >"$folder/deal.sh" <<'EOF'
# deal.sh NAMES VARIABLE NUMBER COMMAND...: a name for each host, or each process; NUMBER: its own one there, or an inherited 0
p=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
unset OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID SLURM_LOCALID LOCAL_RANK
export WEFT_STANDIN_HOST=host$((p % 2)) NCCL_HOSTID=$1$([ "$1" = host ] && echo $((p % 2)) || echo "$p")
[ "$2" = - ] || export "$2=$([ "$3" = own ] && echo $((p / 2)) || echo 0)"
shift 3
exec "$@"
EOF
deal() { # NAMES VARIABLE NUMBER
    mkdir "$folder/shared"
    # shellcheck disable=SC2086
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 WEFT_STANDIN_GPUS=2 WEFT_STANDIN_SHARED="$folder/shared" \
        mpirun --oversubscribe -n 4 sh "$folder/deal.sh" "$@" "$weft" run $sum --device cuda \
        --save "$folder/dealt.npz" >"$folder/out" 2>"$folder/err"
    status=$?
    rm -r "$folder/shared"
    return $status
}
by() { # WHAT NAMES VARIABLE NUMBER
    what=$1
    shift
    deal "$@"
    ok $? "$what: $(tail -n 2 "$folder/err")"
    same_bits "$folder/cpu.npz" "$folder/dealt.npz" "$what"
    rm -f "$folder/dealt.npz"
}
by "each rank has a GPU by its host's name" host - -
for variable in OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID SLURM_LOCALID LOCAL_RANK; do
    by "each rank has a GPU by $variable, where names do not tell" process $variable own
done
by 'a number that all processes have inherited is not believed' host LOCAL_RANK inherited
deal process - -
grep -q 'Duplicate GPU detected' "$folder/err"
ok $? "two ranks on a GPU are found: $(tail -n 2 "$folder/err")"

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

#!/bin/sh
# Ranks as processes: --launch, WEFT_LAUNCH and a plain mpirun give the output and the bits of thread ranks. Skipped where there
# is no MPI. WEFT_LONG_TESTS=1: every recorded program whose ranks communicate.
. tests/support/shell.sh
. tests/support/python.sh
among_mpi
if ! "$weft" info | grep -q '^MPI *yes'; then
    says 1 'needs MPI: .*weft_mpi.so' 'without the plugin --launch says what is missing' \
        "$weft" run "$fixtures/paddle3/mlp_adam_dp2/serial.pdmodel" --ranks 2 --unsafe --launch
    skipped=1
    finish
    exit
fi
if ! command -v mpirun >/dev/null; then
    skipped=1
    finish
    exit
fi

# --- the same results ---------------------------------------------------------------------------------------------------
cases="paddle3/mlp_adam_dp2 paddle26/mlp_dp2_sp2_tworings paddle26/gpt_tiny_dp2_mp2"
[ -n "${WEFT_LONG_TESTS:-}" ] && cases=$(cd "$fixtures" && ls -d paddle*/*)
for name in $cases; do
    case=$fixtures/$name
    [ -f "$case/rank0.pdmodel" ] && [ -f "$case/params.npz" ] && [ -f "$case/feeds.npz" ] || continue
    programs=$(for r in 0 1 2 3 4 5 6 7; do [ -f "$case/rank$r.pdmodel" ] && echo "$case/rank$r.pdmodel"; done)
    n=$(echo "$programs" | wc -l)
    loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
    refused=0 # Paddle has one program that reduces a sparse gradient
    run() { # WHAT ENVIRONMENT... : results in $folder/WHAT.*
        what=$1
        shift
        rm -f "$folder/$what.npz"
        # shellcheck disable=SC2086
        env "$@" "$weft" run $programs --ranks "$n" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" \
            --unsafe --save "$folder/$what.npz" >"$folder/$what.csv" 2>"$folder/$what.err"
        got=$?
        [ $got = 1 ] && grep -q 'collectives take dense tensors only$' "$folder/$what.err" && refused=$((refused + 1)) got=0
        ok $got "$name, $what: $(tail -n 2 "$folder/$what.err")"
    }
    run threads WEFT_LAUNCH=
    run processes WEFT_LAUNCH=mpi
    if [ $refused -gt 0 ]; then
        [ $refused = 2 ]
        ok $? "$name: what threads refuse, processes do"
        continue
    fi
    cmp "$folder/threads.csv" "$folder/processes.csv"
    ok $? "$name: the same losses"
    same_bits "$folder/threads.npz" "$folder/processes.npz" "$name, a process a rank"
    [ "$n" -gt 2 ] || continue
    run hybrid WEFT_LAUNCH=mpi:2
    cmp "$folder/threads.csv" "$folder/hybrid.csv"
    ok $? "$name: the same losses, two ranks a process"
    same_bits "$folder/threads.npz" "$folder/hybrid.npz" "$name, two ranks a process"
done

# --- messages, memory and MPI's own sums ------------------------------------------------------------------------------
if command -v mpicc >/dev/null; then
    cat >"$folder/count.c" <<'EOF'
#include <mpi.h>
#include <stdio.h>
int MPI_Iallreduce(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c, MPI_Request *r) {
    fputs("MPI adds up\n", stderr);
    return PMPI_Iallreduce(in, out, n, t, op, c, r);
}
int MPI_Isend(const void *in, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r) {
    if (n > 10000) fputs("a long message\n", stderr);
    return PMPI_Isend(in, n, t, to, tag, c, r);
}
EOF
    mpicc -shared -fPIC -o "$folder/count.so" "$folder/count.c"
    case=$fixtures/paddle3/mlp_adam_dp2
    loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
    "$weft" opt -q "$case/serial.pdmodel" --passes configs/data_parallel.yaml --set data_parallel.ranks=4 -o "$folder/dp4.pdmodel"
    for how in ordered library; do
        for processes in 2 4; do
            env LD_PRELOAD="$folder/count.so" "$weft" run "$folder/dp4.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz" \
                --fetch "$loss" --launch --processes $processes --collectives $how --json >"$folder/$how.csv" 2>"$folder/$how.err"
            ok $? "--collectives $how in $processes processes: $(tail -n 3 "$folder/$how.err")"
            grep -q "\"collectives\": \"$how\"" "$folder/$how.err"
            ok $? "--collectives $how is in the report"
            [ "$(grep -c 'MPI adds up' "$folder/$how.err")" -gt 0 ] && found=library || found=ordered
            [ $found = $how ]
            ok $? "--collectives $how in $processes processes: sums are $found"
        done
    done
    for shared in 1 0; do
        env WEFT_MPI_SHARED=$shared LD_PRELOAD="$folder/count.so" "$weft" run "$folder/dp4.pdmodel" --params "$case/params.npz" \
            --feed "$case/feeds.npz" --fetch "$loss" --launch --processes 2 >"$folder/shared$shared.csv" 2>"$folder/$shared.err"
        ok $? "WEFT_MPI_SHARED=$shared: $(tail -n 3 "$folder/$shared.err")"
        grep -q 'a long message' "$folder/$shared.err" && found=0 || found=1
        [ $found = $shared ]
        ok $? "WEFT_MPI_SHARED=$shared: elements go by $([ $shared = 1 ] && echo memory || echo messages)"
        cmp -s "$folder/ordered.csv" "$folder/shared$shared.csv"
        ok $? "WEFT_MPI_SHARED=$shared: the same losses"
    done
    cat >"$folder/gather.yaml" <<'EOF'
weft: 1
rings: {0: [0, 1]}
blocks:
- vars:
    x: {float32: [100, 1000]}
    y: {float32: [200, 1000]}
  ops:
  - {fill_constant: {}, out: {Out: [x]}, attrs: {shape: [100, 1000], dtype: 5, value: 2.0}}
  - {c_allgather: {X: [x]}, out: {Out: [y]}, attrs: {ring_id: 0, nranks: 2}}
EOF
    for shared in 1 0; do
        env WEFT_MPI_SHARED=$shared LD_PRELOAD="$folder/count.so" "$weft" run "$folder/gather.yaml" --ranks 2 --fetch y --steps 1 \
            --launch >"$folder/out" 2>"$folder/$shared.err"
        ok $? "c_allgather, WEFT_MPI_SHARED=$shared: $(tail -n 3 "$folder/$shared.err")"
        grep -q 'a long message' "$folder/$shared.err" && found=0 || found=1
        [ $found = $shared ]
        ok $? "WEFT_MPI_SHARED=$shared: what is gathered goes by $([ $shared = 1 ] && echo memory || echo messages)"
    done
    grep -q 'may differ from run to run' "$folder/library.err" && ! grep -q 'may differ' "$folder/ordered.err"
    ok $? '--collectives library says that it is not reproducible'
    paste -d, "$folder/ordered.csv" "$folder/library.csv" | awk -F, 'NR > 1 { d = $4 - $8; if (d < 0) d = -d; n++; bad += d > 1e-4 * $4 }
        END { exit n == 0 || bad }'
    ok $? '--collectives library: nearly the same losses'
    says 2 'expected ordered or library' 'no other --collectives' "$weft" run "$folder/dp4.pdmodel" --collectives mine
    says 1 'ranks are threads of one process' '--collectives library needs processes' \
        "$weft" run "$folder/dp4.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz" --collectives library
fi

# --- the command --------------------------------------------------------------------------------------------------------
case=$fixtures/paddle3/mlp_adam_dp2
set -- "$case/rank0.pdmodel" "$case/rank1.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz"
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 "$weft" run "$@" \
    --save "$folder/rank{rank}.npz" >"$folder/out" 2>"$folder/err"
ok $? "a plain mpirun is recognised: $(cat "$folder/err")"
[ -f "$folder/rank0.npz" ] && [ -f "$folder/rank1.npz" ]
ok $? 'each process saves its own ranks'
says 1 'no parameters were given' 'a failure of all processes ends them' \
    "$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --launch --feed "$case/feeds.npz"
says 1 'weft run: .*/none.npz: cannot open: No such file' 'a file that no process finds' \
    "$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --launch --params "$folder/none.npz"
[ "$(wc -l <"$folder/err")" = 1 ]
ok $? "an error that all processes have is told once: $(cat "$folder/err")"
says 1 '^weft run: mpirun[^ ]* ended with exit status 1, .* had begun; those of --hosts a:1,b:1 are started by /bin/false$' \
    'an agent that starts nothing' "$weft" run "$@" --launch --hosts a:1,b:1 --launch-agent /bin/false
says 2 'launch-agent: expected --hosts' '--launch-agent without hosts' "$weft" run "$@" --launch --launch-agent /bin/false
says 2 'hosts: expected --launch' '--hosts alone is a usage error' "$weft" run "$@" --hosts a:1
for hosts in localhost:x localhost:0 localhost:2, ':2' 'a:1, b:1' ''; do
    says 2 'hosts: expected NAME:PROCESSES' "--hosts '$hosts' names no hosts" "$weft" run "$@" --launch --hosts "$hosts"
done
says 2 'hosts has room for 1 process, and the run has 2' '--hosts with too little room' "$weft" run "$@" --launch --hosts a:1
says 2 'processes: expected a whole number from 1 to 2' 'no more processes than ranks' "$weft" run "$@" --launch --processes 3

# --- programs -----------------------------------------------------------------------------------------------------------
# Each process has a folder of its own, and no other rank's program in it.
loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
"$weft" opt -q "$case/serial.pdmodel" --passes data_parallel --set data_parallel.ranks=2 -o "$folder/dp.yaml"
for program in "$folder/dp.yaml" -; do
    "$weft" run "$program" --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" --steps 2 --launch \
        <"$folder/dp.yaml" >"$folder/$(basename "$program").csv" 2>"$folder/err"
    ok $? "processes of $program: $(cat "$folder/err")"
done
cmp "$folder/dp.yaml.csv" "$folder/-.csv"
ok $? 'a program on stdin is what it is in a file'
says 2 'hosts: expected a program in a file' 'other hosts cannot read stdin' \
    "$weft" run - --ranks 2 --launch --hosts a:1,b:1 <"$folder/dp.yaml"
for r in 0 1; do
    mkdir "$folder/only$r"
    cp "$case/rank$r".* "$folder/only$r"
done
weft_path=$(realpath "$weft") files="--params $(realpath "$case/params.npz") --feed $(realpath "$case/feeds.npz")"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
apart() { # ARGUMENTS...
    # shellcheck disable=SC2086
    mpirun --oversubscribe -n 1 -wdir "$folder/only0" "$weft_path" run rank0.pdmodel rank1.pdmodel $files "$@" : \
        -n 1 -wdir "$folder/only1" "$weft_path" run rank0.pdmodel rank1.pdmodel $files "$@"
}
apart --fetch "$loss" --unsafe --save "$folder/apart.npz" >"$folder/apart.csv" 2>"$folder/err"
ok $? "a process opens the programs of its own ranks alone: $(cat "$folder/err")"
"$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" \
    --save "$folder/together.npz" >"$folder/together.csv" 2>"$folder/err"
cmp "$folder/apart.csv" "$folder/together.csv"
ok $? 'a process opens its own programs: the same losses'
same_bits "$folder/together.npz" "$folder/apart.npz" 'a process opens its own programs'

# --- torchrun -----------------------------------------------------------------------------------------------------------
# --collectives library is refused where ranks are threads.
by_torchrun() { # RANK WORLD_SIZE LOCAL_WORLD_SIZE ARGUMENTS...
    environment="RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=$2 LOCAL_WORLD_SIZE=$3"
    shift 3
    # shellcheck disable=SC2086
    env $environment "$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" $files --fetch "$loss" "$@"
}
by_torchrun 1 2 2 --save "$folder/torchrun1.npz" >"$folder/torchrun1.csv" 2>"$folder/err"
ok $? "torchrun's process 1 leaves the run to process 0: $(cat "$folder/err")"
[ ! -s "$folder/torchrun1.csv" ] && [ ! -s "$folder/err" ] && [ ! -e "$folder/torchrun1.npz" ]
ok $? "torchrun's process 1 prints and writes nothing"
by_torchrun 0 2 2 --save "$folder/torchrun.npz" >"$folder/torchrun.csv" 2>"$folder/err"
ok $? "torchrun's process 0 starts all: $(tail -n 2 "$folder/err")"
cmp "$folder/torchrun.csv" "$folder/together.csv"
ok $? 'by torchrun: the same losses'
same_bits "$folder/together.npz" "$folder/torchrun.npz" 'by torchrun'
by_torchrun 0 2 2 --collectives library >"$folder/out" 2>"$folder/err"
ok $? "by torchrun ranks are processes: $(tail -n 2 "$folder/err")"
says 2 '1 of 2 processes on this host .LOCAL_WORLD_SIZE.: expected --hosts' "torchrun's hosts have to be named" by_torchrun 0 2 1
says 2 '3 processes .WORLD_SIZE., and the program is run on 2 ranks' 'torchrun has started too many' by_torchrun 0 3 3

# --- programs that are not there, or not whole ------------------------------------------------------------------------
says 1 'rank1.pdmodel.*No such file' 'whether replicas stay equal is looked at by one process, in all programs' apart
head -c 700 "$case/rank1.pdmodel" >"$folder/only1/rank1.pdmodel"
since=$(date +%s)
says 1 '\[process 1\] weft run: rank1.pdmodel: .*claims' 'an error in one program ends all processes' apart --unsafe
[ $(($(date +%s) - since)) -le 20 ] && [ "$(grep -c 'weft run: ' "$folder/err")" = 1 ]
ok $? "an error in one program ends all processes, in time and told once: $(cat "$folder/err")"
says 1 '^weft run: .*/rank1.pdmodel: .*claims' 'the launcher tells an error in a program before it starts anything' \
    "$weft" run "$case/rank0.pdmodel" "$folder/only1/rank1.pdmodel" --launch --params "$case/params.npz" --feed "$case/feeds.npz"
[ "$(wc -l <"$folder/err")" = 1 ]
ok $? "the launcher tells it once: $(cat "$folder/err")"
cat >"$folder/other.yaml" <<'EOF'
weft: 1
rank: 1
rings: {0: [0, 1]}
blocks:
- vars:
    y: {float32: [2, 3]}
    z: {float32: [2, 3]}
  ops:
  - {scale: {X: [y]}, out: {Out: [z]}, attrs: {scale: 2.0}}
EOF
sed 's/y:/x:/; s/\[y\]/[x]/; s/rank: 1/rank: 0/' "$folder/other.yaml" >"$folder/one.yaml"
"$PYTHON" -c "import numpy, sys; a = numpy.arange(12, dtype='float32').reshape(4, 3); numpy.savez(sys.argv[1], x=a, y=a)" "$folder/xy.npz"
"$weft" run "$folder/one.yaml" "$folder/other.yaml" --feed "$folder/xy.npz" --fetch z --steps 1 --launch \
    --save "$folder/z{rank}.npz" >"$folder/out" 2>"$folder/err"
ok $? "a feed that another rank's program alone has: $(cat "$folder/err")"
"$PYTHON" -c "
import numpy, sys
a = numpy.arange(12, dtype='float32').reshape(4, 3)
for r in 0, 1: assert (numpy.load(sys.argv[1] % r)['z'] == 2 * a[2 * r:2 * r + 2]).all(), r" "$folder/z%d.npz"
ok $? 'each rank is fed its part of it'

# --- shapes of feeds --------------------------------------------------------------------------------------------------
# What rank 1 is fed changes shape, what rank 0 is fed does not: both change executors in the same steps.
for r in 0 1; do
    cat >"$folder/shape$r.yaml" <<EOF
weft: 1
rank: $r
rings: {0: [0, 1]}
blocks:
- vars:
    y: {float32: [-1]}
    n: {float32: [1]}
  ops:
  - {reduce_sum: {X: [y]}, out: {Out: [n]}, attrs: {reduce_all: true, keep_dim: true}}
  - {c_allreduce_sum: {X: [n]}, out: {Out: [n]}, attrs: {ring_id: 0}}
EOF
done
"$PYTHON" -c "
import numpy, sys
for r in 0, 1: numpy.savez(sys.argv[1] % r, **{f'{s}/y': numpy.full(2 + r * (s % 2), s + r, 'float32') for s in range(6)})
numpy.savez(sys.argv[1] % 2, **{f'{s}/y': numpy.ones(2, 'float32') for s in range(5)})" "$folder/y%d.npz"
for launch in '' mpi; do
    WEFT_LAUNCH=$launch "$weft" run "$folder/shape0.yaml" "$folder/shape1.yaml" --feed "$folder/y{rank}.npz" --fetch n --watchdog 2:10 \
        >"$folder/shapes$launch.csv" 2>"$folder/err"
    ok $? "one rank's feeds change shape, '$launch': $(tail -n 1 "$folder/err")"
done
cmp "$folder/shapes.csv" "$folder/shapesmpi.csv"
ok $? "one rank's feeds change shape: the same results"
mv "$folder/y2.npz" "$folder/y1.npz"
says 1 'rank 0 is fed 6 steps, rank 1 5' 'ranks that are fed another number of steps' "$weft" run "$folder/shape0.yaml" \
    "$folder/shape1.yaml" --feed "$folder/y{rank}.npz" --fetch n --launch

# --- faults -------------------------------------------------------------------------------------------------------------
"$PYTHON" - "$case/feeds.npz" "$folder/feed.npz" <<'EOF'
import sys
import numpy as np
z = np.load(sys.argv[1])
np.savez(sys.argv[2], **{k.split('/', 1)[1]: z[k] for k in z.files if k.startswith('0/')})
EOF
started() { # INDEX: its process id
    for pid in $(pgrep -f "$folder/feed.npz"); do
        tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -q "^OMPI_COMM_WORLD_RANK=$1\$" && echo "$pid" && return
    done
    return 1
}
process() { # INDEX: its process id; it has begun to train
    for _ in $(seq 1200); do
        [ -s "$folder/out" ] && started "$1" && return
        sleep 0.05
    done
}
loss=$(sed -n 's/^ *"loss": "\(.*\)".*/\1/p' "$case/case.json" | tail -n 1)
launch() { # ARGUMENTS: a run that does not end, in $launcher; its output in $folder/out and err
    rm -f "$folder/out"
    "$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --params "$case/params.npz" --feed "$folder/feed.npz" \
        --steps 100000000 --save "$folder/never.npz" --fetch "$loss" --launch "$@" >"$folder/out" 2>"$folder/err" &
    launcher=$!
}
begin() { # ARGUMENTS: that run, training
    launch "$@"
    victim=$(process 1)
    [ -n "$victim" ] || { kill -KILL "$launcher"; victim=$launcher; }
}
ended() { # SECONDS STATUS PATTERN WHAT: in time, with that exit status and such words, and nothing is left
    wait "$launcher" 2>/dev/null
    got=$?
    seconds=$(($(date +%s) - since))
    [ $got = "$2" ] && in_time $seconds "$1" && { [ -z "$3" ] || grep -q -E "$3" "$folder/err"; }
    result=$?
    [ $result = 0 ] || { echo "exit $got after $seconds s:"; cat "$folder/err"; }
    ok $result "$4"
    sleep 0.2
    [ -z "$(pgrep -f "$folder/feed.npz")" ] && [ ! -e "$folder/never.npz" ] && [ -z "$(ls "$folder" | grep tmp)" ]
    ok $? "$4: no process and no file is left"
}
died='process 1 \(pid [0-9]* on .*\) has died: rank 1, (in|behind) all_reduce #[0-9]+, ring [0-9]+, step [0-9]+'
for fault in KILL SEGV; do
    begin
    kill -$fault "$victim"
    since=$(date +%s)
    ended 2 "$([ $fault = KILL ] && echo 137 || echo 139)" "$died" "SIG$fault of a process"
done
# The launcher has no turn while its processes come. None of them begins before it is seen, else the launcher could not tell who dies first.
launch
until started 1 >/dev/null || ! kill -0 "$launcher"; do sleep 0.02; done
kill -STOP "$launcher"
sleep 1.5
[ ! -s "$folder/out" ]
ok $? 'a process that the launcher has not seen does not begin'
kill -CONT "$launcher"
victim=$(process 1)
kill -KILL "$victim"
since=$(date +%s)
ended 2 137 "$died" 'SIGKILL of a process that was seen late'
"$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --params "$case/params.npz" --feed "$folder/feed.npz" --steps 1 \
    --fetch "$loss" --launch --watchdog 0.3:60 --delay 49:1000:1 >"$folder/out" 2>"$folder/err"
ok $? "behind the first step a process is waited for as long as in it: $(tail -n 1 "$folder/err")"
for _ in 1 2 3; do
    rm -f "$folder/out" "$folder/whole.npz"
    "$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --params "$case/params.npz" --feed "$folder/feed.npz" \
        --steps 100000000 --save "$folder/whole.npz" --save-every 1 --fetch "$loss" --launch >"$folder/out" 2>"$folder/err" &
    launcher=$! victim=$(process 0)
    kill -KILL "$victim"
    wait "$launcher" 2>/dev/null
    if [ ! -e "$folder/whole.npz" ] || "$PYTHON" -c "import numpy, sys; [numpy.load(sys.argv[1])[k] for k in numpy.load(sys.argv[1]).files]" \
        "$folder/whole.npz"; then whole=0; else whole=1; fi
    ok $whole 'what was saved is whole where the process dies that saves'
    [ -z "$(find "$folder" -name '*.tmp')" ]
    ok $? 'nothing half written is left'
done
begin --watchdog 60:300
sleep 0.5 # it has seen how long steps take
kill -STOP "$victim"
for _ in $(seq 300); do
    grep -q 'is stopped' "$folder/err" && break
    sleep 0.1
done
grep -q -E 'note: rank [01], all_reduce #[0-9]+, ring [0-9]+: has waited [0-9.]+ s \([0-9.]+ s are usual at most\)(,| for rank 1 \()' \
    "$folder/err" && grep -q -E 'process 1 \(pid [0-9]* on .*\) is stopped: rank 1, (in|behind) all_reduce' "$folder/err"
ok $? "a process that others wait for longer than usual is named: $(cat "$folder/err")"
kill -CONT "$victim"
kill -INT "$launcher"
wait "$launcher"
[ $? = 130 ]
ok $? "it goes on, and ends as it is asked to: $(tail -n 2 "$folder/err")"
rm -f "$folder/never.npz"
begin --watchdog 1
kill -STOP "$victim"
since=$(date +%s)
ended 10 1 'process 1 \(pid [0-9]* on .*\) is stopped: rank 1' 'a process that stops'
begin --watchdog 1:4 --delay 0:60000:0
kill -STOP "$victim"
since=$(date +%s)
ended 10 137 'process 1 \(pid [0-9]* on .*\) is stopped: rank 1' 'a process that stops while nobody waits for it'
begin
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
for _ in $(seq 100); do
    [ -z "$(pgrep -f "$folder/feed.npz")" ] && break
    sleep 0.1
done
[ -z "$(pgrep -f "$folder/feed.npz")" ]
ok $? 'when the launcher is killed, its processes end'
finish

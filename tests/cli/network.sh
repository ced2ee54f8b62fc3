#!/bin/sh
# Ranks on two hosts, which are network namespaces joined by a link of 1 Gbit/s: the bits of threads, and an end in time when a rank
# or the link dies. Needs root; skipped
# elsewhere. WEFT_LONG_TESTS=1: cut updates, sums in two levels, and a state that other processes go on from, too.
. tests/support/shell.sh
. tests/support/two_hosts.sh
among_mpi
if ! "$weft" info | grep -q '^MPI *yes' || ! command -v mpirun >/dev/null || ! two_hosts_up; then
    skipped=1
    finish
    exit
fi
field() { sed -n 's/.*"'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}.*/\1/p' "$2" | head -n 1; }
absolute=$(cd "$(dirname "$weft")" && pwd)/weft
across() { # ARGUMENTS... : on both hosts
    # shellcheck disable=SC2086
    timeout 120 $here "$absolute" run "$@" --launch --hosts "$address_a:1,$address_b:1" --launch-agent "$agent"
}
trains() { # CASE STEPS PASSES
    case=$fixtures/$1
    [ -f "$case/serial.pdmodel" ] || { skipped=$((skipped + 1)); return; }
    loss=$(field loss "$case/case.json")
    "$weft" opt -q "$case/serial.pdmodel" --passes "configs/$3.yaml" --set data_parallel.ranks=2 -o "$folder/dp.pdmodel"
    set -- "$1" "$folder/dp.pdmodel" --ranks 2 --params "$(cd "$case" && pwd)/params.npz" --feed "$(cd "$case" && pwd)/feeds.npz" \
        --fetch "$loss" --steps "$2"
    name=$1
    shift
    "$weft" run "$@" --save "$folder/threads.npz" >"$folder/threads.csv" 2>"$folder/err"
    across "$@" --save "$folder/hosts.npz" >"$folder/hosts.csv" 2>"$folder/err"
    ok $? "$name, $3: $(tail -n 2 "$folder/err")"
    cmp -s "$folder/threads.csv" "$folder/hosts.csv" && cmp -s "$folder/threads.npz" "$folder/hosts.npz"
    ok $? "$name, $3: two hosts have the bits of threads"
}
before=$(ip netns exec "$host_a" cat /sys/class/net/w0/statistics/tx_bytes)
trains paddle26/gpt_tiny_adamw_dp2 4 data_parallel
after=$(ip netns exec "$host_a" cat /sys/class/net/w0/statistics/tx_bytes)
[ $((after - before)) -gt 2000000 ]
ok $? "gradients go over the link: $((after - before)) bytes"
[ -z "${WEFT_LONG_TESTS:-}" ] || trains paddle26/gpt_tiny_adamw_dp2 4 shard_updates
trains paddle26/lenet_momentum_dp2 2 data_parallel

# --- two ranks a host: sums in two levels, and other processes than before -----------------------------------------------
by_two() { # PROCESSES-A-HOST ARGUMENTS...
    each=$1 # processes
    shift
    rm -f "$folder/hosts.npz"
    # shellcheck disable=SC2086
    timeout 120 $here "$absolute" run "$@" --ranks 4 --feed "$two_ranks/feeds.npz" --launch --processes $((2 * each)) \
        --hosts "$address_a:$each,$address_b:$each" --launch-agent "$agent" >"$folder/hosts.csv" 2>"$folder/err"
}
same_state() { # FILE FILE WHAT
    cmp -s "$1" "$2"
    ok $? "$3: $(tail -n 1 "$folder/err")"
}
two_levels() {
    two_ranks=$(cd "$fixtures/paddle26/gpt_tiny_adamw_dp2" && pwd)
    from="--params $two_ranks/params.npz"
    "$weft" opt -q "$two_ranks/serial.pdmodel" --passes configs/hierarchical.yaml --set data_parallel.ranks=4 \
        --set hierarchical_all_reduce.inside=2 -o "$folder/level{rank}.pdmodel"
    set -- "$folder"/level[0-3].pdmodel
    # shellcheck disable=SC2086
    "$weft" run "$@" --ranks 4 $from --feed "$two_ranks/feeds.npz" --steps 4 --save "$folder/threads.npz" >"$folder/threads.csv" 2>"$folder/err"
    for each in 1 2; do
        # shellcheck disable=SC2086
        by_two $each "$@" $from --steps 4 --save "$folder/hosts.npz"
        same_state "$folder/threads.npz" "$folder/hosts.npz" "sums in two levels, $each processes a host"
    done
    # shellcheck disable=SC2086
    by_two 2 "$@" $from --steps 2 --save "$folder/half.npz" && by_two 1 "$@" --resume "$folder/half.npz" --steps 2 --save "$folder/rest.npz"
    same_state "$folder/threads.npz" "$folder/rest.npz" 'two processes go on from the state of four'
}
if [ -n "${WEFT_LONG_TESTS:-}" ] && [ -f "$fixtures/paddle26/gpt_tiny_adamw_dp2/serial.pdmodel" ]; then two_levels; fi

# --- the link is cut --------------------------------------------------------------------------------------------------
across "$@" "$folder/dp.pdmodel" --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" --steps 100000 \
    --watchdog 2:20 >"$folder/cut.csv" 2>"$folder/err" &
job=$!
for _ in $(seq 600); do
    [ -s "$folder/cut.csv" ] && break
    sleep 0.1
done
ip netns exec "$host_b" ip link set w0 down
start=$(date +%s)
wait $job
status=$?
took=$(($(date +%s) - start))
[ $status != 0 ] && [ $status != 124 ] && in_time $took 29
ok $? "a cut link ends the run in time: status $status after $took s: $(tail -n 2 "$folder/err")"
ps ax -o args= | grep -c "^$absolute run $folder" >"$folder/left"
[ "$(cat "$folder/left")" = 0 ]
ok $? 'no process is left behind'
finish

#!/bin/sh
# Two hosts, as network namespaces with a link of 1 Gbit/s: a 16 MiB all-reduce alone and beside 150 ms of computing, of Weft and of
# torch over Gloo; the steps of gpt_tiny in one bucket list and with cut updates. Needs root and Open MPI, for Gloo bench/peers/setup.
. tests/support/shell.sh
. tests/support/two_hosts.sh
comm=$(cd "$(dirname "$weft")" && pwd)/bench/comm
WEFT_PLUGIN_PATH=$(cd "$(dirname "$weft")" && pwd)
export WEFT_PLUGIN_PATH
two_hosts_up || { echo 'network.sh: needs root, iproute2 and util-linux'; exit 1; }
uptime
# shellcheck disable=SC2086
timeout 120 $here mpirun --quiet --allow-run-as-root --bind-to none --mca btl_tcp_progress_thread 1 --mca plm_rsh_agent "$agent" --host "$address_a:1,$address_b:1" \
    -x WEFT_PLUGIN_PATH "$comm" 2 beside 150
python=${BENCH_PEERS:-${BUILD:-build}/peers}/torch/bin/python
if [ -x "$python" ]; then
    for rank in 1 0; do
        [ $rank = 0 ] && host=$address_a || host=$address_b
        timeout 120 "$agent" "$host" GLOO_SOCKET_IFNAME=w0 "$python" "$PWD/bench/peers/gloo.py" $rank 2 "$address_a:29511" 150 &
    done
    wait
else
    echo "Gloo: no $python: bench/peers/setup"
fi
case=$fixtures/peers/gpt_tiny
[ -f "$case/serial.pdmodel" ] || exit 0
for list in data_parallel shard_updates; do
    "$weft" opt -q "$case/serial.pdmodel" --passes configs/$list.yaml --set data_parallel.ranks=2 -o "$folder/$list.pdmodel"
    # shellcheck disable=SC2086
    timeout 120 $here "$weft" run "$folder/$list.pdmodel" --ranks 2 --params "$case/params.npz" --feed "$case/feed.npz" --steps 60 \
        --fetch mean_0.tmp_0 --launch --hosts "$address_a:1,$address_b:1" --launch-agent "$agent" 2>&1 >/dev/null | sed -n "s/^summary: 60 steps/$list: 60 steps/p"
done

#!/bin/sh
# Chunks of micro_pipeline_tp on two hosts, which are network namespaces joined by a link of 1 Gbit/s: what ranks on threads leave
# without chunks. WEFT_LONG_TESTS=1: layers hide 95 % of what can be hidden, and with the guard none of 200 shapes gets slower. Needs
# root and Open MPI; skipped elsewhere.
. tests/support/shell.sh
. tests/support/python.sh
. tests/support/two_hosts.sh
if ! "$weft" info | grep -q '^MPI *yes' || ! command -v mpirun >/dev/null || ! two_hosts_up; then
    skipped=1
    finish
    exit
fi
weft=$(cd "$(dirname "$weft")" && pwd)/weft
hosts="$address_a:1,$address_b:1"
for case in gather_uneven scatter_uneven exchange_experts; do
    "$PYTHON" tests/micro_patterns.py write $case 2 "$folder" ints
    "$weft" run "$folder/graph.fx.json" --ranks 2 --feed "$folder/feed.{rank}.npz" --steps 1 --save "$folder/plain.{rank}.npz" >/dev/null 2>"$folder/err"
    ok $? "$case runs on threads: $(tail -n 1 "$folder/err")"
    "$weft" opt -q "$folder/graph.fx.json" --passes 'micro_pipeline_tp: {guard: off, chunks_per_shard: 2}' -o "$folder/rank{rank}.yaml"
    # shellcheck disable=SC2086
    timeout 60 $here "$weft" run "$folder/rank0.yaml" "$folder/rank1.yaml" --ranks 2 --feed "$folder/feed.{rank}.npz" --steps 1 \
        --save "$folder/chunks.{rank}.npz" --launch --hosts "$hosts" --launch-agent "$agent" >/dev/null 2>"$folder/err" &&
        "$PYTHON" tests/micro_patterns.py same "$folder" plain chunks 2>>"$folder/err"
    ok $? "$case in chunks on two hosts: $(tail -n 2 "$folder/err")"
done
if [ -n "${WEFT_LONG_TESTS:-}" ]; then
    export MICRO_HERE="$here" MICRO_HOSTS="$hosts" MICRO_AGENT="$agent"
    "$PYTHON" tests/micro_link.py "$weft" "$folder" measured 3 0.95 >"$folder/hidden" 2>&1
    ok $? "layers hide 95 % of what can be hidden: $(cat "$folder/hidden")"
    "$PYTHON" tests/micro_link.py "$weft" "$folder" drawn 200 >"$folder/drawn" 2>&1
    ok $? "with the guard none is slower: $(cat "$folder/drawn")"
fi
finish

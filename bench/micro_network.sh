#!/bin/sh
# Pairs of micro_pipeline_tp on two hosts, which are network namespaces with a link of 1 Gbit/s: what chunks hide of a GPT-like
# layer's communication, and drawn shapes with the guard on. Needs root and Open MPI. CSV and lines on stdout.
# usage: bench/micro_network.sh [LAYERS [SHAPES]]     default 3 20; LAYERS of hidden 768, 1024, 2048
. tests/support/shell.sh
. tests/support/python.sh
. tests/support/two_hosts.sh
two_hosts_up || { echo 'micro_network.sh: needs root, iproute2 and util-linux'; exit 1; }
uptime
weft=$(cd "$(dirname "$weft")" && pwd)/weft
export MICRO_HERE="$here" MICRO_HOSTS="$address_a:1,$address_b:1" MICRO_AGENT="$agent"
"$PYTHON" tests/micro_link.py "$weft" "$folder" measured "${1:-3}" 0.95
hidden=$?
"$PYTHON" tests/micro_link.py "$weft" "$folder" drawn "${2:-20}" && exit $hidden

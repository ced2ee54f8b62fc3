#!/bin/sh
# predicted.py over a link: two hosts, which are network namespaces joined by 1 Gbit/s. Needs root and Open MPI. Timers that come late
# slow a link with a small burst down; what a large one saves up while ranks compute goes faster. link_burst=64kb gives another than 256kb.
# usage: bench/predicted_network.sh [OPTION... MODEL...]     those of predicted.py
. tests/support/shell.sh
. tests/support/two_hosts.sh
two_hosts_up || { echo 'predicted_network.sh: needs root, iproute2 and util-linux'; exit 1; }
WEFT=$(cd "$(dirname "$weft")" && pwd)/weft
export WEFT
# shellcheck disable=SC2086
$here /usr/bin/python3 "$(pwd)/bench/predicted.py" "'--launch=--launch --hosts $address_a:1,$address_b:1 --launch-agent $agent'" "$@"

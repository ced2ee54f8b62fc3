#!/bin/sh
# Prints what each benchmark measured, with the command that produced it. Those against other frameworks run where
# bench/peers/setup has made their environments.
set -eu
bench=${BENCH:-build/release/bench}
peers=${BENCH_PEERS:-${BUILD:-build}/peers}
# Debian's python3-numpy belongs to /usr/bin/python3, whatever python3 comes first in PATH.
python=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || "$python" -c 'import numpy' 2>/dev/null || python=/usr/bin/python3

show() {
    echo
    echo "# $*"
    "$@"
}

show "$bench/scale" 1000 10000 100000
show "$bench/scale" --prove 1000 10000 100000
show "$bench/plan" 1000 10000 100000
show "$bench/proof" 1000 10000 100000
show "$bench/spmd" 1000 10000 100000
show "$bench/micro" 1000 10000
show "$bench/chain"
BENCH=$bench show "$python" bench/peers/fusion.py
if [ ! -d "$peers" ]; then
    echo
    echo "# no other frameworks in $peers: bench/peers/setup $peers"
    exit 0
fi
export BENCH_PEERS="$peers"
for script in steps data_parallel chain programs client breadth; do
    show "$python" "bench/peers/$script.py" || echo "# bench/peers/$script.py: exit $?"
done

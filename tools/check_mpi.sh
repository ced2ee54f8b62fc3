#!/bin/sh
# Builds the plugin with another MPI and tests it: `make check-mpi MPI=mpicc.mpich MPIRUN=mpiexec.mpich`.
# usage: check_mpi.sh BUILD MPICC MPIRUN FLAGS...     FLAGS: what else the plugin is compiled and linked with
set -eu
build=$1 mpicc=$2 mpirun=$(command -v "$3")
shift 3
folder=$build/mpi-$(basename "$mpicc")
mkdir -p "$folder/bin"
# MPICH's header: MPI_STATUSES_IGNORE seems an array too short.
"$mpicc" "$@" -Wno-stringop-overflow -shared -fPIC -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -o "$folder/weft_mpi.so" executor/comm/mpi/*.c "$build/libweft.a" -lm -pthread
# Whatever name the tests and the command call a launcher by, it is this one.
for name in mpirun mpiexec mpirun.openmpi mpiexec.hydra mpirun.mpich; do
    printf '#!/bin/sh\nexec %s "$@"\n' "$mpirun" >"$folder/bin/$name"
    chmod +x "$folder/bin/$name"
done
PATH=$(cd "$folder/bin" && pwd):$PATH
WEFT_PLUGIN_PATH=$(cd "$folder" && pwd)
UCX_LOG_LEVEL=error # it warns of messages that a run left when it was ended
export PATH WEFT_PLUGIN_PATH UCX_LOG_LEVEL
"$build/weft" info | grep '^MPI'
"$build/weft" info | grep -q '^MPI *yes'
"$build/tests/plain/comm_mpi"
WEFT=$build/weft sh tests/cli/launched.sh

#!/bin/sh
# nccl_symbols.sh [VERSION...]: whether releases of NCCL have all functions that the engine opens (executor/comm/nccl/nccl.def), and
# which of the optional ones they lack. It asks the wheels of pip, which it fetches into a folder that it removes. Not a part of the tests: it needs a network.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- cu12:2.19.3 cu13:2.27.7 cu13:2.28.9 cu13:2.31.2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
functions=$(sed -n 's/^CALL(\(.*\))$/nccl\1/p' executor/comm/nccl/nccl.def)
optional=$(sed -n 's/^OPTIONAL(\([A-Za-z]*\),.*/nccl\1/p' executor/comm/nccl/nccl.def)
missing=0
for release; do
    cuda=${release%%:*} version=${release#*:}
    python3 -m pip download -q --no-deps --only-binary=:all: --platform manylinux_2_18_x86_64 --platform manylinux2014_x86_64 \
        --platform manylinux1_x86_64 -d "$folder" "nvidia-nccl-$cuda==$version"
    wheel=$(ls "$folder"/nvidia_nccl_*"$version"*.whl)
    library=$(unzip -Z1 "$wheel" | grep 'libnccl.so.2$')
    unzip -q -o -j "$wheel" "$library" -d "$folder"
    nm -D --defined-only "$folder/libnccl.so.2" | sed 's/.* //; s/@.*//' | sort -u >"$folder/symbols"
    rm -f "$wheel" "$folder/libnccl.so.2"
    lacks=
    without=
    for f in $functions; do
        grep -qx "$f" "$folder/symbols" || lacks="$lacks $f"
    done
    for f in $optional; do
        grep -qx "$f" "$folder/symbols" || without="$without $f"
    done
    echo "NCCL $version ($cuda): ${lacks:-all $(echo "$functions" | wc -l) functions}${without:+, without$without}"
    [ -z "$lacks" ] || missing=1
done
exit $missing

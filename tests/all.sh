#!/bin/sh
# Builds every variant and runs every test; the last line is the sum.
# usage: tests/all.sh [--long]     --long adds what takes more than CI's time
set -u
cd "$(dirname "$0")/.."
build=${BUILD:-build}
# Kernels for GPUs are compiled for one of them: nothing here runs them there.
make="make --no-print-directory -j2 BUILD=$build CUDA_ARCHS=${CUDA_ARCHS:-90}"
WEFT_TEST_COUNTS=$(mktemp)
export WEFT_TEST_COUNTS
[ "${1:-}" = --long ] && WEFT_LONG_TESTS=1 && export WEFT_LONG_TESTS
trap 'rm -f "$WEFT_TEST_COUNTS"' EXIT
broken=0

binaries() { # VARIANT KIND
    for source in tests/"$2"/*.c; do
        [ -f "$source" ] && echo "$build/$1/tests/$2/$(basename "$source" .c)"
    done
}
build_variant() { # VARIANT TARGET...
    variant=$1
    shift
    echo "building $variant" >&2
    $make VARIANT="$variant" "$@" && return
    echo "$variant does not build"
    broken=$((broken + 1))
    return 1
}

build_variant release lib cli unit-tests plain-tests benches &&
    # shellcheck disable=SC2046
    sh tests/run.sh "$build" release $(binaries release unit) $(binaries release plain) tests/cli/*.sh
build_variant asan lib cli unit-tests plain-tests &&
    # shellcheck disable=SC2046
    WEFT_SANITIZED=1 sh tests/run.sh "$build" asan $(binaries asan unit) $(binaries asan plain)
build_variant tsan lib plain-tests &&
    # shellcheck disable=SC2046
    WEFT_SANITIZED=1 sh tests/run.sh "$build" tsan $(binaries tsan plain)

awk -v broken="$broken" '{ p += $1; f += $2; s += $3 }
    END { f += broken; printf "%d passed, %d failed%s\n", p, f, s ? ", " s " skipped" : ""; exit f > 0 }' "$WEFT_TEST_COUNTS"

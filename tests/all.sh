#!/bin/sh
# Builds every variant and runs every test; the last line is the sum.
# usage: tests/all.sh [--long]     --long adds what takes more than CI's time
set -u
cd "$(dirname "$0")/.." || exit
build=${BUILD:-build}
# Kernels for GPUs are compiled for one of them: nothing here runs them there. Tests that call make want the same.
export CUDA_ARCHS="${CUDA_ARCHS:-90}"
WEFT_TEST_COUNTS=$(mktemp) behind_log=$(mktemp)
behind=
export WEFT_TEST_COUNTS
[ "${1:-}" = --long ] && WEFT_LONG_TESTS=1 && export WEFT_LONG_TESTS
trap 'rm -f "$WEFT_TEST_COUNTS" "$behind_log"; [ -z "$behind" ] || kill "$behind"' EXIT
broken=0

launching='tests/cli/launched.sh tests/cli/network.sh tests/cli/processes.sh' # what the launcher does, sanitized in the long form
binaries() { # VARIANT KIND
    for source in tests/"$2"/*.c; do
        [ -f "$source" ] && echo "$build/$1/tests/$2/$(basename "$source" .c)"
    done
}
targets() { # VARIANT
    case $1 in
    release) echo lib cli unit-tests plain-tests benches "$build/release/public/libweft.a" ;; # scripts install it, two at a time
    asan) echo lib cli unit-tests plain-tests ;;
    tsan) echo lib plain-tests ;;
    esac
}
make_variant() { # VARIANT NICENESS
    # shellcheck disable=SC2046
    nice -n "$2" make --no-print-directory -j2 BUILD="$build" VARIANT="$1" $(targets "$1")
}
# Tests leave a core idle now and then: meanwhile the next variant is built, at low priority.
build_behind() { # VARIANT
    make_variant "$1" 19 >"$behind_log" 2>&1 &
    behind=$!
}
# Whether the variant is there.
build_variant() { # VARIANT
    echo "building $1" >&2
    [ -z "$behind" ] || wait "$behind"
    behind=
    make_variant "$1" 0 && return
    echo "$1 does not build"
    broken=$((broken + 1))
    return 1
}

if build_variant release; then
    build_behind asan
    # shellcheck disable=SC2046
    sh tests/run.sh "$build" release $(binaries release unit) $(binaries release plain) tests/cli/*.sh
fi
if build_variant asan; then
    build_behind tsan
    # shellcheck disable=SC2046
    WEFT_SANITIZED=1 sh tests/run.sh "$build" asan $(binaries asan unit) $(binaries asan plain) ${WEFT_LONG_TESTS:+$launching}
fi
if build_variant tsan; then
    # shellcheck disable=SC2046
    WEFT_SANITIZED=1 sh tests/run.sh "$build" tsan $(binaries tsan plain)
fi

awk -v broken="$broken" '{ p += $1; f += $2; s += $3 }
    END { f += broken; printf "%d passed, %d failed%s\n", p, f, s ? ", " s " skipped" : ""; exit f > 0 }' "$WEFT_TEST_COUNTS"

#!/bin/sh
# Runs test binaries and scripts, two at a time, and adds up what they report.
# usage: tests/run.sh BUILD_DIR VARIANT TEST...    a TEST is a binary below BUILD_DIR/VARIANT, or a script
# Counts go to $WEFT_TEST_COUNTS (appended, one "passed failed skipped" line a test); output of failing tests is shown.
set -u
build=$1 variant=$2
shift 2
export WEFT="$build/$variant/weft"
# intercept_tls_get_addr: thread-local memory of a library that is opened at run time may begin 16 bytes behind the start of a page.
# libasan of gcc 12 takes that for a header of glibc 2.19, and its search for leaks then reads from where nothing is.
export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1:allocator_may_return_null=1:intercept_tls_get_addr=0
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=0:exitcode=66
counts=${WEFT_TEST_COUNTS:-/dev/null}

# These have deadlines, kill processes, or measure time: each has the machine to itself, after all others.
runs_alone() { # TEST
    case $(basename "$1") in
    calibrate | comm_* | executor_* | far_device | far_engine | processes | trainer_faults | watchdog) ;;
    hosts.sh | kept.sh | kill_sweep.sh | launched.sh | linear.sh | micro_link.sh | micropipe_network.sh | network.sh | processes.sh) ;;
    plan_scale | passes_bucket_bound | passes_bucket_plan) ;;
    *) return 1 ;;
    esac
}

# The numbers in Criterion's closing line, a plain "N passed, N failed[, N skipped]" line, or the exit status alone.
count() { # STATUS LOG
    status=$1 log=$2
    line=$(grep -a 'Synthesis: Tested:' "$log" | tail -n 1 | sed 's/\x1b\[[0-9;]*m//g')
    if [ -n "$line" ]; then
        tested=$(echo "$line" | sed 's/.*Tested: *\([0-9]*\).*/\1/')
        passed=$(echo "$line" | sed 's/.*Passing: *\([0-9]*\).*/\1/')
        failed=$((tested - passed)) skipped=$(grep -a -c '\[SKIP\]' "$log")
    else
        line=$(grep -a -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
        passed=$(echo "$line" | sed -n 's/^\([0-9]*\) passed.*/\1/p')
        failed=$(echo "$line" | sed -n 's/.* \([0-9]*\) failed.*/\1/p')
        skipped=$(echo "$line" | sed -n 's/.* \([0-9]*\) skipped.*/\1/p')
    fi
    : "${passed:=0}" "${failed:=0}" "${skipped:=0}"
    if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
    if [ "$passed" = 0 ] && [ "$failed" = 0 ] && [ "$skipped" = 0 ]; then failed=1; echo "no test ran" >>"$log"; fi
    # A leak that the runner's workers report does not fail their test.
    if grep -a -q -E 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:' "$log" && [ "$failed" = 0 ]; then
        failed=1
    fi
}

# Runs one test: $results/NUMBER gets what is printed of it, $results/NUMBER.counts its counts.
run() { # NUMBER TEST
    started=$(date +%s)
    log="$results/$1.log"
    case $2 in
    *.sh) sh "$2" >"$log" 2>&1 ;;
    "$build"/*/unit/*) "$2" --jobs "$jobs" >"$log" 2>&1 ;;
    *) "$2" >"$log" 2>&1 ;;
    esac
    count $? "$log"
    printf '%-7s %-32s %6d passed %3d failed %3d skipped %4d s\n' "$variant" "$(basename "$2")" "$passed" "$failed" \
        "$skipped" $(($(date +%s) - started)) >"$results/$1"
    [ "$failed" = 0 ] || tail -n 60 "$log" | sed 's/^/    /' >>"$results/$1"
    echo "$passed $failed $skipped" >"$results/$1.counts"
    rm -f "$log"
}

# What tests printed, in their order: each as soon as it and all before it have ended.
print_in_order() { # HOW_MANY
    next=1
    while read -r _; do
        while [ -e "$results/$next.counts" ]; do
            cat "$results/$next"
            next=$((next + 1))
        done
    done
    for left in $(seq "$next" "$1"); do
        [ ! -e "$results/$left.counts" ] || cat "$results/$left"
    done
}

if [ "${WEFT_TEST_RESULTS:-}" ]; then # a test that the call below starts
    results=$WEFT_TEST_RESULTS jobs=$WEFT_TEST_JOBS
    run "$1" "$2"
    echo "$1"
    exit
fi

WEFT_TEST_RESULTS=$(mktemp -d)
export WEFT_TEST_RESULTS
results=$WEFT_TEST_RESULTS
trap 'rm -rf "$results"' EXIT

start() { # AT_A_TIME JOBS FIRST_NUMBER LIST
    export WEFT_TEST_JOBS="$2"
    awk -v first="$3" '{ print first + NR - 1, $0 }' "$4" | xargs -r -P "$1" -n 2 sh "$0" "$build" "$variant"
}
for test in "$@"; do
    if runs_alone "$test"; then list=alone; else list=paired; fi
    echo "$test" >>"$results/$list"
done
touch "$results/alone" "$results/paired"
{
    start 2 1 1 "$results/paired"
    start 1 2 $(($(wc -l <"$results/paired") + 1)) "$results/alone"
} | print_in_order $#

lost=$(($# - $(cat "$results"/*.counts | wc -l)))
if [ "$lost" != 0 ]; then
    echo "$variant: $lost tests left no result"
    echo "0 $lost 0" >"$results/lost.counts"
fi
cat "$results"/*.counts >>"$counts"
awk '$2 > 0 { failed = 1 } END { exit failed }' "$results"/*.counts

#!/bin/sh
# Runs test binaries and scripts and adds up what they report.
# usage: tests/run.sh BUILD_DIR VARIANT TEST...    a TEST is a binary below BUILD_DIR/VARIANT, or a script
# Counts go to $WEFT_TEST_COUNTS (appended, one "passed failed skipped" line a test); output of failing tests is shown.
set -u
build=$1 variant=$2
shift 2
export WEFT="$build/$variant/weft"
export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=0:exitcode=66
counts=${WEFT_TEST_COUNTS:-/dev/null}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
any_failed=0

# The numbers in Criterion's closing line, a plain "N passed, N failed[, N skipped]" line, or the exit status alone.
count() {
    status=$1
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
}

for test in "$@"; do
    started=$(date +%s)
    case $test in
    *.sh) sh "$test" >"$log" 2>&1 ;;
    "$build"/*/unit/*) "$test" --jobs 2 >"$log" 2>&1 ;;
    *) "$test" >"$log" 2>&1 ;;
    esac
    count $?
    # A leak that the runner's workers report does not fail their test.
    if grep -a -q -E 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:' "$log" && [ "$failed" = 0 ]; then
        failed=1
    fi
    printf '%-7s %-32s %6d passed %3d failed %3d skipped %4d s\n' "$variant" "$(basename "$test")" "$passed" "$failed" \
        "$skipped" $(($(date +%s) - started))
    echo "$passed $failed $skipped" >>"$counts"
    if [ "$failed" != 0 ]; then
        any_failed=1
        tail -n 60 "$log" | sed 's/^/    /'
    fi
done
exit $any_failed

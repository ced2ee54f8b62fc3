# What shell tests share: counting, fixtures. Source it from the repository's root.
weft=${WEFT:-build/release/weft}
fixtures=${WEFT_FIXTURES:-../shared/fixtures}
[ -d "$fixtures" ] || fixtures=tests/data
passed=0 failed=0 skipped=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ok() { # STATUS WHAT
    if [ "$1" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $2"
    fi
}
run_and_find() { # FILE STATUS PATTERN WHAT COMMAND...
    where=$1 expected=$2 pattern=$3 what=$4
    shift 4
    "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    [ $got = "$expected" ] && grep -q -E -- "$pattern" "$folder/$where"
    result=$?
    [ $result = 0 ] || { echo "exit $got, expected $expected:"; head -n 5 "$folder/out" "$folder/err"; }
    ok $result "$what"
}
# The command ends with STATUS and says PATTERN on stderr, or prints it on stdout.
says() { run_and_find err "$@"; } # STATUS PATTERN WHAT COMMAND...
prints() { run_and_find out "$@"; }
# A machine that has more to do than twice its cores needs as much more time for it.
in_time() { # SECONDS LIMIT
    awk -v seconds="$1" -v limit="$2" -v cores="$(nproc)" '{ crowd = $1 / (2 * cores); exit seconds > limit * (crowd > 1 ? crowd : 1) }' /proc/loadavg
}
# For a sanitized weft among processes of MPI. MPI keeps memory until the end; what is preloaded comes before the sanitizer's
# library; a process that SIGSEGV ends has that exit status.
among_mpi() {
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0:verify_asan_link_order=0:handle_segv=0"
}
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}

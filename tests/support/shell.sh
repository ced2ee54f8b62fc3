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
# The command ends with STATUS and says PATTERN on stderr.
says() { # STATUS PATTERN WHAT COMMAND...
    expected=$1 pattern=$2 what=$3
    shift 3
    "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    [ $got = "$expected" ] && grep -q -E -- "$pattern" "$folder/err"
    result=$?
    [ $result = 0 ] || { echo "exit $got, expected $expected; stderr:"; head -n 5 "$folder/err"; }
    ok $result "$what"
}
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}

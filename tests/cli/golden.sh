#!/bin/sh
# Golden cases: tests/golden/NAME/{in.yaml,passes.yaml,out.yaml}: the passes turn `in` into `out`, byte for byte.
# usage: golden.sh [--rewrite]     --rewrite makes every out.yaml anew; review the diff
weft=${WEFT:-build/release/weft}
passed=0 failed=0
actual=$(mktemp)
trap 'rm -f "$actual"' EXIT
for case in tests/golden/*/; do
    [ -f "$case/in.yaml" ] || continue
    if ! "$weft" opt -q "$case/in.yaml" --passes "$case/passes.yaml" >"$actual" 2>"$actual.err"; then
        cat "$actual.err"
        echo "FAIL $case: weft opt failed"
        failed=$((failed + 1))
    elif [ "${1:-}" = --rewrite ]; then
        cp "$actual" "$case/out.yaml"
        passed=$((passed + 1))
    elif diff -u "$case/out.yaml" "$actual"; then
        passed=$((passed + 1))
    else
        echo "FAIL $case"
        failed=$((failed + 1))
    fi
    rm -f "$actual.err"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]

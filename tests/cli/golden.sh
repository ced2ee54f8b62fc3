#!/bin/sh
# Golden cases: tests/golden/NAME/{in,passes.yaml,out}: the passes turn `in` into `out`, byte for byte. `in` is in.yaml or
# in.fx.json, and `out` is out.yaml, out.fx.json, or a program a rank: out.rank0.yaml, out.rank1.yaml, ...
# usage: golden.sh [--rewrite]     --rewrite makes every `out` anew; review the diff
weft=${WEFT:-build/release/weft}
passed=0 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
golden() { # CASE: what the passes make is in $folder
    rm -f "$folder"/*
    in=$1/in.yaml out=out.yaml
    [ -f "$in" ] || in=$1/in.fx.json
    [ -f "$1/out.fx.json" ] && out=out.fx.json
    [ -f "$1/out.rank0.yaml" ] && out='out.rank{rank}.yaml'
    "$weft" opt -q "$in" --passes "$1/passes.yaml" -o "$folder/$out" 2>"$folder/err" || { cat "$folder/err"; return 1; }
    rm "$folder/err"
}
for case in tests/golden/*/; do
    case=${case%/}
    [ -f "$case/passes.yaml" ] || continue
    if ! golden "$case"; then
        echo "FAIL $case: weft opt failed"
        failed=$((failed + 1))
    elif [ "${1:-}" = --rewrite ]; then
        rm -f "$case"/out.* && cp "$folder"/* "$case"
        passed=$((passed + 1))
    elif diff -u -r -x 'in.*' -x passes.yaml "$case" "$folder"; then
        passed=$((passed + 1))
    else
        echo "FAIL $case"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]

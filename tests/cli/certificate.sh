#!/bin/sh
# weft opt --certificate, then weft verify --certificate.
. tests/support/shell.sh
in=tests/golden/full_list/in.yaml
out=$folder/out.yaml cert=$folder/cert.json

for case in tests/golden/*/; do
    [ -f "$case/in.yaml" ] || continue
    [ -f "$case/out.rank0.yaml" ] && continue # a program a rank: a certificate is of one pair
    "$weft" opt -q "$case/in.yaml" --passes "$case/passes.yaml" -o "$out" --certificate "$cert" 2>"$folder/err" || {
        ok 1 "$case: $(head -n 1 "$folder/err")"
        continue
    }
    if grep -q hierarchical_all_reduce "$case/passes.yaml"; then # a pass that claims nothing
        prints 1 '^certificate: no certificate: pass hierarchical_all_reduce' "$case" \
            "$weft" verify --certificate "$cert" "$case/in.yaml" "$out"
        continue
    fi
    prints 0 '^certificate: holds: ' "$case" "$weft" verify --certificate "$cert" "$case/in.yaml" "$out"
done

"$weft" opt -q "$in" --passes configs/data_parallel.yaml --set data_parallel.ranks=2 -o "$folder/out.pdmodel" \
    --certificate "$cert"
prints 0 '^certificate: holds: [0-9]+ claims of 5 passes' 'a .pdmodel and its sidecar' \
    "$weft" verify --certificate "$cert" "$in" "$folder/out.pdmodel"
prints 1 'does not hold: it is another program' 'another pair' "$weft" verify --certificate "$cert" "$in" "$in"
prints 1 '"certificate": "does not hold"' 'as JSON' "$weft" verify --json --certificate "$cert" "$in" "$in"
sed 's/"factor": 0.5/"factor": 0.25/' "$cert" >"$folder/wrong.json"
prints 1 'does not hold: the ranks. .*0.25' 'a claim that is false' \
    "$weft" verify --certificate "$folder/wrong.json" "$in" "$folder/out.pdmodel"
graph=tests/data/torch/ddp/mlp6.w2/before.fx.json
"$weft" opt -q $graph --passes 'fuse_allreduce_buckets: {bucket_mb: auto}' -o "$folder/out.fx.json" --certificate "$cert"
prints 0 'holds: .* no buckets end a step before ([0-9.]+) ms; these end it at \1 ms' 'planned buckets of a graph' \
    "$weft" verify --certificate "$cert" $graph "$folder/out.fx.json"
[ "$(wc -l <proof/certificate/buckets.c)" -le 200 ]; ok $? 'the checker of bucket plans is short enough to be read: 200 lines'
for part in plan_read plan_members prices lines clock gap; do
    [ "$(wc -l <proof/certificate/$part.c)" -le 200 ]; ok $? "so is what it is given: 200 lines of $part.c"
done
echo '{' >"$folder/half.json"
says 1 'expected JSON' 'no certificate at all' "$weft" verify --certificate "$folder/half.json" "$in" "$folder/out.pdmodel"
says 2 'expected two programs' 'one program' "$weft" verify --certificate "$cert" "$in"
finish

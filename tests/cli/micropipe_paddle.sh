#!/bin/sh
# micro_pipeline_tp on what configs/spmd.yaml makes of Paddle programs with sequence parallelism: safe under every
# reading, proved to be what ranks ran before, and trained to the serial losses, again and again with the same bits.
. tests/support/shell.sh
cases=$fixtures/spmd/paddle26
[ -d "$cases" ] || { skipped=1; finish; exit 0; }

for name in gpt_sp_mp2 gpt_sp_explicit_mp2 gpt_sp_reshard_mp2 mlp_sp_mp2; do
    case=$cases/$name
    given="--ranks 2 --params $case/params.npz --feed $case/feeds.npz --fetch $(sed -n 's/.*"loss": "\([^"]*\)".*/\1/p' "$case/case.json" | head -n 1)"
    rm -f "$folder"/before* "$folder"/after*
    "$weft" opt -q "$case/serial.pdmodel" --dist "$case/annotate.json" --passes configs/spmd.yaml -o "$folder/before{rank}.pdmodel" &&
        for r in 0 1; do
            "$weft" opt -q "$folder/before$r.pdmodel" --passes 'micro_pipeline_tp: {guard: off}' -o "$folder/rank$r.pdmodel"
        done
    ok $? "$name: programs of ranks, in chunks"
    for reading in in_order by_name by_bytes; do
        "$weft" verify "$folder"/rank?.pdmodel --reading $reading >"$folder/verify"; ok $? "$name is safe $reading: $(cat "$folder/verify")"
    done
    prints 0 'what ranks ran before: same over the real numbers' "$name is proved" \
        "$weft" verify "$folder"/rank?.pdmodel --reading in_order --against "$folder/before{rank}.pdmodel"
    for which in before rank rank; do
        [ ! -f "$folder/rank.csv" ] || mv "$folder/rank.csv" "$folder/first.csv"
        # shellcheck disable=SC2086
        "$weft" run "$folder"/$which?.pdmodel $given >"$folder/$which.csv" 2>"$folder/err"; ok $? "$name: $which runs: $(cat "$folder/err")"
    done
    cut -d, -f4 "$folder/first.csv" >"$folder/losses" && cut -d, -f4 "$folder/rank.csv" | cmp -s - "$folder/losses"
    ok $? "$name: a second run has the same bits"
    cut -d, -f4 "$folder/before.csv" | paste -d, - "$folder/losses" |
        awk -F, 'FNR > 1 { d = $1 - $2; n++; bad += d * d > 1e-10 * $1 * $1 } END { exit !n || bad }'
    ok $? "$name: the losses are those without chunks"
    rm -f "$folder/rank.csv" "$folder/first.csv"
done
says 1 'expected a program of all ranks, found that of rank 0' "no other rank's program is made of one rank's" \
    "$weft" opt -q "$folder/before0.pdmodel" --passes 'micro_pipeline_tp: {guard: off}' -o "$folder/other{rank}.pdmodel"
finish

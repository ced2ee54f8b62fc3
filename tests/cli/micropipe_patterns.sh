#!/bin/sh
# micro_pipeline_tp on graphs of one pattern each (tests/micro_patterns.py), for 3 ranks, with the long tests 2 to 8:
# each is taken; its chunks are safe, and leave what the graph leaves: its bits where rows are gathered, or sums exact.
. tests/support/shell.sh
. tests/support/python.sh
ranks=3
[ -z "$WEFT_LONG_TESTS" ] || ranks='2 3 4 5 6 7 8'

weft_run() { # PROGRAMS SAVE: on feeds of $at
    "$weft" run $1 --ranks "$n" --feed "$at/feed.{rank}.npz" --steps 1 --save "$at/$2.{rank}.npz" >/dev/null 2>"$folder/err"
}
ncompared=0
compare() { # WHAT OPTIONS TOLERANCE: the graph of one(), its chunks with these options
    ncompared=$((ncompared + 1)) against=
    case $1 in # 16-bit products that get a bias or are added up in fp32, transpositions behind a scatter or a cast: docs/equivalence.md
    sums\ of\ 16-bit* | scatter_half_bias_added* | scatter_transposed_reordered* | scatter_in_paddle* | reduce_largest*) ;;
    *) against="--against $graph" ;;
    esac
    rm -f "$at"/rank*
    "$weft" opt "$graph" --passes "micro_pipeline_tp: {guard: off$2}" -o "$at/rank{rank}.yaml" 2>"$folder/report"
    ok $? "$1$2: $(cat "$folder/report")"
    grep -q 'pair 0: ' "$folder/report"; ok $? "$1$2 is taken"
    "$weft" verify $programs --reading in_order $against >"$folder/verify" 2>&1; ok $? "$1$2 is safe: $(head -n 3 "$folder/verify")"
    [ -z "$against" ] || { grep -q 'what ranks ran before: same' "$folder/verify"; ok $? "$1$2 is proved"; }
    weft_run "$programs" chunks$ncompared
    ok $? "$1$2 runs: $(tail -n 1 "$folder/err")"
    echo "$3 $at plain chunks$ncompared $1$2 is the graph" >>"$folder/pairs"
}
all() { # graphs of all cases and their feeds for $n ranks
    mkdir -p "$folder/$n" && "$PYTHON" tests/micro_patterns.py all "$n" "$folder/$n"
}
one() { # CASE [ints]: its graph, and what it leaves as it is
    at=$folder/$n/$1${2:+.$2}
    graph=$(ls "$at"/graph*)
    programs=$(r=0; while [ $r -lt "$n" ]; do echo "$at/rank$r.yaml"; r=$((r + 1)); done)
    [ -f "$at/plain.0.npz" ] && return
    weft_run "$graph" plain; ok $? "$1 on $n ranks runs: $(tail -n 1 "$folder/err")"
}
for n in $ranks; do
    all
    for case in $("$PYTHON" tests/micro_patterns.py list); do
        one "$case" ints
        compare "$case on $n ranks" ', chunks_per_shard: 2' 0
        [ -z "$WEFT_LONG_TESTS" ] || compare "$case on $n ranks" '' 0
        case $case in
        gather_* | reduce_*) options= ;;
        *_columns* | exchange_last | exchange_heads* | accumulate_* | back_*) continue ;; # sums in another order
        *) options=', strict_bits: true, chunks_per_shard: 3' ;;
        esac
        one "$case"
        compare "$case on $n ranks, any floats" "$options" 0
    done
done
# both ways round the ring, of an even number of ranks and an odd one; an all-reduce as a reduce-scatter and an all-gather
[ -n "$WEFT_LONG_TESTS" ] || ranks='4 5'
for n in $ranks; do
    [ -d "$folder/$n" ] || all
    both=', directions: both, chunks_per_shard: 3'
    for case in gather_uneven accumulate_last_3d scatter_half_mean exchange_products back_row_parallel; do
        [ -n "$WEFT_LONG_TESTS" ] || [ "$n" = 4 ] || [ $case = scatter_half_mean ] || continue
        one $case
        case $case in
        gather* | exchange*) compare "$case on $n ranks" "$both" 0 ;;
        scatter*) compare "$case on $n ranks" ', directions: both, chunks_per_shard: 2, strict_bits: true' 0 ;;
        esac
        one $case ints
        compare "$case on $n ranks, exact sums" "$both" 0
        [ "$n" = 2 ] || grep -q 'stream: micro_pipeline_sends_back' "$at/rank0.yaml"; ok $? "$case on $n ranks: chunks go both ways"
    done
    for case in reduce_even reduce_even_half; do
        scattered=', all_reduce: scattered, chunks_per_shard: 2'
        one $case
        compare "$case on $n ranks, any floats" "$scattered, strict_bits: true" 0
        [ $case = reduce_even_half ] || prints 0 'what ranks ran before: same bits' "$case is proved in the order of ranks" "$weft" verify $programs --reading in_order --against "$graph"
        one $case ints
        compare "$case on $n ranks, exact sums" "$scattered" 0
        compare "$case on $n ranks, both ways" "$scattered, directions: both" 0
        grep -q p_send "$at/rank0.yaml"; ok $? "$case on $n ranks: sums are sent"
    done
done
# who goes by names sees neither views nor streams: the memory of the sums that are sent is not let go of
n=2
[ -d "$folder/$n" ] || all
one reduce_computed_3d ints
"$weft" opt -q "$graph" --passes 'micro_pipeline_tp: {guard: off, all_reduce: scattered}' -o "$at/rank{rank}.yaml"
for reading in in_order by_name by_bytes; do
    # shellcheck disable=SC2086
    prints 0 "^$reading: safe" "sums that are sent, read $reading" "$weft" verify $programs --reading $reading
done
n=2
[ -d "$folder/$n" ] || all
one reduce_largest_3d
says 0 'all_reduce' 'maxima are reduced by rows' "$weft" opt "$graph" -v --passes 'micro_pipeline_tp: {guard: off, all_reduce: scattered}' -o "$folder/rows.yaml"
! grep -q p_send "$folder/rows.yaml"; ok $? 'maxima are not sent'
one back_half
compare 'sums of 16-bit floats in fp32' ', fp32_sums: true' 0.01
grep -q 'wide_sum' "$at/rank0.yaml"; ok $? 'a weight gradient of 16-bit floats is added up in fp32'
one gather_transposed
says 0 'left alone \(shape\): .*no transposition' 'torch has no fused op with a transposition' \
    "$weft" opt "$graph" -v --passes 'micro_pipeline_tp: {form: fused, guard: off}'
"$PYTHON" tests/micro_patterns.py write left_added_rows 2 "$folder"
says 0 'left alone \(shape\): all_gather #0: what is added to the product is not one row for all' 'rows that are added are left' \
    "$weft" opt "$folder/graph.fx.json" -v --passes 'micro_pipeline_tp: {guard: off}'
"$PYTHON" tests/micro_patterns.py write left_activation 2 "$folder"
says 0 'left alone \(nothing to do\): all_gather #0: no product reads the gathered rows, but aten_relu does' 'what reads rows instead of a product is named' \
    "$weft" opt "$folder/graph.fx.json" -v --passes 'micro_pipeline_tp: {guard: off}'
"$PYTHON" tests/micro_patterns.py write left_vector 2 "$folder"
says 0 'left alone \(shape\): all_gather #0: a product with a vector, or of two types' 'a product with a vector is left' \
    "$weft" opt "$folder/graph.fx.json" -v --passes 'micro_pipeline_tp: {guard: off}'
at=$folder n=2
weft_run "$folder/graph.fx.json" vector; ok $? "a product with a vector runs: $(tail -n 1 "$folder/err")"
"$PYTHON" tests/micro_patterns.py write gather_uneven 1 "$folder"
says 0 'left alone \(ring\): all_gather #0: its ring has one rank, which sends nothing' 'a ring of one rank is left' \
    "$weft" opt "$folder/graph.fx.json" -v --passes 'micro_pipeline_tp: {guard: off}'
"$PYTHON" tests/micro_patterns.py write gather_bias_half 2 "$folder"
says 0 'left alone \(nothing to do\): all_gather #0: torch has no fused op of a product with a bias' 'torch has no fused op with a bias' \
    "$weft" opt "$folder/graph.fx.json" -v --passes 'micro_pipeline_tp: {form: fused, guard: off}'
"$PYTHON" tests/micro_patterns.py write left_merged 2 "$folder"
says 0 'left alone \(shape\): all_gather #0: a reshape makes one of other dimensions' 'three dimensions that become one are left' \
    "$weft" opt "$folder/graph.fx.json" -v --passes 'micro_pipeline_tp: {guard: off}'
"$PYTHON" tests/micro_patterns.py pairs <"$folder/pairs" >"$folder/same"
while read -r status what; do ok "$status" "$what"; done <"$folder/same"
[ "$(wc -l <"$folder/same")" = $ncompared ]; ok $? 'all pairs of runs are compared'
finish

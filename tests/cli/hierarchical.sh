#!/bin/sh
# hierarchical_all_reduce: sums over ranks of several hosts in two levels. The programs are proved equal to the serial one, and threads
# and processes give the same bits. What cannot be split is left alone with the reason.
. tests/support/shell.sh
. tests/support/python.sh

field() { sed -n 's/.*"'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}.*/\1/p' "$2" | head -n 1; }
trains() { # CASE RANKS INSIDE
    case=$fixtures/$1 ranks=$2
    [ -f "$case/serial.pdmodel" ] || { skipped=$((skipped + 1)); return; }
    loss=$(field loss "$case/case.json")
    rm -f "$folder"/rank*
    "$weft" opt "$case/serial.pdmodel" --passes configs/hierarchical.yaml --set data_parallel.ranks="$ranks" \
        --set hierarchical_all_reduce.inside="$3" -o "$folder/rank{rank}.pdmodel" 2>"$folder/report"
    ok $? "$1: the pass list runs"
    grep -q "sums are made in two levels: in groups of $3 ranks, then over $((ranks / $3)) groups" "$folder/report"
    ok $? "$1: sums are made in two levels"
    programs=$(for r in $(seq 0 $((ranks - 1))); do echo "$folder/rank$r.pdmodel"; done)
    # shellcheck disable=SC2086
    prints 0 'against the serial program: same' "$1: it is proved" \
        "$weft" verify $programs --ranks "$ranks" --against "$case/serial.pdmodel"
    run() { # WHAT LAUNCH
        # shellcheck disable=SC2086
        WEFT_LAUNCH=$2 "$weft" run $programs --ranks "$ranks" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch "$loss" \
            --steps 4 --save "$folder/$1.npz" >"$folder/$1.csv" 2>"$folder/err"
        ok $? "$case, $1: $(tail -n 1 "$folder/err")"
    }
    run threads ''
    run again ''
    cmp -s "$folder/threads.csv" "$folder/again.csv" && cmp -s "$folder/threads.npz" "$folder/again.npz"
    ok $? "$1: two runs have the same bits"
    "$weft" info | grep -q '^MPI *yes' && command -v mpirun >/dev/null || { skipped=$((skipped + 1)); return; }
    run hybrid mpi:2
    cmp -s "$folder/threads.csv" "$folder/hybrid.csv" && cmp -s "$folder/threads.npz" "$folder/hybrid.npz"
    ok $? "$1: processes of two ranks have the bits of threads"
}
trains paddle3/mlp_adam_dp2 4 2
trains paddle26/gpt_tiny_adamw_dp2 4 2

# A proof that accepts other rings proves nothing.
"$PYTHON" - "$folder" <<'END'
import json, sys
for rank in range(4):
    path = f'{sys.argv[1]}/rank{rank}.dist.json'
    dist = json.load(open(path))
    dist['process_groups']['2'] = dist['process_groups']['1']
    json.dump(dist, open(path, 'w'))
END
prints 1 'against the serial program: not proved' 'sums over the same ranks twice are refused' \
    "$weft" verify "$folder/rank0.pdmodel" "$folder/rank1.pdmodel" "$folder/rank2.pdmodel" "$folder/rank3.pdmodel" --ranks 4 \
    --against "$fixtures/paddle26/gpt_tiny_adamw_dp2/serial.pdmodel"

# --- what is left alone ---
sum() { # RING ROWS ATTRS DIST
    cat <<END
weft: 1
rank: 1
rings: {0: [$1]}
blocks:
- vars:
    g: {float32: [$2, 1024]}
  ops:
  - {all_reduce: {x: [g]}, out: {out: [g]}, attrs: {$3ring_id: 0}$4}
END
}
dist=', dist: {stream: sums}'
split() { # STATUS WORDS RING ROWS ATTRS OPTIONS
    sum "$3" "$4" "$5" "$dist" >"$folder/sum.yaml"
    says "$1" "$2" "$2" "$weft" opt -v "$folder/sum.yaml" --passes "hierarchical_all_reduce: {$6}" -o "$folder/o.yaml"
}
split 0 '1 sums are made in two levels' '0, 1, 2, 3' 8 '' 'inside: 2'
split 0 '1 sums are made in two levels: in groups of 2 ranks, then over 3 groups' '1, 0, 4, 5, 8, 9' 8 '' 'inside: 2'
split 0 'its ring is within one group' '0, 1, 2, 3' 8 '' 'inside: 4'
split 0 'no two neighbours of its ring are in one group' '1, 2, 4, 6' 8 '' 'inside: 2'
split 0 'its groups are not of one size' '0, 1, 2' 8 '' 'inside: 2'
split 0 'its groups are not of one size' '0, 1, 2, 4' 8 '' 'inside: 2'
split 0 'its ring does not have this rank' '2, 3, 4, 5' 8 '' 'inside: 2'
split 0 'a group does not divide its rows' '0, 1, 2, 3' 7 '' 'inside: 2'
split 0 'it is no sum' '0, 1, 2, 3' 8 'reduce_type: 1, ' 'inside: 2'
split 0 'it is asynchronous' '0, 1, 2, 3' 8 'async_op: true, ' 'inside: 2'
split 0 'it is smaller than min_kb' '0, 1, 2, 3' 8 '' 'inside: 2, min_kb: 100'
split 1 'expected two streams, found "a" and "a"' '0, 1, 2, 3' 8 '' 'inside: 2, between_stream: a, gather_stream: a'
dist=
split 0 'run this pass behind overlap_comm' '0, 1, 2, 3' 8 '' 'inside: 2'
dist=', dist: {stream: sums}'
split 1 'expected inside, the ranks of a group' '0, 1, 2, 3' 8 '' ''

# By the cluster: groups are its hosts, and a sum is split where the model says that it gains.
cat >"$folder/hosts.yaml" <<END
links:
- {ranks: 2, bytes_per_second: 100.0e+9, seconds_per_message: 1.0e-6}
- {bytes_per_second: 1.0e+9, seconds_per_message: 20.0e-6}
END
sed 's/bytes_per_second: 1.0e+9, seconds_per_message: 20.0e-6/bytes_per_second: 100.0e+9, seconds_per_message: 0.1e-6/' "$folder/hosts.yaml" >"$folder/even.yaml"
split 0 'in groups of 2 ranks, then over 2 groups' '0, 1, 2, 3' 8 '' "cluster: $folder/hosts.yaml"
split 0 "by the cluster's model two levels are no faster" '0, 1, 2, 3' 8 '' "cluster: $folder/even.yaml"
split 0 'no link of the cluster joins some of the ranks only' '0, 1' 8 '' "cluster: $folder/even.yaml"
sed -i '/^rank/d' "$folder/sum.yaml"
says 1 'expected {rank} in the name of the output' 'one program for all ranks is refused' \
    "$weft" opt "$folder/sum.yaml" --passes 'hierarchical_all_reduce: {inside: 2}' -o "$folder/o.yaml"
finish

#!/bin/sh
# weft run --replan: other buckets behind the first steps, from what was measured; the results have the same bits.
. tests/support/shell.sh
case=$fixtures/paddle26/mlp_sgd_dp2
printf 'links: [{bytes_per_second: 1.0e+9, seconds_per_message: 1.0e-4}]\n' >"$folder/slow.yaml"
run() { # OPTION...
    "$weft" run "$case/rank0.pdmodel" --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" --steps 8 --fetch mean_0.tmp_0 "$@"
}
run --save "$folder/plain.npz" >"$folder/plain" 2>/dev/null; ok $? 'a run'
says 0 'replanned behind step 2: [0-9]+ collectives, now [1-7]; a step took .* predicted are .* proved: same bits' \
    'buckets are planned again, and what changed is told' run --replan "3:$folder/slow.yaml" --save "$folder/replanned.npz"
cmp -s "$folder/plain" "$folder/out"; ok $? 'the losses have the same bits'
cmp -s "$folder/plain.npz" "$folder/replanned.npz"; ok $? 'what is saved has the same bits'
says 0 'replanned behind step 2: ' 'without a cluster file the machine is measured' run --replan 3
mkdir "$folder/tmp"
TMPDIR="$folder/none" run --replan 3 2>&1 | grep -q "$folder/none: cannot write a temporary file: No such file"
ok $? 'temporary files are in TMPDIR'
TMPDIR="$folder/tmp" run --replan 3 >/dev/null 2>&1 && [ -z "$(ls "$folder/tmp")" ]; ok $? 'and are removed'
run --replan 8 2>&1 | grep -q replanned; [ $? = 1 ]; ok $? 'not behind the last step'
if "$weft" info | grep -q '^MPI *yes' && command -v mpirun >/dev/null; then
    says 0 'replanned behind step 2: [0-9]+ collectives, now [1-7]; .* proved: same bits' 'processes plan the same buckets' \
        run --launch --replan "3:$folder/slow.yaml" --save "$folder/processes.npz"
    cmp -s "$folder/plain" "$folder/out" && cmp -s "$folder/plain.npz" "$folder/processes.npz"; ok $? 'and go on with the same bits'
    says 0 'replanned behind step 2: ' 'processes are measured between their steps' run --launch --replan 3
    cmp -s "$folder/plain" "$folder/out"; ok $? 'which changes no bit'
    says 1 'slow.yam: cannot open' 'processes end together where one file is not there' run --launch --replan "3:$folder/slow.yam"
else
    skipped=3
fi
says 2 'expected N or N:CLUSTER' 'a malformed number' run --replan 1
says 2 'expected one program for all ranks' 'two programs' "$weft" run "$case/rank0.pdmodel" "$case/rank1.pdmodel" --replan 3
says 1 'slow.yam: ' 'a cluster file that is not there' run --replan "3:$folder/slow.yam"
finish

#!/bin/sh
# weft verify: exit status, what is printed, JSON, options.
. tests/support/shell.sh
. tests/support/python.sh
good=tests/golden/full_list/out.yaml
sed 's/dist: {wait: \[grad_sync\/1\]}/dist: {}/' "$good" >"$folder/race.yaml"

prints 0 '^by_name: safe' 'a safe program: both readings, exit 0' "$weft" verify "$good"
prints 0 '^by_bytes: safe' 'by bytes' "$weft" verify "$good" --reading by_bytes --ranks 2
prints 1 '^race: c_allreduce_sum #9 on stream gradient_sync writes .* sgd #11 on stream compute reads' 'a race: the ops' \
    "$weft" verify "$folder/race.yaml"
grep -q 'mended by: sgd #11 waits for c_allreduce_sum #9' "$folder/out"; ok $? 'a race: what would mend it'
prints 0 'streams unknown: assumed compute' 'streams unknown' "$weft" verify tests/golden/coalesce_two_gradients/out.yaml
prints 1 '^race: ' 'streams assumed otherwise' \
    "$weft" verify tests/golden/coalesce_two_gradients/out.yaml --reading in_order --stream c_allreduce_sum:sync
"$weft" verify "$folder/race.yaml" --reading in_order --json >"$folder/found.json"
ok $(($? != 1)) 'JSON: exit 1 too'
"$PYTHON" - "$folder/found.json" <<'END'
import json
import sys
found = json.load(open(sys.argv[1]))
first = found['result']['findings'][0]
assert found['reading'] == 'in_order' and first['verdict'] == 'race', found
assert [op['type'] for op in first['ops']] == ['c_allreduce_sum', 'sgd'] and first['bytes'][0] < first['bytes'][1], first
END
ok $? 'JSON: reading, verdict, ops, bytes'
says 2 'in_order, by_name or by_bytes' 'an unknown reading' "$weft" verify "$good" --reading sideways
says 1 'WHICH:STREAM' 'half an assumption' "$weft" verify tests/golden/coalesce_two_gradients/out.yaml --stream sync
says 1 'one program, or one for each of 3 ranks' 'two programs for three ranks' "$weft" verify "$good" "$good" --ranks 3
prints 0 '^  races  *Are two accesses to a byte, one a write, ordered\? \(without --launch any\)$' 'help lists the checks' \
    "$weft" verify --help
ok $(($(grep -c '^  [a-z_]* .*[?]' "$folder/out") != $(grep -c '^CHECK(' proof/checks/checks.def))) 'help lists all checks'
bug=bench/bugs/02-scale-applied-twice
prints 1 '^wrong_value: ' 'a wrong value has a witness' "$weft" verify $bug/bad.yaml --ranks 2 --against $bug/serial.yaml
grep -q 'shown by random data: element [0-9]* of rank [01] is .*, expected ' "$folder/out"; ok $? 'the witness: element, values'
prints 1 '"verdict": "wrong_value"' 'the same as JSON' "$weft" verify $bug/bad.yaml --ranks 2 --against $bug/serial.yaml --json
open=../shared/fixtures/users/paddle26/unfold_patches_vit/serial.pdmodel
if [ -f $open ]; then
    "$weft" opt $open -q --passes configs/data_parallel.yaml --set data_parallel.ranks=2 -o "$folder/open.pdmodel"
    prints 0 '^against the serial program: same' 'an open batch' "$weft" verify "$folder/open.pdmodel" --ranks 2 --against $open
    prints 0 '^against the serial program: same' 'a batch that is given' \
        "$weft" verify "$folder/open.pdmodel" --ranks 2 --against $open --batch 8
    says 2 '--batch: expected a whole number' 'a batch of no rows' \
        "$weft" verify "$folder/open.pdmodel" --against $open --batch 0
fi
loop=../shared/fixtures/users/paddle26/rnn_cell_wrapper_birnn/serial.pdmodel
if [ -f $loop ]; then
    "$weft" opt $loop -q --passes configs/data_parallel.yaml --set data_parallel.ranks=2 -o "$folder/loop.pdmodel"
    prints 0 '^against the serial program: same' 'loops with gradients, in a bucket' \
        "$weft" verify "$folder/loop.pdmodel" --ranks 2 --against $loop
    "$weft" opt $loop -q --passes 'data_parallel: {ranks: 2}' -o "$folder/loop.yaml"
    for op in scale c_allreduce_sum; do
        awk -v op="- {$op:" '!done && index($0, op) && /gru_cell/ { done = 1; next } { print }' "$folder/loop.yaml" \
            >"$folder/wrong.yaml"
        says_not() { ! "$weft" verify "$folder/wrong.yaml" --ranks 2 --against $loop >"$folder/out"; }
        says_not; ok $? "a loop's gradient without its $op is refused"
    done
fi
says 2 'usage: weft verify' 'no program' "$weft" verify
finish

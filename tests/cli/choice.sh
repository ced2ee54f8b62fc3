#!/bin/sh
# spmd_choose: a serial program without annotations is placed, partitioned and proved, and trains to the serial losses.
. tests/support/shell.sh
case=$fixtures/spmd/paddle26/mlp_tp_mp2
[ -d "$case" ] || { skipped=1; finish; exit 0; }
cp "$case/serial.pdmodel" "$folder/serial.pdmodel"
says 1 'it needs CBC, which could not be opened: libnone.so' 'without CBC the pass says what is missing' \
    "$weft" opt "$folder/serial.pdmodel" --passes 'spmd_choose: {mesh: "2", solver: libnone.so}' -o "$folder/none.pdmodel"
says 1 'no mesh: expected the option mesh' 'without a mesh the pass says so' \
    "$weft" opt "$folder/serial.pdmodel" --passes spmd_choose -o "$folder/none.pdmodel"
"$weft" opt "$folder/serial.pdmodel" --passes 'spmd_choose: {mesh: "2"}' -o "$folder/whole.pdmodel" >"$folder/report" 2>&1
if grep -q 'it needs CBC' "$folder/report"; then
    echo 'skipped: no CBC here'
    skipped=1
    finish
    exit 0
fi
grep -q 'a gap of 0 %' "$folder/report" && grep -q 'linear_0.w_0: \[-, -\].*so matmul_v2 #0 reads it; .* more$' "$folder/report"
ok $? 'the report tells the gap, and why a parameter lies so'
"$weft" show "$folder/whole.pdmodel" --placements | grep -q '^linear_0.w_0: \[-, -\]'; ok $? 'small weights are whole'

# 0.006 MiB do not hold weights and gradients whole.
"$weft" opt -q "$folder/serial.pdmodel" --passes 'spmd_choose: {mesh: "dp=2", memory_mb: 0.006}' -o "$folder/placed.pdmodel" &&
    "$weft" opt -q "$folder/placed.pdmodel" --passes spmd_expand -o "$folder/rank{rank}.pdmodel"
ok $? 'a limit of memory puts weights in parts'
prints 0 'chosen: so [a-z_0-9]* #[0-9]* (reads|leaves) it; .* would take .* us' 'show --why tells why a var lies so' \
    "$weft" show "$folder/placed.pdmodel" --why relu_0.tmp_0
"$weft" show "$folder/placed.pdmodel" --placements | grep -q '^linear_0.w_0: .*dp'; ok $? 'the mesh axis has its name'
"$weft" run "$folder/serial.pdmodel" --params "$case/params.npz" --feed "$case/feeds.npz" --fetch mean_0.tmp_0 >"$folder/serial.csv" 2>/dev/null &&
    "$weft" run "$folder"/rank?.pdmodel --ranks 2 --params "$case/params.npz" --feed "$case/feeds.npz" --fetch mean_0.tmp_0 >"$folder/ranks.csv" 2>"$folder/err" &&
    awk -F, 'NR == FNR { a[$1] = $4; next } FNR > 1 { d = $4 - a[$1]; n++; if (d > 1e-4 || -d > 1e-4) bad++ } END { exit !n || bad }' \
        "$folder/serial.csv" "$folder/ranks.csv"
ok $? 'it trains to the serial losses'
prints 0 'same over the real numbers' 'it is proved to be the serial program' "$weft" verify "$folder"/rank?.pdmodel --reading by_bytes --against "$folder/serial.pdmodel"
says 1 'or less: the least is 0.00[0-9]* MiB, at [a-z_0-9]* #[0-9]*: 0.00[0-9]* of state' 'a limit that nothing meets: the least, and where' \
    "$weft" opt "$folder/serial.pdmodel" --passes 'spmd_choose: {mesh: "2", memory_mb: 0.001}' -o "$folder/none.pdmodel"
finish

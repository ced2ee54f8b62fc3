#!/bin/sh
# A dimension that several mesh axes shard: the programs train to the serial losses, and are proved equal to the whole.
. tests/support/shell.sh
. tests/support/python.sh
cases=$fixtures/spmd/paddle26
[ -d "$cases" ] || { skipped=1; finish; exit 0; }
cp "$cases/mlp_tp_mp2/serial.pdmodel" "$folder/serial.pdmodel"
of_all="$folder/rank0.pdmodel $folder/rank1.pdmodel $folder/rank2.pdmodel $folder/rank3.pdmodel"
given="--params $cases/mlp_tp_mp2/params.npz --feed $cases/mlp_tp_mp2/feeds.npz --fetch mean_0.tmp_0"

annotate() { # members of "vars"
    echo '{"meshes": [{"shape": [2, 2], "ids": [0, 1, 2, 3], "dims": ["a", "b"]}], "vars": {'"$1"'}}' >"$folder/annotate.json"
}
expand() { # pass list
    "$weft" opt "$folder/serial.pdmodel" --dist "$folder/annotate.json" --passes "$1" -o "$folder/rank{rank}.pdmodel" 2>"$folder/report"
}
"$weft" run "$folder/serial.pdmodel" $given >"$folder/serial.csv" 2>/dev/null
compare='NR == FNR { if (FNR > 1) serial[$1] = $4; next }
    FNR > 1 { d = $4 - serial[$1]; n++; if (d > 1e-5 || -d > 1e-5) bad++ } END { exit !n || bad }'
trains() { # what
    "$weft" run $of_all --ranks 4 $given --save "$folder/left.npz" >"$folder/ranks.csv" 2>"$folder/err" &&
        awk -F, "$compare" "$folder/serial.csv" "$folder/ranks.csv"
    ok $? "$1 trains to the serial losses"
    "$weft" verify $of_all --reading by_bytes --against "$folder/serial.pdmodel" >"$folder/verify" 2>&1
    ok $? "$1 is proved to be the serial program"
}

annotate '"x": {"mesh": 0, "dims_mapping": [[0, 1], -1]}'
for passes in spmd_expand configs/spmd.yaml; do
    expand $passes
    trains "a batch over both axes, after $passes"
done
expand spmd_expand
! grep -q 'on ring [12]' "$folder/report" && grep -q '2 all-reduce on ring 3, a rank receives 4608 bytes: matmul_v2_grad' "$folder/report"
ok $? 'gradients are summed over both axes at once'
"$weft" opt -q "$folder/serial.pdmodel" --dist "$folder/annotate.json" --passes spmd_propagate -o "$folder/placed.pdmodel"
prints 0 '^linear_1.tmp_0: \[\(a, b\), -\]' 'show --placements tells lists' "$weft" show "$folder/placed.pdmodel" --placements
prints 0 '^  b:$' 'show --why tells of each axis' "$weft" show "$folder/placed.pdmodel" --why linear_1.tmp_0
grep -q '"linear_1.tmp_0": {"mesh": 0, "dims_mapping": \[\[0, 1\], -1\]' "$folder/placed.dist.json"
ok $? 'lists are written as Paddle writes them'

annotate '"x": {"mesh": 0, "dims_mapping": [[1, 0], -1]}'
expand spmd_expand
trains 'a batch over both axes, the second one major'
annotate '"linear_0.w_0": {"mesh": 0, "dims_mapping": [[0, 1], -1]}, "y": {"mesh": 0, "dims_mapping": [0, -1]}'
expand spmd_expand
trains 'rows of a weight over both axes, labels over one'
grep -q '1 reduce-scatter on ring 3' "$folder/report"; ok $? 'a sum over both axes of which parts are kept is one reduce-scatter'
annotate '"linear_0.w_0": {"mesh": 0, "dims_mapping": [-1, [0, 1]]}'
expand spmd_expand
trains 'columns of a weight over both axes'

annotate '"x": {"mesh": 0, "dims_mapping": [[0, 0], -1]}'
expand spmd_expand; [ $? = 1 ] && grep -q 'dims_mapping\[0\]: mesh axis 0 is given twice' "$folder/report"
ok $? 'an axis twice in a list is refused'
annotate '"x": {"mesh": 0, "dims_mapping": [[0, 1], 1]}'
expand spmd_expand; [ $? = 1 ] && grep -q 'dims_mapping\[1\]: mesh axis 1 shards another tensor axis too' "$folder/report"
ok $? 'an axis of two dimensions is refused'
annotate '"x": {"mesh": 0, "dims_mapping": [[0, 2], -1]}'
expand spmd_expand; [ $? = 1 ] && grep -q 'dims_mapping\[0\]: expected -1 or a mesh axis below 2, found 2' "$folder/report"
ok $? 'an axis that the mesh does not have is refused'
finish

#!/bin/sh
# A dimension that several mesh axes shard: the programs train to the serial losses, and are proved equal to the whole.
. tests/support/shell.sh
. tests/support/python.sh
cases=$fixtures/spmd/paddle26
[ -d "$cases" ] || { skipped=1; finish; exit 0; }
of_all="$folder/rank0.pdmodel $folder/rank1.pdmodel $folder/rank2.pdmodel $folder/rank3.pdmodel"

annotate() { # members of "vars"
    echo '{"meshes": [{"shape": [2, 2], "ids": [0, 1, 2, 3], "dims": ["a", "b"]}], "vars": {'"$1"'}}' >"$folder/annotate.json"
}
expand() { # pass list
    "$weft" opt "$folder/serial.pdmodel" --dist "$folder/annotate.json" --passes "$1" -o "$folder/rank{rank}.pdmodel" 2>"$folder/report"
}
take() { # case
    cp "$cases/$1/serial.pdmodel" "$folder/serial.pdmodel"
    given="--params $cases/$1/params.npz --feed $cases/$1/feeds.npz --fetch mean_0.tmp_0"
    "$weft" run "$folder/serial.pdmodel" $given >"$folder/serial.csv" 2>/dev/null
}
compare='NR == FNR { if (FNR > 1) serial[$1] = $4; next }
    FNR > 1 { d = $4 - serial[$1]; n++; if (d > 1e-5 || -d > 1e-5) bad++ } END { exit !n || bad }'
trains() { # what
    "$weft" run $of_all --ranks 4 $given --save "$folder/left.npz" >"$folder/ranks.csv" 2>"$folder/err" &&
        awk -F, "$compare" "$folder/serial.csv" "$folder/ranks.csv"
    ok $? "$1 trains to the serial losses"
    "$weft" verify $of_all --reading by_bytes --against "$folder/serial.pdmodel" >"$folder/verify" 2>&1
    ok $? "$1 is proved to be the serial program"
}

take mlp_batch5_dp2
for list in '0, 1' '1, 0'; do
    annotate '"x": {"mesh": 0, "dims_mapping": [['"$list"'], -1]}'
    expand spmd_expand
    trains "a batch of five rows over axes $list"
done

take mlp_tp_mp2
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

# Each rank's part goes to one other.
annotate '"x": {"mesh": 0, "dims_mapping": [[0, 1], -1]}, "y": {"mesh": 0, "dims_mapping": [[1, 0], -1]}'
expand spmd_expand
grep -q '1 permute on ring 3, a rank receives 16 bytes: state and feeds' "$folder/report"
ok $? 'axes in another order are one exchange of a part'
trains 'labels over both axes in another order'
swapped="$folder/rank0.pdmodel $folder/rank2.pdmodel $folder/rank1.pdmodel $folder/rank3.pdmodel" # each keeps its part then
prints 1 'against the serial program: not proved' 'parts that go to other ranks are not proved' \
    "$weft" verify $swapped --reading by_bytes --against "$folder/serial.pdmodel"
annotate '"x": {"mesh": 0, "dims_mapping": [-1, [0, 1]]}, "linear_0.w_0": {"mesh": 0, "dims_mapping": [[1, 0], -1]}'
expand configs/spmd.yaml
grep -q '1 permute on ring 3' "$folder/report"; ok $? 'columns in another order are one exchange'
trains 'columns of a feed over both axes in another order'

# DTensor's [Shard(0), Shard(0)] of a traced graph.
graph=$fixtures/torch/spmd/graphs/mlp_tp_sgd.w4/before.fx.json
[ -f "$graph" ] || { skipped=1; finish; exit 0; }
annotate ''
place_inputs() { # how x lies
    sed 's/"placements_in": {[^}]*}/"placements_in": {"x": '"$1"', "y": ["S0", "Shard(dim=0)"], "w0": ["R", "Replicate()"]}/' "$graph" >"$folder/before.fx.json"
}
expand_graph() { "$weft" opt -q "$folder/before.fx.json" --dist "$folder/annotate.json" --passes spmd_expand -o "$folder/rank{rank}.fx.json" 2>"$folder/report"; }
place_inputs '["Shard(0)", "S(0)"]'
expand_graph
prints 0 'against the serial program: same' 'a traced graph whose rows lie over two axes is proved to be the whole' \
    "$weft" verify "$folder/rank0.fx.json" "$folder/rank1.fx.json" "$folder/rank2.fx.json" "$folder/rank3.fx.json" --against "$folder/before.fx.json"
grep -q '"placements_out": *\[ *\[ *"R", *"R" *\]' "$folder/rank0.fx.json"; ok $? 'placements of its outputs are lists by axis'
place_inputs '"S(0)"'
expand_graph; [ $? = 1 ] && grep -q 'placements_in: x: expected a list of placements, one for each of 2 mesh axes' "$folder/report"
ok $? 'one placement for two axes is refused'
place_inputs '["S(0)", "Partial()"]'
expand_graph; [ $? = 1 ] && grep -q 'placements_in: x: expected R or S(dim) of 2 dimensions, found "Partial()"' "$folder/report"
ok $? 'what is no placement is refused'
finish

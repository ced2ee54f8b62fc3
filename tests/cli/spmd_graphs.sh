#!/bin/sh
# Traced graphs on meshes of several axes: the ranks give what the whole graph gives, and are proved equal to it; rank
# graphs name their mesh, and are given whole tensors.
. tests/support/shell.sh
. tests/support/python.sh
at=$fixtures/torch/spmd/graphs/block_tp.w4
[ -f "$at/before.fx.json" ] || { skipped=1; finish; exit 0; }

cat >"$folder/graph.py" <<'END'
import json, sys
import numpy as np
what, at, folder, *rest = sys.argv[1:]
z = np.load(at + '/numeric.npz')
if what == 'place': # placements by input; all others are replicated
    g, said, shape = json.load(open(at + '/before.fx.json')), json.loads(rest[0]), json.loads(rest[1])
    g['placements_in'] = {x['name']: said.get(x['name'], ['R'] * len(shape)) for x in g['inputs']}
    json.dump({'meshes': [{'shape': shape, 'ids': list(range(int(np.prod(shape))))}]}, open(folder + '/mesh.json', 'w'))
    json.dump(g, open(folder + '/before.fx.json', 'w'))
    np.savez(folder + '/whole.npz', **{n[3:]: z[n] for n in z.files if n.startswith('in.')})
else:
    o, g = np.load(folder + '/left.npz'), json.load(open(folder + '/before.fx.json'))
    for i, x in enumerate(g['outputs']):
        want, got = z['out.' + x['name']], o[f'fetch.{i}']
        assert got.shape == want.shape and np.max(np.abs(got - want)) <= 2e-5 * max(np.max(np.abs(want)), 1e-6), x['name']
END
expand() { # shape placements
    rm -f "$folder"/rank*
    "$PYTHON" "$folder/graph.py" place "$at" "$folder" "$2" "$1" &&
        "$weft" opt -q "$folder/before.fx.json" --dist "$folder/mesh.json" --passes spmd_expand -o "$folder/rank{rank}.fx.json" 2>"$folder/report"
}
gives() { # what
    of_all=$(ls "$folder"/rank*.fx.json)
    "$weft" run $of_all --feed "$folder/whole.npz" --steps 1 --save "$folder/left.npz" >"$folder/csv" 2>"$folder/err" &&
        "$PYTHON" "$folder/graph.py" compare "$at" "$folder"
    ok $? "$1 gives what the whole graph gives"
}
proved() { # what
    prints 0 'against the serial program: same' "$1 is proved" "$weft" verify $of_all --reading by_bytes --against "$folder/before.fx.json"
}

columns='{"w0": ["R", "S0"], "b0": ["R", "S0"], "w1": ["R", "S1"]}'
for shape in '[2, 2]' '[2, 3]' '[3, 2]'; do
    expand "$shape" "$columns"; gives "columns and rows on $shape"
done
expand '[2, 2]' "$columns"; gives 'columns and rows'; proved 'columns and rows'
mkdir "$folder/whole"
for r in 0 1 2 3; do sed '/"name":"addmm_1"/s/detach_13@RESHARD_1/detach_13/' "$folder/rank$r.fx.json" >"$folder/whole/rank$r.fx.json"; done
prints 1 'against the serial program: not proved' 'what each rank adds whole is not proved' \
    "$weft" verify "$folder"/whole/rank*.fx.json --reading by_bytes --against "$folder/before.fx.json"
grep -q '"mesh": *{"shape":\[2,2\],"ids":\[0,1,2,3\]}' "$folder/rank1.fx.json"; ok $? 'the graph of a rank names the mesh'
grep -q '"ring2": *{"size": *2, *"ranks": *\[2, *3\]' "$folder/rank3.fx.json"; ok $? 'and has a group for each axis'
expand '[2, 3]' '{"w0": ["S0", "S1"], "b0": ["R", "S0"], "w1": ["R", "S1"]}'; gives 'a weight cut both ways'; proved 'a weight cut both ways'
expand '[2, 2]' '{"head": ["S0", "S0"], "w0": ["S1", "S1"]}'; gives 'weights over both axes'; proved 'weights over both axes'

# Rows: a value that is proved by no rule is not called wrong either, since what is fetched goes by its column.
expand '[2, 2]' '{"idx": ["S0", "R"], "tgt": ["S0", "R"], "w0": ["R", "S0"], "b0": ["R", "S0"], "w1": ["R", "S1"]}'; gives 'rows and columns'
"$weft" verify $of_all --reading by_bytes --against "$folder/before.fx.json" >"$folder/verify" 2>&1
! grep -q 'shown by random data' "$folder/verify"; ok $? 'right values of other names are not shown to be wrong'

# A graph may name its mesh itself.
expand '[2, 2]' "$columns"
mkdir "$folder/own"
sed '1,/{/s/{/{"mesh": {"shape": [2, 2]}, /' "$folder/before.fx.json" >"$folder/own.fx.json"
"$weft" opt -q "$folder/own.fx.json" --passes spmd_expand -o "$folder/own/rank{rank}.fx.json" && grep -v '"mesh"' "$folder/own/rank2.fx.json" >"$folder/own.nodes" &&
    grep -v '"mesh"' "$folder/rank2.fx.json" | cmp -s - "$folder/own.nodes"
ok $? 'a mesh in the graph is as good as one beside it'
"$weft" opt -q "$folder/rank1.fx.json" -o "$folder/again.fx.json" && cmp -s "$folder/rank1.fx.json" "$folder/again.fx.json"
ok $? 'such a graph comes back as it was'
refuses() { # mesh, placements_in, message
    sed '1,/{/s/{/{"mesh": '"$1"', /; s/"placements_in": {[^}]*}/"placements_in": '"$2"'/' "$folder/before.fx.json" >"$folder/bad.fx.json"
    says 1 "$3" "refused: $3" "$weft" opt -q "$folder/bad.fx.json" -o "$folder/bad.yaml"
}
refuses '{"shape": [2, 2], "ids": [0, 1, 2]}' '{}' 'mesh: expected 4 ids, as many as its shape has, found 3'
refuses '{"shape": [2, 2], "ids": [0, 1, 2, 2]}' '{}' 'rank 2'
refuses '{"shape": [2, 0]}' '{}' 'mesh: expected a shape of 1 to 262144 ranks'
refuses '{"shape": [2, 2], "dims": ["dp"]}' '{}' 'mesh: expected dims as a list of 2 names'
refuses '[2, 2]' '{}' 'mesh: expected an object'
refuses '{"shape": [2, 2]}' '{"w0": ["S0"]}' 'placements_in: w0: expected a list of placements, one for each of 2 mesh axes'
refuses '{"shape": [2, 2]}' '{"w0": ["S0", "S7"]}' 'placements_in: w0: expected R or S.dim. of 2 dimensions, found "S7"'
refuses '{"shape": [2, 2]}' '{"none": ["R", "R"]}' 'placements_in: the graph has no input "none"'
refuses '{"shape": [2, 2]}' '[]' 'expected placements_in as an object'

# Outputs that are sums over ranks are made, or stay sums where that is asked for.
few() { # a member of the graph
    cat <<END
{"schema": "fx.json/1", "name": "few", "groups": {"0": {"size": 2, "ranks": [0, 1]}}, "constants": [], "world_size": 2, "shapes": "global", $1
 "inputs": [{"name": "a", "shape": [4, 6], "dtype": "float32"}, {"name": "b", "shape": [6, 5], "dtype": "float32"}],
 "outputs": [{"ref": "mm", "name": "z"}, {"ref": "sum_1", "name": "y"}, {"ref": "largest", "name": "m"}], "placements_in": {"a": "S(1)", "b": "S(0)"}, "nodes": [
 {"name": "mm", "op": "call", "target": "aten.mm.default", "args": [{"ref": "a"}, {"ref": "b"}], "kwargs": {}, "shape": [4, 5], "dtype": "float32"},
 {"name": "mm_1", "op": "call", "target": "aten.mm.default", "args": [{"ref": "a"}, {"ref": "b"}], "kwargs": {}, "shape": [4, 5], "dtype": "float32"},
 {"name": "sum_1", "op": "call", "target": "aten.sum.default", "args": [{"ref": "mm_1"}], "kwargs": {}, "shape": [], "dtype": "float32"},
 {"name": "largest", "op": "call", "target": "aten.amax.default", "args": [{"ref": "b"}, [0]], "kwargs": {}, "shape": [5], "dtype": "float32"}]}
END
}
cat >"$folder/few.py" <<'END'
import sys
import numpy as np
what, folder, *partial = sys.argv[1:]
r = np.random.RandomState(0)
a, b = r.randn(4, 6).astype('f'), r.randn(6, 5).astype('f')
if what == 'make':
    for k in range(2): np.savez(f'{folder}/feed.{k}.npz', a=a[:, 3 * k:3 * k + 3], b=b[3 * k:3 * k + 3])
else:
    left = [np.load(f'{folder}/few.{k}.npz') for k in range(2)]
    for i, (whole, joined) in enumerate([(a @ b, sum), (np.sum(a @ b), sum), (b.max(0), lambda x: np.maximum(*x))]):
        parts = [x[f'fetch.{i}'] for x in left]
        assert np.max(np.abs((joined(parts) if partial else parts[1]) - whole)) < 1e-5, i
END
"$PYTHON" "$folder/few.py" make "$folder"
for member in '' '"mesh": {"shape": [2], "ids": [0, 1]},'; do
    few "$member" >"$folder/few.fx.json"
    for kept in '' true; do
        "$weft" opt -q "$folder/few.fx.json" --passes "spmd_expand: {partial_outputs: ${kept:-false}}" -o "$folder/few{rank}.fx.json" &&
            "$weft" run "$folder/few0.fx.json" "$folder/few1.fx.json" --ranks 2 --feed "$folder/feed.{rank}.npz" --steps 1 --save "$folder/few.{rank}.npz" >"$folder/csv" 2>"$folder/err" &&
            "$PYTHON" "$folder/few.py" compare "$folder" $kept
        ok $? "outputs of ranks, ${member:+on a mesh, }${kept:+partial ones kept}"
        at='"R","R","R"' n=3 proof='against the serial program: same' code=0
        [ -z "$kept" ] || at='"P(sum)","P(sum)","P(max)"' n=0 proof='sum_1: same under a condition: if the ranks. values of it are added up' code=1
        grep -q "\"placements_out\": *\[$at\]" "$folder/few0.fx.json" && [ "$(grep -o '_c10d_functional.all_reduce' "$folder/few0.fx.json" | wc -l)" = $n ]
        ok $? "placements_out says so, and $n sums are made"
        prints $code "$proof" 'and what they hold is proved; of a maximum that is not made it is not' \
            "$weft" verify "$folder/few0.fx.json" "$folder/few1.fx.json" --reading by_bytes --against "$folder/few.fx.json"
    done
done
# Rows of a graph that names no mesh, of which the last rank has fewer.
at=$fixtures/torch/spmd/graphs/fn_uneven.w4
rm -f "$folder"/rank*
cp "$at/before.fx.json" "$folder/before.fx.json"
"$weft" opt -q "$folder/before.fx.json" --passes spmd_expand -o "$folder/rank{rank}.fx.json" 2>"$folder/report"
of_all=$(ls "$folder"/rank*.fx.json); proved 'rows of unequal parts'
mkdir "$folder/largest"
for r in 0 1 2 3; do sed 's/{"ref":"sum_1"},"sum"/{"ref":"sum_1"},"max"/' "$folder/rank$r.fx.json" >"$folder/largest/rank$r.fx.json"; done
prints 1 'against the serial program: not proved' 'the largest of their sums is not proved' \
    "$weft" verify "$folder"/largest/rank*.fx.json --reading by_bytes --against "$folder/before.fx.json"

# A mean of losses is their sum by the sum of their weights; not by the weights of a rank.
at=$fixtures/torch/spmd/graphs/gpt_dp.w2
rm -f "$folder"/rank*
cp "$at/before.fx.json" "$folder/before.fx.json"
"$weft" opt -q "$folder/before.fx.json" --passes spmd_expand -o "$folder/rank{rank}.fx.json" 2>"$folder/report"
of_all=$(ls "$folder"/rank*.fx.json); proved 'a mean of losses'
rm "$folder"/largest/rank[23].fx.json
for other in 0:max 0:avg 1:max 1:avg; do
    change='s/{"ref":"nll_loss_forward.'${other%:*}'@RESHARD"},"sum"/{"ref":"nll_loss_forward.'${other%:*}'@RESHARD"},"'${other#*:}'"/'
    for r in 0 1; do sed "$change" "$folder/rank$r.fx.json" >"$folder/largest/rank$r.fx.json"; done
    prints 1 'against the serial program: not proved' 'another mean of losses is not proved' \
        "$weft" verify "$folder"/largest/rank*.fx.json --reading by_bytes --against "$folder/before.fx.json"
done

finish

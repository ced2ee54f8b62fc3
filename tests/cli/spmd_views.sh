#!/bin/sh
# Graphs that spmd_expand cuts tell how all their values lie, and their views are proved as what they move, unless bytes
# are written between a view and its reader.
. tests/support/shell.sh
. tests/support/python.sh

cat >"$folder/make.py" <<'END'
"""make.py NAME RANKS ROWS: a graph whose input x has its rows cut"""
import json, sys
name, ranks, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ref = lambda x: {'ref': x}
node = lambda n, target, args, shape, **kwargs: {'name': n, 'op': 'call', 'target': f'aten.{target}', 'args': args, 'kwargs': kwargs, 'shape': shape, 'dtype': 'float32'}
shapes, placed = {'x': [rows, 6]}, {'x': 'S(0)'}
if name == 'repeated':      # a sum of each row, repeated along it
    nodes = [node('s', 'sum.dim_IntList', [ref('x'), [1], True], [rows, 1]), node('e', 'expand.default', [ref('s'), [rows, 6]], [rows, 6]),
             node('y', 'mul.Tensor', [ref('e'), ref('x')], [rows, 6])]
elif name == 'turned':      # rows as columns, some of them, one of them, and back
    nodes = [node('t', 't.default', [ref('x')], [6, rows]), node('p', 'slice.Tensor', [ref('t'), 0, 1, 5], [4, rows]), node('u', 'transpose.int', [ref('p'), 0, 1], [rows, 4]),
             node('g', 'slice_backward.default', [ref('u'), [rows, 6], 1, 1, 5, 1], [rows, 6]), node('c', 'select.int', [ref('x'), 1, 2], [rows]),
             node('k', 'unsqueeze.default', [ref('c'), 1], [rows, 1]), node('y', 'mul.Tensor', [ref('g'), ref('k')], [rows, 6])]
elif name == 'all':         # a slice of all rows
    nodes = [node('p', 'slice.Tensor', [ref('x'), 0, 0, 9223372036854775807], [rows, 6]), node('q', 'slice.Tensor', [ref('p'), 0, -rows, rows], [rows, 6]),
             node('y', 'relu.default', [ref('q')], [rows, 6])]
elif name == 'filled':      # a constant of the extents of a part
    nodes = [node('f', 'new_full.default', [ref('x'), [rows, 6], {'f': 2.0}], [rows, 6]), node('y', 'mul.Tensor', [ref('f'), ref('x')], [rows, 6])]
else:                       # a view of w that is read before w is written, or behind
    shapes.update(w=[6, 6], v=[6, 6])
    nodes = [node('t', 't.default', [ref('w')], [6, 6]), node('y', 'mm.default', [ref('x'), ref('t')], [rows, 6]), node('c', 'copy_.default', [ref('w'), ref('v')], [6, 6])]
    if name == 'behind': nodes[1], nodes[2] = nodes[2], nodes[1]
placed.update({n: 'R' for n in shapes if n != 'x'})
inputs = [{'name': n, 'shape': s, 'dtype': 'float32'} for n, s in shapes.items()]
json.dump({'schema': 'fx.json/1', 'name': name, 'groups': {'0': {'size': ranks, 'ranks': list(range(ranks))}}, 'inputs': inputs, 'constants': [], 'nodes': nodes,
           'outputs': [ref('y')] + [ref(n) for n in ('c',) if 'w' in shapes], 'world_size': ranks, 'placements_in': placed, 'shapes': 'global'}, sys.stdout)
END
make() { # NAME RANKS ROWS: the graph, and that of each rank
    "$PYTHON" "$folder/make.py" "$@" >"$folder/$1.fx.json" && rm -f "$folder/$1".rank* &&
        "$weft" opt -q "$folder/$1.fx.json" --passes spmd_expand -o "$folder/$1.rank{rank}.fx.json" 2>/dev/null
}
verify() { # NAME SERIAL
    "$weft" verify "$folder/$1".rank*.fx.json --against "$folder/$2.fx.json"
}

for name in repeated turned all filled before behind; do
    for cut in '2 4' '4 4' '3 8'; do
        # shellcheck disable=SC2086
        make $name $cut
        prints 0 'against the serial program: same' "$name, ranks and rows $cut" verify $name $name
    done
done
! grep -q all_gather "$folder"/all.rank0.fx.json
ok $? 'a slice of all rows is one of all rows of a part'
cp "$folder/before.fx.json" "$folder/serial.fx.json"
verify behind serial >"$folder/out" 2>&1
[ $? = 1 ]
ok $? "a view that is read behind a write is not what it was before: $(tail -n 2 "$folder/out")"

changed() { # NAME FROM TO: rank 0 has TO for the first FROM of each node
    make "$1" 2 4
    sed "/\"\(size\|args\)\":/s/$2/$3/" "$folder/$1.rank0.fx.json" >"$folder/changed" && mv "$folder/changed" "$folder/$1.rank0.fx.json"
    grep -qF "$3" "$folder/$1.rank0.fx.json" && verify "$1" "$1"
}
for case in 'repeated 2,6 1,6' 'filled "ends":\[2\] "ends":[3]'; do
    # shellcheck disable=SC2086
    changed $case >"$folder/out" 2>&1
    [ $? = 1 ]
    ok $? "${case%% *}, to other extents than are declared: $(tail -n 2 "$folder/out")"
done
prints 0 'against the serial program: same' 'a run goes by what ops make, whatever is declared' changed filled 2,6 3,6

# What is written in place and read under another name: where a rank holds parts, and needs the whole for it.
cat >"$folder/written.py" <<'END'
import json, subprocess, sys
import numpy as np
weft, folder = sys.argv[1:3]
ref = lambda x: {'ref': x}
node = lambda n, target, args, shape: {'name': n, 'op': 'call', 'target': f'aten.{target}', 'args': args, 'kwargs': {}, 'shape': shape, 'dtype': 'float32'}
nodes = [node('c', 'clone.default', [ref('x')], [4, 6]), node('n', 'linalg_vector_norm.default', [ref('c'), {'f': 2.0}], []), node('m', 'mul_.Tensor', [ref('c'), ref('n')], [4, 6]),
         node('z', 'zeros.default', [[4, 6]], [4, 6]), node('s', 'cumsum.default', [ref('m'), 0], [4, 6]), node('p', 'copy_.default', [ref('z'), ref('s')], [4, 6]),
         node('y', 'add.Tensor', [ref('p'), ref('c')], [4, 6])]
graph = {'schema': 'fx.json/1', 'name': 'written', 'groups': {'0': {'size': 2, 'ranks': [0, 1]}}, 'inputs': [{'name': 'x', 'shape': [4, 6], 'dtype': 'float32'}], 'constants': [],
         'nodes': nodes, 'outputs': [ref('m'), ref('p'), ref('y')], 'world_size': 2, 'placements_in': {'x': 'S(0)'}, 'shapes': 'global'}
json.dump(graph, open(f'{folder}/written.fx.json', 'w'))
call = lambda *args: subprocess.run([weft, *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
call('opt', f'{folder}/written.fx.json', '--passes', 'spmd_expand', '-o', folder + '/written.rank{rank}.fx.json')
ranks = [f'{folder}/written.rank{r}.fx.json' for r in (0, 1)]
x = np.random.default_rng(1).normal(size=(4, 6)).astype('f4')
for r in (0, 1): np.savez(f'{folder}/feed.{r}.npz', x=x[2 * r:2 * r + 2])
call('run', *ranks, '--ranks', '2', '--feed', folder + '/feed.{rank}.npz', '--steps', '1', '--save', folder + '/left.{rank}.npz')
m = x * np.sqrt((x * x).sum())
s = np.cumsum(m, 0)
for r, path in enumerate(ranks):
    left, placed = np.load(f'{folder}/left.{r}.npz'), json.load(open(path))['placements_out']
    for i, want in enumerate((m, s, s + m)):
        want = want[2 * r:2 * r + 2] if placed[i] == 'S(0)' else want[:, 3 * r:3 * r + 3] if placed[i] == 'S(1)' else want
        assert np.allclose(left[f'fetch.{i}'], want, rtol=1e-4, atol=1e-4), (r, i, placed[i], left[f'fetch.{i}'], want)
END
"$PYTHON" "$folder/written.py" "$weft" "$folder" 2>"$folder/err"
ok $? "what ranks write in place is what is read under other names: $(tail -n 3 "$folder/err")"
prints 0 'against the serial program: same' 'and proved' verify written written

make turned 2 4
"$PYTHON" -c 'import json, sys; g = json.load(open(sys.argv[1])); p = g["placements"]; assert p["t"] == "S(1)" and p["k"] == "S(0)" and "x" not in p and "y" not in p, p' \
    "$folder/turned.rank0.fx.json"
ok $? 'a graph tells how values lie that are no inputs and no outputs'
"$weft" opt "$folder/turned.rank0.fx.json" -o "$folder/again.fx.json" && cmp -s "$folder/turned.rank0.fx.json" "$folder/again.fx.json"
ok $? 'and comes back byte for byte'
"$weft" opt "$folder/turned.rank0.fx.json" -o "$folder/form.yaml" && "$weft" opt "$folder/form.yaml" -o "$folder/again.fx.json" &&
    cmp -s "$folder/turned.rank0.fx.json" "$folder/again.fx.json"
ok $? 'by way of another form too'
sed 's/"t":"S(1)"/"tt":"S(1)"/' "$folder/turned.rank0.fx.json" >"$folder/wrong.fx.json"
says 1 'placements: the graph has no tensor "tt"' 'a name that the graph does not have' "$weft" show "$folder/wrong.fx.json"
sed 's/"t":"S(1)"/"t":"S(2)"/' "$folder/turned.rank0.fx.json" >"$folder/wrong.fx.json"
says 1 'placements: t: expected R or S.dim. of 2 dimensions, found "S.2."' 'a dimension that there is not' "$weft" show "$folder/wrong.fx.json"
finish

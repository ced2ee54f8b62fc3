#!/bin/sh
# Recorded graphs (.fx.json) through the command: they come back byte for byte (with the long tests all of them, else every
# eighth), a part of them through the other forms too; a step of one gives what plain maths gives.
. tests/support/shell.sh
. tests/support/python.sh
graphs=$fixtures/torch
[ -d "$graphs" ] || { skipped=1; finish; exit 0; }

find "$graphs" -name '*.fx.json' -o -name '*.fx.json.gz' | sort | awk -v all="$WEFT_LONG_TESTS" 'all || NR % 8 == 1' \
    >"$folder/list"
differ=0 count=0
while read -r graph; do
    count=$((count + 1))
    "$weft" opt "$graph" -o "$folder/same.fx.json" 2>"$folder/err" && gzip -cdf "$graph" | cmp -s - "$folder/same.fx.json"
    [ $? = 0 ] || { differ=$((differ + 1)); echo "$graph"; head -n 3 "$folder/err"; }
done <"$folder/list"
[ $count -gt 0 ] && [ $differ = 0 ]
ok $? "$count graphs come back as they were"

for graph in "$graphs"/ddp/bugs/*d.before.fx.json "$graphs"/commtensor_functional/*d.w2/before.fx.json; do
    for form in yaml pdmodel fx.json.gz; do
        "$weft" opt "$graph" -o "$folder/g.$form" && "$weft" opt "$folder/g.$form" -o "$folder/g.fx.json" &&
            cmp -s "$graph" "$folder/g.fx.json"
        [ $? = 0 ] || { differ=$((differ + 1)); echo "$graph through $form"; }
    done
done
ok $differ "graphs come back through every form"

case=$graphs/ddp/mlp6.w2
"$PYTHON" - "$case" "$folder" make <<'EOF' && "$weft" run "$case/before.fx.json" --ranks 2 --feed "$folder/feed.{rank}.npz" \
    --steps 1 --save "$folder/out.{rank}.npz" >"$folder/csv" && "$PYTHON" - "$case" "$folder" compare <<'EOF2'
import json, sys
import numpy as np
case, folder, _ = sys.argv[1:]
z, names = np.load(case + '/numeric.npz'), [i['name'] for i in json.load(open(case + '/before.fx.json'))['inputs']]
for r in range(2):
    np.savez(f'{folder}/feed.{r}.npz', **{n: z[k] for n in names for k in (f'rank{r}.in.{n}', f'in.{n}') if k in z.files})
EOF
import json, sys
import numpy as np
case, folder, _ = sys.argv[1:]
z, outputs = np.load(case + '/numeric.npz'), json.load(open(case + '/before.fx.json'))['outputs']
for r in range(2):
    got = np.load(f'{folder}/out.{r}.npz')
    for i, o in enumerate(outputs):
        want = z[f'rank{r}.out.{o["name"]}' if f'rank{r}.out.{o["name"]}' in z.files else f'out.{o["name"]}']
        assert np.allclose(got[f'fetch.{i}'], want, rtol=1e-5, atol=1e-6), o
        assert got[f'fetch.{i}'].shape == want.shape and got[f'fetch.{i}'].dtype == want.dtype, o
EOF2
ok $? "a step of mlp6 gives the recorded loss and gradients"

# DTensor hands its mesh through a graph: that is no tensor, and nothing of a run
cat >"$folder/mesh.fx.json" <<'EOF'
{"schema": "fx.json/1", "groups": {}, "inputs": [{"name": "x", "shape": [3], "dtype": "float32"}, {"name": "mesh", "shape": null, "dtype": null}],
 "constants": [], "nodes": [{"name": "y", "op": "call", "target": "aten.relu.default", "args": [{"ref": "x"}], "kwargs": {}, "shape": [3], "dtype": "float32"}],
 "outputs": [{"ref": "mesh"}, {"ref": "y"}], "world_size": 1}
EOF
prints 0 'by_bytes: safe' 'what a graph is given and gives back is no obstacle' "$weft" verify "$folder/mesh.fx.json" --reading by_bytes
"$PYTHON" -c 'import sys, numpy as np; np.savez(sys.argv[1] + "/x.npz", x=np.float32([-1, 2, 3]))' "$folder"
"$weft" run "$folder/mesh.fx.json" --feed "$folder/x.npz" --steps 1 --save "$folder/y.npz" >/dev/null 2>"$folder/err" &&
    "$PYTHON" -c 'import sys, numpy as np; got = np.load(sys.argv[1] + "/y.npz"); assert "fetch.0" not in got.files and (got["fetch.1"] == [0, 2, 3]).all()' "$folder"
ok $? "the others leave it in their places: $(cat "$folder/err")"
sed 's/{"ref": "mesh"}, {"ref": "y"}/{"ref": "y"}/; s/"aten.relu.default", "args": \[{"ref": "x"}/"aten.relu.default", "args": [{"ref": "mesh"}/' "$folder/mesh.fx.json" >"$folder/read.fx.json"
prints 1 '"mesh" is not a tensor' 'an op that reads it is refused' "$weft" verify "$folder/read.fx.json" --reading by_bytes

echo '{"schema": "fx.json/1", "nodes": [{"name": "a"}]}' >"$folder/bad.fx.json"
says 1 'bad.fx.json:1:.*node "a": expected "op"' "what is wrong is reported with its place" "$weft" opt "$folder/bad.fx.json" -o -
finish

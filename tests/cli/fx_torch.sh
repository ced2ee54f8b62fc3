#!/bin/sh
# ATen ops and whole training steps, forward, backward and update, against what torch computed (tools/record_aten.py).
. tests/support/shell.sh
. tests/support/python.sh
cat >"$folder/compare.py" <<'END'
"""Runs a graph on its recorded inputs; every output is torch's, within 1e-5 of the largest element."""
import json, subprocess, sys
import numpy as np
weft, graph, folder = sys.argv[1:]
recorded = np.load(graph.replace('.fx.json', '.npz'))
np.savez(folder + '/in.npz', **{k[3:]: recorded[k] for k in recorded.files if k.startswith('in.')})
done = subprocess.run([weft, 'run', graph, '--feed', folder + '/in.npz', '--params', folder + '/in.npz', '--save', folder + '/out.npz'], capture_output=True, text=True)
if done.returncode:
    sys.exit(done.stderr)
got, bad = np.load(folder + '/out.npz'), 0
outputs = json.load(open(graph))['outputs']
for k, output in enumerate(outputs):
    a, b = got[f'fetch.{k}'], recorded[f'out.{k}']
    size = np.abs(b[np.isfinite(b)]).max(initial=1e-3) if b.size else 1
    if a.shape != b.shape or a.dtype != b.dtype or not np.allclose(a, b, rtol=1e-5, atol=1e-5 * size, equal_nan=True):
        bad += 1
        print('FAIL', graph, k, output, a, b, sep='\n')
sys.exit(bad > 0 or not outputs)
END
for graph in tests/data/torch/aten/*.fx.json tests/data/torch/training/*.fx.json; do
    "$PYTHON" "$folder/compare.py" "$weft" "$graph" "$folder"
    ok $? "$(basename "$graph" .fx.json) as torch has it"
done
cat >"$folder/dropout.py" <<'END'
"""What is kept is scaled by 1 / (1 - p); the mask says what is; a part of p is dropped; other steps draw otherwise."""
import json, subprocess, sys
import numpy as np
weft, folder = sys.argv[1:]
shape = [100, 80]
nodes = [{'name': 'd', 'op': 'call', 'target': 'aten.native_dropout.default', 'args': [{'ref': 'x'}, {'f': 0.25}, True], 'kwargs': {},
          'shape': [shape, shape], 'dtype': ['float32', 'bool']}]
nodes += [{'name': f'd{k}', 'op': 'call', 'target': 'getitem', 'args': [{'ref': 'd'}, k], 'kwargs': {}, 'shape': shape, 'dtype': t}
          for k, t in enumerate(('float32', 'bool'))]
graph = {'schema': 'fx.json/1', 'groups': {}, 'inputs': [{'name': 'x', 'shape': shape, 'dtype': 'float32', 'role': 'data'}], 'constants': [],
         'nodes': nodes, 'outputs': [{'ref': 'd0'}, {'ref': 'd1'}]}
json.dump(graph, open(folder + '/d.fx.json', 'w'))
x = np.random.default_rng(0).normal(size=shape).astype('f')
np.savez(folder + '/x.npz', x=x)
masks = []
for steps in '12':
    subprocess.run([weft, 'run', folder + '/d.fx.json', '--feed', folder + '/x.npz', '--steps', steps, '--save', folder + '/d.npz'],
                   capture_output=True, check=True)
    got = np.load(folder + '/d.npz')
    out, mask = got['fetch.0'], got['fetch.1']
    masks.append(mask)
    assert mask.dtype == bool and abs(mask.mean() - 0.75) < 0.02, mask.mean()
    assert np.allclose(out, np.where(mask, x / np.float32(0.75), 0), rtol=1e-6)
assert (masks[0] != masks[1]).any()
END
"$PYTHON" "$folder/dropout.py" "$weft" "$folder"
ok $? 'dropout drops a part, scales the rest, and says which'
finish

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
finish

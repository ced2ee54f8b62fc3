#!/bin/sh
# ATen ops of traced graphs, by the kernels that Weft has for them, against numpy; one that has none is named.
. tests/support/shell.sh
. tests/support/python.sh
"$PYTHON" - "$weft" "$folder" <<'END'
import json, subprocess, sys
import numpy as np
weft, folder = sys.argv[1:]
x = np.array([[-2.5, -1, -0.5], [0.5, 1.5, 3]], 'f')
g = np.array([[1, 2, 3], [4, 5, 6]], 'f')
i = np.array([2, 0], 'int64')
sigmoid = lambda a: 1 / (1 + np.exp(-a))
cases = {                                  # target: (arguments, what numpy makes of it)
    'tanh.default': (['x'], np.tanh(x)), 'sigmoid.default': (['x'], sigmoid(x)), 'abs.default': (['x'], np.abs(x)),
    'neg.default': (['x'], -x), 'sin.default': (['x'], np.sin(x)), 'cos.default': (['x'], np.cos(x)), 'atan.default': (['x'], np.arctan(x)),
    'expm1.default': (['x'], np.expm1(x)), 'floor.default': (['x'], np.floor(x)), 'ceil.default': (['x'], np.ceil(x)),
    'round.default': (['x'], np.round(x)), 'trunc.default': (['x'], np.trunc(x)), 'reciprocal.default': (['x'], 1 / x),
    'silu.default': (['x'], x * sigmoid(x)), 'sqrt.default': (['g'], np.sqrt(g)), 'log.default': (['g'], np.log(g)),
    'log1p.default': (['g'], np.log1p(g)), 'leaky_relu.default': (['x'], np.where(x > 0, x, 0.01 * x)),
    'elu.default': (['x'], np.where(x > 0, x, np.expm1(x))), 'softplus.default': (['x'], np.log1p(np.exp(x))),
    'hardtanh.default': (['x'], np.clip(x, -1, 1)), 'clamp.default': (['x', -0.75, 2.0], np.clip(x, -0.75, 2)),
    'tanh_backward.default': (['g', 'x'], g * (1 - x * x)), 'sigmoid_backward.default': (['g', 'x'], g * x * (1 - x)),
    'silu_backward.default': (['g', 'x'], g * sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    'leaky_relu_backward.default': (['g', 'x', 0.25, False], np.where(x > 0, g, 0.25 * g)),
    'softplus_backward.default': (['g', 'x', 1.0, 20.0], g * sigmoid(x)),
    'atan2.default': (['x', 'g'], np.arctan2(x, g)), 'isnan.default': (['x'], np.isnan(x)), 'isinf.default': (['x'], np.isinf(x)),
    'amax.default': (['x', [1]], x.max(1)), 'amin.default': (['x', [0], True], x.min(0, keepdims=True)), 'amax.default ': (['x', []], x.max()),
    'prod.default': (['x'], x.prod()), 'argmax.default': (['x', 1], x.argmax(1)), 'argmin.default': (['x', 0], x.argmin(0)),
    'cumsum.default': (['x', 1], x.cumsum(1)), 'index_select.default': (['x', 1, 'i'], x[:, i]), 'flip.default': (['x', [0, 1]], x[::-1, ::-1]),
    'repeat.default': (['x', [2, 1]], np.tile(x, (2, 1))), 'fill.Scalar': (['x', 1.5], np.full_like(x, 1.5)),
    'relu.default': (['x'], np.maximum(x, 0)),
}
value = lambda a: {'ref': a} if isinstance(a, str) else {'f': a} if isinstance(a, float) else a
nodes = [{'name': f'n{k}', 'op': 'call', 'target': 'aten.' + t.strip(), 'args': [value(a) for a in args], 'kwargs': {},
          'shape': list(np.shape(want)), 'dtype': str(np.asarray(want).dtype)} for k, (t, (args, want)) in enumerate(cases.items())]
inputs = [{'name': n, 'shape': list(v.shape), 'dtype': str(v.dtype), 'role': 'data'} for n, v in (('x', x), ('g', g), ('i', i))]
json.dump({'schema': 'fx.json/1', 'groups': {}, 'inputs': inputs, 'constants': [], 'nodes': nodes, 'outputs': [{'ref': n['name']} for n in nodes]},
          open(folder + '/g.fx.json', 'w'))
np.savez(folder + '/f.npz', x=x, g=g, i=i)
done = subprocess.run([weft, 'run', folder + '/g.fx.json', '--feed', folder + '/f.npz', '--save', folder + '/o.npz'], capture_output=True, text=True)
sys.exit(done.stderr) if done.returncode else None
got, bad = np.load(folder + '/o.npz'), 0
for k, (t, (args, want)) in enumerate(cases.items()):
    a = got[f'fetch.{k}']
    if a.shape != np.shape(want) or not np.allclose(a, want, rtol=1e-5, atol=1e-6):
        bad += 1
        print('FAIL', t, a, want)
sys.exit(bad > 0)
END
ok $? 'as numpy has them'
cat >"$folder/no.fx.json" <<'END'
{"schema":"fx.json/1","groups":{},
"inputs":[{"name":"x","shape":[4],"dtype":"float32","role":"data"}],"constants":[],
"nodes":[{"name":"m","op":"call","target":"aten.special_bessel_y0.default","args":[{"ref":"x"}],"kwargs":{},"shape":[4],"dtype":"float32"}],
"outputs":[{"ref":"m"}]}
END
"$PYTHON" -c 'import numpy, sys; numpy.savez(sys.argv[1], x=numpy.ones(4, "f"))' "$folder/x.npz"
says 1 'aten.special_bessel_y0.default #0' 'one without a kernel is named' "$weft" run "$folder/no.fx.json" --feed "$folder/x.npz"
prints 0 'aten.special_bessel_y0.default  .not in the op table' 'and marked by info' "$weft" info "$folder/no.fx.json"
finish

"""Training programs for data_parallel.py, written as YAML."""
import numpy as np

BACKWARD, OPTIMIZE, LOSS = 1, 2, 256


class Program:
    """A program of one block, written as YAML."""

    def __init__(self, version=None):
        self.vars, self.ops, self.params, self.feeds = {}, [], {}, {}
        self.more = ''  # blocks below it
        self.version = version

    def var(self, name, dims, dtype='float32', **flags):
        self.vars.setdefault(name, (dtype, list(dims), flags))
        return name

    def param(self, name, value, trained=True):
        value = np.asarray(value)
        flags = dict(persistable='true')
        if trained:
            flags.update(parameter='true', stop_gradient='false')
        self.params[name] = value
        return self.var(name, value.shape, str(value.dtype), **flags)

    def feed(self, name, values, dims):
        """One array a step; `dims` as declared."""
        self.feeds[name] = values
        return self.var(name, dims, str(values[0].dtype), need_check_feed='true')

    def op(self, type_, ins, outs, role=0, **attrs):
        """Outputs: SLOT=NAME, NAME declared before, or (NAME, dims, dtype)."""
        def args(slots):
            lists = []
            for slot, names in slots.items():
                names = names if isinstance(names, list) else [names]
                names = [self.var(*n) if isinstance(n, tuple) else n for n in names]
                lists.append(f'"{slot}": [{", ".join(chr(34) + n + chr(34) for n in names)}]')
            return '{' + ', '.join(lists) + '}'

        def value(v):
            return str(v).lower() if isinstance(v, bool) else str(v)
        attrs = {**attrs, 'op_role': role}
        self.ops.append(f'{{{type_}: {args(ins)}, out: {args(outs)}, '
                        f'attrs: {{{", ".join(f"{k}: {value(v)}" for k, v in attrs.items())}}}}}')

    def text(self):
        lines = ['weft: 1'] + ([f'version: {self.version}'] if self.version else []) + ['blocks:', '- vars:']
        for name, (dtype, dims, flags) in self.vars.items():
            more = ''.join(f', {k}: {v}' for k, v in flags.items())
            lines.append(f'    "{name}": {{{dtype}: {dims}{more}}}')
        return '\n'.join(lines + ['  ops:'] + [f'  - {op}' for op in self.ops]) + '\n' + self.more

    # --- pieces of nets

    def seed(self, loss):
        self.op('fill_constant', {}, {'Out': (loss + '@GRAD', [])}, BACKWARD | LOSS, dtype=5, shape='!longs []', value=1.0)

    def squares(self, rows, n, outputs=3, w='w', x='x', y='y', tail=''):
        """d = (x w - y)^2, [rows, outputs]."""
        self.op('matmul_v2', {'X': x, 'Y': w}, {'Out': ('h' + tail, [rows, outputs])})
        self.op('elementwise_sub', {'X': 'h' + tail, 'Y': y}, {'Out': ('e' + tail, [rows, outputs])}, axis=-1)
        self.op('square', {'X': 'e' + tail}, {'Out': ('s' + tail, [rows, outputs])})

    def squares_grad(self, rows, n, outputs=3, w='w', x='x', y='y', tail='', named=True):
        """From s@GRAD to w@GRAD."""
        self.op('square_grad', {'X': 'e' + tail, 'Out@GRAD': f's{tail}@GRAD'}, {'X@GRAD': (f'e{tail}@GRAD', [rows, outputs])}, BACKWARD)
        self.op('elementwise_sub_grad', {'X': 'h' + tail, 'Y': y, 'Out@GRAD': f'e{tail}@GRAD'},
                {'X@GRAD': (f'h{tail}@GRAD', [rows, outputs])}, BACKWARD, axis=-1)
        pair = {'op_role_var': f'[{w}, {w}@GRAD]'} if named else {}
        self.op('matmul_v2_grad', {'X': x, 'Y': w, 'Out@GRAD': f'h{tail}@GRAD'}, {'Y@GRAD': (f'{w}@GRAD', [n, outputs])}, BACKWARD, **pair)

    def mean(self, of, dims, loss='loss'):
        self.op('reduce_mean', {'X': of}, {'Out': (loss, [])}, LOSS, dim=[], reduce_all=True)

    def mean_grad(self, of, dims, loss='loss'):
        self.seed(loss)
        self.op('reduce_mean_grad', {'X': of, 'Out@GRAD': loss + '@GRAD'}, {'X@GRAD': (of + '@GRAD', dims)}, BACKWARD,
                dim=[], reduce_all=True)

    def sgd(self, w='w'):
        self.op('sgd', {'Param': w, 'Grad': w + '@GRAD', 'LearningRate': self.param('lr', np.float32([0.1]), False)},
                {'ParamOut': w}, OPTIMIZE)


def regression(batch=8, steps=4, rows=-1, n=4, outputs=3, seed=0):
    """Feeds x and y, parameter w, and s, the squares of what is left."""
    r, p = np.random.default_rng(seed), Program()
    p.feed('x', [r.normal(size=(batch, n)).astype('f4') for _ in range(steps)], [rows, n])
    p.feed('y', [r.normal(size=(batch, outputs)).astype('f4') for _ in range(steps)], [rows, outputs])
    p.param('w', r.normal(size=(n, outputs)).astype('f4'))
    p.squares(rows, n, outputs)
    return p

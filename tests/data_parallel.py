"""What data_parallel makes of training programs: ranks together must compute what one rank computes, or be refused in words.

usage: data_parallel.py WEFT [CASE ...]    a line for each failure; last 'N passed, M failed'
"""
import os, subprocess, sys, tempfile
import numpy as np

weft, only = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
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


# --- running ---------------------------------------------------------------------------------------------------------

def call(*args):
    p = subprocess.run([weft, *map(str, args)], capture_output=True, text=True, timeout=120)
    return p.returncode, p.stdout, p.stderr


def train(path, ranks, p, folder, loss):
    code, out, err = call('run', path, '--ranks', ranks, '--params', f'{folder}/params.npz', '--feed', f'{folder}/feeds.npz',
                          '--fetch', loss, '--save', f'{folder}/out.npz')
    assert code == 0, f'run on {ranks}: exit {code}: {err.strip()[-300:]}'
    losses = {}
    for line in out.splitlines()[1:]:
        step, _, _, value = line.split(',')
        losses.setdefault(int(step), []).append(float(value))
    return np.array([np.mean(losses[s]) for s in sorted(losses)]), dict(np.load(f'{folder}/out.npz'))


def write(p, folder):
    open(f'{folder}/serial.yaml', 'w').write(p.text())
    np.savez(f'{folder}/params.npz', **p.params)
    np.savez(f'{folder}/feeds.npz', **{f'{s}/{n}': v for n, values in p.feeds.items() for s, v in enumerate(values)})


def make(p, folder, ranks, options='', behind=''):
    write(p, folder)
    code, _, err = call('opt', f'{folder}/serial.yaml', '--passes',
                        f'data_parallel: {{ranks: {ranks}{options and ", " + options}}}{behind and ", " + behind}', '-o', f'{folder}/dp.yaml')
    return code, err


def off(a, b):
    a, b = np.asarray(a, 'f8').ravel(), np.asarray(b, 'f8').ravel()
    return np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-6) if a.size == b.size else np.inf


def same(p, folder, ranks=2, options='', loss='loss', says='', tolerance=1e-5, leave=(), behind='', losses_add=False, proved=False):
    """Trained on ranks it is what the serial program is."""
    code, err = make(p, folder, ranks, options, behind)
    assert code == 0, f'opt: exit {code}: {err.strip()[-300:]}'
    assert says in err, f'expected "{says}" in:\n{err}'
    alone, state = train(f'{folder}/serial.yaml', 1, p, folder, loss)
    losses, got = train(f'{folder}/dp.yaml', ranks, p, folder, loss)
    losses = losses * ranks if losses_add else losses
    assert off(losses, alone) <= tolerance, f'losses {losses}, expected {alone}'
    changed = 0
    for name in p.params:
        if name in leave or name not in state:
            continue
        changed += off(state[name], p.params[name]) > 1e-3
        assert off(got[name], state[name]) <= tolerance, f'{name} off by {off(got[name], state[name]):.1e}'
    assert changed, 'nothing is trained'
    _, out, _ = call('verify', f'{folder}/dp.yaml', '--ranks', ranks, '--against', f'{folder}/serial.yaml')
    assert not proved or 'same over the real numbers' in out, f'verify says:\n{out}'
    assert 'same over the real numbers' in out or losses_add and 'if the ranks\' values of it are added up' in out or 'not_proved' in out and 'wrong' not in out, f'verify says:\n{out}'
    return err


def differs(p, folder, says, ranks=2, options='', loss='loss'):
    """Trained on ranks it is another; the pass says so."""
    code, err = make(p, folder, ranks, options)
    assert code == 0 and says in err, f'exit {code}, expected "{says}" in:\n{err}'
    alone, state = train(f'{folder}/serial.yaml', 1, p, folder, loss)
    _, got = train(f'{folder}/dp.yaml', ranks, p, folder, loss)
    assert max(off(got[n], state[n]) for n in p.params) > 1e-3, 'it is no other'


def refused(p, folder, says, ranks=2, options=''):
    code, err = make(p, folder, ranks, options)
    assert code == 1 and says in err, f'exit {code}, expected "{says}" in:\n{err}'
    assert 'summary' not in err, f'a summary of what was refused:\n{err}'


# --- updates that are no optimizer's ---------------------------------------------------------------------------------

def by_hand(clip=False):
    """Momentum and a moving average of the parameter, out of plain ops."""
    p = regression()
    p.mean('s', [-1, 3])
    p.mean_grad('s', [-1, 3])
    p.squares_grad(-1, 4, named=False)
    g, d = 'w@GRAD', [4, 3]
    for name in ('v', 'average'):
        p.param(name, np.zeros(d, 'f4'), trained=False)
    if clip:
        p.op('square', {'X': g}, {'Out': ('g2', d)})
        p.op('reduce_sum', {'X': 'g2'}, {'Out': ('norm2', [])}, dim=[], reduce_all=True)
        p.op('sqrt', {'X': 'norm2'}, {'Out': ('norm', [])})
        p.op('elementwise_div', {'X': g, 'Y': 'norm'}, {'Out': ('unit', d)}, axis=-1)
        g = 'unit'
    p.op('scale', {'X': 'v'}, {'Out': ('kept', d)}, scale=0.9)
    p.op('elementwise_add', {'X': 'kept', 'Y': g}, {'Out': ('moved', d)}, axis=-1)
    p.op('assign', {'X': 'moved'}, {'Out': 'v'})
    p.op('scale', {'X': 'moved'}, {'Out': ('step', d)}, scale=0.1)
    p.op('elementwise_sub', {'X': 'w', 'Y': 'step'}, {'Out': ('new', d)}, axis=-1)
    p.op('assign', {'X': 'new'}, {'Out': 'w'})
    p.op('scale', {'X': 'average'}, {'Out': ('old', d)}, scale=0.9)
    p.op('scale', {'X': 'new'}, {'Out': ('fresh', d)}, scale=0.1)
    p.op('elementwise_add', {'X': 'old', 'Y': 'fresh'}, {'Out': ('mixed', d)}, axis=-1)
    p.op('assign', {'X': 'mixed'}, {'Out': 'average'})
    return p


def case_update_by_hand(folder):
    same(by_hand(), folder, says='from what optimizers and other ops read')


def case_update_by_hand_on_three(folder):
    p = by_hand(clip=True)
    for n in p.feeds:
        p.feeds[n] = [np.concatenate([v, v[:1] + 1]) for v in p.feeds[n]]
    same(p, folder, ranks=3)


def case_statistics_by_hand(folder):
    """The mean of rows, kept by plain ops: its addends are joined."""
    p = by_hand()
    p.param('center', np.zeros(4, 'f4'), trained=False)
    p.op('reduce_mean', {'X': 'x'}, {'Out': ('m', [4])}, dim=[0])
    p.op('elementwise_sub', {'X': 'm', 'Y': 'center'}, {'Out': ('away', [4])}, axis=-1)
    p.op('scale', {'X': 'away'}, {'Out': ('pull', [4])}, scale=0.5)
    p.op('elementwise_add', {'X': 'center', 'Y': 'pull'}, {'Out': ('moved_center', [4])}, axis=-1)
    p.op('assign', {'X': 'moved_center'}, {'Out': 'center'})
    same(p, folder)


def case_state_of_rows_is_refused(folder):
    p = by_hand()
    p.param('most', np.zeros(4, 'f4'), trained=False)
    p.op('reduce_max', {'X': 'x'}, {'Out': ('top', [4])}, dim=[0])
    p.op('assign', {'X': 'top'}, {'Out': 'most'})
    refused(p, folder, 'updates most, which must be equal on all ranks')


def case_optimizer_without_op_role_var(folder):
    p = regression()
    p.mean('s', [-1, 3])
    p.mean_grad('s', [-1, 3])
    p.squares_grad(-1, 4, named=False)
    p.sgd()
    same(p, folder, says='1 gradient from what optimizers and other ops read')


# --- what is rows of the batch, and what is not -----------------------------------------------------------------------

def sentences(length=-1):
    """Words x [batch, length] and positions [length], open both; a mean of squares."""
    r, p = np.random.default_rng(3), Program()
    p.feed('x', [r.integers(0, 9, (8, 6)) for _ in range(4)], [-1, length])
    p.feed('positions', [np.arange(6) for _ in range(4)], [-1])
    p.param('w', r.normal(size=(9, 5)).astype('f4'))
    p.param('places', r.normal(size=(6, 5)).astype('f4'))
    d = [-1, length, 5]
    p.op('lookup_table_v2', {'Ids': 'x', 'W': 'w'}, {'Out': ('a', d)}, padding_idx=-1)
    p.op('lookup_table_v2', {'Ids': 'positions', 'W': 'places'}, {'Out': ('b', [-1, 5])}, padding_idx=-1)
    p.op('elementwise_add', {'X': 'a', 'Y': 'b'}, {'Out': ('c', d)}, axis=-1)
    p.op('square', {'X': 'c'}, {'Out': ('s', d)})
    p.mean('s', d)
    p.mean_grad('s', d)
    p.op('square_grad', {'X': 'c', 'Out@GRAD': 's@GRAD'}, {'X@GRAD': ('c@GRAD', d)}, BACKWARD)
    p.op('elementwise_add_grad', {'X': 'a', 'Y': 'b', 'Out@GRAD': 'c@GRAD'}, {'X@GRAD': ('a@GRAD', d), 'Y@GRAD': ('b@GRAD', [-1, 5])},
         BACKWARD, axis=-1)
    for ids, w, g, dims in (('positions', 'places', 'b', [6, 5]), ('x', 'w', 'a', [9, 5])):
        p.op('lookup_table_v2_grad', {'Ids': ids, 'W': w, 'Out@GRAD': g + '@GRAD'}, {'W@GRAD': (w + '@GRAD', dims)}, BACKWARD,
             padding_idx=-1, op_role_var=f'[{w}, {w}@GRAD]')
        p.sgd(w)
    return p


def case_positions_beside_sentences(folder):
    same(sentences(), folder, says='feed positions: whole on every rank: its open extent is not the batch')


def case_positions_beside_sentences_of_a_length(folder):
    same(sentences(6), folder, says='feed positions: whole on every rank: its open extent is not the batch')


def of_constant(rows, op, ins, outs, dtype, **attrs):
    p = regression(rows=rows)
    number, field = {'float32': (5, 'fp32_values'), 'int64': (3, 'int64_values')}[dtype]
    values = '[0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 0.0, 1.0]' if number == 5 else '!longs [0, 1, 2, 0, 1, 2, 0, 1]'
    p.op('assign_value', {}, {'Out': ('constant', [8, 1], dtype)}, dtype=number, shape=[8, 1], **{field: values})
    p.op(op, ins, outs, **attrs)
    return p


def case_constants_as_long_as_the_batch(folder):
    label = {'Logits': 's', 'Label': 'constant'}, {'Loss': ('z', [-1, 1]), 'Softmax': ('soft', [-1, 3])}
    for rows in (-1, 8):
        words = 'constant is as long as the batch, but the same on all ranks (assign_value #3)'
        refused(of_constant(rows, 'softmax_with_cross_entropy', *label, 'int64', axis=-1), folder, 'softmax_with_cross_entropy #4: ' + words)
        refused(of_constant(rows, 'take_along_axis', {'Input': 's', 'Index': 'constant'}, {'Result': ('z', [8, 1])}, 'int64', Axis=1),
                folder, 'take_along_axis #4: ' + words)
    product = {'X': 's', 'Y': 'constant'}, {'Out': ('z', [-1, 3])}
    refused(of_constant(-1, 'elementwise_mul', *product, 'float32', axis=-1), folder, 'constant is [8, 1] for any batch')
    refused(of_constant(8, 'elementwise_mul', *product, 'float32', axis=-1), folder, 'assign_value #3: an attr holds the global batch of 8 rows')


def filled(op, ins, outs, dtype, **attrs):
    """A regression with a weight for each row, or a label, that is one number all over, and as long as the batch."""
    p = regression(rows=8)
    number = {'float32': 5, 'int64': 3}[dtype]
    p.op('fill_constant', {}, {'Out': ('constant', [8, 1], dtype)}, dtype=number, shape='!longs [8, 1]', value=2.0)
    p.op(op, ins, {k: (v, d) for k, (v, d) in outs.items()}, **attrs)
    p.mean('z', [8, 1])
    p.mean('s', [8, 3], 'other')
    p.mean_grad('s', [8, 3], 'other')
    p.squares_grad(8, 4)
    p.sgd()
    return p


def case_constants_of_one_number(folder):
    for ranks in (2, 4):
        says = f'fill_constant #3: as long as a rank\'s {8 // ranks} rows'
        p = filled('elementwise_mul', {'X': 's', 'Y': 'constant'}, {'Out': ('z', [8, 3])}, 'float32', axis=-1)
        same(p, folder, ranks=ranks, says=says)
        p = filled('softmax_with_cross_entropy', {'Logits': 's', 'Label': 'constant'}, {'Loss': ('z', [8, 1]), 'Softmax': ('soft', [8, 3])},
                   'int64', axis=-1)
        same(p, folder, ranks=ranks, says=says)


def looped():
    """h = tanh(h + x), three times from zeros, in a loop whose states are elements of an array; then a regression on h."""
    r, p, d = np.random.default_rng(0), Program(), [8, 4]
    p.feed('x', [r.normal(size=d).astype('f4') for _ in range(4)], d)
    p.feed('y', [r.normal(size=(8, 3)).astype('f4') for _ in range(4)], [8, 3])
    p.param('w', r.normal(size=(4, 3)).astype('f4'))
    for name, value in (('i', 0), ('n', 3)):
        p.op('fill_constant', {}, {'Out': (name, [1], 'int64')}, dtype=3, shape='!longs [1]', value=float(value))
    p.op('fill_constant', {}, {'Out': ('h0', d)}, dtype=5, shape='!longs [8, 4]', value=0.0)
    p.vars['states'] = ('float32', [], dict(kind='dense_tensor_array'))
    p.vars['scopes'] = ('float32', [], dict(kind='step_scopes'))
    p.op('write_to_array', {'X': 'h0', 'I': 'i'}, {'Out': 'states'})
    p.op('less_than', {'X': 'i', 'Y': 'n'}, {'Out': ('more', [1], 'bool')}, axis=-1)
    p.op('while', {'X': ['x', 'i', 'n', 'states'], 'Condition': 'more'}, {'Out': ['i', 'states', 'more'], 'StepScopes': 'scopes'},
         sub_block='!block 1', is_test=True)
    p.op('tensor_array_to_tensor', {'X': 'states'}, {'Out': ('all', [-1, 8, 4]), 'OutIndex': ('index', [-1], 'int32')},
         axis=0, use_stack=True)
    p.op('slice', {'Input': 'all'}, {'Out': ('h_last', d)}, axes=[0], starts=[3], ends=[4], decrease_axis=[0])
    p.squares(8, 4, x='h_last')
    p.mean('s', [8, 3])
    p.mean_grad('s', [8, 3])
    p.squares_grad(8, 4, x='h_last')
    p.sgd()
    p.more = """- idx: 1
  parent: 0
  vars:
    h_now: {float32: [8, 4]}
    sum_now: {float32: [8, 4]}
    h_next: {float32: [8, 4]}
  ops:
  - {read_from_array: {X: [states], I: [i]}, out: {Out: [h_now]}}
  - {elementwise_add: {X: [h_now], "Y": [x]}, out: {Out: [sum_now]}, attrs: {axis: -1}}
  - {tanh: {X: [sum_now]}, out: {Out: [h_next]}}
  - {increment: {X: [i]}, out: {Out: [i]}, attrs: {step: 1.0}}
  - {write_to_array: {X: [h_next], I: [i]}, out: {Out: [states]}}
  - {less_than: {X: [i], "Y": [n]}, out: {Out: [more]}, attrs: {axis: -1}}
"""
    return p


def case_first_states_of_loops(folder):
    same(looped(), folder, says='fill_constant #2: as long as a rank\'s 4 rows', proved=True)
    same(looped(), folder, ranks=4, proved=True)


def case_a_feed_of_fixed_rows_beside_an_open_batch(folder):
    for op, ins, outs in (('elementwise_mul', {'X': 's', 'Y': 'fixed'}, {'Out': ('z', [-1, 3])}),
                          ('sigmoid_cross_entropy_with_logits', {'X': 's', 'Label': 'fixed'}, {'Out': ('z', [-1, 3])})):
        p = regression()
        p.feed('fixed', [np.ones((8, 3), 'f4')] * 4, [8, 3])
        p.op(op, ins, outs)
        code, err = make(p, folder, 2)
        assert code == 0 and 'feed fixed: 4 of 8 rows a rank' in err, err
        refused(p, folder, 'fixed', options='replicate: [fixed]')


def looked_up():
    """Weights of classes, fed, picked by label."""
    p = regression()
    p.feed('weights', [np.float32([1, 2, 3])] * 4, [-1])
    p.feed('label', [np.arange(8) % 3] * 4, [-1])
    p.op('gather', {'X': 'weights', 'Index': 'label'}, {'Out': ('z', [-1])})
    return p


def case_feeds_that_are_looked_up(folder):
    p = looked_up()
    refused(p, folder, 'label picks rows of weights by their number')
    code, err = make(p, folder, 2, 'replicate: [weights]')
    assert code == 0 and 'feed weights: whole on every rank' in err, err


# --- losses ----------------------------------------------------------------------------------------------------------

def plain_sum():
    p = regression()
    p.op('reduce_sum', {'X': 's'}, {'Out': ('loss', [])}, LOSS, dim=[], reduce_all=True)
    p.seed('loss')
    p.op('reduce_sum_grad', {'X': 's', 'Out@GRAD': 'loss@GRAD'}, {'X@GRAD': ('s@GRAD', [-1, 3])}, BACKWARD, dim=[], reduce_all=True)
    p.squares_grad(-1, 4)
    p.sgd()
    p.params['lr'] = np.float32([0.01])
    return p


def case_sum_is_told(folder):
    differs(plain_sum(), folder, 'reduce_sum #3: the loss loss is a sum over the batch: reduce: sum gives')


def weighted(mean_too=False):
    """A mean over weights: sum(s * weight) / sum(weight), with weights that ranks have differently many of."""
    p, r = regression(), np.random.default_rng(5)
    p.feed('weight', [(r.random((8, 1)) < [[0.9]] * 4 + [[0.3]] * 4).astype('f4') + 0.01 for _ in range(4)], [-1, 1])
    p.op('elementwise_mul', {'X': 's', 'Y': 'weight'}, {'Out': ('sw', [-1, 3])}, axis=-1)
    p.op('reduce_sum', {'X': 'sw'}, {'Out': ('total', [])}, dim=[], reduce_all=True)
    p.op('reduce_sum', {'X': 'weight'}, {'Out': ('count', [])}, dim=[], reduce_all=True)
    p.op('elementwise_div', {'X': 'total', 'Y': 'count'}, {'Out': ('loss', [])}, LOSS, axis=-1)
    if mean_too:
        p.op('reduce_mean', {'X': 's'}, {'Out': ('plain', [])}, dim=[], reduce_all=True)
        p.op('elementwise_add', {'X': 'loss', 'Y': 'plain'}, {'Out': ('both', [])}, axis=-1)
        p.seed('both')
        p.op('elementwise_add_grad', {'X': 'loss', 'Y': 'plain', 'Out@GRAD': 'both@GRAD'}, {'X@GRAD': ('loss@GRAD', []), 'Y@GRAD': ('plain@GRAD', [])},
             BACKWARD, axis=-1)
        p.op('reduce_mean_grad', {'X': 's', 'Out@GRAD': 'plain@GRAD'}, {'X@GRAD': ('s1@GRAD', [-1, 3])}, BACKWARD, dim=[], reduce_all=True)
    else:
        p.seed('loss')
    p.op('elementwise_div_grad', {'X': 'total', 'Y': 'count', 'Out': 'loss', 'Out@GRAD': 'loss@GRAD'}, {'X@GRAD': ('total@GRAD', [])}, BACKWARD, axis=-1)
    p.op('reduce_sum_grad', {'X': 'sw', 'Out@GRAD': 'total@GRAD'}, {'X@GRAD': ('sw@GRAD', [-1, 3])}, BACKWARD, dim=[], reduce_all=True)
    s = 's2@GRAD' if mean_too else 's@GRAD'
    p.op('elementwise_mul_grad', {'X': 's', 'Y': 'weight', 'Out@GRAD': 'sw@GRAD'}, {'X@GRAD': (s, [-1, 3])}, BACKWARD, axis=-1)
    if mean_too:
        p.op('sum', {'X': ['s1@GRAD', s]}, {'Out': ('s@GRAD', [-1, 3])}, BACKWARD)
    p.squares_grad(-1, 4)
    p.sgd()
    return p


def case_means_over_weights(folder):
    differs(weighted(), folder, "elementwise_div #6: the loss loss is no mean of the ranks' losses")
    same(weighted(), folder, options='reduce: tokens', says='total of reduce_sum #4 is of all ranks now')
    same(weighted(), folder, ranks=4, options='reduce: tokens')


def case_means_of_both_kinds(folder):
    differs(weighted(True), folder, 'is no mean', loss='both')
    same(weighted(True), folder, options='reduce: tokens', loss='both')


def case_tokens_on_plain_losses(folder):
    same(plain_sum(), folder, options='reduce: tokens')
    same(by_hand(clip=True), folder, options='reduce: tokens')
    same(sentences(), folder, options='reduce: tokens')


def case_tokens_where_rows_are_mixed(folder):
    p = regression()
    p.op('reduce_max', {'X': 's'}, {'Out': ('top', [3])}, dim=[0])
    p.mean('top', [3])
    refused(p, folder, 'reduce: tokens: reduce_max #3 is not followed exactly', options='reduce: tokens')


# --- gradients of rows -----------------------------------------------------------------------------------------------

OPTIMIZERS = {  # type: slots of state, shape of each as the table or one number, attrs
    'sgd': ({}, {}),
    'momentum': ({'Velocity': 'table'}, dict(mu=0.9)),
    'adagrad': ({'Moment': 'table'}, dict(epsilon=1e-6)),
    'rmsprop': ({'MeanSquare': 'table', 'Moment': 'table', 'MeanGrad': 'table'}, dict(epsilon=1e-6, decay=0.9, momentum=0.9)),
    'adam': ({'Moment1': 'table', 'Moment2': 'table', 'Beta1Pow': 0.9, 'Beta2Pow': 0.999}, dict(epsilon=1e-8)),
    'lazy': ({'Moment1': 'table', 'Moment2': 'table', 'Beta1Pow': 0.9, 'Beta2Pow': 0.999}, dict(epsilon=1e-8, lazy_mode=True)),
}


def embedding(kind, clip=False, twice=False, version=2006002):
    """Rows of a table looked up by ids that come again within a rank and between ranks, some never."""
    r, p = np.random.default_rng(7), Program(version)
    p.feed('ids', [r.integers(0, 11, (8, 3)) for _ in range(4)], [-1, 3])
    p.param('w', r.normal(size=(13, 4)).astype('f4'))
    d = [-1, 3, 4]
    p.op('lookup_table_v2', {'Ids': 'ids', 'W': 'w'}, {'Out': ('a', d)}, is_sparse=True, padding_idx=-1)
    p.op('square', {'X': 'a'}, {'Out': ('s', d)})
    p.mean('s', d)
    p.mean_grad('s', d)
    p.op('square_grad', {'X': 'a', 'Out@GRAD': 's@GRAD'}, {'X@GRAD': ('a@GRAD', d)}, BACKWARD)
    pair = {'op_role_var': '[w, w@GRAD]'}
    parts = ['part0', 'part1'] if twice else ['w@GRAD']
    for part in parts:
        p.op('lookup_table_v2_grad', {'Ids': 'ids', 'W': 'w', 'Out@GRAD': 'a@GRAD'}, {'W@GRAD': (part, [13, 4])}, BACKWARD,
             is_sparse=True, padding_idx=-1, **({} if twice else pair))
    if twice:
        p.op('sum', {'X': parts}, {'Out': ('w@GRAD', [13, 4])}, BACKWARD, **pair)
    grad = 'w@GRAD'
    if clip:
        p.op('clip_by_norm', {'X': grad}, {'Out': ('clipped', [13, 4])}, OPTIMIZE, max_norm=0.05)
        grad = 'clipped'
    for rows in set(parts + ['w@GRAD', grad]):
        dtype, dims, _ = p.vars[rows]
        p.vars[rows] = (dtype, dims, dict(kind='selected_rows'))
    slots, attrs = OPTIMIZERS[kind]
    ins, outs = {'Param': 'w', 'Grad': grad, 'LearningRate': p.param('lr', np.float32([0.1]), False)}, {'ParamOut': 'w'}
    for slot, value in slots.items():
        state = p.param(f'w_{slot}', np.zeros((13, 4), 'f4') if value == 'table' else np.float32([value]), False)
        ins[slot] = outs[slot + 'Out'] = state
    if kind == 'rmsprop':
        del outs['MeanGradOut']
    p.op('adam' if kind == 'lazy' else kind, ins, outs, OPTIMIZE, **attrs)
    return p


def case_rows(folder):
    for kind in OPTIMIZERS:
        same(embedding(kind), folder, says='ids and values of all ranks are gathered')


def case_rows_otherwise(folder):
    same(embedding('lazy', clip=True), folder, ranks=4)
    same(embedding('adam', twice=True), folder)
    same(embedding('lazy', version=3003001), folder)
    same(embedding('adagrad', clip=True), folder, options='reduce: tokens')


# --- batches that ranks do not divide ------------------------------------------------------------------------------

def uneven(batches, rows=-1, sums=False, outputs=3):
    """A regression whose batches have so many rows, by step, and a second mean beside the loss."""
    r, p = np.random.default_rng(3), Program()
    p.feed('x', [r.normal(size=(b, 4)).astype('f4') for b in batches], [rows, 4])
    p.feed('y', [r.normal(size=(b, outputs)).astype('f4') for b in batches], [rows, outputs])
    p.param('w', r.normal(size=(4, outputs)).astype('f4'))
    p.squares(rows, 4, outputs)
    d = [rows, outputs]
    if sums:
        p.op('reduce_sum', {'X': 's'}, {'Out': ('loss', [])}, LOSS, dim=[], reduce_all=True)
        p.seed('loss')
        p.op('reduce_sum_grad', {'X': 's', 'Out@GRAD': 'loss@GRAD'}, {'X@GRAD': ('s@GRAD', d)}, BACKWARD, dim=[], reduce_all=True)
    else:
        p.mean('s', d)
        p.op('abs', {'X': 'e'}, {'Out': ('apart', d)})
        p.op('reduce_mean', {'X': 'apart'}, {'Out': ('distance', [])}, dim=[], reduce_all=True)
        p.mean_grad('s', d)
    p.squares_grad(rows, 4, outputs)
    p.sgd()
    return p


def case_uneven_batches(folder):
    lists = ('', 'prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies')
    for ranks, batches in ((2, [8, 7, 3, 8]), (3, [7, 6, 8, 4]), (4, [8, 9, 5, 4])):
        for behind in lists:
            same(uneven(batches), folder, ranks=ranks, options='uneven: pad', says='a row more', behind=behind)
        same(uneven(batches), folder, ranks=ranks, options='uneven: pad', loss='distance')
        same(uneven(batches, sums=True), folder, ranks=ranks, options='uneven: pad, reduce: sum', losses_add=True)


def case_uneven_batches_of_fixed_extent(folder):
    same(uneven([7, 7], rows=7), folder, ranks=2, options='uneven: pad')
    same(uneven([8, 8], rows=8), folder, ranks=2, options='uneven: pad')
    refused(uneven([7, 7], rows=7), folder, 'a batch of 7 rows does not divide by 2 ranks')


def case_uneven_batches_are_refused(folder):
    p = uneven([8, 7])
    assert make(p, folder, 2)[0] == 0
    code, _, err = call('run', f'{folder}/dp.yaml', '--ranks', 2, '--params', f'{folder}/params.npz', '--feed', f'{folder}/feeds.npz')
    assert code == 1 and 'extent 7 does not divide by 2' in err, err
    p = uneven([8, 2])
    assert make(p, folder, 3, 'uneven: pad')[0] == 0
    code, _, err = call('run', f'{folder}/dp.yaml', '--ranks', 3, '--params', f'{folder}/params.npz', '--feed', f'{folder}/feeds.npz')
    assert code == 1 and 'extent 2 has none for each of 3' in err, err
    refused(uneven([8]), folder, 'are not added up', options='uneven: pad, reduce: tokens')
    refused(embedding('sgd'), folder, 'gathered only where they are equally many', options='uneven: pad')


# --- moved rows --------------------------------------------------------------------------------------------------

def sliced_heads():
    """The third of x that q, k and v would be, taken apart as attention over windows does: reshaped, transposed, sliced."""
    r, p = np.random.default_rng(5), regression()
    p.feed('qkv', [r.normal(size=(8, 4, 12)).astype('f4') for _ in range(4)], [-1, 4, 12])
    p.op('reshape2', {'X': 'qkv'}, {'Out': ('apart', [-1, 4, 3, 2, 2])}, shape=[-1, 4, 3, 2, 2])
    p.op('transpose2', {'X': 'apart'}, {'Out': ('turned', [3, -1, 2, 4, 2])}, axis=[2, 0, 3, 1, 4])
    p.op('slice', {'Input': 'turned'}, {'Out': ('v', [-1, 2, 4, 2])}, axes=[0], starts=[2], ends=[3], decrease_axis=[0])
    p.op('square', {'X': 'v'}, {'Out': ('v2', [-1, 2, 4, 2])})
    p.mean('v2', [-1, 2, 4, 2], 'loss')
    p.mean('s', [-1, 3], 'other')
    p.mean_grad('s', [-1, 3], 'other')
    p.squares_grad(-1, 4)
    p.sgd()
    return p


def case_slices_of_transposed_rows(folder):
    same(sliced_heads(), folder, proved=True)
    same(sliced_heads(), folder, ranks=4, proved=True)


# --- metrics ---------------------------------------------------------------------------------------------------------

def metric(slide_steps, version=2006002):
    """The area under the curve of a regression's first output, counted over all steps or a window of them."""
    p = regression()
    p.version = version
    p.feed('click', [np.random.default_rng(s).integers(0, 2, (8, 1)) for s in range(4)], [-1, 1])
    p.mean('s', [-1, 3])
    p.op('sigmoid', {'X': 'h'}, {'Out': ('p', [-1, 3])})
    counts = [16 * (slide_steps + 1) + 1] if slide_steps else [1, 16]
    for name in ('positive', 'negative'):
        p.param(name, np.zeros(counts, 'i8'), trained=False)
        if not slide_steps:
            p.params[name] = np.zeros(17, 'i8')  # as startup programs of Paddle make them: one more
    p.op('auc', {'Predict': 'p', 'Label': 'click', 'StatPos': 'positive', 'StatNeg': 'negative'},
         {'AUC': ('area', [], 'float64'), 'StatPosOut': 'positive', 'StatNegOut': 'negative'},
         num_thresholds=15, slide_steps=slide_steps)
    p.mean_grad('s', [-1, 3])
    p.squares_grad(-1, 4)
    p.sgd()
    return p


def case_metrics_count_all_rows(folder):
    for slide_steps in (0, 2):
        same(metric(slide_steps), folder, says='counts the rows of all ranks')
        same(metric(slide_steps, 3003001), folder, ranks=4, loss='area', says='counts the rows of all ranks')
    same(metric(0), folder, options='reduce: tokens', says='counts the rows of all ranks')


# --- all -------------------------------------------------------------------------------------------------------------

passed = failed = 0
for name, case in [(n[5:], f) for n, f in list(globals().items()) if n.startswith('case_')]:
    if only and name not in only:
        continue
    with tempfile.TemporaryDirectory() as where:
        try:
            case(where)
            passed += 1
        except AssertionError as e:
            failed += 1
            print(f'FAIL {name}: {e}')
print(f'{passed} passed, {failed} failed')
sys.exit(failed > 0)

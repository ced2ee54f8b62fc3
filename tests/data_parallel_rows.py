"""Cases of data_parallel.py: which values are rows of the batch, gradients of rows, batches that ranks do not divide."""
import numpy as np
from data_parallel_check import call, make, refused, same
from data_parallel_program import BACKWARD, LOSS, OPTIMIZE, Program, regression


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

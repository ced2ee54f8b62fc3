"""Cases of ops of older programs, and of ops for statistics and matrices, for record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return orders(rng, f32, case) + fills(f32, case) + moves(rng, f32, case) + matrices(f32, case) + losses(rng, f32, case) + norms(f32, case)


def orders(rng, f32, case):
    c = []
    tied = rng.randint(0, 4, (3, 5, 2)).astype('float32')
    for n, x, axis, keepdim in (('last', f32(3, 7), -1, False), ('middle', f32(2, 5, 3), 1, True), ('ties', tied, 1, False)):
        attrs, out = {'axis': axis, 'keepdim': keepdim}, {'Out': str(x.dtype), 'Indices': 'int64'}
        if n != 'ties':  # which of equal elements Paddle takes is by chance
            c.append(case('kthvalue', n, {'X': x}, out, {**attrs, 'k': 2}, ['X'], 'Out'))
        c.append(case('mode', n, {'X': tied if n != 'last' else x}, out, attrs, ['X'], 'Out'))
    for op in ('cummax', 'cummin'):
        out = {'out': 'float32', 'indices': 'int64'}
        for n, x, axis in (('last', f32(3, 6), -1), ('middle', f32(2, 5, 3), 1), ('ties', tied, 1)):
            c.append(case(op, n, {'x': x}, out, {'axis': axis, 'dtype': 3}, ['x'], 'out'))
        c.append(case(op, 'i32', {'x': rng.randint(0, 9, (4, 3)).astype('int32')}, {'out': 'int32', 'indices': 'int32'}, {'axis': 0, 'dtype': 2}))
    c.append(case('top_k', 'a', {'X': f32(3, 6)}, {'Out': 'float32', 'Indices': 'int64'}, {'k': 3}, ['X'], 'Out'))
    c.append(case('histogram', 'range', {'X': f32(30)}, {'Out': 'int64'}, {'bins': 7, 'min': -1, 'max': 1}))
    c.append(case('histogram', 'own', {'X': rng.randint(-5, 9, (4, 6)).astype('int64')}, {'Out': 'int64'}, {'bins': 5, 'min': 0, 'max': 0}))
    c.append(case('histogram', 'one', {'X': np.full(4, 2, 'float32')}, {'Out': 'int64'}, {'bins': 4, 'min': 0, 'max': 0}))
    return c


def fills(f32, case):
    c = []
    like = {'Input': f32(5, 3)}
    for n, attrs in {'a': dict(shape=[-1, 4], value=1.5, dtype=5), 'second': dict(shape=[2, -1], output_dim_idx=1, input_dim_idx=1, value=3.0, dtype=3),
                     'text': dict(shape=[-1], value=0.0, str_value='0.1', dtype=6)}.items():
        kind = {5: 'float32', 3: 'int64', 6: 'float64'}[attrs['dtype']]
        c.append(case('fill_constant_batch_size_like', n, like, {'Out': kind}, {'input_dim_idx': 0, 'output_dim_idx': 0, 'str_value': '',
                      'force_cpu': False, **attrs}))
    for n, (rows, columns, offset) in {'square': (4, 4, 0), 'wide': (3, 5, 1), 'tall': (5, 3, -2), 'none': (3, 3, -4)}.items():
        c.append(case('tril_indices', n, {}, {'out': 'int64'}, {'rows': rows, 'cols': columns, 'offset': offset, 'dtype': 3}))
        c.append(case('triu_indices', n, {}, {'out': 'int32'}, {'row': rows, 'col': columns, 'offset': -offset, 'dtype': 2}))
    for n, (start, stop, num, base) in {'tens': (0, 3, 5, 10), 'back': (2, -2, 4, 2), 'one': (1, 4, 1, 3)}.items():
        c.append(case('logspace', n, {'Start': np.array([start], 'float32'), 'Stop': np.array([stop], 'float32'), 'Num': np.array([num], 'int32'),
                      'Base': np.array([base], 'float32')}, {'Out': 'float32'}, {'dtype': 5}))
    c.append(case('is_empty', 'no', {'X': f32(2, 3)}, {'Out': 'bool'}))
    c.append(case('shard_index', 'a', {'X': np.array([[1], [6], [12], [19]], 'int64')}, {'Out': 'int64'},
                  {'index_num': 20, 'nshards': 2, 'shard_id': 0, 'ignore_value': -1}))
    c.append(case('shard_index', 'last', {'X': np.array([[1], [6], [12], [19]], 'int32')}, {'Out': 'int32'},
                  {'index_num': 20, 'nshards': 3, 'shard_id': 2, 'ignore_value': 7}))
    return c


def moves(rng, f32, case):
    c = []
    for n, axis in (('a', [2, 0, 1]), ('rows', [0, 2, 1])):
        c.append(case('transpose', n, {'X': f32(2, 3, 4)}, {'Out': 'float32'}, {'axis': axis}, ['X'], 'Out'))
    for n, dims, times in (('a', (2, 3), [2, 1]), ('thrice', (1, 2, 2), [3, 2, 1]), ('rows', (2, 3), [1, 2])):
        c.append(case('expand', n, {'X': f32(*dims)}, {'Out': 'float32'}, {'expand_times': times}, ['X'], 'Out'))
    c.append(case('broadcast_tensors', 'a', {'X': [f32(3, 1), f32(1, 4), f32(4)]}, {'Out': ('float32', 3)}, {}, ['X'], 'Out'))
    c.append(case('multiplex', 'a', {'X': [f32(4, 3), f32(4, 3), f32(4, 3)], 'Ids': np.array([[2], [0], [1], [0]], 'int32')},
                  {'Out': 'float32'}, {}, ['X'], 'Out'))
    for n, dims, dim in (('first', (3, 2), 9), ('last', (2, 4, 3), 2), ('middle', (2, 3, 3), 1)):
        c.append(case('cross', n, {'X': f32(*dims), 'Y': f32(*dims)}, {'Out': 'float32'}, {'dim': dim}, ['X', 'Y'], 'Out'))
    for n, shape, offsets in (('a', [2, 2], [1, 0]), ('rest', [-1, 3], [1, 1]), ('whole', [3, 4], [0, 0])):
        c.append(case('crop_tensor', n, {'X': f32(3, 4)}, {'Out': 'float32'}, {'shape': shape, 'offsets': offsets}, ['X'], 'Out'))
    c.append(case('minus', 'a', {'X': f32(3, 2), 'Y': f32(3, 2)}, {'Out': 'float32'}, {}))
    for n, dims, more in (('square', (3, 3), {}), ('offset', (3, 5), dict(offset=1)), ('tall', (7, 3), {}), ('wrapped', (7, 3), dict(wrap=True))):
        c.append(case('fill_diagonal', n, {'X': f32(*dims)}, {'Out': 'float32'}, {'value': 2.0, 'offset': 0, 'wrap': False, **more}, ['X'], 'Out'))
    pooled = np.array([[[[5, 7], [13, 15]]]], 'int32')
    c.append(case('unpool', 'a', {'X': f32(1, 1, 2, 2), 'Indices': pooled}, {'Out': 'float32'}, {'ksize': [2, 2], 'unpooling_type': 'max',
                  'strides': [2, 2], 'paddings': [0, 0], 'output_size': [4, 4], 'data_format': 'NCHW'}, ['X'], 'Out'))
    return c


def matrices(f32, case):
    c = []
    a = f32(2, 3, 3) + 2 * np.eye(3, dtype='float32')
    a[1, 0] *= -1
    factor = np.linalg.cholesky(a @ a.transpose(0, 2, 1)).astype('float32')
    c.append(case('determinant', 'batch', {'Input': a}, {'Out': 'float32'}, {}, ['Input'], 'Out'))
    c.append(case('determinant', 'one', {'Input': a[0].astype('float64')}, {'Out': 'float64'}, {}, ['Input'], 'Out'))
    c.append(case('slogdeterminant', 'batch', {'Input': a}, {'Out': 'float32'}, {}, ['Input'], 'Out'))
    c.append(case('solve', 'batch', {'X': a, 'Y': f32(2, 3, 2)}, {'Out': 'float32'}, {}, ['X', 'Y'], 'Out'))
    c.append(case('solve', 'stretched', {'X': a[0], 'Y': f32(2, 3, 2)}, {'Out': 'float32'}, {}))
    c.append(case('solve', 'vector', {'X': a[0], 'Y': f32(3)}, {'Out': 'float32'}, {}))
    for n, upper in {'lower': False, 'upper': True}.items():
        c.append(case('cholesky_solve', n, {'X': f32(2, 3, 2), 'Y': factor.transpose(0, 2, 1).copy() if upper else factor}, {'Out': 'float32'}, {'upper': upper}, ['X', 'Y'], 'Out'))
    return c


def losses(rng, f32, case):
    c = []
    c.append(case('hinge_loss', 'a', {'Logits': f32(5, 1, low=-2, high=2), 'Labels': rng.randint(0, 2, (5, 1)).astype('float32')},
                  {'Loss': 'float32'}, {}, ['Logits'], 'Loss'))
    c.append(case('rank_loss', 'a', {'Label': rng.randint(0, 2, (5, 1)).astype('float32'), 'Left': f32(5, 1), 'Right': f32(5, 1)},
                  {'Out': 'float32'}, {}, ['Left', 'Right'], 'Out'))
    c.append(case('bpr_loss', 'a', {'X': f32(4, 5, low=-2, high=2), 'Label': rng.randint(0, 5, (4, 1)).astype('int64')}, {'Y': 'float32'}, {},
                  ['X'], 'Y'))
    c.append(case('l1_norm', 'a', {'X': f32(3, 4)}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    return c


def norms(f32, case):
    c = []
    for n, x, form in (('nchw', f32(2, 7, 3, 2), 'NCHW'), ('nhwc', f32(2, 3, 2, 7), 'NHWC')):
        c.append(case('lrn', n, {'X': x}, {'Out': 'float32', 'MidOut': 'float32'}, {'n': 5, 'k': 1.0, 'alpha': 0.1, 'beta': 0.75,
                      'data_format': form}, ['X'], 'Out'))
    for n, x, form in (('nchw', f32(2, 3, 2, 2), 'NCHW'), ('nhwc', f32(2, 2, 2, 3), 'NHWC'), ('matrix', f32(4, 3), 'NCHW')):
        c.append(case('affine_channel', n, {'X': x, 'Scale': f32(3), 'Bias': f32(3)}, {'Out': 'float32'}, {'data_layout': form},
                      ['X', 'Scale', 'Bias'], 'Out'))
    for n, p, axis, most in (('two', 2.0, 0, 1.0), ('one', 1.0, 1, 0.9), ('three', 3.0, 2, 0.7)):
        c.append(case('renorm', n, {'X': f32(3, 2, 4)}, {'Out': 'float32'}, {'p': p, 'axis': axis, 'max_norm': most}, ['X'], 'Out'))
    c.append(case('elementwise_heaviside', 'a', {'X': np.array([[-1.5, 0, 2], [0, -0.0, 1]], 'float32'), 'Y': f32(2, 3)}, {'Out': 'float32'}, {'axis': -1},
                  ['X', 'Y'], 'Out'))
    return c

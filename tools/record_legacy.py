"""Cases of op types that Paddle's older programs hold, and of those that its debugging and quantization write, for
record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return tables(f32, case) + seen(f32, case) + windows(f32, case) + factors(f32, case) + \
        integers(rng, case) + complexes(rng, case)


def tables(f32, case):
    c = []
    ids = {'column': np.array([[2], [0], [4], [2]], 'int64'), 'wide': np.array([[[1], [3], [1]], [[0], [0], [4]]], 'int64'),
           'none': np.zeros((0, 1), 'int64')}
    for n, i in ids.items():
        c.append(case('lookup_table', n, {'W': f32(5, 3), 'Ids': i}, {'Out': 'float32'}, {'padding_idx': 1 if n == 'wide' else -1, 'is_sparse': False},
                      ['W'] if len(i) else [], 'Out'))
    return c


def seen(f32, case):
    c = []
    whole, odd = f32(3, 5, low=-3, high=9), f32(2, 3)
    whole[1, 2] = odd[0, 1] = odd[1, 1] = 0
    odd[1, 2], lost = np.inf, odd.copy()
    lost[1, 0] = np.nan
    for n, x in {'whole': whole, 'wide': whole.astype('float64'), 'infinite': odd, 'lost': lost, 'zero_d': np.array(0.5, 'float32')}.items():
        c.append(case('check_numerics', n, {'tensor': x}, {'stats': 'int64', 'values': 'float32'},
                      {'op_type': 'relu', 'var_name': 'x', 'check_nan_inf_level': 3, 'stack_height_limit': -1, 'output_dir': ''}))
    return c


def windows(f32, case):
    """Which run it is, the scale before, and the window before: its largest goes out, goes out and comes again, stays, or is beaten."""
    c = []
    before = np.array([0.5, 3.0, 2.0, 0.0], 'float32')
    for n, run, scale, test in (('gone', 5, 3.0, False), ('stays', 6, 3.0, False), ('beaten', 7, 0.25, False), ('first', 0, 0.001, False), ('test', 5, 0.75, True)):
        one = case('fake_quantize_range_abs_max', n, {'X': f32(3, 5), 'InScale': np.array([scale], 'float32'), 'Iter': np.array([run], 'int64')},
                   {'Out': 'float32', 'OutScale': 'float32', 'OutScales': 'float32'},
                   {'window_size': 4, 'bit_length': 8, 'round_type': 1, 'is_test': test}, same={'OutScale': 'InScale'})
        c.append({**one, 'held': {'OutScales': before}})
    return c


def factors(f32, case):
    c = []
    for n, dims in {'wide_slope': (2, 3, 5), 'tall_slope': (2, 5, 3)}.items():
        c.append(case('lu', n, {'X': f32(*dims)}, {'Out': 'float32', 'Pivots': 'int32', 'Infos': 'int32'}, {'pivots': True}, ['X'], 'Out'))
    return c


def integers(rng, case):
    """Kernels of integers that have no loops of their own."""
    def whole(kind, *dims):
        return rng.randint(1, 6, dims).astype(kind)
    c = []
    for kind in ('int32', 'int64'):
        for op in ('elementwise_fmax', 'elementwise_fmin', 'elementwise_heaviside'):
            c.append(case(op, kind, {'X': whole(kind, 2, 3) - 2, 'Y': whole(kind, 3)}, {'Out': kind}, {'axis': -1}))
        c.append(case('kron', kind, {'X': whole(kind, 2, 3), 'Y': whole(kind, 3)}, {'Out': kind}))
        c.append(case('matmul_v2', kind, {'X': whole(kind, 2, 3), 'Y': whole(kind, 4, 3)}, {'Out': kind}, {'trans_x': False, 'trans_y': True}))
        c.append(case('cross', kind, {'X': whole(kind, 2, 3), 'Y': whole(kind, 2, 3)}, {'Out': kind}, {'dim': 1}))
        c.append(case('trunc', kind, {'X': whole(kind, 2, 3)}, {'Out': kind}))
        c.append(case('conj', kind, {'X': whole(kind, 2, 3)}, {'Out': kind}))
        c.append(case('expm1', kind, {'X': whole(kind, 2, 3)}, {'Out': 'float32'}))
        c.append(case('nanmedian', kind, {'X': whole(kind, 2, 3)}, {'Out': kind, 'MedianIndex': 'int64'}, {'axis': [1], 'keepdim': False}, hidden=('MedianIndex',)))
        at = np.array([[2], [0]], 'int64')
        for reduce in ('assign', 'add'):
            c.append(case('put_along_axis', f'{kind}_{reduce}', {'Input': whole(kind, 2, 3), 'Index': at, 'Value': whole(kind, 2, 1)}, {'Result': kind},
                          {'Axis': 1, 'Reduce': reduce}))
        c.append(case('scatter_nd_add', kind, {'X': whole(kind, 2, 3), 'Index': np.array([[1], [1]], 'int64'), 'Updates': whole(kind, 2, 3)}, {'Out': kind}))
        c.append(case('index_add', kind, {'X': whole(kind, 2, 3), 'Index': np.array([1, 1], 'int64'), 'AddValue': whole(kind, 2, 3)}, {'Out': kind}, {'axis': 0}))
        for op in ('reduce_any', 'reduce_all'):
            c.append(case(op, kind, {'X': whole(kind, 3, 3) // 2}, {'Out': 'bool'}, {'dim': [1], 'keep_dim': False, 'reduce_all': False}))
    for kind in ('int8', 'int16'):
        for op in ('equal', 'not_equal', 'less_than', 'less_equal', 'greater_than', 'greater_equal'):
            c.append(case(op, kind, {'X': whole(kind, 2, 3) - 3, 'Y': whole(kind, 3) - 3}, {'Out': 'bool'}, {'axis': -1}))
        for op in ('logical_and', 'logical_or', 'logical_xor'):
            c.append(case(op, kind, {'X': whole(kind, 2, 3) // 3, 'Y': whole(kind, 2, 3) // 3}, {'Out': 'bool'}))
        c.append(case('sign', kind, {'X': whole(kind, 2, 3) - 3}, {'Out': kind}))
        c.append(case('bitwise_not', kind, {'X': whole(kind, 2, 3)}, {'Out': kind}))
        c.append(case('elementwise_floordiv', kind, {'X': whole(kind, 2, 3), 'Y': whole(kind, 3)}, {'Out': kind}, {'axis': -1}))
    for kind in ('int8', 'int16'):
        for op in ('bitwise_and', 'bitwise_or', 'bitwise_xor'):
            c.append(case(op, kind, {'X': whole(kind, 2, 3) - 3, 'Y': whole(kind, 3)}, {'Out': kind}))
    for kind in ('int32', 'int64'):
        c.append(case('atan2', kind, {'X1': whole(kind, 2, 3) - 3, 'X2': whole(kind, 2, 3) - 3}, {'Out': 'float64'}))
    line = np.array([1, 3, 3, 6], 'float32')
    for n, (line, values) in {'numbers': (line, np.array([3, 0, 7], 'int64')), 'whole': (line.astype('int64'), np.array([2.5, 3, 6.5], 'float64')),
                              'wide': (line, np.array([3, 3.0000001], 'float64'))}.items():
        c.append(case('searchsorted', 'mixed_' + n, {'SortedSequence': line, 'Values': values}, {'Out': 'int64'}, {'out_int32': False, 'right': False}))
    c.append(case('trace', 'int32', {'Input': whole('int32', 3, 4)}, {'Out': 'int32'}, {'offset': 0, 'axis1': 0, 'axis2': 1}))
    truths, at = np.array([True, False, True, False]), np.array([0, 3], 'int64')
    c.append(case('index_put', 'bool', {'x': truths, 'indices': [at], 'value': np.array([False, True])}, {'out': 'bool'}, {'accumulate': False}))
    c.append(case('arg_max', 'int16', {'X': whole('int16', 2, 3)}, {'Out': 'int64'}, {'axis': 1, 'keepdims': False, 'flatten': False, 'dtype': 3}))
    c.append(case('reduce_sum', 'int16', {'X': whole('int16', 2, 3)}, {'Out': 'int16'}, {'dim': [1], 'keep_dim': False, 'reduce_all': False}))
    return c


def complexes(rng, case):
    def mixed(*dims):
        return (rng.uniform(-1, 1, dims) + 1j * rng.uniform(-1, 1, dims)).astype('complex64')
    c, z = [], mixed(2, 3)
    z[0, 1], z[1, 2] = 0, 1j
    c.append(case('logical_not', 'complex', {'X': z}, {'Out': 'bool'}))
    for op in ('logical_and', 'logical_or', 'logical_xor'):
        c.append(case(op, 'complex', {'X': z, 'Y': z[::-1].copy()}, {'Out': 'bool'}))
    c.append(case('cumprod', 'complex', {'X': mixed(2, 3)}, {'Out': 'complex64'}, {'dim': 1, 'exclusive': False, 'reverse': False}))
    near = z + np.complex64(1e-4j) * (np.arange(3) == 1)
    for n, gap in {'complex': '1e-5', 'complex_far': '1e-3'}.items():
        c.append(case('isclose', n, {'Input': z, 'Other': near.astype('complex64')}, {'Out': 'bool'}, {'atol': gap, 'rtol': '0', 'equal_nan': False}))
    c.append(case('index_select', 'complex', {'X': z, 'Index': np.array([1, 1, 0], 'int64')}, {'Out': 'complex64'}, {'dim': 1}, ['X'], 'Out'))
    c.append(case('index_sample', 'complex', {'X': z, 'Index': np.array([[1, 1], [2, 0]], 'int64')}, {'Out': 'complex64'}, {}, ['X'], 'Out'))
    return c

"""Cases of op types that Paddle's older programs hold, and of those that its debugging and quantization write, for
record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return tables(f32, case) + seen(f32, case) + windows(f32, case) + factors(f32, case)


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

"""Cases of ops that programs for speech, quantization and matrices hold, for record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return functions(rng, f32, case) + frames(f32, case) + matrices(f32, case) + quantized(f32, case)


def functions(rng, f32, case):
    c = []
    both = np.concatenate([f32(20, low=-3, high=3), f32(4, low=-30, high=30), np.array([0.0, 1.0, -1.0], 'float32')])
    for op in ('i0', 'i0e', 'i1', 'i1e'):
        near = both[:20] if op == 'i0e' else both  # further out Paddle's gradient cancels
        c.append(case(op, 'f32', {'x': near}, {'out': 'float32'}, {}, ['x'], 'out'))
        c.append(case(op, 'f64', {'x': (near[::3]).astype('float64')}, {'out': 'float64'}, {}, ['x'], 'out'))
    for n in (1, 2, 4):
        c.append(case('polygamma', f'n{n}', {'x': f32(12, low=0.2, high=12)}, {'out': 'float32'}, {'n': n}, ['x'], 'out'))
    for n, test in {'test': True, 'train': False}.items():  # of which the bounds are equal: nothing is by chance
        c.append(case('rrelu', n, {'X': f32(3, 4)}, {'Out': 'float32', 'Noise': 'float32'}, {'lower': 0.1 if test else 0.25, 'upper': 0.25,
                 'is_test': test}, ['X'], 'Out'))
    c.append(case('angle', 'real', {'X': f32(3, 4)}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    c.append(case('angle', 'complex', {'X': (f32(3, 4) + 1j * f32(3, 4)).astype('complex64')}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    wave = (f32(3, 4) + 1j * f32(3, 4)).astype('complex64')
    wave[0, 0] = 0
    c.append(case('abs', 'complex', {'X': wave}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    yes = rng.randint(0, 2, (3, 4)).astype('bool')
    c.append(case('reduce_sum', 'booleans', {'X': yes}, {'Out': 'float64'}, {'dim': [1], 'keep_dim': False, 'reduce_all': False, 'in_dtype': 0, 'out_dtype': 6}))
    c.append(case('reduce_sum', 'count', {'X': yes}, {'Out': 'int64'}, {'dim': [1], 'keep_dim': True, 'reduce_all': False, 'in_dtype': 0, 'out_dtype': 3}))
    c.append(case('seed', 'own', {}, {'Out': 'int32'}, {'seed': 7, 'deterministic': False, 'rng_name': '', 'force_cpu': True}))
    return c


def frames(f32, case):
    c = []
    for n, dims, axis in (('last', (2, 11), -1), ('first', (11, 2), 0), ('one', (9,), -1)):
        attrs = {'frame_length': 4, 'hop_length': 3, 'axis': axis}
        c.append(case('frame', n, {'X': f32(*dims)}, {'Out': 'float32'}, attrs, ['X'], 'Out'))
    for n, dims, axis in (('last', (2, 4, 3), -1), ('first', (3, 4, 2), 0), ('one', (4, 3), -1)):
        c.append(case('overlap_add', n, {'X': f32(*dims)}, {'Out': 'float32'}, {'hop_length': 3, 'axis': axis}, ['X'], 'Out'))
    for n, ahead in (('a', 3), ('far', 6)):
        c.append(case('row_conv', n, {'X': f32(2, 5, 3), 'Filter': f32(ahead, 3)}, {'Out': 'float32'}, {}, ['X', 'Filter'], 'Out'))
    return c


def matrices(f32, case):
    c = []
    a = f32(2, 3, 3)
    both = a + a.transpose(0, 2, 1)
    # Of a batch Paddle's gradients are right for the first matrix alone.
    for n, side in {'lower': 'L', 'upper': 'U'}.items():
        c.append(case('eigh', n + '_batch', {'X': both}, {'Eigenvalues': 'float32', 'Eigenvectors': 'float32'}, {'UPLO': side}))
        c.append(case('eigh', n, {'X': both[0]}, {'Eigenvalues': 'float32', 'Eigenvectors': 'float32'}, {'UPLO': side}, ['X'], 'Eigenvectors', whole=True))
        c.append(case('eigvalsh', n, {'X': both[0]}, {'Eigenvalues': 'float32', 'Eigenvectors': 'float32'}, {'UPLO': side, 'is_test': False},
                      ['X'], 'Eigenvalues', hidden=('Eigenvectors',)))
    for n, dims in {'square': (2, 3, 3), 'tall': (4, 2), 'wide': (2, 4)}.items():
        for of in ('U', 'S', 'VH'):
            c.append(case('svd', f'{n}_{of.lower()}', {'X': f32(*dims)}, {'U': 'float32', 'S': 'float32', 'VH': 'float32'},
                          {'full_matrices': False}, ['X'], of))
        c.append(case('qr', n + '_q', {'X': f32(*dims)}, {'Q': 'float32', 'R': 'float32'}, {'mode': 'reduced'}, ['X'], 'Q'))
        c.append(case('qr', n + '_r', {'X': f32(*dims)}, {'Q': 'float32', 'R': 'float32'}, {'mode': 'reduced'}, ['X'], 'R'))
    c.append(case('svd', 'full', {'X': f32(4, 2)}, {'U': 'float32', 'S': 'float32', 'VH': 'float32'}, {'full_matrices': True}))
    c.append(case('qr', 'complete', {'X': f32(4, 2)}, {'Q': 'float32', 'R': 'float32'}, {'mode': 'complete'}))
    low = f32(3, 1) @ f32(1, 4)
    c.append(case('matrix_rank', 'low', {'X': low}, {'Out': 'int32'}, {'use_default_tol': True, 'hermitian': False, 'tol': 0.0}))
    c.append(case('matrix_rank', 'full', {'X': a}, {'Out': 'int32'}, {'use_default_tol': True, 'hermitian': False, 'tol': 0.0}))
    c.append(case('matrix_rank', 'given', {'X': both}, {'Out': 'int32'}, {'use_default_tol': False, 'hermitian': True, 'tol': 0.5}))
    return c


def quantized(f32, case):
    c = []
    one = np.array([0.7], 'float32')
    for way in (0, 1):
        attrs = {'bit_length': 8, 'round_type': way}
        for op in ('fake_quantize_abs_max', 'fake_quantize_dequantize_abs_max'):
            c.append(case(op, f'round{way}', {'X': f32(3, 4)}, {'Out': 'float32', 'OutScale': 'float32'}, attrs))
        for op in ('fake_channel_wise_quantize_abs_max', 'fake_channel_wise_quantize_dequantize_abs_max'):
            for axis in (0, 1):
                c.append(case(op, f'round{way}_axis{axis}', {'X': f32(3, 2, 2)}, {'Out': 'float32', 'OutScale': 'float32'}, {**attrs, 'quant_axis': axis}))
        for op in ('fake_quantize_moving_average_abs_max', 'fake_quantize_dequantize_moving_average_abs_max'):
            c.append(case(op, f'round{way}', {'X': f32(3, 4), 'InScale': one, 'InAccum': one * 2, 'InState': one * 3},
                          {'Out': 'float32', 'OutScale': 'float32', 'OutState': 'float32', 'OutAccum': 'float32'},
                          {**attrs, 'moving_rate': 0.9, 'is_test': False}))
    c.append(case('moving_average_abs_max_scale', 'a', {'X': f32(3, 4), 'InAccum': one * 2, 'InState': one * 3},
                  {'Out': 'float32', 'OutScale': 'float32', 'OutState': 'float32', 'OutAccum': 'float32'}, {'moving_rate': 0.9, 'is_test': False}))
    c.append(case('fake_dequantize_max_abs', 'a', {'X': np.round(f32(3, 4) * 100), 'Scale': one}, {'Out': 'float32'}, {'max_range': 127.0}))
    for axis in (0, 1):
        c.append(case('fake_channel_wise_dequantize_max_abs', f'axis{axis}', {'X': np.round(f32(3, 2) * 100), 'Scales': f32(3 - axis, low=0.1)},
                      {'Out': 'float32'}, {'quant_bits': [8], 'quant_axis': axis, 'x_num_col_dims': 1}))
    return c

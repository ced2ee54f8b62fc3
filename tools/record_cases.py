"""Cases of ops that training programs use now and then, for record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return moves(f32, case) + products(rng, f32, case) + searches(rng, f32, case) + boxes(rng, f32, case) + waves(f32, case) + \
        twice(f32, case) + others(f32, case) + newer(f32, case)


def moves(f32, case):
    c = []
    for n, dims, more in (('nchw', (4, 8, 2, 3), {}), ('nhwc', (4, 2, 3, 8), dict(data_format='NHWC')),
                          ('odd', (3, 5, 2, 1), dict(seg_num=3, shift_ratio=0.4))):
        attrs = {'seg_num': 2, 'shift_ratio': 0.25, 'data_format': 'NCHW', **more}
        c.append(case('temporal_shift', n, {'X': f32(*dims)}, {'Out': 'float32'}, attrs, ['X'], 'Out'))
    c.append(case('temporal_shift', 'f64', {'X': f32(4, 4, 1, 2).astype('float64')}, {'Out': 'float64'},
                  {'seg_num': 2, 'shift_ratio': 0.25, 'data_format': 'NCHW'}, ['X'], 'Out'))
    rows, flat = np.array([2, 0, 2], 'int64'), np.array([1, 1, 0], 'int64')
    mask = np.array([[True, False, True], [False, False, True]])
    puts = {'rows': ([rows], f32(3, 3)), 'row': ([rows], f32(3)), 'number': ([rows], f32(1)), 'elements': ([rows, flat], f32(3)),
            'stretched': ([rows.reshape(3, 1), flat.reshape(1, 3)], f32(3, 3)), 'negative': ([rows - 4], f32(3, 3))}
    for n, (indices, value) in puts.items():
        for adds in (False, True):
            if not adds and n == 'stretched':
                continue
            c.append(case('index_put', n + ('_add' if adds else ''), {'x': f32(4, 3), 'indices': indices, 'value': value}, {'out': 'float32'},
                          {'accumulate': adds}, ['x', 'value'] if adds or n != 'rows' else ['x'], 'out'))
    c.append(case('index_put', 'mask', {'x': f32(2, 3), 'indices': [mask], 'value': f32(1)}, {'out': 'float32'}, {'accumulate': False}))
    return c


def products(rng, f32, case):
    c = []
    for n, bias in {'bias': {'Bias': f32(1, 5)}, 'plain': {}}.items():
        c.append(case('bilinear_tensor_product', n, {'X': f32(3, 4), 'Y': f32(3, 2), 'Weight': f32(5, 4, 2), **bias}, {'Out': 'float32'}, {},
                      ['X', 'Y', 'Weight', *bias], 'Out'))
    wide = {'X': f32(2, 3), 'Y': f32(2, 1), 'Weight': f32(2, 3, 1)}
    c.append(case('bilinear_tensor_product', 'f64', {k: v.astype('float64') for k, v in wide.items()}, {'Out': 'float64'}, {},
                  ['X', 'Y', 'Weight'], 'Out'))
    sums = {'BatchSize': f32(4, low=5, high=9), 'BatchSum': f32(4), 'BatchSquareSum': f32(4, low=3, high=8)}
    norm = {'epsilon': 1e-4, 'slot_dim': -1, 'summary_decay_rate': 0.9, 'enable_scale_and_shift': False, 'data_layout': 'NCHW',
            'sync_stats': False}
    out = {'Y': 'float32', 'Means': 'float32', 'Scales': 'float32'}
    c.append(case('data_norm', 'plain', {'X': f32(3, 4), **sums}, out, norm, ['X', *sums], 'Y'))
    c.append(case('data_norm', 'shifted', {'X': f32(3, 4), **sums, 'scale_w': f32(4), 'bias': f32(4)}, out,
                  {**norm, 'enable_scale_and_shift': True}, ['X', *sums, 'scale_w', 'bias'], 'Y'))
    shown = f32(3, 4)
    shown[0, 0] = shown[2, 2] = 0
    c.append(case('data_norm', 'slots', {'X': shown, **sums}, out, {**norm, 'slot_dim': 2}, ['X', *sums], 'Y'))
    p = {'Param': f32(4, 3), 'LearningRate': np.array([0.1], 'float32')}
    for n, grad in {'clipped': f32(4, 3) * 9, 'small': f32(4, 3) / 9}.items():
        c.append(case('dpsgd', n, {**p, 'Grad': grad.astype('float32')}, {'ParamOut': 'float32'},
                      {'clip': 2.0, 'batch_size': 4.0, 'sigma': 0.0, 'seed': 3}))
    moments = {'Moment1': f32(4, 3), 'Moment2': f32(4, 3, low=0.1), 'Beta1Pow': np.array([0.81], 'float32'),
               'Beta2Pow': np.array([0.998], 'float32')}
    for n, decay in {'rows': 0.0, 'rows_decay': 0.02}.items():
        lamb = case('lamb', n, {**p, **moments}, {'ParamOut': 'float32', 'Moment1Out': 'float32', 'Moment2Out': 'float32',
                    'Beta1PowOut': 'float32', 'Beta2PowOut': 'float32'}, {'weight_decay': decay, 'beta1': 0.9, 'beta2': 0.999,
                    'epsilon': 1e-6, 'always_adapt': False, 'multi_precision': False})
        lamb['rows'] = {'Grad': ('Param', np.array([2, 0, 2], 'int64'), f32(3, 3))}
        c.append(lamb)
    x, label = f32(5, 3), rng.randint(0, 7, (5, 1)).astype('int64')
    tree = {'X': x, 'W': f32(6, 3), 'Label': label}
    attrs = {'num_classes': 7, 'is_sparse': False}
    out = {'Out': 'float32', 'PreOut': 'float32', 'W_Out': 'float32'}
    c.append(case('hierarchical_sigmoid', 'bias', {**tree, 'Bias': f32(6, 1)}, out, attrs, ['X', 'W', 'Bias'], 'Out', hidden=('W_Out',)))
    c.append(case('hierarchical_sigmoid', 'plain', tree, out, attrs, ['X', 'W'], 'Out', hidden=('W_Out',)))
    path = np.array([[0, 2, -1, -1], [0, 1, 3, -1], [0, 1, 4, 5], [0, -1, -1, -1], [0, 2, -1, -1]], 'int64')
    code = np.array([[0, 1, -1, -1], [1, 0, 0, -1], [1, 1, 0, 1], [1, -1, -1, -1], [0, 0, -1, -1]], 'int64')
    c.append(case('hierarchical_sigmoid', 'paths', {**tree, 'PathTable': path, 'PathCode': code, 'Bias': f32(6, 1)}, out, attrs,
                  ['X', 'W', 'Bias'], 'Out', hidden=('W_Out',)))
    return c


def searches(rng, f32, case):
    c = []
    inf, nan = np.inf, np.nan
    line = np.array([-1, 0, 0, 2, 5], 'float32')
    for right in (False, True):
        for wide in (False, True):
            attrs, out = {'right': right, 'out_int32': not wide}, {'Out': 'int64' if wide else 'int32'}
            n = f'{"right" if right else "left"}_{"i64" if wide else "i32"}'
            c.append(case('searchsorted', n, {'SortedSequence': line, 'Values': np.array([[0, 7, -3], [5, 2, .5]], 'float32')}, out, attrs))
        attrs = {'right': right, 'out_int32': False}
        c.append(case('searchsorted', f'special_{int(right)}', {'SortedSequence': line, 'Values': np.array([nan, inf, -inf], 'float32')},
                      {'Out': 'int64'}, attrs))
        c.append(case('searchsorted', f'rows_{int(right)}', {'SortedSequence': np.sort(rng.randint(0, 9, (2, 6)), 1).astype('int64'),
                      'Values': rng.randint(0, 9, (2, 3)).astype('int64')}, {'Out': 'int64'}, attrs))
    x = np.array([3, 0, 3, 1, 0, 3], 'int64')
    for n, (more, attrs) in {'counts': ({}, {'minlength': 0}), 'longer': ({}, {'minlength': 7}), 'weights': ({'Weights': f32(6)},
                             {'minlength': 2})}.items():
        kind = 'float32' if more else 'int64'
        c.append(case('bincount', n, {'X': x, **more}, {'Out': kind}, attrs))
    c.append(case('bincount', 'i32', {'X': x.astype('int32')}, {'Out': 'int64'}, {'minlength': 0}))
    for n, a, axis in (('flat', np.array([[3, 1, 3], [2, 1, 7]], 'int64'), []), ('f32', np.array([.5, -1, .5, 2], 'float32'), []),
                       ('axis0', np.array([[1, 2], [0, 5], [1, 2], [0, 4]], 'float32'), [0]),
                       ('axis1', np.array([[3, 1, 3], [2, 1, 2]], 'int32'), [1])):
        c.append(case('unique', n, {'X': a}, {'Out': str(a.dtype), 'Indices': 'int64', 'Index': 'int64', 'Counts': 'int64'},
                      {'return_index': True, 'return_inverse': True, 'return_counts': True, 'axis': axis, 'dtype': 3, 'is_sorted': True}))
    c.append(case('unique', 'met', {'X': np.array([3, 1, 3, 2, 1], 'int64')}, {'Out': 'int64', 'Index': 'int32'}, {'dtype': 2, 'axis': [],
             'is_sorted': False, 'return_index': False, 'return_inverse': False, 'return_counts': False}))
    return c + drawn(f32, case)


def drawn(f32, case):
    share = f32(3, 4, low=0)
    c = [case('bernoulli', 'a', {'X': share}, {'Out': 'float32'}), case('bernoulli', 'f64', {'X': share.astype('float64')}, {'Out': 'float64'})]
    for n, kind in {'i64': 3, 'i32': 2, 'f32': 5}.items():
        c.append(case('randperm', n, {}, {'Out': {2: 'int32', 3: 'int64', 5: 'float32'}[kind]}, {'n': 7, 'dtype': kind, 'seed': 3}))
    c.append(case('multinomial', 'rows', {'X': share}, {'Out': 'int64'}, {'num_samples': 3, 'replacement': False}))
    c.append(case('multinomial', 'again', {'X': share[0]}, {'Out': 'int64'}, {'num_samples': 6, 'replacement': True}))
    for n, more in {'soft': {}, 'hard': dict(hard=True), 'axis': dict(axis=0)}.items():
        c.append(case('gumbel_softmax', n, {'X': f32(3, 4)}, {'Out': 'float32'}, {'temperature': 0.5, 'hard': False, 'axis': -1, **more}, ['X'],
                      'Out'))
    return c


def boxes(rng, f32, case):
    c = []
    rois = np.array([[0, 0, 3, 3], [1, 0.5, 6.5, 5], [-1, 2, 2, 9], [4, 4, 4.2, 4.1]], 'float32')
    for n, more in {'a': {}, 'sampled': dict(sampling_ratio=2), 'unaligned': dict(aligned=False, spatial_scale=0.5)}.items():
        c.append(case('roi_align', n, {'X': f32(2, 3, 6, 5), 'ROIs': rois, 'RoisNum': np.array([1, 3], 'int32')}, {'Out': 'float32'},
                      {'pooled_height': 2, 'pooled_width': 3, 'spatial_scale': 1.0, 'sampling_ratio': -1, 'aligned': True, **more}, ['X'], 'Out'))
    size = np.array([[64, 96], [50, 40]], 'int32')
    for n, channels, more in (('a', 14, {}), ('free', 14, dict(clip_bbox=False, scale_x_y=1.2)),
                              ('aware', 16, dict(iou_aware=True, iou_aware_factor=0.4))):
        c.append(case('yolo_box', n, {'X': f32(2, channels, 3, 2, low=-2, high=2), 'ImgSize': size}, {'Boxes': 'float32', 'Scores': 'float32'},
                      {'anchors': [10, 13, 16, 30], 'class_num': 2, 'conf_thresh': 0.4, 'downsample_ratio': 32, 'clip_bbox': True,
                       'scale_x_y': 1.0, 'iou_aware': False, 'iou_aware_factor': 0.5, **more}))
    return c


def waves(f32, case):
    c = []

    def c64(*dims):
        return (f32(*dims) + 1j * f32(*dims)).astype('complex64')
    for n, dims, axes, forward, scale in (('last', (3, 5), [1], True, 'backward'), ('both', (4, 6), [0, 1], True, 'ortho'),
                                          ('back', (2, 8, 3), [1], False, 'backward')):
        attrs = {'axes': axes, 'normalization': scale, 'forward': forward}
        c.append(case('fft_c2c', n, {'X': c64(*dims)}, {'Out': 'complex64'}, attrs, ['X'], 'Out'))
        for one in (True, False):
            c.append(case('fft_r2c', n + ('' if one else '_whole'), {'X': f32(*dims)}, {'Out': 'complex64'}, {**attrs, 'onesided': one}, ['X'],
                          'Out'))
        for odd in (0, 1):
            half = list(dims)
            half[axes[-1]] = half[axes[-1]] // 2 + 1
            c.append(case('fft_c2r', n + ('_odd' if odd else ''), {'X': c64(*half)}, {'Out': 'float32'},
                          {**attrs, 'last_dim_size': 2 * (half[axes[-1]] - 1) + odd}, ['X'], 'Out'))
    for op in ('real', 'imag'):
        c.append(case(op, 'a', {'X': c64(3, 2)}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    c.append(case('conj', 'a', {'X': c64(3, 2)}, {'Out': 'complex64'}, {}, ['X'], 'Out'))
    c.append(case('as_real', 'a', {'X': c64(3, 2)}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    c.append(case('as_complex', 'a', {'X': f32(3, 2)}, {'Out': 'complex64'}, {}, ['X'], 'Out'))
    c.append(case('complex', 'a', {'X': f32(3, 2), 'Y': f32(3, 2)}, {'Out': 'complex64'}, {}, ['X', 'Y'], 'Out'))
    c.append(case('complex', 'row', {'X': f32(3, 2), 'Y': f32(2)}, {'Out': 'complex64'}, {}, ['X', 'Y'], 'Out'))
    return c


def twice(f32, case):
    """Gradients of gradients: of X and of the gradient that came down."""
    c = []
    for op, attrs, low in (('abs', {}, -2), ('clip', {'min': -0.5, 'max': 0.75}, -2), ('cos', {}, -2), ('sin', {}, -2), ('elu', {'alpha': 0.7}, -2),
                           ('leaky_relu', {'alpha': 0.1}, -2), ('log', {}, 0.2), ('pow', {'factor': 3.0}, 0.2), ('relu', {}, -2),
                           ('rsqrt', {}, 0.2), ('sigmoid', {}, -2), ('sqrt', {}, 0.2), ('square', {}, -2), ('tanh', {}, -2),
                           ('softplus', {'beta': 1.5, 'threshold': 2.0}, -2), ('celu', {'alpha': 0.7}, -2)):
        one = case(op, 'f32', {'X': f32(3, 5, low=low, high=2.0)}, {'Out': 'float32'}, attrs, ['X'], 'Out')
        c.append({**one, 'twice': True})
    return c


def others(f32, case):
    p = {'Param': f32(4, 3), 'Grad': f32(4, 3)}
    c = [case('adadelta', 'a', {**p, 'AvgSquaredGrad': f32(4, 3, low=0), 'AvgSquaredUpdate': f32(4, 3, low=0),
                                'LearningRate': np.array([0.5], 'float32')},
              {'ParamOut': 'float32', 'AvgSquaredGradOut': 'float32', 'AvgSquaredUpdateOut': 'float32'}, {'rho': 0.9, 'epsilon': 1e-5}),
         case('adamax', 'a', {**p, 'LearningRate': np.array([0.1], 'float32'), 'Moment': f32(4, 3), 'InfNorm': f32(4, 3, low=0),
                              'Beta1Pow': np.array([0.81], 'float32')},
              {'ParamOut': 'float32', 'MomentOut': 'float32', 'InfNormOut': 'float32'}, {'beta1': 0.9, 'beta2': 0.99, 'epsilon': 1e-8})]
    for n, kind, ends in (('i64', 'int64', (2, 11, 3)), ('f32', 'float32', (1.0, -1.0, -0.25))):
        start, end, step = (np.array([e], kind) for e in ends)
        c.append(case('range', n, {'Start': start, 'End': end, 'Step': step}, {'Out': kind}))
    ids = np.array([0, 0, 1, 2, 2, 2], 'int64')
    for kind in ('SUM', 'MEAN', 'MAX', 'MIN'):
        c.append(case('segment_pool', kind.lower(), {'X': f32(6, 3), 'SegmentIds': ids}, {'Out': 'float32', 'SummedIds': 'float32'},
                      {'pooltype': kind}, ['X'], 'Out', hidden=() if kind == 'MEAN' else ('SummedIds',)))
    return c


def newer(f32, case):
    """Of Paddle 3 alone; 2.6.2 fails on it. Its radam and nadam read what they have freed, and do not repeat."""
    inputs = {'param': f32(4, 3), 'grad': f32(4, 3), 'prev': f32(4, 3), 'learning_rate': f32(4, 3, low=0.01, high=0.1),
              'learning_rate_range': np.array([1e-5, 0.09], 'float32'), 'etas': np.array([0.5, 1.2], 'float32')}
    written = ('param', 'prev', 'learning_rate')
    return [case('rprop', 'a', inputs, {n + '_out': 'float32' for n in written}, same={n + '_out': n for n in written})]

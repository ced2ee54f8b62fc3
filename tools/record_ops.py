#!/usr/bin/env python3
"""Records what Paddle computes for ops that the shared recordings lack, into tests/data/ops_more/OP/VARIANT.{pdmodel,npz}.

usage: record_ops.py OUT_DIR [OP ...]      under the Python of bench/peers/setup's paddle-2.6.2 (numpy, paddlepaddle)

A recording is a program of one op, or (OP_grad) of what append_backward makes of it; keys of the npz are in/VAR, out/VAR and meta.
"""
import json, os, sys
import numpy as np
import paddle
import paddle.static as static
from paddle.base.proto import framework_pb2
import record_cases
import record_first
import record_later
import record_legacy
import record_older
import record_rare
import record_scarce
import record_users

paddle.enable_static()
rng = np.random.RandomState(7)


def f32(*dims, low=-1.0, high=1.0):
    return rng.uniform(low, high, dims).astype('float32')


def case(op, variant, inputs, outputs, attrs=None, grad=None, of=None, same=None, hidden=(), whole=False):
    """inputs: slot -> array or list; outputs: slot -> (dtype, count); grad: input slots to differentiate, `of`: the output slot;
    same: output slots that are the input slot's var; hidden: outputs whose values mean nothing; whole: the gradient is recorded behind the op, as it reads what Weft keeps in another way. A case's `held`: what outputs hold before."""
    return dict(op=op, variant=variant, inputs=inputs, outputs=outputs, attrs=attrs or {}, grad=grad or [], of=of, same=same or {},
                hidden=hidden, whole=whole)


def unary(op, attrs=None, low=-2.0, high=2.0):
    special = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0], 'float32').clip(low, high)
    return [case(op, 'f32', {'X': np.concatenate([f32(29, low=low, high=high), special])}, {'Out': 'float32'}, attrs, ['X'], 'Out'),
            case(op, 'f64', {'X': f32(3, 1, 5, low=low, high=high).astype('float64')}, {'Out': 'float64'}, attrs, ['X'], 'Out'),
            case(op, 'zero_d', {'X': np.float32(0.25 if low >= 0 or high <= 1 else 1.25).reshape(())}, {'Out': 'float32'}, attrs, ['X'],
                 'Out')]


def cases():
    c = []
    c += unary('brelu', {'t_min': -0.75, 't_max': 1.25}) + unary('mish', {'threshold': 20.0}) + unary('selu')
    c += unary('celu', {'alpha': 0.7}) + unary('softshrink', {'lambda': 0.4}) + unary('hard_shrink', {'threshold': 0.4})
    c += unary('thresholded_relu', {'threshold': 0.3}) + unary('tanh_shrink') + unary('softsign')
    c += unary('stanh', {'scale_a': 0.6, 'scale_b': 1.7}) + unary('logsigmoid', low=-30.0, high=30.0)
    c += unary('logit', {'eps': 1e-3}, low=0.0, high=1.0)
    c += unary('acos', low=-0.9, high=0.9) + unary('asin', low=-0.9, high=0.9) + unary('atan') + unary('tan', low=-1.2, high=1.2)
    c += unary('sinh') + unary('cosh') + unary('asinh') + unary('acosh', low=1.1, high=4.0) + unary('atanh', low=-0.9, high=0.9)
    c += unary('log2', low=0.1, high=9.0) + unary('log10', low=0.1, high=9.0) + unary('expm1') + unary('trunc', low=-3.0, high=3.0)
    c += unary('lgamma', low=0.1, high=12.0) + unary('digamma', low=0.1, high=12.0) + unary('erfinv', low=-0.98, high=0.98)
    for k, (equation, dims) in enumerate(EQUATIONS):
        n = len(dims)
        c.append(case('einsum', f'e{k}', {'Operands': [f32(*d) for d in dims]},
                      {'Out': 'float32', 'InnerCache': ('float32', n), 'XShape': ('float32', n)}, {'equation': equation}, ['Operands'],
                      'Out', hidden=('InnerCache', 'XShape'), whole=True))
    for n, (x, form) in {'nchw': (f32(2, 8, 3, 2), 'NCHW'), 'nhwc': (f32(2, 3, 2, 8), 'NHWC')}.items():
        c.append(case('pixel_shuffle', n, {'X': x}, {'Out': 'float32'}, {'upscale_factor': 2, 'data_format': form}, ['X'], 'Out'))
        c.append(case('channel_shuffle', n, {'X': x}, {'Out': 'float32'}, {'groups': 2, 'data_format': form}, ['X'], 'Out'))
    for n, (x, form) in {'nchw': (f32(2, 3, 4, 6), 'NCHW'), 'nhwc': (f32(2, 4, 6, 3), 'NHWC')}.items():
        c.append(case('pixel_unshuffle', n, {'X': x}, {'Out': 'float32'}, {'downscale_factor': 2, 'data_format': form}, ['X'], 'Out'))
    windows = {'a': dict(kernel_sizes=[2, 3], strides=[1, 2], paddings=[1, 2, 1, 2], dilations=[2, 1]),
               'b': dict(kernel_sizes=[2, 2], strides=[2, 2], paddings=[0, 0, 0, 0], dilations=[1, 1])}
    for n, attrs in windows.items():
        c.append(case('unfold', n, {'X': f32(2, 3, 6, 6)}, {'Y': 'float32'}, attrs, ['X'], 'Y'))
        k, s, p, d = (attrs[a] for a in ('kernel_sizes', 'strides', 'paddings', 'dilations'))
        count = [(6 + p[i] + p[i + 2] - (d[i] * (k[i] - 1) + 1)) // s[i] + 1 for i in range(2)]
        c.append(case('fold', n, {'X': f32(2, 3 * k[0] * k[1], count[0] * count[1])}, {'Y': 'float32'}, {'output_sizes': [6, 6], **attrs},
                      ['X'], 'Y'))
    c.append(case('repeat_interleave', 'a', {'X': f32(2, 3, 4)}, {'Out': 'float32'}, {'Repeats': 3, 'dim': 1}, ['X'], 'Out'))
    c.append(case('repeat_interleave', 'last', {'X': f32(2, 3)}, {'Out': 'float32'}, {'Repeats': 2, 'dim': 1}, ['X'], 'Out'))
    return c + pairs() + sums() + updates() + places() + resized() + recurrent() + volumes() + sequences() + linear() + small() + \
        record_cases.cases(rng, f32, case) + record_older.cases(rng, f32, case) + record_users.cases(rng, f32, case) + record_rare.cases(rng, f32, case) + \
        record_scarce.cases(rng, f32, case) + record_later.cases(rng, f32, case) + record_legacy.cases(rng, f32, case) + \
        record_first.cases(rng, f32, case)


def places():
    c = []
    for n, dims, attrs in (('square', (4, 4), {}), ('up', (2, 3, 4), dict(offset=1, axis1=1, axis2=2)), ('down', (3, 2, 4),
                           dict(offset=-1, axis1=0, axis2=2))):
        attrs = {'offset': 0, 'axis1': 0, 'axis2': 1, **attrs}
        c.append(case('diagonal', n, {'Input': f32(*dims)}, {'Out': 'float32'}, attrs, ['Input'], 'Out'))
    for n, attrs in {'last': {}, 'up': dict(offset=1), 'first': dict(offset=-1, dim1=0, dim2=2)}.items():
        c.append(case('diag_embed', n, {'Input': f32(2, 3)}, {'Out': 'float32'}, {'offset': 0, 'dim1': -2, 'dim2': -1, **attrs}))
    for n, x, y in (('same', (2, 3), (3, 2)), ('ranks', (2,), (2, 3)), ('cube', (2, 1, 2), (2, 2))):
        c.append(case('kron', n, {'X': f32(*x), 'Y': f32(*y)}, {'Out': 'float32'}, {}, ['X', 'Y'], 'Out'))
    index = np.array([2, 0, 2], 'int64')
    c.append(case('index_add', 'rows', {'X': f32(4, 3), 'Index': index, 'AddValue': f32(3, 3)}, {'Out': 'float32'}, {'axis': 0},
                  ['X', 'AddValue'], 'Out'))
    c.append(case('index_add', 'middle', {'X': f32(2, 4, 3), 'Index': index, 'AddValue': f32(2, 3, 3)}, {'Out': 'float32'}, {'axis': 1},
                  ['X', 'AddValue'], 'Out'))
    c.append(case('scatter_nd_add', 'rows', {'X': f32(4, 3), 'Index': index.reshape(3, 1), 'Updates': f32(3, 3)}, {'Out': 'float32'}, {},
                  ['X', 'Updates'], 'Out'))
    pairs_ = np.array([[1, 2], [0, 0], [1, 2], [3, 1]], 'int32')
    c.append(case('scatter_nd_add', 'elements', {'X': f32(4, 3), 'Index': pairs_, 'Updates': f32(4)}, {'Out': 'float32'}, {},
                  ['X', 'Updates'], 'Out'))
    ids = np.array([0, 0, 1, 2, 2, 2], 'int64')
    for kind in ('SUM', 'MEAN', 'MAX', 'MIN'):
        c.append(case('segment_pool', kind.lower(), {'X': f32(6, 3), 'SegmentIds': ids}, {'Out': 'float32', 'SummedIds': 'float32'},
                      {'pooltype': kind}, hidden=('SummedIds',)))
    return c


def resized():
    c = []
    size = {'out_d': -1, 'out_h': 5, 'out_w': 7, 'scale': [], 'interp_method': 'bicubic', 'data_layout': 'NCHW', 'align_mode': 1}
    for n, attrs in {'middles': dict(align_corners=False), 'corners': dict(align_corners=True)}.items():
        c.append(case('bicubic_interp_v2', n, {'X': f32(1, 2, 4, 3)}, {'Out': 'float32'}, {**size, **attrs}, ['X'], 'Out'))
    window = {'strides': [2, 2], 'paddings': [1, 1], 'dilations': [1, 1], 'groups': 3, 'output_padding': [], 'output_size': [],
              'padding_algorithm': 'EXPLICIT', 'data_format': 'NCHW'}
    c.append(case('depthwise_conv2d_transpose', 'a', {'Input': f32(2, 3, 4, 4), 'Filter': f32(3, 1, 3, 3)}, {'Output': 'float32'}, window,
                  ['Input', 'Filter'], 'Output'))
    return c


def recurrent():
    c = []
    kinds = [('LSTM', 4, 1, 1, None), ('LSTM', 4, 2, 2, [3, 1]), ('GRU', 3, 1, 2, [2, 3]), ('GRU', 3, 2, 1, None), ('RNN_TANH', 1, 2, 2, None),
             ('RNN_RELU', 1, 1, 1, [1, 3])]
    steps, batch, width, hidden = 3, 2, 4, 3
    for mode, gates, layers, directions, lengths in kinds:
        runs = layers * directions
        weights = []
        for k in range(runs):
            below = width if k < directions else hidden * directions
            weights += [f32(gates * hidden, below), f32(gates * hidden, hidden)]
        weights += [f32(gates * hidden) for _ in range(2 * runs)]
        states = [f32(runs, batch, hidden) * np.float32(not lengths) for _ in range(2 if mode == 'LSTM' else 1)]
        inputs = {'Input': f32(steps, batch, width), 'PreState': states, 'WeightList': weights}
        if lengths:
            inputs['SequenceLength'] = np.array(lengths, 'int32')
        c.append(case('rnn', f'{mode.lower()}_{layers}_{directions}' + ('_lengths' if lengths else ''), inputs,
                      {'Out': 'float32', 'State': ('float32', len(states)), 'Reserve': 'float32', 'DropoutState': 'float32'},
                      {'mode': mode, 'num_layers': layers, 'is_bidirec': directions == 2, 'hidden_size': hidden, 'input_size': width,
                       'dropout_prob': 0.0, 'is_test': False, 'seed': 0},
                      ['Input', 'PreState', 'WeightList'], 'Out', hidden=('Reserve', 'DropoutState'), whole=True))
    return c


def volumes():
    c = []
    window = {'strides': [1, 1, 1], 'paddings': [1, 1, 1], 'dilations': [1, 1, 1], 'groups': 1, 'padding_algorithm': 'EXPLICIT',
              'data_format': 'NCDHW'}
    for n, more in {'a': {}, 'groups': dict(groups=2, strides=[2, 1, 2], paddings=[0, 1, 1, 0, 2, 1]), 'same': dict(padding_algorithm='SAME',
                    strides=[2, 2, 1]), 'wide': dict(dilations=[1, 2, 1])}.items():
        groups = more.get('groups', 1)
        c.append(case('conv3d', n, {'Input': f32(2, 2, 4, 5, 4), 'Filter': f32(4, 2 // groups, 2, 3, 2)}, {'Output': 'float32'},
                      {**window, **more}, ['Input', 'Filter'], 'Output'))
    for n, more in {'a': {}, 'groups': dict(groups=2, strides=[2, 1, 2], output_padding=[1, 0, 0])}.items():
        groups = more.get('groups', 1)
        c.append(case('conv3d_transpose', n, {'Input': f32(2, 4, 2, 3, 2), 'Filter': f32(4, 4 // groups, 2, 3, 3)}, {'Output': 'float32'},
                      {**window, 'data_format': 'NCHW', 'output_padding': [], 'output_size': [], **more}, ['Input', 'Filter'], 'Output'))
    pool = {'pooling_type': 'avg', 'ksize': [2, 2, 2], 'strides': [2, 2, 2], 'paddings': [0, 0, 0], 'global_pooling': False,
            'adaptive': False, 'exclusive': True, 'ceil_mode': False, 'padding_algorithm': 'EXPLICIT', 'data_format': 'NCDHW'}
    for n, more in {'avg': {}, 'max': dict(pooling_type='max'), 'padded': dict(ksize=[3, 3, 3], paddings=[1, 1, 1], exclusive=False),
                    'adaptive': dict(adaptive=True, ksize=[2, 3, 2]), 'global': dict(global_pooling=True),
                    'ceil': dict(pooling_type='max', ksize=[3, 3, 3], ceil_mode=True), 'last': dict(data_format='NDHWC')}.items():
        x = f32(2, 4, 5, 4, 3) if n == 'last' else f32(2, 3, 4, 5, 4)
        c.append(case('pool3d', n, {'X': x}, {'Out': 'float32'}, {**pool, **more}, ['X'], 'Out'))
    for n, more in {'a': {}, 'adaptive': dict(adaptive=True, ksize=[3, 2]), 'padded': dict(ksize=[3, 3], paddings=[1, 1])}.items():
        c.append(case('max_pool2d_with_index', n, {'X': f32(2, 3, 5, 4)}, {'Out': 'float32', 'Mask': 'int32'},
                      {'ksize': [2, 2], 'strides': [2, 2], 'paddings': [0, 0], 'global_pooling': False, 'adaptive': False, **more}, ['X'], 'Out'))
    c.append(case('max_pool3d_with_index', 'a', {'X': f32(2, 2, 4, 4, 3)}, {'Out': 'float32', 'Mask': 'int32'},
                  {'ksize': [2, 2, 2], 'strides': [2, 2, 1], 'paddings': [0, 0, 0], 'global_pooling': False, 'adaptive': False}, ['X'], 'Out'))
    return c


def sequences():
    c = []
    label = np.array([[1, 2, 0, 3], [2, 2, 1, 0], [0, 0, 0, 0]], 'int64')
    crf = {'Emission': f32(3, 4, 5, low=-2, high=2), 'Transition': f32(7, 5), 'Label': label, 'Length': np.array([4, 3, 1], 'int64')}
    c.append(case('linear_chain_crf', 'a', crf, {'LogLikelihood': 'float32', 'Alpha': 'float32', 'EmissionExps': 'float32',
                  'TransitionExps': 'float32'}, {}, ['Emission', 'Transition'], 'LogLikelihood', hidden=('Alpha', 'EmissionExps'), whole=True))
    plain = {k: v for k, v in crf.items() if k != 'Label'}
    c.append(case('crf_decoding', 'a', {**plain, 'Length': np.array([4, 4, 4], 'int64')}, {'ViterbiPath': 'int64'}))
    ctc = {'Logits': f32(6, 3, 5, low=-2, high=2), 'Label': np.array([[1, 2, 2], [3, 1, 0], [4, 0, 0]], 'int32'),
           'LogitsLength': np.array([6, 5, 3], 'int64'), 'LabelLength': np.array([3, 2, 1], 'int64')}
    for n, more in {'a': {}, 'times': dict(norm_by_times=True)}.items():
        c.append(case('warpctc', n, ctc, {'Loss': 'float32', 'WarpCTCGrad': 'float32'}, {'blank': 0, 'norm_by_times': False, **more},
                      ['Logits'], 'Loss', hidden=('WarpCTCGrad',), whole=True))
    return c


def linear():
    c = []
    a = f32(2, 3, 3) + 3 * np.eye(3, dtype='float32')
    both = a @ a.transpose(0, 2, 1)
    c.append(case('inverse', 'a', {'Input': a}, {'Output': 'float32'}, {}, ['Input'], 'Output'))
    for n, upper in {'lower': False, 'upper': True}.items():
        c.append(case('cholesky', n, {'X': both}, {'Out': 'float32'}, {'upper': upper}, ['X'], 'Out'))
    for n in (3, 0, -2):
        c.append(case('matrix_power', f'n{n}', {'X': a}, {'Out': 'float32'}, {'n': n}, ['X'], 'Out'))
    for n, attrs in {'upper': {}, 'lower': dict(upper=False), 'transposed': dict(transpose=True), 'unit': dict(unitriangular=True)}.items():
        attrs = {'upper': True, 'transpose': False, 'unitriangular': False, **attrs}
        c.append(case('triangular_solve', n, {'X': a, 'Y': f32(2, 3, 2)}, {'Out': 'float32'}, attrs, ['X', 'Y'], 'Out'))
    for dim in (0, 1):
        w = f32(4, 3, 2)
        c.append(case('spectral_norm', f'dim{dim}', {'Weight': w, 'U': f32(w.shape[dim]), 'V': f32(w.size // w.shape[dim])}, {'Out': 'float32'},
                      {'dim': dim, 'power_iters': 2, 'eps': 1e-12}, ['Weight'], 'Out'))
    return c


def small():
    c = []
    index = np.array([[0, 2], [3, 1], [1, 1]], 'int64')
    for reduce in ('assign', 'add'):
        c.append(case('put_along_axis', reduce, {'Input': f32(3, 4), 'Index': index, 'Value': f32(3, 2)}, {'Result': 'float32'},
                      {'Axis': 1, 'Reduce': reduce, 'Include_self': True}, ['Input', 'Value'], 'Result'))
    for op in ('logical_xor', 'bitwise_and', 'bitwise_or', 'bitwise_xor'):
        a, b = rng.randint(0, 9, (3, 4)), rng.randint(0, 9, (4,))
        kind = 'bool' if op == 'logical_xor' else 'int64'
        c.append(case(op, 'a', {'X': a.astype(kind), 'Y': (b % 2 if kind == 'bool' else b).astype(kind)}, {'Out': kind}))
    c.append(case('bitwise_not', 'a', {'X': rng.randint(-9, 9, (3, 4)).astype('int32')}, {'Out': 'int32'}))
    a = f32(3, 4)
    near = a + np.where(f32(3, 4) > 0, np.float32(1e-7), np.float32(0.1))
    c.append(case('isclose', 'a', {'Input': a, 'Other': near.astype('float32')}, {'Out': 'bool'}, {'rtol': '1e-05', 'atol': '1e-06',
             'equal_nan': False}))
    c.append(case('equal_all', 'same', {'X': a, 'Y': a.copy()}, {'Out': 'bool'}))
    c.append(case('equal_all', 'other', {'X': a, 'Y': near.astype('float32')}, {'Out': 'bool'}))
    for op, dims, kind in (('linear', (2, 3, 5), ['out_w']), ('trilinear', (2, 2, 3, 4, 3), ['out_d', 'out_h', 'out_w'])):
        for n, more in {'corners': dict(align_corners=True), 'mode0': dict(align_mode=0), 'mode1': {}}.items():
            size = {'out_d': -1, 'out_h': -1, 'out_w': -1, **{k: 4 + i for i, k in enumerate(kind)}}
            c.append(case(op + '_interp_v2', n, {'X': f32(*dims)}, {'Out': 'float32'}, {**size, 'scale': [], 'interp_method': op,
                     'align_corners': False, 'align_mode': 1, 'data_layout': 'NCHW', **more}, ['X'], 'Out'))
    nce = {'Input': f32(4, 3), 'Label': rng.randint(0, 20, (4, 1)).astype('int64'), 'Weight': f32(20, 3), 'Bias': f32(20, 1)}
    for n, sampler in {'uniform': 0, 'log_uniform': 1}.items():
        c.append(case('nce', n, nce, {'Cost': 'float32', 'SampleLogits': 'float32', 'SampleLabels': 'int64'},
                      {'num_total_classes': 20, 'num_neg_samples': 5, 'sampler': sampler, 'seed': 5, 'is_sparse': False,
                       'remote_prefetch': False, 'trainer_id': 0, 'epmap': [], 'table_names': [], 'height_sections': [],
                       'custom_neg_classes': [], 'is_test': False}, ['Input', 'Weight', 'Bias'], 'Cost', whole=True))
    for kind in ('SUM', 'MEAN', 'MIN', 'MAX'):
        c.append(case('graph_send_recv', kind.lower(), {'X': f32(4, 3), 'Src_index': np.array([0, 1, 2, 0, 3], 'int64'), 'Dst_index':
                 np.array([1, 1, 0, 2, 1], 'int64')}, {'Out': 'float32', 'Dst_count': 'int32'}, {'reduce_op': kind, 'out_size': [0]}, ['X'], 'Out',
                 hidden=() if kind == 'MEAN' else ('Dst_count',)))
    stats = {'Mean': f32(3), 'Variance': f32(3, low=0.5)}
    c.append(case('batch_norm', 'global', {'X': f32(2, 3, 4, 2), 'Scale': f32(3), 'Bias': f32(3), **stats},
                  {'Y': 'float32', 'MeanOut': 'float32', 'VarianceOut': 'float32', 'SavedMean': 'float32', 'SavedVariance': 'float32'},
                  {'use_global_stats': True, 'is_test': False, 'epsilon': 1e-5, 'momentum': 0.9, 'data_layout': 'NCHW',
                   'trainable_statistics': False}, ['X', 'Scale', 'Bias'], 'Y', same={'MeanOut': 'Mean', 'VarianceOut': 'Variance'},
                  hidden=('SavedMean', 'SavedVariance')))
    c.append(case('sequence_mask', 'a', {'X': np.array([[1, 0], [3, 5]], 'int64')}, {'Y': 'float32'}, {'maxlen': 4, 'out_dtype': 5}))
    for n, x in {'a': f32(3, 4), 'zero': np.array([[1, 0, 2], [0, 3, 0]], 'float32')}.items():
        c.append(case('cumprod', n, {'X': x}, {'Out': 'float32'}, {'dim': 1}, ['X'], 'Out'))
    for n, axis in {'first': 1, 'last': -1}.items():
        c.append(case('maxout', n, {'X': f32(2, 4, 3, 6)}, {'Out': 'float32'}, {'groups': 2, 'axis': axis}, ['X'], 'Out'))
    for corners in (True, False):
        for border in ('zeros', 'border', 'reflection'):
            c.append(case('grid_sampler', f'{border}_{int(corners)}', {'X': f32(2, 2, 4, 5), 'Grid': f32(2, 3, 3, 2, low=-1.6, high=1.6)},
                          {'Output': 'float32'}, {'align_corners': corners, 'mode': 'bilinear', 'padding_mode': border}, ['X', 'Grid'], 'Output'))
        c.append(case('affine_grid', f'{int(corners)}', {'Theta': f32(2, 2, 3)}, {'Output': 'float32'}, {'align_corners': corners,
                 'output_shape': [2, 1, 3, 4]}, ['Theta'], 'Output'))
    c.append(case('grid_sampler', 'nearest', {'X': f32(2, 2, 4, 5), 'Grid': f32(2, 3, 3, 2, low=-1.2, high=1.2)}, {'Output': 'float32'},
                  {'align_corners': True, 'mode': 'nearest', 'padding_mode': 'zeros'}, ['X', 'Grid'], 'Output'))
    return c


def pairs():
    c = []
    for op, x, y in (('atan2', 'X1', 'X2'), ('elementwise_fmax', 'X', 'Y'), ('elementwise_fmin', 'X', 'Y'), ('dist', 'X', 'Y')):
        attrs = {'p': 2.0} if op == 'dist' else {'axis': -1} if 'fm' in op else {}
        c.append(case(op, 'same', {x: f32(3, 4), y: f32(3, 4)}, {'Out': 'float32'}, attrs, [x, y], 'Out'))
        if op == 'atan2':
            continue
        c.append(case(op, 'stretched', {x: f32(2, 3, 4), y: f32(3, 1)}, {'Out': 'float32'}, attrs, [x, y], 'Out'))
    for p in (1.0, 3.0):
        c.append(case('dist', f'p{int(p)}', {'X': f32(3, 4), 'Y': f32(3, 4)}, {'Out': 'float32'}, {'p': p}, ['X', 'Y'], 'Out'))
    c.append(case('dist', 'inf', {'X': f32(3, 4), 'Y': f32(3, 4)}, {'Out': 'float32'}, {'p': float('inf')}, ['X', 'Y'], 'Out'))
    c.append(case('lerp', 'same', {'X': f32(3, 4), 'Y': f32(3, 4), 'Weight': f32(3, 4)}, {'Out': 'float32'}, {}, ['X', 'Y'], 'Out'))
    c.append(case('lerp', 'number', {'X': f32(3, 4), 'Y': f32(3, 4), 'Weight': f32(1)}, {'Out': 'float32'}, {}, ['X', 'Y'], 'Out'))
    for n, dims in {'same': (3, 5), 'row': (1, 5), 'vector': (5,)}.items():
        c.append(case('addmm', n, {'Input': f32(*dims), 'X': f32(3, 4), 'Y': f32(4, 5)}, {'Out': 'float32'}, {'Alpha': 0.5, 'Beta': 2.0},
                      ['Input', 'X', 'Y'], 'Out'))
    return c


def sums():
    c = []
    ties = np.array([[1, 3, 3, 2], [0, 0, -1, 0], [5, 4, 3, 5]], 'float32')
    for op in ('reduce_amax', 'reduce_amin'):
        for n, dim, keep in (('last', [-1], True), ('first', [0], False)):
            c.append(case(op, n, {'X': ties}, {'Out': 'float32'}, {'dim': dim, 'keep_dim': keep, 'reduce_all': False}, ['X'], 'Out'))
    for n, attrs in {'last': dict(axis=-1), 'first': dict(axis=0), 'reverse': dict(axis=1, reverse=True), 'flat': dict(flatten=True),
                     'exclusive': dict(axis=1, exclusive=True)}.items():
        attrs = {'axis': -1, 'flatten': False, 'exclusive': False, 'reverse': False, **attrs}
        c.append(case('logcumsumexp', n, {'X': f32(3, 5, low=-3, high=3)}, {'Out': 'float32'}, attrs, ['X'], 'Out'))
    return c


def updates():
    p = {'Param': f32(4, 3), 'Grad': f32(4, 3), 'LearningRate': np.array([0.1], 'float32')}
    c = [case('decayed_adagrad', 'a', {**p, 'Moment': f32(4, 3, low=0)}, {'ParamOut': 'float32', 'MomentOut': 'float32'},
              {'decay': 0.9, 'epsilon': 1e-6})]
    for n, power in {'root': -0.5, 'other': -0.3}.items():
        c.append(case('ftrl', n, {**p, 'SquaredAccumulator': f32(4, 3, low=0.01), 'LinearAccumulator': f32(4, 3)},
                      {'ParamOut': 'float32', 'SquaredAccumOut': 'float32', 'LinearAccumOut': 'float32'},
                      {'l1': 0.1, 'l2': 0.2, 'lr_power': power}))
    label = rng.randint(0, 2, (20, 1)).astype('int64')
    for n, steps in {'all': 0, 'window': 3}.items():
        size = 16 if steps == 0 else (steps + 1) * 16 + 1
        c.append(case('auc', n, {'Predict': f32(20, 2, low=0), 'Label': label, 'StatPos': np.zeros(size, 'int64'), 'StatNeg':
                                 np.zeros(size, 'int64')}, {'AUC': 'float64', 'StatPosOut': 'int64', 'StatNegOut': 'int64'},
                      {'curve': 'ROC', 'num_thresholds': 15, 'slide_steps': steps}))
    return c


EQUATIONS = [('bij,bjk->bik', [(2, 3, 4), (2, 4, 5)]), ('bi,oi->bo', [(3, 4), (5, 4)]), ('bhid,bhjd->bhij', [(2, 2, 3, 4), (2, 2, 5, 4)]),
             ('i,j->ij', [(3,), (4,)]), ('ij->ji', [(3, 4)]), ('ij->i', [(3, 4)]), ('ijk->', [(2, 3, 4)]), ('...ij,...jk->...ik',
             [(2, 3, 4), (2, 4, 2)]), ('bld,blh->bdh', [(2, 3, 4), (2, 3, 2)]), ('ij,ij->', [(3, 4), (3, 4)]), ('nkd,nk->nd',
             [(2, 3, 4), (2, 3)]), ('bec,bd->ecd', [(4, 2, 3), (4, 5)])]


def build(one):
    main, feeds, block_in, vars_in = static.Program(), {}, {}, {}
    with static.program_guard(main, static.Program()):
        block = main.global_block()
        for slot, value in one['inputs'].items():
            arrays = value if isinstance(value, list) else [value]
            block_in[slot] = []
            for k, a in enumerate(arrays):
                n = slot if len(arrays) == 1 else f'{slot}_{k}'
                v = block.create_var(name=n, shape=a.shape, dtype=str(a.dtype), stop_gradient=slot not in one['grad'])
                feeds[n] = a
                block_in[slot].append(v)
        for slot, (table, ids, values) in one.get('rows', {}).items():
            feeds.update({slot + '_ids': ids, slot + '_values': values})
            given = [block.create_var(name=n, shape=feeds[n].shape, dtype=str(feeds[n].dtype)) for n in (slot + '_ids', slot + '_values')]
            rows = block.create_var(name=slot, type=paddle.base.core.VarDesc.VarType.SELECTED_ROWS, dtype=str(values.dtype))
            lead = block.desc.append_op()
            lead.set_type('lookup_table_v2_grad')
            for n, to in (('W', block_in[table][0]), ('Ids', given[0]), ('Out@GRAD', given[1])):
                lead.set_input(n, [to.name])
            lead.set_output('W@GRAD', [slot])
            lead._set_attr('is_sparse', True)
            lead._set_int64_attr('padding_idx', -1)
            block._sync_with_cpp()
            block_in[slot] = [rows]
        feeds.update(one.get('held', {}))
        block_out = {}
        for slot, kind in one['outputs'].items():
            kind, count = kind if isinstance(kind, tuple) else (kind, 1)
            block_out[slot] = block_in[one['same'][slot]] if slot in one['same'] else \
                [block.create_var(name=slot if count == 1 else f'{slot}_{k}', dtype=kind) for k in range(count)]
        block.append_op(type=one['op'], inputs=block_in, outputs=block_out, attrs=one['attrs'])
        for slot, kind in one['outputs'].items():  # which Paddle's inference may have set to X's
            for v in block_out[slot]:
                v.desc.set_dtype(paddle.base.framework.convert_np_dtype_to_dtype_(kind[0] if isinstance(kind, tuple) else kind))
        grads = []
        if one['grad']:
            of = block_out[one['of']]
            probe = static.Executor().run(main, feed=feeds, fetch_list=of)
            outs = []
            for v, a in zip(of, probe):
                g = block.create_var(name=v.name + '_seed', shape=v.shape, dtype=v.dtype)
                feeds[g.name] = rng.uniform(-1, 1, a.shape).astype(a.dtype) if a.shape else np.array(0.7, a.dtype)
                outs.append(g)
            wanted = [v for slot in one['grad'] for v in block_in[slot]]
            grads = [g for g in static.gradients(of, wanted, target_gradients=outs) if g is not None]
        of_what = wanted + outs if grads else []
        for _ in range(2 if one.get('thrice') else 1 if one.get('twice') else 0):
            seeds, before = [], [block.var(g.name) for g in grads]
            for g, a in zip(before, static.Executor().run(main, feed=feeds, fetch_list=before)):
                seeds.append(block.create_var(name=g.name + '_seed', shape=g.shape, dtype=g.dtype))
                feeds[seeds[-1].name] = rng.uniform(-1, 1, a.shape).astype(a.dtype)
            grads = [g for g in static.gradients(before, of_what, target_gradients=seeds) if g is not None]
            of_what = of_what + seeds
    made = [v.name for slot in block_out for v in block_out[slot] if slot not in one['hidden']]
    return main, feeds, made, [g.name for g in grads]


def strip(main):
    for op in main.global_block().ops:
        for n in ('op_callstack', 'op_namescope', 'op_device'):
            if op.has_attr(n):
                op._set_attr(n, [] if n == 'op_callstack' else '')


def own_versions(main):
    """The program as a file, without the versions of ops that it does not hold."""
    desc = framework_pb2.ProgramDesc.FromString(main.desc.serialize_to_string())
    types = {op.type for block in desc.blocks for op in block.ops}
    pairs = [pair for pair in desc.op_version_map.pair if pair.op_name in types]
    del desc.op_version_map.pair[:]
    desc.op_version_map.pair.extend(pairs)
    return desc.SerializeToString()


def read_first(ops):
    """Vars that the ops read before one of them writes them."""
    need, have = [], set()
    for op in ops:
        need += [n for n in op.input_arg_names if n not in have and n not in need and n != '@EMPTY@']
        have.update(op.output_arg_names)
    return need


def write(one, root, folder, main, arrays, outs, feeds):
    folder = os.path.join(root, folder)
    os.makedirs(folder, exist_ok=True)
    block = main.global_block()
    used = {n for op in block.ops for n in op.input_arg_names + op.output_arg_names}
    for n in [n for n in block.vars if n not in used]:
        block._remove_var(n)
    strip(main)
    stem = os.path.join(folder, one['variant'])
    # What the forward op leaves unmade, its gradient does not read either.
    kept = {n: a if np.asarray(a).dtype != object else np.zeros([max(d, 0) or 4 for d in block.var(n).shape], 'int32') for n, a in arrays.items()
            if n in used}
    # A var that is written in place was fed before.
    keys = {'in/' + n: np.asarray(feeds[n]) if n in feeds else kept[n] for n in read_first(block.ops) + list(one.get('held', []))}
    keys.update({'out/' + n: arrays[n] for n in outs})
    for n in (k[3:] for k in keys if k.startswith('in/')):  # Paddle does not infer what only gradients read
        block.var(n).desc.set_shape(keys['in/' + n].shape)
        block.var(n).desc.set_dtype(paddle.base.framework.convert_np_dtype_to_dtype_(str(keys['in/' + n].dtype)))
    with open(stem + '.pdmodel', 'wb') as f:
        f.write(own_versions(main))
    meta = {'op': one['op'], 'variant': one['variant'], 'paddle': paddle.__version__}
    np.savez_compressed(stem + '.npz', meta=json.dumps(meta), **keys)
    print(f"{os.path.basename(folder)}/{one['variant']}: {[op.type for op in block.ops]}")


def record(one, root):
    main, feeds, made, grads = build(one)
    kept = [op for op in main.global_block().ops if op.type.endswith('_triple_grad')][:1] if one.get('thrice') else \
        main.global_block().ops[2:3] if one.get('twice') else []
    if kept:
        grads = [n for n in kept[0].output_arg_names if n != '@EMPTY@']
        made += [n for n in kept[0].input_arg_names if n != '@EMPTY@']
    wanted = [n for n in made + grads if n not in feeds or n in made] + [n for n in read_first(main.global_block().ops[1:]) if n not in feeds and n not in made and
                             n not in one.get('rows', {})]
    got = static.Executor().run(main, feed=feeds, fetch_list=wanted)
    arrays = {**{n: np.asarray(a) for n, a in feeds.items()}, **dict(zip(wanted, got))}
    forward, backward = main.clone(), main
    nops = 1 + len(one.get('rows', {}))
    while len(forward.global_block().ops) > nops:
        forward.global_block()._remove_op(nops)
    for slot in () if one['whole'] else one['hidden']:
        forward.global_block().ops[0].desc.remove_output(slot)
    if not kept and not one.get('folder'):
        write(one, root, one['op'], forward, arrays, made, feeds)
    if kept:
        for k in reversed([k for k, op in enumerate(main.global_block().ops) if op is not kept[0]]):
            main.global_block()._remove_op(k)
        if one.get('other'):
            kept[0].desc.set_type(one['other'])
        write(one, root, one.get('other') or kept[0].type, main, arrays, grads, feeds)
    elif grads:
        if not one['whole']:
            backward.global_block()._remove_op(0)
        write(one, root, one.get('folder') or one['op'] + '_grad', backward, arrays, grads, feeds)


if __name__ == '__main__':
    wanted = set(sys.argv[2:])
    for one in cases():
        if not wanted or one['op'] in wanted:
            record(one, sys.argv[1])

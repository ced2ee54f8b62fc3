"""Cases of op types of Paddle 1 that no Python function of 2.6.2 writes and that its CPU runs, for record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return resized(f32, case) + moved(rng, f32, case) + seen(f32, case) + losses(rng, f32, case) + updates(f32, case) + \
        blocks(f32, case) + boxes(f32, case) + by_rows(f32, case)


def resized(f32, case):
    """Sizes that no ratio of elements gives, larger and smaller; a scale, and sizes of tensors."""
    c = []
    shapes = {'linear': (2, 3, 5), 'bilinear': (2, 2, 4, 5), 'bicubic': (1, 2, 4, 5), 'nearest': (2, 2, 4, 5), 'trilinear': (1, 2, 3, 4, 2)}
    to = {'linear': dict(out_w=7), 'trilinear': dict(out_d=5, out_h=2, out_w=3)}
    for method, dims in shapes.items():
        n = len(dims) - 2
        base = {'data_layout': 'NCHW', 'out_d': 0, 'out_h': 0, 'out_w': 0, 'scale': 0.0, 'interp_method': method, 'align_corners': False, 'align_mode': 1}
        given = to.get(method, dict(out_h=7, out_w=3))
        small = {'corners': {**given, 'align_corners': True}, 'middles': {**given, 'align_mode': 0}, 'scale': dict(scale=1.7)}
        for name, attrs in small.items():
            c.append(case(method + '_interp', name, {'X': f32(*dims)}, {'Out': 'float32'}, {**base, **attrs}, ['X'], 'Out'))
        last = (dims[0], *dims[2:], dims[1])
        c.append(case(method + '_interp', 'last', {'X': f32(*last).astype('float64')}, {'Out': 'float64'}, {**base, **given, 'data_layout': 'NHWC'}, ['X'], 'Out'))
        sizes = np.array([3, 7, 5][:n], 'int32')
        c.append(case(method + '_interp', 'sizes', {'X': f32(*dims), 'OutSize': sizes}, {'Out': 'float32'}, {**base, **given}, ['X'], 'Out'))
    return c


def moved(rng, f32, case):
    c = []
    for n, axis in {'rows': [0], 'both': [-1, 0]}.items():
        c.append(case('reverse', n, {'X': f32(3, 1, 4)}, {'Out': 'float32'}, {'axis': axis}, ['X'], 'Out'))
    for n, dims in {'a': (2, 4, 1, 3), 'empty': (0, 4, 2, 2)}.items():
        c.append(case('shuffle_channel', n, {'X': f32(*dims)}, {'Out': 'float32'}, {'group': 2}, ['X'] if dims[0] else [], 'Out'))
    c.append(case('crop', 'attrs', {'X': f32(4, 5)}, {'Out': 'float32'}, {'offsets': [1, 0], 'shape': [2, 4]}, ['X'], 'Out'))
    c.append(case('crop', 'like', {'X': f32(3, 4, 5), 'Y': f32(2, 2, 5)}, {'Out': 'float32'}, {'offsets': [0, 2, 0], 'shape': []}, ['X'], 'Out'))
    c.append(case('crop', 'tensor', {'X': f32(4, 5), 'Offsets': np.array([2, 1], 'int32')}, {'Out': 'float32'}, {'offsets': [], 'shape': [2, 3]}, ['X'], 'Out'))
    for n, (dims, axis) in {'same': ((3,), -1), 'row': ((3,), 1), 'zero_d': ((), -1)}.items():
        x = f32(2, 3) if n == 'row' else f32(*dims) if dims else np.array(0.5, 'float32')
        c.append(case('grad_add', n, {'X': x, 'Y': f32(*dims) if dims else np.array(0.25, 'float32')}, {'Out': 'float32'}, {'axis': axis}))
    for n, x in {'int64': rng.randint(0, 9, (2, 3)), 'empty': np.zeros((0, 3), 'int64')}.items():
        c.append(case('fill_zeros_like2', n, {'X': x}, {'Out': 'int64'}, {'dtype': 3}))
    c.append(case('memcpy_h2d', 'a', {'X': f32(2, 3)}, {'Out': 'float32'}, {'dst_place_type': 0}))
    return c


def seen(f32, case):
    c = []
    for n, at in {'none': 1.5, 'nan': np.nan, 'inf': -np.inf}.items():
        x = f32(2, 3)
        x[1, 1] = at
        for op in ('isnan', 'isinf'):
            c.append(case(op, n, {'X': x}, {'Out': 'bool'}))
    for op in ('isnan', 'isinf'):
        c.append(case(op, 'int', {'X': np.array([1, 2], 'int32')}, {'Out': 'bool'}))
    return c


def losses(rng, f32, case):
    c = []
    for n, dims in {'a': (3, 5), 'zero_d': ()}.items():
        x = f32(*dims, low=-3, high=3) if dims else np.array(0.5, 'float32')
        c.append(case('soft_relu', n, {'X': x}, {'Out': 'float32'}, {'threshold': 2.0}, ['X'], 'Out'))
    labels = np.array([-2.0, -1.0, 0.25, 1.5, -0.5, 0.0, 1.0, -3.0], 'float32').reshape(8, 1)
    for n, bounds in {'wide': (15.0, -15.0), 'close': (0.5, -0.5)}.items():
        c.append(case('teacher_student_sigmoid_loss', n, {'X': f32(8, 1, low=-2, high=2), 'Label': labels}, {'Y': 'float32'},
                      {'soft_max_up_bound': bounds[0], 'soft_max_lower_bound': bounds[1]}, ['X'], 'Y'))
    x = np.array([-2.5, -0.5, 0.25, 2.5, -1.0, 1.0, 0.75], 'float32').reshape(7, 1)
    c.append(case('modified_huber_loss', 'a', {'X': x, 'Y': rng.randint(0, 2, (7, 1)).astype('float32')}, {'IntermediateVal': 'float32', 'Out': 'float32'}, {},
                  ['X'], 'Out'))
    return c


def updates(f32, case):
    rate, c = np.array([0.1], 'float32'), []
    for n, (l1, l2) in {'both': (0.4, 0.2), 'square': (0.0, 0.5)}.items():
        c.append(case('proximal_gd', n, {'Param': f32(3, 4), 'Grad': f32(3, 4), 'LearningRate': rate}, {'ParamOut': 'float32'}, {'l1': l1, 'l2': l2},
                      same={'ParamOut': 'Param'}))
    return c


def blocks(f32, case):
    """Small blocks of models."""
    c = []
    for n, (dims, alpha, beta) in {'a': ((2, 3, 6), 0.75, 1.25), 'pair': ((1, 2, 2), 1.0, 1.0), 'f64': ((2, 2, 4), 0.5, 2.0)}.items():
        x = f32(*dims).astype('float64' if n == 'f64' else 'float32')
        c.append(case('add_position_encoding', n, {'X': x}, {'Out': str(x.dtype)}, {'alpha': alpha, 'beta': beta}, ['X'], 'Out'))
    for n, kind in {'a': 'float32', 'f64': 'float64'}.items():
        c.append(case('fsp', n, {'X': f32(2, 3, 2, 5).astype(kind), 'Y': f32(2, 4, 2, 5).astype(kind)}, {'Out': kind}, {}, ['X', 'Y'], 'Out'))
    rnn = {'Input': f32(3, 12), 'HiddenPrev': f32(3, 4), 'Weight': f32(4, 12)}
    for n, (attrs, bias) in {'bias': ({}, True), 'plain': ({}, False), 'origin': (dict(origin_mode=True), True), 'relu': (dict(activation=3, gate_activation=0), True)}.items():
        inputs = {**rnn, 'Bias': f32(1, 12)} if bias else rnn
        c.append(case('gru_unit', n, inputs, {'Gate': 'float32', 'ResetHiddenPrev': 'float32', 'Hidden': 'float32'},
                      {'activation': 2, 'gate_activation': 1, 'origin_mode': False, **attrs}, list(inputs), 'Hidden'))
    return c


def boxes(f32, case):
    c = []
    for n, (clip, flat, steps) in {'a': (False, False, (0.0, 0.0)), 'flat': (True, True, (4.0, 5.0))}.items():
        c.append(case('density_prior_box', n, {'Input': f32(1, 2, 2, 3), 'Image': f32(1, 3, 9, 12)}, {'Boxes': 'float32', 'Variances': 'float32'},
                      {'variances': [0.1, 0.1, 0.2, 0.2], 'clip': clip, 'flatten_to_2d': flat, 'step_w': steps[0], 'step_h': steps[1], 'offset': 0.5,
                       'fixed_sizes': [3.0, 5.0], 'fixed_ratios': [1.0, 2.0], 'densities': [2, 1]}))
    c.append(case('anchor_generator', 'a', {'Input': f32(1, 2, 2, 3)}, {'Anchors': 'float32', 'Variances': 'float32'},
                  {'anchor_sizes': [32.0, 64.0], 'aspect_ratios': [0.5, 1.0, 2.0], 'variances': [0.1, 0.1, 0.2, 0.2], 'stride': [16.0, 8.0], 'offset': 0.5}))
    return c


def by_rows(f32, case):
    """Momentum of the rows (columns) that Index names; the others have a gradient of 0."""
    c, rate = [], np.array([0.1], 'float32')
    for n, (axis, attrs) in {'rows': (0, {}), 'columns': (1, {}), 'nesterov': (0, dict(use_nesterov=True)), 'decay': (0, dict(regularization_method='l2_decay', regularization_coeff=0.3)), 'twice': (0, {})}.items():
        index = np.array([2, 2] if n == 'twice' else [2, 0], 'int64' if axis else 'int32')
        c.append(case('sparse_momentum', n, {'Param': f32(4, 3), 'Grad': f32(4, 2) if axis else f32(2, 3), 'Velocity': f32(4, 3), 'Index': index, 'LearningRate': rate},
                      {'ParamOut': 'float32', 'VelocityOut': 'float32'},
                      {'mu': 0.9, 'axis': axis, 'use_nesterov': False, 'regularization_method': '', 'regularization_coeff': 0.0, 'multi_precision': False, 'rescale_grad': 0.5, **attrs},
                      same={'ParamOut': 'Param', 'VelocityOut': 'Velocity'}))
    return c

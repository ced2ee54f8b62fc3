"""Cases of ops that Paddle 3 or its incubator has, of draws that a seed settles, and of gradients of gradients, for
record_ops.py: `cases` takes its tools. Those of `newer` are of Paddle 3.3.1 alone."""
import numpy as np


def cases(rng, f32, case):
    return moves(rng, f32, case) + draws(rng, f32, case) + seconds(f32, case) + thirds(f32, case) + newer(rng, f32, case)


def moves(rng, f32, case):
    c = []
    cells = np.array([[[[[3, 8], [17, 22]]]], [[[[0, 11], [12, 23]]]]], 'int32')
    c.append(case('unpool3d', 'a', {'X': f32(2, 1, 1, 2, 2), 'Indices': cells}, {'Out': 'float32'}, {'ksize': [2, 2, 2], 'unpooling_type': 'max',
                  'strides': [2, 2, 2], 'paddings': [0, 0, 0], 'output_size': [2, 3, 4], 'data_format': 'NCDHW'}, ['X'], 'Out'))
    for n, attrs in {'middle': dict(start_index=1, length=2), 'rest': dict(start_index=2, length=-1)}.items():
        for op in ('partial_concat', 'partial_sum'):
            c.append(case(op, n, {'X': [f32(3, 4), f32(3, 4)]}, {'Out': 'float32'}, attrs, ['X'], 'Out'))
    counts = np.concatenate([rng.randint(1, 9, (3, 2)), f32(3, 2)], 1).astype('float32')
    for n, kept in {'kept': True, 'dropped': False}.items():
        c.append(case('cvm', n, {'X': counts, 'CVM': counts[:, :2].copy()}, {'Y': 'float32'}, {'use_cvm': kept}, ['X'], 'Y'))
    for n, step in {'rising': 2, 'falling': 6, 'over': 11}.items():
        c.append(case('pow2_decay_with_linear_warmup', n, {'LearningRate': np.array([0.5], 'float32'), 'Step': np.array([step], 'int64')},
                      {'LearningRateOut': 'float32', 'StepOut': 'int64'}, {'warmup_steps': 4, 'total_steps': 10, 'base_lr': 0.1, 'end_lr': 0.01},
                      same={'LearningRateOut': 'LearningRate', 'StepOut': 'Step'}))
    rnnt = {'input': np.log(rng.dirichlet(np.ones(4), (2, 3, 3))).astype('float32'), 'label': np.array([[1, 2], [3, 0]], 'int32'),
            'input_lengths': np.array([3, 2], 'int32'), 'label_lengths': np.array([2, 1], 'int32')}
    for n, fast in {'plain': 0.0, 'fast': 0.01}.items():
        c.append(case('warprnnt', n, rnnt, {'loss': 'float32', 'warprnntgrad': 'float32'}, {'blank': 0, 'fastemit_lambda': fast}, ['input'], 'loss'))
    zero, seen = np.zeros(1, 'float32'), {'InAccum': np.array([1.5], 'float32'), 'InState': np.array([2.0], 'float32')}
    line = {'quant_axis': -1, 'bit_length': 8, 'round_type': 0, 'is_test': False, 'only_observer': False}
    made = {'Y': 'float32', 'OutState': 'float32', 'OutAccum': 'float32', 'OutScale': 'float32'}
    c.append(case('quantize_linear', 'average', {'X': f32(2, 3), 'Scale': np.array([0.7], 'float32'), 'ZeroPoint': zero, **seen}, made, line))
    c.append(case('quantize_linear', 'channels', {'X': f32(2, 3), 'Scale': f32(3), 'ZeroPoint': zero}, {'Y': 'float32', 'OutScale': 'float32'},
                  {**line, 'quant_axis': 1}))
    c.append(case('quantize_linear', 'given', {'X': f32(2, 3), 'Scale': np.array([0.7], 'float32'), 'ZeroPoint': zero}, {'Y': 'float32'}, {**line, 'is_test': True}))
    for n, axis in {'one': -1, 'channels': 1}.items():
        c.append(case('dequantize_linear', n, {'X': np.round(f32(2, 3) * 100), 'Scale': f32(3 if axis > 0 else 1, low=0.1), 'ZeroPoint': zero},
                      {'Y': 'float32'}, {**line, 'is_test': True, 'quant_axis': axis}))
    c.append({**case('fake_quantize_dequantize_abs_max', 'a', {'X': f32(2, 3)}, {'Out': 'float32', 'OutScale': 'float32'},
                     {'bit_length': 8, 'round_type': 0}, ['X'], 'Out'), 'folder': 'stright_throuth_estimator_grad'})
    return c


def draws(rng, f32, case):
    c = []
    c.append(case('shuffle_batch', 'a', {'X': f32(4, 3), 'Seed': np.array([7], 'int64')}, {'Out': 'float32', 'ShuffleIdx': 'int64', 'SeedOut': 'int64'},
                  {'startup_seed': 3}, ['X'], 'Out'))
    c.append(case('matrix_rank', 'tolerances', {'X': f32(3, 2, 3), 'TolTensor': np.array([0.1, 0.7, 5], 'float32')}, {'Out': 'int32'},
                  {'tol': 0.0, 'hermitian': False, 'use_default_tol': False}))
    tree = np.array([[0, 0, 0, 1, 2], [0, 1, 0, 3, 4], [0, 1, 0, 5, 0], [3, 2, 1, 0, 0], [4, 2, 1, 0, 0], [5, 2, 2, 0, 0]], 'int32')
    c.append(case('tdm_child', 'a', {'X': np.array([[1], [2], [0], [5]], 'int32'), 'TreeInfo': tree}, {'Child': 'int32', 'LeafMask': 'int32'},
                  {'child_nums': 2, 'dtype': 2}))
    label = np.array([7, 3, 7, 11], 'int64')
    c.append(case('class_center_sample', 'seed', {'Label': label}, {'RemappedLabel': 'int64', 'SampledLocalClassCenter': 'int64'},
                  {'num_classes': 12, 'num_samples': 6, 'ring_id': 0, 'rank': 0, 'nranks': 1, 'fix_seed': True, 'seed': 5}))
    share = np.array([0.4, 0.1, 0.1, 0.15, 0.05, 0.2], 'float32')
    alias, kept = alias_table(share)
    nce = {'Input': f32(3, 2), 'Label': rng.randint(0, 6, (3, 1)).astype('int64'), 'Weight': f32(6, 2), 'Bias': f32(6, 1),
           'CustomDistProbs': share, 'CustomDistAlias': alias, 'CustomDistAliasProbs': kept}
    c.append(case('nce', 'given', nce, {'Cost': 'float32', 'SampleLogits': 'float32', 'SampleLabels': 'int64'},
                  {'num_total_classes': 6, 'num_neg_samples': 4, 'sampler': 2, 'seed': 5, 'is_sparse': False, 'remote_prefetch': False, 'trainer_id': 0,
                   'epmap': [], 'table_names': [], 'height_sections': [], 'custom_neg_classes': [], 'is_test': False}, ['Input', 'Weight', 'Bias'],
                  'Cost', whole=True))
    c.append(case('uniform_random_batch_size_like', 'a', {'Input': f32(3, 2)}, {'Out': 'float32'}, {'shape': [-1, 4], 'input_dim_idx': 0, 'output_dim_idx': 0,
                  'min': -1.0, 'max': 1.0, 'seed': 0, 'diag_num': 0, 'diag_step': 0, 'diag_val': 1.0, 'dtype': 5}))
    return c


def alias_table(share):
    """As paddle.static.nn.nce makes it."""
    kept, alias = share * len(share), np.full(len(share), -1, 'int32')
    large, small = [i for i, p in enumerate(kept) if p > 1], [i for i, p in enumerate(kept) if p < 1]
    while large and small:
        big, little = large.pop(0), small.pop(0)
        alias[little] = big
        kept[big] -= 1 - kept[little]
        (large if kept[big] > 1 else small).append(big)
    for i in large + small:
        kept[i] = 1
    return alias, kept.astype('float32')


def seconds(f32, case):
    """Gradients of gradients that the planner puts other ops for."""
    c = []

    def second(op, inputs, out, attrs, **more):
        c.append({**case(op, 'a', inputs, {out: 'float32'}, attrs, list(inputs), out), 'twice': True, **more})
    for op in ('elementwise_add', 'elementwise_sub', 'elementwise_mul', 'elementwise_div'):
        second(op, {'X': f32(2, 3), 'Y': f32(3, low=0.5, high=2)}, 'Out', {'axis': -1})
    second('matmul_v2', {'X': f32(2, 3), 'Y': f32(4, 3)}, 'Out', {'trans_x': False, 'trans_y': True})
    second('matmul', {'X': f32(2, 3), 'Y': f32(3, 2)}, 'Out', {'transpose_X': False, 'transpose_Y': False, 'alpha': 1.0})
    second('mul', {'X': f32(2, 3), 'Y': f32(3, 2)}, 'Out', {'x_num_col_dims': 1, 'y_num_col_dims': 1})
    window = {'strides': [1, 1], 'paddings': [0, 1], 'dilations': [1, 1], 'padding_algorithm': 'EXPLICIT', 'data_format': 'NCHW'}
    second('conv2d', {'Input': f32(1, 2, 3, 3), 'Filter': f32(2, 2, 2, 2)}, 'Output', {**window, 'groups': 1})
    # Paddle's CPU has no kernel of that name; conv2d by as many groups is the same.
    second('conv2d', {'Input': f32(1, 2, 3, 3), 'Filter': f32(2, 1, 2, 2)}, 'Output', {**window, 'groups': 2}, other='depthwise_conv2d_grad_grad')
    second('conv3d', {'Input': f32(1, 1, 2, 2, 3), 'Filter': f32(2, 1, 2, 1, 2)}, 'Output', {'strides': [1, 1, 1], 'paddings': [0, 0, 0], 'dilations':
           [1, 1, 1], 'groups': 1, 'padding_algorithm': 'EXPLICIT', 'data_format': 'NCDHW'})
    second('pool2d', {'X': f32(1, 2, 4, 3)}, 'Out', {'pooling_type': 'avg', 'ksize': [2, 2], 'strides': [1, 1], 'paddings': [0, 0], 'global_pooling': False,
           'adaptive': False, 'exclusive': True, 'ceil_mode': False, 'padding_algorithm': 'EXPLICIT', 'data_format': 'NCHW'})
    second('pad3d', {'X': f32(1, 1, 2, 2, 2)}, 'Out', {'paddings': [1, 0, 0, 1, 0, 0], 'mode': 'constant', 'value': 0.0, 'data_format': 'NCDHW'})
    c.append(case('mv', 'a', {'X': f32(2, 3), 'Vec': f32(3)}, {'Out': 'float32'}, {}, ['X', 'Vec'], 'Out'))
    c.append(case('trace', 'a', {'Input': f32(2, 3, 4)}, {'Out': 'float32'}, {'offset': 1, 'axis1': 1, 'axis2': 2}, ['Input'], 'Out'))
    c.append(case('frobenius_norm', 'a', {'X': f32(2, 3)}, {'Out': 'float32'}, {'dim': [1], 'keep_dim': False, 'reduce_all': False}, ['X'], 'Out'))
    return c


def thirds(f32, case):
    c = []
    for op, attrs in (('tanh', {}), ('sigmoid', {}), ('sin', {}), ('cos', {}), ('pow', {'factor': 3.5})):
        c.append({**case(op, 'a', {'X': f32(2, 3, low=0.2, high=2)}, {'Out': 'float32'}, attrs, ['X'], 'Out'), 'thrice': True})
    for op, attrs in (('elementwise_add', {'axis': -1}), ('elementwise_mul', {'axis': -1}), ('matmul_v2', {'trans_x': False, 'trans_y': False})):
        y = f32(3, 2) if op == 'matmul_v2' else f32(3) if op == 'elementwise_add' else f32(2, 3)
        c.append({**case(op, 'a', {'X': f32(2, 3), 'Y': y}, {'Out': 'float32'}, attrs, ['X', 'Y'], 'Out'), 'thrice': True})
    return c


def newer(rng, f32, case):
    c = []
    for kind in ('int8', 'int32', 'int64', 'uint8'):
        x, y = rng.randint(0 if kind == 'uint8' else -100, 100, (2, 4)).astype(kind), np.array([0, 3, 7, 70 if kind != 'int8' else -1]).astype(kind)
        for op in ('bitwise_left_shift', 'bitwise_right_shift'):
            for n, signed in {'': True, '_logic': False}.items():
                c.append(case(op, kind + n, {'x': x, 'y': y}, {'out': kind}, {'is_arithmetic': signed}))
    c.append(case('gammaincc', 'f32', {'x': f32(12, low=0.1, high=9), 'y': f32(12, low=0.1, high=9)}, {'out': 'float32'}, {}, ['y'], 'out'))
    pool = {'kernel_size': [2, 3], 'strides': [2, 1], 'paddings': [0, 1], 'ceil_mode': False, 'exclusive': True, 'data_format': 'NCHW', 'pooling_type': 'lp',
            'global_pooling': False, 'adaptive': False, 'padding_algorithm': 'EXPLICIT', 'norm_type': 2.0}
    for n, more in {'two': {}, 'three': dict(norm_type=3.0), 'last': dict(data_format='NHWC', ceil_mode=True), 'global': dict(global_pooling=True)}.items():
        c.append(case('lp_pool2d', n, {'x': f32(1, 2, 5, 3, low=0.1)}, {'out': 'float32'}, {**pool, **more}, ['x'], 'out'))
    for n, size, u in (('a', [0, 0], 0.3), ('sized', [2, 3], 0.7)):
        c.append(case('fractional_max_pool2d', n, {'x': f32(1, 2, 7, 6)}, {'out': 'float32', 'mask': 'int32'}, {'output_size': [3, 2], 'kernel_size': size,
                      'random_u': u, 'return_mask': True}, ['x'], 'out'))
    c.append(case('fractional_max_pool3d', 'a', {'x': f32(1, 1, 4, 5, 4)}, {'out': 'float32', 'mask': 'int32'}, {'output_size': [2, 2, 3], 'kernel_size':
                  [0, 0, 0], 'random_u': 0.4, 'return_mask': True}, ['x'], 'out'))
    kept = {'param': f32(2, 3), 'd': f32(2, 3), 'y': f32(2, 3)}
    c.append(case('asgd', 'a', {**kept, 'grad': f32(2, 3), 'learning_rate': np.array([0.1], 'float32'), 'n': np.array([4], 'float32')},
                  {k + '_out': 'float32' for k in kept}, {}, same={k + '_out': k for k in kept}))
    scales, seen = {'Out': 'float32', 'OutScale': 'float32'}, {'OutState': 'float32', 'OutAccum': 'float32'}
    average = {'InScale': f32(1, low=0.5), 'InAccum': np.array([1.5], 'float32'), 'InState': np.array([2.0], 'float32')}
    observed = {k: average[k] for k in ('InAccum', 'InState')}
    for op, more, outputs, attrs in (('fake_quantize_dequantize_abs_max', {}, scales, {'bit_length': 8}),
                                     ('fake_channel_wise_quantize_dequantize_abs_max', {}, scales, {'bit_length': 8, 'quant_axis': 1}),
                                     ('fake_quantize_dequantize_moving_average_abs_max', average, {**scales, **seen}, {'bit_length': 8}),
                                     ('moving_average_abs_max_scale', observed, {**scales, **seen}, {})):
        folder = op + '_grad' if 'quantize' in op else 'straight_through_estimator_grad'
        c.append({**case(op, 'a', {'X': f32(2, 3), **more}, outputs, attrs, ['X'], 'Out'), 'folder': folder})
    near = f32(2, 3, 3)
    near[0, 2] = near[0, 0] + 1e-3 * near[0, 1]
    for n, atol, more in (('share', [0.1, 0.0], {'rtol': f32(2, low=0.2, high=0.4)}), ('usual', [0.0, 0.05], {})):
        c.append(case('matrix_rank_atol_rtol', n, {'x': near, 'atol': np.array(atol, 'float32'), **more}, {'out': 'int64'}, {'hermitian': False}))
    c.append(case('standard_gamma', 'a', {'x': f32(2, 3, low=0.2, high=5)}, {'out': 'float32'}))
    c.append(case('binomial', 'a', {'count': np.array([[3, 100], [0, 7]], 'float32'), 'prob': f32(2, 2, low=0)}, {'out': 'int64'}))
    return c

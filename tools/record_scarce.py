"""Cases of ops that few calls of Paddle's API make, for record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return second_norms(f32, case) + matrices(f32, case) + elements(rng, f32, case) + paths(rng, f32, case) + graphs(f32, case) + \
        newer(f32, case) + lists(f32, case)


def second_norms(f32, case):
    c = []
    for n, dims, more in (('nchw', (3, 2, 2, 3), {}), ('nhwc', (2, 3, 2, 4), dict(data_layout='NHWC')), ('global', (3, 2, 4), dict(use_global_stats=True)),
                          ('rows', (5, 3), {})):
        attrs = {'momentum': 0.9, 'epsilon': 1e-5, 'is_test': False, 'data_layout': 'NCHW', 'use_global_stats': False, 'trainable_statistics': False, **more}
        channels = dims[-1 if n == 'nhwc' else 1]
        inputs = {'X': f32(*dims), 'Scale': f32(channels), 'Bias': f32(channels), 'Mean': f32(channels), 'Variance': f32(channels, low=0.5)}
        outputs = {k: 'float32' for k in ('Y', 'MeanOut', 'VarianceOut', 'SavedMean', 'SavedVariance', 'ReserveSpace')}
        one = case('batch_norm', n, inputs, outputs, attrs, ['X', 'Scale', 'Bias'], 'Y', same={'MeanOut': 'Mean', 'VarianceOut': 'Variance'})
        c.append({**one, 'twice': True})
    for n, dims, scaled in (('scaled', (2, 3, 2, 3), True), ('plain', (2, 3, 4), False)):
        inputs = {'X': f32(*dims), **({'Scale': f32(3), 'Bias': f32(3)} if scaled else {})}
        one = case('instance_norm', n, inputs, {k: 'float32' for k in ('Y', 'SavedMean', 'SavedVariance')}, {'epsilon': 1e-5}, list(inputs), 'Y')
        c.append({**one, 'twice': True})
    return c


def matrices(f32, case):
    c = []
    for n, dims in (('three', ((2, 3), (3, 4), (4, 2))), ('two', ((2, 3), (3, 2))), ('vectors', ((3,), (3, 4), (4, 2), (2,)))):
        c.append(case('multi_dot', n, {'X': [f32(*d) for d in dims]}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    eigen = {'Eigenvalues': 'complex64', 'Eigenvectors': 'complex64'}
    c.append(case('eig', 'a', {'X': f32(3, 3)}, eigen, {}, ['X'], 'Eigenvalues'))
    c.append(case('eig', 'vectors', {'X': f32(4, 4)}, eigen, {}, ['X'], 'Eigenvectors'))
    c.append(case('eig', 'batch', {'X': f32(2, 3, 3)}, eigen))
    c.append(case('eigvals', 'batch', {'X': f32(2, 3, 3)}, {'Out': 'complex64'}))
    least = {'Solution': 'float32', 'Residuals': 'float32', 'Rank': 'int32', 'SingularValues': 'float32'}
    for n, x, y, driver in (('tall', (5, 3), (5, 2), 'gels'), ('wide', (2, 4), (2, 3), 'gels'), ('batch', (2, 4, 2), (2, 4, 1), 'gelsd'),
                            ('svd', (4, 3), (4, 2), 'gelss'), ('pivoted', (4, 3), (4, 2), 'gelsy')):
        hidden = ('Rank', 'SingularValues') if driver == 'gels' else ('SingularValues',) if driver == 'gelsy' else ()
        c.append(case('lstsq', n, {'X': f32(*x), 'Y': f32(*y)}, least, {'rcond': 1e-6, 'driver': driver}, hidden=hidden))
    return c


def elements(rng, f32, case):
    c = []
    nan = f32(3, 4)
    nan[0, 1] = nan[2, 0] = nan[2, 3] = np.nan
    none = np.full((2, 3), np.nan, 'float32')
    none[1] = [3, 1, 2]
    for n, x, axis, keep in (('all', nan, [], False), ('last', nan, [1], False), ('first', nan, [0], True), ('both', f32(2, 3, 5), [0, 2], False),
                             ('none', none, [1], False)):
        c.append(case('nanmedian', n, {'X': x}, {'Out': 'float32', 'MedianIndex': 'int64'}, {'axis': axis, 'keepdim': keep}, ['X'], 'Out',
                      hidden=('MedianIndex',), whole=True))
    special = np.array([0, 1, -1, 0, np.inf, 3.5], 'float32'), np.array([1, 0, -1, -0.0, 0, 4], 'float32')
    c.append(case('nextafter', 'f32', {'x': special[0], 'y': special[1]}, {'out': 'float32'}))
    c.append(case('nextafter', 'f64', {'x': special[0].astype('float64'), 'y': special[1].astype('float64')}, {'out': 'float64'}))
    for kind in range(3):
        c.append(case('identity_loss', f'{kind}', {'X': f32(2, 3)}, {'Out': 'float32'}, {'reduction': kind}, ['X'], 'Out'))
    mask = np.where(f32(2, 1, 3, 4) > 0, -1e4, 0).astype('float32')
    c.append(case('fused_softmax_mask', 'a', {'X': f32(2, 3, 3, 4), 'Mask': mask}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    for n, x, y, attrs in (('square', (4, 4), (4,), {}), ('up', (2, 3, 4), (2, 3), dict(offset=1, dim1=1, dim2=2)),
                           ('down', (4, 2, 3), (2, 3), dict(offset=-1, dim1=0, dim2=2))):
        c.append(case('fill_diagonal_tensor', n, {'X': f32(*x), 'Y': f32(*y)}, {'Out': 'float32'}, {'offset': 0, 'dim1': 0, 'dim2': 1, **attrs}, ['X'], 'Out'))
    out = {'Out': 'int64', 'Index': 'int64', 'Counts': 'int64'}
    for n, x, axis in (('flat', np.array([[3, 3, 1], [1, 2, 3]], 'int64'), []), ('axis0', np.array([[1, 2], [1, 2], [0, 2], [1, 2]], 'float32'), [0]),
                       ('axis1', np.array([[1, 1, 2], [0, 0, 2]], 'int32'), [1])):
        attrs = {'return_inverse': True, 'return_counts': True, 'axis': axis, 'dtype': 3}
        c.append(case('unique_consecutive', n, {'X': x}, {**out, 'Out': str(x.dtype)}, attrs))
    c.append(case('unique_consecutive', 'i32', {'X': np.array([2, 2, 5, 2], 'int64')}, {'Out': 'int64', 'Index': 'int32'},
                  {'return_inverse': True, 'return_counts': False, 'axis': [], 'dtype': 2}))
    return c


def paths(rng, f32, case):
    c = []
    c.append(case('gather_tree', 'a', {'Ids': rng.randint(0, 9, (4, 2, 3)).astype('int64'), 'Parents': rng.randint(0, 3, (4, 2, 3)).astype('int64')}, {'Out': 'int64'}))
    for tagged in (True, False):
        c.append(case('viterbi_decode', f'{int(tagged)}', {'Input': f32(3, 4, 5), 'Transition': f32(5, 5), 'Length': np.array([2, 4, 3], 'int64')},
                      {'Scores': 'float32', 'Path': 'int64'}, {'include_bos_eos_tag': tagged}))
    hyps, refs = rng.randint(0, 4, (2, 5)).astype('int64'), rng.randint(0, 4, (2, 4)).astype('int64')
    lengths = {'HypsLength': np.array([5, 3], 'int64'), 'RefsLength': np.array([2, 4], 'int64')}
    for n, normalized in (('plain', False), ('normalized', True)):
        c.append(case('edit_distance', n, {'Hyps': hyps, 'Refs': refs, **lengths}, {'SequenceNum': 'int64', 'Out': 'float32'}, {'normalized': normalized}))
    return c


def graphs(f32, case):
    c = []
    source, target = np.array([0, 1, 2, 0, 3], 'int64'), np.array([1, 2, 1, 0, 1], 'int64')
    for k, (message, reduce) in enumerate((m, r) for m in ('ADD', 'MUL') for r in ('SUM', 'MEAN', 'MAX', 'MIN')):
        edges = f32(5, 1) if k % 2 else f32(5, 3)
        c.append(case('graph_send_ue_recv', f'{message.lower()}_{reduce.lower()}', {'X': f32(4, 3), 'Y': edges, 'Src_index': source, 'Dst_index': target},
                      {'Out': 'float32', 'Dst_count': 'int32'}, {'message_op': message, 'reduce_op': reduce, 'out_size': [0]}, ['X', 'Y'], 'Out',
                      hidden=() if reduce == 'MEAN' else ('Dst_count',)))
    for message in ('ADD', 'MUL'):
        c.append(case('graph_send_uv', message.lower(), {'x': f32(4, 3), 'y': f32(4, 3), 'src_index': source, 'dst_index': target}, {'out': 'float32'},
                      {'message_op': message}, ['x', 'y'], 'out'))
    c.append(case('graph_send_uv', 'stretched', {'x': f32(4, 3), 'y': f32(4, 1), 'src_index': source, 'dst_index': target}, {'out': 'float32'},
                  {'message_op': 'MUL'}, ['x', 'y'], 'out'))
    return c


def newer(f32, case):
    """Of Paddle 3 alone; 2.6.2 fails on it."""
    c = [case('copysign', 'same', {'x': f32(3, 4), 'y': f32(3, 4)}, {'out': 'float32'}, {}, ['x', 'y'], 'out'),
         case('copysign', 'stretched', {'x': f32(2, 3, 4), 'y': f32(3, 1)}, {'out': 'float32'}, {}, ['x', 'y'], 'out'),
         case('gammaln', 'a', {'x': f32(3, 4, low=0.1, high=9)}, {'out': 'float32'}, {}, ['x'], 'out'),
         case('reduce_as', 'a', {'x': f32(2, 3, 4), 'target': f32(3, 1)}, {'out': 'float32'}, {}, ['x'], 'out')]
    for n, dims in (('same', (3, 4)), ('row', (4,)), ('column', (3, 1))):
        c.append(case('masked_fill', n, {'x': f32(3, 4), 'mask': f32(*dims) > 0, 'value': f32()}, {'out': 'float32'}, {}, ['x'], 'out'))
    for n, dims in (('same', (2, 3, 5)), ('stretched', (1, 1, 5))):
        c.append(case('baddbmm', n, {'Input': f32(*dims), 'X': f32(2, 3, 4), 'Y': f32(2, 4, 5)}, {'Out': 'float32'}, {'Alpha': 0.5, 'Beta': 2.0},
                      ['Input', 'X', 'Y'], 'Out'))
    return c


def lists(f32, case):
    """One step of several parameters; complex numbers behind zeros, and before them."""
    dims, one = ((4, 3), (5,)), ('float32', 2)
    two = lambda low=-1.0: [f32(*d, low=low) for d in dims]
    p = {'Param': two(), 'Grad': two(), 'LearningRate': [np.array([0.1], 'float32') for _ in dims]}
    powers = {f'Beta{k}Pow': [np.array([b ** t], 'float32') for t in (1, 3)] for k, b in ((1, 0.9), (2, 0.999))}
    adam = {'ParamOut': one, 'Moment1Out': one, 'Moment2Out': one, 'Beta1PowOut': one, 'Beta2PowOut': one}
    c = [case('merged_adam', 'a', {**p, 'Moment1': two(), 'Moment2': two(0), **powers}, adam, {'beta1': 0.9, 'beta2': 0.999, 'epsilon': 1e-3},
              same={k: k[:-3] for k in adam})]
    c.append(case('merged_momentum', 'decay', {**p, 'Velocity': two()}, {'ParamOut': one, 'VelocityOut': one},
                  {'mu': 0.9, 'use_nesterov': True, 'regularization_method': ['l2_decay', ''], 'regularization_coeff': [0.1, 0.0]},
                  same={'ParamOut': 'Param', 'VelocityOut': 'Velocity'}))
    c.append(case('pad', 'complex', {'X': (f32(2, 3) + 1j * f32(2, 3)).astype('complex64')}, {'Out': 'complex64'}, {'paddings': [0, 1, 1, 2], 'pad_value': 0.0},
                  ['X'], 'Out'))
    return c

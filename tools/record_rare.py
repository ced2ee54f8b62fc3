"""Cases of ops that few programs hold, for record_ops.py: `cases` takes its tools."""
import numpy as np


def cases(rng, f32, case):
    return draws(f32, case) + boxes(rng, f32, case) + deformable(f32, case) + triangles(f32, case)


def draws(f32, case):
    c = [case('exponential', 'a', {'X': f32(2, 3)}, {'Out': 'float32'}, {'lambda': 2.0})]
    c.append(case('poisson', 'a', {'X': f32(3, 2, low=0, high=20)}, {'Out': 'float32'}, {}, ['X'], 'Out'))
    c.append(case('dirichlet', 'a', {'Alpha': f32(2, 3, low=0.2, high=3)}, {'Out': 'float32'}))
    c.append(case('empty', 'a', {}, {'Out': 'float32'}, {'shape': [2, 3], 'dtype': 5}))
    return c


def some_boxes(rng, count, size):
    corner = rng.uniform(0, size * 0.6, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(1, size * 0.4, (count, 2))], 1).astype('float32')


def boxes(rng, f32, case):
    c = []
    prior = {'min_sizes': [4.0, 8.0], 'max_sizes': [6.0, 12.0], 'aspect_ratios': [1.0, 2.0], 'variances': [0.1, 0.1, 0.2, 0.2], 'flip': True,
             'clip': True, 'step_w': 0.0, 'step_h': 0.0, 'offset': 0.5, 'min_max_aspect_ratios_order': False}
    for n, more in {'a': {}, 'order': dict(min_max_aspect_ratios_order=True, clip=False), 'plain': dict(max_sizes=[], flip=False, step_w=5.0, step_h=6.0)}.items():
        c.append(case('prior_box', n, {'Input': f32(1, 2, 2, 3), 'Image': f32(1, 3, 16, 18)}, {'Boxes': 'float32', 'Variances': 'float32'}, {**prior, **more}))
    priors, targets = some_boxes(rng, 3, 10), some_boxes(rng, 2, 10)
    spread = f32(3, 4, low=0.1)
    for n, attrs, more in (('encode', {}, {'PriorBoxVar': spread}), ('encode_list', dict(variance=[0.1, 0.1, 0.2, 0.2], box_normalized=False), {})):
        attrs = {'code_type': 'encode_center_size', 'box_normalized': True, 'axis': 0, 'variance': [], **attrs}
        c.append(case('box_coder', n, {'PriorBox': priors, 'TargetBox': targets, **more}, {'OutputBox': 'float32'}, attrs))
    for n, rows, attrs, more in (('decode', (2, 3, 4), {}, {'PriorBoxVar': spread}), ('decode_axis1', (3, 2, 4), dict(axis=1, box_normalized=False), {}),
                                 ('decode_list', (2, 3, 4), dict(variance=[0.1, 0.1, 0.2, 0.2]), {})):
        attrs = {'code_type': 'decode_center_size', 'box_normalized': True, 'axis': 0, 'variance': [], **attrs}
        c.append(case('box_coder', n, {'PriorBox': priors, 'TargetBox': f32(*rows), **more}, {'OutputBox': 'float32'}, attrs))
    for n in (True, False):
        c.append(case('iou_similarity', f'{int(n)}', {'X': some_boxes(rng, 3, 6), 'Y': some_boxes(rng, 2, 6)}, {'Out': 'float32'}, {'box_normalized': n}))
    rois, counts = np.concatenate([some_boxes(rng, 3, 8), np.array([[5, 5, 2, 2], [20, 20, 30, 30]], 'float32')]), np.array([2, 3], 'int32')
    c.append(case('roi_pool', 'a', {'X': f32(2, 3, 6, 7), 'ROIs': rois, 'RoisNum': counts}, {'Out': 'float32', 'Argmax': 'int64'},
                  {'pooled_height': 2, 'pooled_width': 3, 'spatial_scale': 0.5}, ['X'], 'Out'))
    c.append(case('psroi_pool', 'a', {'X': f32(2, 12, 6, 7), 'ROIs': rois[:4], 'RoisNum': np.array([2, 2], 'int32')}, {'Out': 'float32'},
                  {'pooled_height': 2, 'pooled_width': 3, 'output_channels': 2, 'spatial_scale': 0.5}, ['X'], 'Out'))
    given = np.concatenate([rng.uniform(0.05, 0.95, (2, 3, 2)), rng.uniform(0.05, 0.9, (2, 3, 2))], 2).astype('float32')
    given[1, 2] = 0
    yolo = {'X': f32(2, 2 * 8, 3, 3), 'GTBox': given, 'GTLabel': rng.randint(0, 3, (2, 3)).astype('int32')}
    attrs = {'anchors': [10, 13, 16, 30, 33, 23, 60, 45], 'anchor_mask': [1, 2], 'class_num': 3, 'ignore_thresh': 0.3, 'downsample_ratio': 32,
             'use_label_smooth': True, 'scale_x_y': 1.0}
    for n, more, score in (('a', {}, {}), ('score', dict(use_label_smooth=False, scale_x_y=1.2), {'GTScore': f32(2, 3, low=0.2)})):
        c.append(case('yolov3_loss', n, {**yolo, **score}, {'Loss': 'float32', 'ObjectnessMask': 'float32', 'GTMatchMask': 'int32'}, {**attrs, **more}, ['X'], 'Loss'))
    return c


def deformable(f32, case):
    c = []
    for n, groups, parts, stride, dilation, pad in (('a', 1, 1, 1, 1, 1), ('groups', 2, 2, 2, 1, 0), ('wide', 1, 2, 1, 2, 2)):
        h, w = ((e + 2 * pad - dilation - 1) // stride + 1 for e in (5, 4))
        attrs = {'strides': [stride] * 2, 'paddings': [pad] * 2, 'dilations': [dilation] * 2, 'groups': groups, 'deformable_groups': parts, 'im2col_step': 1}
        inputs = {'Input': f32(2, 4, 5, 4), 'Offset': f32(2, 8 * parts, h, w, low=-1.5, high=1.5), 'Filter': f32(4, 4 // groups, 2, 2)}
        c.append(case('deformable_conv', n, {**inputs, 'Mask': f32(2, 4 * parts, h, w, low=0)}, {'Output': 'float32'}, attrs,
                      ['Input', 'Offset', 'Filter', 'Mask'], 'Output'))
        if n != 'wide':
            c.append(case('deformable_conv_v1', n, inputs, {'Output': 'float32'}, attrs, ['Input', 'Offset', 'Filter'], 'Output'))
    return c


def triangles(f32, case):
    c = []
    parts = {'Out': 'float32', 'Pivots': 'int32', 'Infos': 'int32'}
    for n, dims in (('square', (3, 3)), ('batch', (2, 4, 4))):
        c.append(case('lu', n, {'X': f32(*dims)}, parts, {'pivots': True}, ['X'], 'Out'))
        pivots = np.broadcast_to(np.array([2, 3, 3, 4], 'int32')[:dims[-1]], dims[:-1])
        for of in 'LU':
            c.append(case('lu_unpack', f'{n}_{of.lower()}', {'X': f32(*dims), 'Pivots': pivots}, {'Pmat': 'float32', 'L': 'float32', 'U': 'float32'},
                          {'unpack_ludata': True, 'unpack_pivots': True}, ['X'], of))
    for n, dims in (('tall', (4, 2)), ('wide', (2, 3))):
        c.append(case('lu', n, {'X': f32(*dims)}, parts, {'pivots': True}))
        c.append(case('lu_unpack', n, {'X': f32(*dims), 'Pivots': np.array([2, 2], 'int32')}, {'Pmat': 'float32', 'L': 'float32', 'U': 'float32'},
                      {'unpack_ludata': True, 'unpack_pivots': True}))
    return c

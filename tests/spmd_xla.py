"""The MLPs whose collectives XLA was asked for, as serial programs with placements: a forward pass, or that and the gradients of both weights.

usage: spmd_xla.py NAME FOLDER     writes serial.yaml and annotate.json there; prints how many collectives XLA makes

Mesh dp 2 by tp 4; x [64, 32], w1 [32, 128], w2 [128, 32]; relu(x w1) w2, and the mean of its squares. XLA combines collectives of one kind.
"""
import json
import sys

BOTH = [0, 1]
ROWS, WHOLE = [BOTH, -1], [-1, -1]
WEIGHTS = {'w1': [-1, 1], 'w2': [1, -1]}
CASES = {  # placements, whether gradients are asked, and XLA's collectives
    'megatron': ({'x': [0, -1], **WEIGHTS, 'out': [0, -1]}, False, 1),
    'sequence': ({'x': ROWS, **WEIGHTS, 'out': ROWS}, False, 2),
    'megatron_gradients': ({'x': [0, -1], **WEIGHTS}, True, 2),
    'fsdp_gradients': ({'x': ROWS, 'w1': ROWS, 'w2': ROWS}, True, 5),
    'data_parallel_gradients': ({'x': ROWS, 'w1': WHOLE, 'w2': WHOLE}, True, 1),
}
SHAPES = {'x': [64, 32], 'w1': [32, 128], 'w2': [128, 32], 'h': [64, 128], 'a': [64, 128], 'out': [64, 32], 'square': [64, 32]}


def op(kind, role, ins, outs, attrs=''):
    of = lambda slots: ', '.join(f'"{slot}": [{name}]' for slot, name in slots.items())
    return f'  - {{{kind}: {{{of(ins)}}}, out: {{{of(outs)}}}, attrs: {{op_role: {role}{attrs}}}}}'


def serial(with_gradients):
    more = {'x': ', need_check_feed: true', 'w1': ', persistable: true, parameter: true', 'w2': ', persistable: true, parameter: true'}
    shapes = {n: s for n, s in SHAPES.items() if with_gradients or n != 'square'}
    variables = [f'    {n}: {{float32: {s}{more.get(n, "")}}}' for n, s in shapes.items()]
    ops = [op('matmul_v2', 0, {'X': 'x', 'Y': 'w1'}, {'Out': 'h'}), op('relu', 0, {'X': 'h'}, {'Out': 'a'}),
           op('matmul_v2', 0, {'X': 'a', 'Y': 'w2'}, {'Out': 'out'})]
    if with_gradients:
        variables += [f'    {n}@GRAD: {{float32: {s}}}' for n, s in shapes.items() if n != 'x'] + [
            '    mean: {float32: []}', '    mean@GRAD: {float32: []}', '    rate: {float32: [1], persistable: true}']
        ops += [op('square', 0, {'X': 'out'}, {'Out': 'square'}),
                op('fill_constant', 257, {}, {'Out': 'mean@GRAD'}, ', dtype: 5, shape: !longs [], value: 1.0'),
                op('reduce_mean_grad', 1, {'Out@GRAD': 'mean@GRAD', 'X': 'square'}, {'X@GRAD': 'square@GRAD'}, ', reduce_all: true'),
                op('square_grad', 1, {'Out@GRAD': 'square@GRAD', 'X': 'out'}, {'X@GRAD': 'out@GRAD'}),
                op('matmul_v2_grad', 1, {'Out@GRAD': 'out@GRAD', 'X': 'a', 'Y': 'w2'}, {'X@GRAD': 'a@GRAD', 'Y@GRAD': 'w2@GRAD'},
                   ', op_role_var: [w2, w2@GRAD]'),
                op('relu_grad', 1, {'Out': 'a', 'Out@GRAD': 'a@GRAD'}, {'X@GRAD': 'h@GRAD'}),
                op('matmul_v2_grad', 1, {'Out@GRAD': 'h@GRAD', 'X': 'x', 'Y': 'w1'}, {'Y@GRAD': 'w1@GRAD'}, ', op_role_var: [w1, w1@GRAD]')]
        ops += [op('sgd', 2, {'Grad': f'{w}@GRAD', 'LearningRate': 'rate', 'Param': w}, {'ParamOut': w}) for w in ('w1', 'w2')]
    return '\n'.join(['weft: 1', 'version: 2006002', 'blocks:', '- idx: 0', '  vars:', *variables, '  ops:', *ops, ''])


placed, with_gradients, ncollectives = CASES[sys.argv[1]]
with open(f'{sys.argv[2]}/serial.yaml', 'w') as f:
    f.write(serial(with_gradients))
with open(f'{sys.argv[2]}/annotate.json', 'w') as f:
    json.dump({'meshes': [{'shape': [2, 4], 'ids': list(range(8)), 'dims': ['dp', 'tp']}],
               'vars': {name: {'mesh': 0, 'dims_mapping': dims} for name, dims in placed.items()}, 'ops': []}, f)
print(ncollectives)

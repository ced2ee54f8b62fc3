"""What reading, writing and rewriting a program costs in Paddle. Runs in a Paddle 2.6.2 environment.

usage: paddle_programs.py forms FILE     seconds to parse and to serialize it, in C++ alone and as a Python Program
       paddle_programs.py pass FILE      the real data-parallel pass on a partitioned program; its sidecar lies beside it
A line of JSON on stdout.
"""
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)  # Paddle prints on stdout

import paddle  # noqa: E402
from paddle.base import core  # noqa: E402

REPEATS = 3


def best(function):
    """The smallest of the times of a few calls, and what the last returned."""
    least = float('inf')
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = function()
        least = min(least, time.perf_counter() - start)
    return least, result


def forms(path):
    data = open(path, 'rb').read()
    parse, desc = best(lambda: core.ProgramDesc(data))
    serialize, _ = best(desc.serialize_to_string)
    python_parse, program = best(lambda: paddle.static.Program.parse_from_string(data))
    python_serialize, _ = best(lambda: program.clone().desc.serialize_to_string())
    return {'ops': desc.block(0).op_size(), 'parse': parse, 'serialize': serialize, 'python_parse': python_parse,
            'python_serialize': python_serialize}


def distributed_context(program, startup, sidecar):
    """The program's dist attrs, as the partitioner would have left them."""
    from paddle.distributed.auto_parallel.process_mesh import ProcessMesh
    from paddle.distributed.auto_parallel.static.dist_attribute import OperatorDistAttr, TensorDistAttr
    from paddle.distributed.auto_parallel.static.dist_context import DistributedContext
    from paddle.distributed.auto_parallel.static.process_group import get_world_process_group
    context = DistributedContext(program, startup)
    context.gradient_scale = True
    ranks = sidecar['process_groups']['0']['ranks']
    mesh = ProcessMesh(ranks, dim_names=['dp'])
    context.add_process_mesh(mesh)
    get_world_process_group().add_ranks(ranks)
    for var in program.list_vars():
        attr = TensorDistAttr(var.desc)
        attr.process_mesh = mesh
        attr.dims_mapping = sidecar['vars'].get(var.name, {}).get('dims_mapping') or [-1] * len(var.shape)
        context.set_tensor_dist_attr_for_program(var, attr)
    for op in program.global_block().ops:
        attr = OperatorDistAttr(op.desc)
        attr.process_mesh, attr.impl_type, attr.impl_idx = mesh, 'default', 0
        context.set_op_dist_attr_for_program(op, attr)
    return context


def real_pass(path):
    from paddle.distributed.passes import PassContext, new_pass
    program = paddle.static.Program.parse_from_string(open(path, 'rb').read())
    startup = paddle.static.Program()
    context = distributed_context(program, startup, json.load(open(path.replace('.pdmodel', '.dist.json'))))
    before = len(program.global_block().ops)
    rewrite = new_pass('auto_parallel_data_parallel_optimization',
                       {'dist_context': context, 'global_rank': 0, 'use_sharding': False})
    start, cpu = time.perf_counter(), time.process_time()
    rewrite.apply([program], [startup], PassContext())
    return {'before': before, 'after': len(program.global_block().ops), 'seconds': time.perf_counter() - start,
            'cpu_seconds': time.process_time() - cpu}


paddle.enable_static()
answers.write(json.dumps((forms if sys.argv[1] == 'forms' else real_pass)(sys.argv[2])) + '\n')

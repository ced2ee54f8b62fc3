"""Serializes the programs of breadth_models.py with parameters, feeds and the losses of Paddle's executor. Runs in a Paddle
environment.

usage: breadth_make.py [--dynamic] OUT [NAME...]    OUT/NAME/{serial,startup}.pdmodel, params.npz, feeds.npz, golden.npz, case.json
"""
import json
import os
import sys
import traceback

import numpy as np
import paddle

import breadth_models

STEPS = 5


def draw(rng):
    feeds = {}
    for step in range(STEPS):
        for name, (shape, low, high) in breadth_models.FEEDS.items():
            value = rng.standard_normal(shape).astype('float32') if high is None else rng.integers(low, high, shape)
            feeds[f'{step}/{name}'] = value
    return feeds


def persistables(program, scope):
    return {v.name: np.array(scope.find_var(v.name).get_tensor()) for v in program.list_vars()
            if v.persistable and scope.find_var(v.name) and v.type == paddle.base.core.VarDesc.VarType.LOD_TENSOR}


def make(name, folder):
    breadth_models.FEEDS.clear()
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard(), paddle.static.scope_guard(scope):
        loss, optimizer = breadth_models.PROGRAMS[name]()
        optimizer.minimize(loss)
        paddle.seed(7)
        startup.random_seed = main.random_seed = 7
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        os.makedirs(folder, exist_ok=True)
        params, feeds = persistables(main, scope), draw(np.random.default_rng(11))
        grads = [p.name for p in main.all_parameters() if main.global_block().has_var(f'{p.name}@GRAD')]
        losses, largest = [], np.zeros(len(grads))
        for step in range(STEPS):
            feed = {key.split('/')[1]: v for key, v in feeds.items() if key.startswith(f'{step}/')}
            values = executor.run(main, feed=feed, fetch_list=[loss, *(f'{g}@GRAD' for g in grads)])
            losses.append(float(np.asarray(values[0]).reshape(-1)[0]))
            largest = np.maximum(largest, [np.abs(v).max() for v in values[1:]])
        final = persistables(main, scope)
    for file, content in (('serial', main), ('startup', startup)):
        with open(f'{folder}/{file}.pdmodel', 'wb') as out:
            out.write(content.desc.serialize_to_string())
    np.savez(f'{folder}/params.npz', **params)
    np.savez(f'{folder}/feeds.npz', **feeds)
    np.savez(f'{folder}/golden.npz', losses=np.array(losses), **{f'final/{n}': v for n, v in final.items()})
    # A gradient that is nothing but rounding: its parameter goes where the noise goes (a key's bias, a bias before a norm).
    noise = [name for name, size in zip(grads, largest) if size < 1e-5 * largest.max()]
    types = sorted({op.type for block in main.blocks for op in block.ops})
    json.dump({'loss': loss.name, 'steps': STEPS, 'ops': types, 'undetermined': noise}, open(f'{folder}/case.json', 'w'))


paddle.enable_static()
breadth_models.DYNAMIC = sys.argv[1] == '--dynamic'
out, *names = sys.argv[1 + breadth_models.DYNAMIC:]
for name in names or breadth_models.PROGRAMS:
    try:
        make(name, os.path.join(out, name))
    except Exception:  # one that this Paddle cannot build is told of; the rest go on
        print(f'{name}: {traceback.format_exc().strip().splitlines()[-1]}', flush=True)
        if os.environ.get('DEBUG'):
            traceback.print_exc()

#!/usr/bin/env python3
"""Records small nets that Paddle trains in fp32, and their programs in mixed precision, which its CPU cannot run, into
tests/data/amp/NET/{params,feeds,golden}.npz and NET/LEVEL_TYPE.{pdmodel,npz}: the npz beside a program is the state that only it has.

usage: record_amp.py OUT_DIR      under the Python of bench/peers/setup's paddle-2.6.2
"""
import os, sys
import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
import paddle.static as static
from paddle.static.amp import fp16_lists

paddle.enable_static()
# As on a GPU: on a CPU no op counts as one for half types.
ALL = fp16_lists._get_sys_unsupported_list('float16')[2]
fp16_lists._get_sys_unsupported_list = lambda dtype: ('GPU', set(), ALL)
rng, STEPS = np.random.RandomState(0), 5


def mlp():
    x, y = static.data('x', [-1, 16]), static.data('y', [-1, 1], 'int64')
    h = nn.LayerNorm(32)(F.gelu(nn.Linear(16, 32)(x)))
    return F.cross_entropy(nn.Linear(32, 5)(h), y)


def conv():
    x, y = static.data('x', [-1, 3, 8, 8]), static.data('y', [-1, 1], 'int64')
    h = F.max_pool2d(F.relu(nn.BatchNorm2D(6)(nn.Conv2D(3, 6, 3, padding=1)(x))), 2)
    return F.cross_entropy(nn.Linear(96, 5)(paddle.flatten(h, 1)), y)


def attention():
    t, y = static.data('t', [-1, 6], 'int64'), static.data('y', [-1, 6, 1], 'int64')
    h = nn.Embedding(20, 16)(t)
    heads = lambda v: paddle.transpose(paddle.reshape(v, [0, 6, 2, 8]), [0, 2, 1, 3])
    q, k, v = [heads(nn.Linear(16, 16, bias_attr=False)(h)) for _ in range(3)]  # a bias of k has no gradient
    a = F.softmax(paddle.matmul(q, k, transpose_y=True) * 8**-0.5)
    o = paddle.reshape(paddle.transpose(paddle.matmul(a, v), [0, 2, 1, 3]), [0, 6, 16])
    return F.cross_entropy(nn.Linear(16, 20)(nn.LayerNorm(16)(h + nn.Linear(16, 16)(o))), y)


def floats(*dims):
    return rng.uniform(-1, 1, dims).astype('float32')


def labels(below, *dims):
    return rng.randint(0, below, dims).astype('int64')


NETS = {  # model, feeds of a step, optimizer
    'mlp': (mlp, lambda: {'x': floats(8, 16), 'y': labels(5, 8, 1)},
            lambda **k: paddle.optimizer.AdamW(1e-2, weight_decay=0.01, grad_clip=nn.ClipGradByGlobalNorm(1.0), **k)),
    'conv': (conv, lambda: {'x': floats(8, 3, 8, 8), 'y': labels(5, 8, 1)},
             lambda **k: paddle.optimizer.Momentum(0.05, 0.9, **k)),
    'attention': (attention, lambda: {'t': labels(20, 8, 6), 'y': labels(20, 8, 6, 1)},
                  lambda **k: paddle.optimizer.Adam(1e-2, **k)),
}


def build(net, level=None, dtype=None):
    model, _, optimizer = NETS[net]
    paddle.seed(1)
    main, start = static.Program(), static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, start):
        loss = model()
        o = optimizer(**({'multi_precision': True} if level == 'O2' else {}))
        if level:
            o = static.amp.decorate(o, init_loss_scaling=1024.0, incr_every_n_steps=2, level=level, dtype=dtype,
                                    use_dynamic_loss_scaling=dtype == 'float16')
        o.minimize(loss)
    for block in main.blocks:
        for op in block.ops:
            if op.desc.has_attr('op_callstack'):
                op.desc.remove_attr('op_callstack')
    return main, start, loss


def persistables(main, scope):
    found = {v.name: scope.find_var(v.name) for v in main.list_vars() if v.persistable}
    return {n: np.array(v.get_tensor()) for n, v in found.items() if v and v.get_tensor()._is_initialized()}


def record(net, folder, exe):
    main, start, loss = build(net)
    feeds = [NETS[net][1]() for _ in range(STEPS)]
    scope = static.Scope()
    with static.scope_guard(scope):
        exe.run(start)
        params = persistables(main, scope)
        losses = [float(np.ravel(exe.run(main, feed=f, fetch_list=[loss])[0])[0]) for f in feeds]
        final = persistables(main, scope)
    trained = [p.name for p in main.all_parameters() if p.trainable]
    np.savez(f'{folder}/params.npz', **params)
    np.savez(f'{folder}/feeds.npz', **{f'{s}/{n}': v for s, f in enumerate(feeds) for n, v in f.items()})
    np.savez(f'{folder}/golden.npz', losses=np.array(losses), **{f'final/{n}': final[n] for n in trained})
    return params


def record_half(net, level, dtype, name, folder, params, exe):
    main, start, _ = build(net, level, dtype)
    scope = static.Scope()
    with static.scope_guard(scope):
        exe.run(start)
        state = persistables(main, scope)
    state = {n: v for n, v in state.items() if n not in params or params[n].shape != v.shape}
    for n in state:
        if n.endswith('_fp32_master_0'):
            state[n] = params[n[:-len('_fp32_master_0')]]
    open(f'{folder}/{name}.pdmodel', 'wb').write(main.desc.serialize_to_string())
    np.savez(f'{folder}/{name}.npz', **state)


executor = static.Executor(paddle.CPUPlace())
for net in NETS:
    folder = f'{sys.argv[1]}/{net}'
    os.makedirs(folder, exist_ok=True)
    params = record(net, folder, executor)
    for level in ('O1', 'O2'):
        for dtype, short in (('float16', 'fp16'), ('bfloat16', 'bf16')):
            record_half(net, level, dtype, f'{level}_{short}', folder, params, executor)

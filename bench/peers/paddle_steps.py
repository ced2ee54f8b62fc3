"""A worker (common.py) that steps a serialized program in Paddle's executor. Runs in a Paddle environment.

usage: paddle_steps.py SPEC, JSON: program, params (.npz), feed (.npz), loss; for data parallel also rank, world, endpoint
("host:port", the ranks meet there over Gloo) and save (an .npz of the persistables after each run)

Feeds: keys "step/name", or "name" for every step. A rank takes its rows of a feed whose extent is larger than the
program's var.
"""
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)  # Paddle prints on stdout

import numpy as np  # noqa: E402
import paddle  # noqa: E402

spec = json.loads(sys.argv[1])
rank, world = spec.get('rank', 0), spec.get('world', 1)
paddle.enable_static()
if world > 1:
    paddle.distributed.gloo_init_parallel_env(rank, world, spec['endpoint'])

program = paddle.static.Program.parse_from_string(open(spec['program'], 'rb').read())
block = program.global_block()
executor = paddle.static.Executor(paddle.CPUPlace())
scope = paddle.static.global_scope()
params = dict(np.load(spec['params']))
feeds = dict(np.load(spec['feed']))


def restore():
    for name, value in params.items():
        if block.has_var(name):
            scope.var(name).get_tensor().set(value, paddle.CPUPlace())


def part(name, value):
    extent = block.var(name).shape[0] if block.var(name).shape else -1
    if 0 < extent < value.shape[0]:
        return value[rank * extent:(rank + 1) * extent]
    return value


def feed_of(step):
    return {key.split('/')[-1]: part(key.split('/')[-1], value) for key, value in feeds.items()
            if ('/' not in key or key.split('/')[0] == str(step)) and block.has_var(key.split('/')[-1])}


def run(nsteps):
    restore()
    seconds, losses = [], []
    for step in range(nsteps):
        feed = feed_of(step)
        start = time.perf_counter()
        value, = executor.run(program, feed=feed, fetch_list=[spec['loss']])
        seconds.append(time.perf_counter() - start)
        losses.append(float(np.asarray(value).reshape(-1)[0]))
    return {'seconds': seconds, 'losses': losses}


for line in sys.stdin:
    answer = run(int(line))
    if spec.get('save'):
        np.savez(spec['save'], **{name: np.array(scope.var(name).get_tensor()) for name in params if block.has_var(name)})
    answers.write(json.dumps(answer) + '\n')
    answers.flush()

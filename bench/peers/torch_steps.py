"""A worker (common.py) that steps one of the peer models in torch. Runs in the torch environment.

usage: torch_steps.py SPEC, JSON: model, mode (eager | compile), params, feed (.npz), threads; for data parallel also rank,
world, endpoint (DistributedDataParallel over Gloo: a rank takes its rows of the feed)
"""
import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import torch_models

spec = json.loads(sys.argv[1])
rank, world = spec.get('rank', 0), spec.get('world', 1)
torch.set_num_threads(spec.get('threads', 1))
params, feed = dict(np.load(spec['params'])), dict(np.load(spec['feed']))
make, inputs, label, kind = torch_models.MODELS[spec['model']]
rate = float(np.asarray(params['learning_rate_0']).reshape(-1)[0])


def part(value):
    rows = value.shape[0] // world
    return torch.from_numpy(value[rank * rows:(rank + 1) * rows])


x, y = [part(feed[name]) for name in inputs], part(feed[label]).flatten()
model = make()
if world > 1:
    torch.distributed.init_process_group('gloo', f'tcp://{spec["endpoint"]}', rank=rank, world_size=world)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
else:
    wrapped = torch.compile(model) if spec['mode'] == 'compile' else model


def step(optimizer):
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(wrapped(*x).flatten(0, -2), y)
    loss.backward()
    optimizer.step()
    return loss.item()


for line in sys.stdin:
    torch_models.take_params(model, params)
    optimizer = torch_models.optimizer(kind, model, rate)
    seconds, losses = [], []
    for _ in range(int(line)):
        start = time.perf_counter()
        losses.append(step(optimizer))
        seconds.append(time.perf_counter() - start)
    print(json.dumps({'seconds': seconds, 'losses': losses}), flush=True)

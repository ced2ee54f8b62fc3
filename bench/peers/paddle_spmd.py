"""What it costs Paddle to complete and to partition a GPT program. Runs in a Paddle 2.6.2 environment.

usage: paddle_spmd.py DIR LAYERS DP MP      mesh [dp, mp]: the batch over dp; weights over mp, by columns and by rows
Writes DIR/serial.pdmodel (forward, backward, update) and DIR/annotate.json, and a line of JSON to stdout: the processor's
seconds of completion, and of the rest for rank 0 (backward, partition, update, reshard), ops of the serial program and of
the rank's.
"""
import json
import logging
import os
import sys
import time

answers = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)  # Paddle prints on stdout

import numpy as np  # noqa: E402
import paddle  # noqa: E402
from paddle import nn, static  # noqa: E402
from paddle.nn import functional as F  # noqa: E402

paddle.enable_static()
logging.disable(logging.INFO)  # what it says of each op takes time too
BATCH, LENGTH, HIDDEN, HEADS, VOCABULARY = 8, 64, 256, 16, 1024
BY_COLUMNS, BY_ROWS, BY_BATCH = [None, 'mp'], ['mp', None], ['dp', None]


class Annotated:
    """Places vars on the mesh, where there is one, and writes down how."""

    def __init__(self, mesh):
        self.mesh, self.vars, self.feeds = mesh, {}, []

    def at(self, var, axes):
        from paddle.distributed.fleet import auto
        self.vars[var.name] = {'mesh': 0, 'dims_mapping': [-1 if a is None else ['dp', 'mp'].index(a) for a in axes]}
        if self.mesh is not None:
            auto.shard_tensor(var, self.mesh, list(axes))
        return var

    def feed(self, name, shape):
        self.feeds.append(static.data(name=name, shape=shape, dtype='int64'))
        return self.at(self.feeds[-1], BY_BATCH + [None] * (len(shape) - 2))


def linear(a, x, n, axes):
    layer = nn.Linear(x.shape[-1], n)
    a.at(layer.weight, axes)
    return layer(x)


def heads(x):
    return paddle.transpose(paddle.reshape(x, [0, 0, HEADS, HIDDEN // HEADS]), [0, 2, 1, 3])


def attention(a, x, mask):
    q, k, v = (heads(linear(a, x, HIDDEN, BY_COLUMNS)) for _ in range(3))
    scores = paddle.matmul(q * (HIDDEN // HEADS) ** -0.5, k, transpose_y=True)
    made = paddle.matmul(F.softmax(scores + mask, axis=-1), v)
    return linear(a, paddle.reshape(paddle.transpose(made, [0, 2, 1, 3]), [0, 0, HIDDEN]), HIDDEN, BY_ROWS)


def block(a, x, mask):
    x = x + attention(a, nn.LayerNorm(HIDDEN)(x), mask)
    wide = F.gelu(linear(a, nn.LayerNorm(HIDDEN)(x), 4 * HIDDEN, BY_COLUMNS))
    return x + linear(a, wide, HIDDEN, BY_ROWS)


def forward(a, nlayers):
    tokens, places = a.feed('tokens', [BATCH, LENGTH]), a.feed('places', [BATCH, LENGTH])
    labels = a.feed('labels', [BATCH, LENGTH, 1])
    mask = paddle.unsqueeze(paddle.triu(paddle.full([LENGTH, LENGTH], -1e4), diagonal=1), [0, 1])
    mask.stop_gradient = True
    x = nn.Embedding(VOCABULARY, HIDDEN)(tokens) + nn.Embedding(LENGTH, HIDDEN)(places)
    for _ in range(nlayers):
        x = block(a, x, mask)
    logits = nn.Linear(HIDDEN, VOCABULARY, bias_attr=False)(nn.LayerNorm(HIDDEN)(x))
    return paddle.mean(F.cross_entropy(logits, labels, reduction='none'))


def build(mesh, nlayers):
    main, startup, a = static.Program(), static.Program(), Annotated(mesh)
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        loss = forward(a, nlayers)
    return main, startup, a, loss


def optimizer():
    return paddle.optimizer.SGD(learning_rate=0.1)


def write_serial(folder, nlayers, shape):
    main, startup, a, loss = build(None, nlayers)
    with static.program_guard(main, startup):
        optimizer().minimize(loss)
    with open(f'{folder}/serial.pdmodel', 'wb') as f:
        f.write(main.desc.serialize_to_string())
    mesh = {'shape': shape, 'ids': list(range(int(np.prod(shape)))), 'dims': ['dp', 'mp']}
    with open(f'{folder}/annotate.json', 'w') as f:
        json.dump({'meshes': [mesh], 'vars': a.vars, 'ops': []}, f)
    return len(main.global_block().ops)


def stand_for_rank_0(nranks):
    ends = [f'127.0.0.1:{36000 + i}' for i in range(nranks)]
    os.environ.update(PADDLE_TRAINER_ID='0', PADDLE_TRAINERS_NUM=str(nranks), PADDLE_TRAINER_ENDPOINTS=','.join(ends),
                      PADDLE_CURRENT_ENDPOINT=ends[0])


def partition(nlayers, shape):
    from paddle.distributed.auto_parallel.static import utils
    from paddle.distributed.auto_parallel.static.dist_context import DistributedContext
    from paddle.distributed.auto_parallel.static.parallelizer_v2 import Parallelizer
    from paddle.distributed.auto_parallel.static.planner_v2 import Planner
    from paddle.distributed.fleet import auto
    mesh = auto.ProcessMesh(np.arange(int(np.prod(shape))).reshape(shape).tolist(), dim_names=['dp', 'mp'])
    main, startup, a, loss = build(mesh, nlayers)
    strategy = auto.Strategy()
    strategy.auto_mode = 'semi'
    feeds = {'inputs': a.feeds[:2], 'labels': a.feeds[2:]}
    context = DistributedContext(main, startup, optimizer(), [loss], feeds,
                                 {'outputs': [loss], 'loss': [loss], 'metrics': []}, None, strategy)
    context.gradient_scale = strategy.gradient_scale
    utils.set_recompute_segments(None, [loss], strategy, main)
    start = time.process_time()
    planner = Planner('train', context)
    planner.plan()
    completed = time.process_time()
    Parallelizer('train', planner.completer, context).parallel(0)
    made = context.dist_main_programs[0].global_block()
    return {'completion': completed - start, 'partition': time.process_time() - completed, 'rank_ops': len(made.ops)}


def main():
    folder, nlayers, shape = sys.argv[1], int(sys.argv[2]), [int(n) for n in sys.argv[3:5]]
    nops = write_serial(folder, nlayers, shape)
    stand_for_rank_0(int(np.prod(shape)))
    print(json.dumps({'ops': nops, **partition(nlayers, shape)}), file=answers, flush=True)


main()

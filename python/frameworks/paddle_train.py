"""Trains a small model with Paddle for a few steps and prints its losses: `paddle_train.py serial|engine|engine_own|fleet|fleet_merge MODEL`.

As many processes as PADDLE_TRAINERS_NUM says run it, each with its own PADDLE_TRAINER_ID. The scripts are those of
any user; the two lines about weft are the difference.
"""

import json
import os
import sys
import time

import numpy as np
import paddle
from paddle import nn
from paddle.distributed.fleet import auto
from paddle_models import Split, make

STEPS, BATCH = 5, 8
pass_seconds = []  # of the Engine's data-parallel optimization
RANKS = int(os.environ.get("PADDLE_TRAINERS_NUM", 1))
RANK = int(os.environ.get("PADDLE_TRAINER_ID", 0))


class Batch(paddle.io.Dataset):
    """The one batch, sample by sample."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def optimizer_of(model):
    return paddle.optimizer.AdamW(0.002, parameters=model.parameters())


def serial(name):
    """Eager Paddle, nothing distributed."""
    model, x, y = make(name, BATCH)
    loss_of, optimizer, losses = nn.CrossEntropyLoss(), optimizer_of(model), []
    for _ in range(STEPS):
        loss = loss_of(model(paddle.to_tensor(x)), paddle.to_tensor(y))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses, None


def timed(kind, seconds, before=lambda: None):
    """Writes down how long a pass of Paddle's registry computes."""
    apply = kind._apply_single_impl

    def apply_timed(self, *args):
        before()
        begun = time.process_time()
        apply(self, *args)
        seconds.append(time.process_time() - begun)

    kind._apply_single_impl = apply_timed


def engine_own(name):
    """The same script with Paddle's own pass, as far as that gets."""
    import weft.paddle._cpu
    from paddle.distributed.passes import pass_base

    weft.paddle._cpu.install()  # the Engine refuses a CPU
    own = pass_base.PassBase._REGISTERED_PASSES["auto_parallel_data_parallel_optimization"]
    timed(own, pass_seconds, lambda: paddle.set_flags({"FLAGS_new_executor_sequential_run": False}))  # it crashes with it
    return train(name)


def engine(name):
    import weft.paddle
    import weft.paddle._install

    weft.paddle.install()
    timed(weft.paddle._install.WeftDataParallelOptimization, pass_seconds)
    return train(name)


def train(name):
    model, x, y = make(name, BATCH)
    model = Split(model, auto.ProcessMesh(list(range(RANKS)), dim_names=["dp"]))
    strategy = auto.Strategy()
    strategy.auto_mode, strategy.dp_optimization.enable = "semi", True
    trainer = auto.Engine(model, nn.CrossEntropyLoss(), optimizer_of(model), strategy=strategy)
    history = trainer.fit(Batch(x, y), batch_size=BATCH, epochs=STEPS, verbose=0).history
    return [float(np.reshape(loss, -1)[0]) for loss in history["loss"]], trainer.main_program


def fleet(name, **chosen):
    """A static program that fleet makes data parallel. `chosen`: of its strategy."""
    import weft.paddle
    from paddle.distributed import fleet as own

    weft.paddle.install()
    _, x, y = make(name, BATCH)
    paddle.enable_static()
    own.init(is_collective=True)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        model, x, y = make(name, BATCH)
        feeds = [paddle.static.data(n, [-1, *a.shape[1:]], str(a.dtype)) for n, a in (("x", x), ("y", y))]
        loss = nn.CrossEntropyLoss()(model(feeds[0]), feeds[1])
        strategy = own.DistributedStrategy()
        strategy.without_graph_optimization, strategy.fuse_all_reduce_ops = True, True
        for key, value in chosen.items():
            setattr(strategy, key, value)
        own.distributed_optimizer(paddle.optimizer.AdamW(0.002), strategy).minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    rows = np.array_split(np.arange(BATCH), RANKS)[RANK]
    losses = [float(executor.run(main, feed={"x": x[rows], "y": y[rows]}, fetch_list=[loss])[0]) for _ in range(STEPS)]
    return losses, main


def fleet_merge(name):
    """The same, with an update for every two steps."""
    return fleet(name, gradient_merge=True, gradient_merge_configs={"k_steps": 2, "avg": True})


if __name__ == "__main__":
    losses, program = globals()[sys.argv[1]](sys.argv[2])
    types = [op.type for op in program.global_block().ops] if program is not None else []
    print("RESULT", json.dumps({"rank": RANK, "losses": losses, "reduces": sum(t in ("c_allreduce_sum", "all_reduce") for t in types),
                                "buckets": types.count("coalesce_tensor"), "pass_ms": 1e3 * sum(pass_seconds)}))

"""A static MLP of Paddle's, made data parallel by Weft and trained on 2 processes over Gloo, on CPU.

    python paddle_mlp.py            needs paddlepaddle 2.6 and weft
"""

import multiprocessing
import socket

import numpy as np
import paddle

import weft.paddle

STEPS, BATCH = 5, 8


def build():
    """The serial program, as any static script has it."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    main.random_seed = startup.random_seed = 7  # every process begins with the same parameters
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", [-1, 16])
        y = paddle.static.data("y", [-1, 1])
        hidden = paddle.static.nn.fc(x, 32, activation="relu")
        loss = paddle.mean(paddle.nn.functional.square_error_cost(paddle.static.nn.fc(hidden, 1), y))
        paddle.optimizer.Adam(learning_rate=0.01).minimize(loss)
    return main, startup, loss


def batches():
    random = np.random.default_rng(3)
    for _ in range(STEPS):
        x = random.standard_normal((BATCH, 16), dtype=np.float32)
        yield x, x.sum(axis=1, keepdims=True)


def train(rank, ranks, port, losses):
    paddle.enable_static()
    main, startup, loss = build()
    if ranks > 1:
        report = weft.paddle.optimize(main, ranks=ranks)
        print(report if rank == 0 else "", end="", flush=True)
        paddle.distributed.gloo_init_parallel_env(rank, ranks, f"127.0.0.1:{port}")
    executor, rows = paddle.static.Executor(paddle.CPUPlace()), slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    executor.run(startup)
    for x, y in batches():
        losses.append(float(executor.run(main, feed={"x": x[rows], "y": y[rows]}, fetch_list=[loss])[0]))


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    manager = multiprocessing.Manager()
    serial, parts = manager.list(), [manager.list(), manager.list()]
    jobs = [multiprocessing.Process(target=train, args=a) for a in [(0, 1, 0, serial), (0, 2, port, parts[0]), (1, 2, port, parts[1])]]
    [job.start() for job in jobs], [job.join() for job in jobs]
    np.testing.assert_allclose(np.mean([list(p) for p in parts], axis=0), list(serial), rtol=1e-4)
    print("losses of 2 processes are those of the serial program:", np.round(list(serial), 4))

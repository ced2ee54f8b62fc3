"""A static GPT of Paddle's, made data parallel by Weft and trained on 2 processes over Gloo, on CPU.

    python paddle_gpt.py            needs paddlepaddle and weft; Paddle 3 with FLAGS_enable_pir_api=0, FLAGS_enable_pir_in_executor=0
"""
import multiprocessing
import os
import socket

import numpy as np

STEPS, BATCH, LENGTH, WIDTH, VOCAB = 4, 4, 8, 16, 64

def build(paddle):
    """The serial program, as any static script has it."""
    nn, layers = paddle.nn, paddle.static.nn
    main, startup = paddle.static.Program(), paddle.static.Program()
    main.random_seed = startup.random_seed = 7  # every process begins with the same parameters
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        tokens, wanted = (paddle.static.data(name, [-1, LENGTH], "int64") for name in ("tokens", "wanted"))
        h = nn.Embedding(VOCAB, WIDTH)(tokens) + nn.Embedding(LENGTH, WIDTH)(paddle.zeros_like(tokens) + paddle.arange(LENGTH))
        for _ in range(2):
            x = nn.LayerNorm(WIDTH)(h)
            q, k, v = (layers.fc(x, WIDTH, num_flatten_dims=2).unsqueeze(axis) for axis in (2, 1, 1))
            later = paddle.assign(np.triu(np.full((1, LENGTH, LENGTH), -1e4, np.float32), 1))
            seen = nn.functional.softmax((q * k).mean(-1) * WIDTH**0.5 + later)  # one head
            h = h + layers.fc((seen.unsqueeze(-1) * v).mean(2) * LENGTH, WIDTH, num_flatten_dims=2)
            h = h + layers.fc(layers.fc(nn.LayerNorm(WIDTH)(h), 4 * WIDTH, 2, activation="relu"), WIDTH, 2)
        loss = nn.functional.cross_entropy(layers.fc(nn.LayerNorm(WIDTH)(h), VOCAB, 2), wanted.unsqueeze(-1))
        paddle.optimizer.AdamW(learning_rate=0.002).minimize(loss)
    return main, startup, loss

def train(rank, ends, losses):
    os.environ.update(PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM=str(len(ends)), PADDLE_CURRENT_ENDPOINT=ends[rank],
                      PADDLE_TRAINER_ENDPOINTS=",".join(ends))  # as paddle.distributed.launch does
    import paddle
    import weft.paddle
    paddle.enable_static()
    main, startup, loss = build(paddle)
    if len(ends) > 1:
        report = weft.paddle.optimize(main, ranks=len(ends))
        print(report if rank == 0 else "", end="", flush=True)
        weft.paddle.connect(main)
    executor, rows = paddle.static.Executor(paddle.CPUPlace()), np.array_split(np.arange(BATCH), len(ends))[rank]
    executor.run(startup)
    random = np.random.default_rng(3)
    for _ in range(STEPS):
        text = random.integers(0, VOCAB, (BATCH, LENGTH + 1))[rows]
        losses.append(float(executor.run(main, feed={"tokens": text[:, :-1], "wanted": text[:, 1:]}, fetch_list=[loss])[0]))

if __name__ == "__main__":
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ends = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    [probe.close() for probe in probes]
    lists = [multiprocessing.Manager().list() for _ in range(3)]
    jobs = [multiprocessing.Process(target=train, args=a) for a in [(0, ends[:1], lists[0]), (0, ends, lists[1]), (1, ends, lists[2])]]
    [job.start() for job in jobs], [job.join() for job in jobs]
    serial, *parts = [list(values) for values in lists]
    assert len(serial) == STEPS and np.allclose(np.mean(parts, axis=0), serial, rtol=1e-4), (serial, parts)
    print("losses of 2 processes are those of the serial program:", np.round(serial, 4))

"""An MLP of PyTorch's, data parallel under torch.compile: its gradients reduced in buckets by Weft, on 2 CPU processes.

    python torch_ddp.py             needs torch and weft
"""

import os
import socket

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.multiprocessing as multiprocessing

import weft.torch

STEPS, BATCH, RANKS = 5, 8, 2


def train(rank, port, with_weft, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.manual_seed(7)
    layers = [torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)]
    model = torch.nn.Sequential(*layers)
    params = dict(model.named_parameters())

    def gradients(params, x, y):
        def loss_of(p):
            return (torch.func.functional_call(model, p, (x,)) - y).square().mean()

        grads, loss = torch.func.grad_and_value(loss_of)(params)
        return loss, {name: collectives.all_reduce(g / RANKS, "sum", dist.group.WORLD) for name, g in grads.items()}

    backend = weft.torch.backend if with_weft else "aot_eager"  # weft.torch.install() puts the same passes in "inductor"
    step = torch.compile(gradients, fullgraph=True, dynamic=False, backend=backend)
    random, losses = torch.Generator().manual_seed(3), []
    for _ in range(STEPS):
        x = torch.randn(BATCH, 16, generator=random)[rank::RANKS]
        loss, grads = step({name: p.detach() for name, p in params.items()}, x, x.sum(dim=1, keepdim=True))
        for name, p in params.items():
            p.data -= 0.05 * grads[name]
        losses.append(loss.item())
    if with_weft and rank == 0:
        print(*weft.torch.backend.reports, flush=True)
    results[rank, with_weft] = losses, [p.detach().tolist() for p in params.values()]
    dist.destroy_process_group()


if __name__ == "__main__":
    results = multiprocessing.Manager().dict()
    for with_weft in (False, True):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        multiprocessing.spawn(train, (port, with_weft, results), nprocs=RANKS)
    assert all(results[rank, True] == results[rank, False] for rank in range(RANKS))
    print("losses and parameters of 2 processes are the same to the bit with Weft:", results[0, True][0])

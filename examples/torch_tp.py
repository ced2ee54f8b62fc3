"""An MLP of PyTorch's, tensor parallel under torch.compile: its gathers and scatters cut into chunks by Weft, so that rows
travel while others are multiplied, on 2 CPU processes.

    python torch_tp.py              needs torch and weft
"""

import os
import socket
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import weft.torch

STEPS, ROWS, WIDTH, RANKS = 5, 8, 16, 2
PASSES = [("micro_pipeline_tp", {"form": "fused", "guard": "off"})]  # off: also where it is too small to gain


def train(rank, port, how, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS if how != "serial" else 1)
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False), torch.nn.Tanh(),
                                torch.nn.Linear(4 * WIDTH, WIDTH, bias=False))
    if how != "serial":  # the first weight by columns, the second by rows; rows of the batch outside
        model = parallelize_module(model, init_device_mesh("cpu", (RANKS,)), {
            "0": ColwiseParallel(input_layouts=Shard(0)), "2": RowwiseParallel(output_layouts=Shard(0))})
    if how == "weft":
        model = torch.compile(model, backend=weft.torch.backend, fullgraph=True, options={"passes": PASSES})
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.05), []
    random = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        x = torch.randn(ROWS, WIDTH, generator=random)
        rows = x if how == "serial" else x.chunk(RANKS)[rank]
        loss = (model(rows) - rows.flip(1)).square().sum() / x.numel()
        loss.backward()
        optimizer.step(), optimizer.zero_grad()
        losses.append(loss.item())
    if how == "weft" and rank == 0:
        print(*weft.torch.backend.reports, flush=True)
    results[how, rank] = losses
    dist.destroy_process_group()


if __name__ == "__main__":
    results = multiprocessing.Manager().dict()
    for how in ("serial", "torch", "weft"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        multiprocessing.spawn(train, (port, how, results), nprocs=1 if how == "serial" else RANKS)
    serial, own, chunks = (torch.tensor([results[how, r] for r in range(RANKS) if (how, r) in results]).sum(0)
                           for how in ("serial", "torch", "weft"))
    for found in (own, chunks):
        torch.testing.assert_close(found, serial)
    print("losses of 2 processes in chunks are those of one process:", [round(loss, 4) for loss in chunks.tolist()])

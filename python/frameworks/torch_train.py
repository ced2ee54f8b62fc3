"""One step of a small model on the processes of a group, eagerly and compiled with Weft; prints how they compare.

    torch_train.py ddp|tp RANKS     each process is started by this script
"""

import json
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import weft.torch


def graphs_of(step):
    """What the step gives, and how many collectives of each kind its graphs call."""
    counts, own = {}, weft.torch.optimize

    def optimize(graph, *args, **kwargs):
        report = own(graph, *args, **kwargs)
        for node in graph.nodes:
            name = str(node.target)
            if name.startswith("_c10d_functional."):
                counts[name.split(".")[1]] = counts.get(name.split(".")[1], 0) + 1
        return report

    weft.torch.optimize = optimize
    try:
        return step(), counts
    finally:
        weft.torch.optimize = own


def ddp(rank, ranks):
    """Data parallel, gradients reduced inside the compiled backward graph."""
    torch._dynamo.config.optimize_ddp = "python_reducer"
    backend, random = weft.torch.backend, torch.Generator().manual_seed(rank)
    x = torch.randn(4, 16, generator=random)

    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])

    def step(model, call):
        loss = call(x).square().mean()
        loss.backward()
        return [loss.detach()] + [p.grad for p in model.parameters()]

    def compiled():
        from torch._dynamo import compiled_autograd

        enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable
        model = make()
        call = torch.compile(torch.nn.parallel.DistributedDataParallel(model), backend=backend)
        with enable(lambda graph: torch.compile(graph, backend=backend, fullgraph=True)):
            return step(model, call)

    model, whole = make(), []
    for other in range(ranks):  # the mean over ranks, on one process
        part = make()
        torch_x = torch.randn(4, 16, generator=torch.Generator().manual_seed(other))
        part(torch_x).square().mean().backward()
        whole.append([p.grad for p in part.parameters()])
    loss = model(x).square().mean().detach()
    expected = [loss] + [sum(g / ranks for g in grads) for grads in zip(*whole)]
    return expected, *graphs_of(compiled)


def tp(rank, ranks):
    """An MLP of DTensors: columns of the first weight, rows of the second, activations split over rows outside."""
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(0)
    x = torch.randn(8, 16)

    def make():
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))

    def local(t, placed):
        return t.chunk(ranks, placed)[rank] if placed is not None else t

    def compiled():
        model = parallelize_module(make(), mesh, {"0": ColwiseParallel(input_layouts=Shard(0)),
                                                  "2": RowwiseParallel(output_layouts=Shard(0))})
        call = torch.compile(model, backend=weft.torch.backend, fullgraph=True)
        out = call(local(x, 0))
        out.square().sum().backward()
        return [out.detach()] + [p.grad.to_local() for p in model.parameters()]

    model = make()
    out = model(x)
    out.square().sum().backward()
    grads = [p.grad for p in model.parameters()]
    expected = [local(out.detach(), 0)] + [local(g, d) for g, d in zip(grads, (0, 0, 1, None))]
    return expected, *graphs_of(compiled)


def main(rank, how, ranks, port, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    expected, found, counts = globals()[how](rank, ranks)
    worst = max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(expected, found))
    equal = all(torch.equal(a, b) for a, b in zip(expected, found))
    queue.put({"rank": rank, "worst": worst, "equal": equal, "counts": counts,
               "breaks": sum(torch._dynamo.utils.counters["graph_break"].values())})
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    how, ranks = sys.argv[1], int(sys.argv[2])
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(main, (how, ranks, port, queue), nprocs=ranks)
    print("RESULT", json.dumps([queue.get() for _ in range(ranks)]))

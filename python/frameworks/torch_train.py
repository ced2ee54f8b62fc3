"""One step of a small model on the processes of a group, eagerly and compiled with Weft; prints how they compare.

    torch_train.py ddp|sizes|accumulated|installed|installed_alone|tp|mesh|micro|gpt|spmd|batch|models RANKS    it starts each process itself
"""

import contextlib
import copy
import json
import os
import socket
import sys

import torch
import torch._dynamo.backends.common
import torch.distributed as dist
import torch.utils.checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

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


def compiled_backward(backend):
    """Within it, the backward graph of what is called is compiled."""
    from torch._dynamo import compiled_autograd

    enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable
    return enable(lambda graph: torch.compile(graph, backend=backend, fullgraph=True))


def ddp(rank, ranks, backend=weft.torch.backend):
    """Data parallel, gradients reduced inside the compiled backward graph."""
    torch._dynamo.config.optimize_ddp = "python_reducer"
    random = torch.Generator().manual_seed(rank)
    x = torch.randn(4, 16, generator=random)

    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])

    def step(model, call):
        loss = call(x).square().mean()
        loss.backward()
        return [loss.detach()] + [p.grad for p in model.parameters()]

    def compiled():
        model = make()
        call = torch.compile(torch.nn.parallel.DistributedDataParallel(model), backend=backend)
        with compiled_backward(backend):
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


class Tied(torch.nn.Module):
    """A block between an embedding and its transpose."""

    def __init__(self, words=32, width=16):
        super().__init__()
        self.embedding, self.block = torch.nn.Embedding(words, width), Block(width)
        self.head = torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.block(self.embedding(x)))


def accumulated(rank, ranks):
    """Data parallel with tied weights: of two batches the first is not reduced, the second is with what the first left."""
    torch._dynamo.config.optimize_ddp = "python_reducer"

    def compiled(backend):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, random = Tied(), torch.Generator().manual_seed(rank)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        call, results = torch.compile(parallel, backend=backend), []
        for whether in (parallel.no_sync(), contextlib.nullcontext()):
            words = torch.randint(0, 32, (4, 8), generator=random)
            with whether, compiled_backward(backend):
                loss = torch.nn.functional.cross_entropy(call(words).flatten(0, 1), words.flip(1).flatten())
                loss.backward()
            results += [loss.detach(), *[p.grad.clone() for p in model.parameters()]]
        return results

    return compiled("aot_eager"), *graphs_of(lambda: compiled(weft.torch.backend))


def sizes(rank, ranks):
    """Data parallel with batches of sizes that change, of which the third has been seen."""
    torch._dynamo.config.optimize_ddp = "python_reducer"

    def compiled(backend):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, random, results = Block(16), torch.Generator().manual_seed(rank), []
        call = torch.compile(torch.nn.parallel.DistributedDataParallel(model), backend=backend)
        for size in (4, 6, 4, 8):
            model.zero_grad()
            with compiled_backward(backend):
                loss = call(torch.randn(size, 8, 16, generator=random)).square().mean()
                loss.backward()
            results += [loss.detach(), *[p.grad.clone() for p in model.parameters()]]
        return results

    return compiled("aot_eager"), *graphs_of(lambda: compiled(weft.torch.backend))


def installed(rank, ranks, torch_fuses=True):
    """The same under torch.compile's default backend, where DDP switches a fusion of torch's own on."""
    import torch._inductor.config as config

    config.compile_threads, config.force_disable_caches = 1, True  # a graph from a cache is not compiled again
    if not torch_fuses:
        config._fuse_ddp_communication_passes = []
    weft.torch.install(strict=True)
    return ddp(rank, ranks, "inductor")


def installed_alone(rank, ranks):
    return installed(rank, ranks, torch_fuses=False)


def local(t, placed, rank, ranks):
    """A rank's part of a whole tensor."""
    return t.chunk(ranks, placed)[rank] if placed is not None else t


def tp(rank, ranks, passes=None, bias=True):
    """An MLP of DTensors: columns of the first weight, rows of the second, activations split over rows outside."""
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(0)
    x = torch.randn(8, 16)

    def make():
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(16, 32, bias), torch.nn.ReLU(), torch.nn.Linear(32, 16, bias))

    def compiled():
        model = parallelize_module(make(), mesh, {"0": ColwiseParallel(input_layouts=Shard(0)),
                                                  "2": RowwiseParallel(output_layouts=Shard(0))})
        call = torch.compile(model, backend=weft.torch.backend, fullgraph=True, options={"passes": passes})
        out = call(local(x, 0, rank, ranks))
        out.square().sum().backward()
        return [out.detach()] + [p.grad.to_local() for p in model.parameters()]

    model = make()
    out = model(x)
    out.square().sum().backward()
    grads = [p.grad for p in model.parameters()]
    placed = (0, 0, 1, None) if bias else (0, 1)
    expected = [local(out.detach(), 0, rank, ranks)] + [local(g, d, rank, ranks) for g, d in zip(grads, placed)]
    return expected, *graphs_of(compiled)


def micro(rank, ranks):
    """The same MLP in chunks: products while rows are sent."""
    return tp(rank, ranks, [("micro_pipeline_tp", {"form": "fused", "guard": "off"})], bias=False)


class Block(torch.nn.Module):
    """Causal attention and a feed-forward layer, as many heads as there are columns of the weights at hand."""

    def __init__(self, width=16, head=4):
        super().__init__()
        self.head = head
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (t.unflatten(-1, (-1, self.head)).transpose(1, 2) for t in (self.q(h), self.k(h), self.v(h)))
        scores = q @ k.transpose(-2, -1) * self.head**-0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        h = (scores.masked_fill(later, -1e4).softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.out(h)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


def gpt(rank, ranks):
    """A block of a GPT, DTensor tensor parallel: heads and columns on different ranks."""
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(0)
    x = torch.randn(2, 8, 16)

    def make():
        torch.manual_seed(1)
        return Block()

    plan = {**dict.fromkeys(("q", "k", "v", "up"), ColwiseParallel()), **dict.fromkeys(("out", "down"), RowwiseParallel())}
    columns = {f"{n}.{p}": 0 for n in ("q", "k", "v", "up") for p in ("weight", "bias")}
    placed = {**columns, "out.weight": 1, "down.weight": 1}

    def compiled(backend="aot_eager"):
        model = parallelize_module(make(), mesh, plan)
        torch._dynamo.reset()
        loss = torch.compile(model, backend=backend, fullgraph=True)(x).square().mean()
        loss.backward()
        grads = [p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad for p in model.parameters()]
        return [loss.detach()] + grads

    model = make()
    loss = model(x).square().mean()
    loss.backward()
    whole = [loss.detach()] + [local(p.grad, placed.get(n), rank, ranks) for n, p in model.named_parameters()]
    without = compiled()
    found, counts = graphs_of(lambda: compiled(weft.torch.backend))
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(whole, without))
    return without, found, counts


def mesh(rank, ranks):
    """A block on a mesh of two axes: the batch along one, columns and rows of weights along the other."""
    axes = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("data", "tensor"))
    columns, rows = ("q", "k", "v", "up"), ("out.weight", "down.weight")
    torch.manual_seed(0)
    x = distribute_tensor(torch.randn(4, 8, 16), axes, [Shard(0), Replicate()])

    def compiled(backend):
        torch._dynamo.reset()
        torch.manual_seed(1)
        model = Block()
        for name, child in model.named_children():
            for kind, whole in list(child.named_parameters()):
                part = Shard(0) if name in columns else Shard(1) if f"{name}.{kind}" in rows else Replicate()
                setattr(child, kind, torch.nn.Parameter(distribute_tensor(whole.detach(), axes, [Replicate(), part])))

        def step(x):
            h = model.norm1(x)
            h = x + model.out(torch.relu(model.q(h)) * model.k(h) + model.v(h))
            return (h + model.down(torch.relu(model.up(model.norm2(h))))).square().mean()

        loss = torch.compile(step, backend=backend, fullgraph=True)(x)
        loss.backward()
        return [loss.full_tensor().detach()] + [p.grad.full_tensor() for p in model.parameters()]

    return compiled("aot_eager"), *graphs_of(lambda: compiled(weft.torch.backend))


def batch(rank, ranks):
    """The same by parts of the batch."""
    whole = {"0.weight": "R", "0.bias": "R", "2.weight": "R", "2.bias": "R"}
    return spmd(rank, ranks, {0: "S(0)", 1: "S(0)"}, whole)


def spmd(rank, ranks, placements={"0.weight": "S(0)", "2.weight": "S(1)"},
         found={"0.weight": "S(0)", "0.bias": "S(0)", "2.weight": "S(1)", "2.bias": "R"}):
    """A serial MLP that Weft parts itself: three steps of training, and the whole parameters then. Adam would divide by
    gradients near zero, and so enlarge what sums are rounded by."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 16), torch.randn(8, 4)

    def make():
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
        return model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def loss_of(model, x, y):
        return (model(x) - y).square().mean()

    model, optimizer = make()
    expected = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        expected.append(loss.detach())
    expected += [p.detach() for p in model.parameters()]

    model, optimizer = make()
    step, results = weft.torch.shard(model, loss_of, (x, y), placements), []
    assert {name: step.placements[name] for name in found} == found, str(step)
    for _ in range(3):
        results.append(step(x, y))
        optimizer.step()
    names = [str(n.target).split(".")[1] for n in step.graph_module.graph.nodes if "c10d" in str(n.target)]
    return expected, results + list(step.whole_parameters().values()), {name: names.count(name) for name in names}


class Images(torch.nn.Module):
    """Layers that look at the whole batch, that write buffers, that are told the batch size, and that draw numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8)
        self.second, self.groups = torch.nn.Conv2d(8, 8, 3, bias=False), torch.nn.GroupNorm(2, 8)
        self.drop, self.head = torch.nn.Dropout(0.2), torch.nn.Linear(8, 5)

    def forward(self, x):
        x = self.groups(self.second(torch.relu(self.norm(self.first(x)))))
        return self.head(self.drop(x.transpose(2, 3)).mean((2, 3)))


class Words(torch.nn.Module):
    """A table used twice, a recurrent layer, a layer that backward computes again, one that is frozen and one unused."""

    def __init__(self, words=32, width=16):
        super().__init__()
        self.table, self.cells = torch.nn.Embedding(words, width), torch.nn.LSTM(width, width, batch_first=True)
        self.again, self.frozen, self.unused = (torch.nn.Linear(width, width) for _ in range(3))
        self.frozen.requires_grad_(False)
        self.head = torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        x = self.cells(self.table(x))[0]
        x = torch.utils.checkpoint.checkpoint(lambda v: torch.tanh(self.again(v)), x, use_reentrant=False)
        return self.head(self.frozen(x)).flatten(0, 1)


def models(rank, ranks):
    """A step of models as they are written, in several placements: loss, gradients and buffers, beside one process."""
    random = torch.Generator().manual_seed(2)
    images = (torch.randn(8, 3, 8, 8, generator=random), torch.randint(0, 5, (8,), generator=random))
    words = (torch.randint(0, 32, (8, 6), generator=random), torch.randint(0, 32, (48,), generator=random))
    batch = {0: "S(0)", 1: "S(0)"}
    cases = [(Images, images, batch), (Images, images, {"second.weight": "S(0)"}), (Words, words, {0: "S(0)"}),
             (Words, words, {"table.weight": "S(0)"}), (Words, words, {**batch, "again.weight": "S(0)"})]
    expected, results, counts = [], [], {}

    def loss_of(model, x, y):
        return torch.nn.functional.cross_entropy(model(x), y)

    def state(model, loss, whole=lambda name, value: value):
        grads = [whole(name, p.grad) for name, p in model.named_parameters() if p.grad is not None]
        return [loss.detach(), *grads, *(b.double() for b in model.buffers())]

    for make, inputs, placements in cases:
        torch.manual_seed(0)
        model = make()
        alone = copy.deepcopy(model)
        step = weft.torch.shard(model, loss_of, inputs, placements)
        torch.manual_seed(3)
        loss = loss_of(alone, *inputs)
        loss.backward()
        expected += state(alone, loss)
        torch.manual_seed(3 + rank)  # ranks draw what the first one draws
        results += state(model, step(*inputs), step.whole)
    return expected, results, counts


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
    # destroy_process_group() holds Python's lock while it joins Gloo's threads. One of them may wait for that lock, to
    # free a tensor: torch 2.7.1 then never ends.
    os._exit(0)


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    how, ranks = sys.argv[1], int(sys.argv[2])
    # Forked: torch and its compiler are imported once. Nothing was computed yet, so that there are no threads.
    queue = torch.multiprocessing.get_context("fork").SimpleQueue()
    torch.multiprocessing.start_processes(main, (how, ranks, port, queue), nprocs=ranks, start_method="fork")
    print("RESULT", json.dumps([queue.get() for _ in range(ranks)]))

"""A serial step on the ranks of a group: its graph traced, parted by spmd_expand, its parameters cut."""

import contextlib
import logging
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import torch

from .. import _errors
from .._passes import Passes, Report
from .._program import Program
from ._export import Document, is_collective, refuse_foreign
from ._lists import PARTED, chosen
from ._splice import replace
from ._trace import Step, trace
from ._words import in_words

log = logging.getLogger("weft")


def _dim(placement: str) -> Optional[int]:
    """The dimension of "S(1)"; None: "R"."""
    return int(placement[2:-1]) if placement.startswith("S(") else None


def _part(value: Any, placement: str, rank: int, nranks: int) -> Any:
    """A rank's part of a whole value, as torch.chunk cuts it; the value itself if it is replicated."""
    dim = _dim(placement)
    if dim is None:
        return value
    each = -(-value.shape[dim] // nranks)
    start = min(rank * each, value.shape[dim])
    return value.narrow(dim, start, min(each, value.shape[dim] - start))


def _whole(value: Any, placement: str, extents: Sequence[int], group: Any) -> Any:
    """The value of which each rank has a part."""
    import torch.distributed as dist

    dim = _dim(placement)
    if dim is None:
        return value
    each = -(-extents[dim] // dist.get_world_size(group))
    pads = [0, 0] * (value.ndim - 1 - dim) + [0, each - value.shape[dim]]
    mine = torch.nn.functional.pad(value, pads).contiguous()
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, mine, group=group)
    return torch.cat(parts, dim).narrow(dim, 0, extents[dim])


def expand(traced: Any, placements: Mapping[str, str], *, nranks: int, rank: int, group: str = "0",
           passes: Passes = ("spmd_expand",), set: Optional[Mapping[str, object]] = None) -> tuple[Report, list[str]]:
    """Makes a serial graph that of one rank, in place; returns the Report and how its outputs lie.

    placements: "R" or "S(dimension)" by placeholder; what they leave open is found. group: the name of the group whose
    ranks these are. If a pass refuses, the graph is as it was.
    """
    refuse_foreign()
    graph = getattr(traced, "graph", traced)
    if any(map(is_collective, graph.nodes)):
        raise _errors.Unsupported("the graph has collectives: spmd_expand takes a serial one", "torch.fx.Graph")
    groups = {group: {"size": nranks, "ranks": list(range(nranks))}}
    document = Document(graph, groups, {"world_size": nranks, "placements_in": dict(placements), "shapes": "global"})
    program = Program.parse(document.text, "fx", place="torch.fx.Graph")
    report = program.run_passes(chosen(passes), set=set, rank=rank)
    after = document.read(program.print("fx").decode())
    in_words(after)
    shapes = {row["name"]: row["shape"] for row in after["inputs"]}
    parts = {node.name: _with_shape(node.meta["val"], shapes[node.name]) for node in graph.nodes
             if node.op == "placeholder" and shapes[node.name] is not None}
    replace(graph, document, after, parts)
    if hasattr(graph.owning_module, "recompile"):
        graph.owning_module.recompile()
    return report, after["placements_out"]


def _with_shape(value: Any, shape: Sequence[int]) -> Any:
    """A fake value like another one, of other extents."""
    if list(value.shape) == shape:
        return value
    for dim, extent in enumerate(shape):
        value = value.narrow(dim, 0, extent)
    with value.fake_mode:
        return value.contiguous()


class Sharded:
    """A step of a model whose parameters lie on the ranks of a group: call it with whole inputs, and it returns the loss
    and leaves each parameter its gradient. See weft.torch.shard."""

    def __init__(self, model: Any, step: Step, extents: dict[str, tuple[int, ...]], placements: dict[str, str],
                 outputs: Sequence[str], inputs: Sequence[str], group: Any, report: Report) -> None:
        self.graph_module, self.report = step.graph_module, report
        self.placements = placements  # of parameters, by name
        self._model, self._step, self._extents, self._outputs, self._inputs = model, step, extents, outputs, inputs
        self._group, self._rank, self._nranks = group, torch.distributed.get_rank(group), torch.distributed.get_world_size(group)

    def __call__(self, *inputs: Any) -> Any:
        """A step on whole inputs; the loss."""
        parameters = dict(self._model.named_parameters())
        mine = [_part(x, placed, self._rank, self._nranks).contiguous() for x, placed in zip(inputs, self._inputs)]
        with torch.no_grad(), self._same_draws():
            loss, *grads = self.graph_module(*(p.detach() for p in parameters.values()), *self._model.buffers(), *mine)
        for name, gradient, placed in zip(self._step.trained, grads, self._outputs[1:]):
            parameters[name].grad = self._as(gradient, placed, self.placements[name], self._extents[name])
        return loss

    @contextlib.contextmanager
    def _same_draws(self) -> Iterator[None]:
        """Within it all ranks draw what the first one draws: what is whole on each of them stays the same on all."""
        if not self._step.draws:
            yield
            return
        device = next(self._model.parameters()).device
        generator = torch if device.type == "cpu" else torch.get_device_module(device)
        own = generator.get_rng_state()
        first = [own]
        torch.distributed.broadcast_object_list(first, torch.distributed.get_global_rank(self._group, 0), group=self._group)
        generator.set_rng_state(first[0])
        try:
            yield
        finally:
            if self._rank:
                generator.set_rng_state(own)

    def _as(self, value: Any, placed: str, wanted: str, extents: Sequence[int]) -> Any:
        """A gradient as its parameter lies."""
        if placed == wanted:
            return value
        return _part(_whole(value, placed, extents, self._group), wanted, self._rank, self._nranks).contiguous()

    def whole(self, name: str, value: Any) -> Any:
        """A parameter's gradient, or anything else that lies as it does, as it would be on one process. All ranks call it."""
        return _whole(value, self.placements[name], self._extents[name], self._group)

    def whole_parameters(self) -> dict[str, Any]:
        """The parameters as they would be on one process, by name. All ranks call it."""
        return {name: self.whole(name, p.detach()) for name, p in self._model.named_parameters()}

    def __str__(self) -> str:
        lines = [f"{name} {list(self._extents[name])}: {placed}" + ("" if placed == "R" else f", here {list(p.shape)}")
                 for (name, p), placed in zip(self._model.named_parameters(), self.placements.values())]
        return "\n".join(lines + [str(self.report)])


def shard(model: Any, loss_of: Callable[..., Any], inputs: Sequence[Any], placements: Mapping[Union[str, int], str], *,
          group: Any = None, passes: Passes = PARTED, set: Optional[Mapping[str, object]] = None) -> Sharded:
    """Parts a serial model over the ranks of a group, and returns its step as a Sharded. Each rank calls it, with equal
    parameters. The parameters of `model` become this rank's parts; the logger "weft" says which.

        step = weft.torch.shard(model, lambda model, x, y: (model(x) - y).square().mean(), (x, y), {"0.weight": "S(0)"})
        loss = step(x, y)               # as long as x and y have these shapes
        optimizer.step()

    placements: "S(dimension)" or "R" by parameter, and by number for inputs: {0: "S(0)"} parts the batch. Biases of a layer
    follow its weights. Sums of gradients become one collective. Where the group is None: all ranks. If a pass refuses, model and parameters are as they were.
    """
    import torch.distributed as dist

    parameters: dict[str, Any] = dict(model.named_parameters())
    unknown = [k for k in placements if k not in parameters and k not in range(len(inputs))]
    if unknown:
        raise KeyError(f"{unknown[0]!r}: expected a parameter ({', '.join(parameters)}) or the number of an input")
    group = dist.group.WORLD if group is None else group
    step = trace(model, loss_of, inputs)
    buffers = dict(model.named_buffers())
    values: dict[Any, Any] = {**parameters, **buffers, **dict(enumerate(inputs))}
    names = dict(zip(values, step.holders))
    rank, nranks = dist.get_rank(group), dist.get_world_size(group)
    given = {names[k]: v for k, v in {**dict.fromkeys(buffers, "R"), **placements}.items()}
    report, outputs = expand(step.graph_module, given, nranks=nranks, rank=rank, group=group.group_name, passes=passes, set=set)
    shapes = {node.name: list(node.meta["val"].shape) for node in step.graph_module.graph.nodes if node.op == "placeholder"}
    found = {k: _found(value, shapes[names[k]], placements.get(k)) for k, value in values.items()}
    extents = {name: tuple(p.shape) for name, p in parameters.items()}
    for name, parameter in parameters.items():
        parameter.data = _part(parameter.data, found[name], rank, nranks).clone(memory_format=torch.contiguous_format)
        parameter.grad = None
        if found[name] != "R":
            log.info("rank %d has %s of %s %s: %s", rank, list(parameter.shape), name, list(extents[name]), found[name])
    return Sharded(model, step, extents, {name: found[name] for name in parameters}, outputs,
                   [found[k] for k in range(len(inputs))], group, report)


def _found(value: Any, shape: Sequence[int], placement: Optional[str]) -> str:
    """How a value lies whose part has `shape`."""
    dims = [d for d, (whole, part) in enumerate(zip(value.shape, shape)) if whole != part]
    return f"S({dims[0]})" if dims else (placement or "R")

"""Puts a graph that Weft made in the place of a live one: nodes that stay keep identity and metadata."""

import bisect
import importlib
import operator
from typing import Any, Iterable, Mapping, Optional, Sequence

import torch

from .. import _errors
from ._export import Document, Opaque, decode, leaves


_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)


def _resolve(target: str) -> Any:
    """ "aten.add.Tensor" -> the op; raises where torch has none."""
    if target == "getitem":
        return operator.getitem
    if target.startswith("symm_mem."):
        importlib.import_module("torch.distributed._symmetric_memory")  # it registers them
    try:
        space, name, overload = target.split(".")
        return getattr(getattr(getattr(torch.ops, space), name), overload)
    except (AttributeError, ValueError):
        raise _errors.Unsupported(f"torch has no op {target}: take passes and options whose results it knows "
                                  "(fuse_allreduce_buckets with mode: coalesced)", "torch.fx.Graph") from None


def _plain(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Without what Weft keeps for itself."""
    return {k: v for k, v in kwargs.items() if not k.startswith("weft.")}


def _mode_of(graph: Any) -> Any:
    """The mode that the graph's fake values belong to; None: it has none."""
    values = (value for node in graph.nodes for value in leaves(node.meta.get("val")))
    return next((v.fake_mode for v in values if isinstance(v, torch._subclasses.FakeTensor)), None)


def _fake_value(node: Any, mode: Any) -> Any:
    """What a node gives, by running it on the fake values of its inputs."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    if mode is None or node.target is operator.getitem:
        return node.target(*args, **kwargs) if node.target is operator.getitem else None
    with mode:
        return node.target(*args, **kwargs)


def without_kernel(graph: Any, targets: Iterable[str]) -> Optional[tuple[Any, str]]:
    """The first of new targets that cannot run where the graph runs, and the device; or None."""
    new = {_resolve(t) for t in targets} - {operator.getitem}
    values = (node.meta.get("val") for node in graph.nodes) if new else ()
    devices = {v.device.type for v in values if isinstance(v, torch.Tensor)}
    for target in new:
        for device in devices & {"cpu", "cuda"}:
            if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(target.name(), device.upper()):
                return target, device
    return None


def _refuse_without_kernel(graph: Any, targets: Iterable[str]) -> None:
    found = without_kernel(graph, targets)
    if found:
        raise _errors.Unsupported(f"torch has no kernel of {found[0]} on {found[1]}: leave out the pass that makes it",
                                  "torch.fx.Graph")


def replace(graph: Any, document: Document, after: Mapping[str, Any], inputs: Optional[Mapping[str, Any]] = None) -> None:
    """Makes `graph`, which was exported as `document`, what `after` says; leaves it as it is if that fails. inputs: fake
    values of placeholders that are others now, by name: then all nodes get values anew."""
    old = {row["name"]: row for row in document.rows}
    names = {row["name"]: row["target"] for row in after["nodes"]
             if row["name"] not in old or old[row["name"]]["target"] != row["target"]}
    _refuse_without_kernel(graph, names.values())
    targets = {name: _resolve(target) for name, target in names.items()}
    was = [(node, node.target, node.args, node.kwargs, dict(node.meta) if inputs else node.meta) for node in graph.nodes]
    try:
        kept = _put_nodes(graph, old, targets, after, document.opaque, inputs)
    except Exception:
        _put_back(graph, was)
        raise
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and node not in kept:
            graph.erase_node(node)
    graph.lint()


def _put_back(graph: Any, was: Sequence[tuple[Any, Any, Any, Any, Any]]) -> None:
    """The nodes that there were, in their order."""
    for node, target, args, kwargs, meta in was:
        node.target, node.args, node.kwargs, node.meta = target, args, kwargs, meta
    known = {node for node, *_ in was}
    for node in reversed(list(graph.nodes)):
        if node not in known:
            graph.erase_node(node)
    for (before, *_), (node, *_) in zip(was, was[1:]):
        before.append(node)


def _set_value(node: Any, value: Any) -> None:
    node.meta["val"] = value
    node.meta.pop("tensor_meta", None)


def _longest_run(graph: Any, last: Any, names: Sequence[str]) -> set[str]:
    """The most of `names`, nodes in their new order, that stand behind `last` in that order already: to move a node costs
    torch more than all else. By patience: of runs of each length the one that ends first."""
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    first = places[last.name]
    ends: list[int] = []
    tails: list[str] = []
    before: dict[str, Optional[str]] = {}
    for name in names:
        if places[name] <= first:
            continue
        length = bisect.bisect_left(ends, places[name])
        before[name] = tails[length - 1] if length else None
        ends[length:length + 1], tails[length:length + 1] = [places[name]], [name]
    run: set[str] = set()
    at = tails[-1] if tails else None
    while at is not None:
        run.add(at)
        at = before[at]
    return run


def _put_nodes(graph: Any, old: Mapping[str, Any], targets: Mapping[str, Any], after: Mapping[str, Any], opaque: Opaque,
               inputs: Optional[Mapping[str, Any]]) -> set[Any]:
    """Puts nodes and outputs in place; returns the calls that stay."""
    nodes, mode = {node.name: node for node in graph.nodes}, _mode_of(graph)
    for name, value in (inputs or {}).items():
        _set_value(nodes[name], value)
    reused = targets.keys() & nodes.keys()  # a name may be another node's now
    output = next(n for n in graph.nodes if n.op == "output")
    kept: set[Any] = set()
    last = next((n for n in reversed(list(graph.nodes)) if n.op in ("placeholder", "get_attr")), None)
    stays = _longest_run(graph, last, [row["name"] for row in after["nodes"] if row["name"] not in targets]) if last else set()
    for row in after["nodes"]:
        name, was = row["name"], old.get(row["name"])
        is_new = name in targets
        if is_new or row is not was or reused:
            args = tuple(decode(a, nodes, opaque) for a in row["args"])
            kwargs = {k: decode(v, nodes, opaque) for k, v in _plain(row["kwargs"]).items()}
        if is_new:
            with graph.inserting_before(output) if last is None else graph.inserting_after(last):
                node = graph.create_node("call_function", targets[name], args, kwargs, name=name)
            nodes[name] = node
        else:
            node = nodes[name]
            if (row is not was or reused) and (node.args != args or node.kwargs != kwargs):
                node.args, node.kwargs = args, kwargs
        if inputs is not None and node.target in _VIEWS:
            node.target = torch.ops.aten.reshape.default  # a part may lie in memory as the whole does not
        if is_new or inputs is not None:
            _set_value(node, _fake_value(node, mode))
        kept.add(node)
        if last is not None and not is_new and name not in stays:
            last.append(node)
        last = node
    _put_outputs(output, after["outputs"], nodes)
    return kept


def _put_outputs(output: Any, after: Sequence[Any], nodes: Mapping[str, Any]) -> None:
    """The output node again, where a value has another name now."""
    names = iter(after)

    def put(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([put(v) for v in value])
        now = next(names)
        return nodes[now["ref"]] if isinstance(value, torch.fx.Node) else value

    output.args = (put(output.args[0]),)

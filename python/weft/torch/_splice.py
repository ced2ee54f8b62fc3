"""Puts a graph that Weft made in the place of a live one: nodes that stay keep identity and metadata."""

import operator

import torch

from .. import _errors
from ._export import decode


def _resolve(target):
    """ "aten.add.Tensor" -> the op; raises where torch has none."""
    if target == "getitem":
        return operator.getitem
    try:
        space, name, overload = target.split(".")
        return getattr(getattr(getattr(torch.ops, space), name), overload)
    except (AttributeError, ValueError):
        raise _errors.Unsupported(f"torch has no op {target}: take passes and options whose results it knows "
                                  "(fuse_allreduce_buckets with mode: coalesced)", "torch.fx.Graph") from None


def _plain(kwargs):
    """Without what Weft keeps for itself."""
    return {k: v for k, v in kwargs.items() if not k.startswith("weft.")}


def _names(*values):
    """Nodes that arguments name."""
    for value in values:
        if isinstance(value, dict) and isinstance(value.get("ref"), str):
            yield value["ref"]
        elif isinstance(value, (dict, list)):
            yield from _names(*(value.values() if isinstance(value, dict) else value))


def _fake_value(node):
    """What a new node gives, by running it on the fake values of its inputs."""
    def value(n):
        return n.meta["val"]

    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value)
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    mode = next((v.fake_mode for v in leaves if isinstance(v, torch._subclasses.FakeTensor)), None)
    if mode is None:
        return node.target(*args, **kwargs) if node.target is operator.getitem else None
    with mode:
        return node.target(*args, **kwargs)


def _refuse_without_kernel(graph, targets):
    """Raises if a new op cannot run where the graph runs."""
    values = (node.meta.get("val") for node in graph.nodes)
    devices = {v.device.type for v in values if isinstance(v, torch.Tensor)}
    for target in {t for t in targets if isinstance(t, torch._ops.OpOverload)}:
        for device in devices & {"cpu", "cuda"}:
            if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(target.name(), device.upper()):
                raise _errors.Unsupported(f"torch has no kernel of {target} on {device}: leave out the pass that makes it",
                                          "torch.fx.Graph")


def replace(graph, before, after, opaque):
    """Makes `graph`, which was exported as `before`, what `after` says; leaves it as it is if that fails."""
    old = {row["name"]: row for row in before["nodes"]}
    targets = {row["name"]: _resolve(row["target"]) for row in after["nodes"]
               if row["name"] not in old or old[row["name"]]["target"] != row["target"]}
    _refuse_without_kernel(graph, targets.values())
    was = [(node, node.args, node.kwargs) for node in graph.nodes]
    try:
        kept = _put_nodes(graph, old, targets, after, opaque)
    except Exception:
        _put_back(graph, was)
        raise
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and node not in kept:
            graph.erase_node(node)
    graph.lint()


def _put_back(graph, was):
    """The nodes that there were, in their order."""
    for node, args, kwargs in was:
        node.args, node.kwargs = args, kwargs
    known = {node for node, _, _ in was}
    for node in reversed(list(graph.nodes)):
        if node not in known:
            graph.erase_node(node)
    for (before, _, _), (node, _, _) in zip(was, was[1:]):
        before.append(node)


def _put_nodes(graph, old, targets, after, opaque):
    """Puts nodes and outputs in place; returns the calls that stay."""
    nodes = {node.name: node for node in graph.nodes}
    output = next(n for n in graph.nodes if n.op == "output")
    kept, last = set(), next((n for n in reversed(list(graph.nodes)) if n.op in ("placeholder", "get_attr")), None)
    for row in after["nodes"]:
        name, was = row["name"], old.get(row["name"])
        args, kwargs = row["args"], _plain(row["kwargs"])
        if name not in targets:
            node = nodes[name]
            # A name may be another node's now.
            if args != was["args"] or kwargs != was["kwargs"] or not targets.keys().isdisjoint(_names(args, kwargs)):
                node.args = tuple(decode(a, nodes, opaque) for a in args)
                node.kwargs = {k: decode(v, nodes, opaque) for k, v in kwargs.items()}
        else:
            with graph.inserting_before(output):
                node = graph.create_node("call_function", targets[name], tuple(decode(a, nodes, opaque) for a in args),
                                         {k: decode(v, nodes, opaque) for k, v in kwargs.items()}, name=name)
            nodes[name] = node
            node.meta["val"] = _fake_value(node)
        kept.add(node)
        if last is not None:
            last.append(node)
        last = node
    _put_outputs(output, after["outputs"], nodes)
    return kept


def _put_outputs(output, after, nodes):
    """The output node again, where a value has another name now."""
    names = iter(after)

    def put(value):
        if isinstance(value, (list, tuple)):
            return type(value)([put(v) for v in value])
        now = next(names)
        return nodes[now["ref"]] if isinstance(value, torch.fx.Node) else value

    output.args = (put(output.args[0]),)

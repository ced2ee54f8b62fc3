"""A torch.fx.Graph as .fx.json text (docs/fx-form.md)."""

import functools
import json
import operator

import torch

from .. import _errors


as_text = functools.partial(json.dumps, separators=(",", ":"))


def refuse(node, what):
    raise _errors.Unsupported(f"node {node.name} ({node.target}): {what}", "torch.fx.Graph")


class Opaque:
    """Arguments that the form has no word for: they go through as strings, and come back as they were."""

    def __init__(self):
        self.values = []

    def put(self, value):
        self.values.append(value)
        return f"weft.opaque:{len(self.values) - 1}"

    def get(self, text):
        return self.values[int(text.split(":")[1])] if text.startswith("weft.opaque:") else text


def encode(value, opaque):
    """An argument as JSON."""
    if isinstance(value, torch.fx.Node):
        return {"ref": value.name}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"f": value if value == value and abs(value) != float("inf") else str(value)}
    if isinstance(value, (list, tuple)):
        return [encode(v, opaque) for v in value]
    for kind, word in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format")):
        if isinstance(value, kind):
            return {word: str(value).replace("torch.", "")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    return opaque.put(value)


def leaves(value):
    """What nested lists hold, in order."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def decode(value, nodes, opaque):
    """The argument again; nodes by name."""
    if isinstance(value, list):
        return [decode(v, nodes, opaque) for v in value]
    if isinstance(value, str):
        return opaque.get(value)
    if not isinstance(value, dict):
        return value
    (word, inner), = value.items()
    if word == "ref":
        return nodes[inner]
    if word == "f":
        return float(inner)
    if word == "device":
        return torch.device(inner)
    return getattr(torch, inner)


def _type(node):
    """Shape and dtype of a node's value: lists where it is a list, null where it is no tensor."""
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    if isinstance(value, (list, tuple)) and not hasattr(value, "shape"):
        types = [_one_type(node, v) for v in value]
        return [s for s, _ in types], [d for _, d in types]
    return _one_type(node, value)


def _one_type(node, value):
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return None, None
    if not all(isinstance(extent, int) for extent in value.shape):
        refuse(node, f"shape {tuple(value.shape)} is open: compile with dynamic=False")
    return list(value.shape), str(value.dtype).replace("torch.", "")


def _target(node):
    """The op's name, after a look at what its schema says of mutation."""
    if node.target is operator.getitem:
        return "getitem"
    if not isinstance(node.target, torch._ops.OpOverload):
        refuse(node, "only calls of torch ops can be read")
    schema, name = node.target._schema, str(node.target)
    written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    # Weft takes a name that ends in _ to write its arguments; anything else that writes would be moved about wrongly.
    if written and not name.split(".")[-2].endswith("_"):
        refuse(node, f"it writes its argument {written[0]}, which Weft does not model")
    return name


def _groups(graph, given):
    """Process groups that the graph names, in order of first use."""
    found = {}
    for node in graph.nodes:
        if node.op != "call_function" or "_c10d_functional" not in str(node.target) or "wait_tensor" in str(node.target):
            continue
        name = node.kwargs.get("group_name", node.args[-1] if node.args else None)
        if not isinstance(name, str) or name in found:
            continue
        if given is not None:
            found[name] = list(given[name])
        else:
            from torch.distributed import distributed_c10d as c10d

            found[name] = c10d.get_process_group_ranks(c10d._resolve_process_group(name))
    return {name: {"size": len(ranks), "ranks": ranks} for name, ranks in found.items()}


def document_of(graph, groups=None):
    """(.fx.json text, what it has no word for)."""
    opaque, inputs, constants, nodes, outputs = Opaque(), [], [], [], []
    for node in graph.nodes:
        if node.op == "output":
            outputs = [encode(v, opaque) for v in leaves(node.args[0])]
            continue
        shape, dtype = _type(node)
        if node.op == "placeholder":
            inputs.append({"name": node.name, "shape": shape, "dtype": dtype, "role": "data"})
        elif node.op == "get_attr":
            constants.append({"name": node.name, "shape": shape, "dtype": dtype})
        elif node.op == "call_function":
            nodes.append({"name": node.name, "op": "call", "target": _target(node),
                          "args": [encode(a, opaque) for a in node.args],
                          "kwargs": {k: encode(v, opaque) for k, v in node.kwargs.items()},
                          "shape": shape, "dtype": dtype})
        else:
            refuse(node, f"a node of kind {node.op} cannot be read")
    parts = {"inputs": inputs, "constants": constants, "nodes": nodes, "outputs": outputs}
    lines = ['"schema": "fx.json/1"', f'"groups": {as_text(_groups(graph, groups))}']
    for key, rows in parts.items():
        lines.append(f'"{key}": [' + ("\n" + ",\n".join(as_text(r) for r in rows) + "\n" if rows else "") + "]")
    return "{\n" + ",\n".join(lines) + "\n}\n", opaque

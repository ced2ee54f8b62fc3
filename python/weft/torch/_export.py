"""A torch.fx.Graph as .fx.json text (docs/fx-form.md)."""

import functools
import json
import operator
from typing import Any, Iterator, Mapping, NoReturn, Optional, Sequence

import torch

from .. import _errors

Groups = Mapping[str, Sequence[int]]  # ranks of process groups, by name
KNOWN = ((2, 7), (2, 99))
MOST_DATA = 256  # elements of a constant that are written down
as_text = json.JSONEncoder(separators=(",", ":")).encode


def refuse(node: Any, what: str) -> NoReturn:
    raise _errors.Unsupported(f"node {node.name} ({node.target}): {what}", "torch.fx.Graph")


def refuse_foreign() -> None:
    """Raises where this PyTorch is none that Weft can work with."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2] if part.isdigit())
    if version and not KNOWN[0] <= version <= KNOWN[1]:
        raise _errors.Unsupported(f"PyTorch {torch.__version__}: expected 2.7 or newer, of 2: pip install 'torch>=2.7,<3'",
                                  "weft.torch")


class Opaque:
    """Arguments that the form has no word for: they go through as strings, and come back as they were."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def put(self, value: Any) -> str:
        self.values.append(value)
        return f"weft.opaque:{len(self.values) - 1}"

    def get(self, text: str) -> Any:
        return self.values[int(text.split(":")[1])] if text.startswith("weft.opaque:") else text


def encode(value: Any, opaque: Opaque) -> Any:
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


def leaves(value: Any) -> Iterator[Any]:
    """What nested lists hold, in order."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def decode(value: Any, nodes: Mapping[str, Any], opaque: Opaque) -> Any:
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


def _type(node: Any) -> tuple[Any, Any]:
    """Shape and dtype of a node's value: lists where it is a list, null where it is no tensor."""
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    if isinstance(value, (list, tuple)) and not hasattr(value, "shape"):
        types = [_one_type(node, v) for v in value]
        return [s for s, _ in types], [d for _, d in types]
    return _one_type(node, value)


@functools.lru_cache(maxsize=None)
def _word_of(dtype: Any) -> str:
    return str(dtype).replace("torch.", "")


def _one_type(node: Any, value: Any) -> tuple[Any, Any]:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return None, None
    extents = list(shape)
    if not all([isinstance(extent, int) for extent in extents]):
        refuse(node, f"shape {tuple(extents)} is open: compile with dynamic=False")
    return extents, _word_of(dtype)


@functools.lru_cache(maxsize=None)
def _facts(op: Any) -> tuple[str, Optional[str]]:
    """An op's name, and the first argument that its schema says it writes and its name does not; None: none."""
    name = str(op)
    written = [a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    # Weft takes a name that ends in _ to write its arguments; anything else that writes would be moved about wrongly.
    return name, written[0] if written and not name.split(".")[-2].endswith("_") else None


def _overload(node: Any) -> Any:
    """What a node calls. torch's own passes name some ops without their overload: it is found as torch does."""
    if not isinstance(node.target, torch._ops.OpOverloadPacket):
        return node.target
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    return getattr(node.target, torch._C._jit_resolve_packet(node.target._qualified_op_name, *args, **kwargs))


def _target(node: Any) -> str:
    """The op's name, after a look at what its schema says of mutation."""
    if node.target is operator.getitem:
        return "getitem"
    op = _overload(node)
    if not isinstance(op, torch._ops.OpOverload):
        refuse(node, "only calls of torch ops can be read")
    name, written = _facts(op)
    if written:
        refuse(node, f"it writes its argument {written}, which Weft does not model")
    return name


def is_collective(node: Any) -> bool:
    """Whether a node is a collective of a group."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    return node.target.namespace == "_c10d_functional" and "wait_tensor" not in _facts(node.target)[0]


def group_of(node: Any) -> Any:
    """The name of the group that a collective is of."""
    return node.kwargs.get("group_name", node.args[-1] if node.args else None)


def _groups(graph: Any, given: Optional[Groups]) -> dict[str, Any]:
    """Process groups that the graph names, in order of first use."""
    found: dict[str, list[int]] = {}
    for node in graph.nodes:
        name = group_of(node) if is_collective(node) else None
        if not isinstance(name, str) or name in found:
            continue
        if given is not None:
            found[name] = list(given[name])
        else:
            from torch.distributed import distributed_c10d as c10d

            found[name] = c10d.get_process_group_ranks(c10d._resolve_process_group(name))
    return {name: {"size": len(ranks), "ranks": ranks} for name, ranks in found.items()}


def _data(node: Any, opaque: Opaque) -> dict[str, Any]:
    """The elements of a small tensor that tracing made a constant; nothing where a module owns it."""
    value: Any = getattr(node.graph.owning_module, str(node.target), None)
    is_traced = str(node.target).startswith("_tensor_constant") and type(value) is torch.Tensor
    if not is_traced or value.numel() > MOST_DATA or value.is_complex() or value.device.type == "meta":
        return {}
    return {"data": [encode(v, opaque) for v in value.detach().flatten().tolist()]}


class Document:
    """A graph as .fx.json: its `text`, the `rows` of its nodes, what the form has no word for (`opaque`).

    groups: {name: ranks} where the process groups are not there to be asked. more: other members of the document.
    """

    def __init__(self, graph: Any, groups: Optional[Mapping[str, Any]] = None, more: Optional[Mapping[str, Any]] = None) -> None:
        self.opaque, self.groups = Opaque(), dict(groups or {}) if more else _groups(graph, groups)
        self.rows: list[dict[str, Any]] = []
        inputs, constants, outputs = [], [], []
        for node in graph.nodes:
            if node.op == "output":
                outputs = [encode(v, self.opaque) for v in leaves(node.args[0])]
                continue
            shape, dtype = _type(node)
            if node.op == "placeholder":
                inputs.append({"name": node.name, "shape": shape, "dtype": dtype, "role": "data"})
            elif node.op == "get_attr":
                constants.append({"name": node.name, "shape": shape, "dtype": dtype, **_data(node, self.opaque)})
            elif node.op == "call_function":
                self.rows.append({"name": node.name, "op": "call", "target": _target(node),
                                  "args": [encode(a, self.opaque) for a in node.args],
                                  "kwargs": {k: encode(v, self.opaque) for k, v in node.kwargs.items()},
                                  "shape": shape, "dtype": dtype})
            else:
                refuse(node, f"a node of kind {node.op} cannot be read")
        lines = ['"schema": "fx.json/1"', f'"groups": {as_text(self.groups)}']
        self._by_line = {as_text(row): row for row in self.rows}  # names differ, and so do lines
        for key, texts in (("inputs", map(as_text, inputs)), ("constants", map(as_text, constants)),
                           ("nodes", self._by_line), ("outputs", map(as_text, outputs))):
            entries = ",\n".join(texts)
            lines.append(f'"{key}": [' + (f"\n{entries}\n" if entries else "") + "]")
        lines += [f"{as_text(key)}: {as_text(value)}" for key, value in (more or {}).items()]
        self.text = "{\n" + ",\n".join(lines) + "\n}\n"

    def read(self, text: str) -> dict[str, Any]:
        """What passes made of the document; a node that they left alone is its own row."""
        head, begins, rest = text.partition('\n"nodes": [\n')
        if not begins:
            return dict(json.loads(text))
        lines, _, tail = rest.partition("\n]")
        after: dict[str, Any] = json.loads(head + '\n"nodes": []' + tail)
        after["nodes"] = [self._by_line.get(line) or json.loads(line) for line in lines.split(",\n")]
        return after

"""Ops that Weft's passes make, as torch's: nodes "weft.<op>" of an .fx.json document."""

from typing import Any, Callable, Container, Optional

import torch

from .. import _errors

Values = dict[str, Any]


class Calls:
    """The calls of torch's that stand for one op, in order; the last one gives its value."""

    def __init__(self, row: Values, shapes: Values) -> None:
        self.row, self.shapes = row, shapes
        self.rows: list[Values] = []

    def __call__(self, target: str, *args: Any) -> Values:
        """Adds a call; what refers to its value."""
        self.rows.append(dict(self.row, name=f"{self.row['name']}_{len(self.rows)}", target=target, args=list(args), kwargs={}))
        return {"ref": self.rows[-1]["name"]}

    def shape(self, ref: Values) -> Any:
        """Extents of an input."""
        return self.shapes[ref["ref"]]

    def end(self) -> list[Values]:
        """The calls, of which the last one has the op's name."""
        self.rows[-1]["name"] = self.row["name"]
        return self.rows


def _scale(call: Calls, k: Values) -> None:
    scaled = call("aten.mul.Tensor", k["X"], k["scale"])
    if k["bias"] != {"f": 0.0}:
        call("aten.add.Tensor", scaled, k["bias"])


def _slice(call: Calls, k: Values) -> None:
    value = k["Input"]
    for where in zip(k["axes"], k["starts"], k["ends"]):
        value = call("aten.slice.Tensor", value, *where)
    for gone, axis in enumerate(sorted(k.get("decrease_axis", []))):
        value = call("aten.squeeze.dim", value, axis - gone)


def _split(call: Calls, k: Values) -> None:
    if k["sections"]:
        call("aten.split_with_sizes.default", k["X"], k["sections"], k["axis"])
    else:
        call("aten.split.Tensor", k["X"], call.shape(k["X"])[k["axis"]] // k["num"], k["axis"])


def _pad(call: Calls, k: Values) -> None:
    pairs = [k["paddings"][i : i + 2] for i in range(0, len(k["paddings"]), 2)]  # torch begins with the last dimension
    call("aten.constant_pad_nd.default", k["X"], [n for pair in reversed(pairs) for n in pair], k["pad_value"])


def _rows_here(call: Calls, k: Values) -> tuple[Values, Values]:
    """Of indices into a table of which a rank has some rows: where those are, 0 for the others; and which those are."""
    local = call("aten.sub.Tensor", k["Ids"], k["start_index"])
    here = call("aten.logical_and.default", call("aten.ge.Scalar", local, 0), call("aten.lt.Scalar", local, call.shape(k["W"])[0]))
    return call("aten.mul.Tensor", local, here), call("aten.unsqueeze.default", here, -1)


def _embedding(call: Calls, k: Values) -> None:
    rows, here = _rows_here(call, k)
    call("aten.where.ScalarOther", here, call("aten.embedding.default", k["W"], rows), 0.0)


def _embedding_grad(call: Calls, k: Values) -> None:
    rows, here = _rows_here(call, k)
    grad = call("aten.where.ScalarOther", here, k["Out@GRAD"], 0.0)
    call("aten.embedding_dense_backward.default", grad, rows, call.shape(k["W"])[0], -1, False)


def _two(target: str) -> Callable[[Calls, Values], Any]:
    return lambda call, k: call(target, k["X"], k["Y"])


# Of each op the calls that it is; k: its attrs and inputs by name.
WORDS: dict[str, Callable[[Calls, Values], Any]] = {
    "scale": _scale,
    "slice": _slice,
    "split": _split,
    "pad": _pad,
    "assign": lambda call, k: call("aten.clone.default", k["X"]),
    "concat": lambda call, k: call("aten.cat.default", k["X"], k["axis"]),
    "c_embedding": _embedding,
    "c_embedding_grad": _embedding_grad,
    "aten_view": lambda call, k: call("aten.reshape.default", k["self"], k["size"]),
    "elementwise_add": _two("aten.add.Tensor"),
    "elementwise_div": _two("aten.div.Tensor"),
    "elementwise_mul": _two("aten.mul.Tensor"),
    "getitem": lambda call, k: call("aten.alias.default", k["X"]),
}


def _is_tensor(value: Any) -> bool:
    """Whether an argument is a tensor or a list of them."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(v, dict) and "ref" in v for v in values)


def _args_of(schema: Any, k: Values) -> Optional[list[Any]]:
    """The positional arguments of a call of torch's op; None: the schema has no place for one, or lacks one."""
    args = []
    for argument in schema.arguments:
        value = k.get(argument.name, argument.default_value)
        if argument.kwarg_only:
            break
        if argument.name in k and _is_tensor(value) != ("Tensor" in str(argument.type)):
            return None
        if argument.name not in k and not argument.has_default_value() and not str(argument.type).startswith("Optional"):
            return None
        args.append(value)
    return args if k.keys() <= {a.name for a in schema.arguments[: len(args)]} else None


def _by_schema(call: Calls, op: str, k: Values) -> None:
    """An op that torch has by the same name, with arguments of the same names."""
    packet = getattr(torch.ops.aten, op, None)
    for overload in packet.overloads() if packet is not None else ():
        args = _args_of(getattr(packet, overload)._schema, k)
        if args is not None:
            call(f"aten.{op}.{overload}", *args)
            return


ATTR_WORDS = ("long", "double", "ints", "longs", "floats", "doubles", "bools", "strings", "scalar", "scalars")


def _plain(value: Any) -> Any:
    """An attr without the word for its type."""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ATTR_WORDS:
        return next(iter(value.values()))
    return value


def _in_words(row: Values, shapes: Values) -> list[Values]:
    op = row["target"].split(".", 1)[1]
    values = {k: _plain(v) for k, v in row["kwargs"].items() if not k.startswith("weft.")}
    call = Calls(row, shapes)
    if op in WORDS:
        WORDS[op](call, values)
    elif op.startswith("aten_"):
        _by_schema(call, op[len("aten_") :], values)
    if not call.rows:
        raise _errors.Unsupported(f"torch has no op for {op}, which the passes made as {row['name']}: choose other "
                                  "placements or passes", "torch.fx.Graph")
    return call.end()


def _written(row: Values, inputs: Container[str]) -> Optional[Values]:
    """The input that a row gives another value; None: none. The other vars that it may write again are no one else's."""
    written = row["kwargs"].get("weft.out")
    one = written[0] if isinstance(written, list) and len(written) == 1 else None
    return one if isinstance(one, dict) and one.get("ref") in inputs else None


def _to_input(rows: list[Values], place: Values) -> list[Values]:
    """The rows, and the copy of their value into an input: that is how torch writes it."""
    *before, last = rows
    value = dict(last, name=f"{last['name']}_value")
    return [*before, value, dict(last, target="aten.copy_.default", args=[place, {"ref": value["name"]}], kwargs={})]


def in_words(document: Values) -> None:
    """Puts torch's calls in the place of Weft's ops."""
    shapes = {row["name"]: row["shape"] for part in ("inputs", "constants", "nodes") for row in document[part]}
    inputs = {row["name"] for row in document["inputs"]}
    made: list[Values] = []
    for row in document["nodes"]:
        if row["target"] == "getitem" and isinstance(row["args"][0], list):
            continue  # a member that there never was, of a list that is one no more: nothing can read it
        rows = _in_words(row, shapes) if row["target"].startswith("weft.") else [row]
        place = _written(row, inputs)
        made += _to_input(rows, place) if place else rows
    document["nodes"] = made

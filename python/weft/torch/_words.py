"""Ops that Weft's passes make, as torch's: nodes "weft.<op>" of an .fx.json document."""

from typing import Any, Callable, Optional

from .. import _errors

Values = dict[str, Any]
Calls = Optional[list[tuple[str, list[Any]]]]  # targets and arguments; None: torch has none


def _ref(name: str) -> dict[str, str]:
    return {"ref": name}


def _scale(k: Values, x: Values) -> Calls:
    rows: list[tuple[str, list[Any]]] = [("aten.mul.Tensor", [x["X"], k["scale"]])]
    return rows + [("aten.add.Tensor", [None, k["bias"]])] if k["bias"] != {"f": 0.0} else rows


def _slice(k: Values, x: Values) -> Calls:
    if k.get("decrease_axis", {"ints": []})["ints"]:
        return None
    rows = [("aten.slice.Tensor", [x["Input"], *where]) for where in zip(k["axes"], k["starts"], k["ends"])]
    return rows[:1] + [(target, [None, *args[1:]]) for target, args in rows[1:]]


def _split(k: Values, x: Values) -> Calls:
    if k["sections"] != {"ints": []}:
        return [("aten.split_with_sizes.default", [x["X"], k["sections"], k["axis"]])]
    return [("aten.split.Tensor", [x["X"], x["shape"][k["axis"]] // k["num"], k["axis"]])]


def _pad(k: Values, x: Values) -> Calls:
    pairs = [k["paddings"][i : i + 2] for i in range(0, len(k["paddings"]), 2)]  # torch begins with the last dimension
    return [("aten.constant_pad_nd.default", [x["X"], [n for pair in reversed(pairs) for n in pair], k["pad_value"]])]


def _nll_loss(k: Values, x: Values) -> Calls:
    return [("aten.nll_loss_forward.default", [x["self"], x["target"], x.get("weight"), k["reduction"], k["ignore_index"]])]


def _two(target: str) -> Callable[[Values, Values], Calls]:
    return lambda k, x: [(target, [x["X"], x["Y"]])]


# Of each op the calls that it is, one on the value of the other (None); k: its attrs, x: its inputs and the first's shape.
WORDS: dict[str, Callable[[Values, Values], Calls]] = {
    "scale": _scale,
    "slice": _slice,
    "split": _split,
    "pad": _pad,
    "concat": lambda k, x: [("aten.cat.default", [x["X"], k["axis"]])],
    "aten_view": lambda k, x: [("aten.reshape.default", [x["self"], k["size"]])],
    "aten_expand": lambda k, x: [("aten.expand.default", [x["self"], k["size"]])],
    "aten_nll_loss_forward": _nll_loss,
    "elementwise_add": _two("aten.add.Tensor"),
    "elementwise_div": _two("aten.div.Tensor"),
    "elementwise_mul": _two("aten.mul.Tensor"),
    "getitem": lambda k, x: [("aten.alias.default", [x["X"]])],
}


def _plain(value: Any) -> Any:
    """An attr without the word for its type."""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in ("long", "double"):
        return next(iter(value.values()))
    return value


def _is_input(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(v, dict) and "ref" in v for v in values)


def _in_words(row: Values, shapes: Values) -> list[Values]:
    op = row["target"].split(".", 1)[1]
    own = {k: _plain(v) for k, v in row["kwargs"].items() if not k.startswith("weft.")}
    inputs = {k: v for k, v in own.items() if _is_input(v)}
    first = next(iter(inputs.values()), None)
    if isinstance(first, dict):
        inputs["shape"] = shapes.get(first["ref"])
    calls = WORDS[op](own, inputs) if op in WORDS else None
    if calls is None:
        raise _errors.Unsupported(f"torch has no op for {op}, which the passes made as {row['name']}: choose other "
                                  "placements or passes", "torch.fx.Graph")
    made: list[Values] = []
    for number, (target, args) in enumerate(calls):
        name = row["name"] if number + 1 == len(calls) else f"{row['name']}_{number}"
        args = [_ref(made[-1]["name"]) if a is None and not k else a for k, a in enumerate(args)]
        made.append(dict(row, name=name, target=target, args=args, kwargs={}))
    return made


def in_words(document: Values) -> None:
    """Puts torch's calls in the place of Weft's ops."""
    shapes = {row["name"]: row["shape"] for part in ("inputs", "constants", "nodes") for row in document[part]}
    document["nodes"] = [new for row in document["nodes"]
                         for new in (_in_words(row, shapes) if row["target"].startswith("weft.") else [row])]

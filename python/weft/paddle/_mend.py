"""Reduces that Paddle forgets. Its completion gives some gradients none (a convolution's bias, an embedding that is
broadcast over the batch): ranks would drift apart. They get what the other gradients of the program have."""

import logging
from typing import Mapping, Optional, Sequence

from .. import _errors
from .._program import Attr, Op, Program, Var
from .._proof import verify

REDUCES = ("c_allreduce_sum", "all_reduce")
NAMESCOPE = "/auto_parallel/data_parallel"  # how Paddle marks what reduces gradients
log = logging.getLogger("weft")


def _vars(slots: Mapping[str, Sequence[Var]]) -> list[Var]:
    return [var for args in slots.values() for var in args]


def _world(program: Program) -> Optional[tuple[int, list[int]]]:
    """The ring of all ranks that gradients are reduced over: (ring, ranks); None if there are several or none."""
    rings = {op.attr("ring_id", 0) for op in program.ops if op.type in REDUCES and "backward" in op.role}
    if len(rings) != 1:
        return None
    ring = rings.pop()
    ranks = program.ring(ring)
    return (ring, ranks) if ranks == list(range(len(ranks or ()))) and ranks else None


def _pattern(ops: Sequence[Op], ring: int) -> Optional[tuple[str, bool, Optional[float]]]:
    """How a gradient is reduced: the reduce, and the scale that follows, or None. None: not all alike."""
    found = set()
    for op, following in zip(ops, [*ops[1:], None]):
        if op.type not in REDUCES or op.attr("ring_id", 0) != ring or "backward" not in op.role:
            continue
        var = _vars(op.outputs)[0]
        is_scale = following is not None and following.type == "scale" and _vars(following.outputs) == [var]
        found.add((op.type, op.attr("use_calc_stream", True), following.attr("scale", 1.0) if following and is_scale else None))
    return found.pop() if len(found) == 1 else None


def mend(program: Program) -> list[str]:
    """Adds the reduces that are missing; returns the names of the gradients that got one. Raises where it is not
    clear how a gradient is to be reduced."""
    world = _world(program)
    if world is None:
        return []  # gradients on several rings, or programs that differ: weft.verify on all of them tells
    ring, ranks = world
    missing = [f for f in verify(program, ranks=len(ranks)) if f.verdict == "missing_reduce"]
    if not missing:
        return []
    ops = program.ops
    pattern = _pattern(ops, ring)
    unclear = [f for f in missing if len(f.ops) != 2 or "backward" not in ops[f.ops[1].index].role]
    if unclear or pattern is None:
        raise _errors.InvalidProgram("{0.message}: {0.remedy}".format((unclear or missing)[0]), "weft.paddle")
    kind, use_calc_stream, factor = pattern
    slots = ("x", "out") if kind == "all_reduce" else ("X", "Out")
    for value, index in {f.value: f.ops[1].index for f in missing}.items():
        var = program.block.var(value)
        common: dict[str, Attr] = {"op_role": 1, "op_namescope": NAMESCOPE}
        attrs: dict[str, Attr] = {"ring_id": ring, "use_calc_stream": use_calc_stream, **common}
        if kind == "all_reduce":
            attrs["reduce_type"] = 0  # a sum
        last = program.block.insert(kind, {slots[0]: [var]}, {slots[1]: [var]}, attrs, after=ops[index])
        if factor is not None:
            program.block.insert("scale", {"X": [var]}, {"Out": [var]},
                                 {"scale": factor, "bias": 0.0, "bias_after_scale": True, **common}, after=last)
    left = [f for f in verify(program, ranks=len(ranks)) if f.verdict == "missing_reduce"]
    if left:
        raise _errors.InvalidProgram(f"{left[0].message}: {left[0].remedy}", "weft.paddle")
    names = sorted({f.value for f in missing})
    log.warning("Paddle gave no reduce to %s: they have one now", ", ".join(names))
    return names

"""Puts a program that Weft made in the place of a live one.

Only what was edited is copied into the live blocks: Variables, Parameters, Operators and whatever else holds the program
stay valid, and the rest costs nothing. An op that Weft changed or moved keeps the identity of the op that it was.
"""

from typing import Any, Container, Sequence

import paddle
from paddle.base import core, framework

from .. import _errors
from .._program import Edits, Program

KNOWN = ((2, 6), (3, 99))
MOST_ARGUMENTS = 64  # slots with more are not in the patch, each name of which Paddle reads, copies and frees
Slots = Sequence[tuple[bool, bytes, Sequence[bytes]]]
_SHAPED = frozenset((core.VarDesc.VarType.LOD_TENSOR, core.VarDesc.VarType.SELECTED_ROWS))


def refuse_foreign(program: Any) -> None:
    """Raises unless `program` is one that can be read and put back."""
    version = tuple(int(part) for part in paddle.__version__.split(".")[:2] if part.isdigit())
    if version and not KNOWN[0] <= version <= KNOWN[1]:
        raise _errors.Unsupported(f"PaddlePaddle {paddle.__version__}: expected 2.6 or 3.x: pip install "
                                  "'paddlepaddle>=2.6,<4'", "weft.paddle")
    if isinstance(program, framework.Program):
        return
    kind = type(program)
    if "pir" in kind.__module__.lower():
        raise _errors.Unsupported("this is a PIR program: run the script with FLAGS_enable_pir_api=0, so that Paddle makes "
                                  "a legacy one", "weft.paddle")
    raise TypeError(f"expected a paddle.static.Program, found {kind.__name__}: build the model under "
                    "paddle.enable_static() in a program_guard")


def refuse_translation() -> None:
    """Raises where Paddle would translate the program to PIR as it runs, which knows neither buckets nor waits."""
    flag = "FLAGS_enable_pir_in_executor"
    if not paddle.__version__.startswith("2.") and paddle.get_flags(flag)[flag]:
        raise _errors.Unsupported(f"Paddle {paddle.__version__} would translate the program to PIR as it runs it: run the "
                                  f"script with {flag}=0 and FLAGS_enable_pir_api=0 in the environment", "weft.paddle")


def _copy_var(block: Any, made: Any) -> bool:
    """Makes a var of the live block like `made`; returns whether it is new. Thousands may come: each call into Paddle
    counts."""
    name = made.name()
    live = block.desc.find_var(name.encode())
    kind = made.type()
    is_new = live is None
    if is_new:
        live = block.desc.var(name.encode())
        live.set_type(kind)
        live.set_persistable(made.persistable())
    if kind in _SHAPED:
        live.set_shape(made.shape())
        live.set_dtype(made.dtype())
    if is_new:
        stops = made.has_stop_gradient() and made.stop_gradient()
        block.create_var(name=name, desc=live, type=kind, stop_gradient=stops)
    return is_new


def _copy_op(program: Any, block: Any, made: Any, long_slots: Slots, at: int, old: Any, new_vars: Container[str]) -> Any:
    """Inserts `made`, of another program, into the live block; long_slots are those that it lacks."""
    fresh = block.desc._insert_op(at)
    fresh.set_type(made.type())
    op = framework.Operator(block, fresh)  # without arguments, for each of which it would ask for vars: a bucket has thousands
    fresh.copy_from(made)
    for is_output, slot, names in long_slots:
        (fresh.set_output if is_output else fresh.set_input)(slot, names)
    for name in made.attr_names():
        kind = made.attr_type(name)
        if kind == core.AttrType.BLOCK:
            fresh.set_block_attr(name, program.desc.block(made._block_attr_id(name)))
        elif kind == core.AttrType.BLOCKS:
            fresh.set_blocks_attr(name, [program.desc.block(i) for i in made._blocks_attr_ids(name)])
        elif kind == core.AttrType.VAR:
            fresh.set_var_attr(name, block.desc.find_var_recursive(made.attr(name, True).name().encode()))
        elif kind == core.AttrType.VARS:
            fresh.set_vars_attr(name, [block.desc.find_var_recursive(v.name().encode()) for v in made.attr(name, True)])
    if old is not None:
        fresh.set_original_id(old.desc.original_id())
    for name in fresh.output_arg_names():
        if name in new_vars and block.vars[name].op is None:
            block.vars[name].op = op
    return op


def _replace_ops(program: Any, block: Any, edits: Edits, made: Any,
                 new_vars: Container[str]) -> tuple[list[Any], list[Any]]:
    """Carries edits over to a live block: `made` has the edited ops in order, without long slots. Returns the ops, and of
    each the old one that it was, or None."""
    after: list[Any] = []
    was: list[Any] = []
    before, reached, next_made = block.ops, 0, 0
    runs: list[Any] = list(edits.runs(block.idx))
    for run, (source, count, is_edited) in enumerate(runs):
        if is_edited:
            was.append(before[source] if source is not None else None)
            long_slots = edits.long_slots(block.idx, run, MOST_ARGUMENTS)
            after.append(_copy_op(program, block, made.op(next_made), long_slots, len(after), was[-1], new_vars))
            next_made += 1
            continue
        if source > reached:  # those between the last one that stayed and this one went or moved
            block.desc._remove_op(len(after), len(after) + source - reached)
        after += before[source : source + count]
        was += before[source : source + count]
        reached = source + count
    if len(before) > reached:
        block.desc._remove_op(len(after), len(after) + len(before) - reached)
    block.ops = after
    return after, was


def _remove_vars(block: Any, kept: Container[str]) -> None:
    """Takes vars out of a live block that are not among `kept`, names."""
    for name in [v.name() for v in block.desc.all_vars() if v.name() not in kept]:
        block.desc._remove_var(name.encode())
        block.vars.pop(name, None)


def replace(program: Any, todo: Program, edits: Edits, dist_context: Any = None) -> None:
    """Makes the live `program` what Weft's `todo` is; `edits` were begun when it was read."""
    blocks = todo.blocks
    if len(blocks) != program.num_blocks:
        raise _errors.Unsupported(f"the passes made {len(blocks)} blocks of {program.num_blocks}", "weft.paddle")
    made = core.ProgramDesc(edits.find().print(MOST_ARGUMENTS))
    for index in range(len(blocks)):
        live = program.block(index)
        new_vars = {var.name() for var in made.block(index).all_vars() if _copy_var(live, var)}
        after, was = _replace_ops(program, live, edits, made.block(index), new_vars)
        if edits.removes_vars(index):
            _remove_vars(live, set(blocks[index].vars))
        if dist_context is not None:
            from ._sidecar import keep_dist_ops

            keep_dist_ops(dist_context, todo.sidecar(), index, list(zip(after, was)))

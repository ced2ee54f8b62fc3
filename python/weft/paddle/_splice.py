"""Puts a program that Weft made in the place of a live one.

Ops are copied into the live blocks, so that Variables, Parameters and whatever else holds the program stay valid. An op
that Weft kept has the number of the op that it was in the attr weft_source: it keeps that op's identity.
"""

import paddle
from paddle.base import core, framework

from .. import _errors

KNOWN = ((2, 6), (3, 99))


def refuse_foreign(program):
    """Raises unless `program` is one that can be read and put back."""
    version = tuple(int(part) for part in paddle.__version__.split(".")[:2] if part.isdigit())
    if version and not KNOWN[0] <= version <= KNOWN[1]:
        raise _errors.Unsupported(f"PaddlePaddle {paddle.__version__}: expected 2.6 or 3.x", "weft.paddle")
    if isinstance(program, framework.Program):
        return
    kind = type(program)
    if "pir" in kind.__module__.lower():
        raise _errors.Unsupported("this is a PIR program: run the script with FLAGS_enable_pir_api=0, so that Paddle makes "
                                  "a legacy one", "weft.paddle")
    raise TypeError(f"expected a paddle.static.Program, found {kind.__name__}: build the model under "
                    "paddle.enable_static() in a program_guard")


def _copy_var(block, made):
    """Makes a var of the live block like `made`; new if there is none."""
    name = made.name()
    if not block.has_var(name):
        fresh = block.desc.var(name.encode())
        fresh.set_type(made.type())
        fresh.set_persistable(made.persistable())
    live = block.desc.find_var(name.encode())
    if made.type() not in (core.VarDesc.VarType.LOD_TENSOR, core.VarDesc.VarType.SELECTED_ROWS):
        return
    if live.shape() != made.shape():
        live.set_shape(made.shape())
    if live.dtype() != made.dtype():
        live.set_dtype(made.dtype())


def _copy_op(program, block, made, old):
    """Appends `made`, of another program, to the live block."""
    fresh = block.desc.append_op()
    fresh.copy_from(made)
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
    if fresh.has_attr("weft_source"):
        fresh.remove_attr("weft_source")
    if old is not None:
        fresh.set_original_id(old.desc.original_id())
    return framework.Operator(block, fresh)


def _replace_block(program, block, made):
    """Gives a live block the vars and ops of `made`. New ops by the old one that each was, or None."""
    for var in made.all_vars():
        _copy_var(block, var)
    before, taken, after = list(block.ops), set(), []
    for index in range(made.op_size()):
        op = made.op(index)
        source = op.attr("weft_source") if op.has_attr("weft_source") else None
        old = before[source] if source is not None and source not in taken else None
        taken.add(source)
        after.append((_copy_op(program, block, op, old), old))
    block.desc._remove_op(0, len(before))
    block.ops = [op for op, _ in after]
    for name in [v.name() for v in block.desc.all_vars() if not made.has_var(v.name().encode())]:
        block.desc._remove_var(name.encode())
        block.vars.pop(name, None)
    block._sync_with_cpp()
    return after


def replace(program, todo, dist_context=None):
    """Makes the live `program` what Weft's `todo` is."""
    made = core.ProgramDesc(todo.print("pdmodel"))
    if made.num_blocks() != program.num_blocks:
        raise _errors.Unsupported(f"the passes made {made.num_blocks()} blocks of {program.num_blocks}", "weft.paddle")
    for index in range(made.num_blocks()):
        after = _replace_block(program, program.block(index), made.block(index))
        if dist_context is not None:
            from ._sidecar import keep_dist_ops

            keep_dist_ops(dist_context, todo, index, after)

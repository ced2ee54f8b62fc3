"""Weft in a Paddle script: passes over a live paddle.static.Program, replaced in place.

    import weft.paddle
    weft.paddle.optimize(main_program, ranks=2)      # a serial program becomes one rank's of two, its reduces made cheap

Works with PaddlePaddle 2.6 and, on programs of the legacy form, 3.x. Everything that does not fit is refused before the
program is touched.
"""

from typing import Any, Mapping, Optional

from .._passes import Passes, Report, preset
from .._program import Program
from ._sidecar import sidecar_of
from ._splice import refuse_foreign, refuse_translation, replace

__all__ = ["connect", "install", "optimize", "read", "uninstall"]


def read(program: Any, dist_context: Any = None) -> Program:
    """The live program as Weft's: a copy. dist_context gives it the framework's meshes, placements and rings."""
    refuse_foreign(program)
    beside = sidecar_of(program, dist_context) if dist_context is not None else None
    return Program.parse(program.desc.serialize_to_string(), "pdmodel", sidecar=beside, place="paddle.static.Program")


def optimize(program: Any, passes: Optional[Passes] = None, *, ranks: Optional[int] = None, dist_context: Any = None,
             set: Optional[Mapping[str, object]] = None, prove: Optional[str] = None) -> Report:
    """Runs passes over a live program and puts the result in its place; returns the Report.

    passes: as for weft.run_passes. None: with `ranks` a serial program becomes one rank's of so many (the preset
    "data_parallel"), without it a program that is already partitioned is optimized ("data_parallel_optimization").
    dist_context: the DistributedContext of Paddle's static Engine. Gradients that its completion gave no reduce get one.

    Variables and Parameters that the script holds stay valid. If a pass refuses, the program is as it was.
    """
    todo = read(program, dist_context)
    refuse_translation()
    edits = todo.edits()
    if dist_context is not None:
        from ._mend import mend

        mend(todo)
    if passes is None:
        passes = preset("data_parallel" if ranks else "data_parallel_optimization")
        set = dict({"data_parallel.ranks": ranks} if ranks else {}, **(set or {}))
    report = todo.run_passes(passes, set=set, prove=prove)
    replace(program, todo, edits, dist_context)
    return report


def connect(program: Any) -> None:
    """Makes the communicators of a program on CPU processes, over Gloo: for each ring, of all processes.

    All of them call it before the first step. Ranks and endpoints are those of PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM
    and PADDLE_TRAINER_ENDPOINTS, which paddle.distributed.launch sets.
    """
    from ._cpu import connect as ring_of_all

    for ring in sorted({op.attr("ring_id") for block in program.blocks for op in block.ops if op.has_attr("ring_id")}):
        ring_of_all(ring)


def install() -> None:
    """Puts Weft's passes in the place of Paddle's data-parallel optimization pass. Engine scripts then use them.

    On a build of Paddle without a device the Engine refuses to start: there its communicators are made over Gloo, so that
    the script runs on CPU processes.
    """
    from ._install import install as do

    do()


def uninstall() -> None:
    """Puts back what Paddle had."""
    from ._install import uninstall as do

    do()

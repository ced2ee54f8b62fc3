"""Weft's passes under the name of Paddle's own, where the static Engine looks them up."""

from typing import Any

from paddle.distributed.fleet.meta_optimizers.raw_program_optimizer import RawProgramOptimizer
from paddle.distributed.passes import pass_base

from .._passes import Report
from . import _cpu
from ._mend import NAMESCOPE, REDUCES

NAME = "auto_parallel_data_parallel_optimization"
_own: dict[str, Any] = {}


class WeftDataParallelOptimization(pass_base.PassBase):
    """Takes the config that the Engine gives its own pass; reports is what each run did."""

    reports: list[Report] = []

    def __init__(self) -> None:
        super().__init__()
        self.set_attr("dist_context", None)
        self.set_attr("global_rank", -1)

    def _check_self(self) -> bool:
        return bool(self.get_attr("dist_context") is not None and self.get_attr("global_rank") >= 0)

    def _check_conflict(self, other_pass: Any) -> bool:
        return True

    def _type(self) -> Any:
        return pass_base.PassType.COMM_OPT

    def _apply_single_impl(self, main_program: Any, startup_program: Any, context: Any) -> None:
        from . import optimize

        self.reports.append(optimize(main_program, dist_context=self.get_attr("dist_context")))


def _reduce_gradients(optimizer: Any) -> None:
    """In the place of fleet's coalescing: a reduce a gradient, and Weft's passes over them."""
    from . import optimize

    optimizer._insert_allreduce_ops()
    for op in optimizer.main_program.global_block().ops:
        if op.type in REDUCES and op.attr("ring_id") == optimizer.global_ring_id:
            op._set_attr("op_namescope", NAMESCOPE)
    WeftDataParallelOptimization.reports.append(optimize(optimizer.main_program))


def install() -> None:
    _cpu.install()
    registered = pass_base.PassBase._REGISTERED_PASSES
    if registered.get(NAME) is WeftDataParallelOptimization:
        return
    import paddle.distributed.passes  # Paddle's own is registered by now

    _own[NAME] = registered[NAME]
    registered[NAME] = WeftDataParallelOptimization
    WeftDataParallelOptimization.name = NAME
    _own["fleet"], RawProgramOptimizer._allreduce_fusion_program = RawProgramOptimizer._allreduce_fusion_program, _reduce_gradients


def uninstall() -> None:
    _cpu.uninstall()
    if NAME in _own:
        pass_base.PassBase._REGISTERED_PASSES[NAME] = _own.pop(NAME)
        RawProgramOptimizer._allreduce_fusion_program = _own.pop("fleet")

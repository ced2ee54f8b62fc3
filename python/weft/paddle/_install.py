"""Weft's passes under the name of Paddle's own, where the static Engine looks them up."""

from paddle.distributed.passes import pass_base

from . import _cpu

NAME = "auto_parallel_data_parallel_optimization"
_own = {}


class WeftDataParallelOptimization(pass_base.PassBase):
    """Takes the config that the Engine gives its own pass; reports is what each run did."""

    reports = []

    def __init__(self):
        super().__init__()
        self.set_attr("dist_context", None)
        self.set_attr("global_rank", -1)

    def _check_self(self):
        return self.get_attr("dist_context") is not None and self.get_attr("global_rank") >= 0

    def _check_conflict(self, other_pass):
        return True

    def _type(self):
        return pass_base.PassType.COMM_OPT

    def _apply_single_impl(self, main_program, startup_program, context):
        from . import optimize

        self.reports.append(optimize(main_program, dist_context=self.get_attr("dist_context")))


def install():
    _cpu.install()
    registered = pass_base.PassBase._REGISTERED_PASSES
    if registered.get(NAME) is WeftDataParallelOptimization:
        return
    import paddle.distributed.passes  # Paddle's own is registered by now

    _own[NAME] = registered[NAME]
    registered[NAME] = WeftDataParallelOptimization
    WeftDataParallelOptimization.name = NAME


def uninstall():
    _cpu.uninstall()
    if NAME in _own:
        pass_base.PassBase._REGISTERED_PASSES[NAME] = _own.pop(NAME)

"""Paddle's static Engine and fleet on CPU processes.

A build of Paddle without a device refuses both: it makes communicators for devices alone, and asks a device how large it
is. Here communicators are made over Gloo, and the cluster is as many ranks as there are processes.
"""

from typing import Any, Optional, Sequence

import paddle
from paddle.base import core
from paddle.distributed.auto_parallel.static import engine as static_engine
from paddle.distributed.auto_parallel.static.cluster import Cluster
from paddle.distributed.auto_parallel.static.process_group import ProcessGroup
from paddle.distributed.fleet.fleet import Fleet
from paddle.distributed.fleet.meta_optimizers.common import CollectiveHelper

from .. import _errors

STREAM_WAITS = ("c_sync_calc_stream", "c_sync_comm_stream", "sync_calc_stream", "sync_comm_stream")
_own: dict[tuple[Any, str], Any] = {}  # what was replaced, by (holder, name)
_made: set[int] = set()  # rings that have a communicator


def has_device() -> bool:
    return bool(core.is_compiled_with_cuda() or core.is_compiled_with_xpu() or core.get_all_custom_device_type())


def _env() -> Any:
    return paddle.distributed.ParallelEnv()


def connect(ring: int, ranks: Optional[Sequence[int]] = None) -> None:
    """Makes the communicator of a ring over Gloo, on all its ranks at once. ranks: None: all."""
    env = _env()
    ranks = list(range(env.world_size)) if ranks is None else ranks
    if ring in _made or len(ranks) < 2 or env.rank not in ranks:
        return
    if paddle.__version__.startswith("2."):  # one communicator for all rings
        if list(ranks) != list(range(env.world_size)):
            raise _errors.Unsupported(f"ring {ring} is of ranks {list(ranks)} among {env.world_size}: on CPU Paddle 2 joins "
                                      "all processes or none; use Paddle 3, or one mesh dimension", "weft.paddle")
        if not _made:
            paddle.distributed.gloo_init_parallel_env(env.rank, env.world_size, env.trainer_endpoints[0])
    else:
        store = core.create_or_get_global_tcp_store()
        core.CommContextManager.create_gloo_comm_context(store, str(ring), list(ranks).index(env.rank), len(ranks))
    _made.add(ring)


def _instantiate(group: Any) -> None:
    if not group._is_instantiate:
        connect(group.id, group.ranks)
        group._is_instantiate = True


def _init_communicator(_helper: Any, _program: Any, here: Any, ends: Sequence[str], _rank: Any, ring: int, *_waits: Any,
                       **_more: Any) -> None:
    if here:  # else the others only wait for one another
        connect(ring, [_env().trainer_endpoints.index(end) for end in ends])


def _minimize(fleet: Any, loss: Any, startup: Any = None, *args: Any, **kwargs: Any) -> Any:
    """fleet's own, less the waits for streams that a CPU does not have."""
    made = _own[Fleet, "_minimize_impl"](fleet, loss, startup, *args, **kwargs)
    if not paddle.in_dynamic_mode():
        for program in (loss.block.program, startup or paddle.static.default_startup_program()):
            for block in program.blocks:
                for index in reversed([i for i, op in enumerate(block.ops) if op.type in STREAM_WAITS]):
                    block._remove_op(index)
    return made


def _cluster(*_args: Any, **_kwargs: Any) -> Any:
    made = Cluster()
    made.gen_default_config_cluster(node_count=1, device_count=_env().world_size)
    return made


def _replace(holder: Any, name: str, new: Any) -> None:
    _own[holder, name] = getattr(holder, name)
    setattr(holder, name, new)


def install() -> None:
    if has_device() or _own:
        return
    _replace(ProcessGroup, "instantiate", _instantiate)
    _replace(static_engine, "get_default_cluster", _cluster)
    _replace(CollectiveHelper, "_init_communicator", _init_communicator)
    _replace(Fleet, "_minimize_impl", _minimize)
    if not paddle.__version__.startswith("2."):
        _replace(paddle.device, "synchronize", lambda device=None: None)  # Paddle's own knows devices alone


def uninstall() -> None:
    for (holder, name), old in _own.items():
        setattr(holder, name, old)
    _own.clear()

"""The passes that Weft runs over torch's graphs where a script names none."""

from typing import Any, Mapping, Optional

from .._passes import Passes

_BUCKETS, _MODE = "fuse_allreduce_buckets", {"mode": "coalesced"}  # torch has no op for what other modes make
PASSES: Passes = [(_BUCKETS, _MODE), "schedule_comm_wait", "insert_comm_wait"]
PARTED: Passes = ["spmd_expand", (_BUCKETS, _MODE), "schedule_comm_wait", "insert_comm_wait"]


def _entry(given: Any) -> Any:
    if given == _BUCKETS:
        return _BUCKETS, _MODE
    if isinstance(given, tuple) and given[0] == _BUCKETS:
        return _BUCKETS, {**_MODE, **given[1]}
    if isinstance(given, Mapping) and _BUCKETS in given:
        return {_BUCKETS: {**_MODE, **(given[_BUCKETS] or {})}}
    return given


def chosen(passes: Optional[Passes]) -> Passes:
    """A list as given, with buckets that torch has an op for where it does not say how they are made."""
    if passes is None or not isinstance(passes, (list, tuple)):
        return PASSES if passes is None else passes
    return [_entry(given) for given in passes]

"""The passes that Weft runs over torch's graphs where a script names none."""

from typing import Optional

from .._passes import Passes

_BUCKETS = ("fuse_allreduce_buckets", {"mode": "coalesced"})  # torch has no op for what other modes make
PASSES: Passes = [_BUCKETS, "schedule_comm_wait", "insert_comm_wait"]
PARTED: Passes = ["spmd_expand", _BUCKETS, "schedule_comm_wait", "insert_comm_wait"]


def chosen(passes: Optional[Passes]) -> Passes:
    """A list as given, with buckets that torch has an op for where it does not say how they are made."""
    if passes is None or not isinstance(passes, (list, tuple)):
        return PASSES if passes is None else passes
    return [_BUCKETS if entry == "fuse_allreduce_buckets" else entry for entry in passes]

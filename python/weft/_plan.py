"""Plans: memory, instructions per stream, events; and models of time on described clusters."""

import ctypes
import os
from typing import Any, Iterable, NamedTuple, Optional, Sequence, Union

from . import _abi as abi
from . import _html
from ._library import Owned, Path, call, context, create, handles, lib, raw, strings, take_bytes, text
from ._program import Program, Programs, programs_of
from ._tensors import Tensors, tensors_of


class PlanValue(NamedTuple):
    """A value that the plan has room for."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    persistable: bool
    is_feed: bool
    is_fetch: bool


class Plan(Owned):
    """What will happen when a program runs; `print(plan)` shows all of it."""

    _destroy = "weft_plan_destroy"

    def __init__(self, handle: ctypes.c_void_p, *made_from: object) -> None:
        self._own(handle, *made_from)

    @classmethod
    def parse(cls, data: Union[str, bytes], place: str = "memory") -> "Plan":
        """Reads what str(plan) gave."""
        data = data.encode() if isinstance(data, str) else data
        return cls(create("weft_plan_parse", context, data, len(data), raw(place)))

    @property
    def summary(self) -> dict[str, int]:
        """Counts and bytes by name, as in weft_plan_summary."""
        out = abi.weft_plan_summary()
        lib.weft_plan_summarize(self._handle, ctypes.byref(out))
        return {field[0]: getattr(out, field[0]) for field in out._fields_}

    @property
    def values(self) -> list[PlanValue]:
        """In the order of the plan."""
        out, found = abi.weft_plan_value(), []
        for i in range(lib.weft_plan_nvalues(self._handle)):
            lib.weft_plan_value_at(self._handle, i, ctypes.byref(out))
            dtype = text(lib.weft_dtype_name(out.dtype))
            found.append(PlanValue(text(out.name), dtype, tuple(out.dims[: out.ndim]), out.persistable, out.is_feed,
                                   out.is_fetch))
        return found

    def __str__(self) -> str:
        return take_bytes("weft_plan_print", self._handle).decode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        s = self.summary
        return f"<weft.Plan: {s['ninstructions']} instructions on {s['nstreams']} streams, {s['nevents']} events, " \
               f"{s['persistent_nbytes'] + s['temporary_nbytes']} bytes>"

    def _repr_html_(self) -> str:
        return _html.table("Weft plan", ("what", "number"), self.summary.items())


def plan(program: Union[Program, Path], *, fetches: Iterable[str] = ()) -> Plan:
    """Plans a program whose extents are all known, for one rank."""
    (one,) = programs_of(program)
    names, count = strings(fetches)
    options = abi.weft_plan_options(fetches=names, nfetches=count)
    return Plan(create("weft_plan_create", one._handle, ctypes.byref(options)))


class Feeds(Owned):
    """What is fed in which step to which rank, sorted by shapes."""

    _destroy = "weft_feeds_destroy"

    def __init__(self, programs: Sequence[Program], ranks: int, feeds: Tensors) -> None:
        given = tensors_of(feeds, programs[0])
        sets = [given] if given is not None else []
        array, _ = handles(sets) if sets else (None, 0)
        progs, nprograms = handles(programs)
        options = abi.weft_feeds_options(programs=progs, nprograms=nprograms, nranks=ranks, sets=array)
        self._own(create("weft_feeds_create", context, ctypes.byref(options)), programs, sets)


class _Plans:
    """Plans of all ranks."""

    def __init__(self, programs: Sequence[Program], ranks: int, feeds: Optional[Tensors], fetches: Iterable[str]) -> None:
        self.feeds = Feeds(programs, ranks, feeds) if feeds is not None else None
        progs, nprograms = handles(programs)
        names, nfetches = strings(fetches)
        options = abi.weft_plans_options(programs=progs, nprograms=nprograms, nranks=ranks, fetches=names,
                                         nfetches=nfetches)
        if self.feeds is not None:
            options.feeds, options.nfeeds = lib.weft_feeds_types(self.feeds._handle, 0), ranks
        self.plans, self.count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
        call("weft_plans_create", context, ctypes.byref(options), ctypes.byref(self.plans), ctypes.byref(self.count))

    def __del__(self) -> None:
        if getattr(self, "plans", None):
            lib.weft_plans_destroy(context, self.plans, self.count)


# --- timelines ----------------------------------------------------------------------------------------------------


class Timeline:
    """Ops over time, a lane per rank and stream. A notebook shows it; save() writes .json (Perfetto) or .html."""

    def __init__(self, json: str, html: str) -> None:
        self.json, self.html = json, html

    def save(self, path: Path) -> None:
        """Writes .json or .html."""
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(self.html if os.fspath(path).endswith(".html") else self.json)

    def __repr__(self) -> str:
        return f"<weft.Timeline: {len(self.json)} bytes of JSON>"

    def _repr_html_(self) -> str:
        return _html.frame(self.html)


def timeline_of(kind: str, handle: Any, title: str) -> Timeline:
    """The timeline of an executor or a simulation."""
    json = take_bytes(f"weft_{kind}_trace_json", handle)
    html = take_bytes(f"weft_{kind}_trace_html", handle, raw(title))
    return Timeline(*(b.decode("utf-8", "surrogateescape") for b in (json, html)))


class RankTimes(NamedTuple):
    """Seconds of one rank in a step."""

    compute: float
    collective: float
    exposed: float  # in a collective while compute ran nothing


def rank_times_of(kind: str, handle: Any, rank: int) -> RankTimes:
    out = abi.weft_rank_times()
    call(f"weft_{kind}_rank_times", handle, rank, ctypes.byref(out))
    return RankTimes(out.compute_seconds, out.collective_seconds, out.exposed_seconds)


# --- simulation ---------------------------------------------------------------------------------------------------


class Cluster:
    """What programs run on, for models of time.

    flops, bytes: a second on one stream; op_seconds: what an instruction takes beside that; links: from the smallest
    groups of ranks to the largest, (ranks of a group, bytes a second, seconds a message). 0 is the default.
    """

    def __init__(self, flops: float = 0.0, bytes: float = 0.0, op_seconds: float = 0.0,
                 links: Sequence[tuple[int, float, float]] = ()) -> None:
        self._struct = abi.weft_cluster(flops=flops, bytes=bytes, op_seconds=op_seconds, nlinks=len(links))
        for i, (nranks, rate, seconds) in enumerate(links):
            self._struct.links[i] = abi.weft_link(nranks, rate, seconds)

    @classmethod
    def load(cls, path: Path) -> "Cluster":
        """Reads a cluster file (docs/clusters.md)."""
        made = cls()
        call("weft_cluster_load", context, raw(path), ctypes.byref(made._struct))
        return made


class Race(NamedTuple):
    """Two ops that touched a value with nothing to order them."""

    rank: int
    step: int
    count: int  # type: ignore[assignment]  # how often
    first: str  # "op #index on stream"
    second: str
    value: str


class Simulation(Owned):
    """Steps on virtual clocks: see weft.simulate."""

    _destroy = "weft_simulation_destroy"

    def __init__(self, programs: Programs, ranks: int, cluster: Union[Cluster, Path, None], feeds: Optional[Tensors],
                 fetches: Iterable[str], unsafe: bool) -> None:
        own = programs_of(programs)
        self.ranks = ranks or len(own)
        plans = _Plans(own, self.ranks, feeds, fetches)
        options = abi.weft_simulation_options(unsafe=unsafe)
        if cluster is not None:
            cluster = cluster if isinstance(cluster, Cluster) else Cluster.load(cluster)
            options.cluster = ctypes.pointer(cluster._struct)
        self._own(create("weft_simulation_create", context, plans.plans, plans.count, self.ranks, ctypes.byref(options)),
                  plans, own)

    def step(self) -> float:
        """One more step; its seconds."""
        call("weft_simulation_run", self._handle)
        return self.step_seconds

    @property
    def step_seconds(self) -> float:
        """What the last step took, by the model."""
        return lib.weft_simulation_step_seconds(self._handle)

    def rank_times(self, rank: int = 0) -> RankTimes:
        """What a rank did in the last step."""
        return rank_times_of("simulation", self._handle, rank)

    @property
    def races(self) -> list[Race]:
        """What was seen in all steps."""

        def side(a: Any) -> str:
            return f"{text(a.type)} #{a.op_index} on {text(a.stream) or 'compute'}"

        found, out = [], abi.weft_seen_race()
        for i in range(lib.weft_simulation_nraces(self._handle)):
            lib.weft_simulation_race_at(self._handle, i, ctypes.byref(out))
            found.append(Race(out.rank, out.step, out.count, side(out.first), side(out.second), text(out.first.value)))
        return found

    def timeline(self, title: str = "weft simulate") -> Timeline:
        """The last step, a lane per rank and stream."""
        return timeline_of("simulation", self._handle, title)

    def __repr__(self) -> str:
        return f"<weft.Simulation: {self.ranks} ranks, step {self.step_seconds * 1e3:.3f} ms, {len(self.races)} races>"

    def _repr_html_(self) -> str:
        return self.timeline()._repr_html_()


def simulate(programs: Programs, *, ranks: int = 0, cluster: Union[Cluster, Path, None] = None,
             feeds: Optional[Tensors] = None, fetches: Iterable[str] = (), steps: int = 1,
             unsafe: bool = False) -> Simulation:
    """How long a step takes by a model, and what races in it; nothing is computed.

    programs: one for all ranks, or one each. cluster: a Cluster or a cluster file. feeds: arrays by name, where the
    program's extents are open.
    """
    made = Simulation(programs, ranks, cluster, feeds, fetches, unsafe)
    for _ in range(steps):
        made.step()
    return made

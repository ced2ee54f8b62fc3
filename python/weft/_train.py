"""Steps over a program, on ranks that are threads of this process."""

import ctypes
import sys
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union, cast

import numpy as np

from . import _abi as abi
from ._library import Owned, call, context, create, handles, lib, strings, text
from ._plan import RankTimes, Timeline, rank_times_of, timeline_of
from ._program import Program, Programs, programs_of
from ._proof import check_replicas
from ._tensors import Array, Tensors, TensorSet, array_of, tensors_of

Feed = Union[Tensors, Sequence[Mapping[str, Any]]]


def _feed_set(feeds: Feed, program: Program) -> Optional[TensorSet]:
    """Feeds as one set: a file, arrays by "STEP/NAME" or "NAME", or a sequence of a dict a step."""
    if isinstance(feeds, (list, tuple)):
        return tensors_of({f"{step}/{name}": value for step, one in enumerate(feeds) for name, value in one.items()})
    return tensors_of(cast(Tensors, feeds), program)


class Trainer(Owned):
    """Trains programs: iterate over it, or call step(). One thread at a time; Ctrl-C ends after the running step.

        trainer = weft.Trainer("dp.pdmodel", ranks=4, params="params.npz", feeds=feeds, fetches=["loss"])
        for step in trainer:
            print(step, trainer.fetch("loss"))

    programs: one for all ranks, or one each. params, state: arrays by name or a file. startups: programs that
    initialise. feeds: arrays by "STEP/NAME" or "NAME", a sequence of a dict a step, or a file: the global batch; with
    feeds_per_rank a list of these, one a rank. Arrays are lent, not copied: leave them alone while the trainer lives.
    Programs whose replicas would drift apart raise InvalidProgram; unsafe=True trains them all the same.
    """

    _destroy = "weft_trainer_destroy"

    def __init__(self, programs: Programs, *, ranks: int = 0, params: Optional[Tensors] = None,
                 state: Optional[Tensors] = None, startups: Programs = (), feeds: Optional[Feed] = None,
                 feeds_per_rank: Optional[Sequence[Feed]] = None, fetches: Iterable[str] = (), steps: int = 0,
                 first_step: int = 0, threads: int = 0, seed: int = 0,
                 trace: bool = False, unsafe: bool = False) -> None:
        own, starting = programs_of(programs), programs_of(startups)
        self.ranks = ranks or len(own)
        if not unsafe:
            check_replicas(own, self.ranks)
        parameters, held = tensors_of(params, own[0]), tensors_of(state, own[0])
        given = [_feed_set(f, own[0]) for f in feeds_per_rank or ([feeds] if feeds is not None else [])]
        sets = [s for s in given if s is not None]
        o = abi.weft_trainer_options(nranks=ranks, first_step=first_step, nsteps=steps,
                                     feeds_per_rank=feeds_per_rank is not None)
        o.programs, o.nprograms = handles(own)
        o.startups, o.nstartups = handles(starting)
        o.fetches, o.nfetches = strings(fetches)
        o.params = parameters._handle if parameters else None
        if held:
            o.state, _ = handles([held])
        if sets:
            o.feeds, _ = handles(sets)
        executor = abi.weft_executor_options(nthreads=threads, seed=seed, trace=trace, unsafe=unsafe)
        o.executor = ctypes.pointer(executor)
        self._own(create("weft_trainer_create", context, ctypes.byref(o)), own, starting, parameters, held, sets)
        self._next = self.first_step = lib.weft_trainer_first_step(self._handle)
        self.steps = lib.weft_trainer_nsteps(self._handle)

    @property
    def fetches(self) -> list[str]:
        """Names of what is fetched."""
        return [text(lib.weft_trainer_fetch_name(self._handle, i))
                for i in range(lib.weft_trainer_nfetches(self._handle))]

    def step(self) -> int:
        """The next step on all ranks; its number."""
        call("weft_trainer_step", self._handle, self._next)
        self._next += 1
        return self._next - 1

    def __iter__(self) -> Iterator[int]:
        while self._next < self.first_step + self.steps:
            yield self.step()

    def fetch(self, name: Union[int, str] = 0, rank: int = 0, copy: bool = True) -> Optional[Array]:
        """A fetch, by name or number, of the last step; None: that rank has none. Without copy a view that holds until
        the next step."""
        index, out = self.fetches.index(name) if isinstance(name, str) else name, abi.weft_tensor()
        call("weft_trainer_fetch", self._handle, rank, index, ctypes.byref(out))
        return array_of(out, self, copy)

    @property
    def step_seconds(self) -> float:
        """What the last step took."""
        return lib.weft_executor_step_seconds(lib.weft_trainer_executor(self._handle))

    def result(self) -> dict[str, Array]:
        """Every persistable and every fetch, of all ranks joined: arrays by name."""
        return TensorSet(create("weft_trainer_result", self._handle)).arrays()

    def rank_result(self, rank: int) -> dict[str, Array]:
        """The same as that rank holds it."""
        out = ctypes.c_void_p()
        call("weft_trainer_rank_result", self._handle, rank, ctypes.byref(out))
        return TensorSet(out).arrays()

    def state(self) -> dict[str, Array]:
        """Parameters, optimizer state and what else lives across steps: what `state` of another trainer takes."""
        return TensorSet(create("weft_trainer_state", self._handle)).arrays()

    def rank_times(self, rank: int = 0) -> RankTimes:
        """Of the last step; needs trace."""
        return rank_times_of("executor", lib.weft_trainer_executor(self._handle), rank)

    def timeline(self, title: str = "weft run") -> Timeline:
        """Needs trace."""
        return timeline_of("executor", lib.weft_trainer_executor(self._handle), title)

    def __repr__(self) -> str:
        return f"<weft.Trainer: {self.ranks} ranks, step {self._next} of {self.first_step} to " \
               f"{self.first_step + self.steps}>"


class Run(NamedTuple):
    """What a run gave."""

    fetches: dict[str, Array]  # by name: an array over steps, then ranks, of fetches of one element
    result: dict[str, Array]  # every persistable and the last value of every fetch
    step_seconds: list[float]
    timeline: Optional[Timeline]  # with trace


def run(programs: Programs, *, progress: Union[Callable[[int, int, Trainer], object], bool, None] = None, **options: Any) -> Run:
    """Trains programs to the end; options are Trainer's. progress(step, steps, trainer) is called after each step;
    True writes to stderr."""
    trainer = Trainer(programs, **options)
    told = _show if progress is True else progress
    names, seconds = trainer.fetches, []
    values: dict[str, list[list[float]]] = {name: [] for name in names}
    for step in trainer:
        seconds.append(trainer.step_seconds)
        for i, name in enumerate(names):
            one, out = [], ctypes.c_double()
            for rank in range(trainer.ranks):
                has = lib.weft_trainer_fetch_scalar(trainer._handle, rank, i, ctypes.byref(out))
                one.append(out.value if has else np.nan)
            values[name].append(one)
        if told:
            told(step, trainer.steps, trainer)
    timeline = trainer.timeline() if options.get("trace") else None
    return Run({name: np.array(v) for name, v in values.items()}, trainer.result(), seconds, timeline)


def _show(step: int, steps: int, _trainer: Trainer) -> None:
    sys.stderr.write(f"\rstep {step + 1}/{steps}")
    sys.stderr.flush()

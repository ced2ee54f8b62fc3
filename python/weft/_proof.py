"""Proof: races, deadlocks, missing reduces, equivalence, certificates. Nothing is executed."""

import ctypes
from typing import Any, Iterable, Iterator, NamedTuple, Optional

from . import _abi as abi
from . import _html
from ._library import Owned, call, context, create, handles, lib, raw, strings, take_bytes, text
from ._program import Program, Programs, programs_of


class FindingOp(NamedTuple):
    """An op that a finding is about."""

    type: str
    index: int  # type: ignore[assignment]  # in block 0
    stream: str
    line: str  # of the model, if the program says
    rank: int
    role: str  # "writes", "reads", ...


class Finding(NamedTuple):
    """Something that is wrong."""

    verdict: str  # "race", "deadlock", "missing_reduce", ...
    message: str
    ops: list[FindingOp]
    value: str
    state: str
    ring: int  # -1: none
    remedy: str


class Findings(Owned):
    """What `verify` found: a sequence of Finding; `safe` if there are none."""

    _destroy = "weft_findings_destroy"

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._own(handle)
        self._all = [self._finding(lib.weft_finding_at(handle, i).contents)
                     for i in range(lib.weft_findings_count(handle))]

    @staticmethod
    def _finding(f: Any) -> Finding:
        ops = [FindingOp(text(o.type), o.index, text(o.stream), text(o.line), o.rank, text(o.role))
               for o in f.ops[: f.nops]]
        return Finding(text(lib.weft_verdict_name(f.verdict)), text(f.message), ops, text(f.value), text(f.state),
                       f.ring, text(f.remedy))

    @property
    def safe(self) -> bool:
        """Whether nothing is wrong."""
        return not self._all

    @property
    def notes(self) -> list[str]:
        """What was assumed and counted."""
        return [text(lib.weft_findings_note(self._handle, i)) for i in range(lib.weft_findings_nnotes(self._handle))]

    def json(self) -> str:
        """All of it, for programs (docs/json.md)."""
        return take_bytes("weft_findings_json", self._handle).decode("utf-8", "surrogateescape")

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._all)

    def __getitem__(self, index: int) -> Finding:
        return self._all[index]

    def __repr__(self) -> str:
        return "<weft.Findings: safe>" if self.safe else f"<weft.Findings: {len(self)}, first: {self[0].verdict}>"

    def __str__(self) -> str:
        return "\n".join(f"{f.verdict}: {f.message}" for f in self) or "safe"

    def _repr_html_(self) -> str:
        if self.safe:
            return _html.table("Weft verify: safe", (), ())
        return _html.table("Weft verify", ("verdict", "what", "remedy"), [(f.verdict, f.message, f.remedy) for f in self])


def verify(programs: Programs, *, reading: str = "by_bytes", ranks: int = 0, stream: Optional[str] = None, launch_any: bool = False,
           max_in_flight: int = 0, max_queued: int = 0, max_findings: int = 0) -> Findings:
    """Judges one program for all ranks, or one a rank: races, hangs, wrong pairing, missing reduces.

    reading: "in_order" (explicit events alone), "by_name" (Paddle's executor) or "by_bytes" (Weft's own). ranks: 0
    means as many as there are programs. stream: "dp_reduce:STREAM" or "TYPE:STREAM", where programs do not say.
    """
    number = ctypes.c_int()
    if not lib.weft_reading_parse(raw(reading), ctypes.byref(number)):
        raise ValueError(f"reading is {reading!r}: expected in_order, by_name or by_bytes")
    options = abi.weft_verify_options(reading=number.value, nranks=ranks, stream=raw(stream) if stream else None,
                                      launch_any=launch_any, max_in_flight=max_in_flight, max_queued=max_queued,
                                      max_findings=max_findings)
    return Findings(create("weft_verify", *handles(programs_of(programs)), ctypes.byref(options)))


def check_replicas(programs: Programs, ranks: int) -> None:
    """Raises InvalidProgram if state that must be equal on ranks would drift apart. Takes milliseconds."""
    call("weft_verify_replicas", *handles(programs_of(programs)), ranks)


class Equivalence(Owned):
    """How two programs compare: `grade` ("same bits", "same reals", ...), and each value that is not the same bits."""

    _destroy = "weft_equivalence_destroy"

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._own(handle)

    @property
    def grade(self) -> str:
        """The worst of all values."""
        return text(lib.weft_grade_name(lib.weft_equivalence_grade(self._handle)))

    @property
    def proved(self) -> bool:
        """Whether the grade is more than "not proved"."""
        return lib.weft_equivalence_grade(self._handle) < abi.WEFT_NOT_PROVED

    @property
    def findings(self) -> list[tuple[str, str, str]]:
        """(var, grade, message), the worst first."""
        found, grade, message = [], ctypes.c_int(), ctypes.c_char_p()
        for i in range(lib.weft_equivalence_nfindings(self._handle)):
            var = lib.weft_equivalence_finding(self._handle, i, ctypes.byref(grade), ctypes.byref(message))
            found.append((text(var), text(lib.weft_grade_name(grade.value)), text(message.value)))
        return found

    def __repr__(self) -> str:
        return f"<weft.Equivalence: {self.grade}, {lib.weft_equivalence_nvalues(self._handle)} values>"

    def _repr_html_(self) -> str:
        return _html.table(f"Weft equivalence: {self.grade}", ("var", "grade", "why"), self.findings)


def equivalent(before: Program, after: Programs, *, fetches: Iterable[str] = (), ranks: Optional[int] = None) -> Equivalence:
    """Whether two programs compute the same. With `ranks`, or several programs as `after`: whether the ranks' programs
    compute what the serial program `before` does."""
    names, count = strings(fetches)
    options = ctypes.byref(abi.weft_equivalence_options(fetches=names, nfetches=count, nranks=ranks or 0))
    made = programs_of(after)
    if ranks is None and len(made) == 1:
        return Equivalence(create("weft_equivalent", before._handle, made[0]._handle, options))
    return Equivalence(create("weft_equivalent_to_serial", before._handle, *handles(made), options))


def check_certificate(before: Program, after: Program, certificate: str) -> tuple[str, str]:
    """(verdict, message): "certified", "bad" or "none"."""
    data, verdict = certificate.encode(), ctypes.c_int()
    message = take_bytes("weft_certificate_check", before._handle, after._handle, data, len(data), b"certificate",
                         ctypes.byref(verdict))
    return ("certified", "bad", "none")[verdict.value], message.decode("utf-8", "surrogateescape")

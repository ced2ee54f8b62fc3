"""Pass lists, reports of what they did, and passes written in Python."""

import ctypes
import json
import os
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union, overload

from . import _abi as abi
from . import _errors, _html
from ._library import Owned, Path, call, context, create, lib, raise_status, raw, take_bytes, text
from ._program import Op, Program

PROVE = {None: abi.WEFT_PROVE_UNSET, "off": abi.WEFT_PROVE_OFF, "report": abi.WEFT_PROVE_REPORT,
         "require": abi.WEFT_PROVE_REQUIRE}


# --- reports ------------------------------------------------------------------------------------------------------


class Left(NamedTuple):
    """A candidate that a pass left alone."""

    reason: str
    message: str


class PassReport(NamedTuple):
    """What one pass did."""

    name: str
    ops_before: int
    ops_after: int
    seconds: float
    grade: Optional[str]  # how its program compares with the one before; None: not compared
    left: list[Left]


class Report(Owned):
    """What a list of passes did: `print(report)` for people, iteration for programs."""

    _destroy = "weft_report_destroy"

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._own(handle)

    def __len__(self) -> int:
        return lib.weft_report_npasses(self._handle)

    def __iter__(self) -> Iterator[PassReport]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> PassReport:
        if not 0 <= index < len(self):
            raise IndexError(index)
        h, message, left = self._handle, ctypes.c_char_p(), []
        for i in range(lib.weft_report_nleft(h, index)):
            reason = lib.weft_report_left(h, index, i, ctypes.byref(message))
            left.append(Left(text(lib.weft_reason_name(reason)), text(message.value)))
        verdict = lib.weft_report_equivalence(h, index)
        grade = text(lib.weft_grade_name(lib.weft_equivalence_grade(verdict))) if verdict else None
        return PassReport(text(lib.weft_report_pass_name(h, index)), lib.weft_report_nops_before(h, index),
                          lib.weft_report_nops_after(h, index), lib.weft_report_seconds(h, index), grade, left)

    def count(self, pass_name: str, what: str) -> int:
        """The sum of what passes of that name counted under `what`."""
        return sum(lib.weft_report_count(self._handle, i, raw(what)) for i in range(len(self)) if self[i].name == pass_name)

    def print(self, verbose: bool = False) -> str:
        """Text for people; verbose: every candidate that was left alone."""
        return take_bytes("weft_report_print", self._handle, verbose).decode("utf-8", "surrogateescape")

    def certificate(self) -> str:
        """What the passes claim to have done, as JSON; of a list that was run with certify."""
        return take_bytes("weft_report_certificate", self._handle).decode()

    def __str__(self) -> str:
        return self.print()

    def __repr__(self) -> str:
        return f"<weft.Report: {', '.join(p.name for p in self)}>"

    def _repr_html_(self) -> str:
        rows = [(p.name, f"{p.ops_before} → {p.ops_after}", f"{p.seconds * 1e3:.2f} ms", p.grade or "",
                 "\n".join(f"{x.reason}: {x.message}" for x in p.left[:5]) + ("\n…" if len(p.left) > 5 else ""))
                for p in self]
        return _html.table("Weft passes", ("pass", "ops", "time", "compared", "left alone"), rows)


# --- pass lists ---------------------------------------------------------------------------------------------------


Function = Callable[["PassContext", Program], object]
Passes = Union[Path, Sequence[Union[str, tuple[str, Mapping[str, Any]], Mapping[str, Any], Function]]]


class _PassList(Owned):
    _destroy = "weft_pass_list_destroy"

    def __init__(self, passes: Passes) -> None:
        place = "passes"
        if isinstance(passes, os.PathLike) or (isinstance(passes, str) and passes.endswith((".yaml", ".yml"))):
            place = os.fspath(passes)
            with open(place, encoding="utf-8") as file:
                source = file.read()
        elif not isinstance(passes, str):
            source = json.dumps({"passes": [_entry(p) for p in passes]})
        else:
            source = passes
        data = source.encode()
        self._own(create("weft_pass_list_parse", context, data, len(data), raw(place)))


def _entry(given: Any) -> Any:
    """One pass of a list: a name, (name, options), {name: options}, or a function that pass_ made one of."""
    if callable(given):
        return given.weft_pass_name
    return {given[0]: dict(given[1])} if isinstance(given, tuple) else given


def preset(name: str) -> str:
    """The file of a pass list that comes with Weft: "data_parallel", "data_parallel_optimization", ..."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs")
    path = os.path.join(folder, name + ".yaml")
    if not os.path.exists(path):
        known = sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".yaml"))
        raise _errors.NotFound(f"no preset {name!r}: expected one of {', '.join(known)}", "preset")
    return path


def run_passes(program: Program, passes: Passes, *, set: Optional[Mapping[str, object]] = None,
               prove: Optional[str] = None, certify: bool = False, rank: int = -1) -> Report:
    """Runs passes over a program, in place.

    passes: a list of names, (name, options), {name: options} and Python passes; or YAML text, the short form
    "a, b: {k: v}", or the name of a .yaml file (weft.preset gives those that come with Weft).
    set: overrides, {"PASS.KEY": value}. prove: "off", "report" or "require". certify: write claims down for
    Report.certificate. rank: where a pass tells ranks apart (spmd_expand), the one whose program it becomes.

    Raises Refused where a pass declines: passes before it stay applied, and the exception's `report` tells of them.
    """
    if prove not in PROVE:
        raise ValueError(f"prove is {prove!r}: expected off, report or require")
    todo, report = _PassList(passes), ctypes.c_void_p()
    for key, value in (set or {}).items():
        call("weft_pass_list_set", todo._handle, raw(f"{key}={value if isinstance(value, str) else json.dumps(value)}"))
    if prove:
        lib.weft_pass_list_set_prove(todo._handle, PROVE[prove])
    if certify:
        lib.weft_pass_list_set_certify(todo._handle, True)
    _Running.error = None
    try:
        call("weft_pass_list_run_rank", todo._handle, program._handle, rank, ctypes.byref(report))
    except _errors.Error as error:
        error.report = Report(report) if report else None
        raised, _Running.error = _Running.error, None
        if raised is not None:
            raise raised from None
        raise
    return Report(report)


def passes() -> dict[str, str]:
    """The passes that can be named: summaries by name."""
    found = (lib.weft_pass_at(context, i).contents for i in range(lib.weft_pass_count(context)))
    return {text(p.name): text(p.summary) for p in found}


# --- passes in Python ---------------------------------------------------------------------------------------------


class _Running:
    error: Optional[BaseException] = None  # what a Python pass raised, to be raised again when the list returns


OPTION_TYPES = {bool: abi.WEFT_OPTION_BOOL, int: abi.WEFT_OPTION_INT, float: abi.WEFT_OPTION_FLOAT,
                str: abi.WEFT_OPTION_STRING, list: abi.WEFT_OPTION_STRINGS}


class PassContext:
    """What a running Python pass is given: its options, and where it reports."""

    def __init__(self, handle: Any, options: Mapping[str, Any]) -> None:
        self._handle = ctypes.c_void_p(handle)
        self.options: dict[str, Any] = {name: self._option(name, type(v)) for name, v in options.items()}

    def _option(self, name: str, kind: type) -> Any:
        if kind is list:
            values = ctypes.POINTER(ctypes.c_char_p)()
            count = lib.weft_pass_option_strings(self._handle, raw(name), ctypes.byref(values))
            return [text(v) for v in values[:count]]
        word = {bool: "bool", int: "int", float: "float", str: "string"}[kind]
        found = getattr(lib, "weft_pass_option_" + word)(self._handle, raw(name))
        return text(found) if kind is str else found

    def did(self, message: str) -> None:
        """A line of what was done."""
        _check(lib.weft_pass_did(self._handle, b"%s", raw(message)))

    def count(self, what: str, amount: int = 1) -> None:
        """Adds to what Report.count gives."""
        call("weft_pass_count_add", self._handle, raw(what), amount)

    def left(self, op: Op, reason: str, message: str) -> None:
        """A candidate that was left alone, and why. reason: "dependency", "dtype", "ring", "limit", "role", ..."""
        names = [text(lib.weft_reason_name(i)) for i in range(abi.WEFT_REASON_COUNT)]
        op_handle = ctypes.c_void_p(op._handle)
        _check(lib.weft_pass_left(self._handle, op_handle, names.index(reason), b"%s", raw(message)))


def _check(status: Any) -> None:
    if status:
        raise_status(status)


_registered: dict[str, list[Any]] = {}  # name -> [function, options, what the library points to]


class _View(Program):
    """A program that belongs to somebody else, for the time of a call."""

    def __init__(self, handle: Any) -> None:
        self._handle = ctypes.c_void_p(handle)


def _trampoline(name: str) -> Callable[[Any, Any, Any], Any]:
    def run(pass_handle: Any, program_handle: Any, _user: Any) -> Any:
        function, options, _ = _registered[name]
        try:
            function(PassContext(pass_handle, options), _View(program_handle))
            return None
        except _errors.Refused as refusal:
            return lib.weft_pass_refuse(ctypes.c_void_p(pass_handle), b"%s", raw(refusal.message))
        except BaseException as error:  # it is raised again where the list was run
            _Running.error = error
            return lib.weft_status_create(abi.WEFT_INVALID_ARGUMENT, raw(name), b"%s", raw(f"{type(error).__name__}: {error}"))

    return run


@overload
def pass_(name: Function) -> Function: ...


@overload
def pass_(name: Optional[str] = None, *, summary: str = "", options: Optional[Mapping[str, Any]] = None,
          changes_meaning: Optional[str] = None) -> Callable[[Function], Function]: ...


def pass_(name: Any = None, *, summary: str = "", options: Optional[Mapping[str, Any]] = None,
          changes_meaning: Optional[str] = None) -> Any:
    """Makes a function a pass that lists can name.

        @weft.pass_(options={"type": "scale"})
        def count_types(run, program):
            run.count("ops counted", sum(op.type == run.options["type"] for op in program.block))

    The function is given a PassContext and the program; it raises weft.Refused, before it edits, to decline.
    options: defaults by name (bool, int, float, str or a list of strings); a misspelt key is then an error.
    changes_meaning: how the program computes something else afterwards; None: it does not, and proofs hold it to that.
    Defining a pass again replaces it, as notebooks do, if its options stay the same.
    """

    def register(function: Any) -> Any:
        key = name if isinstance(name, str) else function.__name__
        chosen = dict(options or {})
        known = _registered.get(key)
        if known:
            if known[1] != chosen:
                raise ValueError(f"pass {key} was defined with options {known[1]}: a process keeps those")
            known[0] = function
        else:
            _register(key, function, chosen, summary or (function.__doc__ or key).strip().splitlines()[0], changes_meaning)
        function.weft_pass_name = key
        return function

    return register(name) if callable(name) else register


def _register(key: str, function: Function, options: Mapping[str, Any], summary: str, changes_meaning: Optional[str]) -> None:
    rows = (abi.weft_option * max(len(options), 1))()
    for row, (option, default) in zip(rows, options.items()):
        row.name, row.type, row.summary = raw(option), OPTION_TYPES[type(default)], raw(option)
        row.default_value = raw(default if isinstance(default, str) else json.dumps(default))
    run = dict(field[:2] for field in abi.weft_pass._fields_)["run"](_trampoline(key))
    made = abi.weft_pass(name=raw(key), summary=raw(summary), options=rows, noptions=len(options), run=run,
                         changes_meaning=raw(changes_meaning) if changes_meaning else None)
    call("weft_pass_register", context, ctypes.byref(made))
    _registered[key] = [function, options, (rows, run, made)]  # for as long as the context lives

"""Weft: the communication of distributed training programs, made cheap and proved correct.

    program = weft.Program.load("serial.pdmodel")
    print(program.run_passes(weft.preset("data_parallel"), set={"data_parallel.ranks": 4}))
    print(weft.verify(program, ranks=4))
    result = weft.run(program, ranks=4, params="params.npz", feeds="feeds.npz", fetches=["mean_0.tmp_0"])

Calls leave Python's lock to other threads. Errors are subclasses of weft.Error; each has a message and a place.
"""

from ._errors import (Cancelled, Error, InvalidArgument, InvalidProgram, LimitReached, NotFound, OutOfMemory, ParseError,
                      Refused, RunFailed, SystemFailure, Unsupported, WeftWarning)
from ._library import Diagnostic, lib as _lib, text as _text
from ._passes import Left, PassContext, PassReport, Report, pass_, passes, preset, run_passes
from ._plan import Cluster, Plan, PlanValue, Race, RankTimes, Simulation, Timeline, plan, simulate
from ._program import Block, Edits, Op, Program, Var
from ._proof import Equivalence, Finding, FindingOp, Findings, check_certificate, check_replicas, equivalent, verify
from ._tensors import load_tensors, save_tensors
from ._train import Run, Trainer, run

__version__ = _text(_lib.weft_version()).split()[-1]
__all__ = [
    "Block", "Cancelled", "check_certificate", "check_replicas", "Cluster", "Diagnostic", "Edits", "Equivalence",
    "equivalent", "Error", "Finding", "FindingOp", "Findings", "InvalidArgument", "InvalidProgram", "Left",
    "LimitReached", "load_tensors", "NotFound", "Op", "OutOfMemory", "ParseError", "pass_", "PassContext", "passes",
    "PassReport", "Plan", "plan", "PlanValue", "preset", "Program", "Race", "RankTimes", "Refused", "Report", "Run",
    "run", "run_passes", "RunFailed", "save_tensors", "simulate", "Simulation", "SystemFailure", "Timeline",
    "Trainer", "Unsupported", "Var", "verify", "WeftWarning",
]

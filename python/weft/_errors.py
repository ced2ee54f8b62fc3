"""What Weft raises: one exception a status code, each with where it happened."""

from typing import TYPE_CHECKING, Iterable, Optional

if TYPE_CHECKING:
    from ._library import Diagnostic
    from ._passes import Report


class Error(Exception):
    """A call into Weft failed.

    message: what was expected and what was found; place: the file, op or option concerned ("" if nothing narrower is
    known); diagnostics: every problem that was found on the way, as `Diagnostic`.
    """

    code = "error"
    report: Optional["Report"] = None  # where a list of passes failed: what those before did

    def __init__(self, message: str, place: str = "", diagnostics: Iterable["Diagnostic"] = ()) -> None:
        super().__init__(message)
        self.message, self.place, self.diagnostics = message, place, list(diagnostics)

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.message}" if self.place else self.message]
        lines += [f"  {d}" for d in self.diagnostics if d.message != self.message]
        return "\n".join(lines)


class InvalidArgument(Error, ValueError):
    """A call asked for what cannot be."""

    code = "invalid_argument"


class ParseError(Error, ValueError):
    """Bytes or text do not follow their format."""

    code = "parse"


class NotFound(Error, LookupError):
    """A file, var, op, pass or ring that was named does not exist."""

    code = "not_found"


class SystemFailure(Error, OSError):
    """The system refused to read or write."""

    code = "io"

    __str__ = Error.__str__


class OutOfMemory(Error, MemoryError):
    """The allocator gave nothing."""

    code = "out_of_memory"


class LimitReached(Error):
    """A size or a count is over what Weft takes."""

    code = "limit"


class Unsupported(Error, NotImplementedError):
    """Legal, but this build or device cannot do it."""

    code = "unsupported"


class Refused(Error):
    """A pass declined: the program is as it was before that pass."""

    code = "refused"


class InvalidProgram(Error):
    """The structural verifier found problems, or replicas would drift apart: see diagnostics."""

    code = "invalid_program"


class RunFailed(Error, RuntimeError):
    """Execution failed: the message names rank, op and ring."""

    code = "runtime"


class Cancelled(Error):
    """Stopped because another rank or thread failed first."""

    code = "cancelled"


class WeftWarning(UserWarning):
    """A warning of a parser or verifier."""


BY_NAME = {kind.code: kind for kind in (InvalidArgument, ParseError, NotFound, SystemFailure, OutOfMemory, LimitReached,
                                        Unsupported, Refused, InvalidProgram, RunFailed, Cancelled)}

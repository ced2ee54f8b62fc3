"""The C library: loaded, declared, its statuses raised, its bytes taken, its objects destroyed."""

import ctypes
import logging
import os
import threading
import warnings
import weakref
from typing import Any, Callable, Iterable, NamedTuple, NoReturn, Optional, Sequence, Union, cast

from . import _abi as abi
from . import _errors

_found = threading.local()  # .items: what the library reported to this thread during the call
log = logging.getLogger("weft")
Path = Union[str, os.PathLike[str]]


def _load() -> abi.Library:
    try:
        import _hashlib  # noqa: F401  Python's libcrypto comes first: the wheel's may be older than what `import ssl` needs
    except ImportError:
        pass
    path = os.environ.get("WEFT_LIBRARY") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "libweft.so")
    library = ctypes.CDLL(path)
    for name, (result, arguments, more) in abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        if not more:
            function.argtypes = arguments
    return cast(abi.Library, library)


lib = _load()


def text(raw: Optional[bytes]) -> str:
    """A string of the library."""
    return raw.decode("utf-8", "surrogateescape") if raw is not None else ""


def raw(string: Path) -> bytes:
    """A string for the library."""
    return os.fspath(string).encode("utf-8", "surrogateescape")


class Diagnostic(NamedTuple):
    """One finding of a parser or verifier."""

    severity: str  # "note", "warning" or "error"
    message: str
    place: str
    line: int  # from 1; 0: the form has no lines
    column: int

    def __str__(self) -> str:
        where = self.place + (f":{self.line}:{self.column}" if self.line else "")
        return f"{where}: {self.message}" if where else self.message


def _take_diagnostic(_: Any, diagnostic: Any) -> None:
    d = diagnostic.contents
    severity = ("note", "warning", "error")[d.severity]
    seen = Diagnostic(severity, text(d.message), text(d.place), d.line, d.column)
    items = getattr(_found, "items", None)
    if items is None:  # a thread of the library's own
        log.warning("%s", seen)
    else:
        items.append(seen)


_on_diagnostic = abi.weft_diagnostic_fn(_take_diagnostic)


def raise_status(status: Any, diagnostics: Iterable[Diagnostic] = ()) -> NoReturn:
    """Raises what `status` says; frees it."""
    status = ctypes.c_void_p(status)
    kind = _errors.BY_NAME.get(text(lib.weft_code_name(lib.weft_status_code(status))), _errors.Error)
    message, place = text(lib.weft_status_message(status)), text(lib.weft_status_place(status))
    lib.weft_status_free(status)
    raise kind(message, place, diagnostics)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status; raises what it says. Warnings become Python's."""
    before, _found.items = getattr(_found, "items", None), []
    try:
        status = getattr(lib, name)(*arguments)
        found = _found.items
    finally:
        _found.items = before
    if status:
        raise_status(status, found)
    for d in found:
        if d.severity == "warning":
            warnings.warn(str(d), _errors.WeftWarning, stacklevel=3)
        else:
            log.info("%s", d)


def _make_context() -> ctypes.c_void_p:
    options, context = abi.weft_context_options(on_diagnostic=_on_diagnostic), ctypes.c_void_p()
    status = lib.weft_context_create(ctypes.byref(options), ctypes.byref(context))
    if status:
        raise_status(status)
    return context


context = _make_context()  # one for the process: passes are registered on it


def take_bytes(name: str, *arguments: Any) -> bytes:
    """Calls a function that ends with (char **out_bytes, size_t *out_nbytes)."""
    out, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
    call(name, *arguments, ctypes.byref(out), ctypes.byref(nbytes))
    try:
        return ctypes.string_at(out, nbytes.value)
    finally:
        lib.weft_bytes_free(context, out, nbytes)


def create(name: str, *arguments: Any) -> ctypes.c_void_p:
    """Calls a function that ends with (weft_thing **out_thing); returns the handle."""
    out = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(out))
    return out


def strings(values: Iterable[str]) -> tuple[Any, int]:
    """A (const char *const *, size_t) pair."""
    words = [raw(v) for v in values]
    return (ctypes.c_char_p * len(words))(*words) if words else None, len(words)


def handles(objects: Sequence["Owned"]) -> tuple[Any, int]:
    """A (const weft_thing *const *, size_t) pair."""
    return (ctypes.c_void_p * len(objects))(*[o._handle.value for o in objects]), len(objects)


class Owned:
    """An object of the library: destroyed when Python drops it, before what it was made from."""

    _destroy = ""
    _handle: ctypes.c_void_p

    def _own(self, handle: ctypes.c_void_p, *made_from: object) -> None:
        self._handle = handle
        self._finalizer = weakref.finalize(self, _destroy_one, getattr(lib, self._destroy), handle, made_from)


def _destroy_one(destroy: Callable[..., None], handle: ctypes.c_void_p, _made_from: object) -> None:
    destroy(handle)

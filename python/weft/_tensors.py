"""Tensors of the library as numpy arrays and back, without copies where numpy's memory will do."""

import ctypes
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

import numpy as np

from . import _abi as abi
from ._library import Owned, Path, call, context, create, lib, raw, text

if TYPE_CHECKING:
    from ._program import Program

Array = np.ndarray[Any, Any]
Tensors = Union[Path, Mapping[str, Any], "TensorSet"]  # what a user may give: a file's name, arrays by name, a set

# Numbers of weft_dtype. bfloat16 is uint16 bits, as in the files that `weft run` writes.
DTYPES = {
    0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 19: "uint64",
    20: "uint8", 21: "int8", 22: "uint16", 23: "complex64", 24: "complex128",
}
NUMBERS = {name: number for number, name in DTYPES.items() if number != abi.WEFT_BF16}


def array_of(tensor: Any, owner: object, copy: bool = False) -> Optional[Array]:
    """The numpy array of a weft_tensor; a view keeps `owner` alive. None without data."""
    shape = tuple(tensor.dims[: tensor.ndim])
    dtype = np.dtype(DTYPES[tensor.dtype])
    if not tensor.data:
        return None
    if tensor.nbytes == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * tensor.nbytes).from_address(tensor.data)
    setattr(memory, "owner", owner)  # the array's base: what the bytes belong to stays
    view = np.frombuffer(memory, dtype).reshape(shape)
    return view.copy() if copy else view


def dtype_number(name: str, array: Array) -> int:
    """The library's type of an array. uint16 and ml_dtypes.bfloat16 are bf16 bits."""
    if array.dtype.name in ("uint16", "bfloat16"):
        return abi.WEFT_BF16
    if array.dtype.name not in NUMBERS:
        raise TypeError(f"{name}: arrays of {array.dtype} cannot be given to Weft")
    return NUMBERS[array.dtype.name]


class TensorSet(Owned):
    """Tensors by name, of the library. Arrays that are C-ordered and aligned are lent to it, others copied once."""

    _destroy = "weft_tensors_destroy"

    def __init__(self, handle: Optional[ctypes.c_void_p] = None) -> None:
        self._lent: dict[str, Array] = {}
        self._own(handle or create("weft_tensors_create", context), self._lent)

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> "TensorSet":
        made = cls()
        for name, value in arrays.items():
            made.add(name, value)
        return made

    def add(self, name: str, value: Any) -> None:
        array = np.require(value, requirements=["C", "A"])
        number = dtype_number(name, array)
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("="))
        dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        call("weft_tensors_borrow", self._handle, raw(name), number, array.ndim, dims, array.ctypes.data)
        self._lent[name] = array  # the library reads it until the set goes

    def arrays(self, copy: bool = False) -> dict[str, Array]:
        found = {}
        for i in range(lib.weft_tensors_count(self._handle)):
            tensor = lib.weft_tensors_at(self._handle, i).contents
            array = array_of(tensor, self, copy)
            if array is not None:
                found[text(tensor.name)] = array
        return found


def load_tensors(path: Path, program: Optional["Program"] = None) -> dict[str, Array]:
    """Reads .npz, .npy or, for a program's parameters, .pdiparams: arrays by name. bfloat16 arrives as uint16 bits."""
    return _load(path, program).arrays()


def _load(path: Path, program: Optional["Program"] = None) -> TensorSet:
    return TensorSet(create("weft_tensors_load", context, raw(path), program._handle if program else None))


def save_tensors(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays by name to .npz, .npy or .pdiparams. Nothing is half written."""
    tensors = TensorSet.of(arrays)
    call("weft_tensors_save", tensors._handle, raw(path))


def tensors_of(value: Optional[Tensors], program: Optional["Program"] = None) -> Optional[TensorSet]:
    """What a user gave as tensors (None, a file's name, arrays by name, a set) as a set."""
    if value is None or isinstance(value, TensorSet):
        return value
    return TensorSet.of(value) if isinstance(value, Mapping) else _load(value, program)

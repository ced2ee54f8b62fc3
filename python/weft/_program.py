"""Programs: blocks of ops over vars."""

import ctypes
import os
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Optional, Sequence, TypeVar, Union

from . import _abi as abi
from ._library import Owned, Path, call, context, create, lib, raw, take_bytes, text

if TYPE_CHECKING:
    from ._passes import Passes, Report

FORMS = {"pdmodel": abi.WEFT_FORM_PDMODEL, "yaml": abi.WEFT_FORM_YAML, "fx": abi.WEFT_FORM_FX}
Attr = Union[bool, int, float, str, Sequence[int], Sequence[str]]
Default = TypeVar("Default", bool, int, float, str)
ROLES = ((256, "loss"), (16, "lr_sched"), (8, "dist"), (4, "rpc"), (2, "optimize"), (1, "backward"))


class _Borrowed:
    """Something that a program owns."""

    def __init__(self, program: "Program", handle: Any) -> None:
        self._program, self._handle = program, handle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and bool(other._handle == self._handle)

    def __hash__(self) -> int:
        return hash(self._handle)


class Var(_Borrowed):
    """A value of a program."""

    @property
    def name(self) -> str:
        """Unique in its block."""
        return text(lib.weft_var_name(self._handle))

    @property
    def dtype(self) -> str:
        """ "float32", "bfloat16", ...; "" if the var has none."""
        return text(lib.weft_dtype_name(lib.weft_var_dtype(self._handle)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; -1 is unknown until run time."""
        return tuple(lib.weft_var_dims(self._handle)[: lib.weft_var_ndim(self._handle)])

    @property
    def persistable(self) -> bool:
        """Whether it lives across steps: a parameter, or state."""
        return lib.weft_var_persistable(self._handle)

    def __repr__(self) -> str:
        return f"<weft.Var {self.name}: {self.dtype}{list(self.shape)}>"


class Op(_Borrowed):
    """An op of a block. Not to be used any more once it was removed."""

    @property
    def type(self) -> str:
        """The name of what it does: "matmul_v2", "c_allreduce_sum", ..."""
        return text(lib.weft_op_type(self._handle))

    @property
    def index(self) -> int:
        """Position in its block. O(n)."""
        return lib.weft_op_index(self._handle)

    @property
    def role(self) -> str:
        """ "forward", "backward", "optimize", "backward|loss", ..."""
        bits = lib.weft_op_role(self._handle)
        return "|".join(name for bit, name in reversed(ROLES) if bits & bit) or "forward"

    @property
    def stream(self) -> str:
        """The stream that the op runs on; "" is compute."""
        return text(lib.weft_op_stream(self._handle))

    @property
    def block(self) -> "Block":
        """The block that it is in."""
        return Block(self._program, lib.weft_op_block(self._handle))

    @property
    def inputs(self) -> dict[str, list[Var]]:
        """Vars that it reads, by slot."""
        return self._slots(False)

    @property
    def outputs(self) -> dict[str, list[Var]]:
        """Vars that it writes, by slot."""
        return self._slots(True)

    def _slots(self, output: bool) -> dict[str, list[Var]]:
        found, nargs = {}, ctypes.c_size_t()
        for i in range(lib.weft_op_nslots(self._handle, output)):
            name = text(lib.weft_op_slot(self._handle, output, i, ctypes.byref(nargs)))
            args = (lib.weft_op_arg(self._handle, output, i, k) for k in range(nargs.value))
            found[name] = [Var(self._program, a) for a in args]
        return found

    def attr(self, name: str, default: Default) -> Default:
        """An attr of the default's type (int, float, bool or str); the default where there is none of that."""
        if isinstance(default, bool):
            return lib.weft_op_attr_bool(self._handle, raw(name), default)
        if isinstance(default, int):
            return lib.weft_op_attr_int(self._handle, raw(name), default)
        if isinstance(default, float):
            return lib.weft_op_attr_float(self._handle, raw(name), default)
        return text(lib.weft_op_attr_string(self._handle, raw(name), raw(default)))

    def set_attr(self, name: str, value: Attr) -> None:
        """Sets an attr: bool, int (INT), float, str, or a list of ints (LONGS) or strings."""
        if isinstance(value, bool):
            call("weft_op_set_attr_bool", self._handle, raw(name), value)
        elif isinstance(value, int):
            call("weft_op_set_attr_int", self._handle, raw(name), value)
        elif isinstance(value, float):
            call("weft_op_set_attr_float", self._handle, raw(name), value)
        elif isinstance(value, str):
            call("weft_op_set_attr_string", self._handle, raw(name), raw(value))
        else:
            numbers, words = [v for v in value if isinstance(v, int)], [raw(v) for v in value if isinstance(v, str)]
            if len(numbers) == len(value):
                longs = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
                call("weft_op_set_attr_longs", self._handle, raw(name), len(numbers), longs)
            elif len(words) == len(value):
                call("weft_op_set_attr_strings", self._handle, raw(name), len(words), (ctypes.c_char_p * len(words))(*words))
            else:
                raise TypeError(f"attr {name}: expected bool, int, float, str, or a list of ints or of strings")

    def add_input(self, slot: str, var: Var) -> None:
        """The op reads one more var, as the last of a slot."""
        call("weft_op_add_input", self._handle, raw(slot), var._handle)

    def add_output(self, slot: str, var: Var) -> None:
        """The op writes one more var, as the last of a slot."""
        call("weft_op_add_output", self._handle, raw(slot), var._handle)

    def rename_input(self, old: Var, new: Var) -> None:
        """The op reads `new` wherever it read `old`."""
        lib.weft_op_rename_input(self._handle, old._handle, new._handle)

    def rename_output(self, old: Var, new: Var) -> None:
        """The op writes `new` wherever it wrote `old`."""
        lib.weft_op_rename_output(self._handle, old._handle, new._handle)

    def move_before(self, where: "Op") -> None:
        """Moves the op to just before another one of its block."""
        lib.weft_op_move_before(self._handle, where._handle)

    def move_after(self, where: "Op") -> None:
        """Moves the op to just after another one of its block."""
        lib.weft_op_move_after(self._handle, where._handle)

    def remove(self) -> None:
        """Takes the op out of its block for good."""
        lib.weft_op_remove(self._handle)

    def __repr__(self) -> str:
        def side(slots: dict[str, list[Var]]) -> str:
            return ", ".join(f"{slot}: {[v.name for v in args]}" for slot, args in slots.items() if args)

        return f"<weft.Op {self.type} {{{side(self.inputs)}}} -> {{{side(self.outputs)}}}>"


class Block(_Borrowed):
    """Ops in order, and vars by name."""

    def __iter__(self) -> Iterator[Op]:
        op = lib.weft_block_first_op(self._handle)
        while op:
            following = lib.weft_op_next(op)
            yield Op(self._program, op)
            op = following

    def __len__(self) -> int:
        return lib.weft_block_nops(self._handle)

    @property
    def ops(self) -> list[Op]:
        """In order."""
        return list(self)

    @property
    def vars(self) -> dict[str, Var]:
        """By name."""
        found = (lib.weft_block_var_at(self._handle, i) for i in range(lib.weft_block_nvars(self._handle)))
        return {var.name: var for var in (Var(self._program, v) for v in found)}

    def var(self, name: str) -> Var:
        """The var of that name, here or in a block around this one."""
        found = lib.weft_block_find_var(self._handle, raw(name))
        if not found:
            raise KeyError(name)
        return Var(self._program, found)

    def add_var(self, name: str, dtype: str, shape: Sequence[int]) -> Var:
        """A new dense tensor."""
        dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        number = lib.weft_dtype_parse(raw(dtype))
        return Var(self._program, create("weft_block_add_var", self._handle, raw(name), number, len(shape), dims).value)

    def insert(self, type: str, inputs: Optional[Mapping[str, Iterable[Var]]] = None,
               outputs: Optional[Mapping[str, Iterable[Var]]] = None, attrs: Optional[Mapping[str, Attr]] = None,
               before: Optional[Op] = None, after: Optional[Op] = None) -> Op:
        """A new op of lists of vars by slot, before or after another; at the end without either."""
        op = Op(self._program, create("weft_op_create", self._program._handle, raw(type)).value)
        for slot, args in (inputs or {}).items():
            for var in args:
                op.add_input(slot, var)
        for slot, args in (outputs or {}).items():
            for var in args:
                op.add_output(slot, var)
        for name, value in (attrs or {}).items():
            op.set_attr(name, value)
        if after is not None:
            lib.weft_block_insert_after(self._handle, after._handle, op._handle)
        else:
            lib.weft_block_insert_before(self._handle, before._handle if before is not None else None, op._handle)
        return op

    def __repr__(self) -> str:
        return f"<weft.Block: {len(self)} ops, {lib.weft_block_nvars(self._handle)} vars>"


class Edits(Owned):
    """What is edited in a program from now on. A host that has a copy of the program as a .pdmodel carries that over.
    find() looks; the others tell of what it found last."""

    _destroy = "weft_edits_destroy"

    def __init__(self, program: "Program") -> None:
        """Checks the structure."""
        self._own(create("weft_edits_begin", program._handle), program)

    def find(self) -> "Edits":
        """Compares the program with what it was; returns itself."""
        call("weft_edits_find", self._handle)
        return self

    def runs(self, block: int) -> list[tuple[Optional[int], int, bool]]:
        """The ops of a block now, as runs: (old position or None, how many, whether they are edited). An edited op is a
        run of its own; those of other runs stood one after another."""
        source, nops, edited, found = ctypes.c_int64(), ctypes.c_size_t(), ctypes.c_bool(), []
        for i in range(lib.weft_edits_nruns(self._handle, block)):
            lib.weft_edits_run(self._handle, block, i, ctypes.byref(source), ctypes.byref(nops), ctypes.byref(edited))
            found.append((source.value if source.value >= 0 else None, nops.value, edited.value))
        return found

    def ops(self, block: int) -> list[tuple[Optional[int], bool]]:
        """Of each op of the block now: (its old position or None, whether it is edited)."""
        return [(source if source is None else source + k, edited)
                for source, count, edited in self.runs(block) for k in range(count)]

    def long_slots(self, block: int, run: int, most: int) -> list[tuple[bool, bytes, list[bytes]]]:
        """Of the op that an edited run is, the slots of more than `most` arguments: (whether it is an output, its name, the
        names of its arguments)."""
        found: list[tuple[bool, bytes, list[bytes]]] = []
        op, nargs = lib.weft_edits_long_op(self._handle, block, run, most), ctypes.c_size_t()
        for output in (False, True) if op else ():
            for i in range(lib.weft_op_nslots(op, output)):
                name: Any = lib.weft_op_slot(op, output, i, ctypes.byref(nargs))
                if nargs.value > most:
                    names: Any = (ctypes.c_char_p * nargs.value)()
                    lib.weft_op_arg_names(op, output, i, names)
                    found.append((output, name, names[:]))
        return found

    def removes_vars(self, block: int) -> bool:
        """Whether vars of the block went."""
        return lib.weft_edits_removes_vars(self._handle, block)

    def print(self, most: Optional[int] = None) -> bytes:
        """A .pdmodel of what is edited alone: its ops name other vars too. With `most` it lacks what long_slots gives."""
        return take_bytes("weft_edits_print_short", self._handle, -1 if most is None else most)


class Program(Owned):
    """A static training program. From one thread at a time."""

    _destroy = "weft_program_destroy"

    def __init__(self) -> None:
        """An empty program."""
        self._own(create("weft_program_create", context))

    @classmethod
    def _of(cls, handle: ctypes.c_void_p) -> "Program":
        made = cls.__new__(cls)
        made._own(handle)
        return made

    @classmethod
    def load(cls, path: Path, dist: Optional[Path] = None) -> "Program":
        """Reads .pdmodel, .yaml or .fx.json, each also with .gz. `dist`: the sidecar of a .pdmodel; None: the one
        beside it."""
        return cls._of(create("weft_program_load", context, raw(path), raw(dist) if dist is not None else None))

    @classmethod
    def parse(cls, data: Union[str, bytes], form: str = "yaml", sidecar: Union[str, bytes, None] = None,
              place: str = "memory") -> "Program":
        """Reads a program from bytes or text. `sidecar` is JSON text that goes with form "pdmodel"; `place` names the
        input in messages."""
        if form not in FORMS:
            raise ValueError(f"form is {form!r}: expected one of {', '.join(FORMS)}")
        data = data.encode() if isinstance(data, str) else bytes(data)
        beside = None if sidecar is None else (sidecar.encode() if isinstance(sidecar, str) else bytes(sidecar))
        return cls._of(create("weft_program_parse", context, FORMS[form], data, len(data), beside,
                              len(beside) if beside is not None else 0, raw(place)))

    def save(self, path: Path) -> None:
        """Writes the program, form by extension, and beside a .pdmodel its sidecar. Nothing is half written."""
        call("weft_program_save", self._handle, raw(path))

    def print(self, form: str = "yaml") -> bytes:
        """The program in a serialized form."""
        return take_bytes("weft_program_print", self._handle, FORMS[form])

    def sidecar(self) -> str:
        """What a .pdmodel has no room for (meshes, rings, placements, streams), as JSON."""
        return take_bytes("weft_program_print_sidecar", self._handle).decode()

    def clone(self) -> "Program":
        """A copy that shares nothing."""
        return Program._of(create("weft_program_clone", self._handle))

    def edits(self) -> Edits:
        """From now on: what passes and others edit."""
        return Edits(self)

    def check(self) -> None:
        """Checks the structure; raises InvalidProgram with every problem."""
        call("weft_program_verify", self._handle)

    def run_passes(self, passes: "Passes", *, set: Optional[Mapping[str, object]] = None, prove: Optional[str] = None,
                   certify: bool = False, rank: int = -1) -> "Report":
        """Runs passes over this program; returns their Report. See weft.run_passes."""
        from ._passes import run_passes

        return run_passes(self, passes, set=set, prove=prove, certify=certify, rank=rank)

    @property
    def blocks(self) -> list[Block]:
        """Block 0 is the whole; others are those of control flow."""
        return [Block(self, lib.weft_program_block(self._handle, i)) for i in range(lib.weft_program_nblocks(self._handle))]

    @property
    def block(self) -> Block:
        """Block 0."""
        return Block(self, lib.weft_program_block(self._handle, 0))

    @property
    def ops(self) -> list[Op]:
        """Of block 0."""
        return self.block.ops

    @property
    def vars(self) -> dict[str, Var]:
        """Of block 0, by name."""
        return self.block.vars

    @property
    def rank(self) -> int:
        """The rank that this program is for; -1: it serves every rank."""
        return lib.weft_program_rank(self._handle)

    def ring(self, ring_id: int) -> Optional[list[int]]:
        """The ranks of a ring, in order; None if the program does not name it."""
        count, ranks = ctypes.c_size_t(), ctypes.POINTER(ctypes.c_int64)()
        if not lib.weft_program_ring(self._handle, ring_id, ctypes.byref(count), ctypes.byref(ranks)):
            return None
        return list(ranks[: count.value])

    def set_ring(self, ring_id: int, ranks: Sequence[int]) -> None:
        """Names the ranks of a ring, in order."""
        call("weft_program_set_ring", self._handle, ring_id, len(ranks), (ctypes.c_int64 * max(len(ranks), 1))(*ranks))

    def __eq__(self, other: object) -> bool:
        """Whether everything that is serialized is equal."""
        return lib.weft_program_equal(self._handle, other._handle) if isinstance(other, Program) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it can be edited

    def __copy__(self) -> "Program":
        return self.clone()

    def __deepcopy__(self, _memo: object) -> "Program":
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.print("yaml"),)

    def __str__(self) -> str:
        return self.print("yaml").decode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        nops, nblocks = lib.weft_program_nops(self._handle), lib.weft_program_nblocks(self._handle)
        where = f", for rank {self.rank}" if self.rank >= 0 else ""
        return f"<weft.Program: {nops} ops in {nblocks} block{'s' * (nblocks > 1)}{where}>"


def _unpickle(data: bytes) -> Program:
    return Program.parse(data)


Programs = Union[Program, Path, Iterable[Union[Program, Path]]]  # what a user may give


def programs_of(value: Programs) -> list[Program]:
    """What a user gave as programs (one, a file's name, or several of these) as a list."""
    if isinstance(value, Program):
        return [value]
    if isinstance(value, (str, os.PathLike)):
        return [Program.load(value)]
    return [p if isinstance(p, Program) else Program.load(p) for p in value]

"""What Paddle's static Engine knows beside the program (meshes, placements, rings), in the form that Weft reads."""

import json
from typing import Any, Callable, Iterable, Optional, Sequence

from paddle.distributed.auto_parallel.static.dist_attribute import OperatorDistAttr, TensorDistAttr
from paddle.distributed.auto_parallel.static.dist_op import DistributedOperator
from paddle.distributed.auto_parallel.static.dist_tensor import DistributedTensor
from paddle.distributed.auto_parallel.static.process_group import get_all_process_groups


class _Meshes:
    """Meshes by number, each once."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def number(self, mesh: Any) -> int:
        entry = {"shape": list(mesh.shape), "ids": list(mesh.process_ids), "dims": list(mesh.dim_names)}
        if entry not in self.entries:
            self.entries.append(entry)
        return self.entries.index(entry)


def _var_entry(attr: Any, meshes: _Meshes) -> Optional[dict[str, Any]]:
    if attr is None or attr.process_mesh is None:
        return None
    return {"mesh": meshes.number(attr.process_mesh), "dims_mapping": list(attr.dims_mapping)}


def _mappings(names: Iterable[str], mapping_of: Callable[[str], Iterable[int]]) -> dict[str, list[int]]:
    """dims_mapping of arguments; Paddle gives none for those that were renamed."""
    found = {}
    for name in names:
        try:
            found[name] = list(mapping_of(name))
        except IndexError:
            continue
    return found


def _op_entry(block: Any, index: int, op: Any, attr: Any, meshes: _Meshes) -> dict[str, Any]:
    entry = {"block": block.idx, "idx": index, "type": op.type, "impl_type": attr.impl_type, "impl_idx": attr.impl_idx}
    if attr.process_mesh is not None:
        entry["mesh"] = meshes.number(attr.process_mesh)
    entry["inputs"] = _mappings(op.input_arg_names, attr.get_input_dims_mapping)
    entry["outputs"] = _mappings(op.output_arg_names, attr.get_output_dims_mapping)
    if attr.execution_stream:
        entry["execution_stream"] = attr.execution_stream
    return entry


def sidecar_of(program: Any, dist_context: Any) -> str:
    """JSON text as docs/sidecar.md has it."""
    meshes, variables, ops = _Meshes(), {}, []
    for block in program.blocks:
        for name, var in block.vars.items():
            variables[name] = _var_entry(dist_context.get_tensor_dist_attr_for_program(var), meshes)
        for index, op in enumerate(block.ops):
            attr = dist_context.get_op_dist_attr_for_program(op)
            if attr is not None:
                ops.append(_op_entry(block, index, op, attr, meshes))
    groups = {str(g.id): {"ranks": list(g.ranks), "type": None} for g in get_all_process_groups() if g.ranks}
    return json.dumps({"process_groups": groups, "meshes": meshes.entries, "vars": variables, "ops": ops})


def keep_dist_ops(dist_context: Any, sidecar: str, block_index: int, after: Sequence[tuple[Any, Any]]) -> None:
    """Gives the context what it needs to know of ops that are new: placements of their mesh, and streams."""
    entries = {(e.get("block", 0), e["idx"]): e for e in json.loads(sidecar).get("ops", [])}
    meshes: dict[str, Any] = {}
    for op, old in after:
        attr = dist_context.get_op_dist_attr_for_program(old) if old is not None else None
        if attr is not None and attr.process_mesh is not None:
            meshes.setdefault("any", attr.process_mesh)
    for index, (op, old) in enumerate(after):
        entry = entries.get((block_index, index), {})
        attr = dist_context.get_op_dist_attr_for_program(old) if old is not None else None
        if attr is None:
            attr = OperatorDistAttr(op.desc)
            if "any" in meshes:
                attr.process_mesh = meshes["any"]
            attr.impl_type, attr.impl_idx = "default", 0
            for name in op.input_arg_names:
                attr.set_input_dims_mapping(name, _whole(op.block, name))
            for name in op.output_arg_names:
                attr.set_output_dims_mapping(name, _whole(op.block, name))
        stream = entry.get("execution_stream", "")
        if stream and stream != "default":
            attr.execution_stream = stream
        for name in op.input_arg_names + op.output_arg_names:
            _keep_tensor(dist_context, op.block, name, meshes.get("any"))
        dist_context.add_dist_op_for_program(DistributedOperator(op, attr))


def _whole(block: Any, name: str) -> list[int]:
    """The dims_mapping of a value that every rank has all of, as gradients and buckets are."""
    return [-1] * len(block._var_recursive(name).shape)


def _keep_tensor(dist_context: Any, block: Any, name: str, mesh: Any) -> None:
    var = block._find_var_recursive(name)
    if var is None or mesh is None or dist_context.get_dist_tensor_for_program(var) is not None:
        return
    attr = TensorDistAttr(var.desc)
    attr.process_mesh = mesh
    attr.dims_mapping = [-1] * len(var.shape)
    dist_context.add_dist_tensor_for_program(DistributedTensor(var, attr))

"""torch's fused products with gathers and scatters, where no kernel is for them: as chunks.

A rank's rows go to each other rank in a message of its own, as torch's permute_tensor sends them, and are multiplied
while the next ones travel. What a rank sends where differs by rank: so do the graphs. docs/micro-pipeline.md has the
order of steps and of sums.
"""

from typing import Any, Mapping, Optional, Sequence

from .. import _errors

Row = dict[str, Any]  # a node of a document

GATHER, SCATTER = "symm_mem.fused_all_gather_matmul.default", "symm_mem.fused_matmul_reduce_scatter.default"
AHEAD = 2  # messages that are on their way at once


def _ref(name: str) -> dict[str, str]:
    return {"ref": name}


class _Chunks:
    """Rows that stand in the place of one fused node. ranks: those of its group; rank: this one."""

    def __init__(self, row: Row, ranks: Sequence[int], rank: int) -> None:
        self.rows: list[Row] = []
        self.row = row
        self.dim, self.group = row["args"][-2:]
        self.nranks, self.rank = len(ranks), ranks.index(rank)

    def put(self, target: str, *args: Any, name: Optional[str] = None, **kwargs: Any) -> dict[str, str]:
        """A row; returns the value that it makes."""
        made = name or f"{self.row['name']}_chunk_{len(self.rows)}"
        self.rows.append({"name": made, "target": target, "args": list(args), "kwargs": kwargs})
        return _ref(made)

    def send(self, value: Any, nrows: int, step: int) -> dict[str, str]:
        """Sends rows to the rank `step` before this one; returns what is pending: those of the rank as far behind."""
        to, source = (self.rank - step) % self.nranks, (self.rank + step) % self.nranks
        sent, received = ([nrows if peer == which else 0 for peer in range(self.nranks)] for which in (to, source))
        return self.put("_c10d_functional.all_to_all_single.default", value, received, sent, self.group)

    def wait(self, pending: Any) -> dict[str, str]:
        return self.put("_c10d_functional.wait_tensor.default", pending)

    def multiply(self, rows: Any, right: Any, shape: Sequence[int]) -> dict[str, str]:
        """Rows of `shape` times a matrix."""
        if len(shape) == 2:
            return self.put("aten.mm.default", rows, right)
        flat = self.put("aten.reshape.default", rows, [-1, shape[-1]])
        product = self.put("aten.mm.default", flat, right)
        return self.put("aten.reshape.default", product, [*shape[:-1], -1])


def _gather(chunks: _Chunks, shapes: Mapping[str, Any], uses: Sequence[tuple[str, Optional[int]]]) -> None:
    """Own rows first, then those of the next rank, and of the one behind it."""
    own, rights, _, _ = chunks.row["args"]
    shape, n = shapes[own["ref"]], chunks.nranks
    rows: dict[Any, Any] = {0: own}  # by step, and products by step and matrix
    pending: dict[int, Any] = {}
    for step in range(n):
        for ahead in range(step + 1, min(step + AHEAD, n - 1) + 1):
            if ahead not in pending:
                pending[ahead] = chunks.send(own, shape[0], ahead)
        if step:
            rows[step] = chunks.wait(pending[step])
        for k, right in enumerate(rights):
            rows[step, k] = chunks.multiply(rows[step], right, shape)
    order = [(rank - chunks.rank) % n for rank in range(n)]
    for name, which in uses:
        parts = [rows[step] if which is None else rows[step, which] for step in order]
        chunks.put("aten.cat.default", parts, chunks.dim, name=name)


def _scatter(chunks: _Chunks, shapes: Mapping[str, Any]) -> None:
    """The product for the farthest rank first; the own one last, when nothing is left to send."""
    left, right, reduce, dim, _ = chunks.row["args"]
    shape, n = list(shapes[left["ref"]]), chunks.nranks
    shape[dim] //= n
    if reduce not in ("sum", "avg"):
        raise _errors.Unsupported(f"{chunks.row['name']}: chunks cannot be reduced by {reduce}", "torch.fx.Graph")

    def product(rank: int) -> dict[str, str]:
        rows = chunks.put("aten.slice.Tensor", left, dim, rank * shape[dim], (rank + 1) * shape[dim])
        return chunks.multiply(rows, right, shape)

    pending = [chunks.send(product((chunks.rank - step) % n), shape[0], step) for step in range(1, n)]
    own = product(chunks.rank)
    parts = [*(chunks.wait(p) for p in pending), own]
    total = parts[0]
    for part in parts[1:]:
        total = chunks.put("aten.add.Tensor", total, part)
    if reduce == "avg":
        total = chunks.put("aten.div.Tensor", total, n)
    chunks.rows[-1]["name"] = chunks.row["name"]


def _results_of(document: Row, row: Row) -> tuple[list[tuple[str, Optional[int]]], set[str]]:
    """What is read of a fused gather: names of rows and which result each is (None: the gathered rows)."""
    found: list[tuple[str, Optional[int]]] = []
    lists: dict[str, Optional[bool]] = {row["name"]: None}
    for other in document["nodes"]:
        if other["target"] != "getitem" or other["args"][0].get("ref") not in lists:
            continue
        if other["args"][0]["ref"] == row["name"] and other["args"][1] == 1:
            lists[other["name"]] = True  # the list of products
        else:
            found.append((other["name"], None if other["args"][0]["ref"] == row["name"] else other["args"][1]))
    return found, set(lists) | {name for name, _ in found}


def fused(document: Row) -> list[Row]:
    """The fused nodes of a document."""
    return [row for row in document["nodes"] if row["target"] in (GATHER, SCATTER)]


def _own_rank(row: Row, device: str) -> int:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return int(dist.get_rank())
    raise _errors.Unsupported(f"torch has no kernel of {row['target']} on {device}, and chunks differ by rank: say "
                              "rank=, or call it in a process of the group", "torch.fx.Graph")


def in_chunks(document: Row, groups: Mapping[str, Any], device: str, rank: Optional[int] = None) -> None:
    """Puts chunks in the place of the document's fused nodes, for which `device` has no kernel. rank: this one; None: as
    torch.distributed says."""
    shapes = {row["name"]: row["shape"] for part in ("inputs", "constants", "nodes") for row in document[part]}
    instead: dict[str, list[Row]] = {}
    gone: set[str] = set()
    for row in fused(document):
        chunks = _Chunks(row, groups[row["args"][-1]]["ranks"], _own_rank(row, device) if rank is None else rank)
        if row["target"] == GATHER:
            uses, covered = _results_of(document, row)
            _gather(chunks, shapes, uses)
            gone |= covered
        else:
            _scatter(chunks, shapes)
        instead[row["name"]] = chunks.rows
    document["nodes"] = [new for row in document["nodes"]
                         for new in instead.get(row["name"], [] if row["name"] in gone else [row])]

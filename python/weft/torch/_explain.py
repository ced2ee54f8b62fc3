"""What passes would do to each collective of a graph, and how long a step takes by a model, before and after."""

import json
from typing import Any, Iterator, Mapping, NamedTuple, Union

from .. import _html
from .._library import Path
from .._passes import Report
from .._plan import Cluster, simulate
from .._program import Program


class Collective(NamedTuple):
    """A collective of the graph before."""

    name: str
    target: str
    shape: list[Any]
    outcome: str  # "stays", or what it is part of now
    why: str  # what passes said of it; "" if nothing


def _collectives(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [row for row in document["nodes"] if "_c10d_functional" in row["target"] and "wait_tensor" not in row["target"]]


def _inputs(row: Mapping[str, Any]) -> list[str]:
    """Names that a collective sends; those of a list alike."""
    first = row["args"][0] if row["args"] else []
    return [value["ref"] for value in (first if isinstance(first, list) else [first]) if isinstance(value, dict) and "ref" in value]


def _rows(before: Mapping[str, Any], after: Mapping[str, Any], report: Report) -> Iterator[Collective]:
    left = [entry for done in report for entry in done.left]
    there = {row["name"]: row for row in _collectives(after)}
    senders = {name: row for row in there.values() for name in _inputs(row)}
    for row in _collectives(before):
        now = there.get(row["name"])
        if now is None or now["target"] != row["target"]:
            now = next((senders[name] for name in _inputs(row) if name in senders), None)
        if now is None:
            outcome = "rewritten"
        elif now["target"] == row["target"] and len(_inputs(now)) == len(_inputs(row)):
            outcome = "stays"
        else:
            outcome = f"one of {len(_inputs(now))} in {now['name']} ({now['target'].split('.')[1]})"
        why = "; ".join(f"{entry.reason}: {entry.message}" for entry in left if f'"{row["name"]}"' in entry.message)
        yield Collective(row["name"], row["target"].split(".")[1], row["shape"], outcome, why)


class Explanation:
    """See weft.torch.explain. `collectives`, the passes' `report`, and simulations `before` and `after`, with timelines."""

    def __init__(self, before: Program, after: Program, report: Report, ranks: int, cluster: Union[Cluster, Path, None]) -> None:
        documents = [json.loads(program.print("fx")) for program in (before, after)]
        self.collectives, self.report = list(_rows(documents[0], documents[1], report)), report
        self.before, self.after = (simulate(program, ranks=ranks, cluster=cluster) for program in (before, after))

    def _times(self) -> str:
        return " -> ".join(f"{s.step_seconds * 1e3:.3f} ms, {s.rank_times(0).exposed * 1e3:.3f} ms of it waiting for collectives"
                           for s in (self.before, self.after))

    def __str__(self) -> str:
        lines = [f"{c.name}  {c.target} {c.shape}: {c.outcome}" + (f"  ({c.why})" if c.why else "") for c in self.collectives]
        return "\n".join(lines + ["a step by the model: " + self._times()])

    def __repr__(self) -> str:
        return f"<weft.torch.Explanation: {len(self.collectives)} collectives, {self._times()}>"

    def _repr_html_(self) -> str:
        return _html.table("Weft: collectives", Collective._fields, self.collectives) + self.after._repr_html_()

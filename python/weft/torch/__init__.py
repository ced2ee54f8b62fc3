"""Weft in a PyTorch script: passes over graphs that torch.compile, make_fx or torch.export traced, put back in place.

    import weft.torch
    weft.torch.install()                     # before the first call of a torch.compile'd model

Everything that does not fit is refused before the graph is touched.
"""

import hashlib
import inspect
import json
import logging
from typing import Any, Mapping, Optional, Union

from torch.fx import Graph

from .._library import Path
from .._passes import Passes, Report
from .._plan import Cluster
from .._program import Program
from .._proof import Findings, verify as _verify
from ._explain import Explanation
from . import _chunks, _sizes
from ._export import Document, Groups, is_collective, refuse_foreign
from ._lists import PASSES, chosen
from ._shard import Sharded, shard
from ._splice import replace, without_kernel

__all__ = ["PASSES", "Backend", "Explanation", "PostGradPass", "Sharded", "backend", "explain", "export", "install", "optimize",
           "read", "shard", "uninstall", "verify"]

log = logging.getLogger("weft")


def _graph_of(traced: Any) -> Any:
    """The torch.fx.Graph of a Graph, a GraphModule or an ExportedProgram."""
    refuse_foreign()
    graph = getattr(traced, "graph", traced)
    if not isinstance(graph, Graph):
        raise TypeError(f"expected a traced graph, found {type(traced).__name__}: torch.compile(model, backend=weft.torch.backend) "
                        "traces a model, and so do make_fx and torch.export")
    return graph


def export(traced: Any, groups: Optional[Groups] = None) -> str:
    """The graph as .fx.json text. groups: {name: ranks} where the process groups are not there to be asked."""
    return Document(_graph_of(traced), groups).text


def read(traced: Any, groups: Optional[Groups] = None) -> Program:
    """The graph as Weft's program: a copy."""
    return Program.parse(export(traced, groups), "fx", place="torch.fx.Graph")


def optimize(traced: Any, passes: Optional[Passes] = None, *, groups: Optional[Groups] = None, rank: Optional[int] = None,
             set: Optional[Mapping[str, object]] = None, prove: Optional[str] = None) -> Report:
    """Runs passes over a traced graph and puts the result in its place; returns the Report.

    Nodes that stay keep their identity and metadata; new ones get metadata by running them on fake tensors. The graph
    holds only ops that torch knows, and passes graph.lint(). If a pass refuses, the graph is as it was.

    What ("micro_pipeline_tp", {"form": "fused"}) takes becomes torch's fused op, or where torch has no kernel of that for
    the device, chunks of this rank. rank: None: as torch.distributed says.
    """
    graph = _graph_of(traced)
    document = Document(graph, groups)
    program = Program.parse(document.text, "fx", place="torch.fx.Graph")
    report = program.run_passes(chosen(passes), set=set, prove=prove)
    after = document.read(program.print("fx").decode())
    missing = without_kernel(graph, {row["target"] for row in _chunks.fused(after)})
    if missing:
        _chunks.in_chunks(after, document.groups, missing[1], rank)
    replace(graph, document, after)
    module = getattr(traced, "graph_module", traced)
    if hasattr(module, "recompile"):  # a Graph's owner does so itself
        module.recompile()
    return report


def explain(traced: Any, passes: Optional[Passes] = None, *, groups: Optional[Groups] = None, ranks: Optional[int] = None,
            cluster: Union[Cluster, Path, None] = None, set: Optional[Mapping[str, object]] = None) -> Explanation:
    """What passes would do to each collective of a traced graph and why not. It tells how long a step would take by a model of the
    cluster (a weft.Cluster or a file), with timelines. The graph stays as it is.

    ranks: None: as many as the largest group has.
    """
    before = read(traced, groups)
    after = before.clone()
    report = after.run_passes(chosen(passes), set=set)
    if ranks is None:
        sizes = [g["size"] for g in json.loads(before.print("fx"))["groups"].values()]
        ranks = max(sizes, default=1)
    return Explanation(before, after, report, ranks, cluster)


def verify(graphs: Any, groups: Optional[Groups] = None, **options: Any) -> Findings:
    """Races, order, pairing and missing waits of the graphs of all ranks, before the first step."""
    graphs = graphs if isinstance(graphs, (list, tuple)) else [graphs]
    return _verify([g if isinstance(g, Program) else read(g, groups) for g in graphs], **options)


def PostGradPass(passes: Optional[Passes] = None, strict: bool = False) -> Any:
    """What torch._inductor.config.post_grad_custom_post_pass takes: Weft's passes over each graph with collectives.

    strict: a graph that Weft refuses raises; else it stays as it is and the logger "weft" says why. `reports` has what
    was done.
    """
    refuse_foreign()
    from torch._inductor.custom_graph_pass import CustomGraphPass
    from torch._inductor.pattern_matcher import stable_topological_sort

    todo = PASSES if passes is None else passes
    base: Any = CustomGraphPass

    class Pass(base):
        def __init__(self) -> None:
            self.reports: list[Report] = []

        def __deepcopy__(self, _memo: object) -> "Pass":
            return self  # torch copies its config as it compiles

        def __call__(self, graph: Any) -> None:
            if not any(map(is_collective, graph.nodes)):
                return
            stable_topological_sort(graph)  # torch's own passes leave that for later
            try:
                self.reports.append(optimize(graph, todo))
            except Exception as error:
                if strict:
                    raise
                log.warning("a graph stays as torch made it: %s", error)

        def uuid(self) -> bytes:
            from .. import __version__

            text = json.dumps([__version__, todo], default=lambda f: inspect.getsource(f))
            return hashlib.sha256(text.encode()).digest()

    return Pass()


class Backend:
    """torch.compile(model, backend=weft.torch.backend): forward and backward graphs with Weft's passes, run by torch's
    own kernels one after another. Compiling takes no C++ compiler. Graphs that Weft refuses raise. A graph of open sizes
    is compiled for each size that comes.

    torch.compile(.., options={"passes": [..]}) takes other passes than PASSES. `reports` are those of all graphs so far.
    """

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def __call__(self, module: Any, inputs: Any, options: Optional[Mapping[str, Any]] = None) -> Any:
        if _sizes.are_open(inputs):
            return _sizes.for_each(lambda given: self._compile(module, given, options))
        return self._compile(module, inputs, options)

    def _compile(self, module: Any, inputs: Any, options: Optional[Mapping[str, Any]]) -> Any:
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd

        run_passes = PostGradPass((options or {}).get("passes"), strict=True)

        def compile_graph(traced: Any, _inputs: Any) -> Any:
            run_passes(traced.graph)
            self.reports.extend(run_passes.reports)
            run_passes.reports.clear()
            traced.recompile()
            return make_boxed_func(traced.forward)

        return aot_autograd(fw_compiler=compile_graph)(module, inputs)


backend = Backend()


def install(passes: Optional[Passes] = None, strict: bool = False) -> Any:
    """Makes torch.compile run Weft's passes over each graph after its own; returns the PostGradPass."""
    import torch._inductor.config as config

    config.post_grad_custom_post_pass = PostGradPass(passes, strict)
    return config.post_grad_custom_post_pass


def uninstall() -> None:
    """Takes them out again."""
    import torch._inductor.config as config

    config.post_grad_custom_post_pass = None

"""Graphs of open sizes. Weft knows only sizes that are numbers: such a graph is compiled again for each size that comes."""

from typing import Any, Callable, Sequence

import torch


def are_open(inputs: Sequence[Any]) -> bool:
    """Whether a size of what a graph takes is a symbol."""
    return any(isinstance(extent, torch.SymInt) for given in inputs for extent in (given, *getattr(given, "shape", ())))


def for_each(compiled: Callable[[Sequence[Any]], Callable[..., Any]]) -> Callable[..., Any]:
    """A function that is compiled(inputs) of the sizes that it is called with."""
    made: dict[Any, Callable[..., Any]] = {}

    def run(*inputs: Any) -> Any:
        sizes = tuple([(g.shape, g.stride()) if isinstance(g, torch.Tensor) else g for g in inputs])
        if sizes not in made:
            made[sizes] = compiled(inputs)
        return made[sizes](*inputs)

    return run

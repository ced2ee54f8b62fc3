"""Graphs of open sizes. Weft knows only sizes that are numbers: such a graph is compiled again for each size that comes."""

from typing import Any, Callable, Sequence

import torch
from torch.utils._pytree import tree_leaves


def are_open(inputs: Sequence[Any]) -> bool:
    """Whether a size of what a graph takes is a symbol."""
    return any(isinstance(extent, torch.SymInt) for leaf in tree_leaves(inputs) for extent in (leaf, *getattr(leaf, "shape", ())))


def for_each(compiled: Callable[[Sequence[Any]], Callable[..., Any]]) -> Callable[..., Any]:
    """A function that is compiled(inputs) of the sizes that it is called with."""
    made: dict[Any, Callable[..., Any]] = {}

    def run(*inputs: Any) -> Any:  # compiled autograd gives tensors in a list
        sizes = tuple([(leaf.shape, leaf.stride()) if isinstance(leaf, torch.Tensor) else leaf for leaf in tree_leaves(inputs)])
        if sizes not in made:
            made[sizes] = compiled(inputs)
        return made[sizes](*inputs)

    return run

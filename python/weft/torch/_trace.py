"""A model's loss and gradients as one graph that spmd_expand can part."""

from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

import torch
from torch._decomp import get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


def _batch_norm(x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
                eps: float) -> tuple[Any, Any, Any]:
    """native_batch_norm by sums, of which ranks that have parts of the batch add up theirs. torch's own op writes the running
    statistics, though its schema does not say so."""
    count, shape = x.numel() // x.shape[1], [1, -1, *[1] * (x.ndim - 2)]
    if training:
        mean = _over_batch(x) / count
        centred = x - mean.view(shape)
        var = _over_batch(centred * centred) / count
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean * momentum)
            running_var.mul_(1 - momentum).add_(var * (momentum * count / max(count - 1, 1)))
    else:
        mean, var = running_mean, running_var
        centred = x - mean.view(shape)
    invstd = torch.rsqrt(var + eps)
    out = centred * invstd.view(shape)
    out = out if weight is None else out * weight.view(shape)
    return out if bias is None else out + bias.view(shape), mean if training else mean[:0], invstd if training else invstd[:0]


def _batch_norm_backward(grad: Any, x: Any, weight: Any, running_mean: Any, running_var: Any, mean: Any, invstd: Any,
                         training: bool, eps: float, wanted: Sequence[bool]) -> tuple[Any, Any, Any]:
    count, shape = x.numel() // x.shape[1], [1, -1, *[1] * (x.ndim - 2)]
    if not training:
        mean, invstd = running_mean, torch.rsqrt(running_var + eps)
    normal = (x - mean.view(shape)) * invstd.view(shape)
    of_bias, of_weight = _over_batch(grad), _over_batch(grad * normal)
    of_x = grad - (of_bias / count).view(shape) - normal * (of_weight / count).view(shape) if training else grad
    of_x = of_x * (invstd if weight is None else invstd * weight).view(shape)
    return of_x if wanted[0] else None, of_weight if wanted[1] else None, of_bias if wanted[2] else None


def _over_batch(x: Any) -> Any:
    return x.sum([d for d in range(x.ndim) if d != 1])


def _bernoulli(x: Any, p: float = 0.5, generator: Optional[Any] = None) -> Any:
    """bernoulli_ of a tensor that no rank sends, since it is overwritten. Every rank draws all of it, in the order in which
    x lies in memory, as bernoulli_ does."""
    order = sorted(range(x.ndim), key=lambda d: x.stride(d), reverse=True)
    drawn = aten.empty.memory_format([x.shape[d] for d in order], dtype=x.dtype, device=x.device)
    return x.copy_(aten.bernoulli.p(drawn, p, generator=generator).permute([order.index(d) for d in range(x.ndim)]))


DECOMPOSED: Mapping[Any, Callable[..., Any]] = {
    aten.native_batch_norm.default: _batch_norm,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
    aten.bernoulli_.float: _bernoulli,
    **get_decompositions([aten.native_group_norm, aten.native_group_norm_backward]),  # torch's ops are told the batch size
}


class _Step(torch.nn.Module):
    """The loss and gradients in one call: what a model computes again in backward has the parameters of that call too."""

    def __init__(self, model: Any, loss_of: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.loss_of = model, loss_of

    def forward(self, wanted: Sequence[Any], *inputs: Any) -> tuple[Any, Sequence[Any]]:
        loss = self.loss_of(self.model, *inputs)
        return loss, torch.autograd.grad(loss, wanted, allow_unused=True)


class Step(NamedTuple):
    """Of parameters, buffers and inputs, in this order. What the model writes is copied into its buffers at the end."""

    graph_module: Any
    holders: list[str]  # names of its placeholders
    trained: list[str]  # parameters whose gradients follow the loss
    draws: bool  # it has ops that draw numbers


def trace(model: Any, loss_of: Callable[..., Any], inputs: Sequence[Any]) -> Step:
    """The loss and the gradients of all parameters that it depends on and that want one."""
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    names, wanted = [*parameters, *buffers], [name for name, p in parameters.items() if p.requires_grad]
    whole = _Step(model, loss_of)
    trained: list[str] = []

    def step(*values: Any) -> Any:
        own = dict(zip(names, values))
        loss, found = torch.func.functional_call(whole, {f"model.{name}": v for name, v in own.items()},
                                                 ([own[name] for name in wanted], *values[len(names):]))
        grads = {name: grad for name, grad in zip(wanted, found) if grad is not None}
        trained[:] = grads
        return (loss, *grads.values())

    given = [*[p.detach().requires_grad_(p.requires_grad) for p in parameters.values()], *buffers.values(), *inputs]
    with torch.backends.mkldnn.flags(enabled=False):  # whose recurrent layers cannot be traced
        traced = make_fx(step, decomposition_table=dict(DECOMPOSED), tracing_mode="fake")(*given)
    writes_nothing = torch.func.functionalize(traced, remove="mutations")
    traced = make_fx(writes_nothing, tracing_mode="fake")(*[x.detach() for x in given])
    draws = any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in traced.graph.nodes)
    return Step(traced, [node.name for node in traced.graph.nodes if node.op == "placeholder"], trained, draws)

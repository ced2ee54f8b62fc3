#!/usr/bin/env python3
"""Records what PyTorch computes, for tests/data/torch: `tools/record_aten.py FOLDER [NAME...]`, with torch on a CPU.

FOLDER/aten/NAME.fx.json: graphs whose nodes are calls of ATen ops, apart from one another, by family.
FOLDER/training/NAME.fx.json: whole training steps as make_fx traces them: forward, backward, SGD.
Beside each NAME.npz: `in.<input>`, and `out.<i>`, the i-th output as torch computed it.
"""

import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

as_text = lambda value: json.dumps(value, separators=(",", ":"))
word = lambda value: str(value).replace("torch.", "")


def encode(value):
    """An argument as the form has it; tensors are refs by now."""
    if isinstance(value, dict) or value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"f": value if math.isfinite(value) else str(value)}
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    for kind, key in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format")):
        if isinstance(value, kind):
            return {key: word(value)}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    raise TypeError(value)


def type_of(value):
    if isinstance(value, (list, tuple)) and not hasattr(value, "shape"):
        types = [type_of(v) for v in value]
        return [s for s, _ in types], [d for _, d in types]
    return (None, None) if value is None else (list(value.shape), word(value.dtype))


def array(tensor):
    tensor = tensor.detach().clone().contiguous()
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def save(path, inputs, nodes, outputs, arrays):
    parts = {"inputs": inputs, "constants": [], "nodes": nodes, "outputs": outputs}
    lines = ['"schema":"fx.json/1"', '"groups":{}']
    lines += [f'"{key}":[' + "\n" + ",\n".join(as_text(r) for r in rows) + "\n]" for key, rows in parts.items()]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".fx.json", "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
    np.savez_compressed(path + ".npz", **arrays)


class Cases:
    """Calls of ops; each tensor among the arguments becomes an input, each tensor of a result an output."""

    def __init__(self, path):
        self.path, self.inputs, self.nodes, self.outputs, self.arrays = path, [], [], [], {}
        torch.manual_seed(7)

    def ref(self, value):
        if isinstance(value, (list, tuple)):
            return [self.ref(v) for v in value]
        if not isinstance(value, torch.Tensor):
            return encode(value)
        for row in self.inputs:
            if row["tensor"] is value:
                return {"ref": row["name"]}
        row = {"name": f"x{len(self.inputs)}", "shape": list(value.shape), "dtype": word(value.dtype), "role": "data"}
        self.arrays["in." + row["name"]] = array(value)
        self.inputs.append(row | {"tensor": value})
        return {"ref": row["name"]}

    def call(self, target, *args, **kwargs):
        """`target` without "aten."; what torch makes of it."""
        name, _, overload = target.partition(".")
        op = getattr(getattr(torch.ops.aten, name), overload or "default")
        node = {"name": f"n{len(self.nodes)}", "op": "call", "target": f"aten.{name}.{overload or 'default'}",
                "args": self.ref(args), "kwargs": {k: self.ref(v) for k, v in kwargs.items()}}
        written = op._schema.arguments[0].alias_info
        fresh = args[0].clone() if written is not None and written.is_write else None
        value = op(args[0].clone() if fresh is not None else args[0], *args[1:], **kwargs) if args else op(**kwargs)
        shape, dtype = type_of(value)
        self.nodes.append(node | {"shape": shape, "dtype": dtype})
        members = value if isinstance(value, (list, tuple)) else [value]
        for k, member in enumerate(members):
            if member is None:
                continue
            ref = node["name"]
            if isinstance(value, (list, tuple)):
                ref = f"{node['name']}_{k}"
                self.nodes.append({"name": ref, "op": "call", "target": "getitem", "args": [{"ref": node["name"]}, k],
                                   "kwargs": {}, "shape": list(member.shape), "dtype": word(member.dtype)})
            self.arrays[f"out.{len(self.outputs)}"] = array(member)
            self.outputs.append({"ref": ref, "name": node["target"]})
        return value

    def save(self):
        save(self.path, [{k: v for k, v in row.items() if k != "tensor"} for row in self.inputs], self.nodes,
             self.outputs, self.arrays)


def spoiled(tensor):
    """The same with a NaN and infinities in it."""
    tensor = tensor.clone()
    flat = tensor.view(-1)
    flat[1 % flat.numel()], flat[flat.numel() // 2], flat[-1] = math.nan, math.inf, -math.inf
    return tensor


# --- families of ops --------------------------------------------------------------------------------------------------


def convolution(c):
    def both(x, w, b, *rest, mask=(True, True, True)):
        y = c.call("convolution", x, w, b, *rest)
        c.call("convolution_backward", torch.randn(y.shape, dtype=y.dtype), x, w, [y.shape[1]], *rest, list(mask))

    r = torch.randn
    both(r(2, 3, 7, 5), r(4, 3, 3, 3), r(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    both(r(2, 4, 9, 8), r(6, 2, 3, 2), r(6), [2, 1], [1, 0], [2, 1], False, [0, 0], 2)
    both(r(2, 4, 5, 5), r(4, 1, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 4, mask=(True, True, False))
    both(r(2, 3, 6, 6), r(5, 3, 1, 1), r(5), [2, 2], [0, 0], [1, 1], False, [0, 0], 1, mask=(False, True, True))
    both(r(2, 4, 3, 4), r(4, 3, 3, 2), r(3), [2, 3], [1, 0], [1, 1], True, [1, 2], 1)
    both(r(2, 4, 3, 4), r(4, 2, 2, 2), r(4), [2, 2], [0, 1], [1, 2], True, [0, 1], 2, mask=(True, False, False))
    both(r(2, 3, 9), r(4, 3, 3), r(4), [2], [1], [2], False, [0], 1)
    both(r(2, 2, 5), r(2, 3, 3), r(3), [2], [1], [1], True, [1], 1)
    both(r(1, 2, 4, 5, 3), r(3, 2, 2, 3, 2), r(3), [1, 2, 1], [0, 1, 1], [1, 1, 1], False, [0, 0, 0], 1)
    both(r(2, 2, 5, 4, dtype=torch.float64), r(2, 2, 3, 3, dtype=torch.float64), r(2, dtype=torch.float64), [1, 1], [1, 1],
         [1, 1], False, [0, 0], 1)
    both(spoiled(r(1, 2, 4, 4)), r(2, 2, 3, 3), r(2), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)


def batch_norm(c):
    for shape in ((4, 3, 5, 2), (6, 3), (4, 3, 7)):
        x, w, b, mean, var = torch.randn(shape), torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3) + 0.5
        for train in (True, False):
            copy = lambda: (mean.clone(), var.clone())
            y = c.call("native_batch_norm", x, w, b, *copy(), train, 0.1, 1e-5)
            saved = y[1:] if train else (None, None)
            c.call("native_batch_norm_backward", torch.randn(shape), x, w, *copy(), *saved, train, 1e-5,
                   [True, True, True])
    x = torch.randn(4, 3, 5, 2)
    y = c.call("native_batch_norm", x, None, None, None, None, True, 0.2, 1e-3)
    c.call("native_batch_norm_backward", torch.randn(x.shape), x, None, None, None, y[1], y[2], True, 1e-3,
           [True, False, False])
    c.call("_native_batch_norm_legit_functional", x, torch.ones(3), None, torch.zeros(3), torch.ones(3), True, 0.3, 1e-5)
    c.call("_native_batch_norm_legit.no_stats", x, torch.ones(3), torch.ones(3), True, 0.3, 1e-5)
    c.call("_native_batch_norm_legit_no_training", x, torch.ones(3), torch.ones(3), torch.ones(3), torch.rand(3), 0.3, 1e-5)
    c.call("native_batch_norm", spoiled(x), torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3), True, 0.1, 1e-5)


def pooling(c):
    def maximum(n, x, *rest):
        full = list(rest) + [[0], [1], False][len(rest) - 2:] if len(rest) >= 2 else None
        y = c.call(f"max_pool{n}d_with_indices", x, *rest)
        if full:
            c.call(f"max_pool{n}d_with_indices_backward", torch.randn(y[0].shape), x, *full, y[1])

    def mean(n, x, *rest):
        y = c.call(f"avg_pool{n}d", x, *rest)
        if n > 1 and len(rest) == 6:
            c.call(f"avg_pool{n}d_backward", torch.randn(y.shape), x, *rest)

    r = torch.randn
    maximum(2, r(2, 3, 6, 6), [2, 2])
    maximum(2, r(2, 3, 7, 6), [3, 2], [2, 2], [1, 1], [1, 1], False)
    maximum(2, r(2, 3, 7, 8), [3, 3], [2, 3], [1, 1], [2, 1], True)
    maximum(2, spoiled(r(1, 2, 5, 5)), [3, 3], [1, 1], [1, 1], [1, 1], False)
    maximum(2, r(3, 6, 6), [2, 2], [1, 1], [0, 0], [2, 2], False)
    maximum(3, r(1, 2, 4, 5, 4), [2, 2, 2], [2, 1, 2], [0, 1, 0], [1, 1, 1], True)
    mean(2, r(2, 3, 6, 6), [2, 2], [2, 2], [0, 0], False, True, None)
    mean(2, r(2, 3, 7, 5), [3, 2], [2, 2], [1, 1], True, False, None)
    mean(2, r(2, 3, 7, 5), [3, 3], [2, 2], [1, 1], True, True, None)
    mean(2, r(2, 3, 7, 5), [3, 3], [2, 2], [1, 0], False, True, 5)
    mean(2, r(2, 3, 5, 5), [2, 2])
    mean(3, r(1, 2, 4, 5, 3), [2, 2, 2], [2, 1, 1], [1, 0, 0], False, False, None)
    mean(1, r(2, 3, 8), [3], [2], [1])
    for shape, size in (((2, 3, 7, 5), [3, 2]), ((2, 3, 4, 4), [1, 1]), ((3, 5, 6), [7, 4])):
        x = r(shape)
        y = c.call("_adaptive_avg_pool2d", x, size)
        c.call("_adaptive_avg_pool2d_backward", r(y.shape), x)


def attention(c):
    name = "_scaled_dot_product_flash_attention_for_cpu"

    def both(q, k, v, causal=False, **rest):
        out, sums = c.call(name, q, k, v, 0.0, causal, **rest)
        if q.shape[1] == k.shape[1]:
            c.call(name + "_backward", torch.randn(out.shape, dtype=q.dtype), q, k, v, out, sums, 0.0, causal, **rest)

    r = torch.randn
    both(r(2, 3, 5, 4), r(2, 3, 7, 4), r(2, 3, 7, 4))
    both(r(2, 3, 5, 4), r(2, 3, 5, 4), r(2, 3, 5, 4), True)
    both(r(1, 2, 3, 8), r(1, 2, 6, 8), r(1, 2, 6, 8), True, scale=0.5)
    both(r(2, 3, 5, 4), r(2, 3, 6, 4), r(2, 3, 6, 4), attn_mask=r(5, 6))
    both(r(2, 3, 5, 4), r(2, 3, 6, 4), r(2, 3, 6, 4), attn_mask=r(2, 1, 5, 6))
    masked = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf)
    both(r(1, 2, 4, 3), r(1, 2, 4, 3), r(1, 2, 4, 3), attn_mask=masked)
    double = lambda *shape: torch.randn(*shape, dtype=torch.float64)
    both(double(1, 2, 3, 4), double(1, 2, 3, 4), double(1, 2, 3, 4))


def losses(c):
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for reduction in (0, 1, 2):
        loss = c.call("mse_loss", x, y, reduction)
        c.call("mse_loss_backward", torch.randn(loss.shape), x, y, reduction)
    c.call("mse_loss", spoiled(x), y)


def in_place(c):
    x, y = torch.randn(3, 4), torch.randn(4)
    for name in ("sigmoid_", "tanh_", "relu_", "exp_", "sqrt_", "zero_"):
        c.call(name, x.clone())
        c.call(name, spoiled(x))
    for name in ("add_", "sub_", "mul_", "div_"):
        c.call(name + ".Tensor", x.clone(), y)
        c.call(name + ".Tensor", x.clone(), 3)
        c.call(name + ".Scalar", x.clone(), 0.3)
    c.call("add_.Tensor", x.clone(), y, alpha=-0.1)
    c.call("sub_.Tensor", torch.arange(6), torch.arange(6) // 2, alpha=3)
    c.call("fill_.Scalar", x.clone(), -math.inf)


def pointwise(c):
    """Each also of NaN and infinities."""
    x, y, whole = torch.randn(3, 5), torch.randn(5), torch.arange(-5, 7)
    odd, other = spoiled(x), spoiled(y)
    one = """abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor isnan isinf isfinite leaky_relu elu log log10 log1p log2
             neg reciprocal relu round rsqrt sigmoid sign silu sin sinh sqrt softplus tan tanh trunc hardtanh hardswish gelu""".split()
    for name in one:
        c.call(name, x * 2)
        c.call(name, odd)
    c.call("gelu", odd, approximate="tanh")
    for name in ("maximum", "minimum", "fmod.Tensor", "remainder.Tensor", "atan2", "floor_divide", "pow.Tensor_Tensor", "add.Tensor",
                 "sub.Tensor", "mul.Tensor", "div.Tensor", *(f"{n}.Tensor" for n in ("eq", "ne", "lt", "le", "gt", "ge"))):
        c.call(name, x, y)
        c.call(name, odd, other)
    c.call("maximum", whole, whole.flip(0))
    c.call("minimum", whole.view(3, 4), whole[:4])
    c.call("pow.Tensor_Tensor", whole, torch.full((12,), 3))
    c.call("pow.Scalar", 2.5, odd)
    c.call("eq.Tensor", whole, torch.arange(12.0) / 2 - 5)
    c.call("lt.Tensor", whole, whole.flip(0))
    c.call("clamp", odd, -0.5, 0.25)
    c.call("clamp", odd, 0.5, -0.25)
    c.call("clamp", odd, None, 0.25)
    c.call("clamp", odd, 0.1)
    c.call("clamp", whole, -2, 3)
    c.call("clamp.Tensor", odd, y)
    c.call("clamp_min", odd, 0.0)
    c.call("fmod.Scalar", odd, 0.75)
    c.call("div.Tensor_mode", x, y, rounding_mode="trunc")
    c.call("div.Tensor_mode", x, y, rounding_mode="floor")
    c.call("lerp.Scalar", x, y, 0.3)
    c.call("lerp.Scalar", x, y, 0.7)
    c.call("lerp.Tensor", x, x.flip(0), torch.rand(3, 5))
    c.call("lerp_.Scalar", x.clone(), y, 0.1)
    for name in ("addcmul", "addcdiv"):
        c.call(name, x, y, torch.randn(3, 1), value=0.3)
        c.call(name + "_", x.clone(), y, torch.randn(3, 1), value=-0.3)
    yes, no = torch.rand(3, 5) > 0.5, torch.rand(5) > 0.5
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"):
        c.call(name, yes, no)
    c.call("bitwise_and.Scalar", whole, 6)
    c.call("bitwise_not", whole)
    c.call("masked_fill.Scalar", odd, yes, -math.inf)
    c.call("masked_fill.Tensor", x, no, torch.tensor(2.5))
    c.call("where.self", yes, x, y)
    g = torch.randn(3, 5)
    for xs in (x * 2, odd):
        c.call("threshold_backward", g, xs, 0)
        c.call("hardtanh_backward", g, xs, -1.0, 1.0)
        c.call("leaky_relu_backward", g, xs, 0.1, False)
        c.call("elu_backward", g, 1.5, 1, 1, False, xs)
        c.call("gelu_backward", g, xs)
        c.call("gelu_backward", g, xs, approximate="tanh")
        c.call("silu_backward", g, xs)
        c.call("sigmoid_backward", g, xs)
        c.call("tanh_backward", g, xs)
        c.call("softplus_backward", g, xs, 1.0, 20.0)
    c.call("native_dropout_backward", g, yes, 2.0)
    c.call("stack", [x, g, odd], 1)
    c.call("lift_fresh_copy", odd)
    c.call("scalar_tensor", 0.5)
    c.call("new_zeros", x, [2, 3])
    c.call("new_full", whole, [2], 7)


def by_index(c):
    x, whole = torch.randn(4, 5, 3), torch.arange(24).view(4, 6)
    at = lambda most, *shape: torch.randint(0, most, shape)
    c.call("gather", x, 1, at(5, 4, 7, 3))
    c.call("gather", x, -1, at(3, 2, 3, 6))
    c.call("gather", whole, 0, at(4, 2, 6))
    distinct = torch.stack([torch.randperm(5)[:3] for _ in range(12)]).view(4, 3, 3).transpose(1, 2).contiguous()
    c.call("scatter.src", x, 1, distinct.transpose(1, 2).contiguous(), torch.randn(4, 5, 4)[:, :, :3].contiguous())
    c.call("scatter.value", x, 1, at(5, 4, 2, 3), -2.5)
    c.call("scatter.value", whole, 1, at(6, 4, 2), 100)
    index = at(5, 4, 6, 3)
    c.call("scatter_add", x, 1, index, torch.randn(4, 6, 3))
    c.call("scatter_add", whole, 1, at(6, 4, 6), whole)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            c.call("scatter_reduce.two", x, 1, index, torch.randn(4, 6, 3), reduce, include_self=include)
    c.call("scatter_reduce.two", x, 1, index, spoiled(torch.randn(4, 6, 3)), "amax")
    c.call("scatter_reduce.two", whole, 1, at(6, 4, 6), whole, "mean")
    c.call("scatter.reduce", x, 1, index, torch.randn(4, 6, 3), reduce="multiply")
    c.call("index.Tensor", x, [at(4, 6)])
    c.call("index.Tensor", x, [None, at(5, 2, 3)])
    c.call("index.Tensor", x, [at(4, 2, 1), at(5, 3)])
    c.call("index.Tensor", x, [at(4, 6), None, at(3, 6)])
    c.call("index.Tensor", x, [None, at(5, 2), at(3, 1) - 3])
    c.call("index_put", x, [torch.randperm(4)[:3]], torch.randn(5, 3))
    c.call("index_put", x, [at(4, 6), at(5, 6)], torch.randn(6, 3), True)
    c.call("index_put", x, [None, torch.randperm(5)[:2]], torch.randn(4, 2, 1))
    c.call("index_put_", x.clone(), [at(4, 6), None, at(3, 6)], torch.randn(6, 5), True)
    c.call("index_put", whole, [at(4, 9)], whole[0], True)
    c.call("index_select", x, 1, at(5, 6))
    c.call("index_add", x, 1, at(5, 6), torch.randn(4, 6, 3))


def order(c):
    x = torch.randn(4, 5, 3)
    odd = spoiled(x)
    for xs in (x, odd):
        for descending in (False, True):
            c.call("sort", xs, 1, descending)
        c.call("topk", xs, 3, 1)
        c.call("topk", xs, 2, -1, False)
        c.call("max.dim", xs, 1)
        c.call("min.dim", xs, -1, True)
        for name in ("max", "min", "cumsum", "cumprod", "argmax", "argmin", "logsumexp", "amax", "amin"):
            c.call(name, xs, *([] if name in ("max", "min") else [[1]] if name in ("logsumexp", "amax", "amin") else [1]))
    c.call("sort.stable", torch.tensor([3, 1, 3, 2, 1]), stable=True)
    c.call("max.dim", torch.tensor([[3, 1, 3], [2, 2, 1]]), 1)
    c.call("any", x > 2)
    c.call("any.dim", x > 1, 1)
    c.call("any.dims", x > 1, [0, 2], True)
    c.call("all", x > -9)
    c.call("all.dim", x > -1, 2, True)
    c.call("prod.dim_int", x, 1)
    for dim, correction, keep in (([1], 1, False), ([0, 2], 0, True), (None, 1, False), ([-1], 2, True)):
        c.call("var.correction", x, dim, correction=correction, keepdim=keep)
        c.call("var_mean.correction", x, dim, correction=correction, keepdim=keep)
    c.call("var.dim", odd, [1])


def group_norm(c):
    for shape, groups in (((2, 6, 3, 4), 3), ((2, 4, 5), 1), ((3, 9), 3)):
        x, w, b = torch.randn(shape), torch.randn(shape[1]), torch.randn(shape[1])
        plane = math.prod(shape[2:])
        y, mean, rstd = c.call("native_group_norm", x, w, b, shape[0], shape[1], plane, groups, 1e-5)
        c.call("native_group_norm_backward", torch.randn(shape), x, mean, rstd, w, shape[0], shape[1], plane, groups,
               [True, True, True])
    c.call("native_group_norm", x, None, None, 3, 9, 1, 3, 1e-5)
    scores, labels = torch.randn(2, 5, 3, 2).log_softmax(1), torch.randint(0, 5, (2, 3, 2))
    for reduction in (0, 1, 2):
        loss, total = c.call("nll_loss2d_forward", scores, labels, torch.rand(5), reduction, 3)
        c.call("nll_loss2d_backward", torch.randn(loss.shape), scores, labels, torch.rand(5), reduction, 3, total)


def parts(c):
    x = torch.randn(3, 4, 5)
    c.call("select_backward", torch.randn(3, 5), [3, 4, 5], 1, -1)
    c.call("slice_scatter", x, torch.randn(3, 2, 5), 1, 1, 4, 2)
    c.call("select_scatter", x, torch.randn(3, 4), 2, 3)
    c.call("unbind.int", x, 1)
    c.call("constant_pad_nd", x, [1, 2], 0.5)
    c.call("constant_pad_nd", x, [1, -2, -1, 3, 0, 1], -1.0)
    c.call("constant_pad_nd", torch.arange(4), [2, 1])
    c.call("arange.start_step", 1, 9, 3)
    c.call("arange.start_step", 0.5, -1.0, -0.25)
    c.call("arange.start", 2, 5)
    c.call("arange", 4.0)
    c.call("copy", torch.zeros(3, 4, dtype=torch.float64), torch.arange(4))
    c.call("baddbmm", torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5))
    c.call("baddbmm", torch.randn(5), torch.randn(2, 3, 4), torch.randn(2, 4, 5), beta=0.5, alpha=-2.0)
    masked = x.clone()
    masked[1, :, 2] = -math.inf
    for dim in (1, -1):
        c.call("_safe_softmax", masked, dim)
    c.call("unsafe_split.Tensor", x, 3, 1)
    c.call("split_with_sizes_copy", x, [1, 3], 1)


def sizes(c):
    for x, size in ((torch.randn(2, 2, 3, 5), [6, 7]), (torch.randn(1, 2, 6, 4), [4, 8]), (torch.randn(1, 1, 3, 3), [3, 6])):
        shape = list(x.shape)
        g = torch.randn(*shape[:2], *size)
        c.call("upsample_nearest2d", x, size)
        c.call("upsample_nearest2d_backward", g, size, shape)
        for corners in (True, False):
            c.call("upsample_bilinear2d", x, size, corners)
            c.call("upsample_bilinear2d_backward", g, size, shape, corners)
    c.call("upsample_nearest2d", x, [4, 7], 1.5, 2.5)
    c.call("upsample_bilinear2d", x, [4, 7], False, 1.5, 2.5)
    c.call("upsample_nearest2d.vec", x, None, [1.5, 2.0])
    c.call("upsample_bilinear2d.vec", x, [5, 4], True, None)
    c.call("upsample_bilinear2d", x.double(), [4, 7], False)


FAMILIES = [pointwise, parts, sizes, by_index, order, group_norm, convolution, batch_norm, pooling, attention, losses, in_place]


# --- training steps ---------------------------------------------------------------------------------------------------


def step_of(model, loss_of, rate=0.1):
    """A function of parameters, buffers and data that gives the loss and the new parameters."""
    params = dict(model.named_parameters())
    buffers = dict(model.named_buffers())

    def step(new, kept, *data):
        new = [p.detach().requires_grad_(True) for p in new]
        state = dict(zip(params, new)) | dict(zip(buffers, kept))
        loss = loss_of(lambda *x: functional_call(model, state, x), *data)
        grads = torch.autograd.grad(loss, new)
        with torch.no_grad():
            return [loss] + [p - rate * g for p, g in zip(new, grads)]

    clone = lambda values: [v.detach().clone() for v in values]
    return step, clone(params.values()), clone(buffers.values())


class Block(nn.Module):
    """A block of a transformer, without dropout."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        batch, length, width = x.shape
        heads = lambda t: t.view(batch, length, 4, 4).transpose(1, 2)
        q, k, v = self.qkv(self.norm1(x)).split(16, 2)
        attended = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Cell(nn.Module):
    """A loop over an LSTM cell."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(5, 7), nn.Linear(7, 3)

    def forward(self, x):
        hidden = kept = x.new_zeros(x.shape[1], 7)
        for t in range(x.shape[0]):
            hidden, kept = self.cell(x[t], (hidden, kept))
        return self.out(hidden)


def cnn():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(128, 10))
    data = torch.randn(4, 3, 8, 8), torch.randint(0, 10, (4,))
    return step_of(model, lambda m, x, y: F.cross_entropy(m(x), y)), data


def transformer():
    return step_of(Block(), lambda m, x, y: F.mse_loss(m(x), y)), (torch.randn(2, 6, 16), torch.randn(2, 6, 16))


def lstm():
    return step_of(Cell(), lambda m, x, y: F.mse_loss(m(x), y)), (torch.randn(3, 2, 5), torch.randn(2, 3))


STEPS = [cnn, transformer, lstm]


class Types(torch.fx.Interpreter):
    """Shapes and element types of a graph's values."""

    def __init__(self, traced):
        super().__init__(traced)
        self.of = {}

    def run_node(self, node):
        value = super().run_node(node)
        if node.op != "output":
            self.of[node.name] = type_of(value)
        return value


def record_step(path, make):
    """Buffers that the step writes are outputs too."""
    torch.manual_seed(3)
    (step, params, buffers), data = make()
    copies = [[v.clone() for v in values] for values in (params, buffers, data)]
    traced = make_fx(step)([v.clone() for v in params], [v.clone() for v in buffers], *data)
    types = Types(traced)
    types.run([v.clone() for v in params], [v.clone() for v in buffers], *data)
    roles = ["param"] * len(params) + ["data"] * (len(buffers) + len(data))
    inputs, nodes, outputs, arrays = [], [], [], {}
    refs = lambda value: torch.fx.node.map_arg(value, lambda n: {"ref": n.name})
    for node in traced.graph.nodes:
        if node.op == "output":
            outputs = [{"ref": n.name} for n in torch.utils._pytree.tree_leaves(node.args[0])]
            continue
        shape, dtype = types.of[node.name]
        if node.op == "placeholder":
            inputs.append({"name": node.name, "shape": shape, "dtype": dtype, "role": roles[len(inputs)]})
            continue
        target = "getitem" if node.target.__name__ == "getitem" else str(node.target)
        nodes.append({"name": node.name, "op": "call", "target": target, "args": encode(refs(node.args)),
                      "kwargs": {k: encode(refs(v)) for k, v in node.kwargs.items()}, "shape": shape, "dtype": dtype})
    for row, value in zip(inputs, [v for values in copies for v in values]):
        arrays["in." + row["name"]] = array(value)
    values = step(copies[0], copies[1], *copies[2]) + copies[1]
    outputs += [{"ref": row["name"]} for row in inputs[len(params):len(params) + len(buffers)]]
    for k, value in enumerate(values):
        arrays[f"out.{k}"] = array(value)
    save(path, inputs, nodes, outputs, arrays)


def main(folder, *wanted):
    for family in FAMILIES:
        if not wanted or family.__name__ in wanted:
            cases = Cases(os.path.join(folder, "aten", family.__name__))
            family(cases)
            cases.save()
    for make in STEPS:
        if not wanted or make.__name__ in wanted:
            record_step(os.path.join(folder, "training", make.__name__), make)


if __name__ == "__main__":
    main(*sys.argv[1:])

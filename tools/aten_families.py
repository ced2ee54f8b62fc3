"""Families of ATen ops for record_aten.py: each a function that calls its ops on a Cases."""

import math

import torch


def spoiled(tensor):
    """The same with a NaN and infinities in it."""
    tensor = tensor.clone()
    flat = tensor.view(-1)
    flat[1 % flat.numel()], flat[flat.numel() // 2], flat[-1] = math.nan, math.inf, -math.inf
    return tensor


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

"""Graphs as large as in training, to be simulated: they have no feeds. One function a graph (micro_patterns.py)."""
from micro_graphs import ref


def wide_experts(g):  # as large as in training, for the model of a cluster: tokens to two experts a rank, and back
    x, w, v = g.given("x", [2 * g.n, 512, 4096], "bfloat16"), g.given("w", [2, 4096, 14336], "bfloat16"), g.given("v", [2, 14336, 4096], "bfloat16")
    y = g.bmm(g.stacked(g.exchange(x), 0, 1), w)
    g.out(g.exchange(g.stacked(g.bmm(g.node("aten.relu.default", [ref(y)], g.shape[y], y), v), 1, 0)))


def wide_heads(g):  # a projection's heads to their ranks, and back to the output projection
    x, w, v = g.given("x", [16384 // g.n, 8192], "bfloat16"), g.given("w", [8192, 8192], "bfloat16"), g.given("v", [8192, 8192], "bfloat16")
    h, d = 64, 128
    y = g.exchange(g.stacked(g.view(g.mm(x, w), 16384 // g.n, h, d), 1, 0))
    y = g.exchange(g.node("aten.relu.default", [ref(y)], g.shape[y], y))
    g.out(g.mm(g.view(g.stacked(y, 0, 1), 16384 // g.n, h * d), v))


def wide_reduce(g):
    x, w = g.given("x", [8192, 28672 // g.n], "bfloat16"), g.given("w", [28672 // g.n, 8192], "bfloat16")
    g.out(g.comm("all_reduce", ["sum"], [8192, 8192], g.mm(x, w)))


def wide_back(g):  # a gradient gathered once for both products; the weight's, which ranks keep in parts
    d, x, w = g.given("d", [8192 // g.n, 8192], "bfloat16"), g.given("x", [8192, 28672 // g.n], "bfloat16"), g.given("w", [28672 // g.n, 8192], "bfloat16")
    y = g.gather(d)
    g.out(g.mm(y, g.t(w)), g.mm(g.t(x), y))

"""Products whose rows are summed over ranks: reduce-scatters and all-reduces. One function a graph (micro_patterns.py)."""
from micro_graphs import ref


def scatter_uneven(g):
    x, w = g.given("x", [7 * g.n, 8]), g.given("w", [8, 6])
    g.out(g.scatter(g.mm(x, w)))


def scatter_transposed(g):
    x, w = g.given("x", [2, 4 * g.n, 8]), g.given("w", [8, 5])
    g.out(g.scatter(g.permute(g.mm(x, w), 1, 0, 2)))


def scatter_transposed_reordered(g):
    x, w = g.given("x", [4 * g.n, 2, 8]), g.given("w", [8, 5])
    g.out(g.scatter(g.permute(g.mm(x, w), 1, 2, 0), 2, "avg"))


def scatter_cast_up(g):
    x, w = g.given("x", [4 * g.n, 8], "bfloat16"), g.given("w", [8, 6], "bfloat16")
    g.out(g.scatter(g.cast(g.mm(x, w), "float32")))


def scatter_cast_down(g):
    x, w = g.given("x", [12 * g.n, 8]), g.given("w", [8, 6])
    g.out(g.scatter(g.cast(g.mm(x, w), "bfloat16")))


def scatter_bias(g):  # each rank's bias is part of the sum
    x, w, b = g.given("x", [2, 4 * g.n, 8]), g.given("w", [8, 6]), g.given("b", [6])
    g.out(g.scatter(g.addmm(b, x, w), 1))


def scatter_bias_added(g):  # by an op of its own, behind the reshape
    x, w, b = g.given("x", [2, 4 * g.n, 8]), g.given("w", [8, 6]), g.given("b", [6])
    g.out(g.scatter(g.add(g.mm(x, w), b), 1))


def scatter_half_bias_added(g):  # rounded behind the product and behind the sum
    x, w, b = g.given("x", [3 * g.n, 8], "bfloat16"), g.given("w", [8, 6], "bfloat16"), g.given("b", [1, 6], "bfloat16")
    g.out(g.scatter(g.add(g.mm(x, w), b)))


def reduce_bias_added(g):  # before the reshape
    x, w, b = g.given("x", [3, 4, 8]), g.given("w", [8, 5]), g.given("b", [5])
    y = g.add(g.mm(g.view(x, 12, 8), w), b)
    g.out(g.comm("all_reduce", ["sum"], [3, 4, 5], g.view(y, 3, 4, 5)))


def reduce_bias(g):
    x, w, b = g.given("x", [11, 8]), g.given("w", [8, 5]), g.given("b", [5])
    g.out(g.comm("all_reduce", ["sum"], [11, 5], g.addmm(b, x, w)))


def reduce_rows(g):
    x, w = g.given("x", [11, 8]), g.given("w", [8, 5])
    g.out(g.comm("all_reduce", ["sum"], [11, 5], g.mm(x, w)))


def reduce_rows_in_paddle(g):  # the gradient of an addition asks the product, which chunks do not make, for its type
    x, w, b, d = g.given("x", [11, 8]), g.given("w", [8, 5]), g.given("b", [5]), g.given("d", [11, 5])
    y = g.mm(x, w)
    s = g.one("c_allreduce_sum", y, [11, 5], ring_id=1, use_calc_stream=True)
    z, of_y, of_b = g.new([11, 5]), g.new([11, 5]), g.new([5])
    g.op("elementwise_add", {"X": s, '"Y"': b}, {"Out": z}, axis=-1)
    g.op("elementwise_add_grad", {"X": y, '"Y"': b, "Out@GRAD": d}, {"X@GRAD": of_y, "Y@GRAD": of_b}, axis=-1)
    g.out(z, of_y, of_b)


def reduce_even(g):  # as a reduce-scatter and an all-gather too
    x, w = g.given("x", [5 * g.n, 8]), g.given("w", [8, 6])
    g.out(g.comm("all_reduce", ["sum"], [5 * g.n, 6], g.mm(x, w)))


def reduce_even_half(g):
    x, w = g.given("x", [2, 5 * g.n, 8], "bfloat16"), g.given("w", [8, 3], "bfloat16")
    g.out(g.comm("all_reduce", ["sum"], [3, 2, 5 * g.n], g.permute(g.mm(x, w), 2, 0, 1)))


def reduce_computed_3d(g):  # rows that an op before made
    x, v, w = g.given("x", [2, 4 * g.n, 8]), g.given("v", [8, 12]), g.given("w", [12, 6])
    h = g.mm(x, v)
    h = g.node("aten.relu.default", [ref(h)], g.shape[h], h)
    g.out(g.comm("all_reduce", ["sum"], [2, 4 * g.n, 6], g.mm(h, w)))


def reduce_largest_3d(g):  # any operation; through a transposition and a cast
    x, w = g.given("x", [2, 6, 8], "bfloat16"), g.given("w", [8, 5], "bfloat16")
    g.out(g.comm("all_reduce", ["max"], [5, 2, 6], g.cast(g.permute(g.mm(x, w), 2, 0, 1), "float32")))


def reduce_in_paddle(g):  # in place
    x, w = g.given("x", [2, 6, 8]), g.given("w", [8, 5])
    y = g.mm(x, w)
    g.op("c_allreduce_sum", {"X": y}, {"Out": y}, ring_id=1, use_calc_stream=True)
    g.out(g.one("relu", y, g.shape[y]))


def scatter_experts(g):
    x, w = g.given("x", [2, 3 * g.n, 8]), g.given("w", [2, 8, 6])
    g.out(g.scatter(g.bmm(x, w), 1, "avg"))


def scatter_columns(g):
    x, w = g.given("x", [4, 8]), g.given("w", [8, 3 * g.n])
    g.out(g.scatter(g.mm(x, w), 1))


def scatter_columns_3d_mean(g):
    x, w = g.given("x", [2, 3, 8]), g.given("w", [8, 2 * g.n])
    g.out(g.scatter(g.mm(x, w), 2, "avg"))


def scatter_half(g):
    x, w = g.given("x", [3 * g.n, 8], "bfloat16"), g.given("w", [8, 6], "bfloat16")
    g.out(g.scatter(g.mm(x, w)))


def scatter_half_mean(g):
    x, w = g.given("x", [2, 3 * g.n, 8], "float16"), g.given("w", [8, 6], "float16")
    g.out(g.scatter(g.mm(x, w), 1, "avg"))


def scatter_in_paddle(g):
    x, w = g.given("x", [2, 2 * g.n, 8], "bfloat16"), g.given("w", [8, 5], "bfloat16")
    g.out(g.scatter(g.permute(g.cast(g.mm(x, w), "float32"), 2, 1, 0), 1))

"""Backward passes: gradients of products' operands, some of them scattered or reduced. One function a graph (micro_patterns.py)."""


def back_uneven(g):
    d, x, w = g.given("d", [3, 3, 6]), g.given("x", [9 * g.n, 5]), g.given("w", [5, 6])
    y = g.view(g.gather(d, 1), 9 * g.n, 6)
    g.out(g.mm(g.t(y), x))


def back_reduce_in_paddle(g):  # the gradient of one operand is reduced, the other's is not
    x, d, w = g.given("x", [7, 6]), g.given("d", [7, 5]), g.given("w", [6, 5])
    dx, dw = g.new([7, 6]), g.new([6, 5])
    g.op("matmul_v2_grad", {"X": x, '"Y"': w, "Out@GRAD": d}, {"X@GRAD": dx, "Y@GRAD": dw}, trans_x=False, trans_y=False)
    g.op("c_allreduce_sum", {"X": dx}, {"Out": dx}, ring_id=1, use_calc_stream=True)
    g.out(g.one("relu", dx, [7, 6]), dw)


def back_weight_scattered_in_paddle(g):  # a weight's gradient, of which each rank keeps rows
    x, d, w = g.given("x", [2, 6, 4 * g.n]), g.given("d", [2, 6, 5]), g.given("w", [4 * g.n, 5])
    dx, dw = g.new([2, 6, 4 * g.n]), g.new([4 * g.n, 5])
    g.op("matmul_v2_grad", {"X": x, '"Y"': w, "Out@GRAD": d}, {"X@GRAD": dx, "Y@GRAD": dw}, trans_x=False, trans_y=False)
    g.out(g.scatter(dw), dx)


def back_weight_columns_in_paddle(g):  # or columns
    x, d, w = g.given("x", [6, 4]), g.given("d", [6, 5 * g.n]), g.given("w", [4, 5 * g.n])
    dx, dw = g.new([6, 4]), g.new([4, 5 * g.n])
    g.op("matmul_v2_grad", {"X": x, '"Y"': w, "Out@GRAD": d}, {"X@GRAD": dx, "Y@GRAD": dw}, trans_x=False, trans_y=False)
    g.out(g.scatter(dw, 1), dx)


def back_weight_scattered(g):  # of the transposed rows
    x, d = g.given("x", [6, 4 * g.n]), g.given("d", [6, 5])
    g.out(g.scatter(g.mm(g.t(x), d)))


def back_half(g):
    d, x, w = g.given("d", [4, 6], "bfloat16"), g.given("x", [4 * g.n, 5], "bfloat16"), g.given("w", [5, 6], "bfloat16")
    y = g.gather(d)
    g.out(g.mm(y, g.t(w)), g.mm(g.t(x), y))


def back_row_parallel(g):  # a gradient gathered once, for what it is a product of and for the weight
    d, x, w = g.given("d", [4, 6]), g.given("x", [4 * g.n, 5]), g.given("w", [5, 6])
    y = g.gather(d)
    g.out(g.mm(y, g.t(w)), g.mm(g.t(x), y))


def back_column_parallel(g):  # rows gathered again for a weight's gradient, along an inner dimension
    x, d, w = g.given("x", [2, 4, 6]), g.given("d", [2, 4 * g.n, 5]), g.given("w", [6, 3])
    y = g.view(g.gather(x, 1), 8 * g.n, 6)
    g.out(g.mm(g.t(y), g.view(d, 8 * g.n, 5)))


def back_row_parallel_in_paddle(g):
    d, x, w = g.given("d", [4, 2, 6]), g.given("x", [4 * g.n, 2, 5]), g.given("w", [5, 6])
    dx, dw = g.new([4 * g.n, 2, 5]), g.new([5, 6])
    g.op("matmul_v2_grad", {"X": x, '"Y"': w, "Out@GRAD": g.gather(d)}, {"X@GRAD": dx, "Y@GRAD": dw}, trans_x=False, trans_y=False)
    g.out(dx, dw)


def back_column_parallel_in_paddle(g):  # the product whose sums are scattered, and the weight's gradient beside it
    x, d, w = g.given("x", [2 * g.n, 3, 6]), g.given("d", [2 * g.n, 3, 5]), g.given("w", [5, 6])
    dx, dw = g.new([2 * g.n, 3, 6]), g.new([5, 6])
    g.op("matmul_v2_grad", {"X": x, '"Y"': w, "Out@GRAD": d}, {"X@GRAD": dx, "Y@GRAD": dw}, trans_x=False, trans_y=True)
    g.out(g.scatter(dx), dw)


def back_weight_in_paddle(g):  # rows gathered again; the other gradient of the same op needs none of them
    x, d, w = g.given("x", [2, 3, 6]), g.given("d", [2, 3 * g.n, 5]), g.given("w", [6, 5])
    dx, dw = g.new([2, 3 * g.n, 6]), g.new([6, 5])
    g.op("matmul_v2_grad", {"X": g.gather(x, 1), '"Y"': w, "Out@GRAD": d}, {"X@GRAD": dx, "Y@GRAD": dw}, trans_x=False, trans_y=False)
    g.out(dx, dw)

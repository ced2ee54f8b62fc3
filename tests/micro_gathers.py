"""Gathered rows, or columns that are contracted, times matrices. One function a graph (micro_patterns.py)."""


def gather_transposed(g):  # rows first for the collective, the batch first for the product
    x, w = g.given("x", [3, 2, 8]), g.given("w", [8, 5])
    g.out(g.mm(g.permute(g.gather(x), 1, 0, 2), w))


def gather_transposed_one(g):  # a batch of one: rows still lie one after another
    x, w = g.given("x", [6, 1, 8]), g.given("w", [8, 5])
    y = g.permute(g.gather(x), 1, 0, 2)
    g.out(g.mm(y, w), y)


def gather_uneven(g):  # pieces of other extents
    x, w = g.given("x", [5, 8]), g.given("w", [8, 6])
    y = g.gather(x)
    g.out(g.mm(y, w), y)


def gather_uneven_inner(g):
    x, w = g.given("x", [3, 3, 8]), g.given("w", [8, 6])
    g.out(g.mm(g.gather(x, 1), w))


def gather_cast_down(g):
    x, w = g.given("x", [4, 8]), g.given("w", [8, 6], "bfloat16")
    g.out(g.mm(g.cast(g.gather(x), "bfloat16"), w))


def gather_cast_up(g):  # and the whole has another reader
    x, w = g.given("x", [4, 2, 8], "bfloat16"), g.given("w", [8, 6])
    y = g.cast(g.permute(g.gather(x), 1, 0, 2), "float32")
    g.out(g.mm(y, w), y)


def gather_transposed_reordered(g):  # along dimension 1 of what was gathered, which the transposition puts first
    x, w = g.given("x", [2, 4, 8]), g.given("w", [8, 5])
    g.out(g.mm(g.permute(g.gather(x, 1), 1, 0, 2), w))


def gather_bias(g):  # what a linear layer with a bias is, and one without; the whole has another reader
    x, w, b, v = g.given("x", [2, 3, 8]), g.given("w", [8, 6]), g.given("b", [6]), g.given("v", [8, 5])
    y = g.gather(x, 1)
    g.out(g.addmm(b, y, w), g.mm(y, v), y)


def gather_bias_half(g):  # rounded once with its bias
    x, w, b = g.given("x", [5, 8], "bfloat16"), g.given("w", [8, 6], "bfloat16"), g.given("b", [1, 6], "bfloat16")
    g.out(g.addmm(b, g.gather(x), w, beta=0.5, alpha=2.0))


def gather_in_paddle(g):  # its transposition's XShape is read by the gradient
    x, w, d = g.given("x", [3, 2, 8]), g.given("w", [6, 8], "bfloat16"), g.given("d", [2, 3 * g.n, 8])
    y = g.permute(g.gather(x), 1, 0, 2)
    was = g.new([3 * g.n, 2, 8])
    g.op("transpose2_grad", {"XShape": g.xshape, "Out@GRAD": d}, {"X@GRAD": was}, axis=[1, 0, 2])
    g.out(g.mm(g.cast(y, "bfloat16"), w, True), was)


def gather_experts(g):  # tokens of all ranks for each expert, whose weights are cut up
    x, w = g.given("x", [2, 3, 8]), g.given("w", [2, 8, 6])
    y = g.gather(x, 1)
    g.out(g.bmm(y, w), y)


def gather_experts_bias(g):  # and each expert has a bias
    x, w, b = g.given("x", [2, 3, 8]), g.given("w", [2, 8, 6]), g.given("b", [2, 1, 6])
    g.out(g.baddbmm(b, g.gather(x, 1), w))


def accumulate_last(g):  # the gathered dimension is the one that the product contracts; the whole is kept
    x, w = g.given("x", [6, 4]), g.given("w", [4 * g.n, 5])
    y = g.gather(x, 1)
    g.out(g.mm(y, w), y)


def accumulate_last_3d(g):
    x, w, v = g.given("x", [3, 2, 4]), g.given("w", [4 * g.n, 5]), g.given("v", [4 * g.n, 7])
    y = g.gather(x, 2)
    g.out(g.mm(y, w), g.mm(y, v))


def accumulate_turned(g):
    x, w = g.given("x", [4, 6]), g.given("w", [4 * g.n, 5])
    g.out(g.mm(g.t(g.gather(x)), w))


def accumulate_in_paddle(g):
    x, w = g.given("x", [4, 2, 4]), g.given("w", [5, 4 * g.n])
    y = g.one("c_concat", x, [4, 2, 4 * g.n], ring_id=1, nranks=g.n, rank=0, use_calc_stream=True)
    g.out(g.mm(y, w, True))


def left_added_rows(g):  # each row has one of its own added
    x, w, b = g.given("x", [4, 8]), g.given("w", [8, 6]), g.given("b", [4 * g.n, 6])
    g.out(g.addmm(b, g.gather(x), w))


def left_merged(g):  # heads of two dimensions and their width become one: the pass leaves it
    x, w = g.given("x", [2, 3, 4, 5]), g.given("w", [60, 7])
    g.out(g.mm(g.view(g.gather(x), 2 * g.n, 60), w))


def left_vector(g):  # one number a row
    x, w = g.given("x", [3, 8]), g.given("w", [8])
    y = g.gather(x)
    g.out(g.node("aten.mv.default", [{"ref": y}, {"ref": w}], [3 * g.n], y))


def left_activation(g):
    y = g.gather(g.given("x", [3, 8]))
    g.out(g.node("aten.relu.default", [{"ref": y}], g.shape[y], y))

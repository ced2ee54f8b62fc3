"""All-to-alls before products and behind them: experts and heads. One function a graph (micro_patterns.py)."""


def exchange_rows(g):  # expert parallel: tokens of all ranks for this one's expert
    x, w = g.given("x", [5 * g.n, 8]), g.given("w", [8, 6])
    y = g.exchange(x)
    g.out(g.mm(y, w), y)


def exchange_transposed(g):
    x, w = g.given("x", [3 * g.n, 2, 8]), g.given("w", [8, 6])
    g.out(g.mm(g.permute(g.exchange(x), 1, 0, 2), w))


def exchange_last(g):  # sequence parallel: heads of all ranks, which the output projection contracts
    x, w = g.given("x", [4 * g.n, 3]), g.given("w", [3 * g.n, 6])
    g.out(g.mm(g.parts(g.exchange(x), 0, 1), w))


def exchange_products(g):  # what experts made goes back
    x, w = g.given("x", [5 * g.n, 8]), g.given("w", [8, 6])
    g.out(g.exchange(g.mm(x, w)))


def exchange_columns(g):  # sequence parallel: each rank its heads of all rows
    x, w = g.given("x", [4, 8]), g.given("w", [8, 3 * g.n])
    g.out(g.exchange(g.parts(g.mm(x, w), 1, 0)))


def exchange_columns_cast(g):
    x, w = g.given("x", [2, 3, 8]), g.given("w", [8, 2 * g.n])
    g.out(g.exchange(g.parts(g.cast(g.mm(x, w), "bfloat16"), 2, 0)))


def exchange_heads(g):  # heads are a dimension of their own: of all ranks, then one with their width for the output projection
    x, w = g.given("x", [4 * g.n, 3, 5]), g.given("w", [15 * g.n, 6])
    g.out(g.mm(g.view(g.parts(g.exchange(x), 0, 1), 4, 15 * g.n), w))


def exchange_heads_batch(g):  # the same of a batch of sequences, whose parts a transposition puts together
    x, w = g.given("x", [2 * g.n, 4, 3, 5]), g.given("w", [15 * g.n, 6])
    y = g.view(g.stacked(g.exchange(x), 0, 2, True), 2, 4, 15 * g.n)
    g.out(g.mm(y, w), y)


def exchange_heads_products(g):  # a projection's heads, each rank some of all rows
    x, w = g.given("x", [4, 8]), g.given("w", [8, 10 * g.n])
    g.out(g.exchange(g.parts(g.view(g.mm(x, w), 4, 2 * g.n, 5), 1, 0)))


def exchange_heads_products_batch(g):
    x, w = g.given("x", [2, 3, 8]), g.given("w", [8, 10 * g.n])
    g.out(g.exchange(g.stacked(g.view(g.mm(x, w), 2, 3, 2 * g.n, 5), 2, 0)))


def exchange_experts(g):  # two experts a rank, each its tokens of all ranks
    x, w, v = g.given("x", [2 * g.n, 3, 8]), g.given("w", [2, 8, 6]), g.given("v", [2, 8, 5])
    y = g.parts(g.exchange(x), 0, 1)
    g.out(g.bmm(y, w), g.bmm(y, v))


def exchange_experts_stacked(g):
    x, w = g.given("x", [2 * g.n, 3, 8], "bfloat16"), g.given("w", [2, 8, 6], "bfloat16")
    g.out(g.bmm(g.stacked(g.exchange(x), 0, 1, True), w))


def exchange_experts_products(g):  # and what they made goes back
    x, w = g.given("x", [2, 3 * g.n, 8]), g.given("w", [2, 8, 6])
    g.out(g.exchange(g.parts(g.bmm(x, w), 1, 0)))


def exchange_experts_products_stacked(g):
    x, w = g.given("x", [2, 3 * g.n, 8]), g.given("w", [2, 8, 6])
    g.out(g.exchange(g.stacked(g.cast(g.bmm(x, w), "bfloat16"), 1, 0)))


def exchange_one_expert(g):  # a batch of one is a matrix
    x, w = g.given("x", [g.n, 3, 8]), g.given("w", [1, 8, 6])
    g.out(g.bmm(g.parts(g.exchange(x), 0, 1), w))


def exchange_experts_in_paddle(g):
    x, w = g.given("x", [2 * g.n, 3, 8]), g.given("w", [2, 8, 6])
    y, z = g.parts(g.one("alltoall", x, g.shape[x], ring_id=1, use_calc_stream=True), 0, 1), g.new([2, 3 * g.n, 6])
    g.op("bmm", {"X": y, '"Y"': w}, {"Out": z})
    z = g.parts(g.one("relu", z, g.shape[z]), 1, 0)
    g.out(g.one("alltoall", z, g.shape[z], ring_id=1, use_calc_stream=True))


def exchange_in_paddle(g):
    x, w = g.given("x", [3 * g.n, 2, 8]), g.given("w", [5, 8])
    y = g.mm(g.one("alltoall", x, g.shape[x], ring_id=1, use_calc_stream=True), w, True)
    g.out(g.one("alltoall", g.one("relu", y, g.shape[y]), g.shape[y], ring_id=1, use_calc_stream=True))

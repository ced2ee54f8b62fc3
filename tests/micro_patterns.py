"""Graphs of one pattern each for micro_pipeline_tp, with feeds, and whether two runs agree.

usage: micro_patterns.py write CASE RANKS FOLDER [ints]   writes graph.fx.json or graph.yaml and feed.RANK.npz; ints: sums are exact in any order;
                                                           wide_*: no feeds, to be simulated
       micro_patterns.py same FOLDER A B [TOLERANCE]      outputs saved as A.RANK.npz and B.RANK.npz are equal, or that close
       micro_patterns.py list"""
import glob, json, sys
import numpy as np

HEAD = {"schema": "fx.json/1", "constants": []}
ref = lambda x: {"ref": x}


class Graph:
    def __init__(self, n):
        self.n, self.inputs, self.nodes, self.outputs, self.shape, self.dtype = n, [], [], [], {}, {}

    def note(self, name, shape, dtype):
        self.shape[name], self.dtype[name] = list(shape), dtype
        return name

    def given(self, name, shape, dtype="float32"):
        self.inputs.append({"name": name, "shape": list(shape), "dtype": dtype})
        return self.note(name, shape, dtype)

    def node(self, target, args, shape, like, dtype=None, kwargs=None):
        name, dtype = f"n{len(self.nodes)}", dtype or self.dtype[like]
        self.nodes.append({"name": name, "op": "call", "target": target, "args": args, "kwargs": kwargs or {}, "shape": list(shape), "dtype": dtype})
        return self.note(name, shape, dtype)

    def comm(self, target, args, shape, x):
        y = self.node(f"_c10d_functional.{target}.default", [ref(x), *args, "0"], shape, x)
        return self.node("_c10d_functional.wait_tensor.default", [ref(y)], shape, x)

    def parts(self, x, a, b):
        """The ranks' parts along dimension a, one after another along b."""
        s = list(self.shape[x])
        s[a] //= self.n
        y = f"n{len(self.nodes)}"
        self.nodes.append({"name": y, "op": "call", "target": "aten.split.Tensor", "args": [ref(x), s[a], a], "kwargs": {},
                           "shape": [s] * self.n, "dtype": [self.dtype[x]] * self.n})
        each = [self.node("getitem", [ref(y), i], s, x) for i in range(self.n)]
        s[b] *= self.n
        return self.node("aten.cat.default", [[ref(e) for e in each], b], s, x)

    def gather(self, x, dim=0):
        s = [self.shape[x][0] * self.n, *self.shape[x][1:]]
        y = self.comm("all_gather_into_tensor", [self.n], s, x)
        return y if dim == 0 else self.parts(y, 0, dim)

    def scatter(self, x, dim=0, op="sum"):
        if dim:
            x = self.parts(x, dim, 0)
        return self.comm("reduce_scatter_tensor", [op, self.n], [self.shape[x][0] // self.n, *self.shape[x][1:]], x)

    def exchange(self, x):
        each = [self.shape[x][0] // self.n] * self.n
        return self.comm("all_to_all_single", [each, each], self.shape[x], x)

    def permute(self, x, *dims):
        return self.node("aten.permute.default", [ref(x), list(dims)], [self.shape[x][d] for d in dims], x)

    def t(self, x):
        return self.node("aten.t.default", [ref(x)], self.shape[x][::-1], x)

    def cast(self, x, dtype):
        return self.node("aten._to_copy.default", [ref(x)], self.shape[x], x, dtype, {"dtype": {"dtype": dtype}})

    def view(self, x, *shape):
        return self.node("aten.view.default", [ref(x), list(shape)], shape, x)

    def mm(self, x, w):
        """x w, through matrices where x has more dimensions."""
        s = self.shape[x]
        if len(s) == 2:
            return self.node("aten.mm.default", [ref(x), ref(w)], [s[0], self.shape[w][1]], x)
        rows = int(np.prod(s[:-1]))
        return self.view(self.mm(self.view(x, rows, s[-1]), w), *s[:-1], self.shape[w][1])

    def bmm(self, x, w):
        return self.node("aten.bmm.default", [ref(x), ref(w)], [*self.shape[x][:2], self.shape[w][2]], x)

    def stacked(self, x, a, b, copies=False):
        """The same as parts: the ranks' dimension moves from a to b, and is one with the next there."""
        s = list(self.shape[x])
        s[a:a + 1] = [self.n, s[a] // self.n]
        order = [i for i in range(len(s)) if i != a]
        order.insert(b, a)
        y = self.permute(self.view(x, *s), *order)
        y = self.node("aten.clone.default", [ref(y)], self.shape[y], y) if copies else y
        s = list(self.shape[y])
        s[b:b + 2] = [s[b] * s[b + 1]]
        return self.view(y, *s)

    def out(self, *names):
        self.outputs += names

    file = "graph.fx.json"

    def text(self, name):
        return json.dumps({**HEAD, "name": name, "groups": {"0": {"size": self.n, "ranks": list(range(self.n))}}, "inputs": self.inputs,
                           "nodes": self.nodes, "outputs": [ref(o) for o in self.outputs], "world_size": self.n})


class Program(Graph):
    """The same in Paddle's ops."""
    file = "graph.yaml"

    def op(self, type, ins, outs, **attrs):
        slots = lambda d: "{" + ", ".join(f"{k}: [{', '.join(v if isinstance(v, list) else [v])}]" for k, v in d.items()) + "}"
        put = lambda v: str(v).lower() if isinstance(v, bool) else str(v)
        self.nodes.append(f"  - {{{type}: {slots(ins)}, out: {slots(outs)}, attrs: {{{', '.join(f'{k}: {put(v)}' for k, v in attrs.items())}}}}}")

    def new(self, shape, dtype="float32"):
        return self.note(f"n{len(self.shape)}", shape, dtype)

    def one(self, type, x, shape, dtype=None, slots=("X", "Out"), more=(), **attrs):
        y = self.new(shape, dtype or self.dtype[x])
        self.op(type, {slots[0]: x}, {slots[1]: y, **dict(more)}, **attrs)
        return y

    def gather(self, x, dim=0):
        y = self.one("c_allgather", x, [self.shape[x][0] * self.n, *self.shape[x][1:]], ring_id=1, nranks=self.n, use_calc_stream=True)
        return y if dim == 0 else self.parts(y, 0, dim)

    def scatter(self, x, dim=0):
        x = self.parts(x, dim, 0) if dim else x
        return self.one("c_reducescatter", x, [self.shape[x][0] // self.n, *self.shape[x][1:]], ring_id=1, nranks=self.n, use_calc_stream=True)

    def parts(self, x, a, b):
        s = list(self.shape[x])
        s[a] //= self.n
        each = [self.new(s, self.dtype[x]) for _ in range(self.n)]
        self.op("split", {"X": x}, {"Out": each}, axis=a, num=self.n)
        s[b] *= self.n
        y = self.new(s, self.dtype[x])
        self.op("concat", {"X": each}, {"Out": y}, axis=b)
        return y

    def permute(self, x, *dims):
        self.xshape = self.new([0, *self.shape[x]])
        return self.one("transpose2", x, [self.shape[x][d] for d in dims], more={"XShape": self.xshape}, axis=list(dims))

    def cast(self, x, dtype):
        return self.one("cast", x, self.shape[x], dtype, in_dtype=5, out_dtype={"float32": 5, "bfloat16": 22}[dtype])

    def mm(self, x, w, t=False):
        y = self.new([*self.shape[x][:-1], self.shape[w][0 if t else 1]], self.dtype[x])
        self.op("matmul_v2", {"X": x, '"Y"': w}, {"Out": y}, trans_x=False, trans_y=t)
        return y

    def text(self, name):
        vars = "".join(f"    {v}: {{{self.dtype[v]}: {self.shape[v]}}}\n" for v in self.shape)
        for i, o in enumerate(self.outputs):
            self.op("fetch", {"X": o}, {}, col=i)
        return (f"weft: 1\nrings:\n  1: {list(range(self.n))}\nblocks:\n- idx: 0\n  parent: -1\n  vars:\n{vars}  ops:\n" + "\n".join(self.nodes) + "\n")


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


def scatter_uneven(g):
    x, w = g.given("x", [7 * g.n, 8]), g.given("w", [8, 6])
    g.out(g.scatter(g.mm(x, w)))


def back_uneven(g):
    d, x, w = g.given("d", [3, 3, 6]), g.given("x", [9 * g.n, 5]), g.given("w", [5, 6])
    y = g.view(g.gather(d, 1), 9 * g.n, 6)
    g.out(g.mm(g.t(y), x))


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


def gather_in_paddle(g):  # its transposition's XShape is read by the gradient
    x, w, d = g.given("x", [3, 2, 8]), g.given("w", [6, 8], "bfloat16"), g.given("d", [2, 3 * g.n, 8])
    y = g.permute(g.gather(x), 1, 0, 2)
    was = g.new([3 * g.n, 2, 8])
    g.op("transpose2_grad", {"XShape": g.xshape, "Out@GRAD": d}, {"X@GRAD": was}, axis=[1, 0, 2])
    g.out(g.mm(g.cast(y, "bfloat16"), w, True), was)


def reduce_rows(g):
    x, w = g.given("x", [11, 8]), g.given("w", [8, 5])
    g.out(g.comm("all_reduce", ["sum"], [11, 5], g.mm(x, w)))


def reduce_even(g):  # as a reduce-scatter and an all-gather too
    x, w = g.given("x", [5 * g.n, 8]), g.given("w", [8, 6])
    g.out(g.comm("all_reduce", ["sum"], [5 * g.n, 6], g.mm(x, w)))


def reduce_even_half(g):
    x, w = g.given("x", [2, 5 * g.n, 8], "bfloat16"), g.given("w", [8, 3], "bfloat16")
    g.out(g.comm("all_reduce", ["sum"], [3, 2, 5 * g.n], g.permute(g.mm(x, w), 2, 0, 1)))


def reduce_largest_3d(g):  # any operation; through a transposition and a cast
    x, w = g.given("x", [2, 6, 8], "bfloat16"), g.given("w", [8, 5], "bfloat16")
    g.out(g.comm("all_reduce", ["max"], [5, 2, 6], g.cast(g.permute(g.mm(x, w), 2, 0, 1), "float32")))


def reduce_in_paddle(g):  # in place
    x, w = g.given("x", [2, 6, 8]), g.given("w", [8, 5])
    y = g.mm(x, w)
    g.op("c_allreduce_sum", {"X": y}, {"Out": y}, ring_id=1, use_calc_stream=True)
    g.out(g.one("relu", y, g.shape[y]))


def back_reduce_in_paddle(g):  # the gradient of one operand is reduced, the other's is not
    x, d, w = g.given("x", [7, 6]), g.given("d", [7, 5]), g.given("w", [6, 5])
    dx, dw = g.new([7, 6]), g.new([6, 5])
    g.op("matmul_v2_grad", {"X": x, '"Y"': w, "Out@GRAD": d}, {"X@GRAD": dx, "Y@GRAD": dw}, trans_x=False, trans_y=False)
    g.op("c_allreduce_sum", {"X": dx}, {"Out": dx}, ring_id=1, use_calc_stream=True)
    g.out(g.one("relu", dx, [7, 6]), dw)


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


def gather_experts(g):  # tokens of all ranks for each expert, whose weights are cut up
    x, w = g.given("x", [2, 3, 8]), g.given("w", [2, 8, 6])
    y = g.gather(x, 1)
    g.out(g.bmm(y, w), y)


def scatter_experts(g):
    x, w = g.given("x", [2, 3 * g.n, 8]), g.given("w", [2, 8, 6])
    g.out(g.scatter(g.bmm(x, w), 1, "avg"))


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


def exchange_in_paddle(g):
    x, w = g.given("x", [3 * g.n, 2, 8]), g.given("w", [5, 8])
    y = g.mm(g.one("alltoall", x, g.shape[x], ring_id=1, use_calc_stream=True), w, True)
    g.out(g.one("alltoall", g.one("relu", y, g.shape[y]), g.shape[y], ring_id=1, use_calc_stream=True))


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


def back_half(g):
    d, x, w = g.given("d", [4, 6], "bfloat16"), g.given("x", [4 * g.n, 5], "bfloat16"), g.given("w", [5, 6], "bfloat16")
    y = g.gather(d)
    g.out(g.mm(y, g.t(w)), g.mm(g.t(x), y))


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


def scatter_in_paddle(g):
    x, w = g.given("x", [2, 2 * g.n, 8], "bfloat16"), g.given("w", [8, 5], "bfloat16")
    g.out(g.scatter(g.permute(g.cast(g.mm(x, w), "float32"), 2, 1, 0), 1))


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


CASES = {k: v for k, v in list(globals().items()) if callable(v) and k.startswith(("gather_", "accumulate_", "scatter_", "reduce_", "exchange_", "back_"))}


def write(case, n, folder, ints):
    g = (Program if case.endswith("_in_paddle") else Graph)(n)
    (CASES.get(case) or globals()[case])(g)
    open(f"{folder}/{g.file}", "w").write(g.text(case))
    for r in range(0 if case.startswith("wide_") else n):
        rng, feed = np.random.default_rng(r), {}
        for i in g.inputs:
            v = rng.integers(-2, 3, i["shape"]).astype(np.float32) if ints else rng.standard_normal(i["shape"]).astype(np.float32)
            feed[i["name"]] = v.astype(np.float16) if i["dtype"] == "float16" else (v.view(np.uint32) >> 16).astype(np.uint16) if i["dtype"] == "bfloat16" else v
        np.savez(f"{folder}/feed.{r}.npz", **feed)


def values(a):
    return (a.astype(np.uint32) << 16).view(np.float32) if a.dtype == np.uint16 else a


def same(folder, a, b, tolerance):
    for path in sorted(glob.glob(f"{folder}/{a}.*.npz")):
        x, y = np.load(path), np.load(path.replace(f"/{a}.", f"/{b}."))
        assert sorted(x.files) == sorted(y.files) and x.files, path
        for k in x.files:
            assert x[k].shape == y[k].shape and x[k].dtype == y[k].dtype, (path, k, x[k].shape, y[k].shape)
            if x[k].tobytes() != y[k].tobytes():
                u, v = values(x[k]).astype(np.float64), values(y[k]).astype(np.float64)
                off = np.abs(u - v).max() / max(np.abs(u).max(), 1e-6)
                assert off <= tolerance, (path, k, off)


if sys.argv[1] == "write":
    write(sys.argv[2], int(sys.argv[3]), sys.argv[4], "ints" in sys.argv[5:])
elif sys.argv[1] == "same":
    same(*sys.argv[2:5], float(sys.argv[5]) if len(sys.argv) > 5 else 0)
else:
    print("\n".join(CASES))

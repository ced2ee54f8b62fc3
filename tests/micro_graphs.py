"""Graphs as recorded ones and Paddle programs are written: collectives, products and what stands between."""
import json
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
                           "shape": [list(s)] * self.n, "dtype": [self.dtype[x]] * self.n})
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

    def addmm(self, b, x, w, **factors):
        """x w + b, rounded once."""
        s = self.shape[x]
        if len(s) == 2:
            return self.node("aten.addmm.default", [ref(b), ref(x), ref(w)], [s[0], self.shape[w][1]], x, kwargs=factors)
        return self.view(self.addmm(b, self.view(x, int(np.prod(s[:-1])), s[-1]), w, **factors), *s[:-1], self.shape[w][1])

    def bmm(self, x, w):
        return self.node("aten.bmm.default", [ref(x), ref(w)], [*self.shape[x][:2], self.shape[w][2]], x)

    def baddbmm(self, b, x, w):
        """x w + b of each pair, rounded once."""
        return self.node("aten.baddbmm.default", [ref(b), ref(x), ref(w)], [*self.shape[x][:2], self.shape[w][2]], x)

    def add(self, x, b):
        return self.node("aten.add.Tensor", [ref(x), ref(b)], self.shape[x], x)

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

"""Prints an FX graph: the products of a transformer layer with sequence parallel, as tensor parallelism cuts them.

usage: micro_layer.py TOKENS RANKS HIDDEN LAYERS"""
import json, sys

tokens, n, hidden, layers = map(int, sys.argv[1:])
rows, inner = tokens // n, hidden * 7 // 2 // n
inputs, nodes = [], []
ref = lambda x: {"ref": x}


def node(name, target, args, shape):
    nodes.append({"name": name, "op": "call", "target": target, "args": args, "kwargs": {}, "shape": shape, "dtype": "bfloat16"})
    return name


def given(name, shape):
    inputs.append({"name": name, "shape": shape, "dtype": "bfloat16"})
    return name


def wait(name, shape):
    return node(name + "_wait", "_c10d_functional.wait_tensor.default", [ref(name)], shape)


def gather(name, x):
    return wait(node(name, "_c10d_functional.all_gather_into_tensor.default", [ref(x), n, "0"], [tokens, hidden]), [tokens, hidden])


def scatter(name, x):
    return wait(node(name, "_c10d_functional.reduce_scatter_tensor.default", [ref(x), "sum", n, "0"], [rows, hidden]), [rows, hidden])


def product(name, a, k, columns):
    return node(name, "aten.mm.default", [ref(a), ref(given(name + "_w", [k, columns]))], [tokens, columns])


h = given("x", [rows, hidden])
for k in range(layers):
    a = product(f"q{k}", gather(f"a{k}", h), hidden, hidden // n)
    a = node(f"r{k}", "aten.relu.default", [ref(a)], [tokens, hidden // n])
    h = node(f"h{k}", "aten.add.Tensor", [ref(h), ref(scatter(f"o{k}", product(f"p{k}", a, hidden // n, hidden)))], [rows, hidden])
    b = product(f"u{k}", gather(f"b{k}", h), hidden, inner)
    b = node(f"s{k}", "aten.silu.default", [ref(b)], [tokens, inner])
    h = node(f"y{k}", "aten.add.Tensor", [ref(h), ref(scatter(f"d{k}", product(f"t{k}", b, inner, hidden)))], [rows, hidden])
print(json.dumps({"schema": "fx.json/1", "name": "layer", "groups": {"0": {"size": n, "ranks": list(range(n))}}, "inputs": inputs,
                  "constants": [], "nodes": nodes, "outputs": [ref(h)], "world_size": n}))

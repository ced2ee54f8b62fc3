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

from aten_families import FAMILIES

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

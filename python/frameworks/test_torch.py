"""weft.torch with the real PyTorch (make check-frameworks)."""

import json
import os
import subprocess
import sys
import time
import unittest

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import weft
import weft.torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GROUPS = {"0": [0, 1]}
c10d = torch.ops._c10d_functional


def traced(layers=4, reduce=True):
    """Forward, backward and a reduce a gradient, as one graph."""

    def step(weights, x):
        h = x
        for w in weights:
            h = torch.relu(h @ w)
        loss = h.square().mean()
        grads = torch.autograd.grad(loss, weights)
        if reduce:
            grads = [c10d.wait_tensor.default(c10d.all_reduce.default(g / 2, "sum", "0")) for g in grads]
        return loss, list(grads)

    torch.manual_seed(0)
    return make_fx(step, tracing_mode="fake")([torch.randn(8, 8, requires_grad=True) for _ in range(layers)],
                                              torch.randn(4, 8))


def targets(graph):
    return [str(n.target) for n in graph.nodes if n.op == "call_function"]


class Graphs(unittest.TestCase):
    def test_export_comes_back_byte_for_byte(self):
        text = weft.torch.export(traced(), GROUPS)
        self.assertEqual(weft.Program.parse(text, "fx").print("fx").decode(), text)

    def test_reduces_become_one(self):
        module = traced()
        self.assertEqual(targets(module.graph).count("_c10d_functional.all_reduce.default"), 4)
        kept = {n.name: n for n in module.graph.nodes if n.op == "placeholder" or "mm" in n.name}
        report = weft.torch.optimize(module, groups=GROUPS, prove="report")
        self.assertEqual(report.count("fuse_allreduce_buckets", "gradients bucketed"), 4)
        self.assertEqual(targets(module.graph).count("_c10d_functional.all_reduce.default"), 0)
        self.assertEqual(targets(module.graph).count("_c10d_functional.all_reduce_coalesced.default"), 1)
        self.assertEqual(targets(module.graph).count("_c10d_functional.wait_tensor.default"), 4)
        for node in module.graph.nodes:
            self.assertIs(kept.get(node.name, node), node)
            if node.op == "call_function":
                self.assertIsNotNone(node.meta["val"])
        module.graph.lint()
        self.assertTrue(weft.torch.verify([module, module], GROUPS).safe)

    def test_verify_of_ranks_that_differ(self):
        findings = weft.torch.verify([traced(4), traced(3)], GROUPS)
        self.assertFalse(findings.safe)

    def test_other_passes_leave_values_as_they_were(self):
        module = traced(reduce=False)
        inputs = [[torch.randn(8, 8, requires_grad=True) for _ in range(4)], torch.randn(4, 8)]
        expected = module(*inputs)
        weft.torch.optimize(module, ["schedule_comm_wait"])
        loss, grads = module(*inputs)
        self.assertTrue(torch.equal(loss, expected[0]))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(grads, expected[1])))

    def test_what_is_refused_leaves_the_graph_as_it_was(self):
        module = traced()
        before = str(module.graph)
        with self.assertRaisesRegex(weft.Unsupported, "coalesced"):
            weft.torch.optimize(module, [("fuse_allreduce_buckets", {"mode": "in_place"})], groups=GROUPS)
        self.assertEqual(str(module.graph), before)

    def test_what_fails_halfway_leaves_the_graph_as_it_was(self):
        from unittest import mock

        import weft.torch._splice as splice

        module, values = traced(), []

        def fail_at_second(node):
            values.append(node)
            if len(values) > 1:
                raise RuntimeError("no value")

        before = str(module.graph)
        with mock.patch.object(splice, "_fake_value", fail_at_second), self.assertRaisesRegex(RuntimeError, "no value"):
            weft.torch.optimize(module, groups=GROUPS)
        self.assertEqual(str(module.graph), before)
        module.graph.lint()

    def test_ops_without_a_kernel_for_the_device_are_refused(self):
        """torch's fused products with gathers run on GPUs alone."""

        def step(x, w):
            return torch.relu(c10d.wait_tensor.default(c10d.all_gather_into_tensor.default(x, 2, "0")) @ w)

        module = make_fx(step, tracing_mode="fake")(torch.randn(8, 4), torch.randn(4, 8))
        before = str(module.graph)
        with self.assertRaisesRegex(weft.Unsupported, "no kernel of symm_mem.* on cpu"):
            weft.torch.optimize(module, [("micro_pipeline_tp", {"form": "fused", "guard": "off"})], groups=GROUPS)
        self.assertEqual(str(module.graph), before)

    def test_explain(self):
        module = traced()
        before = str(module.graph)
        found = weft.torch.explain(module, groups=GROUPS)
        self.assertEqual([c.target for c in found.collectives], ["all_reduce"] * 4)
        self.assertRegex(found.collectives[0].outcome, "one of 4 in .*all_reduce_coalesced")
        self.assertLess(found.after.step_seconds, found.before.step_seconds)
        self.assertIn("<iframe", found._repr_html_())
        self.assertIn("a step by the model", str(found))
        self.assertEqual(str(module.graph), before)
        alone = weft.torch.explain(module, ["schedule_comm_wait"], groups=GROUPS)
        self.assertEqual({c.outcome for c in alone.collectives}, {"stays"})

    def test_open_shapes_and_calls_of_python_are_refused(self):
        module = make_fx(lambda x: x * 2, tracing_mode="symbolic")(torch.randn(3, 4))
        with self.assertRaisesRegex(weft.Unsupported, "dynamic=False"):
            weft.torch.export(module)
        with self.assertRaisesRegex(weft.Unsupported, "only calls of torch ops"):
            weft.torch.export(torch.fx.symbolic_trace(lambda x: torch.relu(x)))

    def test_it_takes_little_time(self):
        module = traced(layers=250)
        count = len(module.graph.nodes)
        started = time.process_time()
        weft.torch.optimize(module, groups=GROUPS)
        took = time.process_time() - started
        print(f"\noptimize: {count} nodes there and back in {took * 1e3:.0f} ms", file=sys.stderr)
        self.assertLess(took, 10)


class Scripts(unittest.TestCase):
    """frameworks/torch_train.py: what torch.compile traces on processes, with Weft, against the same on one process."""

    def ranks(self, how, count=2):
        done = subprocess.run([sys.executable, os.path.join(HERE, "torch_train.py"), how, str(count)], capture_output=True,
                              text=True, timeout=500)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))[7:])
        self.assertEqual(len(found), count)
        self.assertEqual({rank["breaks"] for rank in found}, {0})
        return found

    def test_ddp(self):
        """The reducer in Python, its graph compiled: eight gradients are one collective, to the same bits."""
        for rank in self.ranks("ddp"):
            self.assertTrue(rank["equal"], rank)
            self.assertEqual(rank["counts"], {"all_reduce_coalesced": 1, "wait_tensor": 8})

    def test_tensor_parallel(self):
        for rank in self.ranks("tp"):
            self.assertLess(rank["worst"], 1e-6)
            self.assertEqual(rank["counts"], {"all_gather_into_tensor": 2, "reduce_scatter_tensor": 1, "wait_tensor": 3})


class Tutorial(unittest.TestCase):
    def test_mlp_on_two_processes(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "torch_ddp.py")], capture_output=True,
                              text=True, timeout=500)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertIn("gradients bucketed: 6", done.stdout)
        self.assertIn("the same to the bit with Weft", done.stdout)


if __name__ == "__main__":
    unittest.main()

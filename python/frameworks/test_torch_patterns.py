"""What PyTorch's own tests of communication in compiled graphs ask for, asked of weft.torch (make check-frameworks).

After test_compute_comm_reordering.py (waits sink, collectives begin early, their order is that of all ranks),
test_inductor_collectives.py (each functional collective, views, shared inputs, backward passes) and
test_micro_pipeline_tp.py, which test_torch.Chunks has. On CPU: one process over Gloo.
"""

import copy
import unittest

import torch
import torch._inductor.config
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch.fx.experimental.proxy_tensor import make_fx

import weft.torch

GROUPS = {"0": [0, 1]}
c10d = torch.ops._c10d_functional


def reduced(x):
    return c10d.all_reduce.default(x, "sum", "0")


def order_of(function, *inputs, passes=None):
    """The ops that are called, in order, once Weft's passes were there; and the graph."""
    module = make_fx(function, tracing_mode="fake")(*inputs)
    weft.torch.optimize(module, passes, groups=GROUPS)
    return [str(n.target).split(".")[1] for n in module.graph.nodes if n.op == "call_function"], module


class Order(unittest.TestCase):
    def test_a_wait_sinks_below_products_that_do_not_need_it(self):
        def step(x, w):
            sums = c10d.wait_tensor.default(reduced(x))
            return sums + (x @ w).relu() @ w

        order, _ = order_of(step, torch.randn(4, 4), torch.randn(4, 4))
        self.assertGreater(order.index("wait_tensor"), len(order) - 1 - order[::-1].index("mm"))
        self.assertLess(order.index("all_reduce"), order.index("mm"))

    def test_a_collective_begins_where_its_input_is_ready(self):
        def step(x, w):
            more = x + 1
            product = (x @ w) @ w
            return product, c10d.wait_tensor.default(reduced(more))

        order, _ = order_of(step, torch.randn(4, 4), torch.randn(4, 4))
        self.assertEqual(order[:2], ["add", "all_reduce"])

    def test_collectives_keep_their_order(self):
        """As ranks whose graphs differ in other ops rely on."""
        def step(x, w):
            first = c10d.wait_tensor.default(reduced(x @ w))
            gathered = c10d.wait_tensor.default(c10d.all_gather_into_tensor.default(x, 2, "0"))
            return first + 1, gathered * 2, c10d.wait_tensor.default(c10d.reduce_scatter_tensor.default(x, "sum", 2, "0"))

        order, module = order_of(step, torch.randn(4, 4), torch.randn(4, 4), passes=["schedule_comm_wait", "insert_comm_wait"])
        kinds = [name for name in order if name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor")]
        self.assertEqual(kinds, ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"])
        self.assertTrue(weft.torch.verify([module, module], GROUPS).safe)

    def test_a_result_that_nothing_reads_is_still_waited_for(self):
        def step(x):
            c10d.wait_tensor.default(reduced(x))
            return x + 1

        module = make_fx(step, tracing_mode="fake")(torch.randn(4))
        count = str(module.graph).count("wait_tensor.default")
        weft.torch.optimize(module, groups=GROUPS)
        self.assertEqual(str(module.graph).count("wait_tensor.default"), count)

    def test_reduces_of_several_kinds_do_not_become_one(self):
        def step(x, y):
            return (c10d.wait_tensor.default(c10d.all_reduce.default(x, "max", "0")), c10d.wait_tensor.default(reduced(y)))

        order, _ = order_of(step, torch.randn(4), torch.randn(4))
        self.assertEqual(order.count("all_reduce"), 2)


class ShardedParameters(unittest.TestCase):
    """FSDP2, whose hooks torch does not compile: its gathers of each parameter and scatters of gradients, traced by hand."""

    def test_gathers_begin_before_the_layer_ahead_is_done(self):
        def step(parts, x):
            whole = [c10d.wait_tensor.default(c10d.all_gather_into_tensor.default(p, 2, "0")) for p in parts]
            for w in whole:
                x = (x @ w).relu()
            grads = torch.autograd.grad(x.square().sum(), whole)
            return [c10d.wait_tensor.default(c10d.reduce_scatter_tensor.default(g, "avg", 2, "0")) for g in reversed(grads)]

        parts = [torch.randn(4, 8, requires_grad=True) for _ in range(3)]
        order, module = order_of(step, parts, torch.randn(2, 8))
        last_gather = len(order) - 1 - order[::-1].index("all_gather_into_tensor")
        self.assertLess(last_gather, order.index("mm"))
        self.assertEqual(order.count("all_gather_into_tensor"), 3)
        self.assertEqual(order.count("reduce_scatter_tensor"), 3)
        self.assertLess(order.index("reduce_scatter_tensor"), len(order) - 1 - order[::-1].index("mm"))
        self.assertTrue(weft.torch.verify([module, module], GROUPS).safe)


class Values(unittest.TestCase):
    """Functional collectives under torch.compile: no break of the graph, and what eager torch gives."""

    @classmethod
    def setUpClass(cls):
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def test_sizes_that_change_are_compiled_one_by_one(self):
        weight, backend = torch.randn(4, 4, requires_grad=True), weft.torch.Backend()

        def step(x):
            hidden = (x @ weight).tanh()  # 2.7 has no gradient of the reduce
            return collectives.all_reduce(hidden.sum(0), "sum", dist.group.WORLD) * x.shape[0] + hidden.sum()

        def gradients(call, x):
            found = call(x)
            return found, *torch.autograd.grad(found.sum(), weight)

        for dynamic in (None, True):
            torch._dynamo.reset()
            backend.reports.clear()
            call = torch.compile(step, backend=backend, fullgraph=True, dynamic=dynamic)
            for size, sizes in ((3, 1), (5, 2), (7, 3), (5, 3)):
                x = torch.randn(size, 4)
                self.assertTrue(all(map(torch.equal, gradients(call, x), gradients(step, x))))
                self.assertEqual(len(backend.reports), 2 * sizes)  # forward and backward

    def check(self, function, *inputs):
        torch._dynamo.reset()
        weft.torch.backend.reports.clear()
        expected = function(*inputs)
        found = torch.compile(function, backend=weft.torch.backend, fullgraph=True, dynamic=False)(*inputs)
        for a, b in zip(*(torch.utils._pytree.tree_leaves(v) for v in (found, expected))):
            self.assertTrue(torch.equal(a, b))
        self.assertTrue(weft.torch.backend.reports)

    def test_each_collective(self):
        world, x = dist.group.WORLD, torch.randn(4, 6)
        self.check(lambda x: collectives.all_reduce(x + 1, "sum", world) * 2, x)
        self.check(lambda x: collectives.all_gather_tensor(x + 1, 0, world) * 2, x)
        self.check(lambda x: collectives.reduce_scatter_tensor(x + 1, "sum", 0, world) * 2, x)
        self.check(lambda x: collectives.all_to_all_single(x + 1, [4], [4], world) * 2, x)
        self.check(lambda x, y: collectives.all_reduce_coalesced([x + 1, y * 3], "sum", world), x, torch.randn(3))

    def test_what_is_reduced_may_be_read_afterwards(self):
        """No reduce writes what others read."""
        world = dist.group.WORLD

        def step(x):
            y = x * 2
            sums = collectives.all_reduce(y, "sum", world)
            return sums + 1, y, collectives.all_reduce(y, "sum", world)

        self.check(step, torch.randn(4))

    def test_views_of_results(self):
        world = dist.group.WORLD
        self.check(lambda x: collectives.all_reduce(x.t().contiguous(), "sum", world).view(-1)[2:5] * 2, torch.randn(4, 6))

    def test_a_result_of_a_result(self):
        world = dist.group.WORLD

        def step(x):
            return collectives.all_reduce(collectives.all_gather_tensor(x, 0, world).sum(0), "sum", world)

        self.check(step, torch.randn(4, 6))

    def test_the_default_backend_runs_the_installed_pass(self):
        """As the post-grad pass of "inductor", which compiles the graph with a C++ compiler."""
        world, x = dist.group.WORLD, torch.randn(4, 6)

        def step(x):
            return [collectives.all_reduce(x + k, "sum", world) * 2 for k in range(3)]

        installed = weft.torch.install(strict=True)
        try:
            torch._dynamo.reset()
            with torch._inductor.config.patch(force_disable_caches=True):  # a graph from a cache is not compiled again
                found = torch.compile(step, fullgraph=True, dynamic=False)(x)
        finally:
            weft.torch.uninstall()
        for a, b in zip(found, step(x)):
            self.assertTrue(torch.equal(a, b))
        self.assertEqual(installed.reports[0].count("fuse_allreduce_buckets", "gradients bucketed"), 3)
        self.assertIs(copy.deepcopy(installed), installed)  # torch copies its config, passes too, when a graph is compiled

    def test_a_pass_is_known_by_what_it_does(self):
        """torch caches compiled graphs by the uuid of the pass."""
        make = weft.torch.PostGradPass
        self.assertEqual(make().uuid(), make().uuid())
        lists = (None, ["schedule_comm_wait"], ["insert_comm_wait"], [("fuse_allreduce_buckets", {"mode": "coalesced", "bucket_mb": 1})])
        self.assertEqual(len({make(passes).uuid() for passes in lists}), len(lists))

    def test_a_backward_pass(self):
        world = dist.group.WORLD

        def step(x, w):
            rows = collectives.all_gather_tensor_autograd(x @ w, 0, world)
            return rows.square().sum()

        torch._dynamo.reset()
        grads = []
        for call in (step, torch.compile(step, backend=weft.torch.backend, fullgraph=True, dynamic=False)):
            torch.manual_seed(0)
            x, w = torch.randn(4, 6), torch.randn(6, 3, requires_grad=True)
            call(x, w).backward()
            grads.append(w.grad)
        self.assertTrue(torch.equal(*grads))


if __name__ == "__main__":
    unittest.main()

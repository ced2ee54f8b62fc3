"""The package, with numpy alone."""

import copy
import gc
import inspect
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import numpy as np

import weft

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPT = os.path.join(ROOT, "examples", "gpt_tiny")
RELU = """
weft: 1
blocks:
- idx: 0
  parent: -1
  vars:
    x: {float32: [4, 8]}
    y: {float32: [4, 8]}
    z: {float32: [4, 8]}
  ops:
  - {relu: {X: [x]}, out: {Out: [y]}}
  - {scale: {X: [y]}, out: {Out: [z]}, attrs: {scale: 2.0, bias: 0.0, bias_after_scale: true}}
"""


def gpt():
    return weft.Program.load(os.path.join(GPT, "serial.pdmodel"))


def gpt_dp(ranks=4):
    program = gpt()
    program.run_passes(weft.preset("data_parallel"), set={"data_parallel.ranks": ranks})
    return program


def public():
    """(name, function or class) of all that the package offers."""
    for name in weft.__all__:
        found = getattr(weft, name)
        yield name, found
        for key, member in vars(found).items() if isinstance(found, type) else ():
            member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not key.startswith("_") and inspect.isfunction(member):
                yield f"{name}.{key}", member


class Programs(unittest.TestCase):
    def test_load_and_save_give_the_same_program(self):
        program = gpt()
        self.assertEqual(repr(program), "<weft.Program: 181 ops in 1 block>")
        with tempfile.TemporaryDirectory() as folder:
            for form in ("yaml", "pdmodel"):
                path = os.path.join(folder, "p." + form)
                program.save(path)
                self.assertEqual(weft.Program.load(path), program)
        with open(os.path.join(GPT, "serial.pdmodel"), "rb") as file:
            self.assertEqual(program.print("pdmodel"), file.read())
        for other in (program.clone(), copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
            self.assertEqual(other, program)

    def test_ops_and_vars(self):
        program = weft.Program.parse(RELU)
        relu, scale = program.ops
        self.assertEqual([relu.type, scale.type], ["relu", "scale"])
        self.assertEqual(scale.attr("scale", 1.0), 2.0)
        self.assertEqual(scale.attr("nothing", "else"), "else")
        self.assertEqual(relu.inputs, {"X": [program.vars["x"]]})
        self.assertEqual(program.vars["x"].shape, (4, 8))
        self.assertEqual(program.vars["x"].dtype, "float32")
        with self.assertRaises(KeyError):
            program.block.var("nope")

    def test_edits(self):
        program = weft.Program.parse(RELU)
        relu, scale = program.ops
        fresh = program.block.add_var("w", "float32", (4, 8))
        made = program.block.insert("relu", {"X": [program.vars["y"]]}, {"Out": [fresh]}, {"note": "mine"}, after=relu)
        scale.rename_input(program.vars["y"], fresh)
        self.assertEqual([op.type for op in program.block], ["relu", "relu", "scale"])
        self.assertEqual(made.attr("note", ""), "mine")
        self.assertEqual(scale.inputs["X"][0].name, "w")
        made.remove()
        self.assertEqual(len(program.block), 2)

    def test_what_is_edited_is_a_patch(self):
        program = weft.Program.parse(RELU)
        edits = program.edits()
        self.assertEqual(edits.find().ops(0), [(0, False), (1, False)])
        relu, scale = program.ops
        scale.set_attr("scale", 3.0)
        program.block.insert("relu", {"X": [program.vars["y"]]}, {"Out": [program.block.add_var("w", "float32", [4, 8])]},
                             before=relu)
        self.assertEqual(edits.find().ops(0), [(None, True), (0, False), (1, True)])
        self.assertFalse(edits.removes_vars(0))
        self.assertEqual(edits.runs(0), [(None, 1, True), (0, 1, False), (1, 1, True)])
        patch = weft.Program.parse(edits.print(), "pdmodel")
        self.assertEqual([op.type for op in patch.ops], ["relu", "scale"])
        self.assertEqual(list(patch.vars), ["w"])
        self.assertEqual(edits.long_slots(0, 0, 1), [])
        short = weft.Program.parse(edits.print(0), "pdmodel")
        self.assertEqual([(op.type, op.inputs, op.outputs) for op in short.ops], [("relu", {}, {}), ("scale", {}, {})])
        self.assertEqual(edits.long_slots(0, 0, 0), [(False, b"X", [b"y"]), (True, b"Out", [b"w"])])
        self.assertEqual(edits.long_slots(0, 1, 0), [])

    def test_ops_that_moved_or_went_are_edits(self):
        program = weft.Program.parse(RELU)
        edits = program.edits()
        relu, scale = program.ops
        scale.move_before(relu)
        self.assertEqual(edits.find().ops(0), [(1, True), (0, False)])
        scale.remove()
        self.assertEqual(edits.find().runs(0), [(0, 1, False)])

    def test_vars_outlive_the_name_of_their_program(self):
        op = gpt().ops[0]
        gc.collect()
        self.assertTrue(op.type)


class Errors(unittest.TestCase):
    def test_place_and_diagnostics(self):
        with self.assertRaises(weft.ParseError) as raised:
            weft.Program.parse(RELU.replace("{X: [x]}", "[x]"), place="mine.yaml")
        self.assertIn("mine.yaml", str(raised.exception))
        self.assertEqual(raised.exception.diagnostics[0].line, RELU[: RELU.index("relu")].count("\n") + 1)

    def test_kinds(self):
        with self.assertRaises(weft.NotFound):
            weft.Program.load("/nonexistent/p.yaml")
        with self.assertRaises(LookupError):
            weft.Program.parse(RELU).block.var("no_such_var")
        with self.assertRaisesRegex(weft.ParseError, "no_such_pass"):
            gpt().run_passes(["no_such_pass"])
        with self.assertRaises(weft.Error) as raised:
            gpt().run_passes([("data_parallel", {"rank": 4})])
        self.assertIn("rank", str(raised.exception))
        with self.assertRaises(weft.NotFound):
            weft.preset("nope")

    def test_a_refused_pass_leaves_a_report(self):
        program = gpt()
        before = program.clone()
        with self.assertRaises(weft.Error) as raised:
            program.run_passes(["prune_grad_scale", ("data_parallel", {"ranks": 3})])
        self.assertEqual(raised.exception.code, "refused")
        self.assertEqual(raised.exception.report[0].name, "prune_grad_scale")
        self.assertEqual(program, before)


class Passes(unittest.TestCase):
    def test_report(self):
        program = gpt()
        report = program.run_passes(weft.preset("data_parallel"), set={"data_parallel.ranks": 4}, prove="require")
        self.assertEqual(report.count("prune_grad_scale", "scales removed"), 37)
        self.assertEqual(report[0].ops_before, 181)
        self.assertEqual(report[1].grade, "same over the real numbers")
        self.assertIn("coalesce_grads", str(report))
        self.assertIn("<td", report._repr_html_())
        self.assertNotIn("<script", report._repr_html_())

    def test_a_certificate_holds_for_its_pair_alone(self):
        program = gpt_dp()
        before = program.clone()
        todo = gpt()
        todo.run_passes([("data_parallel", {"ranks": 4})])
        before = todo.clone()
        report = todo.run_passes(["prune_grad_scale"], certify=True)
        self.assertEqual(weft.check_certificate(before, todo, report.certificate())[0], "certified")
        self.assertEqual(weft.check_certificate(before, program, report.certificate())[0], "bad")

    def test_a_pass_in_python(self):
        @weft.pass_(options={"type": "scale", "names": ["a"], "most": 3, "ratio": 0.5, "loud": False})
        def count_types(run, program):
            """Counts the ops of one type."""
            self.assertEqual(run.options["names"], ["b", "c"])
            self.assertEqual((run.options["most"], run.options["ratio"], run.options["loud"]), (3, 0.5, True))
            run.count("ops counted", sum(op.type == run.options["type"] for op in program.block))
            run.did("50% of it")
            run.left(program.ops[0], "dtype", "100% left")

        program = weft.Program.parse(RELU)
        report = program.run_passes([("count_types", {"type": "relu", "names": ["b", "c"], "loud": True})])
        self.assertEqual(report.count("count_types", "ops counted"), 1)
        self.assertIn("did: 50% of it", str(report))
        self.assertEqual(report[0].left[0].reason, "dtype")
        self.assertIn("count_types", weft.passes())
        with self.assertRaisesRegex(weft.Error, "colour"):
            program.run_passes([{"count_types": {"colour": 1}}])

    def test_a_python_pass_edits_refuses_and_raises(self):
        @weft.pass_
        def drop_relu(run, program):
            for op in program.ops:
                if op.type == "relu":
                    for reader in program.ops:
                        reader.rename_input(op.outputs["Out"][0], op.inputs["X"][0])
                    op.remove()

        @weft.pass_
        def never(run, program):
            raise weft.Refused("not today")

        @weft.pass_
        def broken(run, program):
            return {}["key"]

        program = weft.Program.parse(RELU)
        with self.assertRaisesRegex(weft.Refused, "not today"):
            program.run_passes([never])
        with self.assertRaises(KeyError):
            program.run_passes([broken])
        program.run_passes([drop_relu], prove="report")
        self.assertEqual([op.type for op in program.block], ["scale"])
        with self.assertRaises(weft.Error):  # it computes something else, and the proof says so
            weft.Program.parse(RELU.replace("z: {float32: [4, 8]}", "z: {float32: [4, 8], persistable: true}")).run_passes(
                [drop_relu], prove="require")


class Proof(unittest.TestCase):
    def test_verify(self):
        program = gpt_dp()
        self.assertTrue(weft.verify(program, ranks=4).safe)
        reduce = next(op for op in program.block if "allreduce" in op.type or "all_reduce" in op.type)
        reduce.remove()
        findings = weft.verify(program, ranks=4)
        self.assertFalse(findings.safe)
        self.assertIn("missing_reduce", {f.verdict for f in findings})
        self.assertIn("missing_reduce", findings._repr_html_())
        self.assertIn("missing_reduce", findings.json())
        with self.assertRaises(weft.InvalidProgram):
            weft.check_replicas(program, 4)

    def test_equivalent(self):
        a, b = weft.Program.parse(RELU), weft.Program.parse(RELU.replace("2.0", "3.0"))
        self.assertEqual(weft.equivalent(a, a.clone(), fetches=["z"]).grade, "same bits")
        verdict = weft.equivalent(a, b, fetches=["z"])
        self.assertFalse(verdict.proved)
        self.assertEqual(verdict.findings[0][0], "z")
        self.assertTrue(weft.equivalent(gpt(), gpt_dp(), fetches=["mean_0.tmp_0"], ranks=4).grade.startswith("same"))


class Plans(unittest.TestCase):
    def test_plan(self):
        plan = weft.plan(weft.Program.parse(RELU), fetches=["z"])
        self.assertEqual(weft.plan(weft.Program.parse(RELU), fetches=["z"]).summary, plan.summary)
        self.assertEqual(str(weft.Plan.parse(str(plan))), str(plan))
        self.assertIn("z", [v.name for v in plan.values])

    def test_simulate(self):
        feeds = weft.load_tensors(os.path.join(GPT, "feeds.npz"))
        slow = weft.Cluster(links=[(0, 1e6, 1e-3)])
        one = weft.simulate(gpt_dp(), ranks=4, feeds=feeds)
        two = weft.simulate(gpt_dp(), ranks=4, feeds=feeds, cluster=slow)
        self.assertGreater(two.step_seconds, one.step_seconds * 10)
        self.assertGreater(two.rank_times(0).exposed, 0)
        self.assertEqual(one.races, [])
        self.assertIn("traceEvents", one.timeline().json)
        self.assertIn("<iframe", one._repr_html_())


class Training(unittest.TestCase):
    def test_losses_are_the_recorded_ones(self):
        seen = []
        out = weft.run(gpt_dp(), ranks=4, params=os.path.join(GPT, "params.npz"), feeds=os.path.join(GPT, "feeds.npz"),
                       fetches=["mean_0.tmp_0"], trace=True, progress=lambda step, steps, trainer: seen.append(step))
        recorded = np.load(os.path.join(GPT, "losses.npz"))["losses"].ravel()
        np.testing.assert_allclose(out.fetches["mean_0.tmp_0"].mean(axis=1), recorded, rtol=1e-5)
        self.assertEqual(seen, list(range(10)))
        self.assertIn("traceEvents", out.timeline.json)
        self.assertEqual(out.result["embedding_0.w_0"].shape, (256, 64))

    def test_arrays_are_lent(self):
        x = np.arange(32, dtype=np.float32).reshape(4, 8) - 16
        trainer = weft.Trainer(weft.Program.parse(RELU), feeds=[{"x": x}, {"x": x}], fetches=["z"])
        trainer.step()
        np.testing.assert_array_equal(trainer.fetch("z"), np.maximum(x, 0) * 2)
        x[:] = 1  # the library reads this memory: the next step sees it
        trainer.step()
        np.testing.assert_array_equal(trainer.fetch("z"), np.full((4, 8), 2, np.float32))

    def test_other_layouts_are_copied(self):
        x = np.asfortranarray(np.arange(32, dtype=np.float32).reshape(4, 8))
        for given in (x, x.astype(">f4"), np.repeat(x, 2, axis=0)[::2]):
            out = weft.run(weft.Program.parse(RELU), feeds={"x": given}, fetches=["z"])
            np.testing.assert_array_equal(out.result["z"], x * 2)

    def test_results_outlive_the_trainer(self):
        result = weft.run(weft.Program.parse(RELU), feeds={"x": np.ones((4, 8), np.float32)}, fetches=["z"]).result["z"]
        gc.collect()
        junk = [np.zeros(1000) for _ in range(100)]
        np.testing.assert_array_equal(result, np.full((4, 8), 2, np.float32))
        self.assertEqual(len(junk), 100)

    def test_state_goes_on(self):
        feeds = weft.load_tensors(os.path.join(GPT, "feeds.npz"))
        params = os.path.join(GPT, "params.npz")
        whole = weft.run(gpt_dp(2), ranks=2, params=params, feeds=feeds, steps=4, fetches=["mean_0.tmp_0"])
        first = weft.Trainer(gpt_dp(2), ranks=2, params=params, feeds=feeds, steps=2, fetches=["mean_0.tmp_0"])
        list(first)
        rest = weft.run(gpt_dp(2), ranks=2, state=first.state(), feeds=feeds, steps=2, first_step=2,
                        fetches=["mean_0.tmp_0"])
        np.testing.assert_array_equal(rest.fetches["mean_0.tmp_0"], whole.fetches["mean_0.tmp_0"][2:])

    def test_errors_name_what_is_wrong(self):
        with self.assertRaisesRegex(weft.Error, "nope"):
            weft.Trainer(weft.Program.parse(RELU), feeds={"nope": np.zeros(3)})
        with self.assertRaises(TypeError):
            weft.Trainer(weft.Program.parse(RELU), feeds={"x": np.array(["a"])})
        with self.assertRaises(weft.InvalidProgram):
            weft.Trainer(gpt(), ranks=4)

    def test_tensor_files(self):
        arrays = {"a": np.arange(6).reshape(2, 3), "b": np.float32(2.5), "half": np.ones(2, np.float16)}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.npz")
            weft.save_tensors(path, arrays)
            found = weft.load_tensors(path)
            with np.load(path) as plain:
                for name, value in arrays.items():
                    np.testing.assert_array_equal(found[name], value)
                    np.testing.assert_array_equal(plain[name], value)


class Guest(unittest.TestCase):
    def test_other_threads_run_during_a_call(self):
        trainer = weft.Trainer(gpt_dp(2), ranks=2, params=os.path.join(GPT, "params.npz"),
                               feeds=weft.load_tensors(os.path.join(GPT, "feeds.npz")), steps=10)
        ticks, stop = [0], threading.Event()

        def tick():
            while not stop.is_set():
                ticks[0] += 1
                time.sleep(0.0005)

        thread = threading.Thread(target=tick)
        thread.start()
        try:
            before = ticks[0]
            list(trainer)
            self.assertGreater(ticks[0], before)
        finally:
            stop.set()
            thread.join()

    def test_ctrl_c_ends_training(self):
        script = f"""
import signal, sys, numpy as np, weft
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
trainer = weft.Trainer(weft.Program.parse({RELU!r}), feeds={{"x": np.ones((4, 8), np.float32)}}, steps=10**9)
print("ready", flush=True)
try:
    for step in trainer: pass
except KeyboardInterrupt:
    print("stopped", trainer.step() > 0)
"""
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "ready\n")
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
        self.assertEqual(out, "stopped True\n")

    def test_warnings_are_pythons(self):
        self.assertTrue(issubclass(weft.WeftWarning, UserWarning))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            weft.Program.parse(RELU).check()

    def test_what_is_public_is_documented_and_typed(self):
        for name, found in public():
            self.assertTrue(inspect.getdoc(found), f"{name} says nothing")
            if inspect.isfunction(found):
                wanted = {*inspect.signature(found).parameters, "return"} - {"self", "cls"}
                self.assertEqual(wanted - set(found.__annotations__), set(), name)
        self.assertEqual(set(weft.__all__), {n for n in vars(weft) if not n.startswith("_") and not inspect.ismodule(vars(weft)[n])})

    def test_version(self):
        with open(os.path.join(ROOT, "Makefile")) as file:
            self.assertIn(f"VERSION := {weft.__version__}\n", file.read())


if __name__ == "__main__":
    unittest.main()

"""weft.paddle with the real PaddlePaddle (make check-frameworks)."""

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import numpy as np
import paddle

import weft
import weft.paddle

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DEADLINE = 1200  # of a script, in seconds: for a busy machine
MODELS = ("mlp", "lenet", "gpt", "bert")  # of paddle_models.py


def mlp(layers=2, batch=-1):
    main, startup = paddle.static.Program(), paddle.static.Program()
    main.random_seed = startup.random_seed = 5
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = paddle.static.data("x", [batch, 8])
        hidden = x
        for _ in range(layers):
            hidden = paddle.static.nn.fc(hidden, 8, activation="tanh")
        loss = paddle.mean(hidden)
        paddle.optimizer.Adam(0.01).minimize(loss)
    return main, startup, loss


def steps(main, startup, loss, count=3):
    scope, executor = paddle.static.Scope(), paddle.static.Executor(paddle.CPUPlace())
    x = np.random.default_rng(1).standard_normal((4, 8), dtype=np.float32)
    with paddle.static.scope_guard(scope):
        executor.run(startup)
        return [float(executor.run(main, feed={"x": x}, fetch_list=[loss])[0]) for _ in range(count)]


def processes(how, model, count=1):
    """What the processes of frameworks/paddle_train.py print, by rank."""
    ports = [free_port() for _ in range(count)]
    ends, jobs = [f"127.0.0.1:{port}" for port in ports], []
    for rank in range(count):
        env = dict(os.environ, PADDLE_TRAINERS_NUM=str(count), PADDLE_TRAINER_ID=str(rank), GLOG_minloglevel="2",
                   PADDLE_CURRENT_ENDPOINT=ends[rank], PADDLE_TRAINER_ENDPOINTS=",".join(ends))
        jobs.append(subprocess.Popen([sys.executable, os.path.join(HERE, "paddle_train.py"), how, model], env=env, text=True,
                                     cwd=tempfile.gettempdir(), stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    try:
        done = [job.communicate(timeout=DEADLINE) for job in jobs]
    finally:
        [job.kill() for job in jobs]
    for job, (_, errors) in zip(jobs, done):
        if job.returncode:
            raise AssertionError(errors[-3000:])
    return [json.loads(next(line for line in out.splitlines() if line.startswith("RESULT"))[7:]) for out, _ in done]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Optimize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        paddle.enable_static()

    def test_a_serial_program_becomes_one_ranks(self):
        main, _, loss = mlp()
        params = main.all_parameters()
        report = weft.paddle.optimize(main, ranks=2, prove="report")
        self.assertEqual(report.count("data_parallel", "gradients reduced"), 4)
        types = [op.type for op in main.global_block().ops]
        self.assertEqual(sum(t in ("c_allreduce_sum", "all_reduce") for t in types), 1)
        self.assertEqual(types.count("coalesce_tensor"), 1)
        self.assertEqual(types, [main.desc.block(0).op(i).type() for i in range(len(types))])
        self.assertFalse(any(op.has_attr("weft_source") for op in main.global_block().ops))
        self.assertIs(main.all_parameters()[0], params[0])
        self.assertIsInstance(params[0], paddle.base.framework.Parameter)
        self.assertEqual(loss.shape, main.global_block().var(loss.name).shape)
        again = paddle.static.Program.parse_from_string(main.desc.serialize_to_string())
        self.assertEqual(weft.paddle.read(again), weft.paddle.read(main))

    def test_buckets_of_many_gradients_have_all_of_them(self):
        main, _, _ = mlp(layers=40)  # slots of 80 arguments are not in the patch
        expected = weft.paddle.read(main)
        expected.run_passes(weft.preset("data_parallel"), set={"data_parallel.ranks": 2})
        weft.paddle.optimize(main, ranks=2)
        slots = [[(op.type, op.inputs, op.outputs) for op in program.ops] for program in (expected, weft.paddle.read(main))]
        self.assertEqual(*map(str, slots))
        self.assertEqual(max(len(args) for _, inputs, _ in slots[0] for args in inputs.values()), 80)
        coalesced = next(op for op in main.global_block().ops if op.type == "coalesce_tensor")
        self.assertIs(main.global_block().var(coalesced.output("FusedOutput")[0]).op, coalesced)

    def test_steps_of_a_rewritten_program_are_the_same(self):
        @weft.pass_(summary="moves nothing, but all ops are put back")
        def nothing(run, program):
            run.did("nothing")

        expected = steps(*mlp())
        main, startup, loss = mlp()
        scope = steps(main, startup, loss, 1)  # the executor has seen it: a stale plan would show
        weft.paddle.optimize(main, [nothing])
        self.assertEqual(steps(main, startup, loss), expected)
        self.assertEqual(scope[0], expected[0])

    def test_blocks_of_control_flow_stay(self):
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
            x = paddle.static.data("x", [4, 8])
            i = paddle.full([1], 0, "int64")
            _, out = paddle.static.nn.while_loop(lambda i, v: i < 3, lambda i, v: [i + 1, v * 2], [i, x])
        weft.paddle.optimize(main, ["prune_grad_scale"])
        found = paddle.static.Executor().run(main, feed={"x": np.ones((4, 8), np.float32)}, fetch_list=[out])[0]
        np.testing.assert_array_equal(found, np.full((4, 8), 8, np.float32))

    def test_what_is_refused_leaves_the_program_as_it_was(self):
        main, startup, loss = mlp(batch=7)
        before = main.desc.serialize_to_string()
        with self.assertRaises(weft.Error):
            weft.paddle.optimize(main, ranks=2)
        self.assertEqual(main.desc.serialize_to_string(), before)
        with self.assertRaisesRegex(TypeError, "paddle.static.Program"):
            weft.paddle.optimize(paddle.nn.Linear(2, 2), ranks=2)

    def test_an_old_or_too_new_paddle_is_refused_with_what_to_do(self):
        main, _, _ = mlp()
        before = main.desc.serialize_to_string()
        for version in ("2.5.2", "4.0.0"):
            with mock.patch.object(paddle, "__version__", version), self.assertRaisesRegex(weft.Unsupported, "pip install 'paddlepaddle>=2.6"):
                weft.paddle.optimize(main, ranks=2)
            self.assertEqual(main.desc.serialize_to_string(), before)

    @unittest.skipIf(paddle.__version__.startswith("2."), "Paddle 3 has PIR")
    def test_programs_of_pir_are_refused_with_what_to_do(self):
        script = ("import paddle, weft.paddle\npaddle.enable_static()\nmain = paddle.static.Program()\n"
                  "with paddle.static.program_guard(main):\n    paddle.mean(paddle.static.data('x', [4, 8]))\n"
                  "before = str(main)\ntry:\n    weft.paddle.optimize(main, ranks=2)\n"
                  "except weft.Unsupported as error:\n    print(error.message, str(main) == before)\n")
        for api, words in (("1", "PIR program: run the script with FLAGS_enable_pir_api=0"), ("0", "FLAGS_enable_pir_in_executor=0")):
            env = dict(os.environ, FLAGS_enable_pir_api=api, FLAGS_enable_pir_in_executor="1")
            done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=200)
            self.assertIn(words, done.stdout, done.stderr[-2000:])
            self.assertTrue(done.stdout.strip().endswith("True"))

    def test_install_takes_the_place_of_paddles_pass(self):
        from paddle.distributed.passes import new_pass

        weft.paddle.install()
        try:
            made = new_pass("auto_parallel_data_parallel_optimization", {"dist_context": 1, "global_rank": 0})
            self.assertEqual(type(made).__name__, "WeftDataParallelOptimization")
        finally:
            weft.paddle.uninstall()
        made = new_pass("auto_parallel_data_parallel_optimization", {})
        self.assertEqual(type(made).__name__, "DataParallelOptimizationPass")

    def test_it_takes_little_time(self):
        main, _, _ = mlp(layers=200)
        started = time.process_time()
        main.desc.serialize_to_string()
        alone = time.process_time() - started
        started = time.process_time()
        weft.paddle.optimize(main, ranks=2)
        took = time.process_time() - started
        nops = len(main.global_block().ops)
        print(f"\noptimize: {nops} ops in {took * 1e3:.0f} ms; Paddle's serialization {alone * 1e3:.0f} ms", file=sys.stderr)
        self.assertLess(took, 2 * alone + 0.2)


class Scripts(unittest.TestCase):
    """Whole training scripts, each on processes of its own; losses averaged over ranks are the serial script's."""

    serial = {}  # what the serial script of a model prints

    def compare(self, how, model, count):
        if model not in self.serial:
            self.serial[model], = processes("serial", model)
        expected = self.serial[model]["losses"]
        found = processes(how, model, count)
        np.testing.assert_allclose(np.mean([f["losses"] for f in found], axis=0), expected, rtol=1e-4)
        self.assertLess(expected[-1], expected[0])
        for rank in found:
            self.assertEqual((rank["reduces"], rank["buckets"]), (1, 1))
        return found[0]

    def test_engine(self):
        """Of lenet, Paddle's completion leaves the biases of convolutions without a reduce: they get one."""
        for model, count in itertools.product(MODELS, (2, 4)):
            with self.subTest(model=model, processes=count):
                done = self.compare("engine", model, count)
                self.assertGreater(done["pass_ms"], 0)

    def test_fleet(self):
        for model, count in itertools.product(MODELS, (2, 4)):
            with self.subTest(model=model, processes=count):
                self.compare("fleet", model, count)

    def test_fleet_with_gradients_of_two_steps(self):
        """All steps are of one batch: every other one finds other parameters."""
        serial, = processes("serial", "mlp")
        found = processes("fleet_merge", "mlp", 2)
        losses = np.mean([f["losses"] for f in found], axis=0)
        np.testing.assert_allclose(losses, [serial["losses"][i // 2] for i in range(len(losses))], rtol=1e-4)

    def test_pass_time_beside_paddles(self):
        done, own = (processes(how, "mlp", 2)[0] for how in ("engine", "engine_own"))
        print(f"\nthe Engine's data-parallel optimization of mlp: {done['pass_ms']:.1f} ms of Weft's, {own['pass_ms']:.1f} ms of "
              "Paddle's own", file=sys.stderr)
        self.assertGreater(own["pass_ms"], 0)


class Tutorial(unittest.TestCase):
    def test_gpt_on_two_processes(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "paddle_gpt.py")], capture_output=True,
                              text=True, timeout=DEADLINE, cwd=tempfile.gettempdir())
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn("losses of 2 processes are those of the serial program", done.stdout)


if __name__ == "__main__":
    unittest.main()

"""Ops that can dominate a step, side by side with Paddle: a program of each, forward and backward, one thread.

usage: ops_speed.py [--weft FILE] [--rounds N] [NAME...]      under the Python of bench/peers/setup's paddle-2.6.2

Runs alternate; figures are medians of the rounds' medians, in milliseconds a step. Losses must agree.
"""
import argparse, os, subprocess, sys, tempfile, time
for name in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'FLAGS_paddle_num_threads', 'CPU_NUM'):
    os.environ[name] = '1'
import numpy as np
import paddle
import paddle.nn.functional as F
import paddle.static as static

paddle.enable_static()
STEPS = 9
rng = np.random.RandomState(3)


def feed(name, *dims):
    v = static.data(name, list(dims), 'float32')
    v.stop_gradient = False
    return v, rng.uniform(-1, 1, dims).astype('float32')


def ids(name, high, *dims):
    return static.data(name, list(dims), 'int64'), rng.randint(0, high, dims).astype('int64')


def rnn(kind):
    def make():
        x, a = feed('x', 16, 48, 128)
        layer = (paddle.nn.LSTM if kind == 'LSTM' else paddle.nn.GRU)(128, 128, num_layers=2)
        return layer(x)[0], {'x': a}
    return make


def einsum():
    q, a = feed('q', 8, 128, 8, 64)
    k, b = feed('k', 8, 128, 8, 64)
    return paddle.einsum('blhd,bmhd->bhlm', q, k), {'q': a, 'k': b}


def conv3d():
    x, a = feed('x', 2, 16, 16, 28, 28)
    return static.nn.conv3d(x, 32, 3, padding=1), {'x': a}


def interpolation(mode):
    def make():
        x, a = feed('x', 4, 32, 48, 48)
        return F.interpolate(x, size=[96, 96], mode=mode), {'x': a}
    return make


def embedding(sparse):
    def make():
        i, a = ids('i', 50000, 64, 64)
        return static.nn.embedding(i, [50000, 64], is_sparse=sparse), {'i': a}
    return make


def warpctc():
    x, a = feed('x', 100, 16, 60)
    label, b = ids('label', 59, 16, 20)
    lengths = [static.data(n, [16], 'int64') for n in ('steps', 'labels')]
    loss = F.ctc_loss(x, paddle.cast(label + 1, 'int32'), *lengths, reduction='mean')
    return loss, {'x': a, 'label': b, 'steps': np.full(16, 100, 'int64'), 'labels': np.full(16, 20, 'int64')}


CASES = {'lstm': rnn('LSTM'), 'gru': rnn('GRU'), 'einsum': einsum, 'conv3d': conv3d, 'bilinear': interpolation('bilinear'),
         'nearest': interpolation('nearest'), 'bicubic': interpolation('bicubic'), 'embedding': embedding(False),
         'embedding_sparse': embedding(True), 'warpctc': warpctc}


class Case:
    def __init__(self, name, folder):
        self.main, startup = static.Program(), static.Program()
        with static.program_guard(self.main, startup):
            y, self.feeds = CASES[name]()
            self.loss = paddle.mean(paddle.square(y))
            params = self.main.all_parameters()
            if params:
                paddle.optimizer.SGD(1e-3).minimize(self.loss)
                self.fetch = [self.loss]
            else:
                grads = static.gradients([self.loss], [self.main.global_block().var(n) for n in self.feeds])
                self.fetch = [self.loss] + [g for g in grads if g is not None]
        self.exe, self.scope = static.Executor(), static.Scope()
        with static.scope_guard(self.scope):
            self.exe.run(startup)
            held = {v.name: np.array(self.scope.find_var(v.name).get_tensor()) for v in self.main.list_vars() if v.persistable}
        self.files = [os.path.join(folder, name + tail) for tail in ('.pdmodel', '.params.npz', '.feeds.npz')]
        for op in self.main.global_block().ops:
            if op.has_attr('op_callstack'):
                op._set_attr('op_callstack', [])
        open(self.files[0], 'wb').write(self.main.desc.serialize_to_string())
        np.savez(self.files[1], **held)
        np.savez(self.files[2], **self.feeds)

    def paddle(self):
        times, losses = [], []
        with static.scope_guard(self.scope):
            for _ in range(STEPS):
                start = time.perf_counter()
                out = self.exe.run(self.main, feed=self.feeds, fetch_list=self.fetch)
                times.append(time.perf_counter() - start)
                losses.append(float(np.asarray(out[0]).ravel()[0]))
        return 1e3 * sorted(times)[STEPS // 2], losses[0]

    def weft(self, command):
        line = [command, 'run', self.files[0], '--params', self.files[1], '--feed', self.files[2], '--steps', str(STEPS), '--threads', '1']
        got = subprocess.run(line + ['--fetch', self.loss.name], capture_output=True, text=True)
        if got.returncode:
            sys.exit(f'{self.files[0]}: {got.stderr}')
        took = [l for l in got.stderr.splitlines() + got.stdout.splitlines() if 'a step (median)' in l][0]
        losses = [l for l in got.stdout.splitlines() if l.startswith('0,0,')]
        return float(took.split(', ')[1].split()[0]), float(losses[0].split(',')[3])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--weft', default='build/release/weft')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    print('| op | Weft ms | Paddle 2.6.2 ms | Paddle / Weft |\n| --- | --- | --- | --- |')
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or CASES:
            one, rounds, first = Case(name, folder), [], None
            for _ in range(options.rounds):
                theirs, loss = one.paddle()
                first = first if first is not None else loss
                ours, own = one.weft(options.weft)
                if abs(own - first) > 1e-4 * abs(first) + 1e-6:
                    sys.exit(f'{name}: a loss of {own}, Paddle has {first}')
                rounds.append((ours, theirs))
            ours, theirs = (sorted(r[k] for r in rounds)[len(rounds) // 2] for k in (0, 1))
            print(f'| {name} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} |', flush=True)


if __name__ == '__main__':
    main()

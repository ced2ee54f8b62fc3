"""Programs that Weft wrote, run by the real Paddle 2.6.2: a process a rank, over Gloo; losses and final values compared
with those of Paddle's own serial run.

usage: client.py [--ranks N] [CASE...]     cases of fixtures/paddle26; default: mlp, lenet, gpt_tiny, bert

Each case in two forms: the rank programs that Paddle partitioned, through configs/data_parallel_optimization.yaml, on as
many ranks as they are for; and the serial program, through configs/data_parallel.yaml, on N ranks (default 2). Last line:
N passed, N failed.
"""
import json
import os
import socket
import sys
import tempfile

import common

np = common.numpy()

PADDLE = 'paddle-2.6.2'
CASES = ['mlp_sgd_dp2', 'lenet_momentum_dp2', 'gpt_tiny_adamw_dp2', 'bert_tiny_adamw_dp4']
LOSS_TOLERANCE, FINAL_TOLERANCE = 1e-4, 1e-3


def free_endpoint():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return f'127.0.0.1:{s.getsockname()[1]}'


def paddle_team(peer, programs, spec, name=None):
    """A process a program, one thread each, which meet over Gloo."""
    endpoint = free_endpoint()
    workers = []
    for rank, program in enumerate(programs):
        own = dict(spec, program=program, rank=rank, world=len(programs), endpoint=endpoint)
        if 'save' in spec:
            own['save'] = spec['save'].format(rank=rank)
        argv = [common.python(peer), os.path.join(common.HERE, 'paddle_steps.py'), json.dumps(own)]
        workers.append(common.Worker(f'{name or peer}-rank{rank}', argv, common.environment(peer, 1)))
    return common.Team(name or peer, workers)


class Case:
    def __init__(self, name):
        self.name = name
        self.path = os.path.join(common.fixtures(), 'paddle26', name)
        self.info = json.load(open(f'{self.path}/case.json'))
        self.wrong = self.has('emul.before.npz')  # Paddle's partition computes something else, on every rank its own
        self.compare_final = self.info.get('compare_final', True)
        golden = np.load(self.file('golden_dp.npz' if self.has('golden_dp.npz') else 'golden.npz'))
        self.losses = golden['losses']
        self.final = {k[6:]: golden[k] for k in golden.files if k.startswith('final/')}

    def file(self, name):
        return os.path.join(self.path, name)

    def has(self, name):
        return os.path.exists(self.file(name))

    def rank_programs(self, folder):
        programs = []
        for rank in range(self.info['world']):
            programs.append(f'{folder}/rank{rank}.pdmodel')
            common.weft('opt', self.file(f'rank{rank}.pdmodel'), '-o', programs[-1], '--passes',
                        common.config('data_parallel_optimization.yaml'))
        return programs

    def serial_program(self, folder, nranks):
        program = f'{folder}/serial.pdmodel'
        common.weft('opt', self.file('serial.pdmodel'), '-o', program, '--passes', common.config('data_parallel.yaml'),
                    '--set', f'data_parallel.ranks={nranks}')
        return [program] * nranks

    def undetermined(self, name):
        """Parameters whose true gradient is zero: optimizers turn rounding noise into steps."""
        return any(name == p or name.startswith(f'{p}_') for p in self.info.get('undetermined_params') or [])


def difference(a, b):
    a, b = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-6)) if a.size == b.size else np.inf


def waits(programs):
    """Ops that Paddle's CPU executor has no kernel for."""
    return sum('c_wait_co' in line for p in set(programs) for line in common.weft('show', p).splitlines())


def check(case, programs, loss, folder):
    """Runs the programs in Paddle; the largest differences of a loss, of a final value and between the ranks' values."""
    spec = {'params': case.file('params.npz'), 'feed': case.file('feeds.npz'), 'loss': loss,
            'save': folder + '/final{rank}.npz'}
    team = paddle_team(PADDLE, programs, spec)
    try:
        losses = np.array(team.ask(case.info['steps'])['losses'])
    finally:
        team.close()
    steps = case.info.get('compare_steps', case.info['steps'])
    loss_error = np.abs(losses - case.losses)[:steps].max() / np.abs(case.losses).max()
    if not case.compare_final:
        return loss_error, 0, 0
    finals = [dict(np.load(f'{folder}/final{rank}.npz')) for rank in range(len(programs))]
    names = [n for n in case.final if n in finals[0] and not case.undetermined(n)]
    final_error = max(difference(finals[0][n], case.final[n]) for n in names)
    apart = max(difference(f[n], finals[0][n]) for f in finals for n in names)
    return loss_error, final_error, apart


def attempt(case, what, make, loss):
    """Whether it passed; says so."""
    label = f'{case.name}, {what}'
    try:
        with tempfile.TemporaryDirectory() as folder:
            programs = make(folder)
            nwaits = waits(programs)
            loss_error, final_error, apart = check(case, programs, loss, folder)
    except (RuntimeError, OSError) as error:
        print(f'FAIL {label}: {error}', flush=True)
        return False
    good = loss_error <= LOSS_TOLERANCE and final_error <= FINAL_TOLERANCE and apart <= 1e-6 and nwaits == 0
    print(f'{"ok  " if good else "FAIL"} {label}: losses within {loss_error:.1e}, final values {final_error:.1e}, '
          f'ranks apart {apart:.1e}, {nwaits} waits', flush=True)
    return good


def main():
    args, nranks = sys.argv[1:], 2
    if args[:1] == ['--ranks']:
        nranks, args = int(args[1]), args[2:]
    if not common.python(PADDLE):
        common.missing(PADDLE)
        return 0
    outcomes = []
    for name in args or CASES:
        case = Case(name)
        world, info = case.info['world'], case.info
        rank_loss = info['ranks'][0]['loss'] if info.get('ranks') else info['loss']
        if case.wrong:
            print(f'skip {name}, rank programs: what Paddle\'s partition computes is not serial training')
        else:
            outcomes.append(attempt(case, f'rank programs on {world} ranks', case.rank_programs, rank_loss))
        outcomes.append(attempt(case, f'serial made data-parallel on {nranks} ranks',
                                lambda folder: case.serial_program(folder, nranks), info['loss']))
    print(f'{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed')
    return 0 if all(outcomes) else 1


if __name__ == '__main__':
    sys.exit(main())

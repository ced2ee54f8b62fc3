"""Programs beyond the recorded ones: built and trained by the real Paddle, then trained by Weft, serial and data-parallel.

usage: breadth.py [--ranks N] [--dynamic] [--out DIR] [--keep] [NAME...]    default 2 ranks, every program of breadth_models.py

Makes what is not in DIR yet (default: the results' folder; with --keep nothing is made again) with Paddle 2.6.2. Losses
must agree with Paddle's serial run over 5 steps, final values too; data-parallel runs of programs with batch norm, whose
statistics are a rank's own there, must only be finite; a program with the global batch in an attr must be refused. Last line: N passed, N failed.
"""
import argparse
import json
import os
import subprocess
import sys

import common

np = common.numpy()

PADDLE = 'paddle-2.6.2'
LOSS_TOLERANCE, FINAL_TOLERANCE = 1e-4, 1e-3


class Program:
    def __init__(self, folder, name):
        self.name, self.folder = name, os.path.join(folder, name)
        self.info = json.load(open(self.file('case.json')))
        golden = np.load(self.file('golden.npz'))
        self.losses = golden['losses']
        self.final = {k[6:]: golden[k] for k in golden.files if k.startswith('final/')}

    def file(self, name):
        return os.path.join(self.folder, name)

    def train(self, program, nranks):
        out = self.file('out.npz')
        text = common.weft('run', program, '--ranks', nranks, '--params', self.file('params.npz'), '--feed',
                           self.file('feeds.npz'), '--steps', self.info['steps'], '--fetch', self.info['loss'], '--save', out)
        losses = np.zeros(self.info['steps'])
        for line in text.splitlines()[1:]:
            step, _, _, value = line.split(',')
            losses[int(step)] += float(value) / nranks
        return losses, dict(np.load(out))

    def data_parallel(self, nranks):
        program = self.file(f'dp{nranks}.pdmodel')
        common.weft('opt', self.file('serial.pdmodel'), '-o', program, '--passes', common.config('data_parallel.yaml'),
                    '--set', f'data_parallel.ranks={nranks}')
        return program

    def differences(self, losses, final):
        """Of the losses; of the final values, with the name of the worst."""
        loss = np.abs(losses - self.losses).max() / max(np.abs(self.losses).max(), 1e-6)
        worst, where = 0.0, ''
        for name, value in self.final.items():
            if name not in final or any(name == p or name.startswith(f'{p}_') for p in self.info['undetermined']):
                continue
            a, b = np.float64(final[name]).ravel(), np.float64(value).ravel()
            error = np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-6) if a.size == b.size else np.inf
            if not error <= worst:
                worst, where = error, name
        return loss, worst, where

    def finite(self, losses, final):
        return np.isfinite(losses).all() and all(np.isfinite(v).all() for v in final.values() if v.dtype.kind == 'f')


def check(program, nranks):
    """Whether the run agrees; says so."""
    label = f'{program.name}, {"serial" if nranks == 1 else f"{nranks} ranks"}'
    try:
        path = program.file('serial.pdmodel') if nranks == 1 else program.data_parallel(nranks)
        losses, final = program.train(path, nranks)
    except RuntimeError as error:
        refused = nranks > 1 and 'an attr holds the global batch' in str(error)
        print(f'{"ok  " if refused else "FAIL"} {label}: {error}', flush=True)
        return refused
    if nranks > 1 and 'batch_norm' in program.info['ops']:
        good = program.finite(losses, final)
        print(f'{"ok  " if good else "FAIL"} {label}: finite (statistics of a rank\'s own batch)', flush=True)
        return good
    loss, worst, where = program.differences(losses, final)
    good = loss <= LOSS_TOLERANCE and worst <= FINAL_TOLERANCE
    print(f'{"ok  " if good else "FAIL"} {label}: losses within {loss:.1e}, final values {worst:.1e} {where}', flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--out')
    parser.add_argument('--dynamic', action='store_true', help='programs whose batch is known only at run time (-1)')
    parser.add_argument('--keep', action='store_true')
    parser.add_argument('names', nargs='*')
    args = parser.parse_args()
    args.out = args.out or os.path.join(common.RESULTS, 'breadth_dynamic' if args.dynamic else 'breadth')
    os.makedirs(args.out, exist_ok=True)
    if not args.keep:
        if not common.python(PADDLE):
            common.missing(PADDLE)
            return 0
        make = [common.python(PADDLE), os.path.join(common.HERE, 'breadth_make.py'), *['--dynamic'] * args.dynamic]
        subprocess.run([*make, args.out, *args.names], check=True, stderr=subprocess.DEVNULL)
    names = args.names or sorted(n for n in os.listdir(args.out) if os.path.exists(os.path.join(args.out, n, 'case.json')))
    outcomes = [check(Program(args.out, name), n) for name in names for n in (1, args.ranks)]
    print(f'{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed')
    return 0 if all(outcomes) else 1


if __name__ == '__main__':
    sys.exit(main())

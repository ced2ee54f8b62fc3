"""Predicted beside measured: steps of five models on thread ranks, by a machine that was calibrated in the same minute.

usage: predicted.py [--rounds R] [--ranks N] [--seconds S] [--launch=OPTIONS] [MODEL...]     default mlp lenet gpt_tiny gpt_mini resnet18

--launch="--launch --hosts a:1,b:1": ranks are processes, of weft run and weft calibrate alike; predicted_network.sh does so over a link.

In each round, for each model: weft calibrate; weft run --profile of the program with its reduces on the compute stream, where nothing runs
beside compute; weft run of the program through configs/data_parallel.yaml; weft simulate of that, by the cluster file and the profile. A
run lasts about --seconds, 0.5, and has 20 steps at least: shorter ones say where the system happened to put the threads. Medians over
rounds count; each round is told on stderr as it ends. The error is that of predicted over measured in the same round, since the machine
drifts. What it is of compute and of collectives alone is `weft plan --costs`.
A quiet machine: with more to do than cores every number here is another program's. The load is printed.
"""
import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get('WEFT', os.path.join(ROOT, 'build', 'release', 'weft'))
SHARED = os.path.join(ROOT, '..', 'shared', 'fixtures')
FIXTURES = os.environ.get('WEFT_FIXTURES') or (SHARED if os.path.isdir(SHARED) else os.path.join(ROOT, 'tests', 'data'))


def weft(*arguments):
    run = subprocess.run([WEFT, *arguments], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f'predicted: weft {" ".join(arguments)}: {run.stderr.strip()}')
    return run.stderr


def step_ms(*arguments):
    report = weft(*arguments, '--json')
    return 1e3 * json.loads(report[report.index('{'):])['steps']['median_seconds']


class Model:
    def __init__(self, name, folder, ranks, launch):
        self.name, self.ranks, self.launch = name, str(ranks), launch
        at = os.path.join(FIXTURES, 'peers', name)
        params = [f for f in os.listdir(at) if re.match(r'params\.(npz|pdiparams)$', f)]
        begin = ['--params', os.path.join(at, params[0])] if params else ['--startup', os.path.join(at, 'startup.pdmodel')]
        self.data = [*begin, '--feed', os.path.join(at, 'feed.npz')]
        self.plain, self.overlapped = (os.path.join(folder, f'{name}.{kind}.pdmodel') for kind in ('plain', 'overlapped'))
        self.cluster, self.times = os.path.join(folder, f'{name}.yaml'), os.path.join(folder, f'{name}.json')
        for out, passes in (self.plain, 'data_parallel'), (self.overlapped, os.path.join(ROOT, 'configs', 'data_parallel.yaml')):
            weft('opt', os.path.join(at, 'serial.pdmodel'), '-o', out, '--passes', passes, '--set', f'data_parallel.ranks={ranks}')
        self.measured, self.predicted = {}, {}

    def count_steps(self, seconds):
        first = step_ms('run', self.plain, '--ranks', self.ranks, *self.data, '--steps', '20', *self.launch)
        return max(20, round(1e3 * seconds / first))

    def round(self, seconds):
        steps = self.count_steps(seconds)
        weft('calibrate', '--ranks', self.ranks, '-o', self.cluster, *self.launch, *(['--most-bytes', '4194304'] if self.launch else []))
        weft('run', self.plain, '--ranks', self.ranks, *self.data, '--steps', str(steps), f'--profile={self.times}', *self.launch)
        for kind in 'plain', 'overlapped':
            program = getattr(self, kind)
            took = step_ms('run', program, '--ranks', self.ranks, *self.data, '--steps', str(steps), *self.launch)
            told = step_ms('simulate', program, '--ranks', self.ranks, *self.data[2:], '--steps', '1', '--cluster', self.cluster, '--times', self.times)
            self.measured.setdefault(kind, []).append(took)
            self.predicted.setdefault(kind, []).append(told)

    def error(self, kind):
        return statistics.median(p / m for p, m in zip(self.predicted[kind], self.measured[kind])) - 1


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--seconds', type=float, default=0.5)
    parser.add_argument('--launch', type=shlex.split, default=[])
    parser.add_argument('models', nargs='*', default=['mlp', 'lenet', 'gpt_tiny', 'gpt_mini', 'resnet18'])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = [Model(name, folder, args.ranks, args.launch) for name in args.models]
        for number in range(args.rounds):
            for model in models:
                model.round(args.seconds)
                off = (f'{kind} {100 * (model.predicted[kind][-1] / model.measured[kind][-1] - 1):+.1f}%' for kind in model.measured)
                print(f'round {number + 1}, {model.name}: {", ".join(off)}', file=sys.stderr, flush=True)
    print(f'{args.ranks} ranks{" as processes" if args.launch else ""} on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ms a step\n')
    print('| model | reduces | measured | predicted | error |\n| --- | --- | --- | --- | --- |')
    for model in models:
        for kind in model.measured:
            print(f'| {model.name} | {kind} | {statistics.median(model.measured[kind]):.3f} | {statistics.median(model.predicted[kind]):.3f} | {100 * model.error(kind):+.1f}% |')
    errors = {f'{m.name}, {k}': abs(m.error(k)) for m in models for k in m.measured}
    worst = max(errors, key=errors.get)
    print(f'\nmean error {100 * statistics.mean(errors.values()):.1f}%, worst {100 * errors[worst]:.1f}% ({worst})')


main()

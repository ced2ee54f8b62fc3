"""Step times of data-parallel training on ranks that are threads of one process, and processes of one machine, alternately.

usage: processes.py [--rounds R] [--steps S] [--ranks N] [MODEL...]     default mlp gpt_tiny gpt_mini

A round is a run of each. The ratio is of the least medians. Beside it stands what all threads took of processors, a step, in
ms, and the ratio of these: that depends little on what else runs, while on a machine that is not quiet the first one says nothing.
"""
import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

import common
import steps

MODELS = ['mlp', 'gpt_tiny', 'gpt_mini']
WAYS = {'threads': '', 'processes': 'mpi'}


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def train(model, program, way, nranks, nsteps):
    """The median of a run's steps, and what it took of processors, in seconds."""
    before = cpu_seconds()
    done = subprocess.run([common.WEFT, 'run', program, '--ranks', str(nranks), '--params', model.params, '--feed',
                           model.file('feed.npz'), '--fetch', model.loss, '--steps', str(nsteps), '--json'],
                          env=dict(os.environ, WEFT_LAUNCH=WAYS[way]), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().split('\n')[-1])
    report = json.loads(done.stderr[done.stderr.index('{'):])
    return report['steps']['median_seconds'], cpu_seconds() - before


def measure(model, args, folder):
    program = os.path.join(folder, f'{model.name}.pdmodel')
    common.weft('opt', '-q', model.file('serial.pdmodel'), '--passes', common.config('data_parallel.yaml'), '--set',
                f'data_parallel.ranks={args.ranks}', '-o', program)
    medians, cpu = {way: [] for way in WAYS}, {}
    for way in WAYS:
        start = train(model, program, way, args.ranks, 1)[1]
        cpu[way] = (train(model, program, way, args.ranks, args.steps)[1] - start) / (args.steps - 1)
    for _ in range(args.rounds):
        for way in WAYS:
            medians[way].append(train(model, program, way, args.ranks, args.steps)[0])
    best = {way: min(medians[way]) for way in WAYS}
    columns = []
    for seconds in (best, cpu):
        threads, processes = seconds['threads'], seconds['processes']
        columns.append(f'{1e3 * threads:10.3f} {1e3 * processes:10.3f} {processes / threads:6.2f}')
    print(f'{model.name:10} {"  ".join(columns)}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--steps', type=int, default=100)
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('models', nargs='*', default=MODELS)
    args = parser.parse_args()
    if not re.search('^MPI *yes', common.weft('info'), re.M):
        sys.exit('processes.py: weft info says no MPI')
    print(f'{common.machine()}; {args.ranks} ranks, ms a step: of the clock, of processors')
    print('model         threads  processes  ratio     threads  processes  ratio')
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            measure(steps.Model(name), args, folder)


if __name__ == '__main__':
    main()

"""Step times of data-parallel training on 2 ranks, gradient sync included, one thread a rank, alternately in one run.

usage: data_parallel.py [--rounds R] [--seconds S] [--steps K] [--ranks N] [MODEL...]
       default 5 rounds, 1 second, 2 ranks, mlp gpt_tiny gpt_mini
A turn has K steps at least (3): where a step is slow at first, a turn of so many seconds has few.

  weft           the serial program through configs/data_parallel.yaml; ranks are threads of one process
  weft-processes the same, a process a rank, under mpirun
  weft-shard     through configs/shard_updates.yaml: each rank updates its part of the parameters
  weft-processes-shard   both
  paddle-2.6.2   the same program, a process a rank, over Gloo
  ...-plain      after data_parallel alone: a reduce for each gradient, as Paddle's own partition has it
  torch-ddp      the same model in DistributedDataParallel, a process a rank, over Gloo
"""
import argparse
import os
import re
import shutil
import statistics
import sys

import client
import common
import steps

MODELS = ['mlp', 'gpt_tiny', 'gpt_mini']
PADDLE = 'paddle-2.6.2'


def written_by_weft(model, name, passes, nranks):
    out = os.path.join(common.RESULTS, f'{model.name}.{name}.pdmodel')
    common.weft('opt', model.file('serial.pdmodel'), '-o', out, '--passes', passes, '--set', f'data_parallel.ranks={nranks}')
    return out


def torch_team(model, nranks):
    endpoint = client.free_endpoint()
    workers = []
    for rank in range(nranks):
        spec = {'model': model.name, 'mode': 'eager', 'params': model.params, 'feed': model.file('feed.npz'), 'threads': 1,
                'rank': rank, 'world': nranks, 'endpoint': endpoint}
        workers.append(steps.worker(f'torch-ddp-rank{rank}', 'torch', 'torch_steps.py', spec, 1, None))
    return common.Team('torch-ddp', workers)


def weft_processes(name, program, model, nranks):
    env = dict(os.environ, WEFT_PLUGIN_PATH=common.RELEASE, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    argv = ['mpirun', '--oversubscribe', '--bind-to', 'none', '--mca', 'mpi_yield_when_idle', '1', '-n', str(nranks)]
    return common.Worker(name, [*argv, common.STEPS, program, model.params, model.file('feed.npz'), model.loss, '1',
                                            str(nranks)], env)


def start(model, nranks):
    os.makedirs(common.RESULTS, exist_ok=True)
    feed = model.file('feed.npz')
    program = written_by_weft(model, 'dp', common.config('data_parallel.yaml'), nranks)
    plain = written_by_weft(model, 'dp_plain', 'data_parallel', nranks)
    sharded = written_by_weft(model, 'dp_shard', common.config('shard_updates.yaml'), nranks)
    runners = [common.Worker(name, [common.STEPS, form, model.params, feed, model.loss, '1', str(nranks)])
               for name, form in (('weft', program), ('weft-shard', sharded))]
    if shutil.which('mpirun') and re.search('^MPI *yes', common.weft('info'), re.M):
        runners += [weft_processes('weft-processes', program, model, nranks), weft_processes('weft-processes-shard', sharded, model, nranks)]
    else:
        print('weft-processes: weft info says no MPI; left out', file=sys.stderr)
    spec = {'params': model.params, 'feed': feed, 'loss': model.loss}
    if common.python(PADDLE):
        runners.append(client.paddle_team(PADDLE, [program] * nranks, spec))
        runners.append(client.paddle_team(PADDLE, [plain] * nranks, spec, f'{PADDLE}-plain'))
    else:
        common.missing(PADDLE)
    if common.python('torch'):
        runners.append(torch_team(model, nranks))
    else:
        common.missing('torch')
    return runners


def measure(model, args):
    runners = start(model, args.ranks)
    everyone = list(runners)
    try:
        times, losses = common.alternate(runners, args.rounds, args.seconds, 0.1, args.steps)
    finally:
        for runner in everyone:
            runner.close()
    losses['recorded'] = model.info['losses_same_feed_10_steps']
    errors, wrong = common.agree(losses, 'recorded', steps.TOLERANCE)
    return {'model': model.name, 'threads': 1, 'ranks': args.ranks, 'machine': common.machine(), 'reference': 'recorded',
            'wrong': wrong, 'peers': {name: {'median_ms': 1e3 * statistics.median(t), 'min_ms': 1e3 * min(t),
                                             'steps': len(t), 'loss_error': errors[name]} for name, t in times.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=1)
    parser.add_argument('--steps', type=int, default=3)
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('models', nargs='*', default=MODELS)
    args = parser.parse_args()
    results = []
    for name in args.models:
        result = measure(steps.Model(name), args)
        print(f'\n{args.ranks} ranks:', end='')
        steps.show(result)
        results.append(result)
    common.save_results('data_parallel.json', results)
    return 1 if any(r['wrong'] for r in results) else 0


if __name__ == '__main__':
    sys.exit(main())

"""Step times of Weft and of other frameworks on the same models, alternately in one run.

usage: steps.py [--rounds R] [--seconds S] [--threads T[,T...]] [--only PEER[,PEER...]] [MODEL...]
default 5 rounds of 1 second, 1 and 2 threads, every peer that is set up, and every model of fixtures/peers

Weft and Paddle (both versions) run the same serialized program with the same feeds; torch (eager and compiled) and JAX run
the same model, with the same parameters, feeds and optimizer. Losses of the first 10 steps must agree. With 1 thread every
process is bound to one processor. A ratio is Weft's median over the smallest median of the others.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import common

MODELS = ['mlp', 'lenet', 'gpt_tiny', 'gpt_mini', 'resnet18']
TOLERANCE = 1e-3  # of the first loss, over 10 steps
RESNET_TOLERANCE = 5e-2  # batch norm over 4 images: rounding grows quickly


class Model:
    """A model of fixtures/peers. `initial(model)`: a file of parameters for one that records none."""

    def __init__(self, name, initial=None):
        self.name = name
        self.path = os.path.join(common.fixtures(), 'peers', name)
        self.info = json.load(open(self.file('case.json')))
        self.loss = self.info['loss']
        self.params = self.file('params.npz')
        self.recorded = os.path.exists(self.params)
        if not self.recorded:
            self.params = (initial or initial_values)(self)

    def file(self, name):
        return os.path.join(self.path, name)


def initial_values(model):
    """Parameters that Paddle initialised, kept with the results."""
    os.makedirs(common.RESULTS, exist_ok=True)
    out = os.path.join(common.RESULTS, f'{model.name}.params.npz')
    paddle = next((p for p in common.PADDLES if common.python(p)), None)
    if not os.path.exists(out):
        if not paddle:
            raise RuntimeError(f'{model.name} has no recorded parameters, and there is no Paddle to initialise them')
        subprocess.run([common.python(paddle), os.path.join(common.HERE, 'paddle_init.py'), model.file('startup.pdmodel'),
                        model.file('serial.pdmodel'), out], check=True, stderr=subprocess.DEVNULL)
    return out


def worker(name, peer, script, spec, threads, cpus):
    argv = [common.python(peer), os.path.join(common.HERE, script), json.dumps(spec)]
    return common.Worker(name, argv, common.environment(peer, threads), cpus)


def start(model, threads, only):
    cpus = {max(os.sched_getaffinity(0))} if threads == 1 else None
    feed = model.file('feed.npz')
    program = model.file('serial.pdmodel')
    runners = [common.Worker('weft', [common.STEPS, program, model.params, feed, model.loss, str(threads)], None, cpus)]
    torch_spec = {'model': model.name, 'params': model.params, 'feed': feed, 'threads': threads}
    candidates = [(p, p, 'paddle_steps.py', {'program': program, 'params': model.params, 'feed': feed, 'loss': model.loss})
                  for p in common.PADDLES]
    candidates += [(f'torch-{mode}', 'torch', 'torch_steps.py', dict(torch_spec, mode=mode))
                   for mode in ('eager', 'compile')]
    candidates += [('jax', 'jax', 'jax_steps.py', torch_spec)]
    for name, peer, script, spec in candidates:
        if only and name not in only:
            continue
        if common.python(peer):
            runners.append(worker(name, peer, script, spec, threads, cpus))
        else:
            common.missing(peer)
    return runners


def measure(model, threads, args):
    """A dictionary of results, None if nothing ran."""
    runners = start(model, threads, args.only)
    everyone = list(runners)
    try:
        times, losses = common.alternate(runners, args.rounds, args.seconds, 0.3 if threads > 1 else 0.05)
    finally:
        for runner in everyone:
            runner.close()
    if 'weft' not in times:
        return None
    if model.recorded:
        losses['recorded'] = model.info['losses_same_feed_10_steps']
    reference = 'recorded' if model.recorded else next((p for p in common.PADDLES if p in losses), 'weft')
    errors, wrong = common.agree(losses, reference, RESNET_TOLERANCE if model.name == 'resnet18' else TOLERANCE)
    return {'model': model.name, 'threads': threads, 'machine': common.machine(), 'reference': reference, 'wrong': wrong,
            'peers': {name: {'median_ms': 1e3 * statistics.median(t), 'min_ms': 1e3 * min(t), 'steps': len(t),
                             'loss_error': errors[name]} for name, t in times.items()}}


def show(result):
    peers = result['peers']
    others = {name: p for name, p in peers.items() if not name.startswith('weft')}
    best = min(others.values(), key=lambda p: p['median_ms'])['median_ms'] if others else None
    least = min(others.values(), key=lambda p: p['min_ms'])['min_ms'] if others else None
    print(f'\n{result["model"]}, {result["threads"]} thread{"s" if result["threads"] > 1 else ""} ({result["machine"]})')
    rows = [['', 'median ms', 'min ms', 'to best median', 'to best min', 'steps', 'loss error']]
    for name, p in peers.items():
        ratios = [f'{p["median_ms"] / best:.2f}', f'{p["min_ms"] / least:.2f}'] if others else ['-', '-']
        rows.append([name, f'{p["median_ms"]:.3f}', f'{p["min_ms"]:.3f}', *ratios, str(p['steps']),
                     f'{p["loss_error"]:.1e}'])
    common.print_table(rows)
    if result['wrong']:
        print(f'losses differ from {result["reference"]}: {", ".join(result["wrong"])}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=1)
    parser.add_argument('--threads', type=lambda t: [int(n) for n in t.split(',')], default=[1, 2])
    parser.add_argument('--only', type=lambda t: t.split(','), default=[])
    parser.add_argument('models', nargs='*', default=MODELS)
    args = parser.parse_args()
    results = []
    for name in args.models:
        model = Model(name)
        for threads in args.threads:
            result = measure(model, threads, args)
            if not result:
                return 1
            show(result)
            results.append(result)
    common.save_results('steps.json', results)
    return 1 if any(r['wrong'] for r in results) else 0


if __name__ == '__main__':
    sys.exit(main())

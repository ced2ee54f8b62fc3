"""What a profile costs: processor time of a program's steps with and without it, alternately.

usage: profile_cost.py [--rounds R] [--turns N] [--threads T] [MODEL...]     default 8 rounds of 6 turns, 1 thread

A round starts three processes anew, since where memory happens to lie alone moves a step by a percent. They take turns
of a tenth of a second: one with a profile, two without. In a turn, medians of steps are divided; what is told is the
median of these ratios over all turns and rounds. The same measure tells how far the two without a profile differ.
Processor time, so that other load of the machine counts little.
"""
import argparse
import os
import statistics
import sys

import common
import steps

MODELS = ['mlp', 'gpt_tiny', 'lenet', 'gpt_mini']
NAMES = ['plain', 'profile', 'again']
SECONDS = 0.1  # of a turn


def worker(model, threads, name):
    cpus = {max(os.sched_getaffinity(0))} if threads == 1 else None
    argv = [common.STEPS, model.file('serial.pdmodel'), model.params, model.file('feed.npz'), model.loss, str(threads), '1']
    return common.Worker(name, argv + ['profile'] * (name == 'profile'), None, cpus)


def run_round(model, args, names):
    """By turn: the median step of each name."""
    workers = [worker(model, args.threads, name) for name in names]
    turns = []
    try:
        count = max(4, round(SECONDS / statistics.median(workers[0].ask(5)['cpu'])))
        for _ in range(args.turns + 1):
            turns.append({w.name: statistics.median(w.ask(count)['cpu'][1:]) for w in workers})
    finally:
        for w in workers:
            w.close()
    return turns[1:]  # the first chooses kernels and warms up


def measure(model, args):
    turns, order = [], list(NAMES)
    for _ in range(args.rounds):
        turns += run_round(model, args, order)
        order = order[1:] + order[:1]
    return turns


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--rounds', type=int, default=8)
    parser.add_argument('--turns', type=int, default=6)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('models', nargs='*', default=MODELS)
    args = parser.parse_args()
    rows = [['', 'without, ms', 'with, ms', 'cost', 'two without differ']]
    for name in args.models:
        turns = measure(steps.Model(name), args)
        middle = {k: 1e3 * statistics.median(t[k] for t in turns) for k in NAMES}
        cost, noise = (100 * (statistics.median(t[k] / t['plain'] for t in turns) - 1) for k in ('profile', 'again'))
        rows.append([name, f'{middle["plain"]:.3f}', f'{middle["profile"]:.3f}', f'{cost:+.1f} %', f'{noise:+.1f} %'])
    print(f'{args.threads} thread{"s" if args.threads > 1 else ""} ({common.machine()})')
    common.print_table(rows)
    return 0


if __name__ == '__main__':
    sys.exit(main())

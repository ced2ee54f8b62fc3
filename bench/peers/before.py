"""Another build of Weft against this one, side by side: what a change costs or gains.

usage: before.py OLD_BUILD [--rounds R] [--turns N] [--only NAME[,NAME...]]     default 10 rounds of 3 turns

OLD_BUILD is the build/release of another checkout, made with `make lib cli benches`. Two kinds of rows: steps of each model
of fixtures/peers (processor time of a step on one thread), and what a benchmark prints in its last line (chain, scale,
scale --prove, plan, proof). In a turn, old, new and old again run one after another; a ratio divides what they took. A row
tells the median of new / old, and by the same measure how far the old build differs from itself. A round starts processes
anew, since where memory happens to lie alone moves a step by a percent.
"""
import argparse
import csv
import io
import os
import statistics
import subprocess
import sys

import common
import steps

ORDER = ['old', 'new', 'again']
SECONDS = 0.15  # of a model's turn
# Name, arguments, and the columns of the last line that are times.
COMMANDS = [
    ('chain', ['chain'], ['min_ns_per_op', 'median_ns_per_op']),
    ('scale', ['scale', '100000'], ['load_seconds', 'passes_seconds', 'save_seconds']),
    ('scale --prove', ['scale', '--prove', '100000'], ['passes_seconds']),
    ('plan', ['plan', '100000'], ['plan_seconds']),
    ('proof', ['proof', '100000'], ['seconds']),
]


def folder(builds, name):
    return builds['old' if name == 'again' else name]


def first_step(model, builds):
    """Parameters of a model that records none: what one step of the old build leaves of its startup program."""
    out = os.path.join(common.RESULTS, f'{model.name}.start.npz')
    argv = [os.path.join(builds['old'], 'weft'), 'run', model.file('serial.pdmodel'), '--startup', model.file('startup.pdmodel'),
            '--feed', model.file('feed.npz'), '--steps', '1', '--fetch', model.loss, '--save', out]
    subprocess.run(argv, check=True, capture_output=True)
    return out


def model_turns(model, builds, rounds, nturns):
    turns, order = [], list(ORDER)
    for _ in range(rounds):
        cpus = {max(os.sched_getaffinity(0))}
        workers = [common.Worker(f'before.{n}', [os.path.join(folder(builds, n), 'bench', 'steps'), model.file('serial.pdmodel'),
                                                 model.params, model.file('feed.npz'), model.loss, '1', '1'], None, cpus) for n in order]
        try:
            count = max(3, round(SECONDS / statistics.median(workers[0].ask(4)['cpu'])))
            for turn in range(nturns + 1):
                answers = {w.name.split('.')[1]: statistics.median(w.ask(count)['cpu'][1:]) for w in workers}
                turns += [answers] if turn else []  # the first chooses kernels and warms up
        finally:
            for w in workers:
                w.close()
        order = order[1:] + order[:1]
    return turns


def command_turns(argv, column, builds, count):
    turns, order = [], list(ORDER)
    for _ in range(count):
        answers = {}
        for name in order:
            argv_here = [os.path.join(folder(builds, name), 'bench', argv[0]), *argv[1:]]
            printed = subprocess.run(argv_here, check=True, capture_output=True, text=True).stdout
            answers[name] = list(csv.DictReader(io.StringIO(printed)))[-1]
        turns.append(answers)
        order = order[1:] + order[:1]
    return {c: [{n: float(t[n][c]) for n in ORDER} for t in turns] for c in column}


def row(name, turns, unit):
    new = statistics.median(t['new'] / t['old'] for t in turns)
    own = statistics.median(t['again'] / t['old'] for t in turns)
    return [name, f"{statistics.median(t['old'] for t in turns):.4g} {unit}", f"{statistics.median(t['new'] for t in turns):.4g} {unit}",
            f'{new:.3f}', f'{own:.3f}', str(len(turns))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('old_build')
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--only', default='')
    args = parser.parse_args()
    os.makedirs(common.RESULTS, exist_ok=True)
    builds = {'old': os.path.abspath(args.old_build), 'new': common.RELEASE}
    wanted = args.only.split(',') if args.only else None
    rows = [['', 'old', 'new', 'new / old', 'old / old', 'turns']]
    for name in steps.MODELS:
        if not wanted or name in wanted:
            turns = model_turns(steps.Model(name, lambda m: first_step(m, builds)), builds, args.rounds, args.turns)
            rows.append(row(f'step of {name}', [{n: 1e3 * s for n, s in t.items()} for t in turns], 'ms'))
    for name, argv, columns in COMMANDS:
        if not wanted or name in wanted:
            for column, turns in command_turns(argv, columns, builds, args.rounds).items():
                rows.append(row(f'{name} {column}', turns, ''))
    print(f'{common.machine()}: python3 bench/peers/before.py {" ".join(sys.argv[1:])}')
    common.print_table(rows)


if __name__ == '__main__':
    main()

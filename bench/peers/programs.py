"""Reading, rewriting and writing programs: Weft against Paddle 2.6.2, on the same synthetic training programs.

usage: programs.py [--sizes OPS,...] [--layers L,...]     default 10000,100000 and 100,400,1600

Sizes: seconds to parse and to serialize, of Weft (and its whole pass list), of Paddle's C++ classes alone, and of its Python
Program. Layers: the passes that optimize a program which is partitioned already, Weft's against the real one. Without
Paddle its recorded times stand in (12.8 s at 1,600 layers, on another machine).
"""
import argparse
import json
import os
import re
import subprocess
import sys

import common

PADDLE = 'paddle-2.6.2'
OPS_PER_LAYER = 8
RECORDED = {100: 0.29, 400: 1.15, 1600: 12.8}
SCALE = os.path.join(common.RELEASE, 'bench', 'scale')


def paddle(what, path):
    """None without Paddle."""
    if not common.python(PADDLE):
        return None
    done = subprocess.run([common.python(PADDLE), os.path.join(common.HERE, 'paddle_programs.py'), what, path],
                          capture_output=True, text=True, env=common.environment(PADDLE, 1))
    if done.returncode:
        print(f'{PADDLE}: {done.stderr.strip().splitlines()[-1]}', file=sys.stderr)
        return None
    return json.loads(done.stdout)


def synthetic(nops):
    path = os.path.join(common.RESULTS, f'synthetic{nops}.pdmodel')
    subprocess.run([SCALE, '--write', str(nops), path], check=True)
    return path


def ms(seconds):
    return f'{1e3 * seconds:.1f}'


def measure_size(nops):
    text = subprocess.run([SCALE, str(nops)], capture_output=True, text=True, check=True).stdout.splitlines()[1]
    ops, load, passes, save = (float(field) for field in text.split(','))
    own = {'ops': int(ops), 'load': load, 'passes': passes, 'save': save}
    return {'weft': own, 'paddle': paddle('forms', synthetic(nops))}


def measure_layers(nlayers):
    serial = synthetic(OPS_PER_LAYER * nlayers)
    plain = serial.replace('.pdmodel', '.plain.pdmodel')
    common.weft('opt', serial, '-o', plain, '--passes', 'data_parallel: {ranks: 2}')
    done = subprocess.run([common.WEFT, 'opt', plain, '-o', serial.replace('.pdmodel', '.out.pdmodel'), '--passes',
                           common.config('data_parallel_optimization.yaml')], capture_output=True, text=True, check=True)
    times = [float(t) for t in re.findall(r'^\w+ +([0-9.]+) ms', done.stderr, re.MULTILINE)]
    return {'weft': sum(times) / 1e3, 'paddle': paddle('pass', plain)}


def show_sizes(results):
    rows = [['ops, ms', 'parse', 'passes', 'serialize']]
    for nops, r in results.items():
        own, theirs = r['weft'], r['paddle']
        rows.append([f'{own["ops"]} weft', ms(own['load']), ms(own['passes']), ms(own['save'])])
        if theirs:
            rows.append([f'{theirs["ops"]} paddle, C++', ms(theirs['parse']), '-', ms(theirs['serialize'])])
            rows.append([f'{theirs["ops"]} paddle, Python', ms(theirs['python_parse']), '-', ms(theirs['python_serialize'])])
    common.print_table(rows)


def show_layers(results):
    rows = [['layers', 'weft ms', 'real pass ms', 'times faster', 'ops of the real pass']]
    for nlayers, r in results.items():
        live = r['paddle']
        theirs = live['seconds'] if live else RECORDED.get(nlayers)
        rows.append([str(nlayers), ms(r['weft']), ms(theirs) + ('' if live else ' (recorded)') if theirs else '-',
                     f'{theirs / max(r["weft"], 1e-4):.0f}' if theirs else '-',
                     f'{live["before"]} -> {live["after"]}' if live else '-'])
    common.print_table(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    numbers = lambda text: [int(n) for n in text.split(',')]  # noqa: E731
    parser.add_argument('--sizes', type=numbers, default=[10000, 100000])
    parser.add_argument('--layers', type=numbers, default=[100, 400, 1600])
    args = parser.parse_args()
    os.makedirs(common.RESULTS, exist_ok=True)
    if not common.python(PADDLE):
        common.missing(PADDLE)
    print(common.machine())
    sizes = {n: measure_size(n) for n in args.sizes}
    show_sizes(sizes)
    print()
    layers = {n: measure_layers(n) for n in args.layers}
    show_layers(layers)
    common.save_results('programs.json', {'machine': common.machine(), 'sizes': sizes, 'layers': layers})
    return 0


if __name__ == '__main__':
    sys.exit(main())

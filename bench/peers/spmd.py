"""From a serial GPT program and a few placements to a rank's program: Weft's spmd_expand against Paddle 2.6.2's own
completion and partition of the same program.

usage: spmd.py [--layers L,...] [--mesh DP,MP]     default 2,8,24 and 2,4

Paddle's time is that of completion (its planner), and of backward, partition, update and reshard for rank 0; Weft's that
of spmd_expand, which reads placements, completes and partitions. Both start from a program in memory. Beside other work
Paddle's is that of the processor; Weft's, of some milliseconds, is the least of many runs by the clock.
"""
import argparse
import json
import os
import re
import subprocess
import sys

import common

PADDLE = 'paddle-2.6.2'
RUNS = 15  # of Weft, each a process of its own


def paddle(folder, nlayers, mesh):
    done = subprocess.run([common.python(PADDLE), os.path.join(common.HERE, 'paddle_spmd.py'), folder, str(nlayers),
                           *map(str, mesh)], capture_output=True, text=True, env=common.environment(PADDLE, 1))
    if done.returncode:
        sys.exit(f'{PADDLE}: {done.stderr.strip().splitlines()[-1]}')
    return json.loads(done.stdout)


def weft(folder):
    """Milliseconds of the pass for one rank."""
    least, nops = float('inf'), 0
    for _ in range(RUNS):
        done = subprocess.run([common.WEFT, 'opt', '--no-prove', f'{folder}/serial.pdmodel', '--dist',
                               f'{folder}/annotate.json', '--passes', 'spmd_expand', '-o', folder + '/rank{rank}.pdmodel'],
                              capture_output=True, text=True, check=True)
        found = re.search(r'^spmd_expand +([0-9.]+) (m?s) +ops \d+ -> (\d+)', done.stdout + done.stderr, re.MULTILINE)
        least = min(least, float(found[1]) * (1 if found[2] == 'ms' else 1e3))
        nops = int(found[3])
    return {'ms': least, 'rank_ops': nops}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--layers', default='2,8,24')
    parser.add_argument('--mesh', default='2,4')
    given = parser.parse_args()
    if not common.python(PADDLE):
        sys.exit(common.missing(PADDLE))
    results, rows = {}, [['layers', 'ops', 'Paddle: complete, s', 'partition, s', 'Weft: both, ms', 'times']]
    for nlayers in map(int, given.layers.split(',')):
        folder = os.path.join(common.RESULTS, f'spmd{nlayers}')
        os.makedirs(folder, exist_ok=True)
        theirs = paddle(folder, nlayers, given.mesh.split(','))
        own = weft(folder)
        times = 1e3 * (theirs['completion'] + theirs['partition']) / own['ms']
        results[nlayers] = {'paddle': theirs, 'weft': own, 'times': times}
        rows.append([str(nlayers), str(theirs['ops']), f'{theirs["completion"]:.2f}', f'{theirs["partition"]:.2f}',
                     f'{own["ms"]:.1f}', f'{times:.0f}'])
    common.print_table(rows)
    common.save_results('spmd', results)


main()

"""What an executor adds to an op: a chain of tiny scale ops in Paddle (both versions) and in Weft, ns an op.

usage: chain.py [OPS]     default 2000
"""
import json
import os
import subprocess
import sys

import common

IN_PADDLE = '''
import json, os, sys, time
answers = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)
import numpy as np, paddle
nops = int(sys.argv[1])
paddle.enable_static()
x = paddle.static.data('x', [1], 'float32')
y = x
for _ in range(nops):
    y = paddle.scale(y, 1.0)
executor = paddle.static.Executor(paddle.CPUPlace())
feed = {'x': np.ones(1, 'float32')}
times = []
for step in range(60):
    start = time.perf_counter()
    executor.run(feed=feed, fetch_list=[y])
    times.append(time.perf_counter() - start)
times = sorted(times[10:])
answers.write(json.dumps({'min': times[0], 'median': times[len(times) // 2]}) + '\\n')
'''


def in_paddle(peer, nops):
    done = subprocess.run([common.python(peer), '-c', IN_PADDLE, str(nops)], capture_output=True, text=True,
                          env=common.environment(peer, 1), cwd=common.RESULTS)
    if done.returncode:
        raise RuntimeError(f'{peer}: {done.stderr.strip().splitlines()[-1]}')
    return json.loads(done.stdout)


def main():
    nops = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    os.makedirs(common.RESULTS, exist_ok=True)
    text = subprocess.run([os.path.join(common.RELEASE, 'bench', 'chain'), str(nops)], capture_output=True, text=True,
                          check=True).stdout.splitlines()
    own = dict(zip(text[0].split(','), text[1].split(',')))
    rows = [[f'{nops} scale ops, ns an op', 'min', 'median'], ['weft', own['min_ns_per_op'], own['median_ns_per_op']]]
    results = {'weft': own}
    for peer in common.PADDLES:
        if not common.python(peer):
            common.missing(peer)
            continue
        results[peer] = {}
        one, all_ops = in_paddle(peer, 1), in_paddle(peer, nops)
        for what in ('min', 'median'):
            results[peer][what] = 1e9 * (all_ops[what] - one[what]) / (nops - 1)
        rows.append([peer, f'{results[peer]["min"]:.0f}', f'{results[peer]["median"]:.0f}'])
    print(common.machine())
    common.print_table(rows)
    common.save_results('chain.json', results)
    return 0


if __name__ == '__main__':
    sys.exit(main())

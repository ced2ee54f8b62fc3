"""A pair on a link of 1 Gbit/s, simulated or measured: as it is, and as micro_pipeline_tp makes it.

usage: micro_link.py WEFT FOLDER hidden | guard COUNT [CLUSTER] | late LEAST | measured LAYERS LEAST | drawn COUNT [CLUSTER]
hidden: GPT-like products on 2, 4 and 8 ranks. The share of the communication that chunks hide, of what can be hidden: the
        smaller one of it and of (n - 1)/n of the computing. A layer's four pairs together must
        reach 95 %.
guard:  COUNT shapes, drawn; with the guard on none may take longer than as it is. CLUSTER: another one than that link.
late:   the same as hidden on thread ranks, whose products and messages sleep (--delay) as long as they take on that link, so that neither
        takes a processor. The layer must reach LEAST.
measured: the same as hidden, run on two hosts (MICRO_HERE starts a command on the first, MICRO_HOSTS and MICRO_AGENT are what weft run
        --launch is given): medians of alternating runs. LAYERS: how many of the sizes. Each layer must reach LEAST. hidden_at_best is
        what could be hidden if messages took of the processors what plain sockets take at that rate: products lose that time. Then what the
        model says, calibrated there, and what the guard decides.
drawn:  COUNT shapes with the guard on, run there, or on threads where there is no MICRO_HOSTS: none may take longer than as it is beyond
        noise."""
import json, os, random, re, statistics, subprocess, sys
import numpy as np

CROWDED = 77  # exit status: others have the processors
weft, folder, what = sys.argv[1:4]
cluster = f'{folder}/gigabit.yaml'
with open(cluster, 'w') as f:
    f.write('flops_per_second: 1.0e+11\nbytes_per_second: 2.0e+10\nlinks:\n- {bytes_per_second: 1.18e+8, seconds_per_message: 5.0e-5}\nseconds_per_op: 1.0e-6\n')


def graph(kind, n, rows, inner, columns):
    """Gather: `rows` of each rank times [inner, columns]. Scatter: all rows times it, `rows` of the sums for each rank."""
    ref = lambda x: {'ref': x}
    node = lambda name, target, args, shape: {'name': name, 'op': 'call', 'target': target, 'args': args, 'kwargs': {}, 'shape': shape, 'dtype': 'float32'}
    wait = '_c10d_functional.wait_tensor.default'
    if kind == 'gather':
        nodes = [node('g', '_c10d_functional.all_gather_into_tensor.default', [ref('x'), n, '0'], [n * rows, inner]), node('w', wait, [ref('g')], [n * rows, inner]),
                 node('y', 'aten.mm.default', [ref('w'), ref('b')], [n * rows, columns])]
    elif kind == 'scatter':
        nodes = [node('p', 'aten.mm.default', [ref('x'), ref('b')], [n * rows, columns]),
                 node('s', '_c10d_functional.reduce_scatter_tensor.default', [ref('p'), 'sum', n, '0'], [rows, columns]), node('y', wait, [ref('s')], [rows, columns])]
    if kind == 'product':
        nodes = [node('y', 'aten.mm.default', [ref('x'), ref('b')], [n * rows, columns])]
    elif kind == 'gathering':
        nodes = [node('g', '_c10d_functional.all_gather_into_tensor.default', [ref('x'), n, '0'], [n * rows, inner]), node('y', wait, [ref('g')], [n * rows, inner])]
    elif kind == 'scattering':
        nodes = [node('s', '_c10d_functional.reduce_scatter_tensor.default', [ref('x'), 'sum', n, '0'], [rows, inner]), node('y', wait, [ref('s')], [rows, inner])]
    given = [{'name': 'x', 'shape': [rows if kind in ('gather', 'gathering') else n * rows, inner], 'dtype': 'float32'}, {'name': 'b', 'shape': [inner, columns], 'dtype': 'float32'}]
    path = f'{folder}/{kind}.fx.json'
    json.dump({'schema': 'fx.json/1', 'name': 'pair', 'groups': {'0': {'size': n, 'ranks': list(range(n))}}, 'inputs': given, 'constants': [], 'nodes': nodes,
               'outputs': [ref('y')], 'world_size': n}, open(path, 'w'))
    return path


def call(*args, head=()):
    done = subprocess.run([*head, weft, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{args[0]}: {done.stderr[-300:]}')
    return done.stderr


def step(programs, n):
    call('simulate', *programs, '--ranks', str(n), '--cluster', cluster, f'--json={folder}/step.json')
    found = json.load(open(f'{folder}/step.json'))
    return found['steps']['median_seconds'], found['rank_times'][0]


def rewrite(path, words, options):
    """What the pass says of it."""
    return call('opt', path, words, '--no-prove', '--passes', f'micro_pipeline_tp: {{cluster: {cluster}{options}}}', '-o', f'{folder}/rank{{rank}}.yaml')


def predicted(path):
    """Seconds as it is and in chunks, and what the guard makes of it."""
    chunks, whole = map(float, re.search(r'([\d.]+) us for ([\d.]+) us', rewrite(path, '-v', ', guard: off')).groups())
    return 1e-6 * whole, 1e-6 * chunks, 'taken' if 'predicted gain' in rewrite(path, '-v', '') else 'left'


def cut(path, n, options):
    rewrite(path, '-q', options)
    return [f'{folder}/rank{r}.yaml' for r in range(n)]


def hidden():
    """Shares of pairs are printed; that of a layer's four together counts. Sums of chunks are priced, those of a reduce-scatter are not."""
    bad = 0
    print('pair,ranks,rows,inner,columns,communication_ms,computing_ms,as_it_is_ms,in_chunks_ms,hidden_share,decision')
    for n in 2, 4, 8:
        for h, tokens in (768, 2048), (1024, 4096), (2048, 4096):
            saved = most = 0
            for kind, inner, columns in ('gather', h, 3 * h // n), ('scatter', h // n, h), ('gather', h, 4 * h // n), ('scatter', 4 * h // n, h):
                path = graph(kind, n, tokens // n, inner, columns)
                before, times = step([path], n)
                after, _ = step(cut(path, n, ', guard: off'), n)
                here = min(times['collective_seconds'], (n - 1) / n * times['compute_seconds'])
                saved, most = saved + before - after, most + here
                print(f"{kind},{n},{tokens // n},{inner},{columns},{1e3 * times['collective_seconds']:.2f},{1e3 * times['compute_seconds']:.2f},"
                      f'{1e3 * before:.2f},{1e3 * after:.2f},{(before - after) / here:.3f},{predicted(path)[2]}')
            print(f'layer,{n},{tokens // n},{h},,,,,,{saved / most:.3f}')
            bad += saved < 0.95 * most
    sys.exit(bad > 0)


def guard(count):
    draw, bad, taken = random.Random(7), 0, 0
    for i in range(count):
        n, kind = draw.choice((2, 3, 4)), draw.choice(('gather', 'scatter'))
        shape = [draw.choice((1, 3, 16, 64, 250, 512)), draw.choice((8, 64, 384, 1024)), draw.choice((8, 96, 512, 2048))]
        path = graph(kind, n, *shape)
        before, _ = step([path], n)
        after, _ = step(cut(path, n, ''), n)
        taken += 'p_send' in open(f'{folder}/rank0.yaml').read()
        if after > before * 1.0001:
            bad += 1
            print(f'{kind} {n} {shape}: {1e3 * before:.3f} ms as it is, {1e3 * after:.3f} ms')
    print(f'{count} shapes, {taken} in chunks, {bad} slower')
    sys.exit(bad > 0 or taken == count)


def run_late(programs, n, seconds):
    """Seconds of a step on thread ranks, in which each op begins as late as `seconds` of its type says: it sleeps."""
    ops = [open(p).read().split('  ops:\n')[1].splitlines() for p in programs]
    delays = [f'{i}:{1e3 * seconds[w]:.3f}:{r}' for r in range(n) for i, op in enumerate(ops[r % len(ops)]) for w in seconds if op.startswith(f'  - {{{w}:')]
    call('run', *programs, '--ranks', str(n), '--threads', '1', '--feed', f'{folder}/feed.{{rank}}.npz', '--steps', '5', f'--json={folder}/run.json',
         *[word for d in delays for word in ('--delay', d)])
    return json.load(open(f'{folder}/run.json'))['steps']['median_seconds']


def late_pairs(h, tokens, n):
    """A layer's pairs as small programs: what to print, as it is and in chunks, how long its ops sleep there, and what can be hidden."""
    rate, link, rows = 1e11, 1.18e8, tokens // n
    for kind, inner, columns in ('gather', h, 3 * h // n), ('scatter', h // n, h), ('gather', h, 4 * h // n), ('scatter', 4 * h // n, h):
        product, message = 2 * tokens * inner * columns / rate, 4 * rows * (inner if kind == 'gather' else columns) / link
        yield (f'{kind},{n},{rows},{inner},{columns},{1e3 * (n - 1) * message:.2f},{1e3 * product:.2f}', kind,
               {'all_gather': (n - 1) * message, 'reduce_scatter': (n - 1) * message, 'matmul_v2': product}, {'p_send': message, 'matmul_v2': product / n},
               min((n - 1) * message, (n - 1) / n * product))


def late(least, rounds=10):
    """Small products and messages that last as long as those of a GPT-like layer, and take no processor for it. Of up to `rounds` runs each
    pair's shortest count: a sleep ends late where others use the processors, never early. Where they do so all the time nothing is said."""
    n, h, tokens = 2, 1024, 2048
    pairs = list(late_pairs(h, tokens, n))
    times = [(1e9, 1e9)] * len(pairs)
    for _ in range(rounds):
        for i, (_, kind, whole, parts, _) in enumerate(pairs):
            feed([8 if kind == 'gather' else 8 * n, 16], [16, 16], n)
            call('opt', graph(kind, n, 8, 16, 16), '-o', f'{folder}/plain.yaml')
            here = run_late([f'{folder}/plain.yaml'], n, whole), run_late(cut(graph(kind, n, 8, 16, 16), n, ', guard: off'), n, parts)
            times[i] = tuple(map(min, times[i], here))
        share = sum(before - after for before, after in times) / sum(most for *_, most in pairs)
        if share >= least:
            break
    print('pair,ranks,rows,inner,columns,communication_ms,computing_ms,as_it_is_ms,in_chunks_ms,hidden_share')
    for (words, _, _, _, most), (before, after) in zip(pairs, times):
        print(f'{words},{1e3 * before:.2f},{1e3 * after:.2f},{(before - after) / most:.3f}')
    print(f'layer,{n},{tokens // n},{h},,,,,,{share:.3f}')
    crowded = os.getloadavg()[0] > 2 * os.cpu_count()
    sys.exit(0 if share >= least else CROWDED if crowded else 1)


def launched(*args):
    """On two hosts, or on threads where none are given."""
    hosts = os.environ.get('MICRO_HOSTS')
    there = ['--launch', '--hosts', hosts, '--launch-agent', os.environ['MICRO_AGENT']] if hosts else []
    call(*args, '--ranks', '2', *there, head=os.environ['MICRO_HERE'].split() if hosts else ())


def run(programs, steps):
    """Seconds of a step."""
    launched('run', *programs, '--feed', f'{folder}/feed.{{rank}}.npz', '--steps', str(steps), f'--json={folder}/run.json')
    return json.load(open(f'{folder}/run.json'))['steps']['median_seconds']


def feed(x, b, n=2):
    rng = np.random.default_rng(0)
    for r in range(n):
        np.savez(f'{folder}/feed.{r}.npz', x=rng.standard_normal(x, dtype=np.float32), b=rng.standard_normal(b, dtype=np.float32))


def alternating(lists, steps, rounds):
    """Of each list of programs the median of its runs, which alternate."""
    times = [[] for _ in lists]
    for k in range(rounds):
        for i, programs in enumerate(lists):
            times[i].append(run(programs, steps))
    return [statistics.median(t) for t in times]


def plain_share():
    """Of a core of each host, while plain sockets fill the link both ways."""
    here, there = [h.split(':')[0] for h in os.environ['MICRO_HOSTS'].split(',')]
    traffic = f'{sys.executable} {os.path.abspath("bench/plain_traffic.py")} 3 29512'
    ends = [subprocess.Popen([os.environ['MICRO_AGENT'], host, line], stdout=subprocess.PIPE, text=True) for host, line in ((here, traffic), (there, f'{traffic} {here}'))]
    return statistics.mean(float(end.communicate(timeout=60)[0]) for end in ends)


def measure(kind, n, rows, inner, columns, rounds=5, steps=20):
    """Seconds as it is, in chunks, of the collective alone and of the product alone; and what was predicted."""
    feed([rows if kind == 'gather' else n * rows, inner], [inner, columns])
    plain = [graph(kind, n, rows, inner, columns)]
    words = predicted(plain[0])
    before, after = alternating([plain, cut(plain[0], n, ', guard: off')], steps, rounds)
    feed([n * rows, inner], [inner, columns])
    computing = run([graph('product', n, rows, inner, columns)], steps)
    alone = ('gathering', [rows, inner], inner) if kind == 'gather' else ('scattering', [n * rows, columns], columns)
    feed(alone[1], [alone[2], 1])
    return before, after, run([graph(alone[0], n, rows, alone[2], 1)], steps), computing, words


def measured(layers, least):
    bad, n, share = 0, 2, plain_share()
    print(f'plain sockets take {share:.3f} of a core of each host')
    calibrate(n)
    print('pair,rows,inner,columns,communication_ms,computing_ms,as_it_is_ms,in_chunks_ms,hidden_share,hidden_at_best,predicted_as_it_is_ms,predicted_in_chunks_ms,decision')
    for h, tokens in ((768, 2048), (1024, 4096), (2048, 4096))[:layers]:
        saved = most = best = 0
        for kind, inner, columns in ('gather', h, 3 * h // n), ('scatter', h // n, h), ('gather', h, 4 * h // n), ('scatter', 4 * h // n, h):
            before, after, communication, computing, (whole, chunks, decision) = measure(kind, n, tokens // n, inner, columns)
            here, at_best = [min(part * communication, (n - 1) / n * computing) for part in (1, 1 - share)]
            saved, most, best = saved + before - after, most + here, best + at_best
            print(f'{kind},{tokens // n},{inner},{columns},{1e3 * communication:.2f},{1e3 * computing:.2f},{1e3 * before:.2f},{1e3 * after:.2f},'
                  f'{(before - after) / here:.3f},{at_best / here:.3f},{1e3 * whole:.2f},{1e3 * chunks:.2f},{decision}', flush=True)
        print(f'layer,{tokens // n},{h},,,,,,{saved / most:.3f},{best / most:.3f}', flush=True)
        bad += saved < least * most
    sys.exit(bad > 0)


def calibrate(n):
    """The guard goes by what weft calibrate measures here, and what small chunks take more than a small pair: threads that wake up."""
    launched('calibrate', graph('product', n, 512, 768, 1024), '--most-bytes', str(4 << 20), '-o', cluster)
    feed([1, 16], [16, 16])
    small = [graph('gather', n, 1, 16, 16)]
    before, after = alternating([small, cut(small[0], n, ', guard: off')], 100, 3)
    found = re.sub('seconds_per_op: .*', f'seconds_per_op: {max(after - before, 1e-6):.2e}', open(cluster).read())
    with open(cluster, 'w') as f:
        f.write(found)
    print(found, flush=True)


def drawn(count):
    draw, bad, taken, n = random.Random(11), 0, 0, 2
    if len(sys.argv) < 6:
        calibrate(n)
    for _ in range(count):
        kind, shape = draw.choice(('gather', 'scatter')), [draw.choice((1, 16, 64, 250, 512)), draw.choice((64, 384, 1024)), draw.choice((96, 512, 2048))]
        plain = graph(kind, n, *shape)
        programs = cut(plain, n, '')
        if 'p_send' not in open(programs[0]).read():
            continue
        taken += 1
        feed([shape[0] if kind == 'gather' else n * shape[0], shape[1]], shape[1:])
        before, after = alternating([[plain], programs], 20, 5)
        print(f'{kind},{shape},{1e3 * before:.3f} ms as it is,{1e3 * after:.3f} ms in chunks', flush=True)
        bad += after > 1.03 * before
    print(f'{count} shapes, {taken} in chunks, {bad} slower')
    sys.exit(bad > 0)


if len(sys.argv) > 5 and what in ('guard', 'drawn'):
    cluster = sys.argv[5]
if what == 'hidden':
    hidden()
elif what == 'measured':
    measured(int(sys.argv[4]), float(sys.argv[5]))
elif what == 'late':
    late(float(sys.argv[4]))
else:
    {'guard': guard, 'drawn': drawn}[what](int(sys.argv[4]))

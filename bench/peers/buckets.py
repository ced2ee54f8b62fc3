"""Which gradients are reduced together: Weft's best buckets beside PyTorch's pass, fixed sizes and none, by one evaluator.

usage: buckets.py [--models A,B] [--networks A,B] [--limit SECONDS] [--out FILE.json]

Run by a python3 that has torch 2.15 (bench/peers/setup); without torch its column is left out. Each model is the backward pass of its
matrix products (convolutions as such), a gradient for each parameter; a network is a start-up time and bytes a second. One compute queue,
one queue of collectives; a collective takes ALPHA + bytes / B; a step ends when both are empty. PyTorch's pass is
schedule_overlap_bucketing with the same costs, no limit of memory and overlap_scheduling_autofix_cycles (without which it refuses); a pass
that takes longer than --limit is stopped. bench/buckets (BENCH, default build/release/bench) finds Weft's buckets. Fails where these are
worse than the best of 1, 5, 25, 50 and 100 MB.
"""
import argparse
import csv
import json
import logging
import os
import signal
import subprocess
import sys
import time

FLOPS, BYTES = 300e12, 2e12
NETWORKS = {'20 us, 100 GB/s': (20e-6, 100e9), '60 us, 40 GB/s': (60e-6, 40e9), '200 us, 100 GB/s': (200e-6, 100e9), '60 us, 200 GB/s': (60e-6, 200e9)}
SIZES = [1, 5, 25, 50, 100]


class Product:
    """A layer's backward: the gradient of a weight [out, in] over `rows`, vectors of `extra` elements each, the gradient of its input."""

    def __init__(self, rows, out, inner, extra=()):
        self.rows, self.out, self.inner, self.extra = rows, out, inner, list(extra)


def study(layers=12, h=1024, rows=2048):
    shapes = [(h, 4 * h), (4 * h, h), (h, h), (h, h), (h, h), (h, h)]
    return [Product(rows, o, i, [o]) for _ in range(layers) for o, i in shapes]


def transformer(layers, h, rows, vocabulary, positions):
    block = [(h, 4 * h, [h]), (4 * h, h, [4 * h, h, h]), (h, h, [h]), (3 * h, h, [3 * h, h, h])]
    body = [Product(rows, o, i, e) for _ in range(layers) for o, i, e in block]
    return [Product(0, h, 1, [h])] + body + [Product(0, positions, h), Product(rows, vocabulary, h)]


def resnet50(batch=64):
    sizes, inner, made = [(64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)], 64, [Product(batch * 112 * 112, 64, 3 * 49, [64, 64])]
    for width, count, side in sizes:
        for i in range(count):
            rows = batch * side * side
            made += [Product(rows, width, inner, [width] * 2), Product(rows, width, 9 * width, [width] * 2), Product(rows, 4 * width, width, [4 * width] * 2)]
            if i == 0:
                made.append(Product(rows, 4 * width, inner, [4 * width] * 2))
            inner = 4 * width
    return [Product(batch, 1000, 2048, [1000])] + made[::-1]


def mixture(layers=12, h=1024, rows=2048, experts=8):
    made = []
    for _ in range(layers):
        for _ in range(experts):
            made += [Product(rows // experts, h, 4 * h, [h]), Product(rows // experts, 4 * h, h, [4 * h])]
        made += [Product(rows, experts, h), Product(rows, h, h, [h]), Product(rows, 3 * h, h, [3 * h, h, h])]
    return made


MODELS = {'study': study, 'gpt_124m': lambda: transformer(12, 768, 8192, 50257, 1024), 'resnet50': resnet50,
          'bert_large': lambda: transformer(24, 1024, 4096, 30522, 512), 'moe': mixture}


def gradients(model):
    """(seconds at which it is ready, bytes) of each, and the seconds of compute."""
    now, found = 0.0, []
    for p in model:
        now += 2.0 * p.rows * p.out * p.inner / FLOPS
        for n in p.extra:
            now += p.rows * p.out * 4 / BYTES
            found.append((now, 4 * n))
        found.append((now, 4 * p.out * p.inner))
        now += 2.0 * p.rows * p.out * p.inner / FLOPS
    return found, now


def end_of(found, compute, buckets, cost):
    """When a step ends; buckets: how many gradients are in each."""
    end, at = 0.0, 0
    for count in buckets:
        ready, nbytes = found[at + count - 1][0], sum(b for _, b in found[at:at + count])
        end, at = max(end, ready) + cost(nbytes), at + count
    return max(end, compute)


def fixed(found, limit, first=None):
    buckets, count, nbytes, most = [], 0, 0, first or limit
    for _, b in found:
        count, nbytes = count + 1, nbytes + b
        if nbytes >= most:
            buckets.append(count)
            count, nbytes, most = 0, 0, limit
    return buckets + ([count] if count else [])


def best(found, compute, alpha, rate):
    text = f'{alpha!r} {rate!r} {compute!r}\n' + ''.join(f'{r!r} {b}\n' for r, b in found)
    bench = os.path.join(os.environ.get('BENCH', 'build/release/bench'), 'buckets')
    out = subprocess.run([bench], input=text, check=True, capture_output=True, text=True).stdout
    row = next(csv.DictReader(out.splitlines()))
    return [int(n) for n in row['sizes'].split(';')], float(row['milliseconds']), 1e-9 * int(row['bound_ns'])


class TooLong(Exception):
    pass


def stop(*_):
    raise TooLong


class Torch:
    """PyTorch's pass over the same backward pass."""

    def __init__(self):
        import torch
        import torch._inductor.config
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore
        logging.disable(logging.WARNING)
        dist.init_process_group('fake', rank=0, world_size=8, store=FakeStore())
        torch._inductor.config.aten_distributed_optimizations.overlap_scheduling_autofix_cycles = True
        self.torch, self.group, self.version = torch, dist.distributed_c10d._get_default_group().group_name, torch.__version__

    def trace(self, model):
        torch, group = self.torch, self.group
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx
        reduce, wait = torch.ops._c10d_functional.all_reduce, torch.ops._c10d_functional.wait_tensor

        def backward(d, *weights):
            outs = []
            for p, w in zip(model, weights):
                if not p.rows:  # a gradient that costs nothing: a table, a norm
                    for n in p.extra + [p.out * p.inner]:
                        outs.append(wait(reduce(d[:1, :1].expand(1, n).contiguous(), 'sum', group)))
                    continue
                if tuple(d.shape) != (p.rows, p.out):
                    d = d[:1, :1].expand(p.rows, p.out)
                g = torch.mm(d.t(), torch.zeros(p.rows, p.inner))
                for n in p.extra:
                    s = d.sum(0)
                    outs.append(wait(reduce(s if n == p.out else s[:1].expand(n).contiguous(), 'sum', group)))
                outs.append(wait(reduce(g, 'sum', group)))
                d = torch.mm(d, w)
            return tuple(outs)

        with FakeTensorMode():
            return make_fx(backward)(torch.ones(model[0].rows or 1, model[0].out), *[torch.ones(p.out, p.inner) for p in model])

    def run(self, model, cost, limit):
        """(end of the step, number of collectives, seconds of the pass); None: it took too long."""
        from torch._inductor.fx_passes.overlap_scheduling import schedule_overlap_bucketing
        graph = self.trace(model)

        def is_reduce(n):
            return n.op == 'call_function' and 'all_reduce' in str(n.target)

        def nbytes(n):
            v = n.args[0].meta['val']
            return v.numel() * v.element_size()

        def seconds(n):
            if n.op != 'call_function':
                return 0.0
            if '.mm' in str(n.target):
                a, b = n.args[0].meta['val'], n.args[1].meta['val']
                return 2.0 * a.shape[0] * a.shape[1] * b.shape[1] / FLOPS
            if 'sum' in str(n.target):
                return n.args[0].meta['val'].numel() * 4 / BYTES
            return 0.0

        def estimate(n, override=None):
            if is_reduce(n):
                return 1e3 * cost(nbytes(n) if override is None else override)
            return 1e3 * seconds(n) or None

        start = time.time()
        signal.signal(signal.SIGALRM, stop)
        signal.alarm(limit)
        try:
            out = schedule_overlap_bucketing(graph, collective_bucketing=True, custom_runtime_estimation=estimate, insert_overlap_deps=False,
                                             max_memory_increase_gb=1000, max_memory_increase_ratio=10, bucket_only_internode_comms=False)
        except TooLong:
            return None
        finally:
            signal.alarm(0)
        took, clock, queue, ends, count = time.time() - start, 0.0, 0.0, {}, 0
        for n in (out or graph).graph.nodes:
            if is_reduce(n):
                queue = max(clock, queue) + cost(nbytes(n))
                ends[n], count = queue, count + 1
            elif n.op == 'call_function' and 'wait_tensor' in str(n.target):
                clock = max(clock, ends[n.args[0]])
            else:
                clock += seconds(n)
        return max(clock, queue), count, took


def measure(name, network, torch, limit):
    model, (alpha, rate) = MODELS[name](), NETWORKS[network]
    found, compute = gradients(model)

    def cost(nbytes):
        return alpha + nbytes / rate

    buckets, ms, bound = best(found, compute, alpha, rate)
    exposed = {mb: 1e3 * (end_of(found, compute, fixed(found, mb << 20), cost) - compute) for mb in SIZES}
    row = {'model': name, 'network': network, 'gradients': len(found), 'compute_ms': 1e3 * compute,
           'weft_ms': 1e3 * (end_of(found, compute, buckets, cost) - compute), 'weft_buckets': len(buckets), 'weft_pass_ms': ms,
           'bound_ms': 1e3 * (bound - compute), 'fixed_ms': exposed,
           'ddp_ms': 1e3 * (end_of(found, compute, fixed(found, 25 << 20, 1 << 20), cost) - compute),
           'each_ms': 1e3 * (end_of(found, compute, [1] * len(found), cost) - compute)}
    if torch:
        try:
            answer = torch.run(model, cost, limit)
            row['torch'] = {'ms': 1e3 * (answer[0] - compute), 'buckets': answer[1], 'seconds': answer[2]} if answer else f'> {limit} s'
        except Exception as e:  # what the pass refuses is a result, too
            row['torch'] = f'failed: {str(e)[:60]}'
    return row


def show(row):
    t = row.get('torch', '')
    theirs = f"{t['ms']:.2f} | {t['buckets']} | {t['seconds']:.1f} s" if isinstance(t, dict) else f'{t} | | '
    least = min(row['fixed_ms'], key=row['fixed_ms'].get)
    return (f"| {row['model']} ({row['gradients']}) | {row['network']} | **{row['weft_ms']:.2f}** ({row['weft_buckets']}) | {row['bound_ms']:.2f} | "
            f"{row['fixed_ms'][least]:.2f} ({least} MB) | {row['ddp_ms']:.2f} | {row['each_ms']:.2f} | {theirs} | {row['weft_pass_ms']:.2f} ms |")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--models', default=','.join(MODELS))
    parser.add_argument('--networks', default='', help='by number from 0, apart by commas')
    parser.add_argument('--limit', type=int, default=600)
    parser.add_argument('--out')
    args = parser.parse_args()
    try:
        torch = Torch()
    except ImportError:
        torch = None
        print('buckets: there is no torch here: its column is left out', file=sys.stderr)
    networks = [list(NETWORKS)[int(i)] for i in args.networks.split(',')] if args.networks else list(NETWORKS)
    print(f'exposed ms{f", torch {torch.version}" if torch else ""}; load {os.getloadavg()[0]:.1f}\n')
    print('| model (gradients) | network | Weft (buckets) | bound | best fixed size | 25 MB, first 1 MB | one each | PyTorch | its collectives | its time | Weft\'s time |')
    print('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |')
    rows, worse = [], 0
    for name in args.models.split(','):
        for network in networks:
            rows.append(measure(name, network, torch, args.limit))
            print(show(rows[-1]), flush=True)
            worse += rows[-1]['weft_ms'] > min(rows[-1]['fixed_ms'].values()) + 1e-5
    if args.out:
        json.dump(rows, open(args.out, 'w'), indent=1)
    if worse:
        sys.exit(f'buckets: {worse} of {len(rows)} are worse than the best fixed size')


main()

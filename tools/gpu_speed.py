#!/usr/bin/env python3
"""gpu_speed.py WEFT: steps of drawn networks on device cuda, beside torch, a line each.

A network is a stack of blocks, each two linear layers with gelu by tanh between and a residual; the loss is the mean of
squares, the optimizer sgd. Both sides compute fp32 without TF32, or bf16, from the same numbers, and wait for the end
of each step; the median counts. torch runs eagerly, compiled, and as a CUDA graph. Without torch its lines say so.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

# name, layers, rows of a batch, width, type
NETWORKS = [('small', 4, 64, 256, 'float32'), ('middle', 6, 1024, 768, 'float32'), ('middle', 6, 1024, 768, 'bfloat16'),
            ('large', 4, 8192, 2048, 'float32'), ('large', 4, 8192, 2048, 'bfloat16')]
RATE = 1e-3


class Program:
    """A training program as text."""

    def __init__(self, dtype):
        self.dtype, self.vars, self.ops, self.backward = dtype, [], [], []

    def var(self, name, *dims, param=False):
        kind = 'persistable: true, parameter: true' if param else 'persistable: false'
        shape = ', '.join(map(str, dims))
        self.vars.append(f'    {name}: {{{self.dtype}: [{shape}], {kind}, stop_gradient: false}}')
        return name

    def op(self, to, kind, ins, outs, role, **attrs):
        side = [', '.join(f'"{slot}": [{name}]' for slot, name in pairs.items()) for pairs in (ins, outs)]
        text = ''.join(f', {k}: {str(v).lower() if isinstance(v, bool) else v}' for k, v in attrs.items())
        to.append(f'  - {{{kind}: {{{side[0]}}}, out: {{{side[1]}}}, attrs: {{.role: {role}{text}}}}}')

    def forward(self, kind, ins, outs, **attrs):
        self.op(self.ops, kind, ins, outs, 'forward', **attrs)

    def grad(self, kind, ins, outs, **attrs):
        """Gradients come in the opposite order."""
        lines = []
        self.op(lines, kind + '_grad', ins, outs, 'backward', **attrs)
        self.backward.append(lines[0])

    def text(self, updates):
        head = 'weft: 1\nversion: 2006002\nblocks:\n- idx: 0\n  parent: -1\n  vars:\n'
        return head + '\n'.join(self.vars) + '\n  ops:\n' + '\n'.join(self.ops + self.backward[::-1] + updates) + '\n'


def linear(p, x, w, b, dims, out):
    rows, columns = dims
    product, added = p.var(out + '_p', rows, columns), p.var(out, rows, columns)
    for name in (product, added):
        p.var(name + '@GRAD', rows, columns)
    p.forward('matmul_v2', {'X': x, 'Y': w}, {'Out': product}, trans_x=False, trans_y=False)
    p.grad('matmul_v2', {'Out@GRAD': product + '@GRAD', 'X': x, 'Y': w}, {**({} if x == 'x' else {'X@GRAD': x + '@GRAD'}), 'Y@GRAD': w + '@GRAD'},
           trans_x=False, trans_y=False)
    p.forward('elementwise_add', {'X': product, 'Y': b}, {'Out': added}, axis=-1)
    p.grad('elementwise_add', {'Out@GRAD': added + '@GRAD', 'X': product, 'Y': b},
           {'X@GRAD': product + '@GRAD', 'Y@GRAD': b + '@GRAD'}, axis=-1)
    return added


def build(layers, rows, width, dtype):
    p, params = Program(dtype), []

    def param(name, *dims):
        params.append((p.var(name, *dims, param=True), dims))
        p.var(name + '@GRAD', *dims)
        return name

    x = p.var('x', rows, width)
    for i in range(layers):
        h = linear(p, x, param(f'w{i}a', width, 4 * width), param(f'b{i}a', 4 * width), (rows, 4 * width), f'h{i}')
        g = p.var(f'g{i}', rows, 4 * width)
        p.var(g + '@GRAD', rows, 4 * width)
        p.forward('gelu', {'X': h}, {'Out': g}, approximate=True)
        p.grad('gelu', {'X': h, 'Out@GRAD': g + '@GRAD'}, {'X@GRAD': h + '@GRAD'}, approximate=True)
        x = linear(p, g, param(f'w{i}b', 4 * width, width), param(f'b{i}b', width), (rows, width), f'y{i}')
    square, loss = p.var('square', rows, width), p.var('loss')
    p.var('square@GRAD', rows, width), p.var('loss@GRAD')
    p.forward('square', {'X': x}, {'Out': square})
    p.grad('square', {'X': x, 'Out@GRAD': 'square@GRAD'}, {'X@GRAD': x + '@GRAD'})
    p.op(p.ops, 'mean', {'X': square}, {'Out': loss}, 'loss')
    p.grad('mean', {'X': square, 'Out@GRAD': 'loss@GRAD'}, {'X@GRAD': 'square@GRAD'})
    p.op(p.ops, 'fill_any_like', {'X': loss}, {'Out': 'loss@GRAD'}, 'loss_backward', value='1.0', dtype=-1)
    p.vars.append('    rate: {float32: [1], persistable: true, stop_gradient: true}')
    updates = []
    for name, _ in params:
        p.op(updates, 'sgd', {'Grad': name + '@GRAD', 'LearningRate': 'rate', 'Param': name}, {'ParamOut': name},
             'optimize', multi_precision=False)
    return p.text(updates), params


def draw(params, rows, width):
    rng = np.random.default_rng(1)
    values = {name: (rng.standard_normal(dims) * 0.02).astype(np.float32) for name, dims in params}
    return values, rng.standard_normal((rows, width)).astype(np.float32)


def stored(array, dtype):
    """bf16 is written as its bits."""
    if dtype == 'float32':
        return array
    bits = array.view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def time_weft(weft, folder, network, options, nsteps):
    _, layers, rows, width, dtype = network
    text, params = build(layers, rows, width, dtype)
    values, x = draw(params, rows, width)
    paths = [os.path.join(folder, f) for f in ('net.yaml', 'params.npz', 'feeds.npz', 'report.json')]
    with open(paths[0], 'w', encoding='utf-8') as f:
        f.write(text)
    np.savez(paths[1], rate=np.array([RATE], np.float32), **{k: stored(v, dtype) for k, v in values.items()})
    np.savez(paths[2], x=stored(x, dtype))
    done = subprocess.run([weft, 'run', paths[0], '--params', paths[1], '--feed', paths[2], '--steps', str(nsteps),
                           '--fetch', 'loss', '--watchdog', '60:200', f'--json={paths[3]}', *options],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f'exit {done.returncode}')
    losses = [float(line.split(',')[3]) for line in done.stdout.splitlines()[1:]]
    with open(paths[3], encoding='utf-8') as f:
        return json.load(f)['steps']['median_seconds'], losses


def torch_step(torch, network):
    """One step as a function, and its inputs on the GPU."""
    _, layers, rows, width, dtype = network
    kind = getattr(torch, dtype)
    _, params = build(layers, rows, width, dtype)
    values, x = draw(params, rows, width)
    tensors = {k: torch.tensor(v).to('cuda', kind).requires_grad_() for k, v in values.items()}
    feed = torch.tensor(x).to('cuda', kind)

    def step():
        y = feed
        for i in range(layers):
            h = torch.addmm(tensors[f'b{i}a'], y, tensors[f'w{i}a'])
            h = torch.nn.functional.gelu(h, approximate='tanh')
            y = torch.addmm(tensors[f'b{i}b'], h, tensors[f'w{i}b'])
        loss = y.square().mean()
        grads = torch.autograd.grad(loss, list(tensors.values()))
        with torch.no_grad():
            torch._foreach_add_(list(tensors.values()), grads, alpha=-RATE)
        return loss.detach()

    return step


def median_of(torch, step, nsteps):
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(nsteps):
        begun = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def captured(torch, step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def time_torch(torch, network, nsteps):
    """By way: seconds, or why not; and the first losses."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    step = torch_step(torch, network)
    losses = [float(step()) for _ in range(3)]
    ways = {'eager': lambda: step, 'compiled': lambda: torch.compile(step), 'graph': lambda: captured(torch, step)}
    found = {}
    for name, make in ways.items():
        try:
            found[name] = median_of(torch, make(), nsteps)
        except Exception as why:  # one way that fails leaves the others
            found[name] = f'failed: {str(why).splitlines()[0][:80]}'
    return found, losses


def time_overlap(weft, folder, network, options, nsteps):
    """4 ranks of a network, on one GPU, with a trace: what of collectives is behind other work, and what could be."""
    time_weft(weft, folder, network, ['--device', 'cpu'], 1)  # leaves the files
    serial, parallel, report, trace = (os.path.join(folder, f) for f in ('net.yaml', 'four.yaml', 'report.json', 't.json'))
    subprocess.run([weft, 'opt', serial, '-o', parallel, '--passes', 'configs/data_parallel.yaml', '--set',
                    'data_parallel.ranks=4'], check=True, capture_output=True)
    subprocess.run([weft, 'run', parallel, '--ranks', '4', '--params', os.path.join(folder, 'params.npz'), '--feed',
                    os.path.join(folder, 'feeds.npz'), '--steps', str(nsteps), '--trace', trace, '--watchdog', '60:200', f'--json={report}',
                    *options], check=True, capture_output=True)
    with open(report, encoding='utf-8') as f:
        return json.load(f)['overlap']


def show(network, side, value, more=''):
    name, layers, rows, width, dtype = network
    what = f'{name} {dtype} {layers}x[{rows}, {width}]'
    print(f'{what:<34} {side:<20} ' + (f'{value * 1e3:9.3f} ms{more}' if isinstance(value, float) else value), flush=True)


def compare(weft, network, torch, arguments, folder):
    """The ratio to torch's best; None: there is none. False: losses differ."""
    device = ['--device', arguments.device] + (['--strict-device'] if arguments.device == 'cuda' else [])
    step, losses = time_weft(weft, folder, network, device, arguments.steps)
    flops = (48 * network[1] - 8) * network[2] * network[3] ** 2  # nobody asks for the gradient of the feed
    show(network, 'weft', step, f'   {flops / step * 1e-12:.1f} TFLOP/s')
    if arguments.device == 'cuda':
        show(network, 'weft op by op', time_weft(weft, folder, network, device + ['--no-graph'], arguments.steps)[0])
    if not torch:
        return None
    found, expected = time_torch(torch, network, arguments.steps)
    for way, value in found.items():
        show(network, 'torch ' + way, value)
    tolerance = 1e-3 if network[4] == 'float32' else 3e-2
    if any(abs(a - b) > tolerance * abs(b) for a, b in zip(losses, expected)):
        show(network, 'losses differ', f'{losses[:3]}, torch: {expected}')
        return False
    best = min((v for v in found.values() if isinstance(v, float)), default=None)
    if best:
        print(f'{"":<34} {"weft / best of torch":<20} {step / best:9.3f}', flush=True)
    return step / best if best else None


def show_overlap(arguments, networks):
    shares = []
    for network in [n for n in networks if n[4] == 'float32']:
        for link in ('loopback', 'loopback:25'):
            with tempfile.TemporaryDirectory() as folder:
                o = time_overlap(arguments.weft, folder, network, ['--device', arguments.device, '--rings', link],
                                 min(arguments.steps, 10))
            shares.append(o['hidden_seconds'] / o['collective_seconds'] if o['collective_seconds'] else 0)
            show(network, link, f'{o["hidden_seconds"] * 1e3:9.3f} of {o["collective_seconds"] * 1e3:.3f} ms of collectives')
    print(f'{min(shares):.0%} to {max(shares):.0%} of collectives behind backward')
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('weft')
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--steps', type=int, default=50)
    parser.add_argument('--overlap', action='store_true', help='4 ranks by loop-back: what of collectives is hidden')
    parser.add_argument('--tiny', action='store_true', help='one network of a few rows: whether this script works')
    arguments = parser.parse_args()
    try:
        import torch
        why = None if torch.cuda.is_available() else 'torch sees no GPU'
    except ImportError:
        torch, why = None, 'torch is not installed'
    if why and not arguments.overlap:
        print(f'beside torch: skipped, {why}')
    networks = [('tiny', 2, 16, 32, 'float32'), ('tiny', 2, 16, 32, 'bfloat16')] if arguments.tiny else NETWORKS
    if arguments.overlap:
        return show_overlap(arguments, networks)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for network in networks:
            ratios.append(compare(arguments.weft, network, None if why else torch, arguments, folder))
    known = [r for r in ratios if r]
    words = f'{len(networks)} networks' + (f'; weft / best of torch: {min(known):.2f} to {max(known):.2f}' if known else '')
    print(words + (f'; beside torch: skipped, {why}' if why else ''))
    return 1 if False in [r for r in ratios if r is not None] else 0


if __name__ == '__main__':
    sys.exit(main())

"""Planned buckets beside 25 MB and one reduce per gradient, measured: thread ranks, whose reduces begin as late as a link would make them end.

usage: planned.py [--rounds R] [--ranks N] [--steps S] [--link BYTES_PER_SECOND:SECONDS_PER_MESSAGE | --link balanced] [MODEL...]
       default: 1.18e8:5e-5, which is 1 Gbit/s; gpt_mini mlp16

The link (balanced: one over which the bytes of all gradients take 0.6 of a step's compute, and their messages one by one 0.6 more) is added to the reduces: each starts so much later (--delay), as a collective
over the link takes by weft's model; its stream sleeps meanwhile, its rank computes. In each round, for each model: weft run --profile of the
program with its reduces on the compute stream; buckets are planned by that and the link; all ways run, in turns. Of the steps of a run the
least counts, of the rounds the median: other programs only make steps longer. All ways must leave the same bytes in every parameter and state,
or the script fails. mlp16 is made here: 16 layers of 256 x 256, batch 64, SGD. Needs numpy.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get('WEFT', os.path.join(ROOT, 'build', 'release', 'weft'))
SHARED = os.path.join(ROOT, '..', 'shared', 'fixtures')
FIXTURES = os.environ.get('WEFT_FIXTURES') or (SHARED if os.path.isdir(SHARED) else os.path.join(ROOT, 'tests', 'data'))
WAYS = {
    'one per gradient': 'overlap_comm',
    '25 MB': 'overlap_comm, coalesce_grads: {bucket_mb: 25}, insert_dependencies',
    '25 MB, first 1': 'overlap_comm, coalesce_grads: {bucket_mb: 25, first_bucket_mb: 1}, insert_dependencies',
    'planned': 'overlap_comm, coalesce_grads: {bucket_mb: auto, cluster: "%(link)s", times: "%(times)s"}, insert_dependencies',
}


def weft(*arguments):
    run = subprocess.run([WEFT, *arguments], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f'planned: weft {" ".join(arguments)}: {run.stderr.strip()}')
    return run


def make_mlp16(folder, layers=16, width=256, batch=64):
    """The program as YAML, its parameters and feeds."""
    variables, forward, backward, update = [], [], [], []
    say = lambda name, shape, more='': variables.append(f'    {name}: {{float32: {shape}{more}}}')
    op = lambda to, kind, ins, outs, attrs: to.append(f'  - {{{kind}: {{{ins}}}, out: {{{outs}}}, attrs: {{{attrs}}}}}')
    say('x0', [batch, width], ', need_check_feed: true')
    say('rate', [1], ', persistable: true')
    for i in range(layers):
        say(f'w{i}', [width, width], ', persistable: true, parameter: true')
        say(f'b{i}', [width], ', persistable: true, parameter: true')
        for name in f'h{i}', f's{i}', f'x{i + 1}', f'h{i}@GRAD', f's{i}@GRAD', f'x{i + 1}@GRAD':
            say(name, [batch, width])
        say(f'w{i}@GRAD', [width, width])
        say(f'b{i}@GRAD', [width])
        op(forward, 'matmul_v2', f'X: [x{i}], "Y": [w{i}]', f'Out: [h{i}]', 'op_role: 0')
        op(forward, 'elementwise_add', f'X: [h{i}], "Y": [b{i}]', f'Out: [s{i}]', 'op_role: 0, axis: -1')
        op(forward, 'tanh', f'X: [s{i}]', f'Out: [x{i + 1}]', 'op_role: 0')
    say('loss', [])
    say('loss@GRAD', [])
    op(forward, 'reduce_mean', f'X: [x{layers}]', 'Out: [loss]', 'op_role: 256, reduce_all: true')
    op(backward, 'fill_constant', '', 'Out: [loss@GRAD]', 'op_role: 257, dtype: 5, shape: !longs [], value: 1.0')
    op(backward, 'reduce_mean_grad', f'Out@GRAD: [loss@GRAD], X: [x{layers}]', f'X@GRAD: [x{layers}@GRAD]', 'op_role: 1, reduce_all: true')
    for i in reversed(range(layers)):
        op(backward, 'tanh_grad', f'Out: [x{i + 1}], Out@GRAD: [x{i + 1}@GRAD]', f'X@GRAD: [s{i}@GRAD]', 'op_role: 1')
        op(backward, 'elementwise_add_grad', f'Out@GRAD: [s{i}@GRAD], X: [h{i}], "Y": [b{i}]', f'X@GRAD: [h{i}@GRAD], Y@GRAD: [b{i}@GRAD]',
           f'op_role: 1, op_role_var: [b{i}, b{i}@GRAD], axis: -1')
        op(backward, 'matmul_v2_grad', f'Out@GRAD: [h{i}@GRAD], X: [x{i}], "Y": [w{i}]',
           (f'X@GRAD: [x{i}@GRAD], ' if i else '') + f'Y@GRAD: [w{i}@GRAD]', f'op_role: 1, op_role_var: [w{i}, w{i}@GRAD]')
        for name in f'b{i}', f'w{i}':
            op(update, 'sgd', f'Grad: [{name}@GRAD], LearningRate: [rate], Param: [{name}]', f'ParamOut: [{name}]', 'op_role: 2')
    program = os.path.join(folder, 'mlp16.yaml')
    with open(program, 'w') as f:
        f.write('\n'.join(['weft: 1', 'version: 2006002', 'blocks:', '- idx: 0', '  vars:', *variables, '  ops:', *forward, *backward, *update, '']))
    draw = numpy.random.default_rng(1)
    params = {f'w{i}': draw.standard_normal((width, width)).astype('float32') / width ** 0.5 for i in range(layers)}
    params.update({f'b{i}': numpy.zeros(width, 'float32') for i in range(layers)}, rate=numpy.full(1, 0.01, 'float32'))
    numpy.savez(os.path.join(folder, 'mlp16.params.npz'), **params)
    numpy.savez(os.path.join(folder, 'mlp16.feed.npz'), x0=draw.standard_normal((batch, width)).astype('float32'))
    return program, ['--params', os.path.join(folder, 'mlp16.params.npz'), '--feed', os.path.join(folder, 'mlp16.feed.npz')]


def recorded(name):
    at = os.path.join(FIXTURES, 'peers', name)
    return os.path.join(at, 'serial.pdmodel'), ['--params', os.path.join(at, 'params.npz'), '--feed', os.path.join(at, 'feed.npz')]


class Model:
    def __init__(self, name, folder, args):
        self.name, self.folder, self.args = name, folder, args
        serial, self.data = make_mlp16(folder) if name == 'mlp16' else recorded(name)
        self.plain = self.file('plain.pdmodel')
        weft('opt', serial, '-o', self.plain, '--passes', f'data_parallel: {{ranks: {args.ranks}}}, prune_grad_scale')
        self.nreduces = len(re.findall(r'^c_allreduce_', weft('plan', self.plain, '--costs').stdout, re.M))
        with numpy.load(self.data[1]) as params:
            self.nbytes = sum(params[name].nbytes for name in params.files if params[name].dtype == numpy.float32)
        self.milliseconds, self.reduces, self.told = {}, {}, {}

    def file(self, tail):
        return os.path.join(self.folder, f'{self.name}.{tail}')

    def run(self, program, *more):
        return weft('run', program, '--ranks', str(self.args.ranks), *self.data, '--steps', str(self.args.steps), *more)

    def make(self, way, link):
        """The program of a way, and what makes its reduces late."""
        program = self.file('way.pdmodel')
        weft('opt', self.plain, '-o', program, '--passes', WAYS[way] % {'link': link, 'times': self.file('times.json')})
        costs = weft('plan', program, '--costs', '--cluster', link).stdout
        late = re.findall(r'^c_allreduce_\w+ #(\d+) +\S+ +([\d.]+) links', costs, re.M)
        self.reduces[way] = len(late)
        return program, [word for number, us in late for word in ('--delay', f'{number}:{float(us) / 1e3:.6f}')]

    def balanced(self):
        """What a step computes, by the profile, and the link for it."""
        with open(self.file('link.yaml'), 'w') as f:
            f.write('links: [{bytes_per_second: 1.0e+15, seconds_per_message: 1.0e-12}]\n')
        report = weft('simulate', self.plain, '--ranks', str(self.args.ranks), *self.data[2:], '--steps', '1', '--cluster', self.file('link.yaml'),
                      '--times', self.file('times.json'), '--json').stderr
        seconds = json.loads(report[report.index('{'):])['rank_times'][0]['compute_seconds']
        messages = 2 * (self.args.ranks - 1)
        return messages / self.args.ranks * self.nbytes / (0.6 * seconds), 0.6 * seconds / self.nreduces / messages

    def round(self):
        self.run(self.plain, f'--profile={self.file("times.json")}')
        link = self.file('link.yaml')
        nbytes, seconds = self.balanced() if self.args.link == 'balanced' else map(float, self.args.link.split(':'))
        with open(link, 'w') as f:
            f.write(f'links: [{{bytes_per_second: {nbytes:e}, seconds_per_message: {seconds:e}}}]\n')
        states = {}
        for way in WAYS:
            program, late = self.make(way, link)
            saved = self.file('state.npz')
            report = self.run(program, *late, '--save', saved, '--json').stderr
            steps = json.loads(report[report.index('{'):])['steps']
            self.milliseconds.setdefault(way, []).append(1e3 * steps['least_seconds'])
            report = weft('simulate', program, '--ranks', str(self.args.ranks), *self.data[2:], '--steps', '1', '--cluster', link, '--times',
                          self.file('times.json'), '--json').stderr
            self.told.setdefault(way, []).append(1e3 * json.loads(report[report.index('{'):])['steps']['median_seconds'])
            with numpy.load(saved) as state:
                states[way] = {name: state[name].tobytes() for name in state.files}
        first = next(iter(states.values()))
        for way, state in states.items():
            if state != first:
                sys.exit(f'planned: {self.name}: the results of "{way}" have other bits')


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--steps', type=int, default=10)
    parser.add_argument('--link', default='1.18e8:5e-5')
    parser.add_argument('models', nargs='*', default=['gpt_mini', 'mlp16'])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = [Model(name, folder, args) for name in args.models]
        for _ in range(args.rounds):
            for model in models:
                model.round()
    print(f'{args.ranks} ranks on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ms a step, equal bits\n')
    print('| model | buckets | reduces | measured | predicted | against planned |\n| --- | --- | --- | --- | --- | --- |')
    for model in models:
        planned = model.milliseconds['planned']
        for way, took in model.milliseconds.items():
            ratio = statistics.median(a / b for a, b in zip(took, planned))
            print(f'| {model.name} | {way} | {model.reduces[way]} | {statistics.median(took):.2f} | {statistics.median(model.told[way]):.2f} | {ratio:.2f} x |')


if __name__ == '__main__':
    main()

"""Trains recorded programs with the command and compares with what Paddle computed.

usage: programs.py WEFT FIXTURES [--long] [--case NAME]...

For every case with recorded numbers: the serial program; the serial program made data-parallel for several numbers of
ranks; every subset of the four optimization passes, whose results must be equal to the last bit; several bucket sizes,
likewise; the rank programs that Paddle partitioned, as they are, optimized by Weft, and after Paddle's own pass in every
recorded variant. Where Paddle's program is wrong, what it really computes was recorded (emul.*.npz) and is compared.
Paddle cannot run mixed-precision programs on a CPU. They follow the losses of the same model in fp32, and skip a step in which
a gradient overflows, on every rank.
--long takes every case through all of it; otherwise the costly parts run on the small cases. Last line: N passed, N failed.
"""
import concurrent.futures
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

LOSS_TOLERANCE, FINAL_TOLERANCE, HALF_TOLERANCE = 1e-4, 1e-3, 2e-2
PASSES = ['prune_grad_scale', 'overlap_comm: {stream: gradient_sync}', 'coalesce_grads', 'insert_dependencies']
SMALL = {'mlp_sgd_dp2', 'mlp_adam_dp2', 'twoloss_dp2', 'mlp_dp2_sp2_tworings', 'lenet_bias_dp2', 'mlp_adam_dp2_lossscale'}


class Case:
    """One folder of recorded programs and numbers."""

    def __init__(self, path):
        self.path = path
        self.name = '/'.join(path.split('/')[-2:])
        self.info = json.load(open(f'{path}/case.json'))
        self.world, self.steps = self.info['world'], self.info['steps']
        self.loss = self.info['loss']
        ranks = self.info.get('ranks')
        self.rank_loss = ranks[0]['loss'] if ranks else self.loss
        self.batch_norm = 'resnet' in self.info['model']
        self.small = os.path.basename(path) in SMALL
        self.fp32 = None  # mixed precision: the case that has the same model's losses in fp32

    def file(self, name):
        return f'{self.path}/{name}'

    def has(self, name):
        return os.path.exists(self.file(name))

    def is_half_of(self, other):
        """Whether this is a mixed-precision form of the other case's training."""
        same = 'model', 'model_args', 'optimizer', 'seed', 'global_batch', 'steps'
        return (not self.has('golden.npz') and self.info['dtype'] != 'float32' and other.has('golden.npz')
                and all(self.info[key] == other.info[key] for key in same))

    def loose(self, name):
        """Parameters whose true gradient is zero: the recorded values are rounding noise."""
        return any(name == p or name.startswith(p + '_') or f'_{p}_' in name for p in self.info.get('undetermined_params') or [])


class Expected:
    """Losses per step and final values by name, from a golden file (or of a wrong program, what rank 0 ends with)."""

    def __init__(self, path):
        z = np.load(path)
        self.losses = z['losses'] if 'losses' in z.files else z['losses_rank'].mean(axis=1)
        head = 'final/' if any(k.startswith('final/') for k in z.files) else 'final_rank0/'
        self.final = {k[len(head):]: z[k] for k in z.files if k.startswith(head)}


class Runner:
    """Runs the command; keeps each program's results in its own temporary folder."""

    def __init__(self, weft):
        self.weft = weft

    def command(self, *args):
        done = subprocess.run([self.weft, *args], capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f'exit {done.returncode}: {done.stderr.strip()[-300:]}')
        return done.stdout

    def train(self, case, programs, ranks, loss, folder, params=None, feeds=None, saved=None, options=()):
        saved = saved or f'{folder}/final.npz'
        text = self.command('run', *programs, '--ranks', str(ranks), '--params', params or case.file('params.npz'), '--feed',
                            feeds or case.file('feeds.npz'), '--steps', str(case.steps), '--fetch', loss, '--save', saved, *options)
        losses = {}
        for line in text.splitlines():
            fields = line.split(',')
            if len(fields) == 4 and fields[0].isdigit():
                losses.setdefault(int(fields[0]), []).append(float(fields[3]))
        finals = [dict(np.load(saved.replace('{rank}', str(r)))) for r in range(ranks if '{rank}' in saved else 1)]
        return np.array([np.mean(losses[s]) for s in sorted(losses)]), finals[0] if len(finals) == 1 else finals

    def optimize(self, source, target, passes, *sets):
        self.command('opt', '-q', source, '-o', target, '--passes', passes, *(w for s in sets for w in ('--set', s)))


def difference(case, expected, losses, final):
    """'' if the numbers agree, else where they do not."""
    if len(losses) != case.steps:
        return f'{len(losses)} losses for {case.steps} steps'
    steps = case.info.get('compare_steps', case.steps)
    e = np.abs(losses[:steps] - expected.losses[:steps]) / np.maximum(np.abs(expected.losses[:steps]), 1e-6)
    if not e.max() <= LOSS_TOLERANCE:
        return f'loss off by {e.max():.1e} at step {int(e.argmax())}'
    if steps < case.steps or not case.info.get('compare_final', True):
        return ''
    for name, want in expected.final.items():
        if case.loose(name):
            continue
        if name not in final:
            return f'{name} was not saved'
        a, b = final[name].astype(np.float64).ravel(), want.astype(np.float64).ravel()
        if a.size != b.size:
            return f'{name} has {a.size} elements, expected {b.size}'
        d = np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-6)
        if not d <= FINAL_TOLERANCE:
            return f'{name} off by {d:.1e}'
    return ''


def same_bits(a, b):
    """'' if two results are equal to the last bit."""
    if not np.array_equal(a[0], b[0]):
        return 'losses differ'
    for name in a[1]:
        if a[1][name].tobytes() != b[1][name].tobytes():
            return f'{name} differs'
    return ''


def subsets():
    for n in range(len(PASSES) + 1):
        yield from itertools.combinations(PASSES, n)


def check_serial(run, case, folder):
    expected = Expected(case.file('golden.npz'))
    yield 'serial', difference(case, expected, *run.train(case, [case.file('serial.pdmodel')], 1, case.loss, folder))


def check_data_parallel(run, case, folder, configs):
    """The serial program on 1, 2, 4 and 8 ranks where the batch divides."""
    if 'gradmerge' not in case.name and case.info['mesh']['dim_names'] != ['dp'] and 'tworings' not in case.name:
        return
    ideal = Expected(case.file('golden_dp.npz' if case.has('golden_dp.npz') else 'golden.npz'))
    serial = Expected(case.file('golden.npz'))
    for ranks in (1, 2, 4, 8):
        if case.info['global_batch'] % ranks or (case.batch_norm and ranks != case.world):
            continue
        out = f'{folder}/dp{ranks}.pdmodel'
        run.optimize(case.file('serial.pdmodel'), out, f'{configs}/data_parallel.yaml', f'data_parallel.ranks={ranks}')
        yield (f'serial to {ranks} ranks',
               difference(case, ideal if ranks == case.world else serial, *run.train(case, [out], ranks, case.loss, folder)))


def check_bits(run, case, folder):
    """Pass subsets and bucket sizes change no bit (the world size is a power of two)."""
    ranks, first = case.world, None
    lists = [('+'.join(p.split(':')[0] for p in s) or 'none', list(s)) for s in subsets()]
    lists += [(f'buckets of {mb} MiB', [PASSES[0], PASSES[1], f'coalesce_grads: {{bucket_mb: {mb}}}', PASSES[3]])
              for mb in (0.0001, 0.004, 0.02, 1)]
    for label, passes in lists:
        out = f'{folder}/bits.pdmodel'
        text = ', '.join([f'data_parallel: {{ranks: {ranks}}}', *passes])
        run.optimize(case.file('serial.pdmodel'), out, text)
        result = run.train(case, [out], ranks, case.loss, folder)
        first = first or result
        yield f'bits: {label}', same_bits(first, result)


def check_rank_programs(run, case, folder, configs, thorough):
    before = [case.file(f'rank{r}.pdmodel') for r in range(case.world)]
    if not all(map(os.path.exists, before)) or 'gradmerge' in case.name:
        return
    ideal = 'golden_dp.npz' if case.has('golden_dp.npz') else 'golden.npz'
    wrong = case.has('emul.before.npz')  # it lacks reduces
    expected = Expected(case.file('emul.before.npz' if wrong else ideal))
    lists = [('as they are', None), ('optimized', f'{configs}/data_parallel_optimization.yaml')]
    if thorough:
        lists += [('optimized by ' + '+'.join(p.split(':')[0] for p in s), ', '.join(s)) for s in subsets() if s]
    for label, passes in lists:
        programs = before
        if passes:
            programs = [f'{folder}/rank{r}.pdmodel' for r in range(case.world)]
            for source, target in zip(before, programs):
                run.optimize(source, target, passes)
        yield f'rank programs, {label}', difference(case, expected, *run.train(
            case, programs, case.world, case.rank_loss, folder, options=['--unsafe'] if wrong else []))


def check_recorded_variants(run, case, folder):
    """Paddle's programs after its own pass, and after all of its passes."""
    ideal = 'golden_dp.npz' if case.has('golden_dp.npz') else 'golden.npz'
    found = {re.fullmatch(r'rank0\.(after\.\w+|final)\.pdmodel', f) for f in os.listdir(case.path)}
    for variant in sorted(m.group(1) for m in found if m):
        programs = [case.file(f'rank{r}.{variant}.pdmodel') for r in range(case.world)]
        if not all(map(os.path.exists, programs)) or ('gradmerge' in case.name and variant != 'final'):
            continue
        # How gradients are grouped changes nothing: group4k computes what the default variant computes.
        same = f'emul.{variant}.npz', 'emul.after.default.npz' if variant == 'after.group4k' else '', 'emul.before.npz', ideal
        recorded = next(f for f in same if f and case.has(f))
        expected = Expected(case.file(recorded))
        yield f"Paddle's {variant}", difference(case, expected, *run.train(
            case, programs, case.world, case.rank_loss, folder, options=['--unsafe'] if recorded != ideal else []))


def half_programs(run, case, folder, configs):
    """(label, programs, ranks, name of the loss) of every form of a mixed-precision program."""
    serial = [case.file('serial.pdmodel')]
    yield 'serial', serial, 1, case.loss
    plain, full = f'{folder}/plain.pdmodel', f'{folder}/full.pdmodel'
    run.optimize(serial[0], plain, 'data_parallel: {ranks: 2}')
    yield 'serial to 2 ranks, plain', [plain], 2, case.loss
    run.optimize(serial[0], full, f'{configs}/data_parallel.yaml', 'data_parallel.ranks=2')
    yield 'serial to 2 ranks', [full], 2, case.loss
    before = [case.file(f'rank{r}.pdmodel') for r in range(case.world)]
    if not all(map(os.path.exists, before)):
        return
    yield 'rank programs, as they are', before, case.world, case.rank_loss
    after = [f'{folder}/rank{r}.pdmodel' for r in range(case.world)]
    for source, target in zip(before, after):
        run.optimize(source, target, f'{configs}/data_parallel_optimization.yaml')
    yield 'rank programs, optimized', after, case.world, case.rank_loss
    for variant in ('after.default', 'after.group4k', 'final'):
        programs = [case.file(f'rank{r}.{variant}.pdmodel') for r in range(case.world)]
        if all(map(os.path.exists, programs)):
            yield f"Paddle's {variant}", programs, case.world, case.rank_loss


def check_half(run, case, folder, configs):
    """Losses follow those in fp32, and how gradients travel changes no bit of them."""
    want = Expected(case.fp32.file('golden.npz')).losses
    first = None
    for label, programs, ranks, loss in half_programs(run, case, folder, configs):
        got = run.train(case, programs, ranks, loss, folder)
        off = np.abs(got[0] - want) / np.abs(want)
        yield label, '' if off.max() <= HALF_TOLERANCE else f'loss off by {off.max():.1e} at step {int(off.argmax())}'
        if ranks > 1 and first is not None:
            yield f'bits: {label}', '' if np.array_equal(first, got[0]) else 'losses differ'
        first = got[0] if ranks > 1 else None


def check_overflow(run, case, folder):
    """One rank's gradients overflow in one step: both skip it. All do, in every step: nothing is trained."""
    params, feeds = dict(np.load(case.file('params.npz'))), dict(np.load(case.file('feeds.npz')))
    scale = [n for n in params if n.startswith('loss_scaling')]
    if not scale or not case.has('rank0.pdmodel'):
        return
    programs = [case.file(f'rank{r}.pdmodel') for r in range(case.world)]
    files = {'params': f'{folder}/params.npz', 'feeds': f'{folder}/feeds.npz', 'saved': f'{folder}/final.{{rank}}.npz'}
    for everywhere in (False, True):
        changed = dict(params, **{scale[0]: params[scale[0]] * 2.0**20}) if everywhere else params
        name = sorted(n for n in feeds if n.startswith('3/') and feeds[n].dtype == np.float32)[0]
        fed = dict(feeds) if everywhere else dict(feeds, **{name: feeds[name] * np.linspace(1, 1e6, len(feeds[name]))[:, None].astype('f4')})
        np.savez(files['params'], **changed)
        np.savez(files['feeds'], **fed)
        _, finals = run.train(case, programs, case.world, case.rank_loss, folder, **files)
        state = sorted(set(params) & set(finals[0]))
        apart = [n for n in state if any(f[n].tobytes() != finals[0][n].tobytes() for f in finals)]
        broken = [n for n in state if not np.isfinite(finals[0][n]).all()]
        moved = [n for n in case.info['params'] if finals[0][n].tobytes() != params[n].tobytes()]
        good = [int(finals[0][n][0]) for n in state if n.startswith('num_good_steps')][0]
        label = 'overflow everywhere' if everywhere else 'overflow on one rank'
        yield f'{label}: ranks agree', ', '.join(apart)
        yield f'{label}: nothing breaks', ', '.join(broken)
        yield f'{label}: which steps count', '' if good == (0 if everywhere else case.steps - 4) else f'{good} good steps'
        yield f'{label}: parameters', '' if bool(moved) != everywhere else f'moved: {moved}'
        lowered = finals[0][scale[0]][0] < changed[scale[0]][0]
        yield f'{label}: scale', '' if lowered == everywhere else f'{finals[0][scale[0]]}'


def check_case(run, case, configs, long):
    """All (label, problem) of one case; a case that may be refused is right when it is refused in words."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        if case.fp32:
            parts = [check_half(run, case, folder, configs), check_overflow(run, case, folder)]
        else:
            parts = [check_serial(run, case, folder), check_data_parallel(run, case, folder, configs),
                     check_rank_programs(run, case, folder, configs, long or case.small),
                     check_recorded_variants(run, case, folder)]
        if not case.fp32 and case.info['mesh']['dim_names'] == ['dp'] and not case.batch_norm and (long or case.small):
            parts.append(check_bits(run, case, folder))
        for part in parts:
            try:
                results += part
            except (RuntimeError, KeyError, subprocess.TimeoutExpired) as e:
                refused = case.info.get('may_refuse') and str(e).startswith('exit 1:') and part is not parts[0] and part is not parts[1]
                results.append(('refused in words' if refused else 'error', '' if refused else str(e).replace('\n', ' ')))
    return results


def main():
    weft, root, options = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    only = {options[i + 1] for i, o in enumerate(options) if o == '--case'}
    configs = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'configs')
    cases = []
    for family in sorted(os.listdir(root)):
        for name in sorted(os.listdir(f'{root}/{family}')) if family.startswith('paddle') else ():
            path = f'{root}/{family}/{name}'
            if os.path.exists(f'{path}/params.npz'):
                cases.append(Case(path))
    for case in cases:
        case.fp32 = next((other for other in cases if case.is_half_of(other)), None)
    cases = [c for c in cases if (c.has('golden.npz') or c.fp32) and not c.info.get('structure_only')
             and (not only or os.path.basename(c.path) in only)]
    passed = failed = 0
    run = Runner(weft)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(c, pool.submit(check_case, run, c, configs, '--long' in options)) for c in cases]
        for case, job in jobs:
            results = job.result()
            wrong = [(label, problem) for label, problem in results if problem]
            passed += len(results) - len(wrong)
            failed += len(wrong)
            print(f'{case.name:36} {len(results) - len(wrong):3d} ok' + ''.join(f'\n  FAIL {a}: {b}' for a, b in wrong), flush=True)
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed > 0 or passed == 0)


if __name__ == '__main__':
    main()

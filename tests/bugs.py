"""Runs programs of bench/bugs: those with wrong values differ from the serial program, those that let replicas drift apart
do so, those that hang are refused or do not end, and their correct twins do none of it. So the expected verdicts are
true, whatever a checker says.
usage: bugs.py WEFT FOLDER      FOLDER: bench/bugs"""
import glob
import re
import subprocess
import sys
import tempfile

import numpy as np

weft, root = sys.argv[1:]
SHOWN = ('wrong_value', 'missing_reduce', 'wrong_data', 'stale_read', 'deadlock')
VAR = re.compile(r'^    (\S+): \{(float32|float64|int64|int32|float16): \[([^]]*)\](.*)\}$')
SHARDED = re.compile(r'mesh: (\d+), dims_mapping: \[([^]]*)\]')
numbers = lambda text: [int(n) for n in text.split(',')] if text.strip() else []


def whole_vars(path):
    """Persistables and feeds by name: dtype, shape of the whole tensor."""
    text = open(path).read()
    meshes = [numbers(shape) for shape in re.findall(r'^- \{shape: \[([^]]*)\]', text, re.M)]
    found = {}
    for line in text.splitlines():
        m = VAR.match(line)
        if not m or not re.search('persistable: true|need_check_feed: true', m[4]):
            continue
        dims, placed = numbers(m[3]), SHARDED.search(m[4])
        for axis, mesh_axis in enumerate(numbers(placed[2]) if placed else []):
            dims[axis] *= meshes[int(placed[1])][mesh_axis] if mesh_axis >= 0 else 1
        found[m[1]] = (m[2], dims, 'persistable' in m[4], bool(placed) and any(a >= 0 for a in numbers(placed[2])))
    return found


def run(programs, nranks, folder, name, seconds=60):
    """State after two steps, by rank. Bugs are run although run may refuse them."""
    unsafe = [] if name in ('good', 'serial') else ['--unsafe']
    save = f'{folder}/{name}{{rank}}.npz'
    subprocess.run([weft, 'run', *programs, '--ranks', str(nranks), '--params', f'{folder}/params.npz', '--feed',
                    f'{folder}/feeds.npz', '--save', save, *unsafe], check=True, capture_output=True, timeout=seconds)
    return [dict(np.load(save.replace('{rank}', str(rank)))) for rank in range(nranks)]


def hangs(programs, nranks, folder):
    """Whether the run is refused for its rings, or does not end. (One that is only slow would pass for one that hangs.)"""
    try:
        run(programs, nranks, folder, 'hang', 1)
    except subprocess.TimeoutExpired:
        return True
    except subprocess.CalledProcessError as error:
        return b'ranks disagree' in error.stderr
    return False


def programs_of(case, kind):
    return glob.glob(f'{case}/{kind}.yaml') or sorted(glob.glob(f'{case}/{kind}.rank*.yaml'))


def joined(ranks, name, like):
    """The parts of all ranks along the axis that gives the whole."""
    if ranks[0][name].shape == like.shape:
        return ranks[0][name]
    axis = next(a for a in range(like.ndim) if ranks[0][name].shape[a] != like.shape[a])
    return np.concatenate([r[name] for r in ranks], axis)


def check(case, expected, nranks):
    """What is wrong with the case; empty if it shows what it should."""
    rng = np.random.default_rng(2)  # with it ranks differ in what they compare and in what they divide by
    some = lambda dtype, dims: rng.integers(-8, 9, dims).astype(dtype)
    values = whole_vars(programs_of(case, 'good')[0])
    with tempfile.TemporaryDirectory() as folder:
        kept = {n: v for n, v in values.items() if v[2]}
        state = {n: np.full(d, 0.1, t) if n.startswith('rate') else some(t, d) for n, (t, d, *_) in kept.items()}
        feeds = {f'{s}/{n}': some(v[0], v[1]) for s in range(2) for n, v in values.items() if not v[2]}
        np.savez(f'{folder}/params.npz', **state)
        np.savez(f'{folder}/feeds.npz', **feeds)
        if expected == 'deadlock':
            run(programs_of(case, 'good'), nranks, folder, 'good')
            return '' if hangs(programs_of(case, 'bad'), nranks, folder) else 'the bug does not show'
        result = {kind: run(programs_of(case, kind), nranks, folder, kind) for kind in ('good', 'bad')}
        whole = [n for n in state if not values[n][3]]
        if expected == 'wrong_value':
            serial = run([f'{case}/serial.yaml'], 1, folder, 'serial')[0]
            equal = lambda kind: all(np.allclose(joined(result[kind], n, serial[n]), serial[n], 1e-5, 1e-6) for n in state)
        elif expected == 'missing_reduce':
            equal = lambda kind: all(np.array_equal(r[n], result[kind][0][n]) for r in result[kind] for n in whole)
        else:
            pairs = lambda kind: zip(result[kind], result['good'])
            equal = lambda kind: all(np.allclose(r[n], g[n], 1e-5, 1e-6) for r, g in pairs(kind) for n in state)
        if not equal('good'):
            return 'the correct twin is wrong'
        return 'the bug does not show' if equal('bad') else ''


passed = failed = 0
for case in sorted(glob.glob(f'{root}/*/')):
    fields = dict(line.rstrip('\n').split(': ', 1) for line in open(f'{case}/case.yaml'))
    if fields['expected'] not in SHOWN or fields['reading'] != 'by_bytes':
        continue
    wrong = check(case, fields['expected'], int(fields['ranks']))
    passed, failed = passed + (not wrong), failed + bool(wrong)
    if wrong:
        print(f'FAIL {case}: {wrong}')
print(f'{passed} passed, {failed} failed')
sys.exit(failed > 0)

"""What a case of data_parallel.py says of a program: ranks do as one rank does, or do another, or are refused."""
import os, subprocess, sys
import numpy as np

weft = os.path.abspath(sys.argv[1])


def call(*args):
    p = subprocess.run([weft, *map(str, args)], capture_output=True, text=True, timeout=120)
    return p.returncode, p.stdout, p.stderr


def train(path, ranks, p, folder, loss):
    code, out, err = call('run', path, '--ranks', ranks, '--params', f'{folder}/params.npz', '--feed', f'{folder}/feeds.npz',
                          '--fetch', loss, '--save', f'{folder}/out.npz')
    assert code == 0, f'run on {ranks}: exit {code}: {err.strip()[-300:]}'
    losses = {}
    for line in out.splitlines()[1:]:
        step, _, _, value = line.split(',')
        losses.setdefault(int(step), []).append(float(value))
    return np.array([np.mean(losses[s]) for s in sorted(losses)]), dict(np.load(f'{folder}/out.npz'))


def write(p, folder):
    open(f'{folder}/serial.yaml', 'w').write(p.text())
    np.savez(f'{folder}/params.npz', **p.params)
    np.savez(f'{folder}/feeds.npz', **{f'{s}/{n}': v for n, values in p.feeds.items() for s, v in enumerate(values)})


def make(p, folder, ranks, options='', behind=''):
    write(p, folder)
    code, _, err = call('opt', f'{folder}/serial.yaml', '--passes',
                        f'data_parallel: {{ranks: {ranks}{options and ", " + options}}}{behind and ", " + behind}', '-o', f'{folder}/dp.yaml')
    return code, err


def off(a, b):
    a, b = np.asarray(a, 'f8').ravel(), np.asarray(b, 'f8').ravel()
    return np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-6) if a.size == b.size else np.inf


def same(p, folder, ranks=2, options='', loss='loss', says='', tolerance=1e-5, leave=(), behind='', losses_add=False, proved=False):
    """Trained on ranks it is what the serial program is."""
    code, err = make(p, folder, ranks, options, behind)
    assert code == 0, f'opt: exit {code}: {err.strip()[-300:]}'
    assert says in err, f'expected "{says}" in:\n{err}'
    alone, state = train(f'{folder}/serial.yaml', 1, p, folder, loss)
    losses, got = train(f'{folder}/dp.yaml', ranks, p, folder, loss)
    losses = losses * ranks if losses_add else losses
    assert off(losses, alone) <= tolerance, f'losses {losses}, expected {alone}'
    changed = 0
    for name in p.params:
        if name in leave or name not in state:
            continue
        changed += off(state[name], p.params[name]) > 1e-3
        assert off(got[name], state[name]) <= tolerance, f'{name} off by {off(got[name], state[name]):.1e}'
    assert changed, 'nothing is trained'
    _, out, _ = call('verify', f'{folder}/dp.yaml', '--ranks', ranks, '--against', f'{folder}/serial.yaml')
    assert not proved or 'same over the real numbers' in out, f'verify says:\n{out}'
    assert 'same over the real numbers' in out or losses_add and 'if the ranks\' values of it are added up' in out or 'not_proved' in out and 'wrong' not in out, f'verify says:\n{out}'
    return err


def differs(p, folder, says, ranks=2, options='', loss='loss'):
    """Trained on ranks it is another; the pass says so."""
    code, err = make(p, folder, ranks, options)
    assert code == 0 and says in err, f'exit {code}, expected "{says}" in:\n{err}'
    alone, state = train(f'{folder}/serial.yaml', 1, p, folder, loss)
    _, got = train(f'{folder}/dp.yaml', ranks, p, folder, loss)
    assert max(off(got[n], state[n]) for n in p.params) > 1e-3, 'it is no other'


def refused(p, folder, says, ranks=2, options=''):
    code, err = make(p, folder, ranks, options)
    assert code == 1 and says in err, f'exit {code}, expected "{says}" in:\n{err}'
    assert 'summary' not in err, f'a summary of what was refused:\n{err}'

"""Programs in mixed precision, which Paddle's CPU cannot run, against the same nets in fp32, which it did.

usage: amp.py WEFT DATA [CASE ...]    DATA holds NET/{params,feeds,golden}.npz and NET/LEVEL_TYPE.{pdmodel,npz}; a line for each
failure; last 'N passed, M failed'

Tolerances: a half type has so many bits, and a step's errors add up: 2^-8 for bf16, 2^-11 for fp16, times 16.
"""
import collections, glob, os, subprocess, sys, tempfile
import numpy as np

weft, data, only = os.path.abspath(sys.argv[1]), sys.argv[2], set(sys.argv[3:])
LOSS = 'mean_0.tmp_0'
TOLERANCE = {'fp16': 16 * 2.0**-11, 'bf16': 16 * 2.0**-8}
PASSES = 'data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies'


def call(*args):
    p = subprocess.run([weft, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, f'{args[0]}: exit {p.returncode}: {p.stderr.strip()[-300:]}'
    return p.stdout


def train(program, ranks, net, state, steps, folder):
    """Losses by step, the mean of ranks, and what is kept."""
    np.savez(f'{folder}/params.npz', **{**np.load(f'{net}/params.npz'), **state})
    text = call('run', program, '--ranks', ranks, '--params', f'{folder}/params.npz', '--feed', f'{net}/feeds.npz',
                '--steps', steps, '--fetch', LOSS, '--save', f'{folder}/out.npz')
    losses = collections.defaultdict(list)
    for line in text.splitlines()[1:]:
        step, _, _, value = line.split(',')
        losses[int(step)].append(float(value))
    return np.array([np.mean(losses[s]) for s in sorted(losses)]), dict(np.load(f'{folder}/out.npz'))


def kept(final, name):
    """A parameter of fp32, or its master."""
    return np.asarray(final.get(name + '_fp32_master_0', final[name]), 'f8')


def close(losses, final, golden, tolerance, batch_norm):
    want = golden['losses'][:len(losses)]
    off = np.max(np.abs(losses - want) / np.maximum(np.abs(want), 1))
    assert off < (0.5 if batch_norm else tolerance), f'losses {losses}, expected {want}'
    for key in [] if batch_norm else [k for k in golden.files if k.startswith('final/')]:
        a, b = kept(final, key[6:]), golden[key].astype('f8')
        off = np.linalg.norm(a - b) / max(np.linalg.norm(b), 0.1)
        assert off < 4 * tolerance, f'{key[6:]} off by {off:.1e}'


def check(program, folder):
    net, kind = os.path.dirname(program), os.path.basename(program)[:-len('.pdmodel')]
    golden, state, half = np.load(f'{net}/golden.npz'), dict(np.load(program.replace('.pdmodel', '.npz'))), kind.split('_')[1]
    steps = len(golden['losses'])
    call('verify', program)
    losses, final = train(program, 1, net, state, steps, folder)
    close(losses, final, golden, TOLERANCE[half], False)
    call('opt', '-q', program, '--passes', PASSES, '-o', f'{folder}/dp.pdmodel')
    losses, final = train(f'{folder}/dp.pdmodel', 2, net, state, steps, folder)
    close(losses, final, golden, TOLERANCE[half], 'conv' in net)
    if half == 'fp16':
        scaling(program, net, state, folder)


def scaling(program, net, state, folder):
    """A scale at which gradients are not finite skips the step on every rank and is halved; good steps double it."""
    for ranks, path in ((1, program), (2, f'{folder}/dp.pdmodel')):
        state['loss_scaling_0'] = np.float32([1024])
        _, final = train(path, ranks, net, state, 4, folder)
        assert final['loss_scaling_0'][0] == 4096, f'{ranks} ranks: the scale is {final["loss_scaling_0"]} after four good steps'
        state['loss_scaling_0'] = np.float32([2.0**40])
        _, final = train(path, ranks, net, state, 1, folder)
        params = np.load(f'{net}/params.npz')
        for name in [k[6:] for k in np.load(f'{net}/golden.npz').files if k.startswith('final/')]:
            assert np.array_equal(kept(final, name), params[name]), f'{ranks} ranks: {name} moved though gradients are not finite'


passed = failed = 0
for program in sorted(glob.glob(f'{data}/*/O*.pdmodel')):
    case = '/'.join(program.split('/')[-2:])[:-len('.pdmodel')]
    if only and case not in only:
        continue
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(program, folder)
            passed += 1
        except AssertionError as e:
            failed += 1
            print(f'FAIL {case}: {e}')
print(f'{passed} passed, {failed} failed')
sys.exit(failed > 0 or not passed)

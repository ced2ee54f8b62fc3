"""Records what Paddle's kernels make of NaN and infinities. Runs in a Paddle 2.6.2 environment (bench/peers/setup).

usage: record_not_finite.py RECORDINGS OUT     folders OP/VARIANT.{pdmodel,npz}; the smallest recordings of each op are taken

A few elements of the recorded floating-point inputs become NaN, inf and -inf, and Paddle runs the op again. A gradient
that reads several values of its op has them in its gradient alone: the others would not belong together any more.
"""
import glob
import os
import shutil
import sys
import zlib

import numpy as np
import paddle
from paddle.base import core

VARIANTS = 1          # of an op
MOST_ELEMENTS = 250   # of a recording's inputs, so that the recordings stay small
# Ops that draw, print or move between devices have no values to compare, and collectives need their ring.
WITHOUT = ('random', 'randint', 'share_', 'memcpy', 'print', 'dropout', 'coalesce_tensor', 'c_', 'send_', 'recv_')
# With NaN for a coordinate or NaN in a segment Paddle's kernel writes outside of its tensors.
CRASHES = ('grid_sampler', 'grid_sampler_grad', 'segment_pool_grad')


def with_bad_values(inputs, seed):
    """The inputs with NaN and infinities in some places; None where there is no place for them."""
    draws = np.random.default_rng(seed)
    reals = [k for k, v in inputs.items() if v.dtype in (np.float32, np.float64) and v.size]
    gradients = [k for k in reals if k.endswith('@GRAD')]
    others = [k for k in reals if not k.endswith('@GRAD')]
    chosen = gradients + (others if not gradients or len(others) == 1 else [])
    bad = {k: v.copy() for k, v in inputs.items()}
    for k in chosen:
        values = bad[k].reshape(-1)
        for value in (np.nan, np.inf, -np.inf):
            if draws.random() < (0.9 if values.size > 3 else 0.4):
                values[draws.integers(values.size)] = value
    return bad if any(not np.isfinite(bad[k]).all() for k in chosen) else None


def run(model, inputs, outputs):
    place, scope = paddle.CPUPlace(), core.Scope()
    with open(model, 'rb') as f:
        program = paddle.static.Program.parse_from_string(f.read())
    for name, value in inputs.items():
        scope.var(name).get_tensor().set(value, place)
        if name in program.global_block().vars:
            program.global_block().vars[name].persistable = True
    with paddle.static.scope_guard(scope):
        return paddle.static.Executor(place).run(program, fetch_list=outputs, scope=scope)


def record(model, out):
    """Writes OUT/OP/VARIANT.*; False where the recording does not serve."""
    op, variant = model.split('/')[-2], os.path.basename(model)[:-len('.pdmodel')]
    with np.load(model[:-len('.pdmodel')] + '.npz') as recording:
        names = recording.files
        inputs = {k[3:]: recording[k] for k in names if k.startswith('in/')}
    outputs = [k[4:] for k in names if k.startswith('out/')]
    if any('#' in k for k in names) or sum(v.size for v in inputs.values()) > MOST_ELEMENTS:
        return False
    inputs = with_bad_values(inputs, zlib.crc32(f'{op}/{variant}'.encode()))
    if not inputs:
        return False
    results = run(model, inputs, outputs)
    os.makedirs(f'{out}/{op}', exist_ok=True)
    np.savez_compressed(f'{out}/{op}/{variant}.npz', **{f'in/{k}': v for k, v in inputs.items()},
                        **{f'out/{k}': v for k, v in zip(outputs, results)})
    shutil.copy(model, f'{out}/{op}/{variant}.pdmodel')
    return True


def record_op(folder, out):
    models = sorted(glob.glob(f'{folder}/*.pdmodel'), key=lambda m: (os.path.getsize(m[:-7] + 'npz')
                                                                     if os.path.exists(m[:-7] + 'npz') else 1 << 40, m))
    done = 0
    for model in models:
        if done == VARIANTS or not os.path.exists(model[:-7] + 'npz'):
            break
        try:
            done += record(model, out)
        except Exception as error:  # what Paddle refuses is told and passed over
            print(f'{model}: {str(error).strip().splitlines()[-1][:120]}', file=sys.stderr)


def main(recordings, out):
    paddle.enable_static()
    for folder in sorted(glob.glob(f'{recordings}/*/')):
        op = os.path.basename(folder[:-1])
        if op in CRASHES or any(word in op for word in WITHOUT):
            continue
        pid = os.fork()  # a kernel that crashes ends its own process
        if pid == 0:
            record_op(folder[:-1], out)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            print(f'{op}: the process ended', file=sys.stderr)


if __name__ == '__main__':
    main(*sys.argv[1:])

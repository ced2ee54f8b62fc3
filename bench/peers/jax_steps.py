"""A worker (common.py) that steps one of the peer models in JAX: the whole step jitted, its state donated. Runs in the jax
environment.

usage: jax_steps.py SPEC, JSON: model, params, feed (.npz). Parameters are the serialized program's, by its names.
"""
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

spec = json.loads(sys.argv[1])
params, feed = dict(np.load(spec['params'])), dict(np.load(spec['feed']))
rate = float(np.asarray(params['learning_rate_0']).reshape(-1)[0])


def linear(p, index, x):
    y = x @ p[f'linear_{index}.w_0']
    return y + p[f'linear_{index}.b_0'] if f'linear_{index}.b_0' in p else y


def conv(p, index, x, stride=1, padding=0):
    y = jax.lax.conv_general_dilated(x, p[f'conv2d_{index}.w_0'], (stride, stride), [(padding, padding)] * 2,
                                     dimension_numbers=('NCHW', 'OIHW', 'NCHW'))
    bias = p.get(f'conv2d_{index}.b_0')
    return y if bias is None else y + bias[:, None, None]


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), 'VALID')


def layer_norm(p, index, x):
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * p[f'layer_norm_{index}.w_0'] + p[f'layer_norm_{index}.b_0']


def batch_norm(p, index, x):
    centred = x - x.mean((0, 2, 3), keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean((0, 2, 3), keepdims=True) + 1e-5)
    return centred * scale * p[f'batch_norm2d_{index}.w_0'][:, None, None] + p[f'batch_norm2d_{index}.b_0'][:, None, None]


def mlp(p, x):
    return linear(p, 2, jax.nn.relu(linear(p, 1, jax.nn.relu(linear(p, 0, x)))))


def lenet(p, x):
    x = max_pool(jax.nn.relu(conv(p, 0, x, 1, 2)))
    x = max_pool(jax.nn.relu(conv(p, 1, x))).reshape(x.shape[0], -1)
    return mlp(p, x)


def gpt(nlayers, heads):
    def attention(p, index, x):
        batch, length, width = x.shape
        qkv = linear(p, index, x).reshape(batch, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
        mask = jnp.triu(jnp.full((length, length), -1e4), 1)
        weights = jax.nn.softmax(qkv[0] @ qkv[1].swapaxes(-1, -2) * (width // heads) ** -0.5 + mask)
        return linear(p, index + 1, (weights @ qkv[2]).transpose(0, 2, 1, 3).reshape(batch, length, width))

    def model(p, token, position):
        x = p['embedding_0.w_0'][token] + p['embedding_1.w_0'][position]
        for i in range(nlayers):
            x = x + attention(p, 4 * i, layer_norm(p, 2 * i, x))
            up = jax.nn.gelu(linear(p, 4 * i + 2, layer_norm(p, 2 * i + 1, x)), approximate=False)
            x = x + linear(p, 4 * i + 3, up)
        return linear(p, 4 * nlayers, layer_norm(p, 2 * nlayers, x))
    return model


def resnet18(p, x):
    index = 0

    def conv_norm(x, stride, padding):
        nonlocal index
        y = batch_norm(p, index, conv(p, index, x, stride, padding))
        index += 1
        return y

    x = jax.nn.relu(conv_norm(x, 1, 1))
    width = 64
    for after in [64, 64, 128, 128, 256, 256, 512, 512]:
        stride = 1 if after == width else 2
        y = conv_norm(jax.nn.relu(conv_norm(x, stride, 1)), 1, 1)
        x = jax.nn.relu(y + (x if stride == 1 else conv_norm(x, stride, 0)))
        width = after
    return linear(p, 0, x.mean((2, 3)))


MODELS = {  # model, names of the inputs and of the labels, optimizer
    'mlp': (mlp, ['x'], 'y', optax.adam(rate)),
    'lenet': (lenet, ['x'], 'y', optax.sgd(rate, 0.9)),
    'gpt_tiny': (gpt(2, 4), ['tok', 'pos'], 'lab', optax.adamw(rate, weight_decay=0.01)),
    'gpt_mini': (gpt(4, 8), ['tok', 'pos'], 'lab', optax.adamw(rate, weight_decay=0.01)),
    'resnet18': (resnet18, ['x'], 'y', optax.sgd(rate, 0.9)),
}
model, inputs, label, optimizer = MODELS[spec['model']]
x, y = [jnp.asarray(feed[name]) for name in inputs], jnp.asarray(feed[label])[..., 0]


def loss_of(p):
    return optax.softmax_cross_entropy_with_integer_labels(model(p, *x), y).mean()


def step(p, state):
    loss, grads = jax.value_and_grad(loss_of)(p)
    updates, state = optimizer.update(grads, state, p)
    return optax.apply_updates(p, updates), state, loss


step = jax.jit(step, donate_argnums=(0, 1))
trained = {n: v for n, v in params.items() if n.endswith(('.w_0', '.b_0'))}
for line in sys.stdin:
    p = {name: jnp.array(value) for name, value in trained.items()}
    state = optimizer.init(p)
    seconds, losses = [], []
    for _ in range(int(line)):
        start = time.perf_counter()
        p, state, loss = step(p, state)
        losses.append(float(loss.block_until_ready()))
        seconds.append(time.perf_counter() - start)
    print(json.dumps({'seconds': seconds, 'losses': losses}), flush=True)

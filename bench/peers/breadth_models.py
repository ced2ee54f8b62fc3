"""Small training programs of many kinds, built with Paddle's public static interface. breadth_make.py serializes them.

Each entry of PROGRAMS builds a model in the current program and returns its loss and optimizer; feeds are declared with
`feed`, which also says what their values are drawn from.
"""
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.optimizer import lr

BATCH = 8
DYNAMIC = False  # the batch is known only at run time
FEEDS = {}
PROGRAMS = {}


def program(build):
    PROGRAMS[build.__name__] = build
    return build


def feed(name, shape, high=None, low=0):
    """A feed of the batch: normal numbers, or integers from low to high."""
    FEEDS[name] = ([BATCH, *shape], low, high)
    return paddle.static.data(name, [-1 if DYNAMIC else BATCH, *shape], 'float32' if high is None else 'int64')


def class_loss(logits, classes=10):
    return F.cross_entropy(logits, feed('y', [1], classes))


def sgd(rate=0.05, **options):
    return paddle.optimizer.SGD(rate, **options)


def adam(rate=1e-3, **options):
    return paddle.optimizer.Adam(rate, **options)


def scheduled(optimizer, rate):
    """The optimizer with a rate that the program itself computes."""
    optimizer._learning_rate_map[paddle.static.default_main_program()] = rate
    return optimizer


# --- models ----------------------------------------------------------------------------------------------------------

class Attention(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.reshape([0, 0, self.heads, self.size]).transpose([0, 2, 1, 3])

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q, k, v = self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory))
        scores = paddle.matmul(q, k, transpose_y=True) * self.size ** -0.5
        weights = F.softmax(scores if mask is None else scores + mask)
        y = paddle.matmul(weights, v).transpose([0, 2, 1, 3])
        return self.out(y.reshape([0, 0, self.heads * self.size]))


class Encoder(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.up, self.down = Attention(width, heads), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@program
def vision_transformer():
    x = feed('x', [3, 16, 16])
    patches = nn.Conv2D(3, 32, 4, stride=4)(x).flatten(2).transpose([0, 2, 1])
    token = paddle.create_parameter([1, 1, 32], 'float32')
    place = paddle.create_parameter([1, 17, 32], 'float32')
    h = paddle.concat([token + paddle.zeros_like(patches[:, :1]), patches], axis=1) + place
    for _ in range(2):
        h = Encoder(32, 4)(h)
    return class_loss(nn.Linear(32, 10)(nn.LayerNorm(32)(h)[:, 0])), paddle.optimizer.AdamW(1e-3)


@program
def mobile_net():
    h = feed('x', [3, 16, 16])
    for before, after, stride in [(3, 8, 1), (8, 16, 2), (16, 16, 1)]:
        h = F.relu6(nn.BatchNorm2D(before)(nn.Conv2D(before, before, 3, stride, 1, groups=before, bias_attr=False)(h)))
        h = F.hardswish(nn.BatchNorm2D(after)(nn.Conv2D(before, after, 1, bias_attr=False)(h)))
        s = F.adaptive_avg_pool2d(h, 1)
        h = h * F.hardsigmoid(nn.Conv2D(after // 2, after, 1)(F.relu(nn.Conv2D(after, after // 2, 1)(s))))
    return class_loss(nn.Linear(16, 10)(F.adaptive_avg_pool2d(h, 1).flatten(1))), paddle.optimizer.Momentum(
        0.05, weight_decay=paddle.regularizer.L2Decay(1e-4))


@program
def residual_net():
    h = F.relu(nn.GroupNorm(4, 8)(nn.Conv2D(3, 8, 3, padding=1)(feed('x', [3, 12, 12]))))
    h = F.max_pool2d(h, 3, 2, 1)
    for before, after in [(8, 8), (8, 16)]:
        y = F.relu(nn.GroupNorm(4, after)(nn.Conv2D(before, after, 3, 1 if before == after else 2, 1)(h)))
        y = nn.GroupNorm(4, after)(nn.Conv2D(after, after, 3, padding=1)(y))
        h = F.relu(y + (h if before == after else nn.Conv2D(before, after, 1, 2)(h)))
    return class_loss(nn.Linear(16, 10)(h.mean([2, 3]))), paddle.optimizer.Momentum(0.05, use_nesterov=True)


@program
def wide_and_deep():
    dense, sparse = feed('dense', [5]), feed('sparse', [4], 50)
    deep = paddle.concat([nn.Embedding(50, 8)(sparse).flatten(1), dense], axis=1)
    for width in (37, 16):
        deep = F.relu(nn.Linear(deep.shape[1], width)(deep))
    wide = nn.Embedding(50, 1)(sparse).sum([1, 2]).unsqueeze(1)
    logit = nn.Linear(16, 1)(deep) + wide + nn.Linear(5, 1)(dense)
    label = feed('y', [1], 2).astype('float32')
    return F.binary_cross_entropy_with_logits(logit, label), paddle.optimizer.Adagrad(0.05)


@program
def factorization_machine():
    ids = feed('ids', [6], 40)
    e = nn.Embedding(40, 8)(ids)
    pairs = 0.5 * (paddle.square(e.sum(1)) - paddle.square(e).sum(1)).sum(1, keepdim=True)
    p = F.sigmoid(pairs + nn.Embedding(40, 1)(ids).sum(1))
    return F.binary_cross_entropy(p, feed('y', [1], 2).astype('float32')), adam(1e-2)


def unrolled(cell, h):
    x = feed('x', [6, 12])
    for t in range(6):
        out, h = cell(x[:, t], h)
    return class_loss(nn.Linear(16, 10)(out))


@program
def lstm():  # the batch is a number in its first state: made data-parallel, that is refused
    zero = paddle.zeros([BATCH, 16])
    return unrolled(nn.LSTMCell(12, 16), (zero, zero)), paddle.optimizer.RMSProp(1e-3)


@program
def gru():
    return unrolled(nn.GRUCell(12, 16), F.tanh(nn.Linear(3, 16)(feed('start', [3])))), paddle.optimizer.RMSProp(
        1e-3, momentum=0.9, centered=True)


@program
def simple_rnn():
    x = feed('x', [6, 12])
    cell, state = nn.SimpleRNNCell(12, 12), paddle.zeros_like(x[:, 0])
    outs = []
    for t in range(6):
        out, state = cell(x[:, t], state)
        outs.append(out)
    return class_loss(nn.Linear(12, 10)(paddle.stack(outs, 1).max(1))), sgd()


@program
def encoder_decoder():
    source, target = feed('source', [7], 30), feed('target', [5], 30)
    memory = nn.Embedding(30, 16)(source)
    for _ in range(2):
        memory = Encoder(16, 2)(memory)
    mask = paddle.triu(paddle.full([5, 5], -1e4), 1)
    h = nn.Embedding(30, 16)(target)
    h = h + Attention(16, 2)(nn.LayerNorm(16)(h), None, mask)
    h = h + Attention(16, 2)(nn.LayerNorm(16)(h), memory)
    logits = nn.Linear(16, 30)(h)
    label = F.label_smooth(F.one_hot(feed('label', [5], 30), 30), epsilon=0.1)
    return F.cross_entropy(logits, label, soft_label=True), scheduled(adam(), lr.noam_decay(16, 10))


@program
def paddle_transformer():
    layers = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0)
    h = layers(nn.Embedding(30, 16)(feed('source', [7], 30)), nn.Embedding(30, 16)(feed('target', [5], 30)))
    return F.cross_entropy(nn.Linear(16, 30)(h), feed('label', [5, 1], 30)), paddle.optimizer.Lamb(1e-3)


@program
def autoencoder():
    x = feed('x', [1, 8, 8])
    h = F.leaky_relu(nn.Conv2D(1, 4, 3, 2, 1)(x))
    h = F.elu(nn.Conv2DTranspose(4, 4, 4, 2, 1)(h))
    return F.mse_loss(F.sigmoid(nn.Conv2D(4, 1, 3, padding=1)(h)), F.sigmoid(x)), adam()


@program
def variational():
    x = feed('x', [12])
    h = F.softplus(nn.Linear(12, 16)(x))
    mean, spread = nn.Linear(16, 4)(h), nn.Linear(16, 4)(h)
    z = mean + paddle.exp(0.5 * spread) * feed('noise', [4])
    out = nn.Linear(16, 12)(F.swish(nn.Linear(4, 16)(z)))
    kl = -0.5 * paddle.sum(1 + spread - mean.square() - spread.exp(), axis=1)
    return F.smooth_l1_loss(out, x) + 0.1 * kl.mean(), adam()


@program
def upsampling_net():
    x = feed('x', [2, 8, 8])
    low = F.silu(nn.InstanceNorm2D(4)(nn.Conv2D(2, 4, 3, 2, 1)(x)))
    high = F.interpolate(low, scale_factor=2, mode='bilinear')
    near = F.interpolate(low, scale_factor=2, mode='nearest')
    logits = nn.Conv2D(8, 3, 1)(paddle.concat([high, near], 1)).transpose([0, 2, 3, 1])
    return F.cross_entropy(logits, feed('label', [8, 8, 1], 3)), adam()


@program
def mixture():
    x = feed('x', [12])
    gate = F.softmax(nn.Linear(12, 3)(x)).unsqueeze(-1)
    experts = paddle.stack([nn.Linear(12, 10)(F.relu(nn.Linear(12, 12)(x))) for _ in range(3)], axis=1)
    return class_loss((experts * gate).sum(1)), adam()


@program
def rms_norm_rope_swiglu():
    h = nn.Embedding(30, 16)(feed('tok', [6], 30))
    scale = paddle.create_parameter([16], 'float32', default_initializer=nn.initializer.Constant(1.0))
    n = h * paddle.rsqrt(paddle.mean(h * h, -1, keepdim=True) + 1e-6) * scale
    angle = paddle.outer(paddle.arange(6).astype('float32'), 1.0 / 100 ** (paddle.arange(8).astype('float32') / 8))
    a, b = paddle.chunk(n, 2, axis=-1)
    n = paddle.concat([a * paddle.cos(angle) - b * paddle.sin(angle), a * paddle.sin(angle) + b * paddle.cos(angle)], -1)
    h = h + nn.Linear(24, 16)(F.silu(nn.Linear(16, 24, bias_attr=False)(n)) * nn.Linear(16, 24)(n))
    return F.cross_entropy(nn.Linear(16, 30)(h), feed('label', [6, 1], 30)), paddle.optimizer.AdamW(1e-3)


@program
def triplet():
    x, y = feed('x', [12]), feed('z', [12])
    tower = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 8))
    a, b = tower(x), tower(y)
    near = F.cosine_similarity(a, b)
    far = paddle.norm(a - b.flip(1), axis=1)
    return (1 - near).mean() + F.relu(1.0 - far).mean(), sgd()


# --- weights used many times -----------------------------------------------------------------------------------------

@program
def tied_embedding():
    table = nn.Embedding(30, 16)
    h = F.tanh(nn.Linear(16, 16)(table(feed('tok', [6], 30))))
    logits = paddle.matmul(h, table.weight, transpose_y=True)
    return F.cross_entropy(logits, feed('label', [6, 1], 30)), adam()


@program
def one_weight_five_times():
    layer, h = nn.Linear(12, 12), feed('x', [12])
    for _ in range(5):
        h = F.tanh(layer(h))
    return class_loss(nn.Linear(12, 10)(h)), sgd()


@program
def two_losses():
    h = F.relu(nn.Linear(12, 16)(feed('x', [12])))
    first = class_loss(nn.Linear(16, 10)(h))
    second = F.l1_loss(nn.Linear(16, 3)(h), feed('t', [3]))
    return first + 0.3 * second, adam()


# --- optimizers, clips, regularizers, schedules ----------------------------------------------------------------------

def small():
    h = F.relu(nn.Linear(12, 16)(feed('x', [12])))
    return class_loss(nn.Linear(16, 10)(h))


OPTIMIZERS = {
    'sgd': sgd,
    'momentum': lambda: paddle.optimizer.Momentum(0.05),
    'momentum_nesterov_l2': lambda: paddle.optimizer.Momentum(0.05, use_nesterov=True, weight_decay=1e-3),
    'merged_momentum': lambda: paddle.optimizer.Momentum(0.05, use_multi_tensor=True),
    'adagrad': lambda: paddle.optimizer.Adagrad(0.05, initial_accumulator_value=0.1),
    'adam': adam,
    'adam_lazy': lambda: adam(lazy_mode=True),
    'adamw': lambda: paddle.optimizer.AdamW(1e-3, weight_decay=0.1, lr_ratio=None),
    'adamw_no_bias_decay': lambda: paddle.optimizer.AdamW(1e-3, apply_decay_param_fun=lambda n: '.w_' in n),
    'rmsprop': lambda: paddle.optimizer.RMSProp(1e-3, momentum=0.5),
    'lamb': lambda: paddle.optimizer.Lamb(1e-2, exclude_from_weight_decay_fn=lambda p: '.b_' in p.name),
    'adadelta': lambda: paddle.optimizer.Adadelta(0.5),
    'adamax': lambda: paddle.optimizer.Adamax(1e-3),
    'clip_value': lambda: sgd(grad_clip=nn.ClipGradByValue(0.01)),
    'clip_norm': lambda: sgd(grad_clip=nn.ClipGradByNorm(0.05)),
    'clip_global_norm': lambda: adam(grad_clip=nn.ClipGradByGlobalNorm(0.1)),
    'l1': lambda: sgd(weight_decay=paddle.regularizer.L1Decay(1e-2)),
    'l2': lambda: sgd(weight_decay=paddle.regularizer.L2Decay(1e-2)),
    'l2_and_clip': lambda: adam(weight_decay=paddle.regularizer.L2Decay(1e-2), grad_clip=nn.ClipGradByGlobalNorm(0.1)),
    'noam': lambda: scheduled(sgd(), lr.noam_decay(16, 3, 1.0)),
    'exponential': lambda: scheduled(sgd(), lr.exponential_decay(0.1, 2, 0.5, staircase=True)),
    'natural_exp': lambda: scheduled(sgd(), lr.natural_exp_decay(0.1, 2, 0.5)),
    'inverse_time': lambda: scheduled(sgd(), lr.inverse_time_decay(0.1, 2, 0.5)),
    'polynomial': lambda: scheduled(sgd(), lr.polynomial_decay(0.1, 4, 0.01, 2.0)),
    'polynomial_cycle': lambda: scheduled(sgd(), lr.polynomial_decay(0.1, 2, 0.01, 2.0, cycle=True)),
    'piecewise': lambda: scheduled(sgd(), lr.piecewise_decay([1, 3], [0.1, 0.05, 0.01])),
    'cosine': lambda: scheduled(sgd(), lr.cosine_decay(0.1, 2, 4)),
    'warmup': lambda: scheduled(sgd(), lr.linear_lr_warmup(lr.exponential_decay(0.1, 2, 0.5), 3, 0.01, 0.1)),
}


def with_optimizer(make):
    return lambda: (small(), make())


for name, make_optimizer in OPTIMIZERS.items():
    PROGRAMS[f'optimizer_{name}'] = with_optimizer(make_optimizer)

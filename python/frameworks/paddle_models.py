"""Small models of four families and a batch for each, as users write them for Paddle."""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.distributed.fleet import auto


def matmul(x, y, transpose_y=False):
    """paddle.matmul; that of 3.x takes no legacy programs."""
    if paddle.in_dynamic_mode():
        return paddle.matmul(x, y, transpose_y=transpose_y)
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper("matmul_v2", input=x)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type="matmul_v2", inputs={"X": x, "Y": y}, outputs={"Out": out},
                     attrs={"trans_x": False, "trans_y": transpose_y})
    return out


class Block(nn.Layer):
    """Attention and a feed-forward layer; causal: a position sees those before it."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        length, width = x.shape[1:]

        def split(t):
            return t.reshape([-1, length, self.heads, width // self.heads]).transpose([0, 2, 1, 3])

        h = self.norm1(x)
        q, k, v = split(self.q(h)), split(self.k(h)), split(self.v(h))
        scores = matmul(q, k, transpose_y=True) * (width // self.heads) ** -0.5
        if self.causal:
            scores = scores + paddle.assign(np.triu(np.full((1, 1, length, length), -1e4, np.float32), 1))
        h = matmul(F.softmax(scores), v).transpose([0, 2, 1, 3]).reshape([-1, length, width])
        x = x + self.out(h)
        return x + self.down(F.relu(self.up(self.norm2(x))))


class Transformer(nn.Layer):
    def __init__(self, causal, vocab=64, length=8, width=16, heads=2, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.LayerList([Block(width, heads, causal) for _ in range(layers)])
        self.norm, self.head, self.length = nn.LayerNorm(width), nn.Linear(width, vocab), length

    def forward(self, x):
        h = self.tokens(x) + self.places(paddle.zeros_like(x) + paddle.arange(self.length))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


class Lenet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2D(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2), nn.Conv2D(4, 8, 5),
                                      nn.ReLU(), nn.MaxPool2D(2))
        self.head = nn.Linear(200, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class Split(nn.Layer):
    """A model whose batch is split over the processes of a mesh."""

    def __init__(self, model, mesh):
        super().__init__()
        self.model, self.mesh = model, mesh

    def forward(self, x):
        if self.mesh is not None:
            auto.shard_tensor(x, self.mesh, ["dp"] + [None] * (len(x.shape) - 1))
        return self.model(x)


def make(name, batch=8):
    """(model, x, y): the same numbers in each process."""
    paddle.seed(7)
    random = np.random.default_rng(3)
    if name in ("gpt", "bert"):
        return Transformer(name == "gpt"), random.integers(0, 64, (batch, 8)), random.integers(0, 64, (batch, 8, 1))
    if name == "lenet":
        return Lenet(), random.standard_normal((batch, 1, 28, 28), dtype=np.float32), random.integers(0, 10, (batch, 1))
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    return model, random.standard_normal((batch, 16), dtype=np.float32), random.integers(0, 4, (batch, 1))

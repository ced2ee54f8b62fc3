"""The models of fixtures/peers in torch, with parameters taken from the serialized program's."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, width, nlayers, vocabulary, length, heads):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(nlayers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, token, position):
        return self.head(self.norm(self.layers(self.token(token) + self.position(position))))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.short = nn.Identity()
        if stride != 1 or before != after:
            self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.short(x))


class ResNet18(nn.Module):
    WIDTHS = [64, 64, 128, 128, 256, 256, 512, 512]

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        pairs = zip([64] + self.WIDTHS, self.WIDTHS)
        self.blocks = nn.Sequential(*(Residual(a, b, 1 if a == b else 2) for a, b in pairs))
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.norm(self.conv(x)))).mean((2, 3)))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


MODELS = {  # model, names of the inputs and of the labels, optimizer
    'mlp': (mlp, ['x'], 'y', 'adam'),
    'lenet': (LeNet, ['x'], 'y', 'momentum'),
    'gpt_tiny': (lambda: Gpt(64, 2, 256, 32, 4), ['tok', 'pos'], 'lab', 'adamw'),
    'gpt_mini': (lambda: Gpt(256, 4, 1000, 128, 8), ['tok', 'pos'], 'lab', 'adamw'),
    'resnet18': (ResNet18, ['x'], 'y', 'momentum'),
}
KINDS = {nn.Linear: 'linear', nn.Conv2d: 'conv2d', nn.Embedding: 'embedding', nn.LayerNorm: 'layer_norm',
         nn.BatchNorm2d: 'batch_norm2d'}


def take_params(model, params):
    """Paddle numbers layers of a kind in order of their making, and so does this: the two agree."""
    numbers = dict.fromkeys(KINDS.values(), 0)
    with torch.no_grad():
        for module in model.modules():
            kind = KINDS.get(type(module))
            if not kind:
                continue
            name = f'{kind}_{numbers[kind]}'
            numbers[kind] += 1
            weight = torch.from_numpy(params[f'{name}.w_0'])
            module.weight.copy_(weight.T if kind == 'linear' else weight)
            if getattr(module, 'bias', None) is not None:
                module.bias.copy_(torch.from_numpy(params[f'{name}.b_0']))


def optimizer(kind, model, rate):
    if kind == 'momentum':
        return torch.optim.SGD(model.parameters(), rate, 0.9, fused=True)
    make = torch.optim.AdamW if kind == 'adamw' else torch.optim.Adam
    return make(model.parameters(), rate, weight_decay=0.01 if kind == 'adamw' else 0, fused=True)

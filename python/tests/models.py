# SPDX-License-Identifier: Apache-2.0
"""Small models of the kinds that people train, and batches for them."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(w // self.heads), -1)
        return self.out((scores @ v).transpose(1, 2).reshape(b, t, w))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """Tokens to tokens; tied: the embedding's weight is that of the last layer too."""

    def __init__(self, tokens=17, length=6, width=8, layers=2, heads=2, tied=False, copied=False):
        super().__init__()
        self.copied = copied  # places as a tensor of their own: Opacus' ghost mode takes views of them
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        places = torch.arange(ids.shape[1]).expand(ids.shape[0], -1)
        x = self.tokens(ids) + self.places(places.contiguous() if self.copied else places)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Unseen(nn.Module):
    """The embedding's weight again, in a product that belongs to no module: hooks do not see it."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(7, 4)

    def forward(self, ids):
        return self.tokens(ids).mean(1) @ self.tokens.weight.T


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    )


def mlp(width=32):
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 5))


def tokens_loss(outputs, targets):
    return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def batch_for(name, count):
    g = torch.Generator().manual_seed(4)
    classes = torch.randint(0, 5, (count,), generator=g)
    if name == "cnn":
        return torch.randn(count, 1, 8, 8, generator=g) * 2, classes
    if name == "mlp":
        return torch.randn(count, 20, generator=g) * 2, classes
    ids = torch.randint(0, 17, (count, 7), generator=g)
    return ids[:, :-1], ids[:, 1:]


#: name: (model, loss)
ALL = {
    "cnn": (cnn, None),
    "mlp": (mlp, None),
    "transformer": (Transformer, tokens_loss),
    "tied transformer": (lambda: Transformer(tied=True), tokens_loss),
}

# SPDX-License-Identifier: Apache-2.0
"""Verses of the King James Bible as Debian's package bible-kjv-text ships them, and a small transformer that spells them.

The file is a header, big-endian numbers (the count of windows at byte 88, their offsets from byte 92 on), and windows of 64 KiB
of text, each an LZW stream of compress(1) without its three bytes of header; gzip reads them when they are put back. A line of the
text is "Ge1:1 In the beginning ...". The translation is of 1611 and in the public domain (the package's copyright file: expired; in
the United Kingdom the Crown's letters patent on printing it remain).

One verse is one example and one privacy unit: its first LENGTH characters in lower case, then END. A model reads the characters so far
and predicts the next one.
"""

import pathlib
import struct
import subprocess

import torch

DATA = pathlib.Path("/usr/lib/bible.data")
ALPHABET = "\n abcdefghijklmnopqrstuvwxyz,.;:'?!-()"  # the first is END, and START in front
LENGTH, WIDTH, HEADS = 48, 32, 2
IGNORED = -100  # cross_entropy ignores these places, those after END


def read_verses(path=DATA):
    """The text of every verse, in the order of the book."""
    raw = path.read_bytes()
    (windows,) = struct.unpack_from(">I", raw, 88)
    offsets = [*struct.unpack_from(">%dI" % windows, raw, 92), len(raw)]
    text = b"".join(
        subprocess.run(["gzip", "-dc"], input=b"\x1f\x9d\x90" + raw[start:end], stdout=subprocess.PIPE, check=True).stdout
        for start, end in zip(offsets, offsets[1:])
    ).decode("ascii")
    return [line.partition(" ")[2] for line in text.splitlines()[1:] if line]


def encode(verses):
    """(characters before, characters to predict): two tensors of len(verses) x LENGTH."""
    number = {letter: index for index, letter in enumerate(ALPHABET)}
    before = torch.zeros(len(verses), LENGTH, dtype=torch.long)
    after = torch.full((len(verses), LENGTH), IGNORED, dtype=torch.long)
    for row, verse in enumerate(verses):
        letters = [number[c] for c in verse.lower() if c in number][:LENGTH]
        before[row, 1 : len(letters) + 1] = torch.tensor(letters[: LENGTH - 1])
        wanted = [*letters, 0][:LENGTH]
        after[row, : len(wanted)] = torch.tensor(wanted)
    return before, after


class Speller(torch.nn.Module):
    """One block of causal attention and one hidden layer, each added to what came before."""

    def __init__(self):
        super().__init__()
        self.letters = torch.nn.Embedding(len(ALPHABET), WIDTH)
        self.places = torch.nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(WIDTH) for _ in range(3)])
        self.attend = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = torch.nn.Linear(WIDTH, WIDTH)
        self.hidden = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.back = torch.nn.Linear(2 * WIDTH, WIDTH)
        self.out = torch.nn.Linear(WIDTH, len(ALPHABET))
        self.register_buffer("later", torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1))

    def forward(self, letters):
        x = self.letters(letters) + self.places
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for part in self.attend(self.norms[0](x)).chunk(3, -1)
        )
        weights = torch.softmax(query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5 + self.later, -1)
        x = x + self.mix((weights @ value).transpose(-2, -3).flatten(-2))
        x = x + self.back(torch.relu(self.hidden(self.norms[1](x))))
        return self.out(self.norms[2](x))


def loss_of(outputs, after):
    return torch.nn.functional.cross_entropy(outputs.flatten(0, -2), after.flatten(), ignore_index=IGNORED)

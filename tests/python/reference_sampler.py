#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The batches of samplers, implemented again from docs/samplers.md, unit by unit and one word at a time.

    reference_sampler.py > tests/data/sampler_vectors.csv      known-answer vectors (needs numpy, by way of reference_seed.py)
    reference_sampler.py check tests/data/sampler_vectors.csv  makes them again; exit 1 if a line differs

Lines:  KEY;TEXT;UNITS;LABEL;STEP;OFFERED;BATCH    the key in hexadecimal; OFFERED: "all" or units; units joined by blanks
"""
import hashlib
import hmac
import math
import struct
import sys
from fractions import Fraction

from reference_seed import encrypt, expand

JOIN, ORDER, BIN, PRIORITY = range(4)


def subkey(key, text, units, label):
    info = f"{text}/{units}"
    if label:
        info += "/" + hashlib.sha256(label.encode()).hexdigest()
    prk = hmac.new(b"dpmf subkeys 1", key, hashlib.sha256).digest()
    return hmac.new(prk, b"dpmf sampler 1\0" + info.encode() + b"\1", hashlib.sha256).digest()


class Words:
    def __init__(self, key):
        self.rounds, self.blocks = expand(key), {}

    def word(self, use, row, index):
        at = struct.pack("<QQ", index // 2, use << 60 | row)
        if at not in self.blocks:
            self.blocks[at] = struct.unpack("<QQ", encrypt(self.rounds, at))
        return self.blocks[at][index % 2]

    def shuffle(self, row, count):
        order, index = list(range(count)), 0
        for i in reversed(range(1, count)):
            j = i + 1
            while j > i:
                j = self.word(ORDER, row, index) & ((1 << i.bit_length()) - 1)
                index += 1
            order[i], order[j] = order[j], order[i]
        return order

    def bin(self, unit, bins):
        attempt, value = 0, bins
        while value >= bins:
            value = self.word(BIN, attempt, unit) & ((1 << (bins - 1).bit_length()) - 1)
            attempt += 1
        return value


def threshold(probability, factor=1):
    """The largest T with T/2^64 <= the largest double that is not above min(1, probability x factor)."""
    exact = Fraction(probability) * factor
    p = float(exact)
    if Fraction(p) > exact:
        p = math.nextafter(p, 0)
    return min(math.floor(Fraction(p) * 2**64), 2**64)


def batches(words, text, units, offers):
    """The batch of each step; offers: None for all units, or a list of them, one for each step."""
    name, values = text.split(":")
    values = values.split(",")
    free, joined = [0] * units, [0] * units
    blocks = words.shuffle(0, units) if name == "block-cyclic" else None
    for t, offer in enumerate(offers):
        if name in ("cyclic", "shuffled"):
            m = int(values[0])
            b = -(-units // m)
            order = words.shuffle(t // b, units) if name == "shuffled" else list(range(units))
            yield sorted(order[t % b * m : (t % b + 1) * m])
        elif name == "poisson":
            yield [u for u in range(units) if words.word(JOIN, t, u) < threshold(float(values[0]))]
        elif name == "block-cyclic":
            b = int(values[1])
            block = sorted(blocks[t % b :: b])
            limit = threshold(float(values[0]), b)
            yield [u for i, u in enumerate(block) if words.word(JOIN, t, i) < limit]
        elif name == "balls-in-bins":
            b = int(values[0])
            yield [u for u in range(units) if words.bin(u, b) == t % b]
        elif name == "min-sep":
            limit = threshold(float(values[0]))
            batch = [u for u in range(units) if free[u] <= t and words.word(JOIN, t, u) < limit]
            for u in batch:
                free[u] = t + int(values[1])
            yield batch
        elif name == "scheduled":
            m, k, b = map(int, values)
            able = [u for u in (range(units) if offer is None else offer) if joined[u] < k and free[u] <= t]
            able.sort(key=lambda u: (joined[u], words.word(PRIORITY, t, u), u))
            for u in able[:m]:
                joined[u] += 1
                free[u] = t + b
            yield sorted(able[:m])


KEYS = [bytes(range(32)), bytes(255 - 7 * i & 255 for i in range(32))]
CASES = [
    ("cyclic:8", 30, "", 9), ("shuffled:8", 30, "", 9), ("shuffled:30", 30, "", 2), ("shuffled:1", 7, "again", 15),
    ("poisson:0.3", 40, "", 6), ("poisson:1", 5, "", 2), ("poisson:0.1", 41, "a label", 6),
    ("block-cyclic:0.15,3", 40, "", 9), ("block-cyclic:0.1,11", 40, "x", 12), ("block-cyclic:0.25,2", 9, "", 4),
    ("balls-in-bins:5", 40, "", 10), ("balls-in-bins:1", 4, "", 2), ("balls-in-bins:8", 33, "x", 8),
    ("min-sep:0.4,3", 30, "", 12), ("min-sep:1,2", 6, "", 4), ("min-sep:0.2,7", 25, "x", 10),
    ("scheduled:4,3,3", 17, "", 14), ("scheduled:5,2,4", 16, "x", 8),
]  # fmt: skip


def lines():
    for key in KEYS:
        for text, units, label, steps in CASES:
            yield from sampler_lines(key, text, units, label, [None] * steps)
        offers = [[u for u in range(20) if (3 * u + 5 * t) % 7 < 3] for t in range(12)]
        offers[5] = []
        yield from sampler_lines(key, "scheduled:4,3,2", 20, "offers", offers)


def sampler_lines(key, text, units, label, offers):
    words = Words(subkey(key, text, units, label))
    for t, batch in enumerate(batches(words, text, units, offers)):
        offered = "all" if offers[t] is None else " ".join(map(str, offers[t]))
        yield f"{key.hex()};{text};{units};{label};{t};{offered};{' '.join(map(str, batch))}"


if __name__ == "__main__":
    made = list(lines())
    if sys.argv[1:2] == ["check"]:
        with open(sys.argv[2], encoding="ascii") as file:
            sys.exit(0 if file.read().splitlines() == made else f"{sys.argv[2]} differs from what is made here")
    print("\n".join(made))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exactly rounded normal numbers in arithmetic of 400 bits (mpmath), from docs/exactness.md alone.

    reference_whole.py > tests/data/whole_vectors.csv      known answers (needs mpmath; about ten seconds)
    reference_whole.py check N                             N numbers of `$DPMF noise --release exact`, independent noise, made again
                                                           from the key on (needs openssl; 10^6: some minutes)

Lines:  RADIUS WORD;ANGLE WORD;STREAM;SCALE;X;Y      words and stream in hexadecimal, the scale as C's %a, X and Y in decimal.
Further bits of a word are those of SplitMix64: block i of the radius starts at 1000 STREAM + i, of the angle at 1000 STREAM + 100 + i.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import mpmath as mp

from reference_seed import seed_key, testing_key

mp.mp.prec = 400
MASK = 2**64 - 1
BLOCKS = 6  # 128 bits each, behind the 64 of the word: 832 bits


def splitmix(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return state, z ^ z >> 31


def extended(word, start):
    bits = word
    for i in range(BLOCKS):
        state, first = splitmix((start + i) & MASK)
        state, second = splitmix(state)
        bits = bits << 128 | first << 64 | second
    return bits


def pair(radius, angle, count, scale):
    """floor(scale X + 1/2) and the same of Y; radius and angle are integers of `count` bits: a real number's first ones."""
    u = mp.mpf(radius) / mp.mpf(2) ** count
    low = angle % 2 ** (count - 2)
    if low >= 2 ** (count - 3):
        low -= 2 ** (count - 2)
    t = mp.mpf(low) / mp.mpf(2) ** (count - 3)
    r = mp.sqrt(-2 * mp.log(u))
    a, b = r * mp.sin(mp.pi * t / 4), r * mp.cos(mp.pi * t / 4)
    if angle >> (count - 1):
        b = -b
    x, y = (a, b) if angle >> (count - 2) & 1 else (b, a)
    scale = mp.mpf(scale)
    return tuple(int(mp.floor(scale * v + mp.mpf(1) / 2)) for v in (x, y))


def cases():
    draw = random.Random(20)
    scales = [1.5, float.fromhex("0x1.23456789abcdep35"), 2.0**-10, 2.0**45, 2.0**36, 0.7]
    for i in range(2000):
        yield draw.getrandbits(64), draw.getrandbits(64), scales[i % len(scales)]
    for e in range(64):
        for k in ((1 << e) - 1, 1 << e, (1 << e) + 12345):
            k = min(k, MASK)
            for radius, angle in ((k, draw.getrandbits(64)), (MASK - k, draw.getrandbits(64)), (draw.getrandbits(64), k),
                                  (draw.getrandbits(64), MASK - k), (draw.getrandbits(64), (2**62 + k) & MASK),
                                  (k, (2**61 + k) & MASK), (MASK - k, (2**61 - 1 - k) & MASK)):
                yield radius, angle, scales[e % 5]


def undecided():
    """Words whose number is so near to a boundary that double arithmetic cannot decide: a scale is made for them."""
    draw = random.Random(21)
    for i in range(600):
        radius, angle = draw.getrandbits(64) | 2**60, draw.getrandbits(64)
        bits = extended(radius, 0), extended(angle, 0)  # only to find the scale; the stream of the line is another
        count = 64 + 128 * BLOCKS
        u = mp.mpf(bits[0]) / mp.mpf(2) ** count
        t = mp.mpf(angle % 2**62 - (2**62 if angle >> 61 & 1 else 0)) / 2**61
        x = mp.sqrt(-2 * mp.log(u)) * mp.cos(mp.pi * t / 4)
        k = int(x * 2**35) + draw.getrandbits(20)
        scale = float((k + mp.mpf(1) / 2) / x)  # scale x is half-way between two whole numbers but for the rounding of scale
        yield radius, angle, scale


def write():
    for stream, (radius, angle, scale) in enumerate(list(cases()) + list(undecided()), 1):
        x, y = pair(extended(radius, 1000 * stream), extended(angle, 1000 * stream + 100), 64 + 128 * BLOCKS, scale)
        print("%x;%x;%x;%s;%d;%d" % (radius, angle, stream, scale.hex(), x, y))


# ---- the program's own rows ----
def encrypted(key, counters):
    """AES-256 of (index, domain, row), by the openssl program: far faster than Python, and not our kernels."""
    blocks = b"".join(struct.pack("<QQ", index, domain << 60 | row) for index, domain, row in counters)
    out = subprocess.run(["openssl", "enc", "-aes-256-ecb", "-nopad", "-K", key.hex()], input=blocks, stdout=subprocess.PIPE,
                         check=True).stdout
    return struct.unpack("<%dQ" % (len(out) // 8), out)


def row_of(key, row, dim, scale):
    """Row `row` in grid steps: words in units of 16, eight radii and eight angles, each with 128 bits more."""
    words = encrypted(key, [(i, 4, row) for i in range(dim // 2)])
    more = encrypted(key, [(16 * word, 5, row) for word in range(dim)])
    bits = [words[i] << 128 | more[2 * i] << 64 | more[2 * i + 1] for i in range(dim)]
    out = [0] * dim
    for unit in range(0, dim, 16):
        for lane in range(unit, unit + 8):
            out[lane], out[lane + 8] = pair(bits[lane], bits[lane + 8], 192, scale)
    return out


def check(count):
    dim, program = 1600, os.environ.get("DPMF", "dpmf")
    rows = (count + dim - 1) // dim
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        file, out = os.path.join(folder, "m"), os.path.join(folder, "rows")
        subprocess.run([program, "evaluate", "--steps", str(rows), "--family", "identity", "--out", file], check=True,
                       stdout=subprocess.DEVNULL)
        said = json.loads(subprocess.run(
            [program, "noise", "--uncalibrated", file, "--dim", str(dim), "--rows", "0:%d" % rows, "--testing-seed", "11", "--release", "exact", "--json",
             "--out", out], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
        with open(out, "rb") as data:
            found = data.read()
        key = seed_key(testing_key(11), said["digest"], "float64", dim, grid=said["grid"])
        scale = said["scale"] / said["grid"]
        for row in range(rows):
            got = struct.unpack_from("<%dd" % dim, found, 8 * row * dim)
            wrong += sum(x / said["grid"] != y for x, y in zip(got, row_of(key, row, dim, scale)))
    print("%d numbers, %d wrong" % (rows * dim, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        sys.exit(check(int(sys.argv[2])))
    write()

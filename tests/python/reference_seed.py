#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The seed stream, implemented again from docs/noise.md: AES-256 in plain Python, numbers by numpy's IEEE scalars.

    reference_seed.py > tests/data/seed_vectors.csv     known-answer vectors (needs numpy; about ten seconds)
    reference_seed.py check tests/data/seed_vectors.csv recomputes a file of them; exit 1 and a line for each that differs
    reference_seed.py identity DIGEST                   the SHA-256 that tests/cli/test_noise_bits.py knows for independent noise;
                                                        DIGEST is its mechanism's (about ten seconds)

Lines:  KEY;float32 or float64;ROW;COORDINATE;BITS      all but the names in hexadecimal (bits) or decimal (row, coordinate)
"""
import hashlib
import hmac
import struct
import sys

import numpy as np

F, D = np.float32, np.float64
np.seterr(all="raise", under="ignore")


# ---- keys (RFC 5869) ----
def hkdf(secret, label, info):
    inner = hmac.new(b"dpmf subkeys 1", secret, hashlib.sha256).digest()
    return hmac.new(inner, label + b"\0" + info + b"\1", hashlib.sha256).digest()


def testing_key(seed):
    return hkdf(struct.pack("<Q", seed) + bytes(24), b"dpmf testing key 1, not private", b"")


def seed_key(key, digest, precision, dim, clip=1.0, sigma=1.0, grid=0.0, label="", salt=bytes(32)):
    """The key of a stream's seeds, as docs/noise.md has it."""
    name = hashlib.sha256(label.encode()).hexdigest() if label else ""
    numbers = [struct.pack(">d", number).hex() for number in (clip, sigma, grid)]
    return hkdf(key, b"dpmf noise stream 2", "/".join([digest, name, precision, str(dim), *numbers, salt.hex()]).encode())


# ---- AES-256 (FIPS 197), from its definition ----
def times2(a):
    return (a << 1 ^ 0x1B) & 0xFF if a & 0x80 else a << 1


def field_product(a, b):
    out = 0
    while b:
        if b & 1:
            out ^= a
        a, b = times2(a), b >> 1
    return out


def make_sbox():
    box = []
    for a in range(256):
        inverse = next((b for b in range(256) if field_product(a, b) == 1), 0)
        out = 0x63
        for turn in range(5):
            out ^= (inverse << turn | inverse >> (8 - turn)) & 0xFF
        box.append(out)
    return box


SBOX = make_sbox()


def expand(key):
    words = [list(key[4 * i : 4 * i + 4]) for i in range(8)]
    constant = 1
    for i in range(8, 60):
        word = list(words[-1])
        if i % 8 == 0:
            word = [SBOX[b] for b in word[1:] + word[:1]]
            word[0] ^= constant
            constant = times2(constant)
        elif i % 8 == 4:
            word = [SBOX[b] for b in word]
        words.append([a ^ b for a, b in zip(words[i - 8], word)])
    return [sum(words[4 * r : 4 * r + 4], []) for r in range(15)]


def encrypt(rounds, block):
    state = [a ^ b for a, b in zip(block, rounds[0])]
    for r in range(1, 15):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if r < 14:
            mixed = []
            for c in range(0, 16, 4):
                column = state[c : c + 4]
                for i in range(4):
                    a, b, x, y = (column[(i + j) % 4] for j in range(4))
                    mixed.append(times2(a) ^ times2(b) ^ b ^ x ^ y)
            state = mixed
        state = [a ^ b for a, b in zip(state, rounds[r])]
    return bytes(state)


assert encrypt(expand(bytes(range(32))), bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == \
    "8ea2b7ca516745bfeafc49904b496089"  # FIPS 197, C.3

FLOATS, DOUBLES, FLOATS_MORE, DOUBLES_MORE = range(4)


class Stream:
    def __init__(self, key):
        self.rounds, self.blocks = expand(key), {}

    def block(self, domain, row, index):
        at = struct.pack("<QQ", index, domain << 60 | row)
        if at not in self.blocks:
            self.blocks[at] = encrypt(self.rounds, at)
        return self.blocks[at]

    def words(self, coordinate, row, domain):
        """Radius word, angle word, number of the radius word in the stream, and whether Y is wanted."""
        size, half = (4, 16) if domain == FLOATS else (8, 8)
        unit, place = divmod(coordinate, 2 * half)
        per_block = 16 // size

        def word(i):
            index, offset = divmod(i, per_block)
            data = self.block(domain, row, 8 * unit + index)[offset * size : (offset + 1) * size]
            return int.from_bytes(data, "little")

        lane = place % half
        return word(lane), word(half + lane), 8 * per_block * unit + lane, place >= half

    def float32(self, row, coordinate):
        w, a, number, want_y = self.words(coordinate, row, FLOATS)
        if w >= 1 << 20:
            n = 32 - w.bit_length()
            f, two = F((w << n) - (1 << 32)), F(2.0**33)
        else:
            e0, e1 = struct.unpack("<II8x", self.block(FLOATS_MORE, row, number))
            u = (F(w) * F(2.0**24) + F(e0 >> 8)) * F(2.0**24) + (F(e1 >> 8) + F(0.5))
            n = 80 - int(np.frexp(u)[1])
            f, two = F(np.ldexp(u, n - 80)) - F(1), F(2)
        s = f / (f + two)
        ss = s * s
        log = polynomial(F, ss, "-0x1.5c42ccp-1 -0x1.95d66ap-1 -0x1.555e64p+0 -0x1p+2") * s
        radius = np.sqrt(F(n) * hexed(F, "0x1.62e43p+0") + log)
        t = F(signed(a << 2 | 2, 32)) * F(2.0**-31)
        z = t * t
        sine = t * polynomial(F, z, "-0x1.33198ep-15 0x1.4680a4p-9 -0x1.4abc24p-4 0x1.921fb6p-1")
        cosine = polynomial(F, z, "-0x1.4e99f2p-12 0x1.03b116p-6 -0x1.3bd3a0p-2 0x1p+0")
        return pair(radius * sine, radius * cosine, a >> 31 & 1, a >> 30 & 1)[want_y]

    def float64(self, row, coordinate):
        w, a, number, want_y = self.words(coordinate, row, DOUBLES)
        root2 = 2.0**0.5
        if w >= 1 << 49:
            n = to_near_one(D(w >> 1), 63, root2)
            f, two = D(signed(w << n, 64)), D(2.0**65)
        else:
            e = int.from_bytes(self.block(DOUBLES_MORE, row, number)[:8], "little")
            u = D(w) * D(2.0**64) + (D(e >> 32) * D(2.0**32) + (D(e & 0xFFFFFFFF) + D(0.5)))
            n = to_near_one(u, 128, root2)
            f, two = D(np.ldexp(u, n - 128)) - D(1), D(2)
        s = f / (f + two)
        ss = s * s
        log = polynomial(D, ss, "-0x1.2f0255e8bfa3bp-2 -0x1.39a20b4e10a21p-2 -0x1.74663ba5b4344p-2 -0x1.c71c521a1216ap-2 "
                                "-0x1.24924941db4cep-1 -0x1.999999997ff63p-1 -0x1.5555555555592p+0 -0x1p+2") * s
        radius = np.sqrt(D(n) * hexed(D, "0x1.62e42fefa39efp+0") + log)
        t = D(signed(a << 2 | 2, 64)) * D(2.0**-63)
        z = t * t
        sine = t * polynomial(D, z, "0x1.dfc5c7360ca54p-38 -0x1.e2f3f1185e1edp-30 0x1.507821d503f76p-22 "
                                    "-0x1.32d2ccd46a5ddp-15 0x1.466bc6774afcfp-9 -0x1.4abbce625bdaep-4 "
                                    "0x1.921fb54442d18p-1")
        cosine = polynomial(D, z, "-0x1.aedc4d888f7c3p-42 0x1.f9c03bb2da9f5p-34 -0x1.a6d1dc96769a5p-26 "
                                  "0x1.e1f5066eec628p-19 -0x1.55d3c7e3bc17cp-12 0x1.03c1f081b5a39p-6 "
                                  "-0x1.3bd3cc9be45dep-2 0x1p+0")
        return pair(radius * sine, radius * cosine, a >> 63 & 1, a >> 62 & 1)[want_y]


def hexed(kind, text):
    out = kind(float.fromhex(text))
    assert float(out) == float.fromhex(text)
    return out


def polynomial(kind, z, coefficients):
    """Horner, highest power first, every product and sum rounded."""
    out = None
    for text in coefficients.split():
        c = hexed(kind, text)
        out = c if out is None else out * z + c
    return out


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def to_near_one(u, scale, root2):
    """The largest n with 2^n u <= 2^scale sqrt 2, both as doubles."""
    n = 0
    while D(np.ldexp(u, n + 1)) <= D(np.ldexp(root2, scale)):
        n += 1
    return n


def pair(rs, rc, negative, swap):
    rc = -rc if negative else rc
    return (rs, rc) if swap else (rc, rs)


def bits(value):
    return format(int.from_bytes(value.tobytes(), "little"), "08x" if value.dtype == F else "016x")


KEYS = [bytes(range(32)), bytes(32), bytes(255 - 7 * i & 255 for i in range(32))]


def cases():
    for key in KEYS:
        for row in (0, 1, 12345, (1 << 60) - 1):
            for first, count in ((0, 32), (100, 3), ((1 << 34) + 17, 2), ((1 << 63) + 5, 2)):
                for coordinate in range(first, first + count):
                    yield key, row, coordinate


def small_words(stream, kind, wanted, start):
    """Coordinates whose radius word is small."""
    domain, half, bound = (FLOATS, 16, 1 << 20) if kind == "float32" else (DOUBLES, 8, 1 << 49)
    coordinate, found = start, []
    while len(found) < wanted:
        if coordinate % (2 * half) < half and stream.words(coordinate, 0, domain)[0] < bound:
            found += [coordinate, coordinate + half]
        coordinate += 1
    return found


def write():
    streams = {key: Stream(key) for key in KEYS}
    for kind in ("float32", "float64"):
        for key, row, coordinate in cases():
            print(f"{key.hex()};{kind};{row};{coordinate};{bits(getattr(streams[key], kind)(row, coordinate))}")
    for kind, places in SMALL.items():
        for coordinate in places:
            print(f"{KEYS[0].hex()};{kind};0;{coordinate};{bits(getattr(streams[KEYS[0]], kind)(0, coordinate))}")


# Where key 0, row 0 has small radius words, and the other number of the pair; small_words finds them, slowly.
SMALL = {
    "float32": [1674, 1690, 3590, 3606, 33478, 33494, 47468, 47484, 47813, 47829],
    "float64": [158417, 158425, 247280, 247288, 271558, 271566, 281760, 281768],
}


def check(path):
    streams, wrong = {}, 0
    for line in open(path, encoding="ascii"):
        key, kind, row, coordinate, want = line.strip().split(";")
        stream = streams.setdefault(key, Stream(bytes.fromhex(key)))
        got = bits(getattr(stream, kind)(int(row), int(coordinate)))
        if got != want:
            print(f"{line.strip()} but {got}")
            wrong += 1
    return wrong


def identity(digest):
    stream, whole = Stream(seed_key(testing_key(5), digest, "float32", 1000)), hashlib.sha256()
    for row in range(30):
        whole.update(b"".join(stream.float32(row, i).tobytes() for i in range(1000)))
    return whole.hexdigest()


if __name__ == "__main__":
    if sys.argv[1:2] == ["identity"]:
        sys.exit(print(identity(sys.argv[2])))
    if sys.argv[1:2] == ["check"]:
        sys.exit(1 if check(sys.argv[2]) else 0)
    write()

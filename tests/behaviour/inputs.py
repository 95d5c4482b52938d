#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The input files that commands.txt starts from: the same bytes in every scratch directory.

Imported by compare.py. As a program it changes one number of a mechanism file and makes the digest fit
again, which no option of dpmf does:  inputs.py tamper IN OUT KEY FACTOR
"""
import gzip
import hashlib
import json
import os
import random
import re
import struct
import sys

SMALL = 9  # the steps of most small mechanisms, and so the length of their arrays


def npy(values, shape=None, kind="<f8"):
    """The bytes of a .npy file, version 1."""
    shape = (len(values),) if shape is None else shape
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ", ".join(map(str, shape)))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    body = struct.pack("<%d%s" % (len(values), {"<f8": "d", "<f4": "f"}[kind]), *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


def arrays():
    n = range(SMALL)
    lower = [float(i >= j) + (i == j) for i in n for j in n]
    return {
        "rates9.npy": npy([1.0 + 0.1 * t for t in n]),
        "rates9-f4.npy": npy([1.0 + 0.5 * t for t in n], kind="<f4"),
        "rates50.npy": npy([1.0 - 0.01 * t for t in range(50)]),
        "growing500.npy": npy([10.0 ** min(29, t) for t in range(500)]),
        "weights9.npy": npy([float(t) for t in n]),
        "other-weights9.npy": npy([float(t) for t in range(8)] + [1.0]),
        "negative9.npy": npy([-1.0] * SMALL),
        "matrix9.npy": npy(lower, (SMALL, SMALL)),
        "upper9.npy": npy([float(i <= j) for i in n for j in n], (SMALL, SMALL)),
        "nan9.npy": npy([float("nan")] * SMALL),
        "short.npy": npy([1.0] * SMALL)[:-3],
        "coefficients.npy": npy([1.0, 0.5, 0.25]),
    }


def parameters():
    lower = [[float(i >= j) for j in range(SMALL)] for i in range(SMALL)]
    return {
        "coefficients.json": json.dumps({"coefficients": [1, 0.5, 0.25]}),
        "inverse.json": json.dumps({"inverse_coefficients": [1, -0.5]}),
        "diagonals9.json": json.dumps({"diagonals": [[2.0] * SMALL, [1.0] * (SMALL - 1)]}),
        "dense9.json": json.dumps({"matrix": lower}),
        "blt.json": json.dumps({"scale": [0.25, 0.125], "decay": [0.5, 0.96875]}),
        "bad-blt.json": json.dumps({"scale": [0.5], "decay": [1.0]}),
        "zero.json": '{"coefficients": [0, 1]}',
        "unknown-key.json": '{"x": [1]}',
        "broken.json": '{"coefficients": [1, 0.5',
        "words.json": '{"coefficients": ["1"]}',
    }


def table(count, seed, users=0):
    """CSV of points in the square, their class the quadrant."""
    numbers = random.Random(seed)
    lines = ["x,y,label" + (",who" if users else "")]
    for _ in range(count):
        x, y = numbers.uniform(-1, 1), numbers.uniform(-1, 1)
        user = ",u%d" % numbers.randrange(users) if users else ""
        lines.append("%.6f,%.6f,%d%s" % (x, y, (x > 0) + 2 * (y > 0), user))
    return "\n".join(lines) + "\n"


def tables():
    head = "client,round\n"
    return {
        "train.csv": table(600, 1), "test.csv": table(200, 2),
        "users.csv": table(600, 1, 40), "users-test.csv": table(99, 2, 9),
        "nan.csv": "x,y,label\n1,nan,0\n", "no-label.csv": "x,y\n1,2\n", "ragged.csv": "x,y,label\n1,2,0\n1,2\n",
        "one-feature.csv": "x,label\n1,0\n", "turned.csv": "y,x,label\n1,2,0\n", "few.csv": "x,y,label\n1,2,0\n2,1,3\n",
        "log.csv": head + "a,0\nb,1\nb,20\n", "log-broken.csv": head + "".join("a,%d\n" % t for t in range(10)),
        "log-worst.csv": head + "a,0\na,5\na,10\na,15\nb,3\n", "log-head.csv": "round,client\n0,a\n",
        "log-empty.csv": head, "log-late.csv": head + "a,0\nb,40\n", "log-twice.csv": head + "a,1\nb,2\nb,2\n",
        "log-columns.csv": head + "a,1,2\n", "log-space.csv": head + " a,1\n", "log-quotes.csv": head + '"a",1\n',
        "numbers.txt": "".join("%d\n" % (3 * t % 11) for t in range(SMALL)),
        "pairs.txt": "".join("%d,%g\n" % (t, -0.5 * t) for t in range(SMALL)),
        "too-many.txt": "1\n" * (SMALL + 3), "bad-line.txt": "1\n2\nx\n4\n",
    }


def images(count, seed):
    """The IDX bytes of `count` images of 4 x 4 and of their labels: a bright half for class 1."""
    numbers = random.Random(seed)
    labels = [numbers.randrange(2) for _ in range(count)]
    pixels = [numbers.randrange(120) + 130 * (label == (place >= 8)) for label in labels for place in range(16)]
    return (struct.pack(">4I", 0x803, count, 4, 4) + bytes(pixels), struct.pack(">2I", 0x801, count) + bytes(labels))


def idx_files():
    """Plain training files, compressed test files, so that both ways of reading are used."""
    train, test = images(120, 5), images(40, 6)
    return {
        "idx/train-images-idx3-ubyte": train[0], "idx/train-labels-idx1-ubyte": train[1],
        "idx/t10k-images-idx3-ubyte.gz": gzip.compress(test[0], mtime=0),
        "idx/t10k-labels-idx1-ubyte.gz": gzip.compress(test[1], mtime=0),
        "idx-broken/train-images-idx3-ubyte": train[0][:-5], "idx-broken/train-labels-idx1-ubyte": train[1],
        "idx-broken/t10k-images-idx3-ubyte": test[0], "idx-broken/t10k-labels-idx1-ubyte": test[1],
    }


def broken_mechanisms():
    return {
        "empty.dpmf": b"", "zeros.dpmf": bytes(1000), "junk.dpmf": b"junk", "braces.dpmf": b"\x02" + bytes(7) + b"{}",
        "huge-header.dpmf": (2 ** 63 - 1).to_bytes(8, "little") + bytes(100), "escape.dpmf": b"dpmf: \x1b[31m\n" * 50,
    }


def keys():
    """Keys that are no secret, so that noise is repeatable; a short one; one that everybody may read."""
    key = {name: hashlib.sha256(name.encode()).digest() for name in ("run.key", "other.key", "open.key")}
    return {**key, "short.key": b"x" * 31}


def write_inputs(directory):
    """Writes every input file below `directory`. Modes do not depend on the caller's umask."""
    secret = keys()
    for name, content in {**arrays(), **parameters(), **tables(), **idx_files(), **broken_mechanisms(), **secret}.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, 0o600 if name in secret and name != "open.key" else 0o644)


def digest(text, header, body):
    """The digest of a mechanism file: its description, then every array with its name and shape."""
    state = hashlib.sha256(text.encode())
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        shape = entry["shape"]
        state.update(name.encode() + b"\0" + struct.pack("<%dq" % (1 + len(shape)), len(shape), *shape) + body[begin:end])
    return state.hexdigest()


def tamper(content, key, factor):
    """A mechanism file with the first number called `key` multiplied, and a digest that fits."""
    size, = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8:8 + size]), content[8 + size:]
    text = header.pop("__metadata__")["dpmf"]
    text = re.sub(r'("%s":)([-+.e\d]+)' % re.escape(key), lambda m: m[1] + repr(float(m[2]) * factor), text, count=1)
    made = {"__metadata__": {"dpmf": text, "sha256": digest(text, header, body)}, **header}
    packed = json.dumps(made, separators=(",", ":"), ensure_ascii=False).encode()
    packed += b" " * (-len(packed) % 8)
    return struct.pack("<Q", len(packed)) + packed + body


def main(arguments):
    if len(arguments) != 5 or arguments[0] != "tamper":
        sys.exit(__doc__)
    with open(arguments[1], "rb") as source:
        content = tamper(source.read(), arguments[3], float(arguments[4]))
    with open(arguments[2], "wb") as target:
        target.write(content)


if __name__ == "__main__":
    main(sys.argv[1:])

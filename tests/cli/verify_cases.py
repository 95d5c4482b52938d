# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of verify: mechanism files taken apart, changed by one number, and put together again."""
import copy
import hashlib
import json
import random
import re
import struct

from harness import Case, run

KEYS = ["schema", "version", "ok", "checks"]
CHECK_KEYS = ["name", "ok", "claimed", "found", "tolerance", "how"]
WHOLE = {"format_version", "steps", "stamps", "branching", "best", "bands", "rank", "buffers", "nodes", "count", "order", "period",
         "shared_seeds", "dim", "memory", "separation_high"}  # others: doubles
CHANGE = 1e-6
EPSILON, DELTA = 2.0, 1e-5


def digits(value):
    """The fewest digits that give the double back, as the file has them."""
    return next(text for text in ("%.*g" % (places, value) for places in range(1, 18)) if float(text) == value)


def canonical(value, key=None):
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (json.dumps(k), canonical(v, k)) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ",".join(canonical(v, key) for v in value)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "%d" % value if key in WHOLE else digits(float(value))


class File:
    """A mechanism file as its description and its arrays; `bytes` gives it a digest that fits."""

    def __init__(self, content):
        size, = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + size])
        self.root = json.loads(header.pop("__metadata__")["dpmf"])
        self.arrays = {}
        for name, entry in header.items():
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            self.arrays[name] = [entry["shape"], list(struct.unpack("<%dd" % ((end - begin) // 8), content[begin:end]))]

    def bytes(self):
        text = canonical(self.root)
        digest = hashlib.sha256(text.encode())
        entries, body = {}, b""
        for name, (shape, values) in self.arrays.items():
            packed = struct.pack("<%dd" % len(values), *values)
            digest.update(name.encode() + b"\0" + struct.pack("<%dq" % (1 + len(shape)), len(shape), *shape) + packed)
            entries[name] = {"dtype": "F64", "shape": shape, "data_offsets": [len(body), len(body) + len(packed)]}
            body += packed
        header = {"__metadata__": {"dpmf": text, "sha256": digest.hexdigest()}, **entries}
        header = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        header += b" " * (-len(header) % 8)
        return struct.pack("<Q", len(header)) + header + body


def numbers_of(value, path=()):
    """The paths of all numbers of the description, those inside participation and sampling too."""
    for key, inner in value.items():
        here = path + (key,)
        if isinstance(inner, dict):
            yield from numbers_of(inner, here)
        elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
            yield here
        elif key in ("participation", "sampling"):
            for i in range(len(re.findall(r"[0-9][0-9.e+-]*", inner))):
                yield here + (i,)


def change_text(text, place, sign):
    found = list(re.finditer(r"[0-9][0-9.e+-]*", text))[place]
    number = found.group()
    changed = digits(float(number) * (1 + sign * CHANGE)) if place == 0 and "." in number else str(int(number) + sign)
    return text[:found.start()] + changed + text[found.end():]


def change_number(file, path, sign):
    """A copy of the file with one number changed, or None if it is 0."""
    file = copy.deepcopy(file)
    inner = file.root
    for key in path[:-1] if isinstance(path[-1], str) else path[:-2]:
        inner = inner[key]
    if isinstance(path[-1], int):
        inner[path[-2]] = change_text(inner[path[-2]], path[-1], sign)
        return file
    value = inner[path[-1]]
    if path[-1] in WHOLE:
        inner[path[-1]] = value + sign
    elif value == 0:
        return None
    else:
        inner[path[-1]] = value * (1 + sign * CHANGE)
        if path[:-1] == ("workload",):  # the text has it too
            inner["text"] = inner["text"].replace(":" + digits(value), ":" + digits(inner[path[-1]]), 1)
    return file


class Verify(Case):
    def verify(self, file, name="v"):
        path = self.write(name, file.bytes() if isinstance(file, File) else file)
        code, out, err = run("verify", path, "--json")
        self.assertEqual(err, "")
        found = json.loads(out)
        self.assertEqual(list(found), KEYS)
        self.assertEqual([list(check) for check in found["checks"]], [CHECK_KEYS] * len(found["checks"]))
        self.assertEqual(code, 0 if found["ok"] else 3)
        self.assertEqual(found["ok"], all(check["ok"] is not False for check in found["checks"]))
        return found["ok"], {check["name"]: check for check in found["checks"]}

    def load(self, path):
        with open(path, "rb") as file:
            content = file.read()
        file = File(content)
        self.assertEqual(file.bytes(), content)  # this reader and writer know the format
        return file

    def made(self, verb, *arguments):
        path = self.path("made")
        self.json(verb, *arguments, "-o", path)
        return self.load(path)

    def calibrated(self, file, sampling=None):
        """The file with sigma for (EPSILON, DELTA), and with sampling if given: figures of columns then."""
        how = ["--sampling", sampling, "--compositions", file.root["steps"]] if sampling else []
        sigma = self.json("account", "--epsilon", EPSILON, "--delta", DELTA, *how)["sigma"]
        file.root.update(sigma=sigma, epsilon=EPSILON, delta=DELTA)
        if sampling:
            file.root.update(sampling=sampling, lower_bound=None)
            file.root["sensitivity"]["of"] = "column"
        return self.answered(file)

    def answered(self, file):
        """The response is of other inputs, and nothing else is: takes the one that is found."""
        ok, checks = self.verify(file)
        failed = [name for name, check in checks.items() if check["ok"] is False]
        self.assertLessEqual(set(failed), {"response", "stream.response"})
        self.assertIn("response", failed)
        file.root["response"] = checks["response"]["found"]
        return file

    def survives(self, file):
        ok, checks = self.verify(file)
        self.assertTrue(ok, [check for check in checks.values() if check["ok"] is False])

    def found(self, file, what):
        ok, checks = self.verify(file)
        self.assertFalse(ok, what)
        return [name for name, check in checks.items() if check["ok"] is False]

    def mutate(self, file, seed=1):
        """Every number of the description and a sample of every array, in both directions; returns their number."""
        count, rng = 0, random.Random(seed)
        self.survives(file)
        for path in numbers_of(file.root):
            for sign in (1, -1):
                changed = change_number(file, path, sign)
                if changed is None:
                    continue
                failed = self.found(changed, (path, sign))
                self.assertNotIn("digest", failed)
                # A double is never found for its spelling alone; whole numbers and ranges may not hold together.
                if isinstance(path[-1], str) and path[-1] not in WHOLE:
                    self.assertNotIn("description", failed, path)
                count += 1
        for name, (shape, values) in file.arrays.items():
            places = [i for i in range(len(values)) if values[i] != 0]
            chosen = {places[0], places[-1], *rng.sample(places, min(4, len(places)))}
            for place in sorted(chosen):
                for sign in (1, -1):
                    changed = copy.deepcopy(file)
                    changed.arrays[name][1][place] *= 1 + sign * CHANGE
                    self.assertNotIn("digest", self.found(changed, (name, place, sign)))
                    count += 1
        return count


class Families(Verify):
    STEPS = 27

    def evaluate(self, family, *arguments):
        return self.made("evaluate", "--steps", self.STEPS, "--family", family, *arguments)

    def optimize(self, family, *arguments):
        return self.made("optimize", "--steps", self.STEPS, "--family", family, *arguments)

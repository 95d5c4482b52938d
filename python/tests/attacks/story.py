# SPDX-License-Identifier: Apache-2.0
"""What the stories share: a model whose gradients are the data, forged files, programs in other processes."""

import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from support import KEY, Case, mechanism  # noqa: E402, F401 (for the stories)

import dpmf  # noqa: E402

try:
    import torch

    import dpmf.torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

HERE = pathlib.Path(__file__).resolve().parent

if torch is None:
    Inner = inner_loss = None  # what would use them is skipped
else:

    class Inner(torch.nn.Module):
        """loss = <w, x>: the gradient of an example is the example itself."""

        def __init__(self, dim):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(dim))

        def forward(self, x):
            return x @ self.w

    def inner_loss(outputs, targets):
        return outputs.sum()


def one_step(x, clip, steps=1, chunk=None, key=KEY, m=None):
    """A step of all examples x (examples, dim): gives the noisy sum. The same key gives the same noise."""
    m = m or mechanism("identity", steps, sigma=1.0)
    model = Inner(x.shape[1])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    data = torch.utils.data.TensorDataset(x, torch.zeros(len(x)))
    sampler = dpmf.torch.BatchSampler("cyclic:%d" % len(x), data, key, mechanism=m)
    private = dpmf.torch.make_private(
        model, optimizer, m, clip, 1.0, sampler=sampler, key=key, loss=inner_loss, chunk=chunk
    )
    for inputs, targets in dpmf.torch.data_loader(data, sampler):
        private.step(inputs, targets)
    private.close()
    return -model.w.detach().double()


def forge(data, **figures):
    """A mechanism file with other figures, its digest computed again as its writer would."""
    size = struct.unpack("<Q", data[:8])[0]
    raw, arrays = data[8 : 8 + size].decode().rstrip(" "), data[8 + size :]
    header = json.loads(raw)
    metadata = header.pop("__metadata__")
    before = text = metadata["dpmf"]
    for name, value in figures.items():
        text, found = re.subn(r'("%s":(?:\{"value":)?)[-+.e0-9]+' % name, r"\g<1>%s" % value, text, count=1)
        assert found == 1
    digest = hashlib.sha256(text.encode())
    for name, entry in header.items():
        shape, (start, end) = entry["shape"], entry["data_offsets"]
        digest.update(name.encode() + b"\0" + struct.pack("<%dq" % (1 + len(shape)), len(shape), *shape))
        digest.update(arrays[start:end])
    raw = raw.replace(json.dumps(before), json.dumps(text)).replace(metadata["sha256"], digest.hexdigest())
    raw += " " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw.encode() + arrays


def program(source, *arguments, folder=None, **environment):
    """Another interpreter; gives (exit code, what it said)."""
    done = subprocess.run(
        [sys.executable, "-c", source, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout.decode()

# SPDX-License-Identifier: Apache-2.0
"""A wheel's own libraries beside those of others. For wheels with libraries inside: scripts/build_wheels.sh runs it."""

import concurrent.futures
import importlib.util
import json
import os
import unittest

import numpy as np
from support import Case, python

import dpmf

HAVE_TORCH = importlib.util.find_spec("torch") is not None

LOADED = """
import hashlib, json, os, ssl, tempfile
import numpy
def state():
    with open("/proc/self/maps") as file:
        return {line.split()[-1] for line in file if ".so" in line}, len(os.listdir("/proc/self/task"))
files, threads = state()
import dpmf
dpmf.evaluate("toeplitz", 10, sigma=1.0)
more_files, more_threads = state()
print(json.dumps([sorted(more_files - files), more_threads - threads]))
"""

DEVICE = """
import dpmf.device
dpmf.device.Functions()
with open("/proc/self/maps") as file:
    print(*sorted({line.split()[-1].rpartition("/")[2] for line in file if "libdpmf" in line}))
"""

ROWS = """
import hashlib
mechanism = dpmf.optimize("dense", 40, "momentum:0.9", participation="cyclic:4,10", sigma=1.0)
noise = mechanism.noise(100, clip_norm=1.0, key=dpmf.testing_key(3), state=dpmf.NO_STATE)
print(hashlib.sha256(b"".join(noise.next().tobytes() for _ in range(40))).hexdigest())
"""


def lapack(seed):
    """A loss that comes out of several LAPACK routines."""
    matrix = np.tril(np.random.default_rng(seed).uniform(0.5, 1.5, (24, 24)))
    return dpmf.optimize("dense", 24, matrix, participation="cyclic:2,12", sigma=1.0).rms_loss


class Bundle(Case):
    def test_importing_loads_one_library_and_starts_no_thread(self):
        free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        files, threads = json.loads(python("-c", LOADED, env=free))
        self.assertEqual([name for name in files if ".cpython-" not in name and not name.endswith("/dpmf/libdpmf.so")], [])
        self.assertIn("libdpmf.so", " ".join(files))
        self.assertEqual(threads, 0)

    def test_the_library_for_devices_uses_the_same_libdpmf(self):
        self.assertEqual(python("-c", DEVICE).split(), ["libdpmf.so", "libdpmf_device.so"])

    def test_calls_in_several_threads_give_what_one_gives(self):
        alone = [lapack(seed) for seed in range(4)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(lapack, list(range(4)) * 20)), alone * 20)

    @unittest.skipUnless(HAVE_TORCH, "torch is not installed")
    def test_torch_and_the_package_do_not_disturb_each_other(self):
        """The same rows with torch before, after and not at all; and torch's own linear algebra, and Python's own OpenSSL."""
        use = "a = torch.eye(50, dtype=torch.float64) + 0.01; assert torch.dist(torch.linalg.inv(a) @ a, torch.eye(50)) < 1e-9\n"
        use += "import ssl; ssl.create_default_context()\n"
        alone = python("-c", "import dpmf" + ROWS)
        self.assertEqual(python("-c", "import torch\n" + use + "import dpmf" + ROWS + use), alone)
        self.assertEqual(python("-c", "import dpmf" + ROWS + "import torch\n" + use), alone)


if __name__ == "__main__":
    unittest.main(warnings="ignore")

# SPDX-License-Identifier: Apache-2.0
"""The same key gives the same bytes: over 1.2e7 numbers of each family, for every set of kernels, number of threads, shard
and place of resuming; and the bytes are those of stream version 1."""
import hashlib
import os
import subprocess
import unittest

from harness import Case, DPMF

DIM, ROWS = 400003, 30
FAMILIES = {
    "identity": ["--family", "identity"],
    "bsr": ["--family", "bsr", "--bands", "8"],
    "normalized": ["--family", "bsr", "--bands", "5", "--normalize", "after", "--stamps", "2"],
    "bisr": ["--family", "bisr", "--bands", "6"],
    "toeplitz": ["--family", "toeplitz"],
    "tree-full": ["--family", "tree-full"],
    "tree-online": ["--family", "tree-online"],
    "workload": ["--family", "workload", "--workload", "momentum:0.9"],
    "blt": ["--family", "blt"],
}
# SHA-256 of 30 rows of 1000 coordinates, testing seed 5: known answers of DPMF_STREAM_VERSION 1. Families whose figures
# take exponentials are left out: a mechanism's digest, which keys the stream, then depends on the C library.
KNOWN = {
    "identity": "d360d0eff42d9e80e497590e068ccbbedbeaad14f6d095f9db21e5065749c547",
    "bsr": "f111cdd93abd82e3875dfab67403603bbb67255f9a74c30613e401b72a1fef68",
    "normalized": "4d1ddf18fc6fc39114f46dc64ee61128b330d728eb46b24e6c664b9a09eec87f",
    "bisr": "ee0780647792719fa685bfd7f5470853f2c98a4387d9e24beb03e63c7d0e62d2",
    "tree-full": "4ed9b9902f8b1b4f6583f86b27b130a783d53487035e340c650c5c0a77bfe3e1",
    "tree-online": "c7c23e9dd55b27f6a42323509262443751923990474aec70a31437b2ef72aec0",
    "workload": "43a52724747f16c5da2ac7fdba27ab2567c01079b82818e543d157ccdc0ca783",
}


class Bits(Case):
    def mechanism(self, name):
        path = self.path(name)
        if not os.path.exists(path):
            words = list(FAMILIES[name])
            if name == "blt":
                words += ["--parameters", self.write("blt.json", '{"scale": [0.3, 0.15], "decay": [0.96875, 0.5]}')]
            self.ok("evaluate", "--steps", ROWS, *words, "--bound", "none", "-o", path)
        return path

    def rows(self, name, rows="0:%d" % ROWS, dim=DIM, kernels=None, threads=2, offset=None, count=None, form="f32"):
        words = [DPMF, "noise", "--uncalibrated", self.mechanism(name), "--dim", str(dim), "--rows", rows, "--testing-seed", "5",
                 "--format", form, "--threads", str(threads)]
        if count is not None:
            words += ["--offset", str(offset), "--count", str(count)]
        environment = dict(os.environ, **({"DPMF_KERNELS": kernels} if kernels else {}))
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def digest(self, data):
        return hashlib.sha256(data).hexdigest()

    def test_known_rows_stay_the_same(self):
        for name, known in KNOWN.items():
            with self.subTest(family=name):
                self.assertEqual(self.digest(self.rows(name, dim=1000)), known)

    def test_kernels_and_threads_do_not_change_a_bit(self):
        for name in ("identity", "bsr", "tree-full", "blt"):
            whole = self.digest(self.rows(name, threads=1))
            for kernels, threads in (("ref", 2), ("avx2", 3), ("vaes", 1), ("avx512", 2), (None, 3)):
                with self.subTest(family=name, kernels=kernels, threads=threads):
                    self.assertEqual(self.digest(self.rows(name, kernels=kernels, threads=threads)), whole)

    def test_shards_are_parts_of_the_rows(self):
        for name in ("bsr", "normalized", "bisr", "blt"):
            whole = self.rows(name)
            cuts = [0, 1, 12347, 200001, DIM]
            for offset, end in zip(cuts, cuts[1:]):
                shard = self.rows(name, offset=offset, count=end - offset)
                wanted = b"".join(whole[4 * (t * DIM + offset):4 * (t * DIM + end)] for t in range(ROWS))
                self.assertEqual(self.digest(shard), self.digest(wanted), (name, offset))

    def test_rows_from_any_start_are_the_same(self):
        for name in ("bsr", "tree-online", "workload", "toeplitz"):
            whole = self.rows(name, dim=10007)
            for start in (1, 7, 16, 29):
                self.assertEqual(self.rows(name, rows="%d:%d" % (start, ROWS), dim=10007), whole[4 * 10007 * start:], name)

    def test_doubles_are_the_same_for_every_kernel_set(self):
        whole = self.digest(self.rows("bsr", dim=100003, threads=1, form="f64"))
        for kernels in ("ref", "avx2", "vaes", "avx512"):
            self.assertEqual(self.digest(self.rows("bsr", dim=100003, kernels=kernels, form="f64")), whole)

    def test_memory_is_what_was_announced(self):
        said = self.json("noise", "--uncalibrated", self.mechanism("bsr"), "--dim", 4000000, "--dry-run", "--out", self.path("x"))
        script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True, "
                  "stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
        if "asan" in DPMF:
            self.skipTest("the sanitizer's own memory would be counted")
        out = subprocess.run(["python3", "-c", script, DPMF, "noise", "--uncalibrated", self.path("bsr"), "--dim", "4000000", "--rows", "0:10",
                              "--testing-seed", "5"], stdout=subprocess.PIPE, check=True).stdout
        row = 4 * 4000000
        self.assertGreaterEqual(said["memory_bytes"], 7 * row)
        self.assertLessEqual(said["memory_bytes"], 7 * row + 16e6)
        self.assertLessEqual(int(out), said["memory_bytes"] + row + 64e6)  # the program's own row, code and libraries


if __name__ == "__main__":
    unittest.main()

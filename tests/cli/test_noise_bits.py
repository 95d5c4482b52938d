# SPDX-License-Identifier: Apache-2.0
"""The same key gives the same bytes: over 1.2e7 numbers of each family, for every set of kernels, number of threads, shard
and place of resuming; and the bytes are those of stream version 2."""
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
    "blt-rational": ["--family", "blt-rational"],
    "blt-tree": ["--family", "blt-tree", "--levels", "3", "--buffers", "2"],
}
# SHA-256 of 30 rows of 1000 coordinates, testing seed 5: known answers of DPMF_STREAM_VERSION 2;
# tests/python/reference_seed.py makes that of independent noise again. Families whose figures
# take exponentials are left out: a mechanism's digest, which keys the stream, then depends on the C library.
KNOWN = {
    "identity": "41f647665a59ac20a31ab3c33d5b834d29ad1eb7dd9f9ee6ebbba78987e6d941",
    "bsr": "8aeac719c16e3ff8d76710b54a16c58b53bbf5c41de86a1652fed1f605501b31",
    "normalized": "a302bf264adfd6f348e3bc5ade85322ec38f88013c34a55a9a921817c6b2b7e2",
    "bisr": "950229d00afce38f027fe64e8799407ace1f5e21cb38571c49b0e4a66c8f0a8a",
    "tree-full": "ef6e61bfdd242ae535fcc0915364ea3252d0e89ca446866da66506127aab0bf9",
    "tree-online": "91dba95ad711932500e990851808289fae43bc1eb719d896626c075a8b956af0",
    "workload": "e98db1c4e71d4a7e6fa5b9b72e5e46d20fb084e65a15a7320fa044ea29b1c4a7",
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
        for name in ("identity", "bsr", "tree-full", "blt", "blt-tree"):
            whole = self.digest(self.rows(name, threads=1))
            for kernels, threads in (("ref", 2), ("avx2", 3), ("vaes", 1), ("avx512", 2), (None, 3)):
                with self.subTest(family=name, kernels=kernels, threads=threads):
                    self.assertEqual(self.digest(self.rows(name, kernels=kernels, threads=threads)), whole)

    def test_shards_are_parts_of_the_rows(self):
        for name in ("bsr", "normalized", "bisr", "blt", "blt-tree"):
            whole = self.rows(name)
            cuts = [0, 1, 12347, 200001, DIM]
            for offset, end in zip(cuts, cuts[1:]):
                shard = self.rows(name, offset=offset, count=end - offset)
                wanted = b"".join(whole[4 * (t * DIM + offset):4 * (t * DIM + end)] for t in range(ROWS))
                self.assertEqual(self.digest(shard), self.digest(wanted), (name, offset))

    def test_rows_from_any_start_are_the_same(self):
        for name in ("bsr", "tree-online", "workload", "toeplitz", "blt-rational", "blt-tree"):
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

# SPDX-License-Identifier: Apache-2.0
"""verify: every single change of a file is found, for the families and participations that test_verify.py has not.

The law of the noise is tested under fresh keys, so that a run of `verify` on a good file fails by chance with a
probability below 2e-10; the runs here are fewer than 2000.
"""
import math
import unittest

from harness import npy
from verify_cases import Families


class Mutations(Families):
    def test_every_change_of_a_banded_is_found(self):
        file = self.optimize("banded", "--bands", 8, "--participation", "minsep:3,9", "--workload",
                             "momentum:0.9,cooldown:0.25:0.05")
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 45)

    def test_every_change_of_a_banded_toeplitz_is_found(self):
        file = self.optimize("banded-toeplitz", "--bands", 8, "--participation", "minsep:3,9")
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 36)

    def test_every_change_of_a_blt_is_found(self):
        file = self.optimize("blt", "--buffers", 3, "--workload", "momentum:0.5")
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 35)

    def test_every_change_of_a_blt_under_separation_is_found(self):
        file = self.optimize("blt", "--buffers", 2, "--participation", "minsep:3,9")  # one of them is superfluous, and dropped
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 30)

    def test_every_change_of_a_blt_from_a_formula_is_found(self):
        for words in (("blt-rational",), ("blt-tree", "--levels", 2, "--buffers", 2),
                      ("blt-tree", "--participation", "cyclic:3,9", "--workload", "momentum:0.5")):
            self.assertGreaterEqual(self.mutate(self.calibrated(self.evaluate(*words))), 25)

    def test_every_change_of_a_tvblt_is_found(self):
        self.assertGreaterEqual(self.mutate(self.calibrated(self.optimize("tvblt", "--buffers", 6))), 35)

    def test_every_change_of_a_tvblt_over_epochs_is_found(self):
        for words in ((), ("--shared-seeds", 2)):
            file = self.optimize("tvblt", "--buffers", 2, "--participation", "cyclic:3,10", *words)
            self.assertGreaterEqual(self.mutate(self.calibrated(file)), 30)

    def test_every_change_of_a_dense_is_found(self):
        self.assertGreaterEqual(self.mutate(self.calibrated(self.optimize("dense"))), 30)

    def test_every_change_of_a_dense_under_epochs_is_found(self):
        file = self.optimize("dense", "--participation", "cyclic:3,9", "--workload", "decay:0.01")
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 35)

    def test_every_change_of_a_low_rank_is_found(self):
        file = self.optimize("lowrank", "--bands", 4, "--buffers", 3)
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 45)

    def test_every_change_of_inverse_bands_is_found(self):
        file = self.evaluate("bisr", "--bands", 5, "--participation", "cyclic:3,9")
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 30)

    def test_every_change_of_a_tree_is_found(self):
        for family in ("tree", "tree-online", "tree-full"):
            file = self.evaluate(family, "--participation", "cyclic:3,9")
            self.assertGreaterEqual(self.mutate(self.calibrated(file)), 20)

    def test_every_change_of_a_branching_factor_and_of_a_smooth_tree_is_found(self):
        for more in (["tree-full", "--branching", 3], ["smooth-binary"], ["smooth-binary", "--decoder", "optimal"]):
            file = self.evaluate(*more, "--participation", "cyclic:3,9")
            self.assertGreaterEqual(self.mutate(self.calibrated(file)), 20)

    def test_every_change_of_the_fft_mechanism_is_found(self):
        self.assertGreaterEqual(self.mutate(self.calibrated(self.evaluate("fft"))), 16)

    def test_every_change_of_a_normalized_and_stamped_is_found(self):
        file = self.evaluate("toeplitz", "--normalize", "after", "--stamps", 3, "--participation", "minsep:3,10")
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 30)

    def test_every_change_with_weights_and_rates_is_found(self):
        weights = self.write("w.npy", npy([1e-3 + (7 * t % 5) for t in range(self.STEPS)]))
        rates = self.write("lr.npy", npy([1 + 0.3 * math.sin(t) for t in range(self.STEPS)]))
        file = self.evaluate("bsr", "--bands", 5, "--weights", weights, "--workload", "lr:" + rates,
                             "--adjacency", "replace-one", "--participation", "minsep:2,20")
        self.assertGreaterEqual(self.mutate(self.calibrated(file)), 50)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""papers/reproduce.py, McKenna 2024, Figures 1 and 7: the text's claims agree, and noise is noise multiplier x loss.

The other figures are in test_bands.py.
"""
import unittest

import cases
from cases import BANDED, MORE_EPOCHS, MORE_STEPS, RIVALS


class Figures(cases.Figures):
    NAMED = [BANDED, RIVALS, MORE_STEPS, MORE_EPOCHS]

    def test_noise_is_sigma_times_loss(self):
        """With columns normalized, as the other verbs have it."""
        for epsilon, bands in [(1, 32), (2, 64)]:
            sigma = self.json("account", "--epsilon", epsilon, "--delta", 1e-8, "--compositions", 16384, "--sampling",
                              "block-cyclic:%r,%d" % (8 / 16384, bands))["sigma"]
            loss = self.json("optimize", "--family", "banded-toeplitz", "--bands", bands, "--steps", 16384,
                             "--normalize", "after", "--bound", "none")["rms_loss"]
            self.near(self.found[RIVALS, "amplified, noise RMS", str(epsilon)]["ours"], sigma * loss, 1e-9)

    def test_without_amplification_it_is_one_gaussian(self):
        """steps/epochs bands: the sensitivity of 8 passes, and one Gaussian."""
        sigma = self.json("account", "--epsilon", 4, "--delta", 1e-8)["sigma"]
        found = self.json("optimize", "--family", "banded-toeplitz", "--bands", 128, "--steps", 1024, "--participation",
                          "cyclic:8,128", "--normalize", "after", "--bound", "none")
        self.assertEqual(found["sensitivity"]["kind"], "exact")
        ratio, noise = (self.found[MORE_STEPS, column, "1024"]["ours"]
                        for column in ["not amplified / amplified", "amplified, noise RMS"])
        self.near(ratio * noise, sigma * found["rms_loss"], 1e-9)


if __name__ == "__main__":
    unittest.main()

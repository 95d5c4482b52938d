# SPDX-License-Identifier: Apache-2.0
"""kill -9 at 20 random moments of a training run: the same bits, or a refusal."""
import unittest

from kill_cases import Killed


class Kill(Killed):
    def test_kill(self):
        self.kill(20, 11)

    def test_kill_of_federated_averaging(self):
        self.kill(5, 12, 60, ["--unit", "user", "--user", "who", "--batch", "6", "--epochs", "20", "--sampling", "none", "--family",
                               "bsr", "--local-steps", "9", "--local-rate", "0.5", "--local-batch", "2", "--zero-above", "max:9"])


del Killed

if __name__ == "__main__":
    unittest.main()

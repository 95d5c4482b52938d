# SPDX-License-Identifier: Apache-2.0
"""kill -9 at 20 random moments of a training run: the same bits, or a refusal."""
import unittest

from kill_cases import Killed


class Kill(Killed):
    def test_kill(self):
        self.kill(20, 11)


del Killed

if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""kill -9 at 200 random moments of a stream with a state file: no row twice, none left out (see kill_noise.py)."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import kill_noise  # noqa: E402


class Kill(unittest.TestCase):
    def test_two_hundred_kills_hand_out_no_row_twice(self):
        self.assertRegex(kill_noise.main(200, 2), "^200 kills")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What optimize finds is read back; the parameters of a BLT in both forms; 300 settings in test_read_back_long.py."""
import unittest

from read_back import ReadBack


class RandomSettings(ReadBack):
    def test_no_result_of_optimize_is_refused_by_the_readers(self):
        self.check_settings(20251, 30)


if __name__ == "__main__":
    unittest.main()

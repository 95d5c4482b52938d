# SPDX-License-Identifier: Apache-2.0
"""300 random settings of optimize whose results are read back (test_read_back.py has 30)."""
import unittest

from read_back import ReadBack


class ManyRandomSettings(ReadBack):
    def test_no_result_of_three_hundred_settings_is_refused_by_the_readers(self):
        self.check_settings(20252, 300)


if __name__ == "__main__":
    unittest.main()

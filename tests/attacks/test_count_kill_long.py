# SPDX-License-Identifier: Apache-2.0
"""kill -9 at 200 random moments of a count: no line is lost, repeated or changed."""
import unittest

from count_kill_cases import CountKilled


class CountKill(CountKilled):
    def test_a_count_that_is_killed_gives_the_lines_of_one_that_is_not(self):
        self.kill(200, 23)


del CountKilled

if __name__ == "__main__":
    unittest.main()

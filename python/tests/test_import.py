# SPDX-License-Identifier: Apache-2.0
"""What `import dpmf` brings in, and what the package says of itself on an index."""

import re
import sys
import unittest

from support import REPOSITORY, Case, python

import dpmf

sys.path.insert(0, str(REPOSITORY / "python" / "tools"))
import package_pages  # noqa: E402

#: Each costs milliseconds or much more, and is asked for where it is used.
HEAVY = {"asyncio", "ctypes.util", "email", "jax", "json", "matplotlib", "multiprocessing", "opacus", "optax", "pandas", "scipy"}
HEAVY |= {"secrets", "subprocess", "torch", "unittest", "urllib"}

NEW_MODULES = """
import sys
import numpy
before = set(sys.modules)
import dpmf
print(*sorted(set(sys.modules) - before))
"""


class Imports(Case):
    def test_importing_the_package_imports_nothing_heavy(self):
        found = set(python("-c", NEW_MODULES).split())
        self.assertIn("dpmf.mechanism", found)
        self.assertEqual(found & HEAVY, set())


class Pages(Case):
    readme = (REPOSITORY / "python" / "README.md").read_text(encoding="utf-8")

    def test_links_lead_below_the_home(self):
        shown = package_pages.absolute(self.readme, "https://host.example/dpmf/blob/main/")
        links = re.findall(r"\]\(([^)]*)\)", shown)
        self.assertGreaterEqual(len(links), 3)
        for link in links:
            found = re.fullmatch(r"https://host\.example/dpmf/blob/main/([^.#][^#]*)(#.*)?", link)
            self.assertTrue(found and (REPOSITORY / found[1]).exists(), link)

    def test_without_a_home_there_are_no_relative_links(self):
        shown = package_pages.absolute("See [this](../a.md#b), [that](https://host.example/c).", "")
        self.assertEqual(shown, "See this, [that](https://host.example/c).")
        self.assertNotIn("](", package_pages.absolute(self.readme, ""))
        self.assertEqual(package_pages.urls(""), {})

    def test_urls_are_of_files_that_are_there(self):
        for url in package_pages.urls("https://host.example/dpmf").values():
            self.assertTrue(url.startswith("https://host.example/dpmf"))
            self.assertTrue((REPOSITORY / url[len("https://host.example/dpmf") :].lstrip("/")).exists(), url)

    def test_the_version_is_that_of_the_header(self):
        header = (REPOSITORY / "include" / "dpmf.h").read_text(encoding="utf-8")
        self.assertIn('#define DPMF_VERSION "%s"' % dpmf.__version__, header)


if __name__ == "__main__":
    unittest.main(warnings="ignore")

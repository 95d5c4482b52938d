# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows is run: docstrings, README, the page, the example; the API reference is current."""

import doctest
import gzip
import importlib
import importlib.util
import pkgutil
import re
import struct
import unittest

import numpy as np
from support import REPOSITORY, Case, python

import dpmf

try:
    import torch
except ImportError:
    torch = None

try:
    import opacus
except ImportError:
    opacus = None

try:
    import jax
    import optax  # noqa: F401
except ImportError:
    jax = None

#: Modules that need more than NumPy, and whether it is there.
NEED = {"torch": opacus is not None, "opacus": opacus is not None, "jax": jax is not None,
        "transformers": importlib.util.find_spec("transformers") is not None, "lightning": importlib.util.find_spec("lightning") is not None,
        "flower": importlib.util.find_spec("flwr") is not None, "nvflare": importlib.util.find_spec("nvflare") is not None}

#: Every block of Python in them is run.
PAGES = ("README.md", "docs/python.md", "python/README.md", "docs/audit.md", "docs/counting.md", "docs/users.md", "docs/trainers.md")


def blocks(path):
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


class Docs(Case):
    def test_the_examples_in_docstrings_run(self):
        tried = 0
        for module in pkgutil.walk_packages(dpmf.__path__, "dpmf."):
            parts = module.name.split(".")
            if parts[-1].startswith(("_", "lib")) or not NEED.get(parts[1], True):
                continue
            found = doctest.testmod(importlib.import_module(module.name))
            self.assertEqual(found.failed, 0, module.name)
            tried += found.attempted
        self.assertGreater(tried, 30)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_the_examples_of_the_readme_run(self):
        first, second = blocks(REPOSITORY / "python" / "README.md")
        self.assertEqual(blocks(REPOSITORY / "README.md"), [first])
        self.assertLessEqual(len([line for line in first.splitlines() if line.strip()]), 15)
        said = python("-c", "import torch; torch.set_num_threads(1)\n" + first, cwd=self.folder)
        self.assertIn("differentially private with epsilon = 8 and delta = 1e-05", said)
        saved = torch.load(self.folder / "run.pt", weights_only=True)
        self.assertEqual(saved["optimizer"]["dpmf"]["noise"]["step"], 80)
        python("-c", second, cwd=self.folder)

    def test_python_is_shown_in_blocks_that_are_run(self):
        """Not indented, and not in another kind of fence, where no test would run it."""
        for name in PAGES:
            text = (REPOSITORY / name).read_text(encoding="utf-8")
            self.assertEqual(len(re.findall(r"```\s*py", text)), len(blocks(REPOSITORY / name)), name)
            rest = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
            self.assertEqual(re.findall(r"^    (?:import |from |.*\bdpmf\.[\w.]+\().*", rest, re.MULTILINE), [], name)

    @unittest.skipIf(opacus is None, "opacus is not installed")
    def test_the_examples_of_the_page_run(self):
        """A block is a part of the example, which runs below, or runs after the README's and those before it."""
        example = (REPOSITORY / "examples" / "train_torch.py").read_text(encoding="utf-8")
        own = [block for block in blocks(REPOSITORY / "docs" / "python.md") if block not in example]
        self.assertGreaterEqual(len(own), 12)
        own = [block for block in own if jax is not None or "dpmf.jax" not in block]
        python("-W", "ignore", "-c", "\n".join([blocks(REPOSITORY / "python" / "README.md")[0], *own]), cwd=self.folder)

    def run_page(self, name):
        """Its blocks, each after what the comment before it (which readers do not see) prepares."""
        found = re.findall(
            r"<!-- before: ([^\n]*?) -->\n+```python\n(.*?)^```$",
            (REPOSITORY / "docs" / name).read_text(encoding="utf-8"),
            re.DOTALL | re.MULTILINE,
        )
        self.assertEqual([body for _, body in found], blocks(REPOSITORY / "docs" / name))
        self.assertGreater(len(found), 0)
        for before, body in found:
            python("-W", "ignore", "-c", "%s\n%s" % (before, body), cwd=self.folder)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_the_page_about_audits_runs(self):
        self.run_page("audit.md")

    def test_the_page_about_counting_runs(self):
        self.run_page("counting.md")

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_the_page_about_users_runs(self):
        """Its blocks one after the other, without those of packages that are not installed here."""
        need = {"dpmf.jax": jax is not None, "flwr": False, "dpmf.flower": False, "dpmf.nvflare": False}
        own = [block for block in blocks(REPOSITORY / "docs" / "users.md") if all(there or name not in block for name, there in need.items())]
        self.assertGreaterEqual(len(own), 2)
        python("-W", "ignore", "-c", "\n".join(own), cwd=self.folder)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_the_example_of_users_runs(self):
        said = python("-W", "ignore", REPOSITORY / "examples" / "users_torch.py")
        self.assertIn("300 users", said)
        self.assertIn("Privacy unit: one user.", said)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_the_example_trains_and_resumes(self):
        """On made-up images; a second run finds nothing left to do."""
        generator = np.random.default_rng(1)
        for part, count in (("train", 240), ("t10k", 50)):
            for name, header, data in (
                ("images-idx3", struct.pack(">4i", 0x803, count, 28, 28), generator.integers(0, 256, (count, 28, 28))),
                ("labels-idx1", struct.pack(">2i", 0x801, count), generator.integers(0, 10, count)),
            ):
                with gzip.open(self.folder / ("%s-%s-ubyte.gz" % (part, name)), "wb") as file:
                    file.write(header + data.astype(np.uint8).tobytes())
        arguments = [
            REPOSITORY / "examples" / "train_torch.py",
            "--data",
            self.folder,
            "--folder",
            self.folder,
            "--batch",
            30,
            "--epochs",
            2,
        ]
        said = python(*arguments)
        self.assertIn("epoch 2: test accuracy", said)
        self.assertIn("epsilon = 8", said)
        again = python(*arguments)
        self.assertIn("resumed at step 16", again)
        self.assertNotIn("epoch", again)

    @unittest.skipIf(opacus is None or jax is None, "opacus or jax is not installed")
    def test_the_reference_is_written_in_plain_words(self):
        python(REPOSITORY / "python" / "tools" / "generate_api.py", self.folder)
        self.assertIn("### make_private", (self.folder / "python-api.md").read_text(encoding="utf-8"))
        python(REPOSITORY / "scripts" / "check_docs.py", "--words", self.folder)


if __name__ == "__main__":
    unittest.main(warnings="ignore")

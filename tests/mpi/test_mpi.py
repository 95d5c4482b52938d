# SPDX-License-Identifier: Apache-2.0
"""Noise on several processes: the same bytes as one, checkpoints for any number of them, disagreement, kill -9.

$DPMF is the program, $DPMF_ROWS the MPI program rows.c, $MPIRUN the launcher.
"""
import os
import subprocess
import tempfile
import unittest

DPMF, ROWS = os.environ["DPMF"], os.environ["DPMF_ROWS"]
MPIRUN = os.environ.get("MPIRUN", "mpirun")
SEVERAL = (1, 2, 3, 4)
STEPS = 24

# Every kind of stream: feedback, filters, whole matrices, states, trees, wrappers.
FAMILIES = {
    "identity": ["evaluate", "--family", "identity"],
    "toeplitz": ["evaluate", "--family", "toeplitz"],
    "bsr": ["evaluate", "--family", "bsr", "--bands", "5"],
    "bisr": ["evaluate", "--family", "bisr", "--bands", "5"],
    "normalized": ["evaluate", "--family", "bsr", "--bands", "4", "--normalize", "after"],
    "stamped": ["evaluate", "--family", "bsr", "--bands", "4", "--stamps", "2"],
    "workload": ["evaluate", "--family", "workload", "--workload", "momentum:0.9"],
    "tree": ["evaluate", "--family", "tree"],
    "tree-online": ["evaluate", "--family", "tree-online"],
    "tree-full": ["evaluate", "--family", "tree-full"],
    "fft": ["evaluate", "--family", "fft"],
    "banded": ["optimize", "--family", "banded", "--bands", "4"],
    "blt": ["optimize", "--family", "blt", "--buffers", "3"],
    "tvblt": ["optimize", "--family", "tvblt", "--buffers", "3"],
    "lowrank": ["optimize", "--family", "lowrank", "--bands", "3", "--buffers", "2"],
    "dense": ["optimize", "--family", "dense"],
}
STREAMING = ("bsr", "bisr", "normalized", "stamped", "tree-online", "tree-full", "banded", "blt", "tvblt", "lowrank",
             "toeplitz")


def launcher(ranks):
    with subprocess.Popen([MPIRUN, "--version"], stdout=subprocess.PIPE, text=True) as asked:
        said = asked.communicate()[0]
    open_mpi = "Open MPI" in said or "OpenRTE" in said  # mpirun and mpiexec name themselves differently
    return [MPIRUN, *(["--allow-run-as-root", "--oversubscribe"] if open_mpi else []), "-n", str(ranks)]


class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        for name, words in FAMILIES.items():
            subprocess.run([DPMF, *words, "--steps", str(STEPS), "-o", cls.path(name)], check=True,
                           stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.directory.name, name)

    def start(self, ranks, *words):
        return subprocess.run([*launcher(ranks), ROWS, *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=120,
                              env={**os.environ, "OMPI_MCA_btl_base_warn_component_unused": "0"})

    def ok(self, ranks, *words):
        done = self.start(ranks, *words)
        self.assertEqual(done.returncode, 0, (ranks, words, done.stderr))
        return done.stdout

    def test_several_processes_give_the_bytes_of_one(self):
        for name in FAMILIES:
            for ranks in SEVERAL if name in ("banded", "tvblt") else (3,):
                with self.subTest(name=name, ranks=ranks):
                    self.ok(ranks, "bytes", self.path(name), 1000, "odd" if ranks == 3 else "even")
        self.ok(4, "bytes", self.path("blt"), 3, "even")  # more processes than there is to share

    def test_what_four_saved_three_resume(self):
        for name in STREAMING:
            with self.subTest(name=name):
                place = self.path(name + ".ckpt")
                wanted = self.ok(4, "save", self.path(name), 1000, place, 11)
                for ranks in (3, 1) if name == "banded" else (3,):
                    self.assertEqual(self.ok(ranks, "resume", self.path(name), 1000, place), wanted)

    def test_a_killed_rank_leaves_what_all_resume_from(self):
        for name in ("banded", "tvblt"):
            place, state = self.path(name + ".run"), self.path(name + ".state")
            wanted = self.ok(2, "save", self.path(name), 1000, self.path(name + ".whole"), 9)
            self.assertNotEqual(self.start(4, "run", self.path(name), 1000, place, state, 10).returncode, 0)
            again = self.start(3, "again", self.path(name), 1000, place, state)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertIn("row 9", again.stderr)
            self.assertEqual(again.stdout, wanted)
            parts = [file for file in os.listdir(self.directory.name) if file.startswith(name + ".run.")]
            self.assertEqual(len(parts), 4, parts)  # those of the last list, and none before it

    def test_a_rank_with_other_terms_is_refused_on_every_rank(self):
        for what in ("key", "clip", "dim", "mechanism"):
            out = self.ok(3, "differ", self.path("banded"), 1000, what, self.path("tvblt"))
            self.assertEqual(out.replace("\n", ""), "refused" * 3, what)  # launchers may mix lines

    def test_a_mechanism_for_one_column_makes_no_rows_of_more(self):
        place = self.path("one.json")
        with open(place, "w", encoding="ascii") as file:  # signs reach less than vectors (Choquette-Choo et al. 2023, App. H.2)
            file.write('{"matrix": [[0.2, 0, 0], [0.4, 0.45, 0], [0.25, -0.25, 0.5]]}')
        subprocess.run([DPMF, "evaluate", "--family", "dense", "--parameters", place, "--steps", "3", "--participation", "full",
                        "--columns", "1", "-o", self.path("one")], check=True, stdout=subprocess.DEVNULL)
        done = self.start(2, "bytes", self.path("one"), 2, "even")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("one column", done.stderr + done.stdout)

    def test_noise_takes_no_communication(self):
        out = self.ok(2, "count", self.path("tvblt"), 1000)
        self.assertEqual(out.replace("\n", ""), "none" * 2)


if __name__ == "__main__":
    unittest.main()

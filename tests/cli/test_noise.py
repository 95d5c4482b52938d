# SPDX-License-Identifier: Apache-2.0
"""dpmf noise: the bytes of rows, keys, state files, and what is refused."""
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import time
import unittest

from harness import Case, DPMF, refuse_constant

NOTE = "dpmf: not calibrated: the mechanism has no sigma, and sigma = 1 is used\n"
OPEN = "dpmf: not private: anybody can compute the key of a testing seed\n"
STEPS, DIM = 10, 7


def noise(*arguments, **options):
    """(exit code, stdout as bytes, stderr as text)"""
    options.setdefault("stdout", subprocess.PIPE)
    done = subprocess.run([DPMF, "noise", "--uncalibrated", *map(str, arguments)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          **options)
    return done.returncode, done.stdout, done.stderr.decode()


class NoiseCase(Case):
    def setUp(self):
        super().setUp()
        self.file = self.path("m")
        self.ok("evaluate", "--steps", STEPS, "--family", "bsr", "--bands", "3", "-o", self.file)

    def rows(self, rows, *more, key=("--testing-seed", "5"), dim=DIM):
        code, out, err = noise(self.file, "--dim", dim, "--rows", rows, *key, *more)
        self.assertEqual((code, err), (0, NOTE + (OPEN if key and key[0] == "--testing-seed" else "")))
        return out

    def no(self, says, *arguments, code=2):
        return self.refused(code, "noise", "--uncalibrated", *arguments, says=says)


class Rows(NoiseCase):
    def test_pieces_make_the_whole(self):
        whole = self.rows("0:10")
        self.assertEqual(len(whole), STEPS * DIM * 4)
        for cut in range(1, STEPS):
            self.assertEqual(self.rows("0:%d" % cut) + self.rows("%d:10" % cut), whole)
        self.assertEqual(self.rows("0:0.01k", "--threads", "3"), whole)

    def test_shards_make_the_row(self):
        whole = self.rows("2:6")
        left, right = self.rows("2:6", "--count", "3"), self.rows("2:6", "--offset", "3")
        self.assertEqual(self.rows("2:6", "--offset", "3", "--count", "4"), right)
        for t in range(4):
            self.assertEqual(left[t * 12:(t + 1) * 12] + right[t * 16:(t + 1) * 16], whole[t * 28:(t + 1) * 28])

    def test_raw_npy_and_double_have_their_forms(self):
        plain, array = self.rows("1:9"), self.rows("1:9", "--format", "npy")
        self.assertEqual(array[:8], b"\x93NUMPY\x01\x00")
        length = struct.unpack_from("<H", array, 8)[0]
        self.assertEqual((10 + length) % 64, 0)
        header = eval(array[10:10 + length].decode(), {})
        self.assertEqual(header, {"descr": "<f4", "fortran_order": False, "shape": (8, DIM)})
        self.assertEqual(array[10 + length:], plain)
        double = self.rows("1:9", "--format", "f64")
        self.assertEqual(len(double), 2 * len(plain))
        values = struct.unpack("<%dd" % (8 * DIM), double)
        self.assertTrue(all(abs(value) < 30 for value in values))
        self.assertFalse(set(struct.unpack("<%df" % (8 * DIM), plain)) & set(values))

    def test_the_clip_norm_scales_the_rows_and_changes_them(self):
        """Rows of another clip norm are not the same ones up to a factor: two releases would tell what both hid."""
        once, twice = self.rows("0:10"), self.rows("0:10", "--clip", "1024")
        one, two = struct.unpack("<70f", once), struct.unpack("<70f", twice)
        ratios = {b / a for a, b in zip(one, two)}
        self.assertEqual(len(ratios), 70)
        spread = (sum(b * b for b in two) / sum(a * a for a in one)) ** 0.5
        self.assertTrue(1024 / 2 < spread < 1024 * 2, spread)  # 70 numbers each: far from chance

    def test_rows_in_a_file_are_for_the_owner_alone(self):
        path = self.path("rows")
        self.assertEqual(self.rows("0:10", "--out", path), b"")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), self.rows("0:10"))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(self.left_behind(), ["m", "rows"])

    def test_json_says_what_was_written(self):
        path = self.path("rows")
        value = json.loads(self.rows("2:5", "--out", path, "--json", "--clip", "3"), parse_constant=refuse_constant)
        self.assertEqual((value["schema"], value["rows"], value["dim"], value["count"], value["sigma"]),
                         (1, [2, 5], DIM, DIM, None))
        self.assertEqual((value["calibrated"], value["private"], value["format"]), (False, False, "f32"))
        self.near(value["scale"], 3 * self.json("inspect", self.file)["sensitivity"]["value"])
        self.no("--out", self.file, "--dim", 3, "--rows", "0:1", "--json")

    def test_many_short_rows_are_written(self):
        self.file = self.path("many")
        self.ok("evaluate", "--steps", 600000, "--family", "identity", "--bound", "none", "-o", self.file)
        whole = self.rows("0:600000", dim=1)
        self.assertEqual(len(whole), 2400000)
        self.assertEqual(self.rows("599990:600000", dim=1), whole[-40:])

    def test_every_family_gives_rows_in_pieces(self):
        for family in ["identity", "workload", "toeplitz", "tree", "tree-online", "tree-full", "fft", "fft-opt"]:
            with self.subTest(family=family):
                self.ok("evaluate", "--steps", STEPS, "--family", family, "-o", self.file)
                self.assertEqual(self.rows("0:4") + self.rows("4:10"), self.rows("0:10"))


class Keys(NoiseCase):
    def test_fresh_keys_differ(self):
        self.assertNotEqual(self.rows("0:10", key=()), self.rows("0:10", key=()))
        self.assertEqual(self.left_behind(), ["m"])

    def test_a_key_file_is_made_and_used_again(self):
        key = self.path("key")
        first = self.rows("0:10", key=("--key-file", key))
        self.assertEqual((os.path.getsize(key), stat.S_IMODE(os.stat(key).st_mode)), (32, 0o600))
        self.assertEqual(self.rows("0:10", "--replay", key=("--key-file", key)), first)
        self.assertNotEqual(self.rows("0:10", key=("--key-file", self.path("other"))), first)
        self.assertNotEqual(self.rows("0:10"), first)

    def test_key_files_of_another_size_or_mode_are_refused(self):
        key, common = self.path("key"), [self.file, "--dim", DIM, "--rows", "0:1", "--key-file"]
        self.write("key", b"x" * 31)
        os.chmod(key, 0o600)
        self.no(["31 bytes", "32"], *common, key, code=1)
        self.write("key", bytes(32))
        self.no(["one byte, 32 times", "no secret"], *common, key, code=1)
        self.write("key", bytes(range(32)))
        os.chmod(key, 0o644)
        self.no(["644", "600"], *common, key, code=1)
        self.no("key file", *common, self.path("none/key"), code=1)
        self.no("", *common, self.directory.name, code=1)

    def test_nothing_is_made_when_refused(self):
        for bad in [["--rows", "0:11"], ["--rows", "0:1", "--offset", "7"], ["--rows", "0:1", "--count", "8"],
                    ["--rows", "5:6", "--state", self.path("s"), "--replay"]]:
            self.refused(2, "noise", "--uncalibrated", self.file, "--dim", DIM, "--key-file", self.path("k"), *bad)
            self.assertIn(self.left_behind(), (["m"], ["k", "m"]))
        self.assertNotIn("s", self.left_behind())


class State(NoiseCase):
    def setUp(self):
        super().setUp()
        self.state = self.path("state")
        self.more = ["--state", self.state]

    def refuse_rows(self, rows, says, *more, key=5):
        before = self.content()
        self.no(says, self.file, "--dim", DIM, "--rows", rows, "--testing-seed", key, *self.more, *more)
        self.assertEqual(self.content(), before)

    def content(self):
        if not os.path.exists(self.state):
            return None
        with open(self.state, "rb") as file:
            return file.read()

    def test_a_state_file_gives_rows_in_order_and_once(self):
        self.begin("noise", "--uncalibrated", self.file, "--dim", DIM, "--rows", "0:1", "--testing-seed", 5, *self.more)
        shutil.copy(self.state, self.path("copy"))
        whole = self.rows("0:10", "--state", self.path("copy"))
        self.assertNotEqual(whole, self.rows("0:10"))
        self.refuse_rows("1:3", ["row 1", "skipped"])
        self.assertEqual(self.rows("0:4", *self.more), whole[:4 * 28])
        self.refuse_rows("0:4", ["row 0", "replay"])
        self.refuse_rows("3:5", ["row 3", "next row of the state file is 4"])
        self.refuse_rows("5:6", ["row 5", "skipped"])
        self.assertEqual(self.rows("2:6", *self.more, "--replay"), whole[2 * 28:6 * 28])
        self.refuse_rows("5:6", "replay")
        self.assertEqual(self.rows("6:10", *self.more), whole[6 * 28:])
        self.refuse_rows("0:10", "replay")
        self.assertEqual(self.rows("0:10", *self.more, "--replay"), whole)
        self.assertEqual(stat.S_IMODE(os.stat(self.state).st_mode), 0o600)
        self.assertEqual(self.left_behind(), ["copy", "m", "state"])

    def test_everything_else_is_bound_to_the_state_file(self):
        self.rows("0:2", *self.more)
        self.refuse_rows("2:3", "key", key=6)
        self.refuse_rows("2:3", "clip is 1 in it and 2 here", "--clip", "2")
        self.refuse_rows("2:3", "offset is 0 in it and 1 here", "--offset", "1")
        self.refuse_rows("2:3", "count is 7 in it and 6 here", "--count", "6")
        self.refuse_rows("2:3", "float64", "--format", "f64")
        self.no("dim is 7 in it and 8 here", self.file, "--dim", 8, "--rows", "2:3", "--testing-seed", "5", *self.more)
        other = self.path("other")
        self.ok("evaluate", "--steps", STEPS, "--family", "bsr", "--bands", "4", "-o", other)
        self.no("mechanism", other, "--dim", DIM, "--rows", "2:3", "--testing-seed", "5", *self.more)

    def test_a_changed_byte_of_the_state_file_is_refused(self):
        self.rows("0:2", *self.more)
        content = self.content()
        for place in list(range(0, 232, 7)) + [500, 512, 520, 528, 700, 1000, 1024, 1032, 1200, 1535]:
            changed = bytearray(content)
            changed[place] ^= 1
            with open(self.state, "wb") as file:
                file.write(changed)
            code, out, err = noise(self.file, "--dim", DIM, "--rows", "2:3", "--testing-seed", "5", *self.more)
            self.assertIn(code, (1, 2))
            self.assertEqual((out, err.count("\n")), (b"", 1))

    def test_a_second_program_is_refused(self):
        self.file = self.path("long")
        self.ok("evaluate", "--steps", 100000, "--family", "identity", "--bound", "none", "-o", self.file)
        command = [DPMF, "noise", "--uncalibrated", self.file, "--dim", "7", "--testing-seed", "5", *self.more, "--rows"]
        with subprocess.Popen([*command, "0:100000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
            self.assertEqual(len(first.stdout.read(28)), 28)
            code, out, err = noise(*command[3:], "1:2")
            first.kill()
        self.assertEqual((code, out), (1, b""))
        self.assertIn("in use", err)


class Streams(NoiseCase):
    def test_a_full_disk_is_said_by_noise(self):
        with open("/dev/full", "wb") as full:
            code, _, err = noise(self.file, "--dim", DIM, "--rows", "0:2", stdout=full)
        self.assertEqual((code, err.count("\n")), (1, 1))
        self.assertIn("standard output", err)

    def test_an_out_that_cannot_be_is_refused(self):
        for path in ["/dev/null", self.directory.name, self.path("none/rows")]:
            self.no("cannot write", self.file, "--dim", DIM, "--rows", "0:2", "--out", path, code=1)
        self.assertEqual(self.left_behind(), ["m"])

    def test_an_interrupt_comes_after_whole_rows(self):
        self.ok("evaluate", "--steps", 1000000, "--family", "identity", "--bound", "none", "-o", self.file)
        for out in ([], ["--out", self.path("rows")]):
            command = [DPMF, "noise", "--uncalibrated", self.file, "--dim", "1000003", "--rows", "0:1000000", *out]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                size = len(child.stdout.read(100000)) if not out else 0
                if out:
                    time.sleep(0.5)  # into the rows; the file has no name yet
                child.send_signal(signal.SIGINT)
                size += sum(map(len, iter(lambda: child.stdout.read(1 << 20), b"")))  # never all of it in memory
                err = child.stderr.read().decode()
            self.assertEqual((child.returncode, size % 4000012), (130, 0), err)
            self.assertTrue(err.endswith("dpmf: cancelled\n"), err)
            self.assertEqual(self.left_behind(), ["m"])

    def test_an_interrupt_in_a_long_row_keeps_it_reserved(self):
        """The row that was not finished is not in the output; the state file has recorded it, and a replay gives it again."""
        self.ok("evaluate", "--steps", 1000, "--family", "bsr", "--bands", 5, "--bound", "none", "-o", self.file)
        key = ["--key-file", self.path("k")]
        command = [DPMF, "noise", "--uncalibrated", self.file, "--dim", "4000003", *key]
        self.begin(*command[1:], "--rows", "0:1")
        shutil.copy(self.path("k.state"), self.path("copy"))
        with subprocess.Popen([*command, "--rows", "0:1000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            size = len(child.stdout.read(20000000))  # a row and a part of the next
            child.send_signal(signal.SIGINT)
            size += sum(map(len, iter(lambda: child.stdout.read(1 << 20), b"")))
        whole, rest = divmod(size, 4 * 4000003)
        self.assertEqual((child.returncode, rest), (130, 0))
        self.no("replay", *command[3:], "--rows", "%d:%d" % (whole - 1, whole))
        rows = "%d:%d" % (whole - 1, whole + 1)
        with open(self.path("again"), "wb") as again, open(self.path("fresh"), "wb") as fresh:
            self.assertEqual(noise(*command[3:], "--rows", rows, "--replay", stdout=again)[0], 0)
            self.assertEqual(noise(*command[3:], "--rows", "0:%d" % (whole + 1), "--state", self.path("copy"), stdout=fresh)[0], 0)
        with open(self.path("again"), "rb") as again, open(self.path("fresh"), "rb") as fresh:
            fresh.seek((whole - 1) * 4 * 4000003)
            self.assertEqual(again.read(), fresh.read())
        self.assertEqual(self.left_behind(), ["again", "copy", "fresh", "k", "k.state", "m"])

    def test_a_dry_run_says_the_memory_and_makes_nothing(self):
        words = self.ok("noise", "--uncalibrated", self.file, "--dim", "1M", "--dry-run", "--key-file", self.path("k"), "--state",
                        self.path("s"))
        self.assertIn("buffers", words)
        value = self.json("noise", "--uncalibrated", self.file, "--dim", "1M", "--dry-run")
        self.assertEqual((value["buffers"], value["buffer_bytes"], value["row_bytes"]), (2, 8000000, 4000000))
        self.assertTrue(8000000 <= value["memory_bytes"] <= 8000000 + 64 * 2 ** 20)
        self.assertEqual(self.left_behind(), ["m"])


class Usage(NoiseCase):
    def test_noise_refuses_missing_and_bad_options(self):
        good = [self.file, "--dim", "3", "--rows", "0:1"]
        for says, arguments in [
                ("FILE", ["--dim", "3", "--rows", "0:1"]), ("--dim", [self.file, "--rows", "0:1"]),
                ("--rows", [self.file, "--dim", "3"]), ("--dim 0", [self.file, "--dim", "0", "--rows", "0:1"]),
                ("--format f16", [*good, "--format", "f16"]), ("--clip 0", [*good, "--clip", "0"]),
                ("--clip -1", [*good, "--clip", "-1"]), ("--clip nan", [*good, "--clip", "nan"]),
                ("--count 0", [*good, "--count", "0"]), ("count", [*good, "--count", "4"]),
                ("offset", [*good, "--offset", "3"]), ("--testing-seed -1", [*good, "--testing-seed", "-1"]),
                ("only one", [*good, "--testing-seed", "1", "--key-file", self.path("k")]),
                ("--key-file", [*good, "--state", self.path("s")]), ("--state", [*good, "--replay"]),
                ("--json", [*good, "--json"])]:
            with self.subTest(arguments=arguments):
                self.no(says, *arguments)
        for rows in ["", "0", "0:", ":1", "1:1", "2:1", "-1:2", "0:11", "0:1:2", "a:b", "0:1.5", "0:1e400", "0,1",
                     "9" * 70 + ":1", "0:99999999999999999999"]:
            with self.subTest(rows=rows):
                self.no("--rows", self.file, "--dim", "3", "--rows", rows)
        self.assertEqual(self.left_behind(), ["m"])

    def test_noise_refuses_files_that_are_no_mechanisms(self):
        self.no("", self.path("none"), "--dim", "3", "--rows", "0:1", code=1)
        self.no("", self.write("junk", b"junk"), "--dim", "3", "--rows", "0:1", code=1)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The stream: the same bytes in C, NumPy and torch; resumed anywhere; and everything that it refuses."""

import os
import pathlib
import stat
import threading
import time
import unittest

import numpy as np
from support import KEY, Case, compile_c, mechanism, rows

import dpmf

try:
    import torch
except ImportError:
    torch = None

FAMILIES = ("identity", "toeplitz", "bsr", "banded", "blt", "tvblt", "tree")
SHAPES = [(3, 5), 7, (), (2, 2, 2)]
DIM = 15 + 7 + 1 + 8


def arrays(dtype):
    return [np.full(shape, 0.5, dtype) for shape in ((3, 5), (7,), (), (2, 2, 2))]


def joined(parts):
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


class Bytes(Case):
    """With the same key C, NumPy and torch have the same bytes."""

    def test_c_numpy_and_torch_get_the_same_bytes(self):
        program = compile_c((pathlib.Path(__file__).parent / "noise_program.c").read_text(), self.folder)
        for family in FAMILIES:
            for dtype in ("float32", "float64"):
                m = mechanism(family)
                m.save(self.folder / "m.dpmf")
                told = program(self.folder / "m.dpmf", DIM, 0.75, dtype, 0, 20)
                stream = m.noise(SHAPES, 0.75, KEY, dtype=dtype)
                self.assertEqual(told, rows(stream, 20).tobytes())
                stream.seek(0)
                filled = []
                for _ in range(20):
                    parts = arrays(dtype)
                    stream.fill_(parts)
                    filled.append(joined(parts))
                self.assertEqual(told, b"".join(filled))
                if torch is not None:
                    stream.seek(0)
                    tensors = [torch.from_numpy(part) for part in arrays(dtype)]
                    for t in range(20):
                        stream.fill_(tensors)
                        self.assertEqual(joined([x.numpy() for x in tensors]), filled[t])

    def test_adding_is_the_same_for_all(self):
        m = mechanism()
        whole, parts = np.full(DIM, 0.5, np.float32), arrays(np.float32)
        m.noise(DIM, 1.0, KEY).add_(whole, factor=-0.5)
        m.noise(SHAPES, 1.0, KEY).add_(parts, factor=-0.5)
        self.assertEqual(whole.tobytes(), joined(parts))
        row = m.noise(DIM, 1.0, KEY).next()
        np.testing.assert_allclose(whole, 0.5 - 0.5 * row, rtol=1e-6)
        if torch is not None:
            tensors = [torch.from_numpy(part) for part in arrays(np.float32)]
            m.noise(tensors, 1.0, KEY).add_(tensors, factor=-0.5)
            self.assertEqual(joined([x.numpy() for x in tensors]), whole.tobytes())

    def test_threads_prefetch_and_shards_change_nothing(self):
        m = mechanism("tvblt")
        wanted = rows(m.noise(5000, 1.0, KEY), 20)
        for options in ({"threads": 2}, {"prefetch": True}, {"lookahead": 1}, {"lookahead": 4}):
            np.testing.assert_array_equal(rows(m.noise(5000, 1.0, KEY, **options), 20), wanted)
        np.testing.assert_array_equal(rows(m.noise(5000, 1.0, KEY, offset=1234, count=77), 20), wanted[:, 1234:1311])
        self.assertFalse(np.array_equal(rows(m.noise(5000, 1.0, KEY, label="other"), 20), wanted))

    def test_without_memory_the_bytes_are_the_same(self):
        bisr = mechanism("bisr", bands=8)
        usual = bisr.noise(DIM, 1.0, KEY)
        expected = joined([usual.next() for _ in range(20)])
        for memory in (0, "1GiB"):
            stream = bisr.noise(DIM, 1.0, KEY, memory=memory)
            self.assertEqual(joined([stream.next() for _ in range(20)]), expected)
        with self.assertRaisesRegex(dpmf.errors.UnsupportedError, "keeps [0-9]+ rows"):
            mechanism("blt").noise(DIM, 1.0, KEY, memory=0)
        with self.assertRaisesRegex(dpmf.errors.UnsupportedError, "more than the 100 allowed"):
            bisr.noise(DIM, 1.0, KEY, memory=100)
        made = dpmf.design(40, 2, 8.0, 1e-6, dim=1000, memory=0, families=["identity", "taps"])
        report = made.design
        self.assertEqual((made.family, report.candidates[report.chosen].buffers, made.noise_memory(1000)[1]), ("taps", 0, 0))
        self.assertIn("normals per number", report.why)

    def test_rows_have_the_covariance_of_the_decoder(self):
        """W Z has the covariance W W' x scale^2; false alarm below 1e-9 for each of 400 entries (6.5 standard errors)."""
        m, count = mechanism("toeplitz"), 40000
        x = rows(m.noise(count, 2.0, KEY, dtype="float64"), 20)
        w = m.strategy.decoder() * 2.0 * 1.25 * m.sensitivity.value
        wanted = w @ w.T
        spread = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / count)
        self.assertLess(np.max(np.abs(x @ x.T / count - wanted) / spread), 6.5)


class Resume(Case):
    def test_what_one_saved_the_other_resumes(self):
        program = compile_c((pathlib.Path(__file__).parent / "noise_program.c").read_text(), self.folder)
        for family in FAMILIES:
            m, checkpoint = mechanism(family), self.folder / ("%s.checkpoint" % family)
            m.save(self.folder / "m.dpmf")
            wanted = rows(m.noise(DIM, 0.75, KEY), 20)
            # from C to Python
            told = program(self.folder / "m.dpmf", DIM, 0.75, "float32", 0, 8, "save", checkpoint)
            self.assertEqual(told, wanted[:8].tobytes())
            stream = m.noise(DIM, 0.75, KEY)
            stream.load(checkpoint)
            self.assertEqual(stream.step, 8)
            np.testing.assert_array_equal(rows(stream, 5), wanted[8:13])
            # and back
            stream.save(str(checkpoint) + "2")
            told = program(self.folder / "m.dpmf", DIM, 0.75, "float32", 13, 7, "load", str(checkpoint) + "2")
            self.assertEqual(told, wanted[13:].tobytes())

    def test_a_state_dict_goes_on_and_holds_no_key(self):
        for family in FAMILIES:
            for buffers in (False, True):
                m = mechanism(family)
                first = m.noise(DIM, 0.75, KEY)
                wanted = rows(first, 20)
                first.seek(11)
                state = first.state_dict(buffers=buffers)
                second = m.noise(DIM, 0.75, KEY)
                second.load_state_dict(state)
                np.testing.assert_array_equal(rows(second, 9), wanted[11:])
                self.assertNotIn(KEY, repr(state).encode())
                self.assertFalse(any(value == KEY for value in state.values()))

    def test_another_stream_is_refused_by_name(self):
        state = mechanism().noise(DIM, 0.75, KEY).state_dict()
        for words, make in (
            ("clip_norm = 0.75", lambda: mechanism().noise(DIM, 0.5, KEY)),
            ("sigma = 1.25", lambda: mechanism(sigma=1.0).noise(DIM, 0.75, KEY)),
            ("mechanism = ", lambda: mechanism("toeplitz").noise(DIM, 0.75, KEY)),
            ("steps = 20", lambda: mechanism(steps=21).noise(DIM, 0.75, KEY)),
            ("dim = 31", lambda: mechanism().noise(32, 0.75, KEY)),
            ("count = 31", lambda: mechanism().noise(DIM, 0.75, KEY, count=3)),
            ("dtype = float32", lambda: mechanism().noise(DIM, 0.75, KEY, dtype="float64")),
            ("label = ", lambda: mechanism().noise(DIM, 0.75, KEY, label="x")),
            ("another key", lambda: mechanism().noise(DIM, 0.75, dpmf.testing_key(8))),
        ):
            self.refused(dpmf.StateError, words, make().load_state_dict, state)
        stream = mechanism().noise(DIM, 0.75, KEY)
        self.refused(dpmf.StateError, "no noise state", stream.load_state_dict, {})
        self.refused(
            dpmf.StateError, "has no key", stream.load_state_dict, {n: v for n, v in state.items() if n != "key"}
        )
        damaged = stream.state_dict(buffers=True)
        damaged["buffers"] = damaged["buffers"][:-1] + bytes([damaged["buffers"][-1] ^ 1])
        self.assertRaises(dpmf.FormatError, stream.load_state_dict, damaged)

    def test_a_state_file_gives_each_row_once(self):
        m, path = mechanism(), self.folder / "run.state"
        with m.noise(DIM, 1.0, KEY, state=path, state_now=True) as stream:
            wanted = rows(m.noise(DIM, 1.0, KEY, salt=stream.salt), 20)
        self.assertFalse(np.array_equal(wanted, rows(m.noise(DIM, 1.0, KEY), 20)))
        self.refused(dpmf.Error, "another salt", m.noise, DIM, 1.0, KEY, state=path, salt=bytes(range(32)))
        with m.noise(DIM, 1.0, KEY, state=path) as stream:
            np.testing.assert_array_equal(rows(stream, 6), wanted[:6])
            self.refused(dpmf.Error, "", m.noise, DIM, 1.0, KEY, state=path)  # locked
        self.refused(dpmf.Error, "clip", m.noise, DIM, 2.0, KEY, state=path)
        with m.noise(DIM, 1.0, KEY, state=path) as stream:
            self.assertEqual(stream.step, 6)
            np.testing.assert_array_equal(stream.next(), wanted[6])
            self.assertRaises(dpmf.ArgumentError, stream.seek, 3)
        with m.noise(DIM, 1.0, KEY, state=path, replay=True) as stream:
            stream.seek(3)
            np.testing.assert_array_equal(stream.next(), wanted[3])

    def test_a_key_file_is_for_its_owner_alone(self):
        path = self.folder / "run.key"
        m = mechanism()
        with m.noise(DIM, 1.0, path) as stream:
            first, salt = stream.next(), stream.salt
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        np.testing.assert_array_equal(m.noise(DIM, 1.0, path.read_bytes(), salt=salt).next(), first)
        path.chmod(0o644)
        self.assertRaises(dpmf.Error, m.noise, DIM, 1.0, path)
        self.assertFalse(np.array_equal(m.noise(DIM, 1.0).next(), m.noise(DIM, 1.0).next()))
        self.assertNotEqual(dpmf.create_key(), dpmf.create_key())

    def test_without_a_key_file_there_is_no_state(self):
        self.refused(dpmf.StateError, "key file", mechanism().noise(DIM, 1.0).state_dict)


class Refused(Case):
    def test_arrays_that_do_not_fit_are_refused_unchanged(self):
        stream = mechanism().noise(SHAPES, 1.0, KEY)
        good = arrays(np.float32)
        before = joined(good)
        for words, change in (
            ("float64", lambda a: a.__setitem__(0, a[0].astype(np.float64))),
            ("int32", lambda a: a.__setitem__(0, a[0].astype(np.int32))),
            (">f4", lambda a: a.__setitem__(0, a[0].astype(">f4"))),
            ("not contiguous", lambda a: a.__setitem__(0, np.zeros((5, 3), np.float32).T)),
            ("not contiguous", lambda a: a.__setitem__(0, np.zeros((3, 10), np.float32)[:, ::2])),
            ("read-only", lambda a: a[0].setflags(write=False)),
            ("16 numbers, accepted: 15", lambda a: a.__setitem__(0, np.zeros((4, 4), np.float32))),
            ("3 arrays, accepted: 4", lambda a: a.pop()),
            ("share memory", lambda a: a.__setitem__(3, a[0].reshape(-1)[:8].reshape(2, 2, 2))),
            ("is a list", lambda a: a.__setitem__(1, [0.0] * 7)),
        ):
            bad = arrays(np.float32)
            change(bad)
            self.refused(dpmf.ArgumentError, words, stream.add_, bad)
            self.refused(dpmf.ArgumentError, words, stream.fill_, bad)
        self.assertEqual(stream.step, 0)
        self.assertEqual(joined(good), before)
        self.refused(
            dpmf.ArgumentError, "accepted: 31", mechanism().noise(DIM, 1.0, KEY).add_, np.zeros(30, np.float32)
        )
        self.assertRaises(dpmf.ArgumentError, stream.add_, good, factor=0.0)
        self.assertRaises(dpmf.ArgumentError, stream.add_, good, factor=float("nan"))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_tensors_that_do_not_fit_are_refused(self):
        stream = mechanism().noise(12, 1.0, KEY)
        for words, bad in (
            ("float64", torch.zeros(12, dtype=torch.float64)),
            ("bfloat16", torch.zeros(12, dtype=torch.bfloat16)),
            ("not contiguous", torch.zeros(3, 4).t()),
            ("not contiguous", torch.zeros(24)[::2]),
            ("not contiguous", torch.zeros(1).expand(12)),
            ("on meta", torch.zeros(12, device="meta")),
            ("negates", torch._neg_view(torch.zeros(12))),
            ("sparse", torch.zeros(12).to_sparse()),
            ("not contiguous", torch.zeros(1, 3, 2, 2).to(memory_format=torch.channels_last)),
        ):
            self.refused(dpmf.ArgumentError, words, stream.add_, bad)
        self.assertEqual(stream.step, 0)

    def test_stream_options_out_of_range_are_refused(self):
        m = mechanism()
        for words, shapes, options in (
            ("dim = 0", 0, {}),
            ("sizes of 0 or more", [(3, -1)], {}),
            ("dtype = float16", 5, {"dtype": "float16"}),
            ("offset = 5", 5, {"offset": 5}),
            ("count = 6", 5, {"count": 6}),
            ("count = 0", 5, {"count": 0}),
            ("replay", 5, {"replay": True}),
            ("lookahead", 5, {"lookahead": -1}),
        ):
            self.refused(dpmf.ArgumentError, words, m.noise, shapes, 1.0, KEY, **options)
        for clip in (0.0, -1.0, float("nan"), float("inf")):
            self.assertRaises(dpmf.ArgumentError, m.noise, 5, clip, KEY)
        self.refused(dpmf.ArgumentError, "31 bytes, accepted: 32", m.noise, 5, 1.0, KEY[1:])
        self.refused(dpmf.ArgumentError, "is a int", m.noise, 5, 1.0, 3)

    def test_a_closed_stream_gives_nothing(self):
        stream = mechanism().noise(5, 1.0, KEY)
        self.assertNotIn(KEY.hex(), repr(stream))
        stream.close()
        stream.close()
        for use in (
            lambda: stream.next(),
            lambda: stream.add_(np.zeros(5, np.float32)),
            lambda: stream.step,
            lambda: stream.seek(0),
            lambda: stream.state_dict(),
            lambda: stream.fill_(np.zeros(5, np.float32)),
        ):
            self.refused(dpmf.ClosedError, "closed", use)
        self.assertEqual(repr(stream), "NoiseStream(closed)")

    def test_a_row_past_the_last_step_is_refused(self):
        stream = mechanism("bsr", 8).noise(5, 1.0, KEY)
        rows(stream, 8)
        row = np.full(5, 3.0, np.float32)
        self.refused(dpmf.ArgumentError, "the mechanism has 8 steps", stream.add_, row)
        self.refused(dpmf.ArgumentError, "the mechanism has 8 steps", stream.fill_, row)
        self.assertTrue(np.all(row == 3.0))

    def test_after_a_fork_the_child_gets_no_rows(self):
        for prefetch in (False, True):
            stream = mechanism().noise(5, 1.0, KEY, prefetch=prefetch)
            stream.next()
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    stream.next()
                    answer = "it gave a row"
                except dpmf.UnsupportedError as error:
                    answer = str(error)
                os.write(writer, answer.encode())
                stream.close()
                os._exit(0)
            os.close(writer)
            with open(reader, encoding="utf-8") as told:
                self.assertIn("forked", told.read())
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            stream.next()

    def test_nothing_is_copied_and_others_run_meanwhile(self):
        """The memory that is handed in is the memory that changes, and a Python thread runs during a long call."""
        stream = mechanism("blt", 3000, sigma=1.0).noise(30000, 1.0, KEY)
        row = np.zeros(30000, np.float32)
        address = row.ctypes.data
        stream.add_(row)
        self.assertEqual(row.ctypes.data, address)
        self.assertTrue(np.all(row != 0))
        ticks, done = [], threading.Event()
        other = threading.Thread(
            target=lambda: [ticks.append(time.sleep(0.001)) for _ in iter(lambda: done.is_set(), True)]
        )
        other.start()
        time.sleep(0.01)
        before = len(ticks)
        stream.seek(2999)  # makes all rows before it: one call of a good part of a second, ticks 1 ms apart
        during = len(ticks) - before
        done.set()
        other.join()
        self.assertGreater(during, 0)

    def test_two_threads_take_turns(self):
        m = mechanism("bsr", 400)
        wanted = {row.tobytes() for row in rows(m.noise(300, 1.0, KEY), 400)}
        stream, found = m.noise(300, 1.0, KEY), []
        threads = [
            threading.Thread(target=lambda: found.extend(stream.next().tobytes() for _ in range(100))) for _ in range(4)
        ]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(set(found), wanted)

    def test_the_commitment_is_the_librarys(self):
        """The key's name in a state is the one in the library's files: bytes 200 to 232 of a checkpoint."""
        stream = mechanism().noise(5, 1.0, KEY)
        stream.save(self.folder / "checkpoint")
        self.assertEqual((self.folder / "checkpoint").read_bytes()[200:232].hex(), stream.state_dict()["key"])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Private running sums."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Optional, Tuple

import numpy as np

from . import errors
from ._library import abi, c, doubles, encode_text, flag, integer, interruptible, make_callback, numbers, path_bytes, real
from ._object import Object
from .keys import KeyBuffer, KeyLike
from .mechanism import Mechanism
from .noise import NO_STATE, NoState, StateLike, require_mechanism

__all__ = ["Counter"]


RELEASES = {
    "auto": abi.dpmf_release.DPMF_RELEASE_AUTO,
    "exact": abi.dpmf_release.DPMF_RELEASE_EXACT,
    "plain": abi.dpmf_release.DPMF_RELEASE_PLAIN,
}


class Counter(Object):
    """Publishes running sums of a stream of numbers, each with its standard deviation, as `dpmf count` does.

    mechanism   its workload determines the sums: "prefix" gives running sums, "decay:L" sums that forget
    clip        the most, in l2 norm, that one unit adds to a row
    columns     numbers of a row
    key         32 bytes; or the path of a key file, made (mode 0600) if it is missing; or None: a new key that lives as long
                as the counter, which then cannot be resumed
    state       the path of a state file: the next program resumes where this one was, no matter how it ended. None: the
                key's path + ".state", and no file for a key without a path. NO_STATE: none at all
    label       a name of this run: runs of other names get other noise from the same key
    release     "auto": exact wherever the mechanism has an exact release (docs/exactness.md); "exact": or it is refused;
                "plain": noise in floating point
    clip_rows   each row is the contribution of one unit, and is scaled down to `clip`; the number of scaled rows is not reported

    Rows and noise are added as whole numbers in 128 bits, the same bits as those of the program and of C. With a state file
    the sums are on the disk before `add` or `extend` returns: one sync per call, so adding rows in groups is much faster. The
    file is as secret as the data.

    A mechanism whose guarantee needs sampling is refused: a count does no sampling. So is one without sigma, unless
    `uncalibrated=True` takes sigma = 1; its sums promise nothing, and `calibrated` is False.

    >>> from dpmf import evaluate, testing_key
    >>> counter = Counter(evaluate("toeplitz", 365, sigma=1.0), clip=1.0, key=testing_key(1))
    >>> total, error = counter.add(20)
    >>> counter.step, round(error, 3)
    (1, 1.716)
    >>> totals, deviations = counter.extend([21, 19, 25])
    >>> totals.shape, deviations.shape, counter.step
    ((3,), (3,), 4)
    """

    _free = "dpmf_counter_free"

    def __init__(
        self,
        mechanism: Mechanism,
        clip: float = 1.0,
        columns: int = 1,
        key: KeyLike = None,
        *,
        state: StateLike = None,
        label: Optional[str] = None,
        clip_rows: bool = False,
        release: str = "auto",
        uncalibrated: bool = False,
        state_now: bool = False,
    ):
        self._pointer = None
        if key is None and state is not None and state is not NO_STATE:
            raise errors.ArgumentError(
                "state without a key: a key that is made for this counter alone is gone with it, and its state is of no use"
            )
        require_mechanism(mechanism).confirm()
        clip, columns = real(clip, "clip"), integer(columns, "columns")
        options = c.dpmf_counter_options_defaults()
        options.label = encode_text(label, "label", optional=True)
        options.state = None if isinstance(state, NoState) else path_bytes(state, "state")
        options.key_file = path_bytes(key) if isinstance(key, (str, os.PathLike)) else None
        options.rows_may_repeat = int(isinstance(state, NoState))
        options.clip_rows, options.state_now = flag(clip_rows, "clip_rows"), flag(state_now, "state_now")
        options.uncalibrated = flag(uncalibrated, "uncalibrated")
        if release not in RELEASES:
            raise errors.ArgumentError("release = %r, accepted: %s" % (release, ", ".join(RELEASES)))
        options.release = RELEASES[release]
        self._callback = options.run.progress = make_callback()  # of rows: an interrupt ends them, and the counter
        out = ctypes.POINTER(abi.dpmf_counter)()
        with KeyBuffer(key) as memory, interruptible():
            self._commitment = memory.commitment()
            c.dpmf_counter_create(
                mechanism._handle, columns, clip, memory.memory, ctypes.byref(options), ctypes.byref(out)
            )
        super().__init__(out)
        self._mechanism, self._columns = mechanism, columns
        self._lock = threading.Lock()  # the calls leave Python's own lock, and the library's counter is for one thread
        if c.dpmf_counter_get(self._handle).input_size > 0:
            # The program counted lines of a file; these rows are no file's.
            c.dpmf_counter_input(self._handle, abi.dpmf_input.DPMF_INPUT_RESTART, None, 0)

    @property
    def mechanism(self) -> Mechanism:
        return self._mechanism

    @property
    def columns(self) -> int:
        return self._columns

    @property
    def step(self) -> int:
        """Rows that have been counted, by any program."""
        return c.dpmf_counter_get(self._handle).step

    @property
    def salt(self) -> bytes:
        """Of the state file, on which the noise depends; zeros: there is none. It is no secret."""
        return bytes(c.dpmf_counter_get(self._handle).salt)

    @property
    def scale(self) -> float:
        """clip x sigma x sensitivity."""
        return c.dpmf_counter_get(self._handle).scale

    @property
    def grid(self) -> Optional[float]:
        """Of the exact release, which sums are whole multiples of; None: it is plain."""
        return c.dpmf_counter_get(self._handle).grid or None

    @property
    def calibrated(self) -> bool:
        """False: the mechanism has no sigma, and 1 is taken."""
        return bool(c.dpmf_counter_get(self._handle).calibrated)

    def deviation(self, step: int) -> float:
        """The standard deviation of the sums of a step, from 0."""
        if not 0 <= integer(step, "step") < self._mechanism.steps:
            raise errors.ArgumentError("step %d, accepted 0 to %d" % (step, self._mechanism.steps - 1))
        return c.dpmf_counter_error(self._handle, step)

    @property
    def last(self) -> "Optional[Tuple[np.ndarray, np.ndarray]]":
        """What the last `add` or `extend` gave, rows x columns, and the deviations: for a program that was killed before it
        could use them. None: there is nothing, or `dpmf count` wrote the state file last."""
        with self._lock:
            rows = c.dpmf_counter_get(self._handle).last_rows
            if rows == 0:
                return None
            sums = np.empty((rows, self._columns))
            c.dpmf_counter_last(self._handle, doubles(sums))
            return sums, self._deviations(self.step - rows, rows)

    def add(self, row: Any) -> "Tuple[Any, float]":
        """The next row; gives (private sums so far, their standard deviation)."""
        values = numbers(row, "row").reshape(-1)
        if values.shape != (self._columns,):
            raise errors.ArgumentError("the row has %d numbers, accepted: %d" % (values.size, self._columns))
        sums, deviations = self._count(values.reshape(1, -1))
        return (float(sums[0, 0]) if np.ndim(row) == 0 else sums[0]), float(deviations[0])

    def extend(self, rows: Any) -> "Tuple[np.ndarray, np.ndarray]":
        """The next rows, in one call: an array (or a pandas frame or series) of rows x columns, or of rows alone where there
        is one column. Gives the private sums in the same shape, and a standard deviation for each row. An interrupt while
        they are made ends the counter; a new one resumes from its state file, which has none of them."""
        values = numbers(rows, "rows")
        if np.ndim(rows) == 0:
            raise errors.ArgumentError("rows: one number; add takes one row, and extend an array of them")
        if values.ndim not in (1, 2) or (values.ndim == 1 and self._columns != 1):
            raise errors.ArgumentError("rows of shape %s, accepted: (rows, %d)" % (values.shape, self._columns))
        if values.ndim == 2 and values.shape[1] != self._columns:
            raise errors.ArgumentError("rows of %d numbers, accepted: %d" % (values.shape[1], self._columns))
        sums, deviations = self._count(values.reshape(-1, self._columns))
        return sums.reshape(values.shape), deviations

    def _count(self, values: np.ndarray) -> "Tuple[np.ndarray, np.ndarray]":
        sums = np.empty_like(values)
        with self._lock:
            deviations = self._deviations(self.step, len(values))  # first: an interrupt in it finds nothing counted
            with interruptible():
                c.dpmf_counter_add(self._handle, len(values), doubles(values), doubles(sums))
        return sums, deviations

    def _deviations(self, first: int, rows: int) -> np.ndarray:
        error, pointer = c.dpmf_counter_error, self._handle
        return np.array([error(pointer, first + i) for i in range(rows)], np.float64)

    def close(self) -> None:
        """Wipes keys, sums and buffers."""
        with self._lock:
            self._close()

    def __enter__(self) -> "Counter":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._pointer is None:
            return "Counter(closed)"
        return "Counter(%r, step=%d of %d, columns=%d)" % (
            self._mechanism.family,
            self.step,
            self._mechanism.steps,
            self._columns,
        )

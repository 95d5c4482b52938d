# SPDX-License-Identifier: Apache-2.0
"""Noise for a large table of which a step reads few rows: each row gets what it has missed when it is read, or at a flush."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from . import errors
from ._library import abi, c, encode_text, flag, integer, interruptible, path_bytes, real, set_field, whole_numbers
from ._memory import segment_of
from ._object import Object
from .keys import KeyBuffer, KeyLike
from .noise import DTYPES, NoState, StateLike, require_mechanism, salt_memory

if TYPE_CHECKING:
    from .mechanism import Mechanism

__all__ = ["LazyNoise"]


class Lazy(ctypes.Structure):
    """dpmf_lazy of dpmf_experimental.h."""


class Info(ctypes.Structure):
    _fields_ = [("step", ctypes.c_int64), ("flushed", ctypes.c_int64), ("flushes", ctypes.c_int64), ("reserved", ctypes.c_int64),
                ("buffers", ctypes.c_int64), ("calibrated", ctypes.c_int), ("scale", ctypes.c_double),
                ("salt", ctypes.c_uint8 * abi.DPMF_SALT_SIZE)]  # fmt: skip


LAZY = ctypes.POINTER(Lazy)
abi.FUNCTIONS.update(
    {
        "dpmf_lazy_create": (
            abi.dpmf_status,
            [ctypes.POINTER(abi.dpmf_mechanism), ctypes.c_int64, ctypes.c_int64, ctypes.c_double, ctypes.POINTER(ctypes.c_uint8),
             ctypes.POINTER(abi.dpmf_noise_options), ctypes.POINTER(LAZY)],  # fmt: skip
        ),
        "dpmf_lazy_free": (None, [LAZY]),
        "dpmf_lazy_touch": (abi.dpmf_status, [LAZY, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]),
        "dpmf_lazy_next": (abi.dpmf_status, [LAZY, ctypes.c_double]),
        "dpmf_lazy_flush": (abi.dpmf_status, [LAZY, ctypes.c_void_p]),
        "dpmf_lazy_get": (Info, [LAZY]),
        "dpmf_lazy_save": (abi.dpmf_status, [LAZY, ctypes.c_char_p]),
        "dpmf_lazy_load": (abi.dpmf_status, [LAZY, ctypes.c_char_p]),
    }
)


class LazyNoise(Object):
    """The noise of a table of `rows` rows of `width` numbers. A draw takes 1 + buffers normals, however many steps were missed.

    After a flush the table has the law that it has if every step's noise is added to all of it, up to the rounding of the table: a
    float32 table whose numbers are above 1e6 x the noise of a step loses noise, and needs float64. Which rows were touched depends on the
    data: nothing of a table may leave while `pending` is True, nor what a model computes with it.

    mechanism   up to 16 buffers: independent noise, BLT, TV-BLT, few bands, trees, ...; dense, FFT and replayed seeds are refused
    clip_norm   the l2 norm to which a unit's gradient is clipped, over this table and everything else that is trained
    key         as for NoiseStream
    state       the path of this table's own state file, in which each flush is bound to the history before it. None: the key's path +
                ".state", and no file for a key without a path. NO_STATE: none at all
    replay      flushes that the state file has seen may be given again, for the same history
    label       of this table: each table of a run needs its own, for its own noise
    dtype       of the table, "float32" or "float64"
    threads, salt, uncalibrated   as for NoiseStream

    >>> from dpmf import evaluate, testing_key
    >>> noise = LazyNoise(evaluate("identity", 10, sigma=1.0), 1000, 4, clip_norm=1.0, key=testing_key(1))
    >>> table = np.zeros((1000, 4), np.float32)
    >>> for step in range(3):
    ...     noise.touch_(table, [step, 7])          # before the step reads these rows
    ...     table[[step, 7]] -= 0.1                 # - learning rate x the sum of their clipped gradients
    ...     noise.next(-0.5)                        # the step is over; its noise is multiplied by this
    >>> noise.pending
    True
    >>> noise.flush_(table)
    >>> noise.pending, bool((table != 0).all())
    (False, True)
    """

    _free = "dpmf_lazy_free"

    def __init__(
        self,
        mechanism: "Mechanism",
        rows: int,
        width: int,
        clip_norm: float,
        key: KeyLike = None,
        *,
        dtype: str = "float32",
        state: StateLike = None,
        replay: bool = False,
        label: Optional[str] = None,
        threads: int = 0,
        salt: Optional[bytes] = None,
        uncalibrated: bool = False,
    ):
        self._pointer = None
        dtype = str(dtype).replace("torch.", "") if not isinstance(dtype, type) else np.dtype(dtype).name
        if dtype not in DTYPES:
            raise errors.ArgumentError("dtype = %s, accepted: float32, float64" % dtype)
        if key is None and state is not None and not isinstance(state, NoState):
            raise errors.ArgumentError("state without a key: a key that is made for this stream alone is gone with it")
        mechanism = require_mechanism(mechanism)
        rows, width, clip_norm = integer(rows, "rows"), integer(width, "width"), real(clip_norm, "clip_norm")
        mechanism.confirm()
        has_path = isinstance(key, (str, os.PathLike))
        options = c.dpmf_noise_options_defaults()
        options.precision = DTYPES[dtype][1]
        options.label = encode_text(label, "label", optional=True)
        options.state = None if isinstance(state, NoState) else path_bytes(state, "state")
        options.key_file = path_bytes(key) if has_path else None
        options.rows_may_repeat = int(isinstance(state, NoState))
        options.replay, options.uncalibrated = flag(replay, "replay"), flag(uncalibrated, "uncalibrated")
        options.salt = salt_memory(salt)
        set_field(options.run, "threads", threads, ctypes.c_int)
        out = LAZY()
        with KeyBuffer(key) as memory:
            c.dpmf_lazy_create(
                mechanism._handle, rows, width, clip_norm, memory.memory, ctypes.byref(options), ctypes.byref(out)
            )
        super().__init__(out)
        self._mechanism, self._rows, self._width, self._dtype, self._clip = mechanism, rows, width, dtype, clip_norm
        self._lock = threading.Lock()

    @property
    def mechanism(self) -> "Mechanism":
        return self._mechanism

    @property
    def step(self) -> int:
        """Steps that are over."""
        return c.dpmf_lazy_get(self._handle).step

    @property
    def flushed(self) -> int:
        """Of them, those whose noise is in every row."""
        return c.dpmf_lazy_get(self._handle).flushed

    @property
    def flushes(self) -> int:
        return c.dpmf_lazy_get(self._handle).flushes

    @property
    def reserved(self) -> int:
        """Flushes that the state file records, from any program; 0 without one."""
        return c.dpmf_lazy_get(self._handle).reserved

    @property
    def pending(self) -> bool:
        """Noise is missing in the table, which must not leave."""
        found = c.dpmf_lazy_get(self._handle)
        return found.flushed < found.step

    @property
    def scale(self) -> float:
        """clip x sigma x sensitivity."""
        return c.dpmf_lazy_get(self._handle).scale

    @property
    def clip_norm(self) -> float:
        return self._clip

    @property
    def salt(self) -> bytes:
        return bytes(c.dpmf_lazy_get(self._handle).salt)

    def _address(self, table: Any) -> int:
        if tuple(getattr(table, "shape", ())) != (self._rows, self._width):
            raise errors.ArgumentError(
                "the table has shape %s, accepted: %s" % (tuple(getattr(table, "shape", ())), (self._rows, self._width))
            )
        return segment_of(table, self._dtype, "the table")[0]

    def touch_(self, table: Any, rows: Any) -> None:
        """Adds to these rows of the table, in place, the noise that they have missed; to be called before a step reads them."""
        found = whole_numbers(rows, "rows").reshape(-1)
        with self._lock:
            c.dpmf_lazy_touch(self._handle, found.size, found.ctypes.data, self._address(table))

    def next(self, factor: float) -> None:
        """Ends a step, whose noise is owed to every row, times this factor: that of the step's sum, as in - learning rate / batch."""
        factor = real(factor, "factor")
        with self._lock:
            c.dpmf_lazy_next(self._handle, factor)

    def flush_(self, table: Any) -> None:
        """Adds to every row, in place, the noise that it has missed. The table may then leave."""
        with self._lock, interruptible():
            c.dpmf_lazy_flush(self._handle, self._address(table))

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """The buffers, as secret as the key, for the table that is saved beside it; refused while noise is pending."""
        with self._lock:
            c.dpmf_lazy_save(self._handle, path_bytes(path, optional=False))

    def load(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Goes to the step of a saved file; the table must be the one that was saved beside it. Refused while noise is pending."""
        with self._lock:
            c.dpmf_lazy_load(self._handle, path_bytes(path, optional=False))

    def close(self) -> None:
        """Wipes keys and buffers. Noise that is pending is lost, and the table without it must not be used."""
        with self._lock:
            self._close()

    def __enter__(self) -> "LazyNoise":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._pointer is None:
            return "LazyNoise(closed)"
        return "LazyNoise(%r, rows=%d, width=%d, step=%d of %d, flushed=%d)" % (
            self._mechanism.family, self._rows, self._width, self.step, self._mechanism.steps, self.flushed)  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""The rows of noise that a run adds: from a key, in order, each once."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple, Union

import numpy as np

from . import errors
from ._library import abi, c, encode_text, flag, integer, interruptible, make_callback, memory_limit, path_bytes, real, set_field
from ._memory import is_tensor, segment_of, sizes_of
from ._object import Object
from .keys import KeyBuffer, KeyLike
from .checkpoint import SavesState
from .privacy import read_text

if TYPE_CHECKING:
    from .mechanism import Mechanism

__all__ = ["NO_STATE", "NoiseStream"]

DTYPES: Dict[str, Tuple[Any, Any]] = {
    "float32": (np.dtype(np.float32), abi.dpmf_precision.DPMF_FLOAT32),
    "float64": (np.dtype(np.float64), abi.dpmf_precision.DPMF_FLOAT64),
}
#: Options of a stream that training passes on, and those of one of several streams of a run.
STREAM = ("state", "label", "prefetch", "lookahead", "scratch", "threads")
SHARD = ("dtype", "offset", "count", "replay", "whole_state", "uncalibrated", "salt", "state_now")


class NoState:
    """The type of NO_STATE."""

    def __repr__(self) -> str:
        return "dpmf.NO_STATE"


#: For `state`: no state file, although the key has a path. Opening the key again then repeats the same rows without an
#: error, and two sums under the same row reveal their difference.
NO_STATE = NoState()

StateLike = Union[str, "os.PathLike[str]", NoState, None]


def require_mechanism(value: Any) -> "Mechanism":
    from .mechanism import Mechanism

    if not isinstance(value, Mechanism):
        raise errors.ArgumentTypeError("mechanism is a %s, a dpmf.Mechanism is accepted" % type(value).__name__)
    return value


def salt_memory(salt: Optional[bytes]) -> Any:
    """As the library takes it."""
    if salt is None:
        return None
    if not isinstance(salt, (bytes, bytearray)):
        raise errors.ArgumentTypeError("salt is a %s, %d bytes are accepted" % (type(salt).__name__, abi.DPMF_SALT_SIZE))
    if len(salt) != abi.DPMF_SALT_SIZE:
        raise errors.ArgumentError("a salt of %d bytes, accepted: %d" % (len(salt), abi.DPMF_SALT_SIZE))
    return (ctypes.c_uint8 * len(salt)).from_buffer_copy(salt)


class NoiseStream(SavesState, Object):
    """Rows of noise, row t for the sum of the clipped gradients of step t: clip x sigma x sensitivity x row t of W Z.

    mechanism   the mechanism of the rows
    shapes      the numbers in a row: an int, or a sequence of shapes, arrays or tensors (a model's parameters)
    clip_norm   the l2 norm to which each unit's gradient is clipped
    key         32 bytes; or the path of a key file, made (mode 0600) if it is missing; or None: a new key that lives as
                long as the stream, so that the run cannot be resumed
    dtype       "float32" or "float64": two different streams
    offset, count   a shard: the coordinates [offset, offset + count) of the row; its arrays then hold `count` numbers
    state       the path of a state file, which remembers durably which rows were used, and for which sums. None: the
                key's path + ".state", and no file for a key without a path. NO_STATE: none at all
    replay      with a state file: rows that it has seen may be asked for again, as resuming from a checkpoint needs; for
                the same sums only
    whole_state    with a shard: the state file is that of the whole row; one of several processes keeps it
    salt        the `salt` of the stream that keeps the state file, for the other shards of the same row; None: this one's own
    state_now   a state file that is missing is made at once, and not with the first row: before a ledger knows it
    label       a name of this run: runs of other names get other noise from the same key
    prefetch    a thread makes the next row while the caller works
    exact       the exact release: rows are whole multiples of `grid`, in float64, and the guarantee is proven for sums on that
                grid (docs/exactness.md). add_whole_ adds them to integers; add_ is refused, because floats round
    grid        of the exact release: a power of two, or None: chosen
    uncalibrated    a mechanism without sigma is refused; True takes sigma = 1, and the rows promise nothing (`calibrated` is False)
    lookahead, scratch, threads    as in the library: they change time and memory, never a bit
    memory      that the stream may take, in bytes or as in "1GiB": it makes fewer rows ahead, or is refused. 0: it keeps no row. None:
                what the mechanism's design was limited to. It never changes a bit

    >>> from dpmf import evaluate, testing_key
    >>> stream = NoiseStream(evaluate("toeplitz", 10, sigma=1.0), [(2, 3), 4], clip_norm=1.0, key=testing_key(1))
    >>> weights, bias = np.zeros((2, 3), np.float32), np.zeros(4, np.float32)
    >>> stream.add_([weights, bias])
    >>> stream.step, stream.count
    (1, 10)
    >>> stream.add_([weights.T, bias])
    Traceback (most recent call last):
        ...
    dpmf.errors.ArgumentError: array 0 is not contiguous in C order: its memory has gaps or another order
    """

    _free = "dpmf_noise_free"
    _calls: Any = c  # whose functions make the rows: dpmf.device has others

    def __init__(
        self,
        mechanism: "Mechanism",
        shapes: Any,
        clip_norm: float,
        key: KeyLike = None,
        *,
        dtype: str = "float32",
        offset: int = 0,
        count: Optional[int] = None,
        state: StateLike = None,
        replay: bool = False,
        whole_state: bool = False,
        salt: Optional[bytes] = None,
        state_now: bool = False,
        label: Optional[str] = None,
        prefetch: bool = False,
        lookahead: int = 0,
        memory: Union[int, str, None] = None,
        scratch: "Union[str, os.PathLike[str], None]" = None,
        threads: int = 0,
        exact: bool = False,
        grid: Optional[float] = None,
        uncalibrated: bool = False,
    ):
        self._pointer = None
        if exact:
            dtype = "float64"
        dtype = str(dtype).replace("torch.", "") if not isinstance(dtype, type) else np.dtype(dtype).name
        if dtype not in DTYPES:
            raise errors.ArgumentError("dtype = %s, accepted: float32, float64" % dtype)
        has_path = isinstance(key, (str, os.PathLike))
        if key is None and state is not None and state is not NO_STATE:
            raise errors.ArgumentError(
                "state without a key: a key that is made for this stream alone is gone with it, and its state is of no use"
            )
        mechanism = require_mechanism(mechanism)
        offset, count = integer(offset, "offset"), integer(count, "count", optional=True)
        clip_norm = real(clip_norm, "clip_norm")
        if count is not None and count < 1:
            raise errors.ArgumentError("count = %d, accepted: 1 or more, or None for all from the offset on" % count)
        mechanism.confirm()
        whole = isinstance(shapes, (int, np.integer))
        sizes = None if whole else sizes_of(shapes)
        dim = int(shapes) if sizes is None else sum(sizes)
        options = c.dpmf_noise_options_defaults()
        options.precision = DTYPES[dtype][1]
        set_field(options, "offset", offset, ctypes.c_int64)
        options.count = count or 0
        set_field(options, "lookahead", lookahead, ctypes.c_int64)
        set_field(options, "memory", memory_limit(memory) or 0, ctypes.c_uint64)
        options.prefetch, options.replay = flag(prefetch, "prefetch"), flag(replay, "replay")
        options.label = encode_text(label, "label", optional=True)
        options.state = None if isinstance(state, NoState) else path_bytes(state, "state")
        options.key_file = path_bytes(key) if has_path else None
        options.rows_may_repeat = int(isinstance(state, NoState))
        options.whole_state, options.scratch = flag(whole_state, "whole_state"), path_bytes(scratch, "scratch")
        options.uncalibrated = flag(uncalibrated, "uncalibrated")
        options.salt, options.state_now = salt_memory(salt), flag(state_now, "state_now")
        set_field(options.run, "threads", threads, ctypes.c_int)
        options.exact, options.grid = flag(exact, "exact"), 0.0 if grid is None else real(grid, "grid")
        self._callback = options.run.progress = make_callback()  # of seeking: an interrupt ends it
        out = ctypes.POINTER(abi.dpmf_noise)()
        with KeyBuffer(key) as memory:
            commitment = memory.commitment()
            with interruptible():
                self._calls.dpmf_noise_create(
                    mechanism._handle, dim, clip_norm, memory.memory, ctypes.byref(options), ctypes.byref(out)
                )
        super().__init__(out)
        self._mechanism, self._label = mechanism, label
        self._sizes = sizes if offset == 0 and count in (None, dim) else None
        self._dtype, self._dim, self._offset = dtype, dim, offset
        self._clip, self._ephemeral, self._commitment = float(clip_norm), key is None, commitment
        self._keeps_state = not isinstance(state, NoState) and (has_path or state is not None)
        self._figures = c.dpmf_noise_get(out).release if self._calls is c else None  # what an exact statement has of it
        self._bound = -1  # the row for which bind_sum was called last
        self._cached: Tuple[Any, Any] = (None, None)
        self._lock = threading.Lock()  # the calls leave Python's own lock, and the library's stream is for one thread

    # ---- where it is ----

    @property
    def mechanism(self) -> "Mechanism":
        return self._mechanism

    @property
    def step(self) -> int:
        """The number of the next row."""
        return self._calls.dpmf_noise_get(self._handle).step

    @property
    def reserved(self) -> int:
        """Rows that the state file records, from any program; 0 without one."""
        return self._calls.dpmf_noise_get(self._handle).reserved

    @property
    def keeps_state(self) -> bool:
        """There is a state file (or will be, from the first row on)."""
        return self._keeps_state

    @property
    def salt(self) -> bytes:
        """Of the state file, on which the noise depends; zeros: there is none. It is no secret."""
        return bytes(self._calls.dpmf_noise_get(self._handle).salt)

    @property
    def in_doubt(self) -> bool:
        """The row before it may not have arrived: use seek to decide."""
        return bool(self._calls.dpmf_noise_get(self._handle).in_doubt)

    @property
    def dim(self) -> int:
        """Numbers of a whole row."""
        return self._dim

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def count(self) -> int:
        """Numbers of this stream's part of a row."""
        return self._calls.dpmf_noise_get(self._handle).count

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def clip_norm(self) -> float:
        return self._clip

    @property
    def scale(self) -> float:
        """clip x sigma x sensitivity."""
        return self._calls.dpmf_noise_get(self._handle).release.scale

    @property
    def calibrated(self) -> bool:
        """False: the mechanism has no sigma, and 1 is taken."""
        return bool(self._calls.dpmf_noise_get(self._handle).calibrated)

    @property
    def grid(self) -> Optional[float]:
        """Of the exact release; None: the stream is not exact. No device makes exact rows."""
        return (c.dpmf_noise_get(self._handle).grid or None) if self._calls is c else None

    @property
    def sensitivity(self) -> float:
        """What the scale is made of: the mechanism's; of an exact release with what rounding adds."""
        if self._calls is not c:
            return self.scale / (self._clip * (self._mechanism.sigma or 1.0))
        return c.dpmf_noise_get(self._handle).release.sensitivity

    def exact_statement(self, said: str) -> str:
        """A statement with the sentence on arithmetic that the exact release has; the same text where the stream is not exact."""
        if self._figures is None or not self._figures.grid:
            return said
        return read_text(c.dpmf_exact_statement, ctypes.byref(self._figures), encode_text(said, "said"))

    # ---- rows ----

    def bind_sum(self, digest: bytes) -> None:
        """Names the sum that the next row is for, by 32 bytes that depend on all of it, for example its SHA-256.

        With a state file a keyed hash of them is on the disk before the caller gets the row, and a row that is asked for
        again is given only for the same sum: another one is refused here, before anything is released. `add_` does it by
        itself; `next` and `fill_` do not see the sum: call it yourself if you resume runs with them.
        """
        if not isinstance(digest, (bytes, bytearray)):
            raise errors.ArgumentTypeError("digest is a %s, 32 bytes are accepted" % type(digest).__name__)
        if len(digest) != abi.DPMF_DIGEST_SIZE:
            raise errors.ArgumentError("a digest of %d bytes, accepted: %d" % (len(digest), abi.DPMF_DIGEST_SIZE))
        with self._lock:
            self._bind(digest)

    def _bind(self, digest: bytes) -> None:
        self._calls.dpmf_noise_bind_sum(self._handle, (ctypes.c_uint8 * len(digest)).from_buffer_copy(digest))
        self._bound = self.step

    def add_(self, arrays: Any, factor: float = 1.0) -> None:
        """Adds factor x the next row to the arrays, in place and in order, in one call without a copy.

        With a state file the row is bound to the contents of the arrays and to the factor, as bind_sum does.
        """
        factor = real(factor, "factor")
        with self._lock:
            segments = self._segments(arrays)
            if self._keeps_state and self._bound != self.step and not self.in_doubt:
                digest = hashlib.sha256(np.float64(factor).tobytes())
                for segment in segments:
                    size = segment.count * DTYPES[self._dtype][0].itemsize
                    digest.update((ctypes.c_char * size).from_address(segment.memory))
                self._bind(digest.digest())
            self._calls.dpmf_noise_add(self._handle, factor, len(segments), segments)

    def add_whole_(self, sums: np.ndarray) -> None:
        """Adds the next row of an exact stream to `sums`, int64 in steps of the grid, in place.

        With a state file the row is bound to them, as bind_sum does.
        """
        if not isinstance(sums, np.ndarray) or sums.dtype != np.int64 or not sums.flags.c_contiguous:
            raise errors.ArgumentTypeError("sums: a contiguous array of int64 is accepted")
        if not sums.flags.writeable or sums.size != self.count:
            raise errors.ArgumentError("sums: %d writeable numbers are accepted" % self.count)
        with self._lock:
            if self._keeps_state and self._bound != self.step and not self.in_doubt:
                self._bind(hashlib.sha256(memoryview(sums).cast("B")).digest())
            segment = abi.dpmf_segment(sums.ctypes.data, sums.size)
            c.dpmf_noise_add_whole(self._handle, 1, ctypes.byref(segment))

    def fill_(self, arrays: Any) -> None:
        """Writes the next row over the contents of the arrays. A refused row leaves them unchanged."""
        with self._lock:
            segments = self._segments(arrays)
            if len(segments) == 1:
                self._calls.dpmf_noise_next(self._handle, segments[0].memory)
                return
            row = self._row()
        at = row.ctypes.data
        for segment in segments:
            ctypes.memmove(segment.memory, at, segment.count * row.itemsize)
            at += segment.count * row.itemsize

    def next(self) -> np.ndarray:
        """The next row as a new array."""
        with self._lock:
            return self._row()

    def _row(self) -> np.ndarray:
        row = np.empty(self.count, DTYPES[self._dtype][0])
        self._calls.dpmf_noise_next(self._handle, row.ctypes.data)
        return row

    def seek(self, step: int) -> None:
        """Goes to any row; with a state file under its rules."""
        step = integer(step, "step")
        with self._lock, interruptible():
            self._bound = -1
            self._calls.dpmf_noise_seek(self._handle, step)

    def _segments(self, arrays: Any) -> Any:
        """The arrays as the library takes them. Zero-sized parameters have no segment."""
        self._handle  # closed streams are refused before anything else
        if isinstance(arrays, np.ndarray) or is_tensor(arrays):
            arrays = [arrays]
        if not hasattr(arrays, "__iter__"):
            raise errors.ArgumentTypeError(
                "arrays is a %s, arrays or a sequence of them are accepted" % type(arrays).__name__
            )
        found = [segment_of(array, self._dtype, "array %d" % i) for i, array in enumerate(arrays)]
        if self._sizes is not None:
            if len(found) != len(self._sizes):
                raise errors.ArgumentError("%d arrays, accepted: %d" % (len(found), len(self._sizes)))
            for i, ((_, size), wanted) in enumerate(zip(found, self._sizes)):
                if size != wanted:
                    raise errors.ArgumentError("array %d has %d numbers, accepted: %d" % (i, size, wanted))
        if self._cached[0] == found:
            return self._cached[1]
        total = sum(size for _, size in found)
        if total != self.count:
            raise errors.ArgumentError("the arrays have %d numbers, accepted: %d" % (total, self.count))
        used = [(address, size) for address, size in found if size > 0]
        width = DTYPES[self._dtype][0].itemsize
        ordered = sorted(used)
        for (first, size), (second, _) in zip(ordered, ordered[1:]):
            if first + size * width > second:
                raise errors.ArgumentError("two of the arrays share memory: each number gets its noise once")
        segments = (abi.dpmf_segment * len(used))(*[abi.dpmf_segment(address, size) for address, size in used])
        self._cached = (found, segments)
        return segments

    def close(self) -> None:
        """Wipes keys and buffers; a state file learns that all rows arrived."""
        with self._lock:
            self._close()

    def __enter__(self) -> "NoiseStream":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._pointer is None:
            return "NoiseStream(closed)"
        return "NoiseStream(%r, step=%d of %d, dim=%d, offset=%d, count=%d, dtype=%r, clip_norm=%g)" % (
            self._mechanism.family,
            self.step,
            self._mechanism.steps,
            self._dim,
            self._offset,
            self.count,
            self._dtype,
            self._clip,
        )


USED = (
    "row %d was used for another sum, and the same noise over two sums reveals their difference. A step that is taken again after a "
    "checkpoint was loaded needs the same data, model and learning rate as the first time; a run that goes another way from there needs "
    "a new key or label"
)


class Sums:
    """The sum that each row is for: a row that comes again, after a checkpoint was loaded, is given for the same sum only.

    The state file has them where there is one. Else they are in memory, for as long as the stream is: `seek` goes back also where
    the key was made for the stream alone.
    """

    def __init__(self, stream: NoiseStream):
        self._stream = stream
        self._known: Dict[int, bytes] = {}

    def bind(self, digest: Callable[[], bytes]) -> None:
        """Before the next row: raises if it was used for a sum with another digest."""
        if self._stream.keeps_state:
            self._stream.bind_sum(digest())
        else:
            found = digest()
            if self._known.setdefault(self._stream.step, found) != found:
                raise errors.StateError(USED % self._stream.step)

# SPDX-License-Identifier: Apache-2.0
"""Rows of noise made on a device, with the bits of the library: libdpmf_device, by OpenCL or CUDA.

A CUDA tensor's noise is put into torch's current stream, on the tensor's own memory, without waiting for it. OpenCL devices
work on the processor's memory, which is how this is tested where there is no GPU.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
import threading
import types
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import numpy as np

from . import errors
from ._library import abi, encode_text, find_library, real, text
from ._memory import is_tensor, segment_of
from .keys import KeyLike
from .noise import NoiseStream, StateLike

if TYPE_CHECKING:
    from .mechanism import Mechanism

__all__ = ["DeviceStream"]

#: dpmf_device_type of dpmf_device.h
TYPES = {"float32": 1, "bfloat16": 2, "float16": 3}
HANDLE = ctypes.c_void_p
STREAM = ctypes.c_void_p
COUNT = ctypes.c_int64
PATHS = ctypes.POINTER(ctypes.c_char_p)
SEGMENTS = ctypes.POINTER(abi.dpmf_segment)
BYTES = ctypes.POINTER(ctypes.c_uint8)

#: The functions of dpmf_device.h that are used here: what they give ("status": it is checked), and their arguments.
FUNCTIONS: Dict[str, Tuple[Any, Any]] = {
    "last_error": (ctypes.c_char_p, []),
    "open": ("status", [ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(HANDLE)]),
    "name": (ctypes.c_char_p, [HANDLE]),
    "noise_create": (
        "status",
        [
            HANDLE,
            ctypes.POINTER(abi.dpmf_mechanism),
            COUNT,
            ctypes.c_double,
            BYTES,
            ctypes.POINTER(abi.dpmf_noise_options),
            ctypes.POINTER(HANDLE),
        ],
    ),
    "noise_free": (None, [HANDLE]),
    "noise_next": ("status", [HANDLE, ctypes.c_int, ctypes.c_void_p, STREAM]),
    "noise_add": ("status", [HANDLE, ctypes.c_double, ctypes.c_int, COUNT, SEGMENTS, STREAM]),
    "noise_ahead": ("status", [HANDLE, STREAM]),
    "noise_wait": ("status", [HANDLE]),
    "noise_bind_sum": ("status", [HANDLE, BYTES]),
    "noise_seek": ("status", [HANDLE, COUNT]),
    "noise_save": ("status", [HANDLE, ctypes.c_char_p]),
    "noise_load": ("status", [HANDLE, ctypes.c_char_p]),
    "noise_step": (COUNT, [HANDLE]),
    "noise_reserved": (COUNT, [HANDLE]),
    "noise_in_doubt": (ctypes.c_int, [HANDLE]),
    "noise_count": (COUNT, [HANDLE]),
    "noise_scale": (ctypes.c_double, [HANDLE]),
    "noise_salt": (None, [HANDLE, BYTES]),
}


def find_device_library() -> str:
    """$DPMF_DEVICE_LIBRARY, the one beside the library, or the system's."""
    given = os.environ.get("DPMF_DEVICE_LIBRARY")
    if given:
        return given
    beside = pathlib.Path(find_library()).with_name("libdpmf_device.so")
    found = str(beside) if beside.exists() else ctypes.util.find_library("dpmf_device")
    if found is None:
        raise errors.UnsupportedError(
            "libdpmf_device.so is neither beside libdpmf.so nor on the system: it is built where OpenCL's headers are found, and "
            "DPMF_DEVICE_LIBRARY can name it. Rows made on the host are the same"
        )
    return found


class Functions:
    """The functions of dpmf_device.h by their names without dpmf_device_."""

    def __init__(self) -> None:
        library = ctypes.CDLL(find_device_library())
        for name, (answer, arguments) in FUNCTIONS.items():
            function = getattr(library, "dpmf_device_" + name)
            function.argtypes = arguments
            function.restype = ctypes.c_int if answer == "status" else answer
            if answer == "status":
                function.errcheck = self._check
            setattr(self, name, function)

    def _check(self, status: int, function: Any, arguments: Any) -> None:
        if status != abi.dpmf_status.DPMF_OK:
            raise errors.OF_STATUS.get(status, errors.Error)(text(getattr(self, "last_error")()))


_lock = threading.Lock()
_opened: Dict[Tuple[int, str], Any] = {}
_functions: Optional[Functions] = None


def open_device(name: str) -> Tuple[Any, Any]:
    """(functions, device): compiled and compared with the library once per process, and kept."""
    global _functions
    with _lock:
        if _functions is None:
            _functions = Functions()
        functions: Any = _functions
        place = os.getpid(), name
        if place not in _opened:
            out = HANDLE()
            functions.open(encode_text(name, "device"), None, ctypes.byref(out))
            _opened[place] = out
        return functions, _opened[place]


class Calls:
    """What a NoiseStream calls, answered by a device."""

    def __init__(self, device: str):
        self.functions, self.device = open_device(device)
        self.type, self.stream = TYPES["float32"], None
        for name in ("bind_sum", "seek", "save", "load", "free"):
            setattr(self, "dpmf_noise_" + name, getattr(self.functions, "noise_" + name))

    def dpmf_noise_get(self, handle: Any) -> Any:
        facts = {name: getattr(self.functions, "noise_" + name)(handle) for name in ("step", "reserved", "in_doubt", "count")}
        salt = (ctypes.c_uint8 * abi.DPMF_SALT_SIZE)()
        self.functions.noise_salt(handle, salt)
        return types.SimpleNamespace(
            **facts, salt=salt, release=types.SimpleNamespace(scale=self.functions.noise_scale(handle))
        )

    def dpmf_noise_create(self, mechanism: Any, dim: int, clip: float, key: Any, options: Any, out: Any) -> None:
        handle = HANDLE()
        self.functions.noise_create(self.device, mechanism, dim, clip, key, options, ctypes.byref(handle))
        self.handle = handle

    def dpmf_noise_next(self, handle: Any, address: int) -> None:
        self.functions.noise_next(handle, self.type, address, self.stream)

    def dpmf_noise_add(self, handle: Any, factor: float, count: int, segments: Any) -> None:
        self.functions.noise_add(handle, factor, self.type, count, segments, self.stream)


class DeviceStream(NoiseStream):
    """A NoiseStream whose rows are made on a device, with the same bits, state files and checkpoints.

    device      "cuda" or "opencl", the first one there is; "cuda:1", ...: another. The device is refused unless it makes known
                rows as the library does, bit for bit
    prefetch    rows may be made ahead (`ahead`); one more row of the device's memory

    The other arguments are those of NoiseStream; `lookahead`, `scratch` and `threads` have no meaning here. Arrays may be
    float32, bfloat16 or float16, one type per call: sums are made in float32 and rounded once more. On "cuda" they are CUDA
    tensors of that device, the work goes into torch's current stream, and nothing waits for it; a row is then bound to its
    sum only if `bind_sum` is called, because a digest of the sum would have to be waited for. On "opencl" they are NumPy
    arrays or tensors in the processor's memory.
    """

    def __init__(
        self,
        mechanism: "Mechanism",
        shapes: Any,
        clip_norm: float,
        key: KeyLike = None,
        *,
        device: str = "cuda",
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
        **others: Any,
    ):
        self._pointer = None
        self._calls = Calls(device)
        self._device = device
        super().__init__(
            mechanism,
            shapes,
            clip_norm,
            key,
            dtype=dtype,
            offset=offset,
            count=count,
            state=state,
            replay=replay,
            whole_state=whole_state,
            salt=salt,
            state_now=state_now,
            label=label,
            prefetch=prefetch,
            **others,
        )
        self._pointer, self._release = self._calls.handle, self._calls.functions.noise_free

    @property
    def device(self) -> str:
        """The driver's name of it."""
        return text(self._calls.functions.name(self._calls.device))

    @property
    def memory(self) -> str:
        """Where arrays must be: "cuda", or "cpu" for OpenCL."""
        return "cuda" if self._device.startswith("cuda") else "cpu"

    @property
    def calibrated(self) -> bool:
        return (self._mechanism.sigma or 0) > 0

    # ---- rows ----

    def add_(self, arrays: Any, factor: float = 1.0) -> None:
        """Adds factor x the next row to the arrays, in place and in order."""
        if self.memory == "cpu" and self._types_of(arrays) == {"float32"}:
            self._calls.type = TYPES["float32"]
            super().add_(arrays, factor)  # and binds it to the sum
            return
        factor = real(factor, "factor")
        with self._lock:
            segments = self._segments(arrays)
            self._calls.dpmf_noise_add(self._handle, factor, len(segments), segments)

    def next(self) -> np.ndarray:
        """The next row as a new array; OpenCL devices only: for others there is fill_."""
        if self.memory != "cpu":
            raise errors.UnsupportedError("rows of %s are made in its memory: fill_ takes tensors" % self._device)
        self._calls.type = TYPES["float32"]
        return super().next()

    def fill_(self, arrays: Any) -> None:
        """Writes the next row over the contents of the array."""
        with self._lock:
            segments = self._segments(arrays)
            if len(segments) != 1:
                raise errors.ArgumentError("%d arrays, accepted by a device: 1" % len(segments))
            self._calls.dpmf_noise_next(self._handle, segments[0].memory)

    def ahead(self, stream: Any = None) -> None:
        """Makes the next row now, in torch's current stream or another torch.cuda.Stream, while gradients are computed."""
        with self._lock:
            at = stream.cuda_stream if stream is not None else self._current_stream()
            self._calls.functions.noise_ahead(self._handle, at)

    def wait(self) -> None:
        """Until all rows that were asked for are there."""
        with self._lock:
            self._calls.functions.noise_wait(self._handle)

    # ---- arrays ----

    @staticmethod
    def _types_of(arrays: Any) -> Any:
        if isinstance(arrays, np.ndarray) or is_tensor(arrays):
            arrays = [arrays]
        return {str(getattr(array, "dtype", "")).replace("torch.", "") for array in arrays}

    def _current_stream(self) -> Optional[int]:
        if self.memory == "cpu":
            return None
        import torch

        return torch.cuda.current_stream(torch.device(self._device)).cuda_stream

    def _segments(self, arrays: Any) -> Any:
        """As NoiseStream's; their type and torch's stream are kept for the call that follows."""
        if self.memory == "cpu" and self._types_of(arrays) == {"float32"}:
            self._calls.type = TYPES["float32"]
            return super()._segments(arrays)
        self._handle
        if is_tensor(arrays) or isinstance(arrays, np.ndarray):
            arrays = [arrays]
        kinds = self._types_of(arrays)
        if len(kinds) != 1 or not kinds <= set(TYPES):
            raise errors.ArgumentError("arrays of %s, accepted: one of %s" % (", ".join(sorted(kinds)), ", ".join(TYPES)))
        kind = kinds.pop()
        found = [self._place_of(array, kind, "array %d" % i) for i, array in enumerate(arrays)]
        if sum(size for _, size in found) != self.count:
            raise errors.ArgumentError(
                "the arrays have %d numbers, accepted: %d" % (sum(size for _, size in found), self.count)
            )
        self._calls.type, self._calls.stream = TYPES[kind], self._current_stream()
        return (abi.dpmf_segment * len(found))(*[abi.dpmf_segment(address, size) for address, size in found])

    def _place_of(self, array: Any, kind: str, name: str) -> Tuple[int, int]:
        if self.memory == "cpu":
            return segment_of(array, kind, name)
        if not is_tensor(array) or array.device.type != "cuda":
            raise errors.ArgumentError("%s is not in the memory of %s" % (name, self._device))
        index = int(self._device.partition(":")[2] or 0)
        if array.device.index != index:
            raise errors.ArgumentError("%s is on %s: this stream is on cuda:%d" % (name, array.device, index))
        if not array.is_contiguous():
            raise errors.ArgumentError("%s is not contiguous in C order: its memory has gaps or another order" % name)
        return array.data_ptr(), array.numel()

# SPDX-License-Identifier: Apache-2.0
"""Batches whose participation is the one that the mechanism assumed."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Tuple

import numpy as np

from . import errors
from ._library import c, encode_text, handle, integer, text, whole_numbers
from ._object import Object
from .keys import KeyBuffer, KeyLike
from .noise import require_mechanism
from .privacy import sampling_text

if TYPE_CHECKING:
    from .mechanism import Mechanism

__all__ = ["Sampler"]


def text_of(what: Any) -> str:
    return encode_text(what, "what").decode("utf-8", "surrogateescape")


def integers(array: np.ndarray) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))


class Sampler(Object):
    """Which units (examples, users) take part in each step.

    what        "cyclic:M", "shuffled:M", "poisson:Q", "block-cyclic:Q,B", "balls-in-bins:B", "min-sep:P,B",
                "scheduled:M,K,B", "allocation:K,T", "fixed:M,N", "fixed-replace:M,N"
    units       how many there are
    steps       batches in all
    key         as for NoiseStream; the same key serves both, each with independent randomness
    mechanism   None, or the one that the sampler is checked against at once
    cap         poisson, block-cyclic, min-sep: at most this many of those drawn take part, a random choice of them when there
                are more. The mechanism must have been calibrated for it ("poisson:Q,cap:M:N")

    An iterator over arrays of indices, rising, each once (fixed-replace: as often as it was drawn).

    >>> from dpmf import testing_key
    >>> sampler = Sampler("cyclic:4", units=10, steps=5, key=testing_key(1))
    >>> [batch.tolist() for batch in sampler][:3]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    _free = "dpmf_sampler_free"

    def __init__(
        self,
        what: str,
        units: int,
        steps: int,
        key: KeyLike = None,
        label: Optional[str] = None,
        mechanism: "Optional[Mechanism]" = None,
        cap: Optional[int] = None,
    ):
        self._pointer = None
        if cap is not None:
            what = "%s,cap:%d" % (text_of(what), integer(cap, "cap"))
        with KeyBuffer(key) as memory:
            made = handle(
                "dpmf_sampler_create",
                self._free,
                encode_text(what, "what"),
                integer(units, "units"),
                integer(steps, "steps"),
                memory.memory,
                encode_text(label, "label", optional=True),
            )
            self._commitment = memory.commitment()
        super().__init__(made)
        self._ephemeral = key is None
        self._units, self._steps, self._label = units, steps, label
        self._room = np.empty(max(1, c.dpmf_sampler_get(made).capacity), np.int64)
        if mechanism is not None:
            self.check(mechanism)

    @property
    def text(self) -> str:
        return text(c.dpmf_sampler_get(self._handle).text)

    @property
    def units(self) -> int:
        return self._units

    @property
    def steps(self) -> int:
        return self._steps

    @property
    def step(self) -> int:
        """Of the next batch."""
        return c.dpmf_sampler_get(self._handle).step

    @property
    def capacity(self) -> int:
        """The most that a batch can hold."""
        return c.dpmf_sampler_get(self._handle).capacity

    @property
    def expected_batch(self) -> float:
        """The expected size of a batch: sums are divided by it. The actual size would reveal who took part.

        It reveals the number of units, which add-remove adjacency hides: divide by another number then.
        """
        return c.dpmf_sampler_get(self._handle).expected

    @property
    def participation(self) -> Optional[str]:
        """The participation that it realises; None: none that is sure."""
        return text(c.dpmf_sampler_get(self._handle).participation)

    @property
    def sampling(self) -> str:
        return sampling_text(c.dpmf_sampler_get(self._handle).sampling)

    def identity(self) -> Dict[str, Any]:
        """All that its batches follow from, the key by its commitment: processes that train together compare it."""
        return {"sampler": self.text, "units": self._units, "steps": self._steps, "label": self._label or "", "key": self._commitment}

    def check(self, mechanism: "Mechanism") -> None:
        """Raises an error unless it satisfies the assumptions of the mechanism's guarantee."""
        c.dpmf_sampler_check(self._handle, require_mechanism(mechanism)._handle)

    def next(self) -> np.ndarray:
        """The units of the next step; past the last one an error."""
        count = ctypes.c_int64()
        c.dpmf_sampler_next(self._handle, integers(self._room), ctypes.byref(count))
        return self._room[: count.value].copy()

    def padded(self) -> Tuple[np.ndarray, np.ndarray]:
        """The next step as an array of `capacity` indices and a mask: True where a unit takes part, 0 and False after.

        >>> from dpmf import testing_key
        >>> indices, mask = Sampler("poisson:0.2", units=20, steps=5, key=testing_key(1), cap=6).padded()
        >>> indices.shape, mask.dtype.name, bool(mask.sum() <= 6)
        ((6,), 'bool', True)
        """
        units = self.next()
        indices = np.zeros(self.capacity, np.int64)
        indices[: units.size] = units
        return indices, np.arange(self.capacity) < units.size

    @property
    def capped(self) -> bool:
        return ",cap:" in self.text

    def offer(self, available: "np.typing.ArrayLike") -> np.ndarray:
        """scheduled only: the next step when only these units (rising) can be reached."""
        units = whole_numbers(available, "available")
        count = ctypes.c_int64()
        c.dpmf_sampler_offer(self._handle, units.size, integers(units), integers(self._room), ctypes.byref(count))
        return self._room[: count.value].copy()

    def seek(self, step: int) -> None:
        c.dpmf_sampler_seek(self._handle, integer(step, "step"))

    def state_dict(self) -> Dict[str, Any]:
        """Where it is, without the key."""
        if self._ephemeral:
            raise errors.StateError(
                "this sampler's key was made for it alone and is nowhere else: give key= the path of a key file"
            )
        out, size = ctypes.POINTER(ctypes.c_uint8)(), ctypes.c_size_t()
        c.dpmf_sampler_encode(self._handle, ctypes.byref(out), ctypes.byref(size))
        try:
            past = ctypes.string_at(out, size.value)
        finally:
            c.dpmf_bytes_free(out)
        return {"sampler": self.text, "step": self.step, "past": past}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes to the position of a state; one of another sampler or key is refused."""
        if not isinstance(state, dict) or "past" not in state:
            raise errors.StateError("there is no sampler state here")
        past = state["past"]
        data = bytes(past) if isinstance(past, (bytes, bytearray, memoryview)) else np.asarray(past, np.uint8).tobytes()
        memory = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        c.dpmf_sampler_decode(self._handle, memory, len(data))

    def close(self) -> None:
        self._close()

    def __iter__(self) -> Iterator[np.ndarray]:
        while self.step < self._steps:
            yield self.next()

    def __len__(self) -> int:
        """Batches that are left."""
        return self._steps - self.step

    def __repr__(self) -> str:
        return "Sampler(%r, units=%d, step=%d of %d)" % (self.text, self._units, self.step, self._steps)

# SPDX-License-Identifier: Apache-2.0
"""Private running sums."""

from __future__ import annotations

import ctypes
from typing import Any, Tuple

import numpy as np

from . import errors
from ._library import c
from .keys import KeyLike
from .mechanism import Mechanism
from .noise import NoiseStream

__all__ = ["Counter"]


class Counter:
    """Publishes running sums of a stream of numbers, each with its standard deviation, as `dpmf count` does.

    mechanism   its workload says what is summed: "prefix" gives running sums, "decay:L" sums that forget
    clip        the most, in l2 norm, that one unit adds to a row
    columns     numbers of a row
    key         as for NoiseStream: a path has its state file beside it, and a Counter begins a run of its own

    A mechanism whose guarantee rests on sampling is refused: whoever counts does no sampling. So are rows that are so large
    (2^40 times the noise) that a double would round the noise away; they are refused before anything is added.

    With x_t = g_t + noise row t the answer is o = A x, by A^-1 = R^-1 Q with few bands.

    >>> from dpmf import evaluate, testing_key
    >>> counter = Counter(evaluate("toeplitz", 365, sigma=1.0), clip=1.0, key=testing_key(1))
    >>> total, error = counter.add(20)
    >>> counter.step, round(error, 3)
    (1, 1.716)
    """

    def __init__(self, mechanism: Mechanism, clip: float = 1.0, columns: int = 1, key: KeyLike = None, **options: Any):
        workload = c.dpmf_mechanism_workload(mechanism._handle)
        q_bands, r_bands = ctypes.c_int(), ctypes.c_int()
        c.dpmf_workload_inverse_bands(workload, ctypes.byref(q_bands), ctypes.byref(r_bands))
        if q_bands.value < 0:
            raise errors.UnsupportedError(
                "counting needs a named workload, and this one is %r" % mechanism.workload.text
            )
        if mechanism.sampling != "none":
            raise errors.ArgumentError(
                "the mechanism's guarantee rests on sampling (%s), and counting does none" % mechanism.sampling
            )
        self._noise = NoiseStream(mechanism, columns, clip, key, dtype="float64", **options)
        if self._noise.step != 0:
            raise errors.StateError("the state file has seen %d rows, and sums begin with row 0" % self._noise.step)
        sigma = mechanism.sigma or 1.0
        self._error = mechanism.per_step_error / sigma / mechanism.sensitivity.value * self._noise.scale
        self._bands = (q_bands.value, r_bands.value)
        self._inputs = [np.zeros(columns) for _ in range(3)]
        self._sums = [np.zeros(columns) for _ in range(3)]
        self._columns = columns

    @property
    def step(self) -> int:
        return self._noise.step

    def add(self, row: Any) -> "Tuple[Any, float]":
        """The next row; gives (private sums so far, their standard deviation)."""
        values = np.array(row, np.float64).reshape(-1)
        if values.shape != (self._columns,):
            raise errors.ArgumentError("the row has %d numbers, accepted: %d" % (values.size, self._columns))
        if not np.all(np.isfinite(values)):
            raise errors.ArgumentError("the row has numbers that are not finite")
        most = self._noise.scale * 2.0**40
        if np.any(np.abs(values) > most) or any(np.any(np.abs(total) > most) for total in self._sums):
            raise errors.ArgumentError("numbers above %g are accepted no more: doubles would round the noise away" % most)
        t, workload = self.step, c.dpmf_mechanism_workload(self._noise.mechanism._handle)
        self._noise.add_(values)
        q, r = (ctypes.c_double * 3)(), (ctypes.c_double * 2)()
        c.dpmf_workload_inverse_row(workload, t, q, r)
        self._inputs = [values] + self._inputs[:2]
        total = sum((r[j] * self._inputs[j] for j in range(self._bands[1] + 1)), np.zeros(self._columns))
        for j in range(1, self._bands[0] + 1):
            total = total - q[j] * self._sums[j - 1]
        self._sums = [total / q[0]] + self._sums[:2]
        answer = self._sums[0].copy()
        return (float(answer[0]) if np.ndim(row) == 0 else answer), float(self._error[t])

    def close(self) -> None:
        self._noise.close()

    def __enter__(self) -> "Counter":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

# SPDX-License-Identifier: Apache-2.0
"""How sure a released stream is: intervals of totals, ranges and any linear question."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from . import errors
from ._library import c, doubles, integer, numbers, real, run_options
from .mechanism import Mechanism
from .noise import require_mechanism

__all__ = ["Answer", "bands", "deviation", "query"]


class Answer(NamedTuple):
    """An estimate, the standard deviation of its noise, and an interval at the level asked for."""

    estimate: float
    deviation: float
    lower: float
    upper: float


def _scale(mechanism: Mechanism, clip: float) -> float:
    return real(clip, "clip") * (mechanism.sigma or 1.0) * mechanism.sensitivity.value


def _multiplier(level: float, intervals: int) -> float:
    out = ctypes.c_double()
    c.dpmf_query_multiplier(real(level, "level"), intervals, ctypes.byref(out))
    return out.value


def _totals(mechanism: Mechanism, totals: Any) -> np.ndarray:
    require_mechanism(mechanism)
    values = numbers(totals, "totals")
    if values.ndim != 1 or not 1 <= values.size <= mechanism.steps:
        raise errors.ArgumentError(
            "totals has shape %s, accepted: 1 to %d numbers" % (values.shape, mechanism.steps)
        )
    return values


def deviation(mechanism: Mechanism, weights: Any, clip: float = 1.0) -> float:
    """The standard deviation of the noise in sum over t of weights[t] x_t, x_t the noisy sum of step t alone. Exact.

    >>> from dpmf import evaluate
    >>> m = evaluate("identity", 10, sigma=2.0)
    >>> deviation(m, [1, 1, 1, 1])
    4.0
    """
    require_mechanism(mechanism)
    values, out = numbers(weights, "weights"), ctypes.c_double()
    if values.ndim != 1:
        raise errors.ArgumentError("weights has shape %s, accepted: one dimension" % (values.shape,))
    with run_options() as run:
        c.dpmf_query_deviation(
            c.dpmf_mechanism_get(mechanism._handle).strategy,
            values.size,
            doubles(values),
            ctypes.byref(run),
            ctypes.byref(out),
        )
    return out.value * _scale(mechanism, clip)


def _range(span: "Tuple[int, int]", lines: int) -> "Tuple[int, int]":
    try:
        first, last = (integer(end, "range") for end in span)
    except (TypeError, ValueError) as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.ArgumentTypeError("the range %r, accepted: (A, B), two whole numbers" % (span,)) from None
    if not 1 <= first <= last <= lines:
        raise errors.ArgumentError("the range %r, accepted: (A, B) with 1 <= A <= B <= %d" % (span, lines))
    return first, last


def query(
    mechanism: Mechanism,
    totals: Any,
    range: "Tuple[int, int]",
    minus: "Optional[Tuple[int, int]]" = None,
    level: float = 0.95,
    clip: float = 1.0,
) -> Answer:
    """The sum over the steps A to B of `range` (from 1, both included), less that of `minus`, and how sure it is.

    totals      the released running sums, in order: an array or a column of a data frame; the workload must be "prefix"
    clip        that of the stream

    >>> from dpmf import evaluate
    >>> answer = query(evaluate("identity", 4, sigma=1.0), [3.0, 5.0, 9.0, 10.0], range=(2, 3))
    >>> answer.estimate, round(answer.deviation, 4)
    (6.0, 1.4142)
    """
    if require_mechanism(mechanism).workload.text != "prefix":
        raise errors.UnsupportedError("the workload is %r: running sums (prefix) are accepted" % mechanism.workload.text)
    values = np.concatenate([[0.0], _totals(mechanism, totals)])
    weights, estimate = np.zeros(values.size - 1), 0.0
    for span, sign in ((range, 1.0), (minus, -1.0)):
        if span is not None:
            first, last = _range(span, weights.size)
            weights[first - 1 : last] += sign
            estimate += sign * float(values[last] - values[first - 1])
    error = deviation(mechanism, weights, clip)
    half = _multiplier(level, 1) * error
    return Answer(estimate, error, estimate - half, estimate + half)


def bands(
    mechanism: Mechanism,
    totals: Any,
    level: float = 0.95,
    clip: float = 1.0,
    together: bool = True,
    monotone: bool = False,
) -> "Dict[str, np.ndarray]":
    """All released answers with their deviations and bands: arrays that make a data frame.

    together    the bands hold for all steps together with probability `level` or more; else each alone
    monotone    for data that are not negative: totals that neither fall nor are below 0, and the bands to match

    >>> from dpmf import evaluate
    >>> found = bands(evaluate("identity", 3, sigma=1.0), [2.0, 1.0, 4.0], monotone=True)
    >>> [round(float(x), 3) for x in found["estimate"]]
    [1.667, 1.667, 4.0]
    """
    values = _totals(mechanism, totals)
    error = np.empty(values.size)
    with run_options() as run:
        c.dpmf_error_range(
            c.dpmf_mechanism_get(mechanism._handle).workload,
            c.dpmf_mechanism_get(mechanism._handle).strategy,
            0,
            values.size,
            ctypes.byref(run),
            doubles(error),
        )
    error *= _scale(mechanism, clip)
    half = _multiplier(level, values.size if together else 1) * error
    estimate, lower, upper = values.copy(), values - half, values + half
    if monotone:
        c.dpmf_query_monotone(values.size, doubles(values), doubles(error), 0.0, doubles(estimate))
        lower, upper = np.maximum(lower, 0.0), np.maximum(upper, 0.0)
        if together:
            c.dpmf_query_monotone_bands(values.size, doubles(lower), doubles(upper))
    return {"estimate": estimate, "deviation": error, "lower": lower, "upper": upper}

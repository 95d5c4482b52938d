# SPDX-License-Identifier: Apache-2.0
"""The figures of a mechanism, as plain records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Optional

__all__ = ["Certificate", "Check", "LowerBound", "Sensitivity", "Verification"]


def rounded_up(value: float, digits: int = 6) -> str:
    """For print: a bound that is rounded to the nearest could be shown too small.

    >>> rounded_up(5.8984151), rounded_up(0.1, 3), rounded_up(99.99999), rounded_up(8.0)
    ('5.89842', '0.1', '100', '8')
    """
    shown = "%.*g" % (digits, value)
    if not math.isfinite(value) or float(shown) >= value:
        return shown
    return "%.*g" % (digits, Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value))


@dataclass(frozen=True)
class Sensitivity:
    """How far one unit can move C g in l2 norm."""

    value: float
    kind: str
    of: str
    method: str
    #: That it holds for: 1, a stream of one column alone; None, any number of them.
    columns: Optional[int] = None


@dataclass(frozen=True)
class LowerBound:
    """Losses that no mechanism can beat; None where none is known."""

    rms_loss: Optional[float]
    max_loss: Optional[float]
    scope: Optional[str]


@dataclass(frozen=True)
class Certificate:
    """How an optimization ended, and what encloses the optimum."""

    outcome: str
    iterations: int
    nodes: int
    optimum_lower: Optional[float]
    optimum_upper: Optional[float]
    scope: Optional[str]
    stationarity: float
    searched: Optional[str]
    dropped: int = 0  # buffers asked for that are superfluous
    nu: Optional[float] = None  # of the best damped square root


@dataclass(frozen=True)
class Check:
    """One figure of a mechanism, computed again. `ok` is None if it was not checked, and `how` gives the reason."""

    name: str
    ok: Optional[bool]
    claimed: float
    found: float
    tolerance: float
    how: str


@dataclass(frozen=True)
class Verification:
    """What `Mechanism.verify` found."""

    ok: bool
    checks: "tuple[Check, ...]"

    def __bool__(self) -> bool:
        return self.ok

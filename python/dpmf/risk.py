# SPDX-License-Identifier: Apache-2.0
"""What a test finds out that sees all outputs of a run, from the certified curve, and sigma from a largest risk."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Union

import numpy as np

from . import errors
from ._library import abi, c, doubles, encode_text, numbers, real, run_options, text
from .privacy import Privacy, account_options, check_of, privacy_of, read_text

if TYPE_CHECKING:
    from .mechanism import Mechanism
    from .problem import Strategy

__all__ = ["Risk", "calibrate_risk", "risk"]


@dataclass(frozen=True)
class Risk:
    """The risks of a guarantee. All figures are exact or upper bounds, and bayes_error a lower one, as `kind` says."""

    tpr: "Dict[float, float]"  #: the largest true positive rate at each false positive rate
    advantage: float  #: the largest TPR - FPR
    prior: float
    bayes_error: float  #: the least probability of error with this prior probability of the unit's presence
    mu: float  #: every TPR is at most that of mu-Gaussian privacy, plus the remainder
    remainder: float
    kind: str
    confidence: float
    method: str
    _said: str = field(repr=False, compare=False, default="")

    def statement(self) -> str:
        """These figures in sentences."""
        return self._said


def risk(
    sigma: Optional[float] = None,
    *,
    fpr: Sequence[float] = (1e-3, 0.01, 0.1),
    prior: float = 0.5,
    remainder: float = 1e-6,
    of: "Union[Mechanism, Strategy, None]" = None,
    unit: Optional[str] = None,
    threads: int = 0,
    progress: Optional[Callable[[str, float], Any]] = None,
    **options: Any,
) -> Risk:
    """The risks of this sigma, or of a calibrated mechanism; options as in `account`.

    >>> found = risk(1.0, fpr=[0.01])
    >>> round(found.tpr[0.01], 4), round(found.advantage, 4), found.kind
    (0.0924, 0.3829, 'exact')
    >>> round(risk(1.0, fpr=[0.01], sampling="poisson:0.01", steps=1000).tpr[0.01], 4)
    0.0291
    """
    from .mechanism import Mechanism

    check_of(of)
    if sigma is None:
        if not isinstance(of, Mechanism) or of.sigma is None:
            raise errors.ArgumentError("sigma: it is not given, and there is no calibrated mechanism to take it from")
        of.confirm()
        sigma = of.sigma
    given, rates = account_options(of, **options), numbers(fpr, "fpr")
    if rates.ndim != 1:
        raise errors.ArgumentError("fpr: a list of numbers is accepted")
    tpr, out, asked = np.zeros_like(rates), abi.dpmf_risk(), c.dpmf_risk_options_defaults()
    asked.fpr, asked.count = doubles(rates), len(rates)
    asked.prior, asked.remainder = real(prior, "prior"), real(remainder, "remainder")
    with run_options(threads, progress) as run:
        given.run = run
        c.dpmf_account_risk(real(sigma, "sigma"), ctypes.byref(given), ctypes.byref(asked), doubles(tpr), ctypes.byref(out))
    said = read_text(
        c.dpmf_risk_statement, ctypes.byref(out), ctypes.byref(asked), doubles(tpr), encode_text(unit, "unit", optional=True)
    )
    return Risk(
        tpr=dict(zip(rates.tolist(), tpr.tolist())),
        advantage=out.advantage,
        prior=out.prior,
        bayes_error=out.bayes_error,
        mu=out.mu,
        remainder=out.remainder,
        kind=text(c.dpmf_certainty_name(out.kind)),
        confidence=out.confidence,
        method=text(out.method),
        _said=said,
    )


def calibrate_risk(
    tpr: Optional[float] = None,
    fpr: Optional[float] = None,
    *,
    advantage: Optional[float] = None,
    of: "Union[Mechanism, Strategy, None]" = None,
    threads: int = 0,
    progress: Optional[Callable[[str, float], Any]] = None,
    **options: Any,
) -> Privacy:
    """A sigma, near the least, with which no test has a larger TPR at this FPR, or a larger advantage.

    The answer has the (epsilon, delta) that proves it; `account` gives epsilon at another delta. Options as in `account`.

    >>> sigma = calibrate_risk(0.1, 0.01).sigma
    >>> round(sigma, 4)
    0.9571
    >>> round(calibrate_risk(advantage=0.1).sigma, 4)
    3.9789
    """
    if (advantage is None) == (tpr is None) or (tpr is None) != (fpr is None):
        raise errors.ArgumentError("tpr and fpr, or advantage: one of the two is accepted")
    given, out = account_options(of, **options), abi.dpmf_privacy()
    with run_options(threads, progress) as run:
        given.run = run
        if advantage is not None:
            c.dpmf_calibrate_sigma(0.0, real(advantage, "advantage") * (1 - 1e-12), ctypes.byref(given), ctypes.byref(out))
        else:
            c.dpmf_calibrate_risk(real(tpr, "tpr"), real(fpr, "fpr"), ctypes.byref(given), ctypes.byref(out))
    return privacy_of(out, given, of)

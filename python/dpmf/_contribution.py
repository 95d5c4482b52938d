# SPDX-License-Identifier: Apache-2.0
"""Normalised contributions (AUTO-S: Bu, Wang, Zha and Karypis 2023), for all that clips: their gamma, their label, their sentence.

A unit adds clip g / (|g| + gamma) in the place of g min(1, clip / |g|). Both have norm at most clip, for every g and in every step, so
that the sensitivity and the account are the same, with correlated noise too: the bound is one constant, and nothing about the data
has to be known to choose it.
"""

from __future__ import annotations

from typing import Optional

from . import errors
from ._library import real

SENTENCE = (
    "What one %s adds, a vector g, was normalised to %r g/(|g| + %r), which is never longer than %r: the guarantee holds as for "
    "clipping.\n"
)

#: For ghost clipping, which multiplies losses by up to clip/gamma: a norm is formed before, and numbers that underflow there come back.
GHOST_LEAST = 2.0**-10
NO_GHOST = (
    "ghost clipping multiplies losses by up to clip_norm/normalize, and gradients that were below a float's range when their norms were formed "
    "could then add many clip norms: from 2^-10 on is accepted with it"
)


def checked_gamma(normalize: Optional[float]) -> float:
    """gamma, or 0 where contributions are clipped.

    >>> checked_gamma(None), checked_gamma(0.01)
    (0.0, 0.01)
    >>> checked_gamma(0)
    Traceback (most recent call last):
        ...
    dpmf.errors.ArgumentError: normalize = 0, accepted: None (clipped), or gamma from 2^-100 to 2^100
    """
    gamma = real(normalize, "normalize", optional=True)
    if gamma is None:
        return 0.0
    if not 2.0**-100 <= gamma <= 2.0**100:
        raise errors.ArgumentError("normalize = %g, accepted: None (clipped), or gamma from 2^-100 to 2^100" % gamma)
    return float(gamma)


def with_rule(label: Optional[str], rule: str) -> Optional[str]:
    """The label of a run whose contributions follow a rule other than clipping: noise and state file are of that rule alone.

    >>> with_rule("a", ""), with_rule(None, "normalised by 0.01")
    ('a', '/normalised by 0.01')
    """
    return "%s/%s" % (label or "", rule) if rule else label


def rule_of(gamma: float) -> str:
    """Empty where contributions are clipped."""
    return "normalised by %r" % gamma if gamma else ""

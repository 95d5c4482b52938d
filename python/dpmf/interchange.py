# SPDX-License-Identifier: Apache-2.0
"""Strategies in the form that other libraries take."""

from __future__ import annotations

from typing import Any, Tuple, Union

import numpy as np

from . import _abi as abi
from . import errors
from ._library import real
from .mechanism import Mechanism
from .noise import require_mechanism
from .privacy import check_of
from .problem import Strategy

__all__ = ["blt_parameters", "jax_privacy_noising_matrix", "jax_privacy_stddev", "toeplitz_coefficients"]

#: Families whose C is Toeplitz by construction.
TOEPLITZ = (
    abi.DPMF_FAMILY_IDENTITY,
    abi.DPMF_FAMILY_TOEPLITZ,
    abi.DPMF_FAMILY_BANDED_TOEPLITZ,
    abi.DPMF_FAMILY_BSR,
)


def _strategy(of: Union[Mechanism, Strategy]) -> Strategy:
    check_of(of, optional=False)
    strategy = of.strategy if isinstance(of, Mechanism) else of
    if strategy.is_normalized or strategy.stamps != 1:
        raise errors.UnsupportedError("a strategy that is normalized or stamped is not a Toeplitz matrix")
    return strategy


def toeplitz_coefficients(of: Union[Mechanism, Strategy]) -> np.ndarray:
    """c with C[t, u] = c[t-u], the non-zero ones: what jax_privacy's toeplitz.inverse_as_streaming_matrix takes.

    >>> from dpmf import Workload
    >>> toeplitz_coefficients(Strategy("bsr", Workload("prefix", 10), bands=3))
    array([1.   , 0.5  , 0.375])
    """
    strategy = _strategy(of)
    if strategy.family not in TOEPLITZ:
        raise errors.UnsupportedError("%s: %s are accepted" % (strategy.family, ", ".join(TOEPLITZ)))
    return strategy.column(0)[: strategy.bands]


def blt_parameters(of: Union[Mechanism, Strategy]) -> Tuple[np.ndarray, np.ndarray]:
    """(buf_decay, output_scale) of jax_privacy's BufferedToeplitz.build.

    >>> blt_parameters(Strategy.blt(10, scale=[0.25], decay=[0.5]))
    (array([0.5]), array([0.25]))
    """
    found = _strategy(of).blt_parameters
    if found is None:
        raise errors.UnsupportedError("%s is not a BLT" % _strategy(of).family)
    scale, decay = found
    return decay, scale


def jax_privacy_noising_matrix(of: Union[Mechanism, Strategy]) -> Any:
    """C^-1 as a streaming matrix of jax_privacy, for its matrix_factorization_privatizer. BLTs need jax's 64-bit mode."""
    from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz

    if _strategy(of).blt_parameters is not None:
        decay, scale = blt_parameters(of)
        return buffered_toeplitz.BufferedToeplitz.build(decay, scale).inverse_as_streaming_matrix()
    import jax.numpy

    return toeplitz.inverse_as_streaming_matrix(jax.numpy.asarray(toeplitz_coefficients(of)))


def jax_privacy_stddev(mechanism: Mechanism, clip_norm: float) -> float:
    """The standard deviation of the seeds for that privatizer: clip x sigma x sensitivity."""
    if require_mechanism(mechanism).sigma is None:
        raise errors.ArgumentError("the mechanism has no sigma")
    mechanism.confirm()  # a file may claim less sensitivity than it has
    if mechanism.sensitivity.columns is not None:
        raise errors.ArgumentError(
            "the sensitivity of this mechanism holds for one column alone, and that privatizer adds noise to any number of "
            "them; accepted: a mechanism evaluated without columns=1"
        )
    return real(clip_norm, "clip_norm") * mechanism.sigma * mechanism.sensitivity.value

# SPDX-License-Identifier: Apache-2.0
"""The best of a family of the caller's own."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Optional, Sequence

import numpy as np

from . import _operator, errors
from ._library import abi, c, doubles, handle, has_failed, numbers, remember_failure, run_options, select, struct_of
from .loss import Loss, LossLike
from .make import MECHANISM, _problem, certificate_of, make
from .mechanism import Mechanism, Progress
from .problem import Strategy

__all__ = ["optimize_parametric"]

STATUS = abi.dpmf_status


def _guarded(function: Callable[..., None]) -> Callable[..., int]:
    """A callback: outside of the domain is a status of the library's; anything else ends the search and is raised."""

    def call(*arguments: Any) -> int:
        if has_failed():  # an operator that raised: its numbers mean nothing
            return STATUS.DPMF_ERROR_CANCELLED
        try:
            function(*arguments)
            return STATUS.DPMF_OK
        except errors.NumericalError:
            return STATUS.DPMF_ERROR_NUMERICAL
        except errors.ArgumentError as error:
            if not isinstance(error, TypeError):
                return STATUS.DPMF_ERROR_ARGUMENT
            remember_failure(error)
        except BaseException as error:  # noqa: B902 (the caller of the library raises it again)
            remember_failure(error)
        return STATUS.DPMF_ERROR_CANCELLED

    return call


def optimize_parametric(
    family: "Callable[[np.ndarray], Strategy]",
    theta: "np.typing.ArrayLike",
    steps: Optional[int] = None,
    workload: Any = "prefix",
    participation: Any = "single",
    loss: LossLike = "rms",
    *,
    gradient: "Optional[Callable[[np.ndarray], np.typing.ArrayLike]]" = None,
    tolerance: Optional[float] = None,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    sigma: Optional[float] = None,
    sampling: str = "none",
    adjacency: str = "zero-out",
    unit: Optional[str] = None,
    sensitivity: str = "auto",
    columns: Optional[int] = None,
    lower_bound: str = "auto",
    weights: Optional[Sequence[float]] = None,
    made_by: Optional[str] = None,
    threads: int = 0,
    progress: Progress = None,
) -> "tuple[np.ndarray, Mechanism]":
    """The best strategy of a family of your own, and its parameters: a local minimum of sensitivity x error.

    family      gives the Strategy at theta; ArgumentError or NumericalError from it mean outside of the domain
    theta       where the search begins, inside the domain
    gradient    of ln loss at theta; without it: central differences, two strategies per parameter and iteration
    the rest    as in `optimize`. Experimental

    >>> from dpmf import evaluate
    >>> theta, m = optimize_parametric(lambda x: Strategy.toeplitz(64, [1.0, x[0], x[1]]), [0.3, 0.1], 64)
    >>> m.certificate.outcome, bool(m.rms_loss < evaluate("bsr", 64, bands=3).rms_loss)
    ('converged', True)
    """
    options = select(MECHANISM, locals())
    workload, participation = _problem(steps, workload, participation)
    point = numbers(theta, "theta").copy()
    if point.ndim != 1:
        raise errors.ArgumentError("theta has %d dimensions, accepted: 1" % point.ndim)
    for name, function in (("family", family), ("gradient", gradient)):
        if not callable(function) and (name == "family" or function is not None):
            raise errors.ArgumentTypeError("%s is a %s, a function is accepted" % (name, type(function).__name__))

    def make_at(_context: Any, address: int, out: Any) -> None:
        made = family(_operator.view(address, len(point)).copy())
        if not isinstance(made, Strategy):
            raise TypeError("family gave a %s, a dpmf.Strategy is accepted" % type(made).__name__)
        # A repetition once is the same strategy, shared: the library frees its share.
        out[0] = handle("dpmf_strategy_create_stamped", "dpmf_strategy_free", made._handle, 1)

    def gradient_at(_context: Any, address: int, out: int) -> None:
        found = np.asarray(gradient(_operator.view(address, len(point)).copy()), dtype=np.float64)  # type: ignore[misc]
        if found.shape != point.shape:
            raise TypeError("gradient gave an array of shape %s, accepted: %s" % (found.shape, point.shape))
        _operator.view(out, len(point))[...] = found

    callbacks = (
        _operator.MAKE(_guarded(make_at)),
        _operator.GRADIENT() if gradient is None else _operator.GRADIENT(_guarded(gradient_at)),
    )
    values = None if weights is None else numbers(weights, "weights")
    result, out = abi.dpmf_optimization(), ctypes.POINTER(abi.dpmf_strategy)()
    try:
        with run_options(threads, progress) as run:
            wanted = struct_of(
                "dpmf_optimize_options_defaults",
                weights=doubles(values),
                run=run,
                tolerance=tolerance,
            )
            asked = Loss(loss)
            asked.put(wanted)
            with asked.again():
                c.dpmf_optimize_parametric(
                    ctypes.byref(_operator.Parametric(None, len(point), *callbacks)),
                    workload._handle,
                    participation._handle,
                    ctypes.byref(wanted),
                    doubles(point),
                    ctypes.byref(out),
                    ctypes.byref(result),
                )
    except BaseException:
        c.dpmf_strategy_free(out)
        raise
    mechanism = make(
        workload,
        participation,
        Strategy._of(out),
        certificate=certificate_of(result),
        made_by="optimized for %s loss, parameters of the caller's own" % loss if made_by is None else made_by,
        **options,
    )
    return point, mechanism

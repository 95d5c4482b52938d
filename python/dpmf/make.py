# SPDX-License-Identifier: Apache-2.0
"""Mechanisms from strategies that are given, or optimized, or in a file."""

from __future__ import annotations

import ctypes
import math
import os
from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from . import errors
from ._library import (
    abi, c, choice, doubles, encode_text, flag, handle, integer, numbers, path_bytes, real, run_options, select, struct_of, text)
from .loss import Loss, LossLike
from .mechanism import Certificate, Mechanism, Progress
from .privacy import parse, sampling_of
from .problem import Participation, Strategy, Workload, stamps_number

__all__ = ["Spectrum", "evaluate", "evaluate_spectrum", "load", "optimize", "save"]

#: Options of a mechanism that `evaluate` and `optimize` pass on.
MECHANISM = (
    "epsilon",
    "delta",
    "sigma",
    "sampling",
    "adjacency",
    "unit",
    "sensitivity",
    "columns",
    "lower_bound",
    "weights",
    "loss",
    "threads",
    "progress",
)


def _problem(steps: Optional[int], workload: Any, participation: Any) -> "tuple[Workload, Participation]":
    if not isinstance(workload, Workload):
        workload = Workload(workload, steps)
    steps = integer(steps, "steps", optional=True)
    if steps not in (None, workload.steps):
        raise errors.ArgumentError("steps = %d, and the workload has %d" % (steps, workload.steps))
    if not isinstance(participation, Participation):
        participation = Participation(participation, workload.steps)
    return workload, participation


def make(
    workload: Workload,
    participation: Participation,
    strategy: Strategy,
    *,
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
    loss: LossLike = "rms",
    made_by: Optional[str] = None,
    certificate: Optional[Certificate] = None,
    threads: int = 0,
    progress: Progress = None,
) -> Mechanism:
    """Evaluates; calibrates to (epsilon, delta) where they are given."""
    if (epsilon is None) != (delta is None):
        raise errors.ArgumentError("epsilon and delta are accepted together")
    if sigma is not None and epsilon is not None:
        raise errors.ArgumentError("sigma, epsilon: one of them is accepted, the other follows")
    values = None if weights is None else numbers(weights, "weights")
    if values is not None and values.shape != (workload.steps,):
        raise errors.ArgumentError("weights has shape %s, accepted: (%d,)" % (values.shape, workload.steps))

    with run_options(threads, progress) as run:
        options = struct_of(
            "dpmf_mechanism_options_defaults",
            sigma=sigma,
            sampling=sampling_of(sampling),
            made_by=encode_text(made_by, "made_by", optional=True),
            unit=encode_text(unit, "unit", optional=True),
        )
        options.evaluate.adjacency = parse("dpmf_adjacency_parse", ctypes.c_int, adjacency, "adjacency").value
        options.evaluate.sensitivity = parse("dpmf_sensitivity_bound_parse", ctypes.c_int, sensitivity, "sensitivity").value
        options.evaluate.lower_bound = choice(abi.dpmf_lower_bound_mode, lower_bound, "lower_bound")
        options.evaluate.weights = doubles(values)
        options.evaluate.columns = integer(columns, "columns", optional=True) or 0
        options.evaluate.run = run
        asked = Loss(loss)
        asked.put(options.evaluate)
        with asked.again():
            made = Mechanism(
                handle(
                    "dpmf_mechanism_create",
                    Mechanism._free,
                    workload._handle,
                    participation._handle,
                    strategy._handle,
                    ctypes.byref(options),
                )
            )
    if epsilon is not None and delta is not None:
        made = made.calibrate(epsilon, delta, threads=threads, progress=progress)
    made.certificate = certificate
    return made


def _optimized(
    family: str, workload: Workload, participation: Participation, wanted: Any
) -> Tuple[Optional[Strategy], Any]:
    """What dpmf_optimize finds; None: bounds without a strategy."""
    result, out = abi.dpmf_optimization(), ctypes.POINTER(abi.dpmf_strategy)()
    c.dpmf_optimize(
        encode_text(family, "family"),
        workload._handle,
        participation._handle,
        ctypes.byref(wanted),
        ctypes.byref(out),
        ctypes.byref(result),
    )
    return (Strategy._of(out) if out else None), result


def evaluate(
    strategy: Union[str, Strategy],
    steps: Optional[int] = None,
    workload: Any = "prefix",
    participation: Any = "single",
    *,
    bands: Optional[int] = None,
    nu: Optional[float] = None,
    stamps: Union[int, str, None] = None,
    decoder: str = "default",
    column_normalize: bool = False,
    buffers: Optional[int] = None,
    levels: Optional[int] = None,
    branching: Optional[int] = None,
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
    loss: LossLike = "rms",
    made_by: str = "closed form",
    threads: int = 0,
    progress: Progress = None,
) -> Mechanism:
    """A given strategy, or a family in closed form, as a mechanism.

    bands, nu, stamps, decoder, column_normalize,
    buffers, levels                                 of a family that is named; as it needs them; branching: of trees
    stamps                                          "auto": the number with the least RMS loss
    epsilon and delta, or sigma                     the first calibrate it
    unit                                            what the guarantee protects one of, "example" or "user"; it is recorded
    columns                                         1: contributions are single numbers, whose sensitivity can be smaller;
                                                    streams of more columns then refuse the mechanism. None: vectors
    loss                                            "rms", "max", "lp:P", "last", or a function of the squared errors that returns
                                                    (value, derivatives): `Mechanism.loss` is its value
    others                                          assumptions of the guarantee, and what to compute

    >>> evaluate("identity", 16, participation="cyclic:2,8").sensitivity.value ** 2
    2.0000000000000004
    >>> evaluate("tree", 16).rms_loss > evaluate("toeplitz", 16).rms_loss
    True
    >>> evaluate("tree-full", 64, participation="cyclic:16,4", stamps="auto").strategy.stamps
    8
    """
    options = select(MECHANISM, locals())
    if steps is None and isinstance(strategy, Strategy):
        steps = strategy.steps
    workload, participation = _problem(steps, workload, participation)
    family = {"bands": bands, "nu": nu, "stamps": stamps, "buffers": buffers, "levels": levels, "branching": branching}
    given = [name for name, value in family.items() if value is not None]
    given += [] if decoder == "default" else ["decoder"]
    given += ["column_normalize"] if column_normalize else []
    if isinstance(strategy, Strategy):
        if given:
            raise TypeError("%s: a strategy that is made has no options" % ", ".join(sorted(given)))
    elif stamps == "auto":
        closed_form = struct_of(
            "dpmf_strategy_options_defaults",
            bands=bands,
            nu=nu,
            decoder=choice(abi.dpmf_decoder, decoder, "decoder"),
            column_normalize=flag(column_normalize, "column_normalize"),
            buffers=buffers,
            levels=levels,
            branching=branching,
        )
        values = None if weights is None else numbers(weights, "weights")
        with run_options(threads, progress) as run:
            wanted = struct_of(
                "dpmf_optimize_options_defaults",
                stamps=stamps_number(stamps),
                closed_form=ctypes.pointer(closed_form),
                weights=doubles(values),
                run=run,
            )
            strategy = _optimized(strategy, workload, participation, wanted)[0]
    else:
        strategy = Strategy(strategy, workload, decoder=decoder, column_normalize=column_normalize, **family)
    return make(
        workload,
        participation,
        strategy,
        made_by=made_by,
        **options,
    )


def certificate_of(result: Any, damped: bool = False) -> Certificate:
    """The outcome of a search."""
    upper = result.optimum_upper
    return Certificate(
        text(c.dpmf_outcome_name(result.outcome)),
        result.iterations,
        result.nodes,
        result.optimum_lower or None,
        upper if math.isfinite(upper) else None,
        text(result.scope),
        result.stationarity,
        text(result.searched),
        result.dropped,
        result.nu if damped else None,
    )


def optimize(
    family: str,
    steps: Optional[int] = None,
    workload: Any = "prefix",
    participation: Any = "single",
    loss: LossLike = "rms",
    *,
    bands: Optional[int] = None,
    buffers: Optional[int] = None,
    wanted_ratio: Optional[float] = None,
    shared_seeds: Optional[bool] = None,
    normalize: Optional[str] = None,
    constraint: Optional[str] = None,
    sweep: Optional[bool] = None,
    taper: Optional[float] = None,
    signs: Optional[str] = None,
    damped: Optional[bool] = None,
    tolerance: Optional[float] = None,
    stamps: Union[int, str, None] = None,
    stamp_participation: Any = None,
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
) -> Mechanism:
    """The best strategy of a family: one of `families()` that can be optimized.

    loss                  as in `evaluate`; "lp:P", "last" and functions for banded, toeplitz and banded-toeplitz. A function whose
                          attribute `convex` is true gives `banded` a proven bound
    bands to tolerance    of the search
    stamps                the best strategy of steps/stamps steps, repeated; "auto": the number with the least loss
    stamp_participation   what one stamp is optimized for; None: what `participation` leaves of it in one stamp
    the rest              of the mechanism, as in `evaluate`. `Mechanism.certificate` has the outcome of the search

    >>> m = optimize("tvblt", 1000, buffers=4)
    >>> m.buffers, m.ratio < 1.001
    (4, True)
    >>> optimize("blt", 1000, buffers=3).certificate.outcome
    'converged'
    >>> optimize("dense", 40, participation="cyclic:10,4", stamps=2, stamp_participation="single").strategy.stamps
    2
    >>> optimize("blt", 64, participation="min-sep:4,16", loss="max", buffers=4).certificate.dropped
    1
    >>> round(optimize("toeplitz", 1000, participation="cyclic:10,100", damped=True).certificate.nu, 4)
    0.0048
    """
    options = select(MECHANISM, locals())
    workload, participation = _problem(steps, workload, participation)
    values = None if weights is None else numbers(weights, "weights")
    part = None
    if isinstance(stamp_participation, Participation):
        part = stamp_participation
    elif stamp_participation is not None:
        repeats = stamps if isinstance(stamps, int) and stamps > 0 else 1
        part = Participation(stamp_participation, workload.steps // repeats)
    with run_options(threads, progress) as run:
        wanted = struct_of(
            "dpmf_optimize_options_defaults",
            weights=doubles(values),
            run=run,
            bands=bands,
            buffers=buffers,
            wanted_ratio=wanted_ratio,
            shared_seeds=shared_seeds,
            normalize=None if normalize is None else choice(abi.dpmf_normalize, normalize, "normalize"),
            constraint=None if constraint is None else choice(abi.dpmf_constraint, constraint, "constraint"),
            sweep=sweep,
            taper=taper,
            signs=None if signs is None else choice(abi.dpmf_signs, signs, "signs"),
            damped=damped,
            tolerance=tolerance,
            stamps=stamps_number(stamps),
            stamp_participation=None if part is None else part._handle,
        )
        asked = Loss(loss)
        asked.put(wanted)
        with asked.again():
            strategy, result = _optimized(family, workload, participation, wanted)
    if strategy is None:
        raise errors.UnsupportedError(
            "%s: above %d steps there are bounds, %.9g to %.9g, and no strategy"
            % (family, abi.DPMF_DENSE_STEPS_MAX, result.optimum_lower, result.optimum_upper)
        )
    return make(
        workload,
        participation,
        strategy,
        certificate=certificate_of(result, bool(damped)),
        made_by="optimized for %s loss" % loss if made_by is None else made_by,
        **options,
    )


@dataclass(frozen=True)
class Spectrum:
    """What noise of sigma 1 adds to a quadratic loss: `evaluate_spectrum`."""

    effective_dimension: float
    excess_loss: float
    independent: float
    ratio: float
    per_eigenvalue: np.ndarray
    per_eigenvalue_independent: np.ndarray


def evaluate_spectrum(mechanism: Mechanism, eigenvalues: "np.typing.ArrayLike", rate: float) -> Spectrum:
    """The noise of the last step in a quadratic loss with these eigenvalues and learning rate, beside independent noise.

    Along an eigenvector gradient descent forgets by rate x eigenvalue, so that its part is rate^2/2 x eigenvalue x the squared
    error for the workload decay (Pillutla et al. 2025, Section 3.5.2).

    >>> found = evaluate_spectrum(evaluate("toeplitz", 2000, nu=0.0005), [1, 0.1, 0.01], 0.05)
    >>> round(found.effective_dimension, 2), round(found.ratio, 4)
    (1.11, 0.1806)
    """
    values, step = numbers(eigenvalues, "eigenvalues"), real(rate, "rate")
    if values.ndim != 1 or len(values) == 0 or not (step > 0 and np.all(values > 0) and np.all(values * step <= 1)):
        raise errors.ArgumentError("eigenvalues and rate: a list above 0, up to 1/rate, and a rate above 0 are accepted")
    strategy = mechanism.strategy
    own, plain = np.empty(len(values)), np.empty(len(values))
    for out, used in ((own, strategy), (plain, "identity")):
        for i, value in enumerate(values):
            found = evaluate(
                used,
                mechanism.steps,
                "decay:%.17g" % (step * value),
                mechanism.participation,
                adjacency=mechanism.adjacency,
                lower_bound="none",
            )
            out[i] = 0.5 * step**2 * value * found.per_step_error[-1] ** 2
    dimension = float(np.sum(values) / np.max(values))
    total, independent = float(np.sum(own)), float(np.sum(plain))
    return Spectrum(dimension, total, independent, total / independent, own, plain)


def load(path: "Union[str, os.PathLike[str]]") -> Mechanism:
    """Reads a mechanism file, and the report of its design where that is beside it (PATH.design).

    Anything that the writer would not write is refused.
    Its claims are computed again before a stream or an account relies on them (Mechanism.confirm).
    """
    made = Mechanism(handle("dpmf_mechanism_load", Mechanism._free, path_bytes(path, optional=False)))
    made._confirmed = False
    from .design import read_beside

    made._report = read_beside(path, made)
    return made


def save(mechanism: Mechanism, path: "Union[str, os.PathLike[str]]") -> None:
    """mechanism.save(path)"""
    if not isinstance(mechanism, Mechanism):
        raise errors.ArgumentTypeError("mechanism is a %s, a dpmf.Mechanism is accepted" % type(mechanism).__name__)
    mechanism.save(path)

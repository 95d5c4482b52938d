# SPDX-License-Identifier: Apache-2.0
"""Mechanisms from strategies that are given, or optimized, or in a file."""

from __future__ import annotations

import ctypes
import math
import os
from typing import Any, Optional, Sequence, Union

from . import errors
from ._library import abi, c, choice, doubles, handle, numbers, path_bytes, run_options, struct_of, text
from .mechanism import Certificate, Mechanism, Progress
from .privacy import calibrate, parse, sampling_of
from .problem import Participation, Strategy, Workload

__all__ = ["evaluate", "load", "optimize", "save"]


def _problem(steps: Optional[int], workload: Any, participation: Any) -> "tuple[Workload, Participation]":
    if not isinstance(workload, Workload):
        workload = Workload(workload, steps)
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
    sensitivity: str = "auto",
    lower_bound: str = "auto",
    weights: Optional[Sequence[float]] = None,
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

    def once(sigma: Optional[float], bound: Any, claim: bool) -> Mechanism:
        with run_options(threads, progress) as run:
            options = struct_of(
                "dpmf_mechanism_options_defaults",
                sigma=sigma,
                sampling=sampling_of(sampling),
                made_by=None if made_by is None else made_by.encode(),
                epsilon=epsilon if claim else None,
                delta=delta if claim else None,
            )
            options.evaluate.adjacency = parse("dpmf_adjacency_parse", ctypes.c_int, adjacency).value
            options.evaluate.sensitivity = parse("dpmf_sensitivity_bound_parse", ctypes.c_int, sensitivity).value
            options.evaluate.lower_bound = bound
            options.evaluate.weights = doubles(values)
            options.evaluate.run = run
            return Mechanism(
                handle(
                    "dpmf_mechanism_create",
                    Mechanism._free,
                    workload._handle,
                    participation._handle,
                    strategy._handle,
                    ctypes.byref(options),
                ),
                certificate=certificate,
            )

    bound = choice(abi.dpmf_lower_bound_mode, lower_bound, "lower_bound")
    if epsilon is None or delta is None:
        return once(sigma, bound, False)
    draft = once(None, abi.dpmf_lower_bound_mode.DPMF_LOWER_BOUND_NONE, False)
    found = calibrate(epsilon, delta, of=draft, threads=threads, progress=progress)
    return once(found.sigma, bound, True)


#: What `evaluate` and `optimize` take for the mechanism that they make.
MAKE_OPTIONS = (
    "epsilon",
    "delta",
    "sigma",
    "sampling",
    "adjacency",
    "sensitivity",
    "lower_bound",
    "weights",
    "made_by",
    "threads",
    "progress",
)


def _split(options: "dict[str, Any]") -> "tuple[dict[str, Any], dict[str, Any]]":
    return (
        {k: v for k, v in options.items() if k in MAKE_OPTIONS},
        {k: v for k, v in options.items() if k not in MAKE_OPTIONS},
    )


def evaluate(
    strategy: Union[str, Strategy],
    steps: Optional[int] = None,
    workload: Any = "prefix",
    participation: Any = "single",
    **options: Any,
) -> Mechanism:
    """A given strategy, or a family in closed form, as a mechanism.

    Options of the mechanism: epsilon and delta (then sigma is calibrated) or sigma, sampling, adjacency, sensitivity,
    lower_bound, weights, made_by, threads, progress; of the family: bands, nu, stamps, decoder, column_normalize.

    >>> evaluate("identity", 16, participation="cyclic:2,8").sensitivity.value ** 2
    2.0000000000000004
    >>> evaluate("tree", 16).rms_loss > evaluate("toeplitz", 16).rms_loss
    True
    """
    if steps is None and isinstance(strategy, Strategy):
        steps = strategy.steps
    workload, participation = _problem(steps, workload, participation)
    about, family = _split(options)
    if isinstance(strategy, str):
        strategy = Strategy(strategy, workload, **family)
    elif family:
        raise TypeError("%s: a strategy that is made has no options" % ", ".join(sorted(family)))
    about.setdefault("made_by", "closed form")
    return make(workload, participation, strategy, **about)


def optimize(
    family: str,
    steps: Optional[int] = None,
    workload: Any = "prefix",
    participation: Any = "single",
    loss: str = "rms",
    **options: Any,
) -> Mechanism:
    """The best strategy of a family: one of `families()` that can be optimized.

    Options of the mechanism as in `evaluate`; of the search: bands, buffers, wanted_ratio, shared_seeds, normalize,
    constraint, sweep, taper, settled_after, tolerance. `Mechanism.certificate` says how it ended.

    >>> m = optimize("tvblt", 1000, buffers=4)
    >>> m.buffers, m.ratio < 1.001
    (4, True)
    >>> optimize("blt", 1000, buffers=3).certificate.outcome
    'converged'
    """
    workload, participation = _problem(steps, workload, participation)
    about, search = _split(options)
    for name, kind in (("normalize", abi.dpmf_normalize), ("constraint", abi.dpmf_constraint)):
        if name in search:
            search[name] = choice(kind, search[name], name)
    weights = about.get("weights")
    values = None if weights is None else numbers(weights, "weights")
    result, out = abi.dpmf_optimization(), ctypes.POINTER(abi.dpmf_strategy)()
    with run_options(about.get("threads", 0), about.get("progress")) as run:
        wanted = struct_of(
            "dpmf_optimize_options_defaults",
            loss=choice(abi.dpmf_loss, loss, "loss"),
            weights=doubles(values),
            run=run,
            **search,
        )
        c.dpmf_optimize(
            family.encode(),
            workload._handle,
            participation._handle,
            ctypes.byref(wanted),
            ctypes.byref(out),
            ctypes.byref(result),
        )
    if not out:
        raise errors.UnsupportedError(
            "%s: above %d steps there are bounds, %.9g to %.9g, and no strategy"
            % (family, abi.DPMF_DENSE_STEPS_MAX, result.optimum_lower, result.optimum_upper)
        )
    upper = result.optimum_upper
    certificate = Certificate(
        text(c.dpmf_outcome_name(result.outcome)),
        result.iterations,
        result.nodes,
        result.optimum_lower or None,
        upper if math.isfinite(upper) else None,
        text(result.scope),
        result.stationarity,
        text(result.searched),
    )
    about.setdefault("made_by", "optimized for %s loss" % loss)
    return make(workload, participation, Strategy._of(out), certificate=certificate, **about)


def load(path: "Union[str, os.PathLike[str]]") -> Mechanism:
    """Reads a mechanism file; anything that the writer would not write is refused.

    What it claims is computed again when somebody relies on it (Mechanism.confirm).
    """
    made = Mechanism(handle("dpmf_mechanism_load", Mechanism._free, path_bytes(path)))
    made._confirmed = False
    return made


def save(mechanism: Mechanism, path: "Union[str, os.PathLike[str]]") -> None:
    """mechanism.save(path)"""
    mechanism.save(path)

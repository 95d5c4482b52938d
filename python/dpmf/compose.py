# SPDX-License-Identifier: Apache-2.0
"""Composition of runs, ledgers and mechanisms that are known by a guarantee; privacy loss distributions of other accountants."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Union

from . import errors
from ._library import abi, c, encode_text, integer, path_bytes, real, run_options
from .ledger import Ledger
from .privacy import NO_SAMPLING, Privacy, Scope, privacy_of

if TYPE_CHECKING:
    from .mechanism import Mechanism

__all__ = ["compose", "read_losses", "write_losses"]

ADJACENCIES = ("zero-out", "add-remove", "replace-one")
CONDITION = (
    "Every mechanism must have the guarantee or the privacy curve that was given for it under the same adjacency. The choice of "
    "mechanisms must not depend on what earlier ones released. Under zero-out adjacency, a mechanism with @poisson must treat a unit that "
    "is replaced by zeros exactly like one that was not drawn: a batch size that is released, or divided by, breaks this.\n"
)
CHANGES = (
    (r"^Protected: .*", "Protected: one unit, as the guarantee of each part has it."),
    (NO_SAMPLING, "Where a part is sampled, this holds only for batches sampled exactly as described, with the randomness kept secret."),
)


def compose(
    *parts: "Union[Mechanism, Ledger, str]",
    times: Optional[Sequence[int]] = None,
    delta: Optional[float] = None,
    epsilon: Optional[float] = None,
    adjacency: Optional[str] = None,
    export: "Union[str, os.PathLike[str], None]" = None,
    interval: float = 0.0,
    threads: int = 0,
) -> Privacy:
    """(epsilon, delta) of everything together, at `delta` or at `epsilon`, as `account --compose` computes it.

    A part is a calibrated mechanism, a `Ledger`, or a text: "pure:EPSILON", "approximate:EPSILON,DELTA", "laplace:SCALE", "pld:FILE"
    (a privacy loss distribution), with "@poisson:Q" or "@fixed:M,N" behind it where that is sampled. `times` has one number per
    part. `export` writes the whole curve as a privacy loss distribution, whose losses are multiples of `interval` (0: 1e-4).

    >>> round(compose("pure:0.1", times=[100], delta=1e-6).epsilon, 4)
    4.7746
    >>> round(compose("laplace:2", "pure:0.1@poisson:0.01", times=[10, 1000], delta=1e-6).epsilon, 3)
    5.047
    """
    from .mechanism import Mechanism

    if (delta is None) == (epsilon is None):
        raise errors.ArgumentError("compose: one of delta and epsilon is needed")
    if not parts:
        raise errors.ArgumentError("compose: a part is needed")
    counts = [1] * len(parts) if times is None else [integer(n, "times") for n in times]
    if len(counts) != len(parts):
        raise errors.ArgumentError("times: %d numbers for %d parts" % (len(counts), len(parts)))
    held = [part.adjacency for part in parts if isinstance(part, Mechanism)]
    chosen = adjacency or (held[0] if held else ADJACENCIES[0])
    if chosen not in ADJACENCIES:
        raise errors.ArgumentError("adjacency = %r, accepted: %s" % (chosen, ", ".join(ADJACENCIES)))
    ledger = abi.FUNCTIONS["dpmf_ledger_free"][1][0]()
    c.dpmf_ledger_create(ADJACENCIES.index(chosen), ctypes.byref(ledger))
    try:
        for part, n in zip(parts, counts):
            add(ledger, part, n)
        found = abi.dpmf_privacy()
        with run_options(threads) as run:
            if delta is not None:
                c.dpmf_ledger_epsilon(ledger, real(delta, "delta"), ctypes.byref(run), ctypes.byref(found))
            else:
                c.dpmf_ledger_delta(ledger, real(epsilon, "epsilon"), ctypes.byref(run), ctypes.byref(found))
            if export is not None:
                c.dpmf_ledger_export(ledger, path_bytes(export), real(interval, "interval"), ctypes.byref(run))
    finally:
        c.dpmf_ledger_free(ledger)
    options = c.dpmf_account_options_defaults()
    options.adjacency = ADJACENCIES.index(chosen)
    return privacy_of(found, options, None, Scope("All outputs of these mechanisms (%d) together are" % sum(counts), CONDITION, CHANGES))


def add(ledger: Any, part: Any, times: int) -> None:
    from .mechanism import Mechanism

    if isinstance(part, str):
        c.dpmf_ledger_add_guarantee(ledger, encode_text(part, "part"), times)
    elif isinstance(part, Mechanism):
        c.dpmf_ledger_add_mechanism(ledger, part._handle, times)
    elif isinstance(part, Ledger):
        if times != 1:
            raise errors.ArgumentError("times: a ledger counts once")
        entries = part._load()
        try:
            c.dpmf_ledger_add_ledger(ledger, entries)
        finally:
            c.dpmf_ledger_free(entries)
    else:
        raise errors.ArgumentTypeError(
            "a part is a %s; a dpmf.Mechanism, a dpmf.Ledger or a text such as 'pure:1' is accepted" % type(part).__name__
        )


def direction(pmf: Any) -> Dict[str, Any]:
    """The losses, in steps, with their masses, of a probability mass function of dp-accounting."""
    dense = pmf.to_dense_pmf()
    found = [(dense._lower_loss + i, float(p)) for i, p in enumerate(dense._probs) if p > 0]
    return {
        "losses": [int(loss) for loss, _ in found],
        "probabilities": [p for _, p in found],
        "infinity_mass": float(dense._infinity_mass),
    }


def write_losses(pld: Any, path: "Union[str, os.PathLike[str]]", adjacency: Optional[str] = None) -> None:
    """Writes a PrivacyLossDistribution of dp-accounting (0.6 was tried) as a file for "pld:FILE".

    An optimistic estimate is refused when the file is read.
    """
    remove = pld._pmf_remove
    content: Dict[str, Any] = {
        "format": "privacy-loss-distribution",
        "version": 1,
        "value_discretization_interval": float(remove._discretization),
        "pessimistic_estimate": bool(remove._pessimistic_estimate),
        "symmetric": bool(pld._symmetric),
        "remove": direction(remove),
    }
    if adjacency is not None:
        content["adjacency"] = adjacency
    import json  # 5 ms of every import of the package otherwise

    if not pld._symmetric:
        content["add"] = direction(pld._pmf_add)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def read_losses(path: "Union[str, os.PathLike[str]]") -> Any:
    """The PrivacyLossDistribution of dp-accounting, which must be installed, from a file that `export` wrote."""
    import json

    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    remove, more = content["remove"], {"symmetric": True}
    if not content.get("symmetric"):
        losses = content["add"]
        more = {
            "symmetric": False,
            "rounded_probability_mass_function_add": dict(zip(losses["losses"], losses["probabilities"])),
            "infinity_mass_add": losses["infinity_mass"],
        }
    return PrivacyLossDistribution.create_from_rounded_probability(
        dict(zip(remove["losses"], remove["probabilities"])),
        remove["infinity_mass"],
        content["value_discretization_interval"],
        content["pessimistic_estimate"],
        **more,
    )

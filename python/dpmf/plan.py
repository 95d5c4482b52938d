# SPDX-License-Identifier: Apache-2.0
"""From a data set to a training run: batch size, steps and epochs."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple, Union

from . import errors
from ._library import abi, c, choice, encode_text, handle, integer, real, run_options, set_field, memory_limit
from ._library import struct_of, text
from ._object import Object
from .design import joined_names
from .loss import Loss
from .mechanism import Mechanism, Progress
from .privacy import parse, sampling_text

__all__ = ["Plan", "PlanPoint", "plan"]


@dataclass(frozen=True)
class PlanPoint:
    """One run that was compared: the mechanism that `design` chooses for it, and DP-SGD beside it."""

    epochs: float
    steps: int
    batch: float  #: epochs x units / steps; under sampling the expected size
    family: str
    bands: int
    buffers: int
    sampling: str
    sigma: float
    noise_rms: float
    noise_max: float
    noise_per_epoch: float  #: sigma x the requested loss / epochs
    independent_noise_per_epoch: float  #: the same of DP-SGD: independent noise, Poisson sampling
    independent_sampling: str
    independent_sigma: float
    memory_bytes: int
    overhead: float
    seconds_per_step: float  #: of the noise, on one thread of the reference machine by the cost model
    best_of_epochs: bool  #: the rule's point for this number of epochs


class Plan(Object):
    """The points of a plan and the recommended one; `print` shows the table of `dpmf plan`."""

    _free = "dpmf_plan_free"

    def __init__(self, made: Any):
        super().__init__(made)
        found = c.dpmf_plan_get(made)
        #: by epochs, then by steps
        self.points: Tuple[PlanPoint, ...] = tuple(_point(found.rows[i]) for i in range(found.count))
        #: the point that the rule takes
        self.recommended: PlanPoint = self.points[found.recommended]
        #: the rule in a sentence
        self.rule: str = text(found.rule)
        #: the recommendation in sentences
        self.why: str = text(found.why)

    def mechanism(self) -> Mechanism:
        """The mechanism of the recommended point, with its sigma: the one that `design` chooses for its steps and epochs."""
        return Mechanism(c.dpmf_plan_get(self._handle).mechanism, owner=self)

    def __str__(self) -> str:
        return text(c.dpmf_plan_get(self._handle).text)

    def __repr__(self) -> str:
        best = self.recommended
        return "<dpmf.Plan of %d points: %g epochs in %d steps, %s>" % (len(self.points), best.epochs, best.steps, best.family)


def _point(row: Any) -> PlanPoint:
    chosen = row.chosen
    return PlanPoint(
        epochs=row.epochs,
        steps=row.steps,
        batch=row.batch,
        family=text(chosen.family),
        bands=chosen.bands,
        buffers=chosen.buffers,
        sampling=sampling_text(chosen.sampling),
        sigma=chosen.sigma,
        noise_rms=chosen.noise_rms,
        noise_max=chosen.noise_max,
        noise_per_epoch=row.noise_per_epoch,
        independent_noise_per_epoch=row.independent_noise_per_epoch,
        independent_sampling=sampling_text(row.independent.sampling),
        independent_sigma=row.independent.sigma,
        memory_bytes=chosen.memory_bytes,
        overhead=chosen.overhead,
        seconds_per_step=row.seconds_per_step,
        best_of_epochs=bool(row.best_of_epochs),
    )


def _ends(value: Any, name: str, number: Any) -> Tuple[Any, Any]:
    """The ends of a range: (low, high), or one number twice; None: the library's own."""
    if value is None:
        return None, None
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise errors.ArgumentError("%s = %r, accepted: a number, or (low, high)" % (name, value))
        return number(value[0], name), number(value[1], name)
    return number(value, name), number(value, name)


def plan(
    units: int,
    epsilon: float,
    delta: float,
    *,
    epochs: Union[float, Tuple[float, float], None] = None,
    batch: Union[int, Tuple[int, int], None] = None,
    workload: str = "prefix",
    sampling: str = "any",
    within: Optional[float] = None,
    families: Union[str, Sequence[str], None] = None,
    loss: str = "rms",
    adjacency: str = "zero-out",
    dim: Optional[int] = None,
    memory: Union[int, str, None] = None,
    max_overhead: Optional[float] = None,
    tolerance: Optional[float] = None,
    unit: Optional[str] = None,
    threads: int = 0,
    progress: Progress = None,
) -> Plan:
    """How many steps, and how large a batch? Designs over batch sizes and epochs, with DP-SGD beside them, and a recommendation.

    units            in the data set: examples, or users
    epochs           K, or (low, high) in doublings; below 1 a part of an epoch. None: 1 to 8
    batch            M, or (low, high) in doublings. None: a thousandth to a tenth of the units
    workload         as text: "prefix" for SGD, "momentum:0.9", ...
    sampling         as in `design`; here the default is "any"
    within           the part of the noise that a doubling of the steps may cost if it ends at 1000 steps, half of it at 2000, and
                     so on. None: 0.3
    families, loss, adjacency, dim, memory, max_overhead, tolerance, unit    as in `design`

    >>> import dpmf
    >>> found = dpmf.plan(1000, 4, 1e-5, epochs=2, batch=(50, 200), sampling="none", families="identity,blt", dim=1000)
    >>> [(point.steps, point.family) for point in found.points]
    [(10, 'blt'), (20, 'blt'), (40, 'blt')]
    >>> found.mechanism().steps == found.recommended.steps
    True
    """
    low, high = _ends(epochs, "epochs", real)
    least, most = _ends(batch, "batch", integer)
    if (epochs is not None and low == high == 0) or (batch is not None and least == most == 0):
        raise errors.ArgumentError("epochs and batch: 0 is not accepted; None is the library's own range")
    with run_options(threads, progress) as run:
        wanted = struct_of(
            "dpmf_plan_options_defaults",
            units=integer(units, "units"),
            epochs_low=low,
            epochs_high=high,
            batch_low=least,
            batch_high=most,
            workload=encode_text(workload, "workload"),
            within=within,
        )
        asked = dict(
            epsilon=epsilon,
            delta=delta,
            sampling=choice(abi.dpmf_sampling_kind, "none" if sampling == "any" else sampling, "sampling"),
            any_sampling=int(sampling == "any"),
            families=encode_text(joined_names(families), "families", optional=True),
            loss=Loss(loss).kind,
            loss_power=Loss(loss).power,
            adjacency=parse("dpmf_adjacency_parse", ctypes.c_int, adjacency, "adjacency").value,
            run=run,
            dim=dim,
            memory=memory_limit(memory),
            max_overhead=max_overhead,
            tolerance=tolerance,
            unit=encode_text(unit, "unit", optional=True),
        )
        kinds_of = dict(field[:2] for field in wanted.design._fields_)
        for name, value in asked.items():
            if value is not None:
                set_field(wanted.design, name, value, kinds_of[name])
        return Plan(handle("dpmf_plan_create", Plan._free, ctypes.byref(wanted)))

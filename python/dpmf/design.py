# SPDX-License-Identifier: Apache-2.0
"""From a training run to the best mechanism at equal privacy."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Sequence, Tuple, Union

from . import errors
from ._library import abi, c, choice, handle, run_options, struct_of, text
from ._object import Object
from .mechanism import Mechanism, Progress, Sensitivity, sensitivity_of
from .privacy import Privacy, parse, privacy_of, read_text, sampling_text
from .problem import Workload

__all__ = ["Candidate", "Design", "design"]


@dataclass(frozen=True)
class Candidate:
    """One mechanism that was compared."""

    family: str
    sampling: str
    bands: int
    buffers: int
    normalized: bool
    swept: bool
    sigma: float
    sigma_kind: str
    sensitivity: Sensitivity
    rms_loss: float
    max_loss: float
    noise_rms: float
    noise_max: float
    memory_bytes: int
    seconds_per_step: float
    overhead: float
    ratio: float
    eligible: bool
    reason: str
    normals_per_number: float
    account: str
    confidence: float


class Design(Object):
    """The report of a design: what was compared, what was chosen, and why."""

    _free = "dpmf_design_free"

    @property
    def candidates(self) -> Tuple[Candidate, ...]:
        """Least noise first."""
        rows = [c.dpmf_design_candidate(self._handle, i).contents for i in range(c.dpmf_design_count(self._handle))]
        return tuple(_candidate(row) for row in rows)

    @property
    def chosen(self) -> int:
        """Its place among the candidates."""
        return c.dpmf_design_chosen(self._handle)

    @property
    def why(self) -> str:
        return text(c.dpmf_design_why(self._handle))

    @property
    def warnings(self) -> Tuple[str, ...]:
        """What to see to, so that the guarantee holds."""
        return tuple(text(c.dpmf_design_warning(self._handle, i)) for i in range(c.dpmf_design_warnings(self._handle)))

    @property
    def privacy(self) -> Privacy:
        mechanism = c.dpmf_design_mechanism(self._handle)
        return privacy_of(c.dpmf_design_privacy(self._handle), c.dpmf_mechanism_account(mechanism), self)

    def statement(self, unit: str = "example") -> str:
        """The guarantee in sentences."""
        return read_text(c.dpmf_design_statement, self._handle, unit.encode())


def _candidate(row: Any) -> Candidate:
    values = {name: getattr(row, name) for name, *_ in row._fields_}
    values.update(
        family=text(row.family),
        sampling=sampling_text(row.sampling),
        normalized=bool(row.normalized),
        swept=bool(row.swept),
        sigma_kind=text(c.dpmf_kind_name(row.sigma_kind)),
        sensitivity=sensitivity_of(row.sensitivity),
        eligible=bool(row.eligible),
        reason=text(row.reason),
        normals_per_number=row.normals_per_number,
        account=text(row.account),
    )
    return Candidate(**values)


def design(
    steps: int,
    epochs: int,
    epsilon: float,
    delta: float,
    *,
    workload: Union[str, Workload] = "prefix",
    sampling: str = "none",
    families: Union[str, Sequence[str], None] = None,
    loss: str = "rms",
    adjacency: str = "zero-out",
    dtype: str = "float32",
    federated: bool = False,
    measure: bool = False,
    threads: int = 0,
    progress: Progress = None,
    **options: Any,
) -> Mechanism:
    """The best mechanism for a training run at equal privacy; `Mechanism.design` is the report.

    steps, epochs    of the run; federated: the participations of one user
    workload         what must be accurate: "prefix" for SGD, "momentum:0.9", ...
    sampling         "none", or what batches may be drawn by in secret, which amplifies: "block-cyclic", "poisson",
                     "allocation", "balls-in-bins", "min-sep" (simulated: slow), or "any" for all but what is simulated
    families         names of those to compare; None: every one that applies
    measure          True: time the noise of every candidate here and refuse those above max_overhead. Without it the same
                     call gives the same mechanism everywhere
    options          dim (numbers of the model), memory (bytes that the noise may take; large models need a limit),
                     max_overhead, separation_low, separation_high, tolerance, batch_cap and units (a hard cap on batches
                     under sampling; batch_cap=-1: the least that costs next to nothing)
    """
    made = workload if isinstance(workload, Workload) else Workload(workload, steps)
    names = families if families is None or isinstance(families, str) else ",".join(families)
    precision = {"float32": abi.dpmf_precision.DPMF_FLOAT32, "float64": abi.dpmf_precision.DPMF_FLOAT64}
    if dtype not in precision:
        raise errors.ArgumentError("dtype = %s, accepted: float32, float64" % dtype)
    with run_options(threads, progress) as run:
        wanted = struct_of(
            "dpmf_design_options_defaults",
            epochs=epochs,
            epsilon=epsilon,
            delta=delta,
            sampling=choice(abi.dpmf_sampling_kind, "none" if sampling == "any" else sampling, "sampling"),
            any_sampling=int(sampling == "any"),
            families=None if names is None else names.encode(),
            loss=choice(abi.dpmf_loss, loss, "loss"),
            adjacency=parse("dpmf_adjacency_parse", ctypes.c_int, adjacency).value,
            precision=precision[dtype],
            federated=int(federated),
            no_bench=int(not measure),
            run=run,
            **options,
        )
        report = Design(handle("dpmf_design_create", Design._free, made._handle, ctypes.byref(wanted)))
    return Mechanism(c.dpmf_design_mechanism(report._handle), owner=report, design=report)

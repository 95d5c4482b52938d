# SPDX-License-Identifier: Apache-2.0
"""From a training run to the best mechanism at equal privacy."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence, Tuple, Union

from . import errors
from ._library import abi, c, choice, encode_text, handle, integer, run_options, size_in_bytes, struct_of, text
from ._object import Object
from .mechanism import Mechanism, Progress, Sensitivity, sensitivity_of
from .privacy import UNIT, Privacy, parse, privacy_of, read_text, sampling_text
from .problem import Workload

__all__ = ["Candidate", "Design", "design"]

#: A report is in a file of the mechanism's name and this.
BESIDE = ".design"


@dataclass(frozen=True)
class Candidate:
    """One mechanism that was compared."""

    family: str
    sampling: str
    bands: int
    buffers: int
    normalized: bool
    is_search_point: bool
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
    worst_ratio: float = 0.0  #: federated over a range, where it decides; 0 elsewhere
    worst_at: int = 0  #: the separation of that ratio


@dataclass(frozen=True)
class Design:
    """The report of a design: the candidates, the choice, and the reason.

    It goes with its mechanism through pickle, and through `save` and `load` in a separate file beside the mechanism's, whose
    name ends in .design. Nothing relies on it: it is only a report, and the mechanism's figures are confirmed separately.
    """

    candidates: Tuple[Candidate, ...]  #: least noise first
    chosen: int  #: its place among the candidates
    why: str
    warnings: Tuple[str, ...]  #: what to take care of, so that the guarantee holds
    privacy: Privacy
    said: str = field(repr=False)

    def statement(self, unit: str = "example") -> str:
        """The guarantee in sentences."""
        encode_text(unit, "unit")
        return self.said.replace(UNIT, unit)


class Report(Object):
    """The library's own."""

    _free = "dpmf_design_free"

    def read(self) -> Design:
        own = self._handle
        mechanism = c.dpmf_design_get(own).mechanism
        return Design(
            tuple(_candidate(c.dpmf_design_candidate(own, i).contents) for i in range(c.dpmf_design_get(own).count)),
            c.dpmf_design_get(own).chosen,
            text(c.dpmf_design_get(own).why),
            tuple(text(c.dpmf_design_warning(own, i)) for i in range(c.dpmf_design_get(own).warnings)),
            privacy_of(c.dpmf_design_get(own).privacy, c.dpmf_mechanism_account(mechanism), self),
            read_text(c.dpmf_design_statement, own, UNIT.encode()),
        )


# ---- beside the mechanism's file ----


def write_beside(path: Any, digest: str, report: Design) -> None:
    """In a file that is there whole or not at all, with the digest of its mechanism."""
    import json  # 5 ms of every import of the package otherwise

    beside = os.fsdecode(path) + BESIDE
    privacy = {name: value for name, value in report.privacy.__getstate__().items() if value is not None}
    record = {**report.__dict__, "candidates": [dataclasses.asdict(row) for row in report.candidates], "privacy": privacy}
    with open(beside + ".new", "w", encoding="utf-8") as file:
        json.dump({"mechanism": digest, "design": record}, file, indent=1)
        file.write("\n")
    os.replace(beside + ".new", beside)


def read_beside(path: Any, digest: str) -> Optional[Design]:
    """None: there is none, or it is another mechanism's."""
    import json

    try:
        with open(os.fsdecode(path) + BESIDE, encoding="utf-8") as file:
            found = json.load(file)
        if found["mechanism"] != digest:
            return None
        record = found["design"]
        rows = [{**row, "sensitivity": Sensitivity(**row["sensitivity"])} for row in record["candidates"]]
        record["candidates"] = tuple(Candidate(**row) for row in rows)
        return Design(**{**record, "warnings": tuple(record["warnings"]), "privacy": Privacy(**record["privacy"])})
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise errors.FormatError("%s%s is not the report of a design: %s" % (os.fsdecode(path), BESIDE, error)) from None


def _candidate(row: Any) -> Candidate:
    values = {name: getattr(row, name) for name, *_ in row._fields_}
    values.update(
        family=text(row.family),
        sampling=sampling_text(row.sampling),
        normalized=bool(row.normalized),
        is_search_point=bool(row.is_search_point),
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
    dim: Optional[int] = None,
    memory: Union[int, str, None] = None,
    max_overhead: Optional[float] = None,
    separation_low: Optional[int] = None,
    separation_high: Optional[int] = None,
    tolerance: Optional[float] = None,
    batch_cap: Optional[int] = None,
    units: Optional[int] = None,
) -> Mechanism:
    """The best mechanism for a training run at equal privacy; `Mechanism.design` is the report.

    steps, epochs    of the run; federated: the participations of one user
    workload         what must be accurate: "prefix" for SGD, "momentum:0.9", ...
    sampling         "none", or what batches may be drawn by in secret, which amplifies: "block-cyclic", "poisson",
                     "allocation", "balls-in-bins", "min-sep" (simulated: slow), or "any" for all that need no simulation
    families         names of those to compare; None: every one that applies
    measure          True: time the noise of candidates here. Otherwise a cost model estimates the time per row, and the
                     same call gives the same mechanism everywhere
    dim              numbers of the model
    memory           that the noise may take, in bytes or as in "1GiB"; large models need a limit
    batch_cap        under sampling: a hard cap on batches; -1: the least that costs next to nothing
    units            with a cap: how many there are to draw from
    max_overhead, separation_low, separation_high, tolerance    as in the library
    """
    made = workload if isinstance(workload, Workload) else Workload(workload, integer(steps, "steps"))
    try:
        names = families if families is None or isinstance(families, str) else ",".join(families)
    except TypeError:
        raise errors.ArgumentTypeError("families: names are accepted, one string or a sequence of them") from None
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
            families=encode_text(names, "families", optional=True),
            loss=choice(abi.dpmf_loss, loss, "loss"),
            adjacency=parse("dpmf_adjacency_parse", ctypes.c_int, adjacency, "adjacency").value,
            precision=precision[dtype],
            federated=int(federated),
            measure=int(measure),
            run=run,
            dim=dim,
            memory=size_in_bytes(memory, "memory"),
            max_overhead=max_overhead,
            separation_low=separation_low,
            separation_high=separation_high,
            tolerance=tolerance,
            batch_cap=batch_cap,
            units=units,
        )
        report = Report(handle("dpmf_design_create", Report._free, made._handle, ctypes.byref(wanted)))
    return Mechanism(c.dpmf_design_get(report._handle).mechanism, owner=report, design=report.read())

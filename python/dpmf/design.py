# SPDX-License-Identifier: Apache-2.0
"""From a training run to the best mechanism at equal privacy."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
from dataclasses import dataclass, field
from typing import Any, List, Optional, Sequence, Tuple, Union

from . import errors
from ._library import abi, c, choice, encode_text, flag, handle, integer, run_options, select, memory_limit, struct_of, text
from ._object import Object
from .loss import Loss
from .mechanism import Mechanism, Progress, Sensitivity, sensitivity_of
from .privacy import Privacy, parse, privacy_of, sampling_text
from .problem import Participation, Workload, stamps_number

__all__ = ["Candidate", "Design", "design"]

#: A report is in a file of the mechanism's name and this, which holds these fields of it.
BESIDE = ".design"
FIELDS = ("candidates", "chosen", "why", "warnings", "sampling_would_save")


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
    loss: float = 0.0  #: the loss that decides
    noise: float = 0.0  #: sigma x loss
    stamps: int = 1  #: how often its strategy is repeated


@dataclass(frozen=True)
class Design:
    """The report of a design: the candidates, the choice, and the reason.

    It goes with its mechanism through pickle, and through `save` and `load` in a separate file beside the mechanism's, whose
    name ends in .design. Anybody who can write that file can change it (`from_file`), so that nothing relies on it: the guarantee
    and its sentences are not in it, and come from the mechanism, whose claims are computed again (Mechanism.confirm).
    """

    candidates: Tuple[Candidate, ...]  #: least noise first
    chosen: int  #: its place among the candidates
    why: str
    warnings: Tuple[str, ...]  #: what to take care of, so that the guarantee holds
    #: Without sampling: at most this part of the chosen noise is left with sampling="any"; None: not computed. `why` has the sentence.
    sampling_would_save: Optional[float] = None
    from_file: bool = field(default=False, compare=False)  #: its words and figures are those of a file, which are not checked
    _mechanism: Optional[Mechanism] = field(default=None, repr=False, compare=False)
    _privacy: Optional[Privacy] = field(default=None, repr=False, compare=False)  #: as this process computed it

    @property
    def privacy(self) -> Privacy:
        """The mechanism's guarantee."""
        if self._privacy is not None:
            return self._privacy
        if self._mechanism is None:
            raise errors.StateError("this report has lost its mechanism, which alone has a guarantee: ask the mechanism")
        return self._mechanism.privacy()

    def statement(self, unit: Optional[str] = None) -> str:
        """The mechanism's guarantee in sentences."""
        return self.privacy.statement(unit)

    def __str__(self) -> str:
        """The table and the reason, as `dpmf design` prints them.

        It is made from the rows and not by the library, because a report that comes from a file or from pickle has rows alone.
        """
        worst = self.candidates[self.chosen].worst_ratio > 0
        head = "  %-29s %6s %8s %10s %10s %10s" % ("family", "bands", "buffers", "sigma", "RMS noise", "max noise")
        head += " %10s %8s %8s %10s %s  %s" % (
            "memory", "x i.i.d.", "normals", "x bound", "%12s" % "worst ratio" if worst else "", "eligible")
        rows = [_line(row, i == self.chosen, worst) for i, row in enumerate(self.candidates) if not row.is_search_point]
        marked = any(row.sampling != "none" and not row.is_search_point for row in self.candidates)
        note = ["  * with privacy amplified by sampling"] if marked else []
        words = ["", "Chosen:", *_wrapped(self.why)]
        if self.warnings:
            words += ["", "Before you train:", *_wrapped("\n".join(self.warnings))]
        return "\n".join([head, *rows, *note, *words]) + "\n"

    def __getstate__(self) -> Any:
        """For pickle: without the guarantee, which the mechanism has."""
        return {**self.__dict__, "from_file": True, "_mechanism": None, "_privacy": None}


def _safe(value: float, digits: int, side: int = 1) -> str:
    """`digits` digits, as %g prints them, not below the value, or with side -1 not above it."""
    shown = "%.*g" % (digits, value)
    if value == 0 or (float(shown) - value) * side >= 0:
        return shown
    return "%.*g" % (digits, float(shown) + side * 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1))


def _bytes(count: int) -> str:
    shown, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while shown >= 1024 and len(units) > 1:
        shown, units = shown / 1024, units[1:]
    return "%s %s" % (_safe(shown, 4), units[0])


def _line(row: Candidate, chosen: bool, worst: bool) -> str:
    name = row.family + (", normalized" if row.normalized else "")
    name += (", %d stamps" % row.stamps if row.stamps > 1 else "") + (" *" if row.sampling != "none" else "")
    return "%s %-29s %6s %8d %10s %10s %10s %10s %8.2f %8.3g %10s %s  %s" % (
        ">" if chosen else " ",
        name,
        row.bands or "-",
        row.buffers,
        _safe(row.sigma, 5),
        _safe(row.noise_rms, 5),
        _safe(row.noise_max, 5),
        _bytes(row.memory_bytes),
        row.overhead,
        row.normals_per_number,
        _safe(row.ratio, 7 if row.ratio < 1.01 else 5) if row.ratio > 0 else "-",
        "%12s" % _safe(row.worst_ratio, 7) if worst else "",
        "yes" if row.eligible else "no",
    )


def _wrapped(sentences: str) -> List[str]:
    """In lines of at most 110 characters after two spaces."""
    import textwrap  # used by few programs

    found: List[str] = []
    for sentence in sentences.splitlines():
        found += textwrap.wrap(sentence, 110, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
    return found


class Report(Object):
    """The library's own."""

    _free = "dpmf_design_free"

    def read(self) -> Design:
        own = self._handle
        account = c.dpmf_mechanism_account_options(c.dpmf_design_get(own).mechanism)
        return Design(
            tuple(_candidate(c.dpmf_design_candidate(own, i).contents) for i in range(c.dpmf_design_get(own).count)),
            c.dpmf_design_get(own).chosen,
            text(c.dpmf_design_get(own).why),
            tuple(text(c.dpmf_design_warning(own, i)) for i in range(c.dpmf_design_get(own).warnings)),
            c.dpmf_design_get(own).sampling_would_save or None,
            _privacy=privacy_of(c.dpmf_design_get(own).privacy, account, self),
        )


# ---- beside the mechanism's file ----


def write_beside(path: Any, digest: str, report: Design) -> None:
    """In a file that is there whole or not at all, with the digest of its mechanism."""
    import json  # 5 ms of every import of the package otherwise

    beside = os.fsdecode(path) + BESIDE
    record = {**select(FIELDS, report.__dict__), "candidates": [dataclasses.asdict(row) for row in report.candidates]}
    with open(beside + ".new", "w", encoding="utf-8") as file:
        json.dump({"mechanism": digest, "design": record}, file, indent=1)
        file.write("\n")
    os.replace(beside + ".new", beside)


def read_beside(path: Any, mechanism: Mechanism) -> Optional[Design]:
    """None: there is none, or it is another mechanism's. What it says of the chosen candidate must be true of the mechanism."""
    import json

    try:
        with open(os.fsdecode(path) + BESIDE, encoding="utf-8") as file:
            found = json.load(file)
        if found["mechanism"] != mechanism.digest:
            return None
        record = select(FIELDS, {"sampling_would_save": None, **found["design"]})
        rows = [{**row, "sensitivity": Sensitivity(**row["sensitivity"])} for row in record["candidates"]]
        record["candidates"] = tuple(Candidate(**row) for row in rows)
        report = Design(**{**record, "warnings": tuple(record["warnings"])}, from_file=True)
        _check_choice(report, mechanism)
        return report
    except FileNotFoundError:
        return None
    except (OSError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise errors.FormatError(
            "%s%s is not the report of this mechanism's design: %s" % (os.fsdecode(path), BESIDE, error)
        ) from None


def _check_choice(report: Design, mechanism: Mechanism) -> None:
    if not all(isinstance(words, str) for words in (report.why, *report.warnings)):
        raise ValueError("why and warnings are not text")
    saving = report.sampling_would_save
    if saving is not None and not (isinstance(saving, float) and 0 < saving <= 1):
        raise ValueError("sampling_would_save = %r is not a number up to 1" % (saving,))
    row = report.candidates[report.chosen]
    for name, value in (
        ("family", mechanism.family),
        ("sampling", mechanism.sampling),
        ("sigma", mechanism.sigma),
        ("sensitivity", mechanism.sensitivity),
    ):
        if getattr(row, name) != value:
            raise ValueError("its choice has %s = %s, and the mechanism %s" % (name, getattr(row, name), value))


def _candidate(row: Any) -> Candidate:
    values = {name: getattr(row, name) for name, *_ in row._fields_}
    values.update(
        family=text(row.family),
        sampling=sampling_text(row.sampling),
        normalized=bool(row.normalized),
        is_search_point=bool(row.is_search_point),
        sigma_kind=text(c.dpmf_certainty_name(row.sigma_kind)),
        sensitivity=sensitivity_of(row.sensitivity),
        eligible=bool(row.eligible),
        reason=text(row.reason),
        normals_per_number=row.normals_per_number,
        account=text(row.account),
    )
    return Candidate(**values)


def joined_names(families: Union[str, Sequence[str], None]) -> Optional[str]:
    """The families to compare as the library takes them; None: every one that applies."""
    try:
        names = families if families is None or isinstance(families, str) else ",".join(families)
    except TypeError:
        raise errors.ArgumentTypeError("families: names are accepted, one string or a sequence of them") from None
    if families is not None and not names:
        raise errors.ArgumentError("families: there are none; None compares every family that applies")
    return names


@dataclass(frozen=True)
class Turns:
    """A population of users in rounds, as steps and participation."""

    steps: int
    epochs: int
    federated: bool
    low: int
    high: int


def turns_of(users: Any, rounds: Any, per_round: Any, separation: Any) -> Turns:
    """Fixed groups in turn, or with a separation (an int or (low, high)) any users who return late enough."""
    for name, value in (("users", users), ("rounds", rounds), ("per_round", per_round)):
        if integer(value, name) < 1:
            raise errors.ArgumentError("%s = %d, accepted: 1 or more" % (name, value))
    if per_round > users:
        raise errors.ArgumentError("per_round = %d, accepted: at most %d (the users)" % (per_round, users))
    if separation is None:
        groups = min((users - 1) // per_round + 1, rounds)
        return Turns(rounds, (rounds - 1) // groups + 1, False, groups, 0)
    low, high = separation if isinstance(separation, (tuple, list)) and len(separation) == 2 else (separation, separation)
    if not 1 <= integer(low, "separation") <= integer(high, "separation") <= rounds:
        raise errors.ArgumentError("separation = %s, accepted: B or (low, high) with 1 <= low <= high <= %d (the rounds)" % (separation, rounds))
    if low > users // per_round:
        raise errors.ArgumentError(
            "separation = %s, accepted: at most %d, because %d users at %d per round have all had a turn after that"
            % (separation, users // per_round, users, per_round)
        )
    return Turns(rounds, (rounds - 1) // low + 1, True, low, high)


def design(
    steps: Optional[int] = None,
    epochs: Optional[int] = None,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    *,
    users: Optional[int] = None,
    rounds: Optional[int] = None,
    per_round: Optional[int] = None,
    separation: "Union[int, Tuple[int, int], None]" = None,
    workload: Union[str, Workload] = "prefix",
    participation: Union[str, Participation, None] = None,
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
    unit: Optional[str] = None,
    stamps: Union[int, str, None] = None,
    group: Optional[int] = None,
) -> Mechanism:
    """The best mechanism for a training run at equal privacy; `Mechanism.design` is the report.

    users, rounds, per_round    federated: in the place of steps and epochs. At most per_round of the users take part in a round,
                     in fixed groups in turn; the unit is "user"
    separation       or any users: the least number of rounds until a user returns (of two numbers the first; the second is the usual one)
    steps, epochs    of the run; federated: the participations of one user; None with a participation
    workload         what must be accurate: "prefix" for SGD, "momentum:0.9", ...
    participation    "file:PATTERNS": the patterns of steps that one unit may take part in, see Participation
    sampling         "none", or what batches may be drawn by in secret, which amplifies: "block-cyclic", "poisson",
                     "allocation", "balls-in-bins", "min-sep" (simulated: slow), "fixed" or "fixed-replace" (batches of one
                     size; `units` is required), or "any" for the others that need no simulation. With "none" the report has the noise
                     that "any" would save
    families         names of those to compare; None: every one that applies
    measure          True: time the noise of candidates here. Otherwise a cost model estimates the time per row, and the
                     same call gives the same mechanism everywhere
    dim              numbers of the model
    memory           that the noise may take, in bytes or as in "1GiB"; large models need a limit. 0: the noise keeps no row, and
                     seeds are made again (docs/noise.md); max_overhead is then 20 by default
    batch_cap        under sampling: a hard cap on batches; -1: the least that costs next to nothing
    units            with a cap or a fixed size: how many there are to draw from
    group            units that are protected together, for example the examples of one user; None: one
    unit             what the guarantee protects one of; the mechanism records it. None: "example"; federated with several
                     participations: required, for example "user"
    stamps           besides: families without bands, repeated this often; "auto": the best number for each
    max_overhead, separation_low, separation_high, tolerance    as in the library
    """
    if epsilon is None or delta is None:
        raise errors.ArgumentTypeError("design: epsilon and delta are needed")
    if not (users is None and rounds is None and per_round is None and separation is None):
        if not (steps is None and epochs is None and participation is None and sampling == "none" and units is None):
            raise errors.ArgumentError("design: steps, epochs, participation, sampling and units follow from users, rounds and per_round")
        if federated or separation_low is not None or separation_high is not None:
            raise errors.ArgumentError("design: federated, separation_low and separation_high follow from separation")
        turns = turns_of(users, rounds, per_round, separation)
        steps, epochs, federated = turns.steps, turns.epochs, turns.federated
        separation_low, separation_high = turns.low, turns.high
        unit = "user" if unit is None else unit
    if steps is None:
        raise errors.ArgumentTypeError("design: steps is needed, or users, rounds and per_round")
    made = workload if isinstance(workload, Workload) else Workload(workload, integer(steps, "steps"))
    if integer(steps, "steps") != made.steps:
        raise errors.ArgumentError("steps = %d, and the workload has %d" % (steps, made.steps))
    if (epochs is None) == (participation is None):
        raise errors.ArgumentError("design: one of epochs and participation is needed, not both")
    if participation is not None and not isinstance(participation, Participation):
        participation = Participation(participation, made.steps)
    names = joined_names(families)
    precision = {"float32": abi.dpmf_precision.DPMF_FLOAT32, "float64": abi.dpmf_precision.DPMF_FLOAT64}
    if not isinstance(dtype, str) or dtype not in precision:
        raise errors.ArgumentError("dtype = %s, accepted: float32, float64" % dtype)
    with run_options(threads, progress) as run:
        wanted = struct_of(
            "dpmf_design_options_defaults",
            epochs=epochs,
            participation=None if participation is None else participation._handle,
            epsilon=epsilon,
            delta=delta,
            sampling=choice(abi.dpmf_sampling_kind, "none" if sampling == "any" else sampling, "sampling"),
            any_sampling=int(sampling == "any"),
            families=encode_text(names, "families", optional=True),
            loss=Loss(loss).kind,
            loss_power=Loss(loss).power,
            adjacency=parse("dpmf_adjacency_parse", ctypes.c_int, adjacency, "adjacency").value,
            precision=precision[dtype],
            federated=flag(federated, "federated"),
            measure=flag(measure, "measure"),
            run=run,
            dim=dim,
            memory=memory_limit(memory),
            max_overhead=max_overhead,
            separation_low=separation_low,
            separation_high=separation_high,
            stamps=stamps_number(stamps),
            tolerance=tolerance,
            batch_cap=batch_cap,
            units=units,
            group=group,
            unit=encode_text(unit, "unit", optional=True),
        )
        report = Report(handle("dpmf_design_create", Report._free, made._handle, ctypes.byref(wanted)))
    return Mechanism(c.dpmf_design_get(report._handle).mechanism, owner=report, design=report.read())

# SPDX-License-Identifier: Apache-2.0
"""Mechanisms, their figures and what may be asked about them."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import numpy as np

from . import errors
from ._library import abi, c, choice, doubles, encode_text, handle, integer, real, run_options, select, struct_of, text, whole_numbers
from ._object import Object
from .files import Filed
from .figures import Certificate, Check, LowerBound, Sensitivity, Verification
from .privacy import Privacy, Scope, account, account_options, privacy_of, sampling_of, sampling_text
from .problem import Participation, Strategy, Workload
from .display import Display

if TYPE_CHECKING:
    from .design import Design
    from .noise import NoiseStream

__all__ = [
    "Mechanism",
    "Sensitivity",
    "LowerBound",
    "Certificate",
    "Check",
    "Verification",
]

Progress = Optional[Callable[[str, float], Any]]

FIRST = "All noisy outputs of the first %d of %d steps together - every intermediate model or sum of them, not only the last - are"
FIRST_IF = (
    "This holds if that end was fixed before the run, or depends on nothing but public things, and nothing of a step after the first %d "
    "is released. If the end was chosen by looking at the data or at what was released, the guarantee is that of the whole run.\n"
)
FIRST_CHANGES = ((r" x (sensitivity|largest column norm of C)", r" x \1 of these steps"),)


class Mechanism(Display, Filed, Object):
    """A strategy with its sigma and everything that its figures assumed: made by `design`, `optimize`, `evaluate` or `load`.

    `certificate` has the outcome of the search of `optimize`; None for others.

    >>> from dpmf import evaluate
    >>> m = evaluate("toeplitz", 100, epsilon=1.0, delta=1e-6)
    >>> m
    Mechanism('toeplitz', steps=100, workload='prefix', participation='single', sigma=4.224679, epsilon=1, delta=1e-06)
    >>> m.sensitivity.kind, round(m.ratio, 4)
    ('exact', 1.0605)
    """

    _free = "dpmf_mechanism_free"

    def __init__(
        self, made: Any, owner: Any = None, certificate: Optional[Certificate] = None, design: "Optional[Design]" = None
    ):
        super().__init__(made, owner)
        self.certificate = certificate
        self._report = design
        self._confirmed = True  # this process made it; the claims of files and bytes are not trusted: from_bytes, load

    @property
    def design(self) -> "Optional[Design]":
        """The report of `design`; None where there is none."""
        return None if self._report is None else dataclasses.replace(self._report, _mechanism=self)

    # ---- what it is ----

    @property
    def strategy(self) -> Strategy:
        return Strategy._of(c.dpmf_mechanism_get(self._handle).strategy, self)

    @property
    def steps(self) -> int:
        return self.strategy.steps

    @property
    def family(self) -> str:
        return self.strategy.family

    @property
    def bands(self) -> int:
        return self.strategy.bands

    @property
    def buffers(self) -> int:
        return self.strategy.buffers

    @property
    def workload(self) -> Workload:
        return _borrow(Workload, c.dpmf_mechanism_get(self._handle).workload, self)

    @property
    def participation(self) -> Participation:
        return _borrow(Participation, c.dpmf_mechanism_get(self._handle).participation, self)

    @property
    def weights(self) -> Optional[np.ndarray]:
        pointer = c.dpmf_mechanism_get(self._handle).weights
        return np.array(pointer[: self.steps]) if pointer else None

    @property
    def adjacency(self) -> str:
        return text(c.dpmf_adjacency_name(c.dpmf_mechanism_get(self._handle).adjacency))

    @property
    def sampling(self) -> str:
        """How batches must be drawn for the guarantee to hold; "none": as in the participation."""
        return sampling_text(c.dpmf_mechanism_get(self._handle).sampling)

    @property
    def unit(self) -> Optional[str]:
        """What the guarantee protects one of: "example", "user"; None: not recorded."""
        return text(c.dpmf_mechanism_get(self._handle).unit)

    @property
    def made_by(self) -> Optional[str]:
        return text(c.dpmf_mechanism_get(self._handle).made_by)

    @property
    def digest(self) -> str:
        """SHA-256 over every figure and coefficient."""
        return text(c.dpmf_mechanism_get(self._handle).digest)

    # ---- its figures ----

    @property
    def _evaluation(self) -> Any:
        return c.dpmf_mechanism_get(self._handle).evaluation

    @property
    def sensitivity(self) -> Sensitivity:
        return sensitivity_of(self._evaluation.sensitivity)

    @property
    def rms_loss(self) -> float:
        return self._evaluation.rms_loss

    @property
    def max_loss(self) -> float:
        return self._evaluation.max_loss

    @property
    def loss(self) -> Optional[float]:
        """The loss that was asked for when it was evaluated; None: it is from a file or a design."""
        return self._evaluation.loss or None

    @property
    def total_squared_loss(self) -> float:
        return self._evaluation.total_squared_loss

    @property
    def lower_bound(self) -> LowerBound:
        bound = self._evaluation.lower_bound
        return LowerBound(bound.rms_loss or None, bound.max_loss or None, text(bound.scope))

    @property
    def ratio(self) -> Optional[float]:
        """RMS loss over the proven lower bound; None where none is known."""
        bound = self.lower_bound.rms_loss
        return None if bound is None else self.rms_loss / bound

    @property
    def sigma(self) -> Optional[float]:
        """The noise multiplier; None: not calibrated."""
        return c.dpmf_mechanism_get(self._handle).sigma or None

    @property
    def epsilon(self) -> Optional[float]:
        """The guarantee that sigma was calibrated for; None: none is claimed.

        A file's claim is computed again first (confirm).
        """
        self.confirm()
        return c.dpmf_mechanism_get(self._handle).epsilon or None

    @property
    def delta(self) -> Optional[float]:
        return c.dpmf_mechanism_get(self._handle).delta or None

    @property
    def per_step_error(self) -> np.ndarray:
        """The standard deviation of every step's answer for clip norm 1: sigma x sensitivity x |B[t,:]| (sigma 1 if none)."""
        out = np.empty(self.steps)
        with run_options() as run:
            c.dpmf_error_compute(
                c.dpmf_mechanism_get(self._handle).workload,
                c.dpmf_mechanism_get(self._handle).strategy,
                ctypes.byref(run),
                doubles(out),
            )
        return out * self.sensitivity.value * (self.sigma or 1.0)

    def confirm(self, threads: int = 0, progress: Progress = None) -> None:
        """Raises unless it keeps what it claims: a file's sensitivity and epsilon are computed from its coefficients.

        A digest proves that a file is complete, not that it is true: anybody who changes a file can compute a new digest. All that
        rely on a guarantee (privacy, epsilon, noise, dpmf.torch, dpmf.opacus, Counter) ask this first. The answer is kept,
        and a mechanism that this process made needs none.
        """
        if not self._confirmed:
            with run_options(threads, progress) as run:
                c.dpmf_mechanism_confirm(self._handle, ctypes.byref(run), None)
            self._confirmed = True

    def privacy(self, delta: Optional[float] = None, **options: Any) -> Privacy:
        """The guarantee of the whole run, computed again; delta is the mechanism's own unless given."""
        self.confirm()
        if delta is None:
            delta = self.delta
        if delta is None:
            raise errors.ArgumentError("delta: the mechanism claims no guarantee to take it from")
        return account(of=self, delta=delta, **options)

    def calibrate(
        self,
        epsilon: float,
        delta: float,
        sampling: Optional[str] = None,
        unit: Optional[str] = None,
        threads: int = 0,
        progress: Progress = None,
    ) -> "Mechanism":
        """The same mechanism with the least sigma for (epsilon, delta); with `sampling` for batches that are drawn so.

        `unit` is recorded where the mechanism records none yet.

        >>> from dpmf import evaluate
        >>> m = evaluate("bsr", 64, bands=4).calibrate(8.0, 1e-6, sampling="block-cyclic:0.0625,4")
        >>> m.epsilon, m.sampling, round(m.sigma, 3)
        (8.0, 'block-cyclic:0.0625,4', 1.031)
        """
        drawn = None if sampling is None else ctypes.byref(sampling_of(sampling))
        out = abi.FUNCTIONS[self._free][1][0]()
        with run_options(threads, progress) as run:
            c.dpmf_mechanism_calibrate(
                self._handle,
                real(epsilon, "epsilon"),
                real(delta, "delta"),
                drawn,
                encode_text(unit, "unit", optional=True),
                ctypes.byref(run),
                ctypes.byref(out),
                None,
            )
        return Mechanism(out)

    def first(self, steps: int, delta: Optional[float] = None, threads: int = 0) -> Privacy:
        """The guarantee of the first `steps` steps alone, for an end that was fixed before the run.

        If you looked at what was released, or at the data, to decide when to stop, state the epsilon of the whole run:
        it covers every way of stopping.

        >>> from dpmf import evaluate
        >>> m = evaluate("toeplitz", 64, epsilon=1.0, delta=1e-6)
        >>> round(m.first(20).epsilon, 4), round(m.first(64).epsilon, 4)
        (0.9126, 1.0)
        """
        self.confirm()
        delta = self.delta if delta is None else delta
        if delta is None:
            raise errors.ArgumentError("delta: the mechanism claims no guarantee to take it from")
        steps = integer(steps, "steps")
        sigma, options, found = ctypes.c_double(), c.dpmf_account_options_defaults(), abi.dpmf_privacy()
        with run_options(threads) as run:
            c.dpmf_mechanism_account_first(
                self._handle, steps, ctypes.byref(run), ctypes.byref(sigma), ctypes.byref(options)
            )
            options.run = run
            c.dpmf_account_epsilon(sigma.value, real(delta, "delta"), ctypes.byref(options), ctypes.byref(found))
        if steps == self.steps:
            return privacy_of(found, options, self)
        changes = FIRST_CHANGES + (((r"^The run is ", "These steps are "),) if found.total_rho > 0 else ())
        return privacy_of(found, options, self, Scope(FIRST % (steps, self.steps), FIRST_IF % steps, changes))

    def verify(self, threads: int = 0, progress: Progress = None) -> Verification:
        """Everything that it claims, computed again by another route where there is one."""
        with run_options(threads, progress) as run:
            source = abi.dpmf_verify_source(mechanism=ctypes.cast(self._handle, ctypes.POINTER(abi.dpmf_mechanism)))
            found = handle("dpmf_verify", "dpmf_verification_free", ctypes.byref(source), ctypes.byref(run))
        try:
            rows = [c.dpmf_verification_check(found, i).contents for i in range(c.dpmf_verification_get(found).count)]
            checks = tuple(
                Check(text(r.name), None if r.ok < 0 else bool(r.ok), r.claimed, r.found, r.tolerance, text(r.how))
                for r in rows
            )
            return Verification(bool(c.dpmf_verification_get(found).ok), checks)
        finally:
            c.dpmf_verification_free(found)

    def observed_sensitivity(
        self, units: "np.typing.ArrayLike", steps: "np.typing.ArrayLike"
    ) -> "tuple[Sensitivity, int]":
        """(sensitivity of the actual run, the unit that has it), from a log of who (unit) took part when (step).

        >>> from dpmf import evaluate
        >>> m = evaluate("identity", 10, participation="cyclic:2,5")
        >>> found, unit = m.observed_sensitivity(units=[7, 8, 7], steps=[0, 1, 5])
        >>> found.value <= m.sensitivity.value, unit
        (True, 7)
        """
        found, worst = self._observed(units, steps)
        return sensitivity_of(found), worst

    def joint_sensitivity(self, weight: float, squares: "Optional[Mechanism]" = None) -> Sensitivity:
        """The sensitivity of contributions of norm at most 1 and, through `squares` (None: this mechanism again), sqrt(weight) times the
        squares of their coordinates (Kalinin et al. 2025): both together, each with its own noise of one deviation; rounded up.

        >>> from dpmf import evaluate
        >>> m = evaluate("identity", 10, participation="cyclic:2,5", adjacency="replace-one")
        >>> round(m.joint_sensitivity(0.5).value / m.sensitivity.value, 9), round(m.joint_sensitivity(1.0).value / m.sensitivity.value, 9)
        (1.0, 1.060660172)
        """
        found = abi.dpmf_sensitivity()
        with run_options() as run:
            options = struct_of("dpmf_evaluate_options_defaults", run=run)
            options.adjacency = c.dpmf_mechanism_get(self._handle).adjacency
            options.squares = real(weight, "weight")
            if squares is not None:
                options.squares_of = c.dpmf_mechanism_get(squares._handle).strategy
            c.dpmf_sensitivity_compute(
                c.dpmf_mechanism_get(self._handle).strategy, self.participation._handle, ctypes.byref(options), ctypes.byref(found)
            )
        return sensitivity_of(found)

    def _observed(self, units: "np.typing.ArrayLike", steps: "np.typing.ArrayLike") -> "tuple[Any, int]":
        pairs = [whole_numbers(values, name).reshape(-1) for values, name in ((units, "units"), (steps, "steps"))]
        if len(pairs[0]) != len(pairs[1]):
            raise errors.ArgumentError("%d units and %d steps: pairs are accepted" % (len(pairs[0]), len(pairs[1])))
        found, worst = abi.dpmf_sensitivity(), ctypes.c_int64()
        unit, step = (values.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)) for values in pairs)
        with run_options() as run:
            options = struct_of("dpmf_evaluate_options_defaults", run=run)
            options.adjacency = c.dpmf_mechanism_get(self._handle).adjacency
            options.columns = self.sensitivity.columns or 0
            strategy = c.dpmf_mechanism_get(self._handle).strategy
            c.dpmf_sensitivity_observed(
                strategy, len(pairs[0]), unit, step, ctypes.byref(options), ctypes.byref(found), ctypes.byref(worst)
            )
        return found, worst.value

    def observed_privacy(
        self, units: "np.typing.ArrayLike", steps: "np.typing.ArrayLike", delta: Optional[float] = None
    ) -> Privacy:
        """The guarantee of the actual run, from a log of who (unit) took part when (step).

        The noise is fixed; how far a unit could move the run follows from its own steps. So sigma becomes sigma x
        (the sensitivity that was designed for) / (the one that was observed), and nothing is claimed for sampling.

        >>> from dpmf import evaluate
        >>> m = evaluate("identity", 10, participation="cyclic:2,5", epsilon=1.0, delta=1e-6)
        >>> round(m.observed_privacy(units=[7, 7], steps=[0, 5]).epsilon, 6)
        1.0
        >>> m.observed_privacy(units=[7, 7, 7], steps=[0, 1, 5]).epsilon > 1.2
        True
        """
        self.confirm()
        delta = self.delta if delta is None else delta
        if delta is None or self.sigma is None:
            raise errors.ArgumentError("delta, sigma: the mechanism claims no guarantee to take them from")
        found, _ = self._observed(units, steps)
        return self._with_sensitivity(found, delta, None)

    def privacy_under(self, participation: str, delta: Optional[float] = None) -> Privacy:
        """The guarantee of the same noise, if units take part otherwise than the design assumed; nothing is claimed for sampling.

        >>> from dpmf import evaluate
        >>> m = evaluate("toeplitz", 12, participation="cyclic:3,4", epsilon=2.0, delta=1e-5)
        >>> round(m.privacy_under("cyclic:3,4").epsilon, 4), round(m.privacy_under("shuffled:3,4").epsilon, 4)
        (2.0, 2.1105)
        """
        self.confirm()
        delta = self.delta if delta is None else delta
        if delta is None or self.sigma is None:
            raise errors.ArgumentError("delta, sigma: the mechanism claims no guarantee to take them from")
        found, taken = abi.dpmf_sensitivity(), Participation(participation, self.steps)
        with run_options() as run:
            options = struct_of("dpmf_evaluate_options_defaults", run=run)
            options.adjacency = c.dpmf_mechanism_get(self._handle).adjacency
            options.columns = self.sensitivity.columns or 0
            c.dpmf_sensitivity_compute(
                c.dpmf_mechanism_get(self._handle).strategy, taken._handle, ctypes.byref(options), ctypes.byref(found)
            )
        return self._with_sensitivity(found, delta, taken)

    def _with_sensitivity(self, sensitivity: Any, delta: float, taken: Optional[Participation]) -> Privacy:
        """The guarantee of the same noise at another sensitivity, of this participation (None: of a log), under the same adjacency."""
        sigma, found = (self.sigma or 0.0) * self.sensitivity.value / sensitivity.value, abi.dpmf_privacy()
        replaced = self.adjacency == "replace-one"  # its sensitivity is twice the zero-out one, in the claim and here
        options = account_options(adjacency="replace-one", sigma_unit=2.0) if replaced else account_options()
        options.covered = c.dpmf_mechanism_account_options(self._handle).covered
        options.covered.sensitivity = sensitivity
        if taken is None:
            options.covered.participation.text = None
        else:
            options.covered.participation = c.dpmf_participation_get(taken._handle)
        with run_options() as run:
            options.run = run
            c.dpmf_account_epsilon(sigma, real(delta, "delta"), ctypes.byref(options), ctypes.byref(found))
        return privacy_of(found, options, (self, taken))

    # ---- noise ----

    def noise(
        self,
        shapes: Any,
        clip_norm: float,
        key: Any = None,
        *,
        dtype: str = "float32",
        offset: int = 0,
        count: Optional[int] = None,
        state: Any = None,
        replay: bool = False,
        whole_state: bool = False,
        salt: Optional[bytes] = None,
        state_now: bool = False,
        label: Optional[str] = None,
        prefetch: bool = False,
        lookahead: int = 0,
        memory: Union[int, str, None] = None,
        scratch: Any = None,
        threads: int = 0,
        uncalibrated: bool = False,
    ) -> "NoiseStream":
        """The stream of rows that a run adds; the options are those of NoiseStream."""
        given = locals()
        from .noise import SHARD, STREAM, NoiseStream

        return NoiseStream(self, shapes, clip_norm, key, memory=memory, **select(SHARD + STREAM, given))

    def noise_memory(self, dim: int, dtype: str = "float32") -> "tuple[int, int]":
        """(bytes that a stream of `dim` numbers takes, those of its buffers among them).

        >>> from dpmf import evaluate
        >>> evaluate("bsr", 64, bands=4).noise_memory(1000)[1] >= 3 * 1000 * 4
        True
        """
        dim = integer(dim, "dim")
        options = c.dpmf_noise_options_defaults()
        options.precision = choice(abi.dpmf_precision, dtype, "dtype")
        total, buffers = ctypes.c_uint64(), ctypes.c_uint64()
        c.dpmf_noise_memory(self._handle, dim, ctypes.byref(options), ctypes.byref(total), ctypes.byref(buffers))
        return total.value, buffers.value

    def __repr__(self) -> str:
        sigma = "" if self.sigma is None else ", sigma=%.7g" % self.sigma
        epsilon, delta = c.dpmf_mechanism_get(self._handle).epsilon, self.delta
        claim = ", epsilon=%.7g, delta=%.7g" % (epsilon, delta) if epsilon and delta else ""
        if claim and not self._confirmed:
            claim += " (claimed by a file, not confirmed)"
        sampling = "" if self.sampling == "none" else ", sampling=%r" % self.sampling
        return "Mechanism(%r, steps=%d, workload=%r, participation=%r%s%s%s)" % (
            self.family,
            self.steps,
            self.workload.text,
            self.participation.text,
            sampling,
            sigma,
            claim,
        )


def sensitivity_of(struct: Any) -> Sensitivity:
    of = abi.dpmf_sensitivity_scope(struct.of).name.rsplit("_", 1)[1].lower()
    kind = text(c.dpmf_certainty_name(struct.kind))
    return Sensitivity(struct.value, kind, of, text(struct.method), struct.columns or None)


def _borrow(kind: Any, pointer: Any, owner: Any) -> Any:
    made = kind.__new__(kind)
    Object.__init__(made, pointer, owner)
    return made

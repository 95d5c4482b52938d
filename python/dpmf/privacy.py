# SPDX-License-Identifier: Apache-2.0
"""(epsilon, delta) from sigma, and sigma from (epsilon, delta)."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple, Union

from . import errors
from ._library import abi, c, encode_text, flag, integer, real, run_options, select, set_field, text

if TYPE_CHECKING:
    from .mechanism import Mechanism
    from .problem import Strategy

__all__ = ["Privacy", "account", "best_of", "calibrate"]

#: In the place of the unit's name, in sentences that are kept: a name that the library accepts, and that no unit has.
UNIT = "NameOfTheUnit"
#: Options of an account that both directions take.
ACCOUNT = (
    "sampling",
    "steps",
    "adjacency",
    "engine",
    "slack",
    "confidence",
    "unconditional",
    "warm",
    "samples",
    "seed",
    "epochs",
    "batch_cap",
    "units",
    "group",
)


@dataclass(frozen=True)
class Privacy:
    """A guarantee, and what kind of figure it is.

    `protected` has the facts of its statement: unit, participation (most_participations, separation), clip, steps_done,
    steps_designed, family, correlated, sensitivity, digest; None where they are not known.
    """

    epsilon: float
    delta: float
    sigma: float
    kind: str
    method: str
    confidence: float
    compositions: int
    probability: float
    mu: float
    rho: float
    total_mu: float
    total_rho: float
    slack_met: bool
    without_sampling: float
    protected: "Dict[str, Any]"
    _struct: Any = field(repr=False, compare=False, default=None)
    _options: Any = field(repr=False, compare=False, default=None)
    _keep: Any = field(repr=False, compare=False, default=None)

    _said: Any = field(repr=False, compare=False, default=None)
    _scope: "Optional[Scope]" = field(repr=False, compare=False, default=None)

    def statement(self, unit: Optional[str] = None) -> str:
        """The guarantee in sentences: who is protected (how often, how far apart, with how much), and by which mechanism.

        The unit is the one that the mechanism records. Another name is refused; where none is recorded, `unit` names it, in
        letters, and the statement says that this is the caller's word.
        """
        recorded = self.protected["unit"]
        if unit is not None and recorded not in (None, unit_name(unit)):
            raise errors.ArgumentError(
                "unit = %r: the mechanism protects one %s, and records that; design one for another unit" % (unit, recorded)
            )
        return self._sentences(unit if recorded is None else recorded)

    def _sentences(self, unit: Optional[str], **facts: Any) -> str:
        """`facts`: what a run knows besides, as fields of the library's dpmf_coverage."""
        if self._struct is None:
            return self._said[unit is None].replace(UNIT, unit or "")
        options = type(self._options).from_buffer_copy(self._options)
        options.covered.unit = encode_text(unit, "unit", optional=True)
        options.covered.unit_named = int(unit is not None and self.protected["unit"] is None)
        for name, value in facts.items():
            setattr(options.covered, name, value)
        said = read_text(c.dpmf_privacy_statement, ctypes.byref(self._struct), ctypes.byref(options))
        return said if self._scope is None else self._scope.put(said)

    def __getstate__(self) -> Any:
        """For pickle: the sentences in the place of what the library computes them from, with a unit's name and without."""
        said = self._sentences(UNIT), self._sentences(None)
        return {**self.__dict__, "_said": said, "_struct": None, "_options": None, "_keep": None, "_scope": None}


@dataclass(frozen=True)
class Scope:
    """What a guarantee covers, where that is not all outputs of a whole run, in the words of its statement."""

    released: Optional[str]  #: what is private; None: all outputs of the run
    condition: str  #: sentences about what that rests on; "": none
    changes: "Tuple[Tuple[str, str], ...]" = ()  #: other parts of the statement: (regular expression, words in its place)

    def put(self, said: str) -> str:
        """The library's statement with these words in it. A part that is not found is an error, never a false sentence."""
        first, claim, rest = said.partition(CLAIM)
        line, _, rest = rest.partition("\n")
        if not first.startswith("All noisy outputs of the run together") or not claim:
            raise errors.Error("the library's statement begins otherwise than this package knows: %s" % said)
        for part, words in self.changes:
            rest, found = re.subn(part, words, rest, count=1, flags=re.MULTILINE)
            if not found:
                raise errors.Error("the library's statement has no %r: %s" % (part, said))
        return (self.released or first) + claim + line + "\n" + self.condition + rest


#: Parts of the library's statement.
CLAIM = " (epsilon, delta)-differentially private with "
NO_SAMPLING = r"^No secret sampling is assumed: .*$"
TUNING = "hyper-parameters chosen on the same data are not accounted for"


def unit_name(unit: str) -> str:
    """A word, or a few, of letters: a statement is read as a whole, and must not get sentences from its caller."""
    encode_text(unit, "unit")
    if len(unit) > 40 or re.fullmatch(r"[A-Za-z]+(?:[ -][A-Za-z]+)*", unit) is None:
        raise errors.ArgumentError(
            "unit = %r, accepted: up to 40 letters from A to Z, in words with a space or hyphen between, for example user" % unit
        )
    return unit


def read_text(function: Any, *arguments: Any) -> str:
    """What a function writes in the manner of snprintf."""
    size = function(*arguments, None, 0)
    out = ctypes.create_string_buffer(size + 1)
    function(*arguments, out, size + 1)
    return text(out.value)


def protected_by(options: Any) -> "Dict[str, Any]":
    """Who is protected, and by which mechanism, as the library's statement says it."""
    covered = options.covered
    taken, known = covered.participation, covered.family is not None
    fixed = known and taken.text is not None and bool(c.dpmf_sampling_is_none(ctypes.byref(options.sampling)))
    return {
        "unit": text(covered.unit),
        "participation": text(taken.text) if fixed else None,
        "most_participations": taken.count if fixed else None,
        "separation": taken.separation if fixed else None,
        "clip": covered.clip or None,
        "steps_done": covered.done if covered.done >= 0 else None,
        "steps_designed": taken.steps if known else None,
        "family": text(covered.family),
        "correlated": bool(covered.correlated) if known else None,
        "sensitivity": covered.sensitivity.value or None,
        "columns": covered.sensitivity.columns or None,
        "digest": text(covered.digest) or None,
    }


def privacy_of(struct: Any, options: Any, keep: Any = None, scope: Optional[Scope] = None) -> Privacy:
    # The run of the caller is over: its callback must not be called for a statement.
    options.run = c.dpmf_run_defaults()
    values = {name: getattr(struct, name) for name, *_ in struct._fields_}
    values["kind"] = text(c.dpmf_certainty_name(struct.kind))
    values["method"] = text(struct.method)
    values["slack_met"] = bool(struct.slack_met)
    values["protected"] = protected_by(options)
    return Privacy(**values, _struct=struct, _options=options, _keep=keep, _scope=scope)


def parse(function: str, kind: Any, value: str, name: str) -> Any:
    out = kind()
    getattr(c, function)(encode_text(value, name), ctypes.byref(out))
    return out


def sampling_of(value: str) -> Any:
    return parse("dpmf_sampling_parse", abi.dpmf_sampling, value, "sampling")


def sampling_text(sampling: Any) -> str:
    out = ctypes.create_string_buffer(64)
    c.dpmf_sampling_format(ctypes.byref(sampling), out)
    return text(out.value)


def check_of(of: Any, optional: bool = True) -> None:
    from .mechanism import Mechanism
    from .problem import Strategy

    if not (of is None and optional) and not isinstance(of, (Mechanism, Strategy)):
        raise errors.ArgumentTypeError("of is a %s, a dpmf.Mechanism or a dpmf.Strategy is accepted" % type(of).__name__)


def account_options(
    of: "Union[Mechanism, Strategy, None]" = None,
    *,
    sampling: Optional[str] = None,
    steps: Optional[int] = None,
    adjacency: Optional[str] = None,
    engine: Optional[str] = None,
    **more: Any,
) -> Any:
    """The library's options: those of a mechanism, where one is given, and what else is given."""
    from .mechanism import Mechanism

    check_of(of)
    if isinstance(of, Mechanism):
        if sampling is not None or adjacency is not None:
            raise errors.ArgumentError("sampling, adjacency: the mechanism has them")
        options = c.dpmf_mechanism_account_options(of._handle)
    else:
        options = c.dpmf_account_options_defaults()
        if of is not None:
            options.strategy = of._handle
    if sampling is not None:
        options.sampling = sampling_of(sampling)
    if adjacency is not None:
        options.adjacency = parse("dpmf_adjacency_parse", ctypes.c_int, adjacency, "adjacency").value
    if engine is not None:
        options.engine = parse("dpmf_engine_parse", ctypes.c_int, engine, "engine").value
    fields = dict(field[:2] for field in options._fields_)
    if steps is not None and integer(steps, "steps") < 1:
        raise errors.ArgumentError("steps = %d, accepted: 1 or more" % steps)
    for name, value in {"compositions": steps, **more}.items():
        if name not in fields:
            raise TypeError("%r is not an option: sampling, steps, adjacency, engine, %s are" % (name, ", ".join(ACCOUNT[4:])))
        if value is not None:
            set_field(options, name, value, fields[name])
    return options


def _ask(function: str, first: float, second: float, of: Any, threads: int, progress: Any, more: Any) -> Privacy:
    options, out = account_options(of, **more), abi.dpmf_privacy()
    with run_options(threads, progress) as run:
        options.run = run
        getattr(c, function)(first, second, ctypes.byref(options), ctypes.byref(out))
    return privacy_of(out, options, of)


def account(
    sigma: Optional[float] = None,
    *,
    delta: Optional[float] = None,
    epsilon: Optional[float] = None,
    of: "Union[Mechanism, Strategy, None]" = None,
    threads: int = 0,
    sampling: Optional[str] = None,
    steps: Optional[int] = None,
    adjacency: Optional[str] = None,
    engine: Optional[str] = None,
    slack: Optional[float] = None,
    confidence: Optional[float] = None,
    unconditional: Optional[bool] = None,
    warm: Optional[bool] = None,
    samples: Optional[int] = None,
    seed: Optional[int] = None,
    epochs: Optional[int] = None,
    batch_cap: Optional[int] = None,
    units: Optional[int] = None,
    group: Optional[int] = None,
    rho: Optional[float] = None,
    gaussian: bool = False,
    progress: Optional[Callable[[str, float], Any]] = None,
) -> Privacy:
    """epsilon at delta, delta at epsilon, or the least sigma for both: the one of sigma, epsilon and delta that is not given.

    With rho in the place of sigma: epsilon at delta of a rho-zCDP mechanism, an upper bound, or exactly if the mechanism is
    known to be gaussian; of `steps` such mechanisms. Other options do not go with it.

    `of` is a mechanism (its sigma, sampling, steps and adjacency are taken) or a strategy. Options: sampling ("none",
    "poisson:Q", "block-cyclic:Q,B", "balls-in-bins:B", "min-sep:P,B", "allocation:K,T", "fixed:M,N", "fixed-replace:M,N"), steps,
    adjacency, engine, slack, confidence, unconditional, warm, samples, seed; epochs of an allocation; batch_cap and units of
    capped batches; group: units that are protected together, for example the examples of one user.

    poisson of a mechanism or strategy of several bands without negative entries has a bound of its own.

    >>> account(2.0, delta=1e-6).kind
    'exact'
    >>> round(account(1.0, delta=1e-5, sampling="poisson:0.01", steps=1000).epsilon, 2)
    1.83
    >>> round(account(epsilon=1.0, delta=1e-6).sigma, 4)
    4.2247
    >>> round(account(4.0, delta=1e-6, group=2).epsilon, 4) == round(account(2.0, delta=1e-6).epsilon, 4)
    True
    """
    options = select(ACCOUNT, locals())
    from .mechanism import Mechanism

    check_of(of)

    if rho is not None:
        return _zcdp(rho, delta, gaussian, steps, {"sigma": sigma, "epsilon": epsilon, "of": of, **options, "steps": None})
    if sigma is None and epsilon is not None and delta is not None:
        return calibrate(epsilon, delta, of=of, threads=threads, progress=progress, **options)
    if sigma is None:
        if not isinstance(of, Mechanism) or of.sigma is None:
            raise errors.ArgumentError("sigma: it is not given, and there is no calibrated mechanism to take it from")
        sigma = of.sigma
    if (delta is None) == (epsilon is None):
        raise errors.ArgumentError("two of sigma, epsilon and delta are accepted; a calibrated mechanism has a sigma")
    sigma = real(sigma, "sigma")
    if delta is not None:
        return _ask("dpmf_account_epsilon", sigma, real(delta, "delta"), of, threads, progress, options)
    return _ask("dpmf_account_delta", sigma, real(epsilon, "epsilon"), of, threads, progress, options)


def _zcdp(rho: float, delta: Optional[float], gaussian: bool, steps: Optional[int], others: Any) -> Privacy:
    given = sorted(name for name, value in others.items() if value is not None)
    if given or delta is None:
        raise errors.ArgumentError("rho goes with delta, gaussian and steps alone; given: %s" % (", ".join(given) or "no delta"))
    out = abi.dpmf_privacy()
    c.dpmf_account_zcdp(
        real(rho, "rho"),
        real(delta, "delta"),
        flag(gaussian, "gaussian"),
        1 if steps is None else integer(steps, "steps"),
        ctypes.byref(out),
    )
    return privacy_of(out, c.dpmf_account_options_defaults())


def calibrate(
    epsilon: float,
    delta: float,
    *,
    of: "Union[Mechanism, Strategy, None]" = None,
    threads: int = 0,
    sampling: Optional[str] = None,
    steps: Optional[int] = None,
    adjacency: Optional[str] = None,
    engine: Optional[str] = None,
    slack: Optional[float] = None,
    confidence: Optional[float] = None,
    unconditional: Optional[bool] = None,
    warm: Optional[bool] = None,
    samples: Optional[int] = None,
    seed: Optional[int] = None,
    epochs: Optional[int] = None,
    batch_cap: Optional[int] = None,
    units: Optional[int] = None,
    group: Optional[int] = None,
    progress: Optional[Callable[[str, float], Any]] = None,
) -> Privacy:
    """The least sigma for (epsilon, delta); options as in `account`.

    >>> round(calibrate(1.0, 1e-6).sigma, 4)
    4.2247
    """
    options = select(ACCOUNT, locals())
    return _ask("dpmf_calibrate_sigma", real(epsilon, "epsilon"), real(delta, "delta"), of, threads, progress, options)


BEST = "The settings and all noisy outputs of the best of a random number of runs (%s) - nothing of the other runs - are together"
BEST_IF = (
    "This covers the best run alone: the outputs and scores of the other runs, and the number of runs, must not be released. It holds "
    "if the number of runs is drawn from this law, the settings of each are drawn at random from one list that does not depend on the "
    "data, and the best is chosen by what the runs released or by other data.\n"
)
BEST_TUNING = "the choice among these settings is accounted for, other choices on the same data are not"


def best_of(
    tuning: str,
    sigma: Optional[float] = None,
    *,
    delta: float,
    of: "Union[Mechanism, Strategy, None]" = None,
    threads: int = 0,
    sampling: Optional[str] = None,
    steps: Optional[int] = None,
    adjacency: Optional[str] = None,
    progress: Optional[Callable[[str, float], Any]] = None,
) -> Privacy:
    """epsilon at delta of the best of a random number of runs, drawn from the law `tuning`; the rest as in `account`.

    "poisson:MEAN" or "negative-binomial:ETA,GAMMA" (Papernot and Steinke 2022). The settings of every run are drawn at
    random from one list that does not depend on the data, and nothing but the best is released; its statement says so.

    >>> sigma = calibrate(1.0, 1e-6).sigma
    >>> round(best_of("negative-binomial:1,0.1", sigma, delta=1e-6).epsilon, 3)
    2.15
    """
    from .mechanism import Mechanism

    check_of(of)
    if sigma is None:
        if not isinstance(of, Mechanism) or of.sigma is None:
            raise errors.ArgumentError("sigma: it is not given, and there is no calibrated mechanism to take it from")
        of.confirm()
        sigma = of.sigma
    law = parse("dpmf_tuning_parse", abi.dpmf_tuning, tuning, "tuning")
    given, out = account_options(of, sampling=sampling, steps=steps, adjacency=adjacency), abi.dpmf_privacy()
    with run_options(threads, progress) as run:
        given.run = run
        c.dpmf_account_tuning(real(sigma, "sigma"), real(delta, "delta"), ctypes.byref(given), ctypes.byref(law), ctypes.byref(out))
    return privacy_of(out, given, of, Scope(BEST % tuning, BEST_IF, ((TUNING, BEST_TUNING),)))

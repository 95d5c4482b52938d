# SPDX-License-Identifier: Apache-2.0
"""Workload, participation and strategy: the three things that a mechanism is made of."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing

from . import _operator, errors
from ._library import abi, c, choice, doubles, encode_text, flag, handle, integer, numbers, real, struct_of, text
from ._object import Object

__all__ = ["Family", "Participation", "Strategy", "Workload", "families"]

#: One step of a stream: (t, x, state) to row t, with `state` changed in place.
Step = Callable[[int, np.ndarray, np.ndarray], "np.typing.ArrayLike"]


@dataclass(frozen=True)
class Family:
    """A family of strategies, and its options; from the library's own table."""

    name: str
    help: str
    closed_form: bool  #: made from a workload alone
    optimized: bool  #: `optimize` knows it
    designed: bool  #: `design` tries it
    parameters: Optional[str]  #: what its own numbers are called on the command line
    bands: bool  #: named for a number of diagonals
    nu: bool  #: takes nu


def families() -> List[Family]:
    """Every family of the loaded library, in its order.

    >>> [f.name for f in families() if f.nu]
    ['toeplitz']
    """
    found = []
    for i in itertools.takewhile(c.dpmf_family_info, itertools.count()):
        f = c.dpmf_family_info(i).contents
        found.append(
            Family(
                text(f.name),
                text(f.help),
                bool(f.closed_form),
                bool(f.optimized),
                bool(f.designed),
                text(f.parameters),
                bool(f.bands),
                bool(f.nu),
            )
        )
    return found


class Workload(Object):
    """A, the map from gradients to the output that must be accurate.

    From text, as on the command line, or from a matrix with a column for each step. A row that is not zero beyond column t is
    released in step t. `+` and `*` make sums, whose squared errors add:

    >>> Workload("momentum:0.9,cooldown:0.25:0.1", 1000)
    Workload('momentum:0.9,cooldown:0.25:0.1', 1000)
    >>> Workload([[1, 0], [1, 1]]).apply([3, 4])
    array([3., 7.])
    >>> Workload("prefix", 9) + 0.3 * Workload("decay:0.1", 9)
    Workload('prefix + 0.3*decay:0.1', 9)
    """

    _free = "dpmf_workload_free"

    def __init__(self, what: Union[str, "np.typing.ArrayLike"] = "prefix", steps: Optional[int] = None):
        if isinstance(what, str):
            if steps is None:
                raise errors.ArgumentError("steps: a workload in words needs them")
            made = handle("dpmf_workload_parse", self._free, encode_text(what, "workload"), integer(steps, "steps"))
        else:
            matrix = numbers(what, "workload")
            if matrix.ndim != 2 or 0 in matrix.shape:
                raise errors.ArgumentError("workload has shape %s, accepted: (rows, steps)" % (matrix.shape,))
            rows, columns = matrix.shape
            steps = integer(steps, "steps", optional=True)
            if steps not in (None, columns):
                raise errors.ArgumentError("steps = %d, and the workload is a matrix of %d columns" % (steps, columns))
            options = struct_of("dpmf_workload_options_defaults", rows=rows, matrix=doubles(matrix))
            made = handle("dpmf_workload_create", self._free, columns, ctypes.byref(options))
        super().__init__(made)

    @classmethod
    def sgd(
        cls,
        steps: int,
        momentum: float = 0.0,
        nesterov: bool = False,
        decay: float = 0.0,
        learning_rate: Optional[Sequence[float]] = None,
    ) -> "Workload":
        """SGD as in training libraries; `learning_rate` is None or one number per step.

        >>> Workload.sgd(3, momentum=0.5, learning_rate=[1.0, 0.5, 0.5]).apply([1, 0, 0])
        array([1.   , 1.25 , 1.375])
        """
        steps = integer(steps, "steps")
        rates = None if learning_rate is None else numbers(learning_rate, "learning_rate")
        if rates is not None and rates.shape != (steps,):
            raise errors.ArgumentError("learning_rate has shape %s, accepted: (%d,)" % (rates.shape, steps))
        options = struct_of(
            "dpmf_workload_options_defaults",
            momentum=momentum,
            nesterov=flag(nesterov, "nesterov"),
            decay=decay,
            learning_rate=doubles(rates),
        )
        self = cls.__new__(cls)
        Object.__init__(self, handle("dpmf_workload_create", cls._free, steps, ctypes.byref(options)))
        return self

    @classmethod
    def _sum(cls, terms: List[Tuple[float, "Workload"]]) -> "Workload":
        handles = [part._handle for _, part in terms]
        weights = numbers([weight for weight, _ in terms])
        options = struct_of(
            "dpmf_workload_options_defaults",
            parts=len(terms),
            part=(type(handles[0]) * len(handles))(*handles),
            part_weights=doubles(weights),
        )
        self = cls.__new__(cls)
        Object.__init__(self, handle("dpmf_workload_create", cls._free, terms[0][1].steps, ctypes.byref(options)))
        self._summands = terms
        return self

    def _terms(self) -> List[Tuple[float, "Workload"]]:
        return getattr(self, "_summands", None) or [(1.0, self)]

    def __add__(self, other: "Workload") -> "Workload":
        return Workload._sum(self._terms() + other._terms()) if isinstance(other, Workload) else NotImplemented

    def __rmul__(self, weight: float) -> "Workload":
        times = real(weight, "weight")
        return Workload._sum([(times * old, part) for old, part in self._terms()])

    @classmethod
    def operator(cls, steps: int, buffers: int, step: "Step") -> "Workload":
        """A as a stream: `step(t, x, state)` gives row t of A x for all columns at once.

        x has one number per column, state is buffers x columns, zeros at first, and is changed in place. The step must be linear
        in both. It may start at any t, from zeros, when all earlier rows are zero. Experimental; it cannot be saved.

        >>> def leaky(t, x, state):
        ...     state[0] = 0.5 * state[0] + x
        ...     return state[0]
        >>> Workload.operator(4, 1, leaky).apply([1, 0, 0, 0])
        array([1.   , 0.5  , 0.25 , 0.125])
        """
        self = cls.__new__(cls)
        Object.__init__(self, _operator.create("dpmf_workload_create_operator", cls._free, steps, buffers, step))
        return self

    @property
    def steps(self) -> int:
        return c.dpmf_workload_get(self._handle).steps

    @property
    def rows(self) -> int:
        """Of A: the steps, but for a sum or a matrix of another shape."""
        return c.dpmf_workload_get(self._handle).rows

    @property
    def text(self) -> str:
        return text(c.dpmf_workload_get(self._handle).text)

    @property
    def is_toeplitz(self) -> bool:
        return bool(c.dpmf_workload_get(self._handle).is_toeplitz)

    def apply(self, x: "np.typing.ArrayLike") -> np.ndarray:
        """A x."""
        return _vector_call(c.dpmf_workload_apply, self._handle, x, self.steps, self.steps)

    def solve(self, y: "np.typing.ArrayLike") -> np.ndarray:
        """A^-1 y."""
        return _vector_call(c.dpmf_workload_solve, self._handle, y, self.steps, self.steps)

    def __repr__(self) -> str:
        return "Workload(%r, %d)" % (self.text, self.steps)


class Participation(Object):
    """In which steps one privacy unit's data may be used: "single", "cyclic:K,B", "min-sep:K,B", "shuffled:K,B", "full",
    or "file:PATTERNS": steps of one of the patterns of a file, one per line, as numbers from 0 and ranges A-B or A-B:STEP (or a
    .npy array of rows of 0 and 1). `count` is then the most steps in one pattern, `separation` the least distance within one.

    >>> Participation("cyclic:4,250", 1000).count
    4
    """

    _free = "dpmf_participation_free"

    def __init__(self, what: str = "single", steps: int = 1):
        super().__init__(handle("dpmf_participation_parse", self._free, encode_text(what, "participation"), integer(steps, "steps")))

    @property
    def steps(self) -> int:
        return c.dpmf_participation_get(self._handle).steps

    @property
    def count(self) -> int:
        return c.dpmf_participation_get(self._handle).count

    @property
    def separation(self) -> int:
        return c.dpmf_participation_get(self._handle).separation

    @property
    def text(self) -> str:
        return text(c.dpmf_participation_get(self._handle).text)

    def __repr__(self) -> str:
        return "Participation(%r, %d)" % (self.text, self.steps)


#: DPMF_STAMPS_AUTO, which the library's table of numbers leaves out for its sign.
STAMPS_AUTO = -1


def stamps_number(stamps: Union[int, str, None]) -> Optional[int]:
    """The library's number for stamps, which may be "auto"."""
    if isinstance(stamps, str):
        if stamps != "auto":
            raise errors.ArgumentError("stamps = %r, accepted: a whole number, or 'auto'" % stamps)
        return STAMPS_AUTO
    return stamps


class Strategy(Object):
    """C, whose left inverse W shapes the noise.

    >>> s = Strategy("toeplitz", Workload("prefix", 4))
    >>> s.column(0)
    array([1.    , 0.5   , 0.375 , 0.3125])
    >>> bool(np.allclose(s.decoder() @ s.encoder(), np.eye(4)))
    True
    """

    _free = "dpmf_strategy_free"

    def __init__(
        self,
        family: str,
        workload: Workload,
        *,
        bands: Optional[int] = None,
        nu: Optional[float] = None,
        stamps: Optional[int] = None,
        decoder: str = "default",
        column_normalize: bool = False,
        buffers: Optional[int] = None,
        levels: Optional[int] = None,
        branching: Optional[int] = None,
    ):
        if not isinstance(workload, Workload):
            raise errors.ArgumentTypeError("workload is a %s, a dpmf.Workload is accepted" % type(workload).__name__)
        options = struct_of(
            "dpmf_strategy_options_defaults",
            bands=bands,
            nu=nu,
            stamps=stamps,
            decoder=choice(abi.dpmf_decoder, decoder, "decoder"),
            column_normalize=flag(column_normalize, "column_normalize"),
            buffers=buffers,
            levels=levels,
            branching=branching,
        )
        super().__init__(
            handle("dpmf_strategy_create", self._free, encode_text(family, "family"), workload._handle, ctypes.byref(options))
        )

    @classmethod
    def _of(cls, made: Any, owner: Any = None) -> "Strategy":
        self = cls.__new__(cls)
        Object.__init__(self, made, owner)
        return self

    @classmethod
    def _make(cls, create: str, *arguments: Any) -> "Strategy":
        return cls._of(handle(create, cls._free, *arguments))

    @classmethod
    def _toeplitz(cls, shape: Any, steps: int, coefficients: Any) -> "Strategy":
        values = _vector(coefficients, "coefficients")
        return cls._make("dpmf_strategy_create_toeplitz", integer(steps, "steps"), shape, len(values), doubles(values))

    @classmethod
    def toeplitz(cls, steps: int, coefficients: "np.typing.ArrayLike") -> "Strategy":
        """C Toeplitz; fewer coefficients than steps make it banded."""
        return cls._toeplitz(abi.dpmf_toeplitz_shape.DPMF_TOEPLITZ, steps, coefficients)

    @classmethod
    def inverse_toeplitz(cls, steps: int, coefficients: "np.typing.ArrayLike") -> "Strategy":
        """C^-1 Toeplitz with these coefficients."""
        return cls._toeplitz(abi.dpmf_toeplitz_shape.DPMF_TOEPLITZ_INVERSE, steps, coefficients)

    @classmethod
    def blt(
        cls,
        steps: int,
        scale: "Optional[np.typing.ArrayLike]" = None,
        decay: "Optional[np.typing.ArrayLike]" = None,
        inverse_decay: "Optional[np.typing.ArrayLike]" = None,
    ) -> "Strategy":
        """C a buffered linear Toeplitz matrix: first column 1, then the sum of scale * decay^(t-1).

        Instead of the scales the decays of C^-1 may be given, which determine them.

        >>> Strategy.blt(10, decay=[0.5], inverse_decay=[0.25]).blt_parameters
        (array([0.25]), array([0.5]))
        """
        if decay is None or (scale is None) == (inverse_decay is None):
            raise errors.ArgumentError("decay and one of scale and inverse_decay are accepted")
        if scale is None:
            both = np.concatenate([_vector(decay, "decay"), _vector(inverse_decay, "inverse_decay")])
            if len(both) % 2 != 0 or len(_vector(decay, "decay")) * 2 != len(both):
                raise errors.ArgumentError("decay and inverse_decay have different lengths, accepted: the same")
            half = len(both) // 2
            return cls._make("dpmf_strategy_create_blt", integer(steps, "steps"), half, None, doubles(both), None)
        s, d = _vector(scale, "scale"), _vector(decay, "decay")
        if len(s) != len(d):
            raise errors.ArgumentError("%d scales and %d decays: as many of each are accepted" % (len(s), len(d)))
        return cls._make("dpmf_strategy_create_blt", integer(steps, "steps"), len(s), doubles(s), doubles(d), None)

    @classmethod
    def banded(cls, rows: "np.typing.ArrayLike") -> "Strategy":
        """C banded: rows[t, j] = C[t, t-j]."""
        band = numbers(rows, "rows")
        if band.ndim != 2:
            raise errors.ArgumentError("rows has %d dimensions, accepted: 2" % band.ndim)
        return cls._make("dpmf_strategy_create_banded", band.shape[0], band.shape[1], doubles(band))

    @classmethod
    def dense(
        cls,
        matrix: "np.typing.ArrayLike",
        decoder: "Optional[np.typing.ArrayLike]" = None,
        workload: Union[str, Workload] = "prefix",
    ) -> "Strategy":
        """C any matrix of full column rank, rows x steps, as its lower-triangular form, which streams.

        Without a decoder: the noise has the law of the noise of the pseudo-inverse of C, at the sensitivity of C. With a
        decoder B, steps x rows, B C = the workload: the law of B Z at the outputs, at a sensitivity that is at most that of C
        (Denisov et al. 2022, Proposition 2.2). A lower-triangular C stays as it is.

        >>> tall = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
        >>> s = Strategy.dense(tall)
        >>> s.rows, bool(np.allclose(s.encoder().T @ s.encoder(), tall.T @ tall))
        (2, True)
        """
        values = _matrix(matrix, "strategy")
        steps = values.shape[1]
        workload = workload if isinstance(workload, Workload) else Workload(workload, steps)
        if workload.steps != steps:
            raise errors.ArgumentError("the workload has %d steps, and C has %d columns" % (workload.steps, steps))
        given = None if decoder is None else _matrix(decoder, "decoder")
        if given is not None and given.shape != values.shape[::-1]:
            raise errors.ArgumentError("decoder has shape %s, accepted: %s" % (given.shape, values.shape[::-1]))
        return cls._given(
            "dense", workload, matrix_rows=len(values), matrix=doubles(values), decoder_matrix=doubles(given)
        )

    @classmethod
    def recurrent(
        cls, steps: int, matrix: "np.typing.ArrayLike", u: "np.typing.ArrayLike", v: "np.typing.ArrayLike"
    ) -> "Strategy":
        """C Toeplitz with the coefficients u' M^t v, M a small square matrix with as many rows as the stream keeps buffers.

        >>> wave = Strategy.recurrent(4, [[0, 1], [-0.25, 0.5]], [1, 0], [1, 0.5])
        >>> wave.column(0), wave.buffers
        (array([ 1.   ,  0.5  ,  0.   , -0.125]), 2)
        """
        values, left, right = _square(matrix, "matrix"), _vector(u, "u"), _vector(v, "v")
        if not len(values) == len(left) == len(right):
            raise errors.ArgumentError(
                "matrix of %d rows, u of %d numbers, v of %d: as many of each are accepted"
                % (len(values), len(left), len(right))
            )
        return cls._given(
            "recurrent",
            Workload("prefix", steps),
            matrix_rows=len(values),
            matrix=doubles(values),
            u=doubles(left),
            v=doubles(right),
        )

    @classmethod
    def operator(cls, steps: int, buffers: int, step: "Step", inverse: bool = True) -> "Strategy":
        """C^-1, or C with inverse=False, as a stream of the caller's own: `step` as in `Workload.operator`.

        The other one of the two follows. Experimental; it cannot be saved, and rows of its noise come at Python's speed.

        >>> def step(t, z, state):
        ...     y = z - 0.5 * state[0]
        ...     state[0] = 0.5 * state[0] + z
        ...     return y
        >>> Strategy.operator(4, 1, step).solve([1, 0, 0, 0])
        array([ 1.   , -0.5  , -0.25 , -0.125])
        """
        made = _operator.create(
            "dpmf_strategy_create_operator", cls._free, steps, buffers, step, flag(inverse, "inverse")
        )
        return cls._of(made)

    @classmethod
    def _given(cls, family: str, workload: Workload, **values: Any) -> "Strategy":
        options = struct_of("dpmf_strategy_options_defaults", **values)
        return cls._make("dpmf_strategy_create", encode_text(family, "family"), workload._handle, ctypes.byref(options))

    def normalized(self) -> "Strategy":
        """C with its columns divided by their norms."""
        return self._make("dpmf_strategy_create_normalized", self._handle)

    def stamped(self, stamps: int) -> "Strategy":
        """C repeated, restarted each time."""
        return self._make("dpmf_strategy_create_stamped", self._handle, integer(stamps, "stamps"))

    def triangular(self) -> "Strategy":
        """The lower-triangular form: the same errors, a sensitivity no larger."""
        return self._make("dpmf_strategy_create_triangular", self._handle)

    @property
    def steps(self) -> int:
        return c.dpmf_strategy_get(self._handle).steps

    @property
    def family(self) -> str:
        return text(c.dpmf_strategy_get(self._handle).family)

    @property
    def bands(self) -> int:
        """Diagonals of C that can be non-zero."""
        return c.dpmf_strategy_get(self._handle).bands

    @property
    def buffers(self) -> int:
        """Rows that a noise stream must keep."""
        return c.dpmf_strategy_get(self._handle).buffers

    @property
    def normals_per_number(self) -> float:
        """Normal numbers per number of noise, averaged over the steps."""
        return c.dpmf_strategy_get(self._handle).normals

    @property
    def rows(self) -> int:
        """Rows of C: seeds in all."""
        return c.dpmf_strategy_get(self._handle).rows

    @property
    def streams(self) -> bool:
        """Does its noise come row by row from the buffers alone?"""
        return bool(c.dpmf_strategy_get(self._handle).streams)

    @property
    def is_normalized(self) -> bool:
        return bool(c.dpmf_strategy_get(self._handle).is_normalized)

    @property
    def stamps(self) -> int:
        return c.dpmf_strategy_get(self._handle).stamps

    @property
    def branching(self) -> int:
        """Children of a node of a tree; 0: it is none."""
        return c.dpmf_strategy_get(self._handle).branching

    @property
    def blt_parameters(self) -> "Optional[tuple[np.ndarray, np.ndarray]]":
        """(scale, decay) of a BLT, None of others."""
        info = c.dpmf_strategy_get(self._handle)
        if info.blt_buffers == 0 or info.is_normalized:
            return None
        return np.array(info.blt_scale[: info.blt_buffers]), 1.0 - np.array(info.blt_gap[: info.blt_buffers])

    @property
    def blt_inverse_parameters(self) -> "Optional[tuple[np.ndarray, np.ndarray]]":
        """(scale, decay) of C^-1 where it is a BLT too: C is a BLT with positive scales and different decays. Else None.

        >>> Strategy.blt(10, scale=[0.25], decay=[0.5]).blt_inverse_parameters
        (array([-0.25]), array([0.25]))
        """
        info = c.dpmf_strategy_get(self._handle)
        if info.is_normalized or not info.blt_inverse_gap:
            return None
        count = info.blt_buffers
        return np.array(info.blt_inverse_scale[:count]), 1.0 - np.array(info.blt_inverse_gap[:count])

    def apply(self, x: "np.typing.ArrayLike") -> np.ndarray:
        """C x."""
        return _vector_call(c.dpmf_strategy_apply, self._handle, x, self.steps, self.rows)

    def solve(self, y: "np.typing.ArrayLike") -> np.ndarray:
        """W y."""
        return _vector_call(c.dpmf_strategy_solve, self._handle, y, self.rows, self.steps)

    def column(self, j: int) -> np.ndarray:
        """Column j of C."""
        out = np.empty(self.rows)
        c.dpmf_strategy_column(self._handle, integer(j, "j"), doubles(out))
        return out

    def column_norms(self) -> np.ndarray:
        out = np.empty(self.steps)
        c.dpmf_strategy_column_norms(self._handle, doubles(out))
        return out

    def encoder(self) -> np.ndarray:
        """C as a matrix, for a look at small ones."""
        return np.stack([self.column(j) for j in range(self.steps)], axis=1)

    def decoder(self) -> np.ndarray:
        """W as a matrix, for a look at small ones."""
        return np.stack([self.solve(unit) for unit in np.eye(self.rows)], axis=1)

    def seeds(self, t: int) -> int:
        """Rows of Z that step t takes."""
        t = integer(t, "t")
        if not 0 <= t < self.steps:
            raise errors.ArgumentError("t = %d, accepted: 0 to %d" % (t, self.steps - 1))
        return c.dpmf_strategy_seeds(self._handle, t)

    def step(self, t: int, seed: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Row t of W Z from its seeds (seeds(t) x count); `state` (buffers x count, zeros at first) is changed in place."""
        seed = numbers(seed, "seed")
        if seed.ndim != 2 or len(seed) != self.seeds(t):
            raise errors.ArgumentError("seed has shape %s, accepted: (%d, count)" % (seed.shape, self.seeds(t)))
        count = seed.shape[1]
        if state.dtype != np.float64 or state.shape != (self.buffers, count) or not state.flags.c_contiguous:
            raise errors.ArgumentError(
                "state: a contiguous float64 array of shape (%d, %d) is accepted" % (self.buffers, count)
            )
        row = np.empty(count)
        c.dpmf_strategy_step(self._handle, t, count, doubles(seed), doubles(state), doubles(row))
        return row

    def __repr__(self) -> str:
        return "Strategy(%r, steps=%d, bands=%d, buffers=%d)" % (self.family, self.steps, self.bands, self.buffers)


def _matrix(values: Any, name: str) -> np.ndarray:
    matrix = numbers(values, name)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise errors.ArgumentError("%s has shape %s, accepted: (rows, steps)" % (name, matrix.shape))
    return matrix


def _square(values: Any, name: str) -> np.ndarray:
    matrix = numbers(values, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise errors.ArgumentError("%s has shape %s, accepted: (steps, steps)" % (name, matrix.shape))
    return matrix


def _vector(values: Any, name: str) -> np.ndarray:
    vector = numbers(values, name)
    if vector.ndim != 1:
        raise errors.ArgumentError("%s has %d dimensions, accepted: 1" % (name, vector.ndim))
    return vector


def _vector_call(function: Any, pointer: Any, values: Any, taken: int, given: int) -> np.ndarray:
    vector = _vector(values, "values")
    if len(vector) != taken:
        raise errors.ArgumentError("%d numbers, accepted: %d" % (len(vector), taken))
    out = np.empty(given)
    function(pointer, doubles(vector), doubles(out))
    return out

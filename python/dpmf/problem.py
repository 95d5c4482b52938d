# SPDX-License-Identifier: Apache-2.0
"""Workload, participation and strategy: the three things that a mechanism is made of."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Union

import numpy as np
import numpy.typing

from . import errors
from ._library import abi, c, choice, doubles, encode_text, flag, handle, integer, numbers, struct_of, text
from ._object import Object

__all__ = ["Family", "Participation", "Strategy", "Workload", "families"]


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
    """A, the lower-triangular map from gradients to the output that must be accurate.

    From text, as on the command line, or from a matrix:

    >>> Workload("momentum:0.9,cooldown:0.25:0.1", 1000)
    Workload('momentum:0.9,cooldown:0.25:0.1', 1000)
    >>> Workload([[1, 0], [1, 1]]).apply([3, 4])
    array([3., 7.])
    """

    _free = "dpmf_workload_free"

    def __init__(self, what: Union[str, "np.typing.ArrayLike"] = "prefix", steps: Optional[int] = None):
        if isinstance(what, str):
            if steps is None:
                raise errors.ArgumentError("steps: a workload in words needs them")
            made = handle("dpmf_workload_parse", self._free, encode_text(what, "workload"), integer(steps, "steps"))
        else:
            matrix = _square(what, "workload")
            steps = integer(steps, "steps", optional=True)
            if steps not in (None, len(matrix)):
                raise errors.ArgumentError("steps = %d, and the workload is a matrix of %d" % (steps, len(matrix)))
            made = handle("dpmf_workload_create_dense", self._free, len(matrix), doubles(matrix))
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

    @property
    def steps(self) -> int:
        return c.dpmf_workload_get(self._handle).steps

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
    """In which steps one privacy unit's data may be used: "single", "cyclic:K,B", "min-sep:K,B", "shuffled:K,B", "full".

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
    def dense(cls, matrix: "np.typing.ArrayLike") -> "Strategy":
        """C a lower-triangular matrix."""
        values = _square(matrix, "strategy")
        return cls._make("dpmf_strategy_create_dense", len(values), doubles(values))

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

# SPDX-License-Identifier: Apache-2.0
"""A loss by name or as a function of the squared errors of the steps, as the library takes it."""

import contextlib
import ctypes
from typing import Any, Callable, Iterator, List, Tuple, Union

import numpy as np

from . import errors
from ._library import abi, choice, real

#: "rms", "max", "lp:P", "last", or a function that takes the squared errors, an array, and returns (value, derivatives). If it has a
#: true attribute `convex`, it is convex in the squared errors, and an optimizer may prove a bound from it.
LossLike = Union[str, Callable[[np.ndarray], "Tuple[float, np.ndarray]"]]


class Loss:
    """Lives as long as the call that reads it: the library calls back into it."""

    def __init__(self, loss: LossLike):
        self._raised: List[BaseException] = []
        self.power, self._function = 0.0, None
        if callable(loss):
            self.kind = abi.dpmf_loss.DPMF_LOSS_OWN
            kinds = dict(abi.dpmf_loss_function._fields_)
            self._function = abi.dpmf_loss_function(
                value=kinds["value"](self._caller(loss)), context=None, convex=int(bool(getattr(loss, "convex", False)))
            )
        elif isinstance(loss, str) and loss.startswith("lp:"):
            self.kind = abi.dpmf_loss.DPMF_LOSS_LP
            try:
                self.power = real(float(loss[3:]), "loss")
            except ValueError:
                raise errors.ArgumentError("loss = %r, accepted: lp:P with a number P" % loss) from None
        elif loss in ("lp", "own"):
            raise errors.ArgumentError("loss = %r, accepted: rms, max, last, lp:P or a function" % loss)
        else:
            self.kind = choice(abi.dpmf_loss, loss, "loss")

    def _caller(self, loss: Callable[[np.ndarray], Any]) -> Callable[..., float]:
        def value(_context: Any, steps: int, squares: Any, gradient: Any) -> float:
            try:
                if self._raised:
                    return float("nan")
                found, slopes = loss(np.ctypeslib.as_array(squares, (steps,)).copy())
                if gradient:
                    np.ctypeslib.as_array(gradient, (steps,))[:] = slopes
                return float(found)
            except BaseException as error:  # noqa: B902 (raised again by the caller of the library)
                self._raised.append(error)
                return float("nan")

        return value

    def put(self, options: Any) -> None:
        """Into options that have the fields loss, loss_power and own_loss."""
        options.loss, options.loss_power = self.kind, self.power
        if self._function is not None:
            options.own_loss = ctypes.pointer(self._function)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Around the call: what the function raised is raised."""
        try:
            yield
        finally:
            if self._raised:
                raise self._raised[0]

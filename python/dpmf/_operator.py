# SPDX-License-Identifier: Apache-2.0
"""Functions of the caller's own as the library takes them: dpmf_operator and dpmf_parametric of dpmf_experimental.h."""

import ctypes
import itertools

import numpy as np

from . import errors
from ._library import abi, c, integer, remember_failure

__all__ = ["GRADIENT", "MAKE", "Parametric", "create", "view"]

WORKLOAD, STRATEGY = ctypes.POINTER(abi.dpmf_workload), ctypes.POINTER(abi.dpmf_strategy)
#: The arrays are addresses, so that a view of them costs one object each.
STEP = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
MAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(STRATEGY))
GRADIENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Operator(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("buffers", ctypes.c_int64), ("step", STEP), ("release", RELEASE)]


class Parametric(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("parameters", ctypes.c_int64), ("make", MAKE), ("gradient", GRADIENT)]


abi.FUNCTIONS.update(
    {
        "dpmf_workload_create_operator": (
            abi.dpmf_status,
            [ctypes.c_int64, ctypes.POINTER(Operator), ctypes.POINTER(WORKLOAD)],
        ),
        "dpmf_strategy_create_operator": (
            abi.dpmf_status,
            [ctypes.c_int64, ctypes.POINTER(Operator), ctypes.c_int, ctypes.POINTER(STRATEGY)],
        ),
        "dpmf_optimize_parametric": (
            abi.dpmf_status,
            [
                ctypes.POINTER(Parametric),
                WORKLOAD,
                ctypes.POINTER(abi.dpmf_participation),
                ctypes.POINTER(abi.dpmf_optimize_options),
                ctypes.POINTER(ctypes.c_double),
                ctypes.POINTER(STRATEGY),
                ctypes.POINTER(abi.dpmf_optimization),
            ],
        ),
    }
)


def view(address, *shape):
    """The doubles at an address, without a copy: valid during the call that gave it."""
    count = int(np.prod(shape))
    if count == 0:
        return np.empty(shape)
    return np.frombuffer((ctypes.c_double * count).from_address(address), dtype=np.float64).reshape(shape)


class Entry:
    """One operator: the function, and what it raised."""

    def __init__(self, step, buffers):
        self.step, self.buffers, self.error = step, buffers, None


_entries: dict = {}
_keys = itertools.count(1)


def _run(entry, t, count, x, state, y):
    # Copies: an array that the function keeps must not point to memory that the library has freed.
    before = view(state, entry.buffers, count)
    kept = before.copy()
    made = np.asarray(entry.step(t, view(x, count).copy(), kept), dtype=np.float64)
    if made.shape != (count,):
        raise TypeError("step gave an array of shape %s, accepted: (%d,)" % (made.shape, count))
    before[...] = kept
    view(y, count)[...] = made


def _step(key, t, count, x, state, y):
    entry = _entries[key]
    try:
        if entry.error is not None:
            raise entry.error
        _run(entry, t, count, x, state, y)
    except BaseException as error:  # noqa: B902 (the caller of the library raises it again)
        entry.error = error
        view(y, count)[...] = np.nan
        remember_failure(error)


def _release(key):
    _entries.pop(key, None)


# One of each for all operators: a callback must not be freed while it runs, as one operator's own release would be.
_STEP, _RELEASE = STEP(_step), RELEASE(_release)


def create(function, free, steps, buffers, step, *more):
    """Calls function(steps, operator, *more, &out); the library keeps `step` alive until it frees the last user."""
    if not callable(step):
        raise errors.ArgumentTypeError("step is a %s, a function is accepted" % type(step).__name__)
    buffers = integer(buffers, "buffers")
    key = next(_keys)
    _entries[key] = Entry(step, buffers)
    operator = Operator(key, buffers, _STEP, _RELEASE)
    out = abi.FUNCTIONS[free][1][0]()
    try:
        getattr(c, function)(integer(steps, "steps"), ctypes.byref(operator), *more, ctypes.byref(out))
    except BaseException:
        if out:
            getattr(c, free)(out)
        _entries.pop(key, None)
        raise
    return out

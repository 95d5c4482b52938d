# SPDX-License-Identifier: Apache-2.0
"""The loaded library, and the few ways in which Python values become C values and back."""

import contextlib
import ctypes
import ctypes.util
import os
import pathlib

import numpy as np

from . import _abi as abi
from . import errors

__all__ = [
    "abi",
    "c",
    "choice",
    "choice_name",
    "doubles",
    "handle",
    "numbers",
    "path_bytes",
    "run_options",
    "struct_of",
    "text",
]


def find_library():
    """$DPMF_LIBRARY, the one in the package, or the system's."""
    given = os.environ.get("DPMF_LIBRARY")
    if given:
        return given
    inside = pathlib.Path(__file__).with_name("libdpmf.so")
    if inside.exists():
        return str(inside)
    found = ctypes.util.find_library("dpmf")
    if found is None:
        raise ImportError("libdpmf.so is neither in the package nor on the system; DPMF_LIBRARY can name it")
    return found


def check(status, function, arguments):
    """Every call that can fail goes through here."""
    if status == abi.dpmf_status.DPMF_OK:
        return None
    message = library.dpmf_last_error().decode("utf-8", "replace")
    raise errors.OF_STATUS.get(status, errors.Error)(message)


class Library:
    """The functions of the header by their C names, each bound when it is first asked for."""

    def __init__(self, path):
        self._path = path
        self._handle = ctypes.CDLL(path)
        found = self.dpmf_version().decode()
        if found != abi.DPMF_VERSION:
            raise ImportError("%s is version %s, and this package was made for %s" % (path, found, abi.DPMF_VERSION))

    def __getattr__(self, name):
        if name not in abi.FUNCTIONS:
            raise AttributeError(name)
        answer, arguments = abi.FUNCTIONS[name]
        try:
            function = self._handle[name]
        except AttributeError:
            raise errors.UnsupportedError(
                "%s has no function %s: it is older than this package" % (self._path, name)
            ) from None
        function.argtypes = arguments
        function.restype = answer
        if answer is abi.dpmf_status:
            function.restype = ctypes.c_int
            function.errcheck = check
        setattr(self, name, function)
        return function


library = c = Library(find_library())


def handle(create, free, *arguments):
    """Calls create(*arguments, &out) and gives (out, what frees it)."""
    kind = abi.FUNCTIONS[free][1][0]
    out = kind()
    getattr(c, create)(*arguments, ctypes.byref(out))
    return out


def text(value):
    """A C string."""
    return None if value is None else value.decode("utf-8", "replace")


def path_bytes(path):
    return None if path is None else os.fsencode(path)


def numbers(values, name="values"):
    """A contiguous array of doubles."""
    try:
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise errors.ArgumentError("%s: %s" % (name, error)) from None


def doubles(array):
    return None if array is None else array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def prefix_of(kind, members):
    """DPMF_LOSS_ for dpmf_loss: the start that all names share, up to an underscore."""
    shared = os.path.commonprefix([m.name for m in members])
    return shared[: shared.rfind("_") + 1]


def choice(kind, value, name):
    """An enum's member from the end of its C name: choice(dpmf_loss, "rms", "loss")."""
    if isinstance(value, kind):
        return value
    prefix = prefix_of(kind, list(kind))
    names = {m.name[len(prefix) :].lower().replace("_", "-"): m for m in kind}
    if value not in names:
        raise errors.ArgumentError("%s = %r, accepted: %s" % (name, value, ", ".join(names)))
    return names[value]


def choice_name(kind, value):
    member = kind(value)
    return member.name[len(prefix_of(kind, list(kind))) :].lower().replace("_", "-")


def struct_of(defaults, **values):
    """A structure of options: the library's defaults, and what is given and not None."""
    options = getattr(c, defaults)()
    known = {field[0] for field in options._fields_}
    for name, value in values.items():
        if name not in known:
            raise TypeError("%r is not an option: %s are" % (name, ", ".join(sorted(known))))
        if value is not None:
            try:
                setattr(options, name, value)
            except TypeError as error:
                raise errors.ArgumentError("%s = %r: %s" % (name, value, error)) from None
    return options


@contextlib.contextmanager
def run_options(threads=0, progress=None):
    """A dpmf_run whose progress goes to `progress(what, done)`; what that raises, an interrupt say, cancels the work."""
    raised = []

    def report(_context, what, done):
        try:
            return 1 if progress is not None and progress(text(what), done) else 0
        except BaseException as error:  # noqa: B902 (it is raised again below)
            raised.append(error)
            return 1

    run = c.dpmf_run_defaults()
    run.threads = threads
    callback = dict(abi.dpmf_run._fields_)["progress"](report)
    run.progress = callback
    try:
        yield run
    except errors.CancelledError:
        if raised:
            raise raised[0] from None
        raise
    finally:
        del callback

# SPDX-License-Identifier: Apache-2.0
"""The loaded library, and the few ways in which Python values become C values and back."""

import contextlib
import ctypes
import numbers as kinds
import os
import signal
import sys
import threading

import numpy as np

from . import _abi as abi
from . import errors

__all__ = [
    "abi",
    "c",
    "choice",
    "choice_name",
    "doubles",
    "encode_text",
    "flag",
    "handle",
    "has_failed",
    "integer",
    "interruptible",
    "memory_limit",
    "numbers",
    "path_bytes",
    "real",
    "remember_failure",
    "run_options",
    "select",
    "size_in_bytes",
    "struct_of",
    "text",
    "whole_numbers",
]


def find_library():
    """$DPMF_LIBRARY, the one in the package, or the system's."""
    given = os.environ.get("DPMF_LIBRARY")
    if given:
        return given
    # Installed for editing, a package has two folders: the sources, and what was built.
    for folder in sys.modules[__package__].__path__:
        inside = os.path.join(folder, "libdpmf.so")
        if os.path.exists(inside):
            return inside
    from ctypes import util  # loads what starts other programs: not for everybody

    found = util.find_library("dpmf")
    if found is None:
        raise ImportError("libdpmf.so is neither in the package nor on the system; DPMF_LIBRARY can name it")
    return found


def check(status, function, arguments):
    """Every call that can fail goes through here."""
    if _failed.errors or _failed_elsewhere:
        raise_failure()
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


def path_bytes(path, name="path", optional=True):
    if path is None and optional:
        return None
    try:
        found = os.fsencode(path)
    except TypeError:
        raise errors.ArgumentTypeError("%s is a %s, a path is accepted" % (name, type(path).__name__)) from None
    if b"\0" in found:
        raise errors.ArgumentError("%s: a path with a NUL byte" % name)
    return found


def integer(value, name, optional=False):
    """A whole number that fits in 64 bits; True is none."""
    if value is None and optional:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kinds.Integral):
        raise errors.ArgumentTypeError("%s is a %s, a whole number is accepted" % (name, type(value).__name__))
    if not -(2**63) <= int(value) < 2**63:
        raise errors.ArgumentError("%s = %d does not fit in 64 bits" % (name, value))
    return int(value)


def real(value, name, optional=False):
    """A number. The library, which knows the range, refuses NaN."""
    if value is None and optional:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kinds.Real):
        raise errors.ArgumentTypeError("%s is a %s, a number is accepted" % (name, type(value).__name__))
    return float(value)


def flag(value, name):
    """True or False, also as 0 or 1."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, kinds.Integral) and value in (0, 1)):
        return int(value)
    raise errors.ArgumentTypeError("%s is %r, True or False is accepted" % (name, value))


def whole_numbers(values, name):
    """A contiguous array of 64-bit integers; fractions are refused, not cut off."""
    try:
        found = np.asarray(values)
        made = np.ascontiguousarray(found, dtype=np.int64)
    except (OverflowError, TypeError, ValueError) as error:
        raise errors.ArgumentError("%s: %s; whole numbers are accepted" % (name, error)) from None
    if found.size and (found.dtype.kind not in "iuf" or not np.array_equal(found, made)):
        raise errors.ArgumentError("%s: of type %s, whole numbers of 64 bits are accepted" % (name, found.dtype))
    return made


def encode_text(value, name, optional=False):
    """A string as the library takes it."""
    if value is None and optional:
        return None
    if not isinstance(value, str):
        raise errors.ArgumentTypeError("%s is a %s, a string is accepted" % (name, type(value).__name__))
    if "\0" in value:
        raise errors.ArgumentError("%s: a string with a NUL character" % name)
    return value.encode("utf-8", "surrogateescape")


UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS.update({"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40})


def size_in_bytes(value, name):
    """A number of bytes, also in words: "1GiB", "500 MB"."""
    if not isinstance(value, str):
        return integer(value, name, optional=True)
    digits = value.strip().rstrip("aAbBgGiIkKmMtT ")
    unit = value.strip()[len(digits) :].strip().lower()
    try:
        found = float(digits) * UNITS[unit]
    except (KeyError, ValueError):
        found = -1.0
    if not 0 <= found < 2**63:
        raise errors.ArgumentError("%s = %r, accepted: bytes, or text such as '1GiB' or '500 MB'" % (name, value))
    return int(found)


def memory_limit(value, name="memory"):
    """A limit on the memory of a noise stream, as the library takes it; 0: no row is kept."""
    found = size_in_bytes(value, name)
    return 1 if found == 0 else found  # DPMF_MEMORY_NO_ROWS


def select(names, values):
    """The named ones of a function's arguments (its locals()), to pass on."""
    return {name: values[name] for name in names}


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
    if not isinstance(value, str):
        raise errors.ArgumentTypeError("%s is a %s, a string is accepted" % (name, type(value).__name__))
    prefix = prefix_of(kind, list(kind))
    names = {m.name[len(prefix) :].lower().replace("_", "-"): m for m in kind}
    if value not in names:
        raise errors.ArgumentError("%s = %r, accepted: %s" % (name, value, ", ".join(names)))
    return names[value]


def choice_name(kind, value):
    member = kind(value)
    return member.name[len(prefix_of(kind, list(kind))) :].lower().replace("_", "-")


WHOLE = (ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint32, ctypes.c_size_t)


def set_field(options, name, value, kind):
    """options.name = value: whole numbers that fit, numbers, or what the structure itself takes."""
    if kind in WHOLE:
        value = integer(int(value) if isinstance(value, (bool, np.bool_)) else value, name)
    elif kind is ctypes.c_double:
        value = real(value, name)
    try:
        setattr(options, name, value)
    except TypeError as error:
        raise errors.ArgumentTypeError("%s = %r: %s" % (name, value, error)) from None
    if kind in WHOLE and getattr(options, name) != value:
        bits, signed = 8 * ctypes.sizeof(kind), kind(-1).value < 0
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        raise errors.ArgumentError("%s = %d, accepted: %d to %d" % (name, value, low, high))


def struct_of(defaults, **values):
    """A structure of options: the library's defaults, and what is given and not None."""
    options = getattr(c, defaults)()
    known = {field[0] for field in options._fields_}
    kinds_of = dict(field[:2] for field in options._fields_)
    for name, value in values.items():
        if name not in known:
            raise TypeError("%r is not an option: %s are" % (name, ", ".join(sorted(known))))
        if value is not None:
            set_field(options, name, value, kinds_of[name])
    return options


class Raised(threading.local):
    """Exceptions raised in signal handlers and callbacks during a library call; the caller of the library raises them again."""

    def __init__(self):
        self.errors = []

    def again(self):
        """Raises the first, if there is one."""
        if self.errors:
            first = self.errors[0]
            self.errors = []
            raise first from None


_raised = Raised()

# What the caller's own functions (operators, families) raised inside a call of the library, which cannot pass exceptions on: in
# the thread that called it, or in a thread of the library's own. The first call that ends afterwards raises it.
_failed = Raised()
_failed_elsewhere: list = []


def remember_failure(error):
    here = threading.get_ident()
    known = any(thread.ident == here for thread in threading.enumerate())
    (_failed.errors if known else _failed_elsewhere).append(error)


def has_failed():
    return bool(_failed.errors or _failed_elsewhere)


def raise_failure():
    first = (_failed.errors + _failed_elsewhere)[0]
    _failed.errors = []
    del _failed_elsewhere[:]
    raise first


@contextlib.contextmanager
def interruptible():
    """Inside, an interrupt is kept until the library's next call of `progress`, which cancels; then it is raised.

    Python runs its signal handlers inside such a callback, where an exception would be printed and lost.
    """
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(before):
        yield
        return

    def keep(number, frame):
        try:
            before(number, frame)
        except BaseException as error:  # noqa: B902 (it is raised again below)
            _raised.errors.append(error)

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _raised.again()


def make_callback(progress=None):
    """A C callback that reports to `progress(what, done)`, and cancels after an interrupt or if that raises."""

    def report(_context, what, done):
        if not _raised.errors:
            try:
                if progress is not None and progress(text(what), done):
                    return 1
            except BaseException as error:  # noqa: B902 (the caller of the library raises it again)
                _raised.errors.append(error)
        return 1 if _raised.errors else 0

    return dict(abi.dpmf_run._fields_)["progress"](report)


@contextlib.contextmanager
def run_options(threads=0, progress=None):
    """A dpmf_run whose progress goes to `progress(what, done)`; what that raises, or an interrupt, cancels the work."""
    if progress is not None and not callable(progress):
        raise errors.ArgumentTypeError("progress is a %s, a function is accepted" % type(progress).__name__)
    run = c.dpmf_run_defaults()
    set_field(run, "threads", threads, ctypes.c_int)
    callback = make_callback(progress)
    run.progress = callback
    try:
        with interruptible():
            yield run
    except errors.CancelledError:
        _raised.again()  # outside the main thread it is raised here
        raise
    finally:
        del callback

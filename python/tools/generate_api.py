#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes python-api.md from the docstrings of the package, for the site and for the checks of words.

    generate_api.py FOLDER

The package must be importable, and torch, opacus, jax and optax be installed.
"""

import importlib
import inspect
import pathlib
import sys
import warnings

MODULES = ("dpmf", "dpmf.torch", "dpmf.federated", "dpmf.device", "dpmf.opacus", "dpmf.jax", "dpmf.interchange", "dpmf.audit")
MIXINS = ("Display", "Filed", "SavesState")
INTERNAL = ("add_noise",)
MADE_BY_OTHERS = ("Attached", "Design", "Mechanism", "Private")


def signature(thing):
    """Names and defaults; the types are in the source, and editors show them."""
    parts, star = [], False
    for p in inspect.signature(thing).parameters.values():
        if p.name in ("self", "cls"):
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        name = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        default = getattr(p.default, "__name__", None) or repr(p.default)
        parts.append(name if p.default is p.empty else "%s=%s" % (name, default))
    return "(%s)" % ", ".join(parts)


def text_of(thing):
    return inspect.cleandoc(thing.__doc__) if thing.__doc__ else ""


def block(text):
    """Prose as it is, examples and aligned lists as code."""
    out = []
    for part in text.split("\n\n"):
        code = (
            part.startswith(">>>")
            or not part.startswith(" ")
            and any("   " in line.strip() for line in part.splitlines())
        )
        out.append("\n".join("    " + line for line in part.splitlines()) if code else part)
    return "\n\n".join(out)


def members(kind):
    parts = [vars(base) for base in kind.__mro__ if base is kind or base.__name__ in MIXINS]
    for name, value in (item for part in parts for item in part.items()):
        if name.startswith("_") or name in INTERNAL:
            continue
        raw = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(value, property):
            yield "`%s`" % name, text_of(value)
        elif inspect.isfunction(raw):
            yield "`%s%s`" % (name, signature(raw)), text_of(raw)


def is_plain(kind):
    """An exception or a record: its docstring says it all."""
    return issubclass(kind, BaseException) or hasattr(kind, "__dataclass_fields__")


def describe(name, thing):
    if not inspect.isclass(thing):
        yield "### %s\n\n    %s%s\n" % (name, name, signature(thing))
        yield block(text_of(thing)) + "\n"
        return
    yield "### class %s\n" % name
    if "__init__" in vars(thing) and not is_plain(thing) and name not in MADE_BY_OTHERS:
        yield "    %s%s\n" % (name, signature(thing.__init__))
    yield block(text_of(thing)) + "\n"
    if hasattr(thing, "__dataclass_fields__"):
        yield "Fields: " + ", ".join("`%s`" % f for f in thing.__dataclass_fields__ if not f.startswith("_")) + ".\n"
    rows = (
        []
        if issubclass(thing, BaseException)
        else ["- %s%s" % (head, ": " + text.splitlines()[0] if text else "") for head, text in members(thing)]
    )
    if rows:
        yield "\n".join(rows) + "\n"


def write():
    out = [
        "<!-- Written by python/tools/generate_api.py from the docstrings: change those and run it again. -->\n# Python API\n"
    ]
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        out.append("## %s\n" % module_name)
        out.append(block(text_of(module)) + "\n")
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                out += list(describe(name, thing))
    return "\n".join(out)


def main(arguments):
    warnings.simplefilter("ignore")
    folder = pathlib.Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "python-api.md").write_text(write(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

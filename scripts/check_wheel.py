#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a wheel can be published: check_wheel.py WHEEL... | --self-test

It must be for any Python 3 on a manylinux platform, with libdpmf, which needs only the C library and exports exactly
the names in tests/symbols.txt; libdpmf_device, which needs libdpmf besides and exports what its header declares; no
search paths; the licences of all that is inside; a README without relative links. Needs readelf and nm.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from checking import report

TOP = pathlib.Path(__file__).resolve().parents[1]
NEEDED = re.compile(r"lib(c|m|gcc_s)\.so\.\d+|ld-linux-[a-z0-9_-]+\.so\.\d+")
CORE, DEVICE = "dpmf/libdpmf.so", "dpmf/libdpmf_device.so"
CORE_NAME = re.compile(r"libdpmf\.so\.\d+\.\d+")  # which the package has loaded before it loads the device's
LICENCES = ["libcjson", "liblapacke", "libopenblas-serial", "libssl"]
LARGEST = 100 << 20  # the size that PyPI accepts without a request


def exported():
    """The symbols of each library."""
    declared = re.findall(r"\b(dpmf_device_[a-z0-9_]+)\(", "\n".join(
        re.findall(r"^DPMF_API[^;]*;", (TOP / "include" / "dpmf_device.h").read_text(encoding="utf-8"), re.M)))
    return {CORE: set((TOP / "tests" / "symbols.txt").read_text(encoding="utf-8").split()), DEVICE: set(declared)}


def check_library(name, path, symbols):
    dynamic = subprocess.run(["readelf", "-dW", path], stdout=subprocess.PIPE, check=True).stdout.decode()
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not NEEDED.fullmatch(needed) and not (name == DEVICE and CORE_NAME.fullmatch(needed)):
            yield "needs %s" % needed
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        yield "has a search path"
    listed = subprocess.run(["nm", "-D", "--defined-only", path], stdout=subprocess.PIPE, check=True).stdout.decode()
    found = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    for symbol in sorted(found ^ symbols):
        yield "%s %s" % ("exports" if symbol in found else "does not export", symbol)


def check_text(names, metadata):
    """Licences and README, from the names in the wheel and its METADATA."""
    for name in ["LICENSE", *("bundled/%s.txt" % library for library in LICENCES)]:
        if not any(found.endswith(".dist-info/licenses/" + name) for found in names):
            yield "has no licences/%s" % name
    if "\n\n# dpmf" not in metadata:
        yield "shows no README"
    for link in re.findall(r"\]\(([^)]*)\)", metadata):
        if not link.startswith("https://"):
            yield "README has the link %s" % link


def check(wheel, symbols):
    """The problems of the wheel, one line each; `symbols` has those of each library."""
    wheel = pathlib.Path(wheel)
    if not re.fullmatch(r"dpmf-[0-9.]+-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl", wheel.name):
        yield "its tag is not py3-none-manylinux_2_*"
    if wheel.stat().st_size > LARGEST:
        yield "has %d bytes" % wheel.stat().st_size
    with zipfile.ZipFile(wheel) as file, tempfile.TemporaryDirectory() as folder:
        names = file.namelist()
        libraries = [name for name in names if ".so" in name]
        if sorted(libraries) != sorted(symbols):
            yield "has the libraries %s" % libraries
        for name in libraries:
            yield from check_library(name, file.extract(name, folder), symbols.get(name, symbols[CORE]))
        metadata = [name for name in names if name.endswith(".dist-info/METADATA")]
        yield from check_text(names, file.read(metadata[0]).decode() if metadata else "")


def self_test():
    """A wheel with a mistake of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "dpmf-1.0.0-cp311-cp311-linux_x86_64.whl"
        library = pathlib.Path(folder) / "lib.so"
        source = "int dpmf_one, other; char *zlibVersion(void); char *f(void); char *f(void) { return zlibVersion(); }"
        link = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-lz", "-Wl,-rpath,/nowhere"]
        subprocess.run(link, input=source.encode(), check=True)
        with zipfile.ZipFile(path, "w") as file:
            file.write(library, "dpmf/other.so")
            file.writestr("dpmf-1.0.0.dist-info/licenses/LICENSE", "")
            file.writestr("dpmf-1.0.0.dist-info/METADATA", "Name: dpmf\n\n# dpmf\n[a](b.md) [c](https://host.example)\n")
        found = list(check(path, {CORE: {"dpmf_one", "dpmf_two"}}))
    expected = ["its tag", "has the libraries", "needs libz", "has a search path", "does not export dpmf_two", "exports f"]
    expected += ["exports other", *("has no licences/bundled/" + name for name in LICENCES), "README has the link b.md"]
    missed = [words for words in expected if not any(line.startswith(words) for line in found)]
    print(*found, sep="\n", file=sys.stderr if missed else sys.stdout)
    return 1 if missed or len(found) != len(expected) else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    symbols = exported()
    return report(["%s: %s" % (wheel, line) for wheel in arguments for line in check(wheel, symbols)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

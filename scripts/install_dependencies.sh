#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Looks for what a target needs, prints what is missing and installs it; does nothing, quickly, when all is there.
# DPMF_INSTALL=no only prints what is missing, and fails if anything is.
#
#   install_dependencies.sh build    compiler, cmake, libraries
#   install_dependencies.sh demo     and the images that the demo trains on (Debian's Fashion-MNIST)
#   install_dependencies.sh test     and the test tools: clang-format, a Python environment in build/venv
#
# DPMF_CLANG=1 adds clang and its sanitizers, which `make test-long` needs. DPMF_ALL=1 adds what all optional tests need: clang, MPI, OpenCL on
# the processor (PoCL), a cross compiler and qemu, what makes a bare Debian for wheels, and Chromium, in which the pages of `report` are looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

level=${1:-build}
case $level in
build | demo | test) ;;
*)
    echo "install_dependencies.sh: '$level' is not a level; build, demo or test is" >&2
    exit 2
    ;;
esac

missing=()

need_command() { # package command...
    local package=$1 command
    shift
    for command in "$@"; do
        if command -v "$command" >/dev/null; then return; fi
    done
    missing+=("$package")
}

need_module() { # package pkg-config-module
    if ! pkg-config --exists "$2" 2>/dev/null; then missing+=("$1"); fi
}

find_missing() {
    missing=()
    need_command gcc cc
    if ! [ -e /usr/include/stdio.h ]; then missing+=(libc6-dev); fi
    need_command cmake cmake
    need_command pkgconf pkg-config pkgconf
    need_module libcjson-dev libcjson
    need_module liblapacke-dev lapacke
    need_module libopenblas-dev openblas
    need_module libssl-dev libcrypto
    need_module zlib1g-dev zlib
    need_module libcmocka-dev cmocka
    if [ "$level" != build ] && ! [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ]; then
        missing+=(dataset-fashion-mnist)
    fi
    if [ "$level" = test ]; then
        need_command clang-format-14 clang-format-14
        need_command python3 python3
        need_command binutils nm
        if ! [ -x build/venv/bin/python ] && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
            missing+=(python3-venv)
        fi
        if [ "${DPMF_ALL:-0}" = 1 ] || [ "${DPMF_CLANG:-0}" = 1 ]; then
            need_command clang-14 clang-14
            if ! [ -e "$(clang-14 -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a 2>/dev/null)" ]; then
                missing+=(libclang-rt-14-dev)
            fi
        fi
        if [ "${DPMF_ALL:-0}" = 1 ]; then
            need_module libopenmpi-dev ompi-c
            need_command gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
            need_command qemu-user-static qemu-aarch64-static
            need_command openmpi-bin mpirun
            need_command debootstrap debootstrap
            need_command dpkg-dev dpkg-source
            if ! [ -e /usr/include/CL/cl.h ]; then missing+=(ocl-icd-opencl-dev); fi
            if ! ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1; then missing+=(pocl-opencl-icd); fi
            need_command chromium chromium chromium-browser google-chrome
        fi
    fi
}

install_packages() {
    local run=() log
    if [ "$(id -u)" != 0 ]; then run=(sudo); fi
    if ! command -v apt-get >/dev/null || ! command -v "${run[0]:-env}" >/dev/null; then
        echo "These are missing (names of the Debian packages): ${missing[*]}" >&2
        echo "Install them with this system's package manager and run again." >&2
        exit 1
    fi
    echo "These Debian packages are missing and will be installed (DPMF_INSTALL=no: only check): ${missing[*]}" >&2
    log=$("${run[@]}" env DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' sh "${missing[@]}" 2>&1) || {
        echo "$log" >&2
        exit 1
    }
}

python_ready() {
    [ -x build/venv/bin/python ] && build/venv/bin/python -c '
import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in ("codespell_lib", "mpmath", "numpy", "safetensors")))'
}

install_python() {
    echo "codespell, mpmath, numpy and safetensors will be installed from the package index into build/venv" >&2
    rm -rf build/venv
    python3 -m venv build/venv
    build/venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: 'codespell==2.4.*' mpmath numpy safetensors >&2
}

find_missing
if [ "${DPMF_INSTALL:-yes}" = no ]; then
    if [ ${#missing[@]} -gt 0 ]; then
        echo "Missing (names of the Debian packages): ${missing[*]}" >&2
        exit 1
    fi
    if [ "$level" = test ] && ! python_ready; then
        echo "Missing: build/venv with codespell, mpmath, numpy and safetensors" >&2
        exit 1
    fi
    exit 0
fi
if [ ${#missing[@]} -gt 0 ]; then
    install_packages
    find_missing
    if [ ${#missing[@]} -gt 0 ]; then
        echo "Still missing after installing: ${missing[*]}" >&2
        exit 1
    fi
fi
if [ "$level" = test ] && ! python_ready; then
    # Without it two tests fail, and say so; the others need not wait for a network.
    install_python && python_ready || echo "build/venv could not be made: check_safetensors and check_spelling will fail" >&2
fi

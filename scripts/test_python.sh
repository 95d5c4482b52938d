#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Python package into an empty environment and runs its tests: with torch (its CPU build) and Opacus, and with
# jax_privacy where that can be installed.
#
#   test_python.sh [NAME...]     all tests, or test_noise, test_torch, ...
#   test_python.sh --reference   no test: writes build/reference/python-api.md from the docstrings
#
# The environment is build/python-venv; results go to build/results/python.xml.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_dependencies.sh test
venv=build/python-venv
results=build/results
mkdir -p build $results
rm -f $results/python.xml $results/python.broken
trap 'if [ ! -e $results/python.xml ]; then touch $results/python.broken; fi' EXIT

pip_install() {
    # Tries twice, since package indexes fail now and then.
    $venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" ||
        $venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
}

export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
if ! [ -x $venv/bin/python ]; then python3 -m venv $venv; fi
# The package first, into an environment with nothing else; objects are kept in build/ for the next time.
$venv/bin/python -m pip uninstall --quiet --yes dpmf 2>/dev/null || true
pip_install -C build-dir="$PWD/build/python-wheel" .
pip_install --constraint python/tests/versions.txt torch opacus
pip_install jax-privacy || echo "jax_privacy could not be installed: its test is skipped" >&2

# Each test uses one thread: they compare bits and rounding, not speed, and share the machine.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
unset DPMF_LIBRARY PYTHONPATH
if [ "${1:-}" = --reference ]; then
    trap - EXIT
    exec $venv/bin/python python/tools/generate_api.py build/reference
fi
$venv/bin/python python/tests/run_all.py $results/python.xml "$@"

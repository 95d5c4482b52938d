#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what dpmf has for other frameworks in the frameworks themselves: dpmf.flower and dpmf.nvflare with their own servers and clients
# on 127.0.0.1; dpmf.transformers (with PEFT and Accelerate) and dpmf.lightning with tiny models.
#
#   test_frameworks.sh [flower] [nvflare] [trainers]     all, unless some are named
#
# Each name has an environment of its own, build/NAME-venv, because frameworks need different versions of the same packages; none is
# a dependency of dpmf. One that cannot be installed is skipped with the reason. Results go to build/results/NAME.xml.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_dependencies.sh test
results=build/results
mkdir -p $results
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
export DPMF=$PWD/build/dpmf # for dpmf account --log; the tests are skipped without it
unset DPMF_LIBRARY PYTHONPATH
status=0

# Packages, in this order (torch first, so that its build is not chosen by another package), and tests.
declare -A packages=([flower]=flwr [nvflare]=nvflare [trainers]="torch transformers peft accelerate lightning")
declare -A tests=([flower]=test_flower [nvflare]=test_nvflare [trainers]="test_transformers test_huggingface test_lightning")
if [ $# -eq 0 ]; then set -- flower nvflare trainers; fi
for name in "$@"; do
    venv=build/$name-venv
    rm -f "$results/$name.xml" "$results/$name.broken"
    if ! [ -x $venv/bin/python ]; then python3 -m venv $venv; fi
    # dpmf comes last, so that a package of its name in the index cannot take its place. Objects are shared with test_python.sh.
    $venv/bin/python -m pip uninstall --quiet --yes dpmf 2>/dev/null || true
    for package in ${packages[$name]}; do
        if ! $venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint python/tests/versions.txt "$package"; then
            echo "$package could not be installed: its test is skipped" >&2
        fi
    done
    if ! $venv/bin/python -m pip install --quiet --disable-pip-version-check -C build-dir="$PWD/build/python-wheel" .; then
        touch "$results/$name.broken"
        status=1
        continue
    fi
    (cd python/tests && "$PWD/../../$venv/bin/python" run_all.py "$PWD/../../$results/$name.xml" ${tests[$name]}) || status=1
    if ! [ -e "$results/$name.xml" ]; then touch "$results/$name.broken"; fi
done
exit $status

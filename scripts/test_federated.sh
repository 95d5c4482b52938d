#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs dpmf.flower and dpmf.nvflare in the frameworks themselves: their own servers and clients on 127.0.0.1.
#
#   test_federated.sh [flower] [nvflare]     both, unless one is named
#
# Each framework has an environment of its own, build/flower-venv and build/nvflare-venv, because they need different versions of the
# same packages; neither is a dependency of dpmf. One that cannot be installed is skipped with the reason. Results go to
# build/results/flower.xml and nvflare.xml.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_dependencies.sh test
results=build/results
mkdir -p $results
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
export DPMF=$PWD/build/dpmf # for dpmf account --log; the tests are skipped without it
unset DPMF_LIBRARY PYTHONPATH
status=0

# The names of their packages.
declare -A packages=([flower]=flwr [nvflare]=nvflare)
if [ $# -eq 0 ]; then set -- flower nvflare; fi
for name in "$@"; do
    venv=build/$name-venv
    rm -f "$results/$name.xml" "$results/$name.broken"
    if ! [ -x $venv/bin/python ]; then python3 -m venv $venv; fi
    # dpmf comes last, so that a package of its name in the index cannot take its place. Objects are shared with test_python.sh.
    $venv/bin/python -m pip uninstall --quiet --yes dpmf 2>/dev/null || true
    if ! $venv/bin/python -m pip install --quiet --disable-pip-version-check "${packages[$name]}"; then
        echo "${packages[$name]} could not be installed: its test is skipped" >&2
    fi
    if ! $venv/bin/python -m pip install --quiet --disable-pip-version-check -C build-dir="$PWD/build/python-wheel" .; then
        touch "$results/$name.broken"
        status=1
        continue
    fi
    (cd python/tests && "$PWD/../../$venv/bin/python" run_all.py "$PWD/../../$results/$name.xml" test_$name) || status=1
    if ! [ -e "$results/$name.xml" ]; then touch "$results/$name.broken"; fi
done
exit $status

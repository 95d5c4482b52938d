#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares with other libraries, in one run on one machine, and writes bench/results.csv.
#
#   bench/peers/run.sh accounting     dp-accounting, Opacus
#   bench/peers/run.sh composition    dp-accounting; ends with 1 where a curve that goes there or back is no bound
#   bench/peers/run.sh optimizers     jax_privacy
#   bench/peers/run.sh design         jax_privacy; --all: its own search over bands too, minutes
#   bench/peers/run.sh noise          torch, NumPy
#   bench/peers/run.sh torch_step     torch: the noise of a private step of 10M parameters, from Python
#
# They are installed into bench/peers/venv and are no dependency of anything else.
set -euo pipefail
cd "$(dirname "$0")/../.."

name=${1:-}
case $name in
accounting) packages=(dp-accounting opacus torch==2.13.0) target=bench_accounting program=build/bench/bench_accounting ;;
composition) packages=(dp-accounting==0.6.0) target="dpmf dpmf_program" program=build/dpmf ;;
optimizers) packages=(jax jax-privacy) target=dpmf_program program=build/dpmf ;;
design) packages=(jax jax-privacy) target=dpmf_program program=build/dpmf ;;
noise) packages=(numpy torch==2.13.0) target=bench_seed program=build/bench/bench_seed ;;
torch_step) packages=(. numpy torch==2.13.0) target=dpmf program=build/dpmf ;;
*)
    echo "run.sh: '$name' is not a comparison; accounting, composition, optimizers, design, noise and torch_step are" >&2
    exit 2
    ;;
esac
venv=bench/peers/venv
if ! [ -x $venv/bin/python ]; then python3 -m venv $venv; fi
$venv/bin/python -m pip install --quiet --disable-pip-version-check "${packages[@]}"
scripts/install_dependencies.sh build
cmake --preset release >/dev/null
cmake --build --preset release --parallel "${JOBS:-$(nproc)}" --target $target >/dev/null
$venv/bin/python bench/peers/"$name".py "$program" "${@:2}"

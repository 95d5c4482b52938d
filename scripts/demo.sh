#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a training run to a private model: demo.sh [PROGRAM [DIRECTORY]]
set -euo pipefail
program=$(realpath "${1:-build/dpmf}")
exec python3 "$(dirname "$0")/demo.py" "$program" "${2:-build/demo}"

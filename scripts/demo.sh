#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A tour of the program: demo.sh [PROGRAM]
set -euo pipefail
program=$(realpath "${1:-build/dpmf}")
exec python3 "$(dirname "$0")/demo.py" "$program"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The spelling of pages, sources and scripts: check_spelling.sh [CODESPELL]; words that are right are in spelling.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${1:-build/venv/bin/codespell}" --ignore-words scripts/spelling.txt README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs/*.md \
    tests/README.md include cli src train scripts python/dpmf examples

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One version everywhere: check_version.sh VERSION-IN-CMAKE PROGRAM
set -euo pipefail
built=$1
program=$(realpath "$2")
cd "$(dirname "$0")/.."

failed=0
expect() { # where, found
    if [ "$2" != "$version" ]; then
        echo "$1 says version '$2', include/dpmf.h says '$version'" >&2
        failed=1
    fi
}

part() { sed -nE "s/^#define DPMF_VERSION_$1 ([0-9]+)\$/\1/p" include/dpmf.h; }

version=$(sed -nE 's/^#define DPMF_VERSION "([0-9]+\.[0-9]+\.[0-9]+)"$/\1/p' include/dpmf.h)
if [ -z "$version" ]; then
    echo "include/dpmf.h has no DPMF_VERSION of the form \"1.2.3\"" >&2
    exit 1
fi
expect "include/dpmf.h (MAJOR, MINOR, PATCH)" "$(part MAJOR).$(part MINOR).$(part PATCH)"
expect "CMake" "$built"
expect "CHANGELOG.md (its first section)" "$(sed -nE 's/^## \[?([0-9][0-9.]*).*/\1/p' CHANGELOG.md | head -n 1)"
expect "dpmf --version" "$("$program" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)"
exit $failed

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Exported symbols are a decision: the shared and the static library export what tests/symbols.txt lists, the public
# header declares the same, and nothing else gets out.
#
#   check_symbols.sh SHARED STATIC      compares
#   check_symbols.sh SHARED --update    rewrites tests/symbols.txt, to be reviewed as a diff
set -euo pipefail
export LC_ALL=C
library=$(realpath "$1")
case ${2:-} in
--update) static= ;;
*) static=$(realpath "$2") ;;
esac
cd "$(dirname "$0")/.."

exported=$(nm -D --defined-only --format=posix "$library" | awk '{ print $1 }' | sort)
if [ "${2:-}" = --update ]; then
    echo "$exported" >tests/symbols.txt
    exit 0
fi

failed=0
compare() { # what, its lines
    if ! difference=$(diff tests/symbols.txt <(echo "$2")); then
        echo "$1 (>) and tests/symbols.txt (<) differ:" >&2
        echo "$difference" >&2
        failed=1
    fi
}

compare "$library" "$exported"
compare "$static" "$(nm --extern-only --defined-only --format=posix "$static" 2>/dev/null | awk 'NF > 1 { print $1 }' | sort)"
# A declaration starts with DPMF_API and its name is the first dpmf_ word that a parenthesis follows.
declared=$(cat include/dpmf.h include/dpmf_experimental.h | sed -n '/^DPMF_API/,/;/p' | tr '\n' ' ' | sed 's/DPMF_API/\n/g' |
    sed -nE 's/^[^(]*\b(dpmf_[a-z0-9_]+)\(.*/\1/p' | sort)
compare "the headers" "$declared"

if internal=$(awk '!/^dpmf_/ { print; found = 1 } END { exit !found }' <<<"$exported"); then
    echo "These symbols must not be exported:" $internal >&2
    failed=1
fi
exit $failed

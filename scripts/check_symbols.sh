#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Exported symbols are a decision: the shared and the static library export what tests/symbols.txt lists, the public
# header declares the same, and nothing else gets out; dpmf.h stays a manual that can be read: at most 170 functions, at most 50 of
# them in its simple tier. For libdpmf_train the list is tests/symbols_train.txt.
#
#   check_symbols.sh SHARED STATIC      compares
#   check_symbols.sh SHARED --update    rewrites the list, to be reviewed as a diff
set -euo pipefail
export LC_ALL=C
library=$(realpath "$1")
case ${2:-} in
--update) static= ;;
*) static=$(realpath "$2") ;;
esac
cd "$(dirname "$0")/.."
case ${library##*/} in
libdpmf_train.*) list=tests/symbols_train.txt headers=include/dpmf_train.h ;;
*) list=tests/symbols.txt headers="include/dpmf.h include/dpmf_experimental.h" ;;
esac

exported=$(nm -D --defined-only --format=posix "$library" | awk '{ print $1 }' | sort)
if [ "${2:-}" = --update ]; then
    echo "$exported" >$list
    exit 0
fi

failed=0
compare() { # what, its lines
    if ! difference=$(diff $list <(echo "$2")); then
        echo "$1 (>) and $list (<) differ:" >&2
        echo "$difference" >&2
        failed=1
    fi
}

compare "$library" "$exported"
compare "$static" "$(nm --extern-only --defined-only --format=posix "$static" 2>/dev/null | awk 'NF > 1 { print $1 }' | sort)"
# A declaration starts with DPMF_API and its name is the first dpmf_ word that a parenthesis follows.
declared=$(cat $headers | sed -n '/^DPMF_API/,/;/p' | tr '\n' ' ' | sed 's/DPMF_API/\n/g' |
    sed -nE 's/^[^(]*\b(dpmf_[a-z0-9_]+)\(.*/\1/p' | sort)
compare "$headers" "$declared"

tiers=$(awk '/^ \* [0-9]+  [A-Z]/ || /---- counting ----/ { simple = 1 } /---- expert ----/ { simple = 0 }
    /^DPMF_API/ { all++; few += simple } END { print all, few }' include/dpmf.h)
read -r functions few <<<"$tiers"
if [ "$functions" -gt 170 ] || [ "$few" -gt 50 ]; then
    echo "include/dpmf.h: $functions functions, $few in the simple tier; at most 170 and 50 are accepted" >&2
    failed=1
fi

if internal=$(awk '!/^dpmf_/ { print; found = 1 } END { exit !found }' <<<"$exported"); then
    echo "These symbols must not be exported:" $internal >&2
    failed=1
fi
exit $failed

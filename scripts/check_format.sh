#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names the C files that are not formatted as in .clang-format; --fix formats them (`make format`).
set -euo pipefail
cd "$(dirname "$0")/.."

# Other versions of the tool format the same settings differently.
if ! command -v clang-format-14 >/dev/null; then
    echo "check_format.sh: clang-format-14 is needed" >&2
    exit 1
fi

mapfile -d '' files < <(find include src cli tests examples bench python -name venv -prune -o -name '*.[ch]' -print0 | sort -z)
if [ "${1:-}" = --fix ]; then
    clang-format-14 -i "${files[@]}"
    exit
fi

if clang-format-14 --dry-run --Werror "${files[@]}" 2>/dev/null; then exit 0; fi
failed=0
for file in "${files[@]}"; do
    if ! lines=$(diff <(clang-format-14 "$file") "$file"); then
        echo "$file: $(grep -c '^>' <<<"$lines" || true) lines are not formatted, the first is" >&2
        echo "    $(grep -m 1 '^[<>]' <<<"$lines" | cut -c 3-)" >&2
        failed=1
    fi
done
if [ $failed = 1 ]; then echo "run make format to fix them" >&2; fi
exit $failed

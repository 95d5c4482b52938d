#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures, builds and tests presets, one after the other, also after a failure:
#
#   run_tests.sh PRESET...        a preset of CMakePresets.json; NAME-long runs the tests labelled `long` of build NAME
#
# build/results gets one JUnit file per preset (scripts/count_results.py adds them up). JOBS: the number of parallel jobs.
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
results=$PWD/build/results
rm -rf "$results"
mkdir -p "$results"

# The sanitizers of older compilers cannot start where the kernel randomizes addresses widely; setarch -R helps there.
runner_for() { # compiler, -fsanitize= value
    local probe=$results/probe
    echo 'int main(void) { return 0; }' | "$1" -fsanitize="$2" -x c - -o "$probe" || return 1
    local try
    for try in 1 2 3 4 5; do
        if ! "$probe" 2>/dev/null; then
            runner=(setarch "$(uname -m)" -R)
            break
        fi
    done
    "${runner[@]}" "$probe" || {
        echo "run_tests.sh: programs built with -fsanitize=$2 do not start on this machine" >&2
        return 1
    }
    rm -f "$probe"
}

run() { # preset
    local build=${1%-long} targets=(all)
    runner=()
    case $1 in
    asan*) runner_for clang-14 address || return 1 ;;
    tsan) runner_for cc thread && targets=(threads_tests) || return 1 ;;
    esac
    case $1 in *-long) targets+=(long_tests) ;; esac
    cmake --preset "$build" >"$results/$1.configure.log" 2>&1 || {
        cat "$results/$1.configure.log" >&2
        return 1
    }
    cmake --build --preset "$build" --parallel "$jobs" --target "${targets[@]}" >"$results/$1.build.log" 2>&1 || {
        grep -vE '^\[ *[0-9]+%\]' "$results/$1.build.log" >&2
        return 1
    }
    "${runner[@]}" ctest --preset "$1" --parallel "$jobs" --output-junit "$results/$1.xml"
}

status=0
for preset in "$@"; do
    echo "== $preset"
    run "$preset" || status=1
    if ! [ -s "$results/$preset.xml" ]; then
        touch "$results/$preset.broken"
        status=1
    fi
done
exit $status

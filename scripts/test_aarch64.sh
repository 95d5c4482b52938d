#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The noise core on another processor: builds for aarch64 with Debian's cross compiler and runs the known-answer tests of
# the stream under qemu-user. The libraries come from Debian's arm64 packages, unpacked under build/aarch64: only the
# compiler and qemu are installed, and no foreign architecture is added to the system. Results go to
# build/results/aarch64.xml.
#
#   test_aarch64.sh
set -euo pipefail
cd "$(dirname "$0")/.."
# These compare the bits of seeds, normals and rows with vectors of an independent program, and test files and parsing.
tests=(test_crypto_seed test_crypto_seed_normal test_crypto_key test_noise_stream test_noise_stream_families test_noise test_base_safetensors test_base_json
    test_base_array test_base_text test_sampler)

DPMF_ALL=1 scripts/install_dependencies.sh test
results=$PWD/build/results
jobs=${JOBS:-$(nproc)}
mkdir -p "$results"
rm -f "$results/aarch64.xml" "$results/aarch64.broken"
trap 'if [ ! -e "$results/aarch64.xml" ]; then touch "$results/aarch64.broken"; fi' EXIT
# shellcheck source=scripts/aarch64_root.sh
. scripts/aarch64_root.sh
cmake -S . -B "$place/build" -DCMAKE_TOOLCHAIN_FILE="$place/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DDPMF_TESTS=ON -DDPMF_SHARED=OFF -DDPMF_MPI=OFF >"$place/configure.log" 2>&1 || {
    cat "$place/configure.log" >&2
    exit 1
}
cmake --build "$place/build" --parallel "$jobs" --target dpmf_program "${tests[@]}" >"$place/build.log" 2>&1 || {
    grep -vE '^\[ *[0-9]+%\]' "$place/build.log" >&2
    exit 1
}

run=(qemu-aarch64-static -L "$root"
    -E "LD_LIBRARY_PATH=$libraries:$libraries/openblas-pthread" -E OPENBLAS_NUM_THREADS=1 -E "DPMF_SOURCE=$PWD")
status=0 cases=""
record() { # name, 0 or not
    if [ "$2" = 0 ]; then
        echo "aarch64 $1: passed"
        cases+="<testcase name=\"$1\" status=\"run\"/>"
    else
        echo "aarch64 $1: FAILED"
        cases+="<testcase name=\"$1\" status=\"fail\"/>"
        status=1
    fi
}
try() { # name: its output in .log, its exit code in .code
    local code=0
    "${run[@]}" "$place/build/tests/$1" >"$place/$1.log" 2>&1 || code=$?
    echo $code >"$place/$1.code"
}
for name in "${tests[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    try "$name" &
done
wait
for name in "${tests[@]}"; do
    code=$(cat "$place/$name.code")
    if [ "$code" != 0 ]; then tail -20 "$place/$name.log"; fi
    record "$name" "$code"
done

# The program itself: the same rows as on this machine.
native=${DPMF:-build/dpmf}
if [ -x "$native" ]; then
    for family in "bsr --bands 5" "bisr --bands 5" "tree-online" "identity"; do
        # shellcheck disable=SC2086
        "$native" evaluate --steps 20 --bound none --family $family -o "$place/m.dpmf" >/dev/null
        wanted=$("$native" noise "$place/m.dpmf" --uncalibrated --dim 1000 --rows 0:20 --testing-seed 1 2>/dev/null | sha256sum)
        found=$("${run[@]}" "$place/build/dpmf" noise "$place/m.dpmf" --uncalibrated --dim 1000 --rows 0:20 --testing-seed 1 2>/dev/null | sha256sum)
        code=0
        [ "$wanted" = "$found" ] || code=1
        record "rows of $family" $code
    done
fi
echo "<testsuite name=\"aarch64\">$cases</testsuite>" >"$results/aarch64.xml"
exit $status

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The noise core on another processor: builds for aarch64 with Debian's cross compiler and runs the known-answer tests of
# the stream under qemu-user. The libraries come from Debian's arm64 packages, unpacked under build/aarch64: nothing is
# installed but the compiler and qemu, and no foreign architecture is added to the system. Results go to
# build/results/aarch64.xml.
#
#   test_aarch64.sh
set -euo pipefail
cd "$(dirname "$0")/.."
place=$PWD/build/aarch64
root=$place/root
libraries=$root/usr/lib/aarch64-linux-gnu
packages=(libssl-dev libcjson-dev libopenblas-dev liblapacke-dev liblbfgs-dev libcmocka-dev zlib1g-dev)
# The bits of seeds, normals and rows, against vectors that an independent program wrote, and files and parsing besides.
tests=(test_crypto_seed test_crypto_seed_normal test_crypto_key test_noise_stream test_noise_stream_families test_noise test_base_safetensors test_base_json
    test_base_array test_base_text test_sampler)

unpack() {
    mkdir -p "$place/state/lists/partial" "$place/cache/archives/partial" "$root"
    : >"$place/state/status"
    cat >"$place/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Dir::State "$place/state";
Dir::State::status "$place/state/status";
Dir::Cache "$place/cache";
END
    APT_CONFIG=$place/apt.conf apt-get update -qq
    APT_CONFIG=$place/apt.conf apt-get install -y -qq --no-install-recommends --download-only "${packages[@]}" >/dev/null
    for file in "$place"/cache/archives/*.deb; do dpkg-deb -x "$file" "$root"; done
    # What the packages' own scripts would have set up.
    for name in libblas.so.3 liblapack.so.3 libopenblas.so.0 libopenblas.so; do
        ln -sf "openblas-pthread/$name" "$libraries/$name"
    done
    for name in blas lapack; do ln -sf "$name-openblas.pc" "$libraries/openblas-pthread/pkgconfig/$name.pc"; done
    # Links that are meant from the root of a system, from this one.
    find "$root" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
        ln -sfn "$root$target" "$link"
    done
    touch "$place/unpacked"
}

DPMF_ALL=1 scripts/install_dependencies.sh test
results=$PWD/build/results
mkdir -p "$place" "$results"
rm -f "$results/aarch64.xml" "$results/aarch64.broken"
trap 'if [ ! -e "$results/aarch64.xml" ]; then touch "$results/aarch64.broken"; fi' EXIT
if ! [ -e "$place/unpacked" ]; then unpack; fi

cat >"$place/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_SYSROOT $root)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L$libraries -L$libraries/openblas-pthread -Wl,-rpath-link,$libraries:$libraries/openblas-pthread")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "\${CMAKE_EXE_LINKER_FLAGS_INIT}")
END
export PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$libraries/openblas-pthread/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
cmake -S . -B "$place/build" -DCMAKE_TOOLCHAIN_FILE="$place/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DDPMF_TESTS=ON -DDPMF_SHARED=OFF -DDPMF_MPI=OFF >"$place/configure.log" 2>&1 || {
    cat "$place/configure.log" >&2
    exit 1
}
cmake --build "$place/build" --parallel "${JOBS:-$(nproc)}" --target dpmf_program "${tests[@]}" >"$place/build.log" 2>&1 || {
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
for name in "${tests[@]}"; do
    code=0
    "${run[@]}" "$place/build/tests/$name" >"$place/$name.log" 2>&1 || code=$?
    if [ $code != 0 ]; then tail -20 "$place/$name.log"; fi
    record "$name" $code
done

# The program itself: the same rows as on this machine.
native=${DPMF:-build/dpmf}
if [ -x "$native" ]; then
    for family in "bsr --bands 5" "bisr --bands 5" "tree-online" "identity"; do
        # shellcheck disable=SC2086
        "$native" evaluate --steps 20 --bound none --family $family -o "$place/m.dpmf" >/dev/null
        wanted=$("$native" noise "$place/m.dpmf" --dim 1000 --rows 0:20 --testing-seed 1 2>/dev/null | sha256sum)
        found=$("${run[@]}" "$place/build/dpmf" noise "$place/m.dpmf" --dim 1000 --rows 0:20 --testing-seed 1 2>/dev/null | sha256sum)
        code=0
        [ "$wanted" = "$found" ] || code=1
        record "rows of $family" $code
    done
fi
echo "<testsuite name=\"aarch64\">$cases</testsuite>" >"$results/aarch64.xml"
exit $status

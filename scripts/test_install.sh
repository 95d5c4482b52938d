#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build into a scratch folder, moves it, and builds a user's program against it by find_package and by
# pkg-config, shared and static: test_install.sh BUILD-DIRECTORY
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first" >"$scratch/log"
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix

expect_file() {
    if ! [ -s "$prefix/$1" ]; then
        echo "test_install.sh: $1 was not installed" >&2
        exit 1
    fi
}
for file in bin/dpmf include/dpmf.h share/man/man1/dpmf.1 share/bash-completion/completions/dpmf \
    share/zsh/site-functions/_dpmf; do
    expect_file $file
done
"$prefix/bin/dpmf" --version >/dev/null
bash -n "$prefix/share/bash-completion/completions/dpmf"
# No installed file may refer to the build directory.
if grep -rIlF -e "$build" -e "$PWD/" -e "$scratch/first" "$prefix"; then
    echo "test_install.sh: the files above name the build or the source directory" >&2
    exit 1
fi

# find_package
cmake -S tests/install -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
cmake --build "$scratch/cmake" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/cmake/consumer_shared"
"$scratch/cmake/consumer_static"

# pkg-config
pc=$(find "$prefix" -name dpmf.pc)
export PKG_CONFIG_PATH=${pc%/dpmf.pc}
libraries=$(realpath "${pc%/pkgconfig/dpmf.pc}")
read -ra shared <<<"$(pkg-config --cflags --libs dpmf)"
cc tests/install/consumer.c "${shared[@]}" -lm -o "$scratch/pc_shared"
LD_LIBRARY_PATH=$libraries "$scratch/pc_shared"
read -ra static <<<"$(pkg-config --static --cflags --libs dpmf)"
cc tests/install/consumer.c "${static[@]/#-ldpmf/-l:libdpmf.a}" -o "$scratch/pc_static"
"$scratch/pc_static"
if ldd "$scratch/pc_static" | grep -q libdpmf; then
    echo "test_install.sh: pc_static loads the shared library" >&2
    exit 1
fi

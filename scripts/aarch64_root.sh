# SPDX-License-Identifier: Apache-2.0
# Sourced, in the top folder: Debian's arm64 libraries under build/aarch64/root, and the settings with which CMake,
# pkg-config and qemu use them. Sets place, root and libraries.
place=$PWD/build/aarch64
root=$place/root
libraries=$root/usr/lib/aarch64-linux-gnu
# The last five are for wheels: scripts/build_wheels.sh.
scripts/unpack_debian.sh arm64 "$place" libssl-dev libcjson-dev libopenblas-dev libopenblas-pthread-dev liblapacke-dev \
    libcmocka-dev zlib1g-dev libopenblas-serial-dev python3 libstdc++6 opencl-c-headers src:cjson
# The links that the packages' own scripts would have made.
for name in libblas.so.3 liblapack.so.3 libopenblas.so.0 libopenblas.so; do
    ln -sf "openblas-pthread/$name" "$libraries/$name"
done
for name in blas lapack; do ln -sf "$name-openblas.pc" "$libraries/openblas-pthread/pkgconfig/$name.pc"; done

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

/* SPDX-License-Identifier: Apache-2.0 */
/* Small blocks for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#define SET kernels_block_avx512
#define SET_NAME "avx512"
#include "kernels/block/body.inc"

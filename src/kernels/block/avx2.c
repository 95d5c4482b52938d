/* SPDX-License-Identifier: Apache-2.0 */
/* Small blocks for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#define SET kernels_block_avx2
#define SET_NAME "avx2"
#include "kernels/block/body.inc"

/* SPDX-License-Identifier: Apache-2.0 */
/* The ladders for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/ladder/ladder.h"
extern const kernels_ladder_set kernels_ladder_avx2;
#define KERNEL_BYTES 32
#define KERNEL_SET kernels_ladder_avx2
#define KERNEL_NAME "avx2"
#include "kernels/ladder/body.inc"

/* SPDX-License-Identifier: Apache-2.0 */
/* The ladders for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/ladder/ladder.h"
extern const kernels_ladder_set kernels_ladder_avx512;
#define KERNEL_BYTES 64
#define KERNEL_SET kernels_ladder_avx512
#define KERNEL_NAME "avx512"
#include "kernels/ladder/body.inc"

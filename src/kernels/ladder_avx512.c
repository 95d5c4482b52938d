/* SPDX-License-Identifier: Apache-2.0 */
/* The ladders for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/ladder.h"
extern const dpmf_i_kernels_ladder_set dpmf_i_kernels_ladder_avx512;
#define KERNEL_BYTES 64
#define KERNEL_SET dpmf_i_kernels_ladder_avx512
#define KERNEL_NAME "avx512"
#include "kernels/ladder_body.inc"

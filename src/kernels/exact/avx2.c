/* SPDX-License-Identifier: Apache-2.0 */
/* Exact products for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#include <immintrin.h>

#define KERNEL_BYTES 32
#define VECTORS 3 /* four rows of them and what is read fit the registers of this set */
#define WIDEN(from) ((part)_mm256_cvtps_pd(_mm_loadu_ps(from)))
#define SET kernels_exact_avx2
#define SET_NAME "avx2"
#include "kernels/exact/body.inc"

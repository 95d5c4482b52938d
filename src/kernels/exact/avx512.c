/* SPDX-License-Identifier: Apache-2.0 */
/* Exact products for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#include <immintrin.h>

#define KERNEL_BYTES 64
#define VECTORS 4 /* four rows of them and what is read fit the registers of this set */
#define WIDEN(from) ((part)_mm512_cvtps_pd(_mm256_loadu_ps(from)))
#define SET kernels_exact_avx512
#define SET_NAME "avx512"
#include "kernels/exact/body.inc"

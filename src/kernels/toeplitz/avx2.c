/* SPDX-License-Identifier: Apache-2.0 */
/* The Toeplitz recursions for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/toeplitz/toeplitz.h"
extern const kernels_toeplitz_set kernels_toeplitz_avx2;
#define KERNEL_SET kernels_toeplitz_avx2
#define KERNEL_NAME "avx2"
#define KERNEL_WIDTH 4
#include "kernels/toeplitz/body.inc"

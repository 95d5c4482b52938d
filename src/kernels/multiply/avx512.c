/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#define KERNEL_BYTES 64
#define VECTORS 4 /* four rows of them and what is read fit the registers of this set */
#define SET kernels_multiply_avx512
#define SET_NAME "avx512"
#include "kernels/multiply/body.inc"

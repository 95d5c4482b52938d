/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#define KERNEL_BYTES 32
#define VECTORS 2 /* four rows of them and what is read fit the registers of this set */
#define SET kernels_multiply_avx2
#define SET_NAME "avx2"
#include "kernels/multiply/body.inc"

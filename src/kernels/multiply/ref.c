/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices for ref; compiled with that instruction set switched on (CMakeLists.txt). */
#define KERNEL_BYTES 16
#define VECTORS 2 /* four rows of them and what is read fit the registers of this set */
#define SET kernels_multiply_ref
#define SET_NAME "ref"
#include "kernels/multiply/body.inc"

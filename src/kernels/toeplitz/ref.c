/* SPDX-License-Identifier: Apache-2.0 */
/* The Toeplitz recursions for ref; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/toeplitz/toeplitz.h"
extern const kernels_toeplitz_set kernels_toeplitz_ref;
#define KERNEL_SET kernels_toeplitz_ref
#define KERNEL_NAME "ref"
#define KERNEL_WIDTH 2
#include "kernels/toeplitz/body.inc"

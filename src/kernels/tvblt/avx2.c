/* SPDX-License-Identifier: Apache-2.0 */
/* The noise of a TV-BLT for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/tvblt/tvblt.h"
extern const kernels_tvblt_set kernels_tvblt_avx2;
#define KERNEL_BYTES 32
#define KERNEL_SET kernels_tvblt_avx2
#define KERNEL_NAME "avx2"
#include "kernels/tvblt/body.inc"

/* SPDX-License-Identifier: Apache-2.0 */
/* The noise of a TV-BLT for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/tvblt/tvblt.h"
extern const kernels_tvblt_set kernels_tvblt_avx512;
#define KERNEL_BYTES 64
#define KERNEL_SET kernels_tvblt_avx512
#define KERNEL_NAME "avx512"
#include "kernels/tvblt/body.inc"

/* SPDX-License-Identifier: Apache-2.0 */
/* The noise of a TV-BLT for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/tvblt/tvblt.h"
extern const dpmf_i_kernels_tvblt_set dpmf_i_kernels_tvblt_avx2;
#define KERNEL_BYTES 32
#define KERNEL_SET dpmf_i_kernels_tvblt_avx2
#define KERNEL_NAME "avx2"
#include "kernels/tvblt/body.inc"

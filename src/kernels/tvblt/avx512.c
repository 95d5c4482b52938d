/* SPDX-License-Identifier: Apache-2.0 */
/* The noise of a TV-BLT for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/tvblt/tvblt.h"
extern const dpmf_i_kernels_tvblt_set dpmf_i_kernels_tvblt_avx512;
#define KERNEL_BYTES 64
#define KERNEL_SET dpmf_i_kernels_tvblt_avx512
#define KERNEL_NAME "avx512"
#include "kernels/tvblt/body.inc"

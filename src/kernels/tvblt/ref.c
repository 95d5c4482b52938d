/* SPDX-License-Identifier: Apache-2.0 */
/* The noise of a TV-BLT, portable. */
#include "kernels/tvblt/tvblt.h"
extern const dpmf_i_kernels_tvblt_set dpmf_i_kernels_tvblt_ref;
#define KERNEL_BYTES 16
#define KERNEL_SET dpmf_i_kernels_tvblt_ref
#define KERNEL_NAME "ref"
#include "kernels/tvblt/body.inc"

/* SPDX-License-Identifier: Apache-2.0 */
/* The noise of a TV-BLT, portable. */
#include "kernels/tvblt/tvblt.h"
extern const kernels_tvblt_set kernels_tvblt_ref;
#define KERNEL_BYTES 16
#define KERNEL_SET kernels_tvblt_ref
#define KERNEL_NAME "ref"
#include "kernels/tvblt/body.inc"

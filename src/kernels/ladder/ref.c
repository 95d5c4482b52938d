/* SPDX-License-Identifier: Apache-2.0 */
/* The ladders, portable. */
#include "kernels/ladder/ladder.h"
extern const kernels_ladder_set kernels_ladder_ref;
#define KERNEL_BYTES 16
#define KERNEL_SET kernels_ladder_ref
#define KERNEL_NAME "ref"
#include "kernels/ladder/body.inc"

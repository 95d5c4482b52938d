/* SPDX-License-Identifier: Apache-2.0 */
/* The ladders, portable. */
#include "kernels/ladder.h"
extern const dpmf_i_kernels_ladder_set dpmf_i_kernels_ladder_ref;
#define KERNEL_BYTES 16
#define KERNEL_SET dpmf_i_kernels_ladder_ref
#define KERNEL_NAME "ref"
#include "kernels/ladder_body.inc"

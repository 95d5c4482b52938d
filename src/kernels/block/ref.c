/* SPDX-License-Identifier: Apache-2.0 */
/* Small blocks, portable. */
#define SET kernels_block_ref
#define SET_NAME "ref"
#include "kernels/block/body.inc"

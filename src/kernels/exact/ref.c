/* SPDX-License-Identifier: Apache-2.0 */
/* Exact products for ref: any machine. */
#define KERNEL_BYTES 16
#define VECTORS 2 /* four rows of them and what is read fit the registers of this set */
#define WIDEN(from) ((part){(double)(from)[0], (double)(from)[1]})
#define SET kernels_exact_ref
#define SET_NAME "ref"
#include "kernels/exact/body.inc"

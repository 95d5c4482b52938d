/* SPDX-License-Identifier: Apache-2.0 */
/* The recursions of the exact release for ref: any machine. */
#define KERNEL_BYTES 16
#define VECTORS 2 /* four rows of them and what is read fit the registers of this set */
#define SET kernels_whole_ref
#define SET_NAME "ref"
#include "kernels/whole/body.inc"

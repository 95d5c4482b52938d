/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated losses for any machine: the reference for the other sets. */
#define SET kernels_sample_ref
#define SET_NAME "ref"
#include "kernels/sample/body.inc"

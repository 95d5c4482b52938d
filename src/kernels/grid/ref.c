/* SPDX-License-Identifier: Apache-2.0 */
/* Contributions on a grid for any machine: the reference for the other sets. */
#define SET kernels_grid_ref
#define SET_NAME "ref"
#include "kernels/grid/body.inc"

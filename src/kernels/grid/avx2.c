/* SPDX-License-Identifier: Apache-2.0 */
/* Contributions on a grid for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#define SET kernels_grid_avx2
#define SET_NAME "avx2"
#include "kernels/grid/body.inc"

/* SPDX-License-Identifier: Apache-2.0 */
/* Contributions on a grid for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#define SET kernels_grid_avx512
#define SET_NAME "avx512"
#include "kernels/grid/body.inc"

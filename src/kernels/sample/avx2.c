/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated losses for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#define SET kernels_sample_avx2
#define SET_NAME "avx2"
#include "kernels/sample/body.inc"

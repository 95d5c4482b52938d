/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated losses for avx512; compiled with that instruction set switched on (CMakeLists.txt). */
#define SET kernels_sample_avx512
#define SET_NAME "avx512"
#include "kernels/sample/body.inc"

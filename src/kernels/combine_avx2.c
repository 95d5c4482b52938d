/* SPDX-License-Identifier: Apache-2.0 */
/* Combinations of rows for avx2; compiled with that instruction set switched on (CMakeLists.txt). */
#include "kernels/combine.h"

extern const dpmf_i_combine_kernels dpmf_i_combine_kernels_avx2;
#define KERNEL_BYTES 32
#define VECTORS 2 /* four rows of them and what is read fit the registers of this set */

#define REAL float
#define NAME(x) single_##x
#include "kernels/combine_body.inc"
#undef REAL
#undef NAME
#define REAL double
#define NAME(x) full_##x
#include "kernels/combine_body.inc"
#undef REAL
#undef NAME

#define TABLE(type)                                                                                                    \
    {                                                                                                                  \
        type##_store, type##_add, type##_sum, type##_feedback, type##_accumulate, type##_blt, type##_tvblt,            \
            type##_tvblt_second                                                                                        \
    }
const dpmf_i_combine_kernels dpmf_i_combine_kernels_avx2 = {"avx2", TABLE(single), TABLE(full)};

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the kernels: each of them in every instruction set, looked up by kernels/isa.c. */
#include "kernels/block.h"
#include "kernels/combine.h"
#include "kernels/exact.h"
#include "kernels/grid.h"
#include "kernels/isa.h"
#include "kernels/ladder.h"
#include "kernels/multiply.h"
#include "kernels/sample/sample.h"
#include "kernels/seed/seed.h"
#include "kernels/toeplitz.h"
#include "kernels/tvblt/tvblt.h"
#include "kernels/whole/whole.h"

#include <stddef.h>

#if defined(__x86_64__)
#define IF_X86_64(set) &(set)
#else
#define IF_X86_64(set) NULL /* other machines leave the files NAME_avx*.c out */
#endif

/* What NAME_ref.c, NAME_avx2.c and NAME_avx512.c define, and the two calls that NAME.h declares. */
extern const dpmf_i_kernels_seed_set dpmf_i_kernels_seed_vaes;
#define KERNEL(kernel, needs_what) KERNEL_WITH(kernel, needs_what, NULL)
#define KERNEL_WITH(kernel, needs_what, with_vaes)                                                                     \
    extern const kernel##_set kernel##_ref, kernel##_avx2, kernel##_avx512;                                            \
    static const dpmf_i_kernels_isa_table kernel##_sets = {                                                            \
        .set[DPMF_I_KERNELS_ISA_AVX512] = IF_X86_64(kernel##_avx512),                                                  \
        .set[DPMF_I_KERNELS_ISA_VAES] = with_vaes,                                                                     \
        .set[DPMF_I_KERNELS_ISA_AVX2] = IF_X86_64(kernel##_avx2),                                                      \
        .set[DPMF_I_KERNELS_ISA_REF] = &kernel##_ref,                                                                  \
        .needs = needs_what,                                                                                           \
    };                                                                                                                 \
    const kernel##_set *kernel##_get(void) {                                                                           \
        return dpmf_i_kernels_isa_get(&kernel##_sets);                                                                 \
    }                                                                                                                  \
    const kernel##_set *kernel##_find(const char *name) {                                                              \
        return dpmf_i_kernels_isa_find(&kernel##_sets, name);                                                          \
    }

KERNEL(dpmf_i_kernels_block, DPMF_I_KERNELS_ISA_PLAIN)
KERNEL(dpmf_i_kernels_combine, DPMF_I_KERNELS_ISA_PLAIN)
KERNEL(dpmf_i_kernels_exact, DPMF_I_KERNELS_ISA_FUSED)
KERNEL(dpmf_i_kernels_grid, DPMF_I_KERNELS_ISA_PLAIN)
KERNEL(dpmf_i_kernels_ladder, DPMF_I_KERNELS_ISA_PLAIN)
KERNEL(dpmf_i_kernels_multiply, DPMF_I_KERNELS_ISA_PLAIN)
KERNEL(dpmf_i_kernels_sample, DPMF_I_KERNELS_ISA_PLAIN)
KERNEL_WITH(dpmf_i_kernels_seed, DPMF_I_KERNELS_ISA_AES, IF_X86_64(dpmf_i_kernels_seed_vaes))
KERNEL(dpmf_i_kernels_toeplitz, DPMF_I_KERNELS_ISA_PLAIN)
KERNEL(dpmf_i_kernels_tvblt, DPMF_I_KERNELS_ISA_PLAIN)
KERNEL(dpmf_i_kernels_whole, DPMF_I_KERNELS_ISA_PLAIN)

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the kernels: each of them in every instruction set, looked up by kernels/isa.c. */
#include "kernels/block/block.h"
#include "kernels/combine/combine.h"
#include "kernels/exact/exact.h"
#include "kernels/grid/grid.h"
#include "kernels/isa.h"
#include "kernels/ladder/ladder.h"
#include "kernels/multiply/multiply.h"
#include "kernels/sample/sample.h"
#include "kernels/seed/seed.h"
#include "kernels/toeplitz/toeplitz.h"
#include "kernels/tvblt/tvblt.h"
#include "kernels/whole/whole.h"

#include <stddef.h>

#if defined(__x86_64__)
#define IF_X86_64(set) &(set)
#else
#define IF_X86_64(set) NULL /* other machines leave the files NAME/avx*.c out */
#endif

/* The tables that NAME/{ref,avx2,avx512}.c define, and the two calls that NAME/NAME.h declares. */
extern const kernels_seed_set kernels_seed_vaes;
#define KERNEL(kernel, needs_what) KERNEL_WITH(kernel, needs_what, NULL)
#define KERNEL_WITH(kernel, needs_what, with_vaes)                                                                     \
    extern const kernel##_set kernel##_ref, kernel##_avx2, kernel##_avx512;                                            \
    static const kernels_isa_table kernel##_sets = {                                                                   \
        .set[KERNELS_ISA_AVX512] = IF_X86_64(kernel##_avx512),                                                         \
        .set[KERNELS_ISA_VAES] = with_vaes,                                                                            \
        .set[KERNELS_ISA_AVX2] = IF_X86_64(kernel##_avx2),                                                             \
        .set[KERNELS_ISA_REF] = &kernel##_ref,                                                                         \
        .needs = needs_what,                                                                                           \
    };                                                                                                                 \
    const kernel##_set *kernel##_get(void) {                                                                           \
        return kernels_isa_get(&kernel##_sets);                                                                        \
    }                                                                                                                  \
    const kernel##_set *kernel##_find(const char *name) {                                                              \
        return kernels_isa_find(&kernel##_sets, name);                                                                 \
    }

KERNEL(kernels_block, KERNELS_ISA_PLAIN)
KERNEL(kernels_combine, KERNELS_ISA_PLAIN)
KERNEL(kernels_exact, KERNELS_ISA_FUSED)
KERNEL(kernels_grid, KERNELS_ISA_PLAIN)
KERNEL(kernels_ladder, KERNELS_ISA_PLAIN)
KERNEL(kernels_multiply, KERNELS_ISA_PLAIN)
KERNEL(kernels_sample, KERNELS_ISA_PLAIN)
KERNEL_WITH(kernels_seed, KERNELS_ISA_AES, IF_X86_64(kernels_seed_vaes))
KERNEL(kernels_toeplitz, KERNELS_ISA_PLAIN)
KERNEL(kernels_tvblt, KERNELS_ISA_PLAIN)
KERNEL(kernels_whole, KERNELS_ISA_PLAIN)

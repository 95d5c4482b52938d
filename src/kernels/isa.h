/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction set of the kernels: chosen once for all of them, and looked up for each in its table. */
#ifndef DPMF_KERNELS_ISA_H
#define DPMF_KERNELS_ISA_H

#include <stddef.h>

/* The sets, from the widest to the one that every machine has. */
typedef enum kernels_isa {
    KERNELS_ISA_AVX512,
    KERNELS_ISA_VAES, /* AVX2 with AES on 256 bits; only kernels that need AES have it */
    KERNELS_ISA_AVX2,
    KERNELS_ISA_REF,
    KERNELS_ISA_COUNT
} kernels_isa;

/* Requirements of a kernel's AVX2 and AVX-512 sets besides the set itself. */
typedef enum kernels_isa_needs {
    KERNELS_ISA_PLAIN,
    KERNELS_ISA_AES,
    KERNELS_ISA_FUSED, /* multiply and add in one */
    KERNELS_ISA_NEEDS
} kernels_isa_needs;

/* One kernel in every set that this build has; NULL in the places of the others. */
typedef struct kernels_isa_table {
    const void *set[KERNELS_ISA_COUNT];
    kernels_isa_needs needs;
} kernels_isa_table;

/* The kernel of the widest set that this machine has, or of DPMF_KERNELS if it has that; narrower where it lacks needs. */
const void *kernels_isa_get(const kernels_isa_table *table);

/* The kernel by the name of its set ("ref", "avx2", "vaes", "avx512"), or NULL if this machine or build lacks it. */
const void *kernels_isa_find(const kernels_isa_table *table, const char *name);

#if defined(__x86_64__)
#define IF_X86_64(set) &(set)
#else
#define IF_X86_64(set) NULL /* other machines have the set ref alone */
#endif

/* The tables of a kernel, of which its body.inc makes one per set (CMakeLists.txt), and the two calls of its header. */
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

#endif

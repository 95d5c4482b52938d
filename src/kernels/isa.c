/* SPDX-License-Identifier: Apache-2.0 */
/* Picks the instruction set once: the widest that processor and system have, or the one that DPMF_KERNELS names. */
#include "kernels/isa.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[KERNELS_ISA_COUNT] = {"avx512", "vaes", "avx2", "ref"};

#if defined(__x86_64__)
#include <cpuid.h>

static int has_vectors(kernels_isa set) {
    __builtin_cpu_init(); /* checks cpuid and which registers the system saves (XCR0) */
    if (set == KERNELS_ISA_AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
    return set == KERNELS_ISA_REF || __builtin_cpu_supports("avx2");
}

/* Not every compiler's __builtin_cpu_supports knows these. The check of AVX has covered what the system saves. */
static int has_aes(kernels_isa set) {
    const unsigned aes = 1u << 25, conflict_detection = 1u << 28, byte_and_word = 1u << 30, vaes = 1u << 9;
    unsigned a, b, c, d;
    if (set == KERNELS_ISA_REF) return 1;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & aes)) return 0;
    if (set == KERNELS_ISA_AVX2) return 1;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(c & vaes)) return 0;
    return set == KERNELS_ISA_VAES || ((b & conflict_detection) && (b & byte_and_word));
}

static int has_fused(kernels_isa set) {
    return set != KERNELS_ISA_AVX2 || __builtin_cpu_supports("fma"); /* AVX-512 has its own */
}
#else
static int has_vectors(kernels_isa set) {
    return set == KERNELS_ISA_REF;
}

static int has_aes(kernels_isa set) {
    return set == KERNELS_ISA_REF;
}

static int has_fused(kernels_isa set) {
    return set == KERNELS_ISA_REF;
}
#endif

static int has(kernels_isa set, kernels_isa_needs needs) {
    if (set == KERNELS_ISA_VAES && needs != KERNELS_ISA_AES) return 0;
    if (!has_vectors(set)) return 0;
    return needs == KERNELS_ISA_AES ? has_aes(set) : needs == KERNELS_ISA_FUSED ? has_fused(set) : 1;
}

static kernels_isa chosen[KERNELS_ISA_NEEDS]; /* indexed by the kernel's needs */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void) {
    const char *wanted = getenv("DPMF_KERNELS");
    kernels_isa first = KERNELS_ISA_AVX512;
    for (kernels_isa set = first; wanted != NULL && set < KERNELS_ISA_COUNT; set++)
        if (strcmp(wanted, names[set]) == 0 && (has(set, KERNELS_ISA_PLAIN) || has(set, KERNELS_ISA_AES))) first = set;
    for (kernels_isa_needs needs = 0; needs < KERNELS_ISA_NEEDS; needs++) {
        chosen[needs] = first;
        while (!has(chosen[needs], needs))
            chosen[needs]++; /* ends, since every machine has the last set */
    }
}

const void *kernels_isa_get(const kernels_isa_table *table) {
    pthread_once(&once, choose);
    const void *found = table->set[chosen[table->needs]];
    assert(found != NULL);
    return found;
}

const void *kernels_isa_find(const kernels_isa_table *table, const char *name) {
    for (kernels_isa set = KERNELS_ISA_AVX512; set < KERNELS_ISA_COUNT; set++)
        if (strcmp(name, names[set]) == 0) return has(set, table->needs) ? table->set[set] : NULL;
    return NULL;
}

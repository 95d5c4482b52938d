/* SPDX-License-Identifier: Apache-2.0 */
/* The seed kernels that go with the set which kernels/dispatch.c picked. */
#include "kernels/ladder.h"
#include "kernels/seed.h"

#include <string.h>

extern const dpmf_i_kernels_seed_set dpmf_i_kernels_seed_ref;
#if defined(__x86_64__)
#include <cpuid.h>
extern const dpmf_i_kernels_seed_set dpmf_i_kernels_seed_avx2, dpmf_i_kernels_seed_avx512;

/* Not all compilers' __builtin_cpu_supports knows these. What the system saves has been looked at with AVX. */
static int has_aes(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 25) != 0;
}

static int has_vaes(void) {
    unsigned a, b, c, d;
    const unsigned conflict_detection = 1u << 28, byte_and_word = 1u << 30, vaes = 1u << 9;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & conflict_detection) && (b & byte_and_word) && (c & vaes);
}
#endif

const dpmf_i_kernels_seed_set *dpmf_i_kernels_seed_find(const char *name) {
    if (dpmf_i_kernels_ladder_find(name) == NULL) return NULL;
#if defined(__x86_64__)
    if (strcmp(name, "avx512") == 0) return has_aes() && has_vaes() ? &dpmf_i_kernels_seed_avx512 : NULL;
    if (strcmp(name, "avx2") == 0) return has_aes() ? &dpmf_i_kernels_seed_avx2 : NULL;
#endif
    return &dpmf_i_kernels_seed_ref;
}

const dpmf_i_kernels_seed_set *dpmf_i_kernels_seed_get(void) {
    static const char *const order[] = {"avx512", "avx2", "ref"};
    const dpmf_i_kernels_seed_set *found = NULL;
    int i = 0;
    while (strcmp(order[i], dpmf_i_kernels_ladder_get()->name) != 0)
        i++;
    for (; found == NULL; i++)
        found = dpmf_i_kernels_seed_find(order[i]);
    return found;
}

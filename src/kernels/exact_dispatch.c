/* SPDX-License-Identifier: Apache-2.0 */
/* The set of exact products that goes with the one kernels/dispatch.c picked, if the processor can fuse. */
#include "kernels/exact.h"
#include "kernels/ladder.h"

#include <string.h>

extern const dpmf_i_kernels_exact_set dpmf_i_kernels_exact_ref;
#if defined(__x86_64__)
extern const dpmf_i_kernels_exact_set dpmf_i_kernels_exact_avx2, dpmf_i_kernels_exact_avx512;
#endif

const dpmf_i_kernels_exact_set *dpmf_i_kernels_exact_find(const char *name) {
    if (dpmf_i_kernels_ladder_find(name) == NULL) return NULL;
#if defined(__x86_64__)
    if (strcmp(name, "avx512") == 0) return &dpmf_i_kernels_exact_avx512;
    if (strcmp(name, "avx2") == 0) return __builtin_cpu_supports("fma") ? &dpmf_i_kernels_exact_avx2 : NULL;
#endif
    return &dpmf_i_kernels_exact_ref;
}

const dpmf_i_kernels_exact_set *dpmf_i_kernels_exact_get(void) {
    const dpmf_i_kernels_exact_set *found = dpmf_i_kernels_exact_find(dpmf_i_kernels_ladder_get()->name);
    return found != NULL ? found : &dpmf_i_kernels_exact_ref;
}

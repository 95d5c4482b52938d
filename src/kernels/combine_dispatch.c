/* SPDX-License-Identifier: Apache-2.0 */
/* The set of combination kernels that goes with the one kernels/dispatch.c picked. */
#include "kernels/combine.h"
#include "kernels/ladder.h"

#include <string.h>

extern const dpmf_i_kernels_combine_set dpmf_i_kernels_combine_ref;
#if defined(__x86_64__)
extern const dpmf_i_kernels_combine_set dpmf_i_kernels_combine_avx2, dpmf_i_kernels_combine_avx512;
#endif

const dpmf_i_kernels_combine_set *dpmf_i_kernels_combine_find(const char *name) {
    if (dpmf_i_kernels_ladder_find(name) == NULL) return NULL;
#if defined(__x86_64__)
    if (strcmp(name, "avx512") == 0) return &dpmf_i_kernels_combine_avx512;
    if (strcmp(name, "avx2") == 0) return &dpmf_i_kernels_combine_avx2;
#endif
    return &dpmf_i_kernels_combine_ref;
}

const dpmf_i_kernels_combine_set *dpmf_i_kernels_combine_get(void) {
    return dpmf_i_kernels_combine_find(dpmf_i_kernels_ladder_get()->name);
}

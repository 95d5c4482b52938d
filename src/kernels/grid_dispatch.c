/* SPDX-License-Identifier: Apache-2.0 */
/* The set for contributions on a grid that goes with the one kernels/dispatch.c picked. */
#include "kernels/grid.h"
#include "kernels/ladder.h"

#include <string.h>

extern const dpmf_i_kernels_grid_set dpmf_i_kernels_grid_ref;
#if defined(__x86_64__)
extern const dpmf_i_kernels_grid_set dpmf_i_kernels_grid_avx2, dpmf_i_kernels_grid_avx512;
#endif

const dpmf_i_kernels_grid_set *dpmf_i_kernels_grid_find(const char *name) {
    if (dpmf_i_kernels_ladder_find(name) == NULL) return NULL;
#if defined(__x86_64__)
    if (strcmp(name, "avx512") == 0) return &dpmf_i_kernels_grid_avx512;
    if (strcmp(name, "avx2") == 0) return &dpmf_i_kernels_grid_avx2;
#endif
    return &dpmf_i_kernels_grid_ref;
}

const dpmf_i_kernels_grid_set *dpmf_i_kernels_grid_get(void) {
    return dpmf_i_kernels_grid_find(dpmf_i_kernels_ladder_get()->name);
}

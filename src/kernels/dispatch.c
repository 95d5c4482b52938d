/* SPDX-License-Identifier: Apache-2.0 */
/* Picks the set of kernels once: the widest that processor and operating system have, or what DPMF_KERNELS names. */
#include "kernels/ladder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern const dpmf_i_kernels_ladder_set dpmf_i_kernels_ladder_ref;
#if defined(__x86_64__)
extern const dpmf_i_kernels_ladder_set dpmf_i_kernels_ladder_avx2, dpmf_i_kernels_ladder_avx512;
#endif

const dpmf_i_kernels_ladder_set *dpmf_i_kernels_ladder_find(const char *name) {
#if defined(__x86_64__)
    __builtin_cpu_init(); /* looks at cpuid and at what the system saves (XCR0) */
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512dq")
                   ? &dpmf_i_kernels_ladder_avx512
                   : NULL;
    if (strcmp(name, "avx2") == 0) return __builtin_cpu_supports("avx2") ? &dpmf_i_kernels_ladder_avx2 : NULL;
#endif
    return strcmp(name, "ref") == 0 ? &dpmf_i_kernels_ladder_ref : NULL;
}

static const dpmf_i_kernels_ladder_set *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void) {
    static const char *const order[] = {"avx512", "avx2", "ref"};
    const char *wanted = getenv("DPMF_KERNELS");
    if (wanted != NULL) chosen = dpmf_i_kernels_ladder_find(wanted);
    for (int i = 0; i < 3 && chosen == NULL; i++)
        chosen = dpmf_i_kernels_ladder_find(order[i]);
}

const dpmf_i_kernels_ladder_set *dpmf_i_kernels_ladder_get(void) {
    pthread_once(&once, choose);
    return chosen;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of seed noise: nanoseconds per number on one core for the AES-256 keystream that the number consumes, floats
 * and doubles, for each kernel set. Each figure is the least of many short runs over memory that fits the cache, by the
 * wall clock: the speed of an undisturbed core.
 *
 * The kernels are internal, so the declarations from src/kernels/seed/seed.h are repeated here.
 */
#include "dpmf.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct seed_key {
    _Alignas(64) uint8_t round[15][16];
    _Alignas(64) uint8_t second[256][16];
    void *contexts;
} seed_key;

typedef struct seed_kernels {
    const char *name;
    dpmf_status (*open)(const uint8_t key[32], seed_key *out);
    void (*close)(seed_key *key);
    int (*keystream)(const seed_key *key, uint64_t high, uint64_t index, size_t blocks, uint8_t *out);
    int (*floats)(const seed_key *key, uint64_t row, uint64_t group, size_t groups, float *out);
    int (*doubles)(const seed_key *key, uint64_t row, uint64_t group, size_t groups, double *out);
} seed_kernels;

const seed_kernels *kernels_seed_find(const char *name);

enum { COUNT = 1 << 13, GROUP = 64, REPEATS = 5000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

typedef enum kind { KEYSTREAM4, FLOATS, KEYSTREAM8, DOUBLES, KINDS } kind;

/* Nanoseconds per number. */
static double measure(const seed_kernels *set, const seed_key *key, kind what, void *out) {
    double least = 1e9;
    int good = 1;
    for (uint64_t r = 0; r < REPEATS; r++) {
        const double start = now();
        switch (what) {
        case KEYSTREAM4:
            good &= set->keystream(key, r, 0, COUNT / 4, out);
            break;
        case KEYSTREAM8:
            good &= set->keystream(key, r, 0, COUNT / 2, out);
            break;
        case FLOATS:
            good &= set->floats(key, r, 0, COUNT / GROUP, out);
            break;
        default:
            good &= set->doubles(key, r, 0, COUNT / GROUP, out);
            break;
        }
        const double elapsed = (now() - start) / COUNT;
        if (elapsed < least) least = elapsed;
    }
    if (!good) exit(1);
    return least;
}

int main(void) {
    static const char *const names[] = {"ref", "avx2", "vaes", "avx512"};
    static _Alignas(64) double out[COUNT];
    const uint8_t key[32] = {1};
    printf("set      keystream4   floats  ratio   keystream8  doubles  ratio     (ns per number, one core)\n");
    for (int i = 0; i < 4; i++) {
        const seed_kernels *set = kernels_seed_find(names[i]);
        seed_key expanded;
        double t[KINDS];
        if (set == NULL) continue;
        if (set->open(key, &expanded) != DPMF_OK) return 1;
        for (kind k = KEYSTREAM4; k < KINDS; k++)
            t[k] = measure(set, &expanded, k, out);
        printf("%-8s %10.3f %8.3f %6.2f   %10.3f %8.3f %6.2f\n", set->name, t[KEYSTREAM4], t[FLOATS],
               t[FLOATS] / t[KEYSTREAM4], t[KEYSTREAM8], t[DOUBLES], t[DOUBLES] / t[KEYSTREAM8]);
        set->close(&expanded);
    }
    return 0;
}

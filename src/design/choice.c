/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice: candidates in order of noise; eligible are those whose stream fits the memory and is fast enough; of the
 * eligible within 0.1 % of the least noise the one with the fewest buffers.
 *
 * If times are measured, this file measures only the streams that the choice needs, from the least noise up, and then
 * those that are shown beside it.
 */
#include "base/memory.h"
#include "design/design.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

static int compare_integers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/*
 * Compares everything in which two candidates can differ, so that the order does not depend on the sorting algorithm.
 */
static int compare_candidates(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->compared != b->compared) return a->compared < b->compared ? -1 : 1;
    if (a->info.buffers != b->info.buffers) return compare_integers(a->info.buffers, b->info.buffers);
    if (a->info.sampling.kind != b->info.sampling.kind)
        return compare_integers((int64_t)a->info.sampling.kind, (int64_t)b->info.sampling.kind);
    int families = strcmp(a->info.family, b->info.family);
    if (families != 0) return families;
    if (a->info.sampling.count != b->info.sampling.count)
        return compare_integers(a->info.sampling.count, b->info.sampling.count);
    return compare_integers(a->info.normalized, b->info.normalized);
}

/* ---- eligible candidates ---- */

static int fits(const dpmf_design *d, int64_t i) {
    return design_fits(d, d->candidates[i].info.memory_bytes);
}

/* ---- no eligible candidate ---- */

static dpmf_status fail_memory(const dpmf_design *d) {
    int64_t least = 0;
    for (int64_t i = 1; i < d->count; i++)
        if (d->candidates[i].info.memory_bytes < d->candidates[least].info.memory_bytes) least = i;
    const dpmf_candidate *c = &d->candidates[least].info;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "design: no candidate fits the memory of %llu bytes; the smallest, %s with %lld buffers, takes "
                     "%llu for rows of %lld numbers",
                     (unsigned long long)d->options.memory, c->family, (long long)c->buffers,
                     (unsigned long long)c->memory_bytes, (long long)d->options.dim);
}

static dpmf_status fail_overhead(const dpmf_design *d) {
    const dpmf_candidate *fastest = NULL;
    for (int64_t i = 0; i < d->count; i++) {
        const dpmf_candidate *c = &d->candidates[i].info;
        if (c->overhead > 0 && (fastest == NULL || c->overhead < fastest->overhead)) fastest = c;
    }
    assert(fastest != NULL);
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "design: no candidate that fits the memory takes at most %g times the time of independent "
                     "noise; the fastest, %s with %lld buffers, takes %.3g times",
                     d->options.max_overhead, fastest->family, (long long)fastest->buffers, fastest->overhead);
}

static dpmf_status fail_empty(const dpmf_design *d) {
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "design: of the families %s none has a mechanism for this workload and participation",
                     d->options.families == NULL ? "that are known" : d->options.families);
}

/* ---- the choice ---- */

/* Finds the candidate with sampling of the least noise below `most` that may be chosen; -1: none. */
static dpmf_status best_sampled(dpmf_design *d, double most, int64_t *best) {
    double above = -INFINITY;
    int enough = 0;
    do {
        *best = -1;
        for (int64_t i = 0; i < d->count; i++) {
            const double noise = d->candidates[i].compared;
            if (dpmf_sampling_is_none(&d->candidates[i].info.sampling) || !fits(d, i)) continue;
            if (noise < most && noise > above && (*best < 0 || noise < d->candidates[*best].compared)) *best = i;
        }
        if (*best < 0) return DPMF_OK;
        above = d->candidates[*best].compared;
        TRY(design_ask_time(d, *best, &enough));
    } while (!enough);
    return DPMF_OK;
}

dpmf_status design_cannot_win(dpmf_design *d, const char *what, int *cannot_win) {
    const double bound = design_bound_noise(d);
    const size_t used = strlen(d->skipped_by_bound);
    int64_t best = -1;
    *cannot_win = 0;
    if (bound > 0) TRY(best_sampled(d, bound / DESIGN_CLOSE, &best));
    if (best < 0) return DPMF_OK;
    *cannot_win = 1;
    d->skipped_by_family = d->candidates[best].info.family;
    d->skipped_by_times = bound / d->candidates[best].compared;
    if (what != NULL)
        snprintf(d->skipped_by_bound + used, sizeof d->skipped_by_bound - used, "%s%s", used > 0 ? ", " : "", what);
    return DPMF_OK;
}

static dpmf_status least_noise(dpmf_design *d, int64_t *best) {
    int anybody = 0;
    for (int64_t i = 0; i < d->count; i++) {
        int enough = 0;
        if (!fits(d, i)) continue;
        anybody = 1;
        TRY(design_ask_time(d, i, &enough));
        if (!enough) continue;
        *best = i;
        return DPMF_OK;
    }
    return anybody ? fail_overhead(d) : fail_memory(d);
}

/* Finds the candidate with the fewest buffers among those as good as `best`, from the fewest up. */
static dpmf_status fewest_buffers(dpmf_design *d, int64_t best, int64_t *chosen) {
    const double close = DESIGN_CLOSE * d->candidates[best].compared;
    int64_t beyond = -1; /* all with at most this many buffers have been tried */
    *chosen = best;
    for (;;) {
        int64_t next = -1;
        for (int64_t i = 0; i < d->count && d->candidates[i].compared <= close; i++) {
            int64_t buffers = d->candidates[i].info.buffers;
            if (buffers <= beyond || buffers >= d->candidates[best].info.buffers || !fits(d, i)) continue;
            if (next < 0 || buffers < d->candidates[next].info.buffers) next = i;
        }
        if (next < 0) return DPMF_OK;
        int enough = 0;
        TRY(design_ask_time(d, next, &enough));
        beyond = d->candidates[next].info.buffers;
        if (!enough) continue;
        *chosen = next;
        return DPMF_OK;
    }
}

/* ---- which points of a sweep stand for their family ---- */

/* Are both of one family and one sampling, so that their streams differ only in the number of buffers? */
static int same_group(const dpmf_candidate *a, const dpmf_candidate *b) {
    return strcmp(a->family, b->family) == 0 && a->sampling.kind == b->sampling.kind &&
           a->normals_per_number == b->normals_per_number;
}

/* Returns the one of candidate i's group with the fewest buffers within 0.1 % of its least noise; -1: none fits. */
static int64_t leader(const dpmf_design *d, int64_t i, int must_fit) {
    const candidate *c = d->candidates;
    int64_t found = -1;
    double close = INFINITY;
    for (int64_t j = 0; j < d->count && c[j].compared <= close; j++) {
        if (!same_group(&c[i].info, &c[j].info) || (must_fit && !fits(d, j))) continue;
        if (found < 0) close = DESIGN_CLOSE * c[j].compared;
        if (found < 0 || c[j].info.buffers < c[found].info.buffers) found = j;
    }
    return found;
}

static void name_leaders(dpmf_design *d) {
    for (int64_t i = 0; i < d->count; i++) {
        if (!d->candidates[i].info.is_search_point) continue;
        for (int must_fit = 0; must_fit < 2; must_fit++) {
            int64_t found = leader(d, i, must_fit);
            if (found >= 0) d->candidates[found].info.is_search_point = 0;
        }
    }
}

enum { MEASURED_BUFFERS = 64 }; /* beside the choice: a stream of more takes longer than milliseconds to measure */

static dpmf_status fill_eligible(dpmf_design *d) {
    for (int64_t i = 0; i < d->count; i++) {
        dpmf_candidate *c = &d->candidates[i].info;
        int enough = c->overhead <= d->options.max_overhead;
        if (fits(d, i) && !c->is_search_point && c->buffers <= MEASURED_BUFFERS) TRY(design_ask_time(d, i, &enough));
        c->eligible = enough && fits(d, i);
    }
    return DPMF_OK;
}

dpmf_status design_choose(dpmf_design *d, int64_t *chosen) {
    int64_t best = 0;
    if (d->count == 0) return fail_empty(d);
    qsort(d->candidates, (size_t)d->count, sizeof *d->candidates, compare_candidates);
    TRY(least_noise(d, &best));
    TRY(fewest_buffers(d, best, chosen));
    name_leaders(d);
    d->candidates[*chosen].info.is_search_point = 0;
    return fill_eligible(d);
}

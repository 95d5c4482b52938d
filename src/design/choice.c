/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice: candidates in order of noise; eligible are those whose stream fits the memory and is fast enough; of the
 * eligible within 0.1 % of the least noise the one with the fewest buffers.
 *
 * Where times are measured, they are as far as the choice needs it, from the least noise up, and then for what is shown
 * beside it.
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

/* Everything that tells two candidates apart, so that the order does not depend on the sorting algorithm. */
static int compare_entries(const void *left, const void *right) {
    const design_entry *a = left, *b = right;
    if (a->compared != b->compared) return a->compared < b->compared ? -1 : 1;
    if (a->shown.buffers != b->shown.buffers) return compare_integers(a->shown.buffers, b->shown.buffers);
    if (a->shown.sampling.kind != b->shown.sampling.kind)
        return compare_integers((int64_t)a->shown.sampling.kind, (int64_t)b->shown.sampling.kind);
    int families = strcmp(a->shown.family, b->shown.family);
    if (families != 0) return families;
    if (a->shown.sampling.count != b->shown.sampling.count)
        return compare_integers(a->shown.sampling.count, b->shown.sampling.count);
    return compare_integers(a->shown.normalized, b->shown.normalized);
}

/* ---- who is eligible ---- */

static int fits(const design_problem *p, int64_t i) {
    return design_fits(p, p->list.entry[i].shown.memory_bytes);
}

/* ---- nobody ---- */

static dpmf_status fail_memory(const design_problem *p) {
    int64_t least = 0;
    for (int64_t i = 1; i < p->list.count; i++)
        if (p->list.entry[i].shown.memory_bytes < p->list.entry[least].shown.memory_bytes) least = i;
    const dpmf_candidate *c = &p->list.entry[least].shown;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "design: no candidate fits the memory of %llu bytes; the smallest, %s with %lld buffers, takes "
                     "%llu for rows of %lld numbers",
                     (unsigned long long)p->options.memory, c->family, (long long)c->buffers,
                     (unsigned long long)c->memory_bytes, (long long)p->options.dim);
}

static dpmf_status fail_overhead(const design_problem *p) {
    const dpmf_candidate *fastest = NULL;
    for (int64_t i = 0; i < p->list.count; i++) {
        const dpmf_candidate *c = &p->list.entry[i].shown;
        if (c->overhead > 0 && (fastest == NULL || c->overhead < fastest->overhead)) fastest = c;
    }
    assert(fastest != NULL);
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "design: no candidate that fits the memory takes at most %g times the time of independent "
                     "noise; the fastest, %s with %lld buffers, takes %.3g times",
                     p->options.max_overhead, fastest->family, (long long)fastest->buffers, fastest->overhead);
}

static dpmf_status fail_empty(const design_problem *p) {
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "design: of the families %s none has a mechanism for this workload and participation",
                     p->options.families == NULL ? "that are known" : p->options.families);
}

/* ---- the choice ---- */

/* Of the candidates with sampling whose noise is below `most`, the least noise that may be chosen; -1: none. */
static dpmf_status best_sampled(design_problem *p, double most, int64_t *best) {
    double above = -INFINITY;
    int enough = 0;
    do {
        *best = -1;
        for (int64_t i = 0; i < p->list.count; i++) {
            const double noise = p->list.entry[i].compared;
            if (dpmf_sampling_is_none(&p->list.entry[i].shown.sampling) || !fits(p, i)) continue;
            if (noise < most && noise > above && (*best < 0 || noise < p->list.entry[*best].compared)) *best = i;
        }
        if (*best < 0) return DPMF_OK;
        above = p->list.entry[*best].compared;
        TRY(design_ask_time(p, *best, &enough));
    } while (!enough);
    return DPMF_OK;
}

dpmf_status design_is_beaten(design_problem *p, const char *what, int *beaten) {
    const double bound = design_bound_noise(p);
    const size_t used = strlen(p->beaten);
    int64_t best = -1;
    *beaten = 0;
    if (bound > 0) TRY(best_sampled(p, bound / DESIGN_CLOSE, &best));
    if (best < 0) return DPMF_OK;
    *beaten = 1;
    p->beaten_by = p->list.entry[best].shown.family;
    p->beaten_times = bound / p->list.entry[best].compared;
    if (what != NULL) snprintf(p->beaten + used, sizeof p->beaten - used, "%s%s", used > 0 ? ", " : "", what);
    return DPMF_OK;
}

static dpmf_status least_noise(design_problem *p, int64_t *best) {
    int anybody = 0;
    for (int64_t i = 0; i < p->list.count; i++) {
        int enough = 0;
        if (!fits(p, i)) continue;
        anybody = 1;
        TRY(design_ask_time(p, i, &enough));
        if (!enough) continue;
        *best = i;
        return DPMF_OK;
    }
    return anybody ? fail_overhead(p) : fail_memory(p);
}

/* The fewest buffers among those as good as `best`: tried from the fewest up. */
static dpmf_status fewest_buffers(design_problem *p, int64_t best, int64_t *chosen) {
    const double close = DESIGN_CLOSE * p->list.entry[best].compared;
    int64_t beyond = -1; /* all with at most so many buffers have been tried */
    *chosen = best;
    for (;;) {
        int64_t next = -1;
        for (int64_t i = 0; i < p->list.count && p->list.entry[i].compared <= close; i++) {
            int64_t buffers = p->list.entry[i].shown.buffers;
            if (buffers <= beyond || buffers >= p->list.entry[best].shown.buffers || !fits(p, i)) continue;
            if (next < 0 || buffers < p->list.entry[next].shown.buffers) next = i;
        }
        if (next < 0) return DPMF_OK;
        int enough = 0;
        TRY(design_ask_time(p, next, &enough));
        beyond = p->list.entry[next].shown.buffers;
        if (!enough) continue;
        *chosen = next;
        return DPMF_OK;
    }
}

/* ---- which points of a sweep stand for their family ---- */

/* The one of entry i's group with the fewest buffers within 0.1 % of its least noise; -1: none fits. */
static int64_t leader(const design_problem *p, int64_t i, int must_fit) {
    const design_entry *entry = p->list.entry;
    int64_t found = -1;
    double close = INFINITY;
    for (int64_t j = 0; j < p->list.count && entry[j].compared <= close; j++) {
        if (!design_same_group(&entry[i].shown, &entry[j].shown) || (must_fit && !fits(p, j))) continue;
        if (found < 0) close = DESIGN_CLOSE * entry[j].compared;
        if (found < 0 || entry[j].shown.buffers < entry[found].shown.buffers) found = j;
    }
    return found;
}

static void name_leaders(design_problem *p) {
    for (int64_t i = 0; i < p->list.count; i++) {
        if (!p->list.entry[i].shown.swept) continue;
        for (int must_fit = 0; must_fit < 2; must_fit++) {
            int64_t found = leader(p, i, must_fit);
            if (found >= 0) p->list.entry[found].shown.swept = 0;
        }
    }
}

enum { MEASURED_BUFFERS = 64 }; /* beside the choice: a stream of more takes longer than milliseconds to measure */

static dpmf_status fill_eligible(design_problem *p) {
    for (int64_t i = 0; i < p->list.count; i++) {
        dpmf_candidate *c = &p->list.entry[i].shown;
        int enough = c->overhead <= p->options.max_overhead;
        if (fits(p, i) && !c->swept && c->buffers <= MEASURED_BUFFERS) TRY(design_ask_time(p, i, &enough));
        c->eligible = enough && fits(p, i);
    }
    return DPMF_OK;
}

dpmf_status design_choose(design_problem *p, int64_t *chosen) {
    int64_t best = 0;
    if (p->list.count == 0) return fail_empty(p);
    qsort(p->list.entry, (size_t)p->list.count, sizeof *p->list.entry, compare_entries);
    TRY(least_noise(p, &best));
    TRY(fewest_buffers(p, best, chosen));
    name_leaders(p);
    p->list.entry[*chosen].shown.swept = 0;
    return fill_eligible(p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice: candidates in order of noise; eligible are those whose stream fits the memory and is fast enough; of the
 * eligible within 0.1 % of the least noise the one with the fewest buffers.
 *
 * If times are measured, this file measures only the streams that the choice needs, from the least noise up, and then
 * those that are shown beside it.
 *
 * Then the design in sentences: the rank of each candidate, the choice, and what the user must take care of.
 */
#include "account/account.h"
#include "base/memory.h"
#include "base/status.h"
#include "design/design.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_integers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* Compares everything in which two candidates can differ, so that the order does not depend on the sorting algorithm. */
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
    if (a->info.stamps != b->info.stamps) return compare_integers(a->info.stamps, b->info.stamps);
    return compare_integers(a->info.normalized, b->info.normalized);
}

static int fits(const dpmf_design *d, int64_t i) {
    return design_candidate_fits(d, &d->candidates[i]);
}

static dpmf_status fail_memory(const dpmf_design *d) {
    int64_t least = 0;
    for (int64_t i = 1; i < d->count; i++)
        if (d->candidates[i].info.memory_bytes < d->candidates[least].info.memory_bytes) least = i;
    const dpmf_candidate *c = &d->candidates[least].info;
    if (d->options.memory == DPMF_MEMORY_NO_ROWS)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "design: every candidate of these families keeps rows; without memory for them there are taps, bisr and "
            "independent noise (identity)");
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

/* What decides among candidates that are as good: the buffers; where none may be kept, the normal numbers of a row. */
static double burden(const dpmf_design *d, int64_t i) {
    const dpmf_candidate *c = &d->candidates[i].info;
    return d->options.memory == DPMF_MEMORY_NO_ROWS ? c->normals_per_number : (double)c->buffers;
}

/* Finds the candidate with the fewest buffers among those as good as `best`, from the fewest up. */
static dpmf_status fewest_buffers(dpmf_design *d, int64_t best, int64_t *chosen) {
    const double close = DESIGN_CLOSE * d->candidates[best].compared;
    double beyond = -1; /* all with at most this many have been tried */
    *chosen = best;
    for (;;) {
        int64_t next = -1;
        for (int64_t i = 0; i < d->count && d->candidates[i].compared <= close; i++) {
            if (burden(d, i) <= beyond || burden(d, i) >= burden(d, best) || !fits(d, i)) continue;
            if (next < 0 || burden(d, i) < burden(d, next)) next = i;
        }
        if (next < 0) return DPMF_OK;
        int enough = 0;
        TRY(design_ask_time(d, next, &enough));
        beyond = burden(d, next);
        if (!enough) continue;
        *chosen = next;
        return DPMF_OK;
    }
}

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

enum { MEASURED_BUFFERS = 64 }; /* beside the choice: a stream of more takes longer than milliseconds to measure */

dpmf_status design_choose(dpmf_design *d, int64_t *chosen) {
    int64_t best = 0;
    if (d->count == 0) return fail_empty(d);
    qsort(d->candidates, (size_t)d->count, sizeof *d->candidates, compare_candidates);
    TRY(least_noise(d, &best));
    TRY(fewest_buffers(d, best, chosen));
    for (int64_t i = 0; i < d->count; i++) {
        if (!d->candidates[i].info.is_search_point) continue;
        for (int must_fit = 0; must_fit < 2; must_fit++) {
            int64_t found = leader(d, i, must_fit);
            if (found >= 0) d->candidates[found].info.is_search_point = 0;
        }
    }
    d->candidates[*chosen].info.is_search_point = 0;
    for (int64_t i = 0; i < d->count; i++) {
        dpmf_candidate *c = &d->candidates[i].info;
        int enough = c->overhead <= d->options.max_overhead;
        if (fits(d, i) && !c->is_search_point && c->buffers <= MEASURED_BUFFERS) TRY(design_ask_time(d, i, &enough));
        c->eligible = enough && fits(d, i);
    }
    return DPMF_OK;
}

typedef base_text text;
#define add base_text_add /* short, because every line below uses it */

static int sampled(const dpmf_candidate *c) {
    return !dpmf_sampling_is_none(&c->sampling);
}

static const strategy_candidates *family_of(const dpmf_candidate *c) {
    return &strategy_family_find(c->family, strlen(c->family))->candidates;
}

static int is_baseline(const dpmf_candidate *c) {
    return family_of(c)->baseline != NULL;
}

/* "amplified banded-toeplitz with 44 bands" */
static void name(text *t, const dpmf_candidate *c) {
    add(t, "%s%s", sampled(c) ? "amplified " : "", is_baseline(c) ? family_of(c)->baseline : c->family);
    if (c->bands > 0)
        add(t, " with %lld bands", (long long)c->bands);
    else if (c->buffers > 0)
        add(t, " with %lld buffer%s", (long long)c->buffers, c->buffers == 1 ? "" : "s");
    if (c->normals_per_number > 1)
        add(t, "%s%.3g normals per number", c->bands > 0 || c->buffers > 0 ? " and " : " with ", c->normals_per_number);
}

static void bytes(text *t, uint64_t count) {
    if (count >= (uint64_t)1 << 40)
        add(t, "%.4g TiB", (double)count / 0x1p40);
    else if (count >= (uint64_t)1 << 30)
        add(t, "%.4g GiB", (double)count / 0x1p30);
    else if (count >= (uint64_t)1 << 20)
        add(t, "%.3g MiB", (double)count / 0x1p20);
    else
        add(t, "%llu bytes", (unsigned long long)count);
}

/* Adds the reason why it is not eligible; adds nothing if it is. */
static void obstacle(text *t, const dpmf_design *d, int64_t i) {
    const dpmf_candidate *c = &d->candidates[i].info;
    if (!fits(d, i) && d->options.memory == DPMF_MEMORY_NO_ROWS) {
        add(t, "its stream keeps %lld row%s, and none may be kept", (long long)c->buffers, c->buffers == 1 ? "" : "s");
    } else if (!fits(d, i)) {
        add(t, "its stream takes ");
        bytes(t, c->memory_bytes);
        add(t, " of memory, more than the ");
        bytes(t, d->options.memory);
        add(t, " allowed");
    } else if (c->overhead > d->options.max_overhead) {
        add(t, "a row takes %.4g times the time of independent noise%s, more than the %g allowed", c->overhead,
            c->seconds_per_step > 0 ? ", as measured here" : "", d->options.max_overhead);
    }
}

/* The figure by which candidates are compared. */
static const char *measure(const dpmf_design *d) {
    return d->options.federated && d->options.separation_low < d->options.separation_high ? "worst ratio" : "noise";
}

static void reason(const dpmf_design *d, int64_t i, dpmf_candidate *c) {
    const double over = d->candidates[i].compared / d->candidates[d->chosen].compared;
    const int rowless = d->options.memory == DPMF_MEMORY_NO_ROWS;
    text t = {c->reason, sizeof c->reason, 0};
    c->reason[0] = 0;
    if (i == d->chosen) {
        add(&t, "chosen: %s, or within 0.1 %% of it with the fewest %s",
            d->options.federated ? "of the eligible, nearest to the best in the worst separation"
                                 : "least noise of the eligible",
            rowless ? "normals" : "buffers");
        return;
    }
    obstacle(&t, d, i);
    if (t.length > 0) return;
    if (over < 1)
        add(&t, "%.3g %% less %s than the chosen one, but more %s", 100 * (1 - over), measure(d),
            rowless ? "normals" : "buffers");
    else
        add(&t, "%.5g times the %s of the chosen one", over, measure(d));
}

static void add_choice(text *t, const dpmf_design *d, int64_t chosen) {
    const dpmf_candidate *c = &d->candidates[chosen].info;
    char asked[PROBLEM_LOSS_TEXT];
    problem_loss_text(&(problem_loss){d->problem.loss, d->problem.loss_power, NULL}, asked);
    name(t, c);
    if (c->stamps > 1) add(t, " in %lld stamps", (long long)c->stamps);
    add(t, "%s. Its %s noise, sigma %.6g x loss %.6g = %.6g, is %s", c->normalized ? ", columns normalized" : "",
        d->problem.loss == DPMF_LOSS_MAX   ? "largest"
        : d->problem.loss == DPMF_LOSS_RMS ? "RMS"
                                           : asked,
        base_safe_digits(c->sigma, 6, 1), base_safe_digits(c->loss, 6, 1), base_safe_digits(c->noise, 6, 1),
        d->options.federated ? "that at separation " : "the least of the eligible candidates");
    if (d->options.federated && d->options.separation_low == d->options.separation_high)
        add(t, "%lld, and no eligible candidate has less", (long long)d->options.separation_low);
    else if (d->options.federated)
        add(t,
            "%lld, which is certain. From there to %lld no other eligible candidate has a smaller worst ratio of its "
            "noise to the best one at each separation",
            (long long)d->options.separation_low, (long long)d->options.separation_high);
    int64_t least = 0;
    while (!d->candidates[least].info.eligible)
        least++;
    if (least != chosen && d->options.memory == DPMF_MEMORY_NO_ROWS)
        add(t, " to within 0.1 %%, and it takes %.3g normals per number instead of %.3g", c->normals_per_number,
            d->candidates[least].info.normals_per_number);
    else if (least != chosen)
        add(t, " to within 0.1 %%, and it keeps %lld buffers instead of %lld", (long long)c->buffers,
            (long long)d->candidates[least].info.buffers);
    add(t, ".\n");
    /* four decimals, each rounded so that the sentence stays proven */
    if (!sampled(c) && c->ratio > 0)
        add(t, "Its loss is at most %.4f times that of the best possible mechanism. The bound is for %s.\n",
            ceil(1e4 * c->ratio) / 1e4, d->proven.scope);
    if (sampled(c) && c->ratio > 0 && c->ratio < 1)
        add(t, "No mechanism without sampling can have less than %.4f times its noise. The bound is for %s.\n",
            floor(1e4 / c->ratio) / 1e4, d->proven.scope);
}

/* DP-SGD as it is usually run, with Poisson sampling, and without; where one is unknown, the other alone. */
static void add_baseline(text *t, const dpmf_design *d, const candidate *baseline) {
    const double chosen = d->candidates[d->chosen].compared, sampled_ = d->baseline_sampled, plain = d->baseline_plain;
    const int both = sampled_ > 0 && isfinite(sampled_) && plain > 0 && !d->options.federated;
    if (!both) {
        name(t, &baseline->info);
        add(t, " has %.4g times the %s", base_safe_digits(baseline->compared / chosen, 4, -1), measure(d));
        return;
    }
    add(t, "%s has %.4g times the noise with Poisson sampling, %.4g without", family_of(&baseline->info)->baseline,
        base_safe_digits(sampled_ / chosen, 4, -1), base_safe_digits(plain / chosen, 4, -1));
}

/* Where batches may be drawn in secret and DP-SGD is then the better choice, that comes first. */
static void add_better_baseline(text *t, const dpmf_design *d) {
    const double chosen = d->candidates[d->chosen].compared;
    if (d->options.sampling != DPMF_SAMPLING_NONE || !(d->baseline_sampled > 0)) return;
    if (d->baseline_sampled < chosen)
        add(t,
            "DP-SGD is the better choice if batches can be drawn in secret: with Poisson sampling (--sampling poisson) "
            "independent noise has %.4g times the noise of the choice below.\n",
            base_safe_digits(d->baseline_sampled / chosen, 4, 1));
}

static void add_saving(text *t, const dpmf_design *d) {
    if (d->sampling_saves > 0 && d->sampling_saves < 1)
        add(t, "With secret sampling (--sampling any) the noise would be at most %.3g times this.\n",
            base_safe_digits(d->sampling_saves, 3, 1));
}

static void add_rivals(text *t, const dpmf_design *d, int64_t chosen) {
    const candidate *e = d->candidates;
    int64_t baseline = -1, next = -1;
    for (int64_t i = d->count - 1; i >= 0; i--) {
        if (i == chosen) continue;
        if (is_baseline(&e[i].info)) baseline = i;
        if (i > chosen && e[i].info.eligible && !e[i].info.is_search_point && !is_baseline(&e[i].info)) next = i;
    }
    const int beside = baseline >= 0 && !is_baseline(&e[chosen].info);
    if (beside) {
        add(t, "Beside it, ");
        add_baseline(t, d, &e[baseline]);
        if (next < 0) add(t, ".\n");
    }
    if (next < 0) return;
    add(t, beside ? ", and the next eligible candidate, " : "The next eligible candidate, ");
    name(t, &e[next].info);
    add(t, ", has %.4g times the %s.\n", base_safe_digits(e[next].compared / e[chosen].compared, 4, -1), measure(d));
}

enum { OBSTACLES_SHOWN = 3 };

static void add_better(text *t, const dpmf_design *d, int64_t chosen) {
    int shown = 0;
    for (int64_t i = 0; i < chosen && shown < OBSTACLES_SHOWN; i++) {
        const dpmf_candidate *c = &d->candidates[i].info;
        if (c->eligible || c->is_search_point) continue;
        shown++;
        add(t, "Not eligible, with %.4g times the %s: ", d->candidates[i].compared / d->candidates[chosen].compared,
            measure(d));
        name(t, c);
        add(t, ": ");
        obstacle(t, d, i);
        add(t, ".\n");
    }
}

static void add_rule(text *t, const dpmf_design *d, const dpmf_candidate *c) {
    const dpmf_design_options *o = &d->options;
    const double rule = o->epsilon * sqrt((double)d->problem.steps) / (double)o->epochs;
    if (c->sampling.kind != DPMF_SAMPLING_BLOCK_CYCLIC) return;
    add(t, "The rule of thumb epsilon sqrt(steps)/epochs (McKenna 2024, Section 4.2) gives about %.3g bands: ", rule);
    const double found = (double)c->bands;
    if (found > 4 * rule || 4 * found < rule)
        add(t, "far from the %lld found, which were computed for this problem.\n", (long long)c->bands);
    else
        add(t, "it agrees with the %lld found within a factor of %.2g.\n", (long long)c->bands,
            fmax(found / rule, rule / found));
}

static void explain_choice(dpmf_design *d) {
    const int64_t chosen = d->chosen;
    text t = {d->why, sizeof d->why, 0};
    d->why[0] = 0;
    add_better_baseline(&t, d);
    add_choice(&t, d, chosen);
    add_saving(&t, d);
    add_rivals(&t, d, chosen);
    add_better(&t, d, chosen);
    add_rule(&t, d, &d->candidates[chosen].info);
    add(&t, "%s", d->skipped_for_time);
    if (d->skipped_by_bound[0] != '\0') /* four digits are off by up to 5e-4: never above what is proven */
        add(&t,
            "Left out because it is proven that without sampling no mechanism has less than %.4g times the noise of "
            "amplified %s: %s (optimize --family NAME finds them).\n",
            (1 - 5e-4) * d->skipped_by_times, d->skipped_by_family, d->skipped_by_bound);
    if (d->skipped_for_steps[0] != '\0')
        add(&t, "Left out because of the number of steps: %s. --families %s... tries them.\n", d->skipped_for_steps,
            d->skipped_for_steps_names);
    if (d->options.measure)
        add(&t, "Times were measured on this machine (--measure) and may differ from run to run.\n");
}

__attribute__((format(printf, 2, 3))) static void warn(dpmf_design *d, const char *format, ...) {
    va_list arguments;
    if (d->warnings >= DESIGN_WARNINGS) return;
    va_start(arguments, format);
    vsnprintf(d->warning[d->warnings++], DESIGN_WARNING, format, arguments);
    va_end(arguments);
}

static void warn_sampling(dpmf_design *d, const dpmf_candidate *c) {
    const dpmf_sampling *s = &c->sampling;
    char exactly[DESIGN_WARNING];
    account_sampling_warning(s, exactly, sizeof exactly);
    if (account_sampling_composes(s)) warn(d, "%s", exactly);
    if (s->cap > 0)
        warn(d,
             "At most %lld of the %lld units take part in a batch: if more are drawn, a random %lld of them take part.",
             (long long)s->cap, (long long)s->units, (long long)s->cap);
    if (!account_sampling_composes(s) && exactly[0] != 0) warn(d, "%s", exactly);
    if (d->options.participation != NULL) {
        warn(d,
             "The guarantee holds if every unit takes part only in steps of one of the listed patterns (%s): refuse "
             "every "
             "other step, and compute the sensitivity of the actual run from its logs.",
             d->problem.participation->text);
        return;
    }
    if (d->options.separation_low > 0 && !d->options.federated && d->options.epochs > 1) {
        warn(d,
             "The guarantee assumes fixed groups in turn: a unit takes part in rounds that are exactly %lld apart, and "
             "at "
             "most %lld times (%s). Somebody who misses a round waits for the group's next turn.",
             (long long)d->problem.participation->separation, (long long)d->problem.participation->count,
             d->problem.participation->text);
        return;
    }
    if (dpmf_sampling_is_none(s) && !d->options.federated && d->options.epochs > 1)
        warn(d,
             "The guarantee assumes the same order of the data in every pass: a unit's steps are exactly %lld apart "
             "(%s). A loader that shuffles again for every epoch is not cyclic.",
             (long long)d->problem.participation->separation, d->problem.participation->text);
    if (dpmf_sampling_is_none(s) && !d->options.federated && d->options.epochs == 1)
        warn(d, "The guarantee assumes that no unit is used in more than one step: duplicates in the data break it.");
}

static void warn_federated(dpmf_design *d) {
    const dpmf_design_options *o = &d->options;
    char apart[80] = "";
    if (!o->federated) return;
    if (o->separation_low > 1)
        snprintf(apart, sizeof apart, " or in two rounds less than %lld apart", (long long)o->separation_low);
    warn(d,
         "The guarantee holds if no user takes part more than %lld times%s: let the server, or the clients themselves, "
         "refuse %s, and compute the sensitivity of the actual run from its logs.",
         (long long)o->epochs, apart, o->separation_low > 1 ? "earlier returns" : "more");
}

/* Warns only if --memory is not given: a candidate that exceeds --memory is not eligible. */
static void warn_memory(dpmf_design *d, const dpmf_candidate *c) {
    char takes[40], has[40];
    if (d->options.memory != 0 || c->memory_bytes <= base_memory_limit()) return;
    bytes(&(text){takes, sizeof takes, 0}, c->memory_bytes);
    bytes(&(text){has, sizeof has, 0}, base_memory_limit());
    warn(d,
         "The noise stream takes a memory of %s, and this machine has %s: --memory BYTES chooses among those that fit.",
         takes, has);
}

static void warn_all(dpmf_design *d) {
    const dpmf_candidate *c = &d->candidates[d->chosen].info;
    warn_sampling(d, c);
    warn_federated(d);
    warn_memory(d, c);
    if (c->bands > 8)
        warn(d,
             "With an adaptive optimizer such as Adam, fewer bands can train better than the noise alone suggests "
             "(McKenna 2024, Section 4.3): try %lld or %lld too.",
             (long long)(c->bands / 2), (long long)(c->bands / 4));
    if (d->options.sampling != DPMF_SAMPLING_NONE && !sampled(c))
        warn(d, "Sampling was allowed, but the chosen mechanism does not use it: its guarantee does not need secret "
                "sampling.");
    if (sampled(c) && c->sigma < 0.5)
        warn(d, "sigma = %.3g is small: the guarantee depends strongly on secret sampling.", c->sigma);
    if (!d->options.federated && d->problem.participation->count < d->options.epochs)
        warn(d,
             "%lld steps do not divide into %lld epochs: a pass in a fixed order takes %lld steps, so a unit takes "
             "part %lld times, and mechanisms without sampling were designed for that; with sampling %lld times are "
             "expected.",
             (long long)d->problem.steps, (long long)d->options.epochs, (long long)d->problem.participation->separation,
             (long long)d->problem.participation->count, (long long)d->options.epochs);
    if (d->problem.epsilon > 10)
        warn(d, "epsilon = %g is a weak guarantee: likelihoods may differ by a factor of e^epsilon.",
             d->problem.epsilon);
    if (d->problem.delta > 1e-4)
        warn(d, "delta = %g is large: it should be well below 1/(number of units).", d->problem.delta);
    if (!d->problem.workload->toeplitz && d->plain != d->problem.workload && !family_of(c)->keeps_schedule)
        warn(d, d->problem.workload->form == WORKLOAD_NAMED
                    ? "The workload has a schedule: some families were optimized without it and evaluated with it."
                    : "The workload is a matrix or a sum: some families were optimized for prefix sums and evaluated "
                      "with it.");
}

void design_explain(dpmf_design *d) {
    for (int64_t i = 0; i < d->count; i++)
        reason(d, i, &d->candidates[i].info);
    explain_choice(d);
    warn_all(d);
}

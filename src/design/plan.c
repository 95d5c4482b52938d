/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: designs over a grid of batch sizes and epochs, compared by noise per epoch of progress.
 *
 * Notation: N units, K epochs, n steps, batches of B = K N / n, clip norm 1; nu = sigma x loss is the noise in a sum of clipped
 * gradients over the run. In the sum of *mean* gradients that is nu / B, and over the n steps the sum moves by about n times the
 * mean gradient, so that noise over signal at the end is
 *
 *     nu / (B n) = nu / (K N):      for one data set, runs of any n and K compare by nu / K
 *
 * (the comparison by batch size of Pillutla, Upadhyay, Choquette-Choo et al. 2025, Figure 3.5, at equal numbers of examples). More
 * steps at equal K always cost noise or nothing, and they are what learning needs, so the least noise is no
 * recommendation: it is the largest batch. `walk` below is the rule, a pure function of the table.
 *
 * Why this route: a point is a design, asked for with design_find, so that its figures are those of dpmf_design_create; but
 * candidates that certainly lose are not accounted for (design/exclude.c), and only the recommended point gets its bounds and
 * its mechanism. The points are independent of each other and run side by side, each on one thread.
 */
#include "design/plan.h"

#include "account/account.h"
#include "base/memory.h"
#include "base/threads.h"
#include "workload/workload.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

static const int64_t UNITS_MAX = (int64_t)1 << 40;
static const double EPOCHS_LOW = 1, EPOCHS_HIGH = 8; /* where none are given */

/*
 * The noise that a doubling may cost that ends at STEPS_FIRST steps; one that ends at n steps may cost STEPS_FIRST/n of it. A few
 * hundred steps are worth far more than their noise, and several thousand little: docs/plan.md has the runs that both come from.
 */
static const double WITHIN = 0.3, STEPS_FIRST = 1000;

dpmf_plan_options dpmf_plan_options_defaults(void) {
    dpmf_plan_options o = {.within = WITHIN, .design = dpmf_design_options_defaults()};
    o.design.any_sampling = 1;
    return o;
}

/* ---- the question ---- */

static dpmf_status check_epochs(double epochs) {
    if (epochs > 0 && (epochs < 1 || (epochs == floor(epochs) && epochs <= (double)UNITS_MAX))) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "plan: %g epochs, accepted: whole numbers from 1 to %lld, and parts of an epoch between 0 and 1",
                     epochs, (long long)UNITS_MAX);
}

static dpmf_status check_plan(const dpmf_plan_options *o) {
    const dpmf_design_options *d = &o->design;
    if (o->units < 1 || o->units > UNITS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "plan: %lld units, accepted 1 to %lld", (long long)o->units,
                         (long long)UNITS_MAX);
    TRY(check_epochs(o->epochs_low));
    TRY(check_epochs(o->epochs_high));
    if (o->epochs_low > o->epochs_high)
        return base_fail(DPMF_ERROR_ARGUMENT, "plan: epochs from %g to %g, accepted: the first at most the second",
                         o->epochs_low, o->epochs_high);
    if (o->batch_low < 1 || o->batch_high > o->units || o->batch_low > o->batch_high)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "plan: batches from %lld to %lld, accepted 1 <= low <= high <= %lld (the units)",
                         (long long)o->batch_low, (long long)o->batch_high, (long long)o->units);
    if (!(o->within >= 0 && o->within <= 10))
        return base_fail(DPMF_ERROR_ARGUMENT, "plan: within %g, accepted 0 to 10", o->within);
    if (d->batch_cap != 0 || d->federated || d->measure)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "plan: a cap on batches, federated runs and measured times are not planned for; design does");
    return DPMF_OK;
}

static void fill_presets(dpmf_plan_options *o) {
    if (o->epochs_low == 0 && o->epochs_high == 0) {
        o->epochs_low = EPOCHS_LOW;
        o->epochs_high = EPOCHS_HIGH;
    }
    if (o->batch_low == 0 && o->batch_high == 0) {
        o->batch_low = o->units >= 1000 ? o->units / 1000 : 1;
        o->batch_high = o->units >= 10 ? o->units / 10 : 1;
    }
    if (o->workload == NULL) o->workload = "prefix";
}

/* ---- the grid ---- */

enum { LADDER = 96 }; /* doublings between the smallest double above 1e-16 and 2^40 */

/* low, 2 low, 4 low, ..., high; those from 1 on are rounded to whole numbers, each once. */
static int make_ladder(double low, double high, double *out) {
    int count = 0;
    for (double at = low; count < LADDER; at *= 2) {
        const double wanted = at < high ? at : high, value = wanted < 1 ? wanted : round(wanted);
        if (count == 0 || value > out[count - 1]) out[count++] = value;
        if (at >= high) break;
    }
    return count;
}

static int64_t steps_of(double epochs, double units, double batch) {
    if (epochs < 1) return (int64_t)fmax(1, round(epochs * units / batch));
    return (int64_t)(epochs * fmax(1, round(units / batch)));
}

static const double STEPS_MAX = 0x1p31;

static dpmf_status make_grid(dpmf_plan *p) {
    double epochs[LADDER], batches[LADDER];
    const dpmf_plan_options *o = &p->options;
    const double units = (double)o->units;
    const int rows = make_ladder(o->epochs_low, o->epochs_high, epochs),
              columns = make_ladder((double)o->batch_low, (double)o->batch_high, batches);
    if (epochs[rows - 1] * units / batches[0] > STEPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "plan: %g epochs of %lld units in batches of %g take more than 2^31 steps, which is the most",
                         epochs[rows - 1], (long long)o->units, batches[0]);
    TRY(base_alloc((int64_t)rows * columns, sizeof *p->rows, "the points of a plan", (void **)&p->rows));
    for (int i = 0; i < rows; i++)
        for (int j = columns - 1; j >= 0; j--) {
            const int64_t steps = steps_of(epochs[i], units, batches[j]);
            const dpmf_plan_row *last = p->count > 0 ? &p->rows[p->count - 1] : NULL;
            if (last != NULL && last->epochs == epochs[i] && last->steps == steps) continue;
            p->rows[p->count++] =
                (dpmf_plan_row){.epochs = epochs[i], .steps = steps, .batch = epochs[i] * units / (double)steps};
        }
    return base_alloc(p->count, sizeof *p->designs, "the designs of a plan", (void **)&p->designs);
}

/* ---- the points ---- */

typedef struct crew {
    dpmf_plan *plan;
    atomic_int_fast64_t done;
    atomic_bool cancelled;
} crew;

/* One thread's part of the work. Only the caller's thread may call the user's progress function. */
typedef struct hand {
    crew *crew;
    int is_caller;
} hand;

static int watch(void *context, const char *what, double done) {
    const hand *h = context;
    const dpmf_run *run = &h->crew->plan->options.design.run;
    const double part = (double)atomic_load(&h->crew->done) / (double)h->crew->plan->count;
    (void)what;
    (void)done;
    if (h->is_caller && run->progress != NULL && run->progress(run->context, "planning", part) != 0)
        atomic_store(&h->crew->cancelled, 1);
    return atomic_load(&h->crew->cancelled);
}

/* Independent noise, as the table of families names it. */
static const strategy_family *baseline(void) {
    const strategy_family *f = strategy_family_next(NULL);
    while (f->candidates.baseline == NULL)
        f = strategy_family_next(f);
    return f;
}

/* DP-SGD is a candidate of most designs; where it is not, it has one of its own. */
static dpmf_status find_independent(const dpmf_design *d, const dpmf_workload *workload,
                                    const dpmf_design_options *asked, double part, dpmf_candidate *out) {
    const char *name = baseline()->shown.name;
    dpmf_design *own = NULL;
    for (int64_t i = 0; i < d->count; i++) {
        const dpmf_candidate *c = &d->candidates[i].info;
        if (c->sampling.kind != DPMF_SAMPLING_POISSON || strcmp(c->family, name) != 0) continue;
        *out = *c;
        return DPMF_OK;
    }
    dpmf_design_options o = *asked;
    o.families = name;
    o.any_sampling = 0;
    o.sampling = DPMF_SAMPLING_POISSON;
    o.memory = 0; /* shown whether or not it fits */
    o.max_overhead = INFINITY;
    TRY(design_find(workload, &o, part, &own));
    for (int64_t i = 0; i < own->count; i++)
        if (own->candidates[i].info.sampling.kind == DPMF_SAMPLING_POISSON) *out = own->candidates[i].info;
    dpmf_design_free(own);
    return DPMF_OK;
}

/* Fills in point `item`; its design stays, with the chosen candidate alone. */
static dpmf_status fill_point(void *context, int64_t item, int worker) {
    crew *c = context;
    hand own = {c, worker == 0};
    dpmf_plan *p = c->plan;
    dpmf_plan_row *row = &p->rows[item];
    dpmf_design_options asked = p->options.design;
    const double part = row->epochs < 1 ? row->epochs : 0;
    dpmf_workload *workload = NULL;
    dpmf_design *d = NULL;
    dpmf_status status = DPMF_OK;
    asked.epochs = part > 0 ? 1 : (int64_t)row->epochs;
    asked.units = 0;
    asked.run = (dpmf_run){.threads = 1, .progress = watch, .context = &own};
    TRY_DONE(dpmf_workload_parse(p->options.workload, row->steps, &workload));
    TRY_DONE(design_find(workload, &asked, part, &d));
    TRY_DONE(find_independent(d, workload, &asked, part, &row->independent));
    row->chosen = d->candidates[d->chosen].info;
    row->noise_per_epoch = row->chosen.noise / row->epochs;
    row->independent_noise_per_epoch = row->independent.noise / row->epochs;
    row->seconds_per_step = design_seconds(d, row->chosen.overhead);
    design_keep_chosen(d);
    d->options.run = p->options.design.run; /* `own` ends here */
    p->designs[item] = d;
    d = NULL;
    atomic_fetch_add(&c->done, 1);
done:
    dpmf_design_free(d);
    dpmf_workload_free(workload);
    return status;
}

static dpmf_status fill_points(dpmf_plan *p) {
    crew c = {.plan = p};
    base_pool *pool = NULL;
    TRY(base_pool_create(p->options.design.run.threads, &pool));
    const dpmf_status status = base_pool_run(pool, p->count, fill_point, &c);
    base_pool_free(pool);
    return status;
}

/* ---- the rule ---- */

/* From the fewest steps of one number of epochs (rows[first]) as long as each doubling costs at most what it may. */
static int64_t walk(const dpmf_plan_row *rows, int64_t count, int64_t first, double within) {
    int64_t at = first;
    while (at + 1 < count && rows[at + 1].epochs == rows[first].epochs) {
        const double doublings = log2((double)rows[at + 1].steps / (double)rows[at].steps);
        const double cost = 1 + within * STEPS_FIRST / (double)rows[at + 1].steps;
        const double allowed = rows[at].noise_per_epoch * pow(cost, doublings);
        if (rows[at + 1].noise_per_epoch > allowed * (1 + 1e-12)) break;
        at++;
    }
    return at;
}

int64_t plan_recommend(dpmf_plan_row *rows, int64_t count, double within) {
    int64_t found = -1;
    for (int64_t first = 0; first < count; first++) {
        if (first > 0 && rows[first].epochs == rows[first - 1].epochs) continue;
        const int64_t best = walk(rows, count, first, within);
        rows[best].best_of_epochs = 1;
        if (found < 0 || rows[best].noise_per_epoch < rows[found].noise_per_epoch) found = best;
    }
    return found;
}

/* ---- the calls ---- */

dpmf_status dpmf_plan_create(const dpmf_plan_options *options, dpmf_plan **out) {
    dpmf_plan_options o = options == NULL ? dpmf_plan_options_defaults() : *options;
    dpmf_plan *p = NULL;
    dpmf_status status = DPMF_OK;
    fill_presets(&o);
    TRY(check_plan(&o));
    TRY(base_alloc(1, sizeof *p, "a plan", (void **)&p));
    p->options = o;
    TRY_DONE(make_grid(p));
    TRY_DONE(base_progress(&o.design.run, "planning", 0));
    TRY_DONE(fill_points(p));
    p->recommended = plan_recommend(p->rows, p->count, o.within);
    dpmf_design *chosen = p->designs[p->recommended];
    TRY_DONE(design_finish(chosen));
    p->rows[p->recommended].chosen.ratio = chosen->candidates[0].info.ratio;
    p->options.workload = dpmf_workload_get(chosen->problem.workload).text;
    TRY_DONE(plan_text_make(p));
    p->options.design.families = p->options.design.unit = NULL; /* the caller's, and of no more use */
    for (int64_t i = 0; i < p->count; i++)
        if (i != p->recommended) {
            dpmf_design_free(p->designs[i]);
            p->designs[i] = NULL;
        }
    *out = p;
    p = NULL;
done:
    dpmf_plan_free(p);
    return status;
}

void dpmf_plan_free(dpmf_plan *p) {
    if (p == NULL) return;
    for (int64_t i = 0; p->designs != NULL && i < p->count; i++)
        dpmf_design_free(p->designs[i]);
    base_free(p->designs);
    base_free(p->rows);
    base_free(p->text);
    base_free(p);
}

dpmf_plan_info dpmf_plan_get(const dpmf_plan *p) {
    const dpmf_design_info d = dpmf_design_get(p->designs[p->recommended]);
    return (dpmf_plan_info){.rows = p->rows,
                            .count = p->count,
                            .recommended = p->recommended,
                            .mechanism = d.mechanism,
                            .privacy = d.privacy,
                            .rule = p->rule,
                            .why = p->why,
                            .text = p->text};
}

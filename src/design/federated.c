/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Federated candidates: the designer does not decide which clients take part. A client takes part at most k times; any two of
 * its rounds are at least s apart, where s >= low is sure and s near high is expected (McKenna 2024, Appendix H).
 *
 * At separation s a strategy C has the loss
 *
 *     L(C, s) = sens(C; min-sep k, s) x error(A C^-1),
 *
 * and sigma L(C, s) is the noise that meets the same (epsilon, delta) if the separation turns out to be s: this is what
 * Figure 10b there draws. L(C, s) does not grow with s, so its largest value is always that at low, and to minimise it
 * would be to design for low alone. What can be lost by not knowing s is the ratio to the best that is known at each s.
 * So candidates are compared by
 *
 *     worst(C) = max over s of L(C, s) / L*(s),   L*(s) = the least L(., s) of all candidates,
 *
 * s over the two ends and up to 31 separations between. Ordered by sigma L*(low) worst(C): the noise at low of a
 * candidate that is so far from the best there. The guarantee itself is at low: the mechanism's sensitivity is that of
 * min-sep k, low, for any separation above it.
 *
 * Candidates, each made for m = low, high and three separations between:
 *
 *     banded Toeplitz   m bands, optimal for min-sep k, m: the best there is of its kind when s = m
 *     tapered           the same, its coefficients from b0 on multiplied by (m - i)/(m - b0), for every smaller b0 of
 *                       the five (Appendix H there has b0 = low, m = high)
 *     BLT               optimal for min-sep k, m, with 2, 3, ... buffers up to 8, as long as one more is a gain
 *     banded            m bands, any entries, optimal for min-sep k, m: the columns of a unit do not overlap
 *
 * and, for all of them,
 *
 *     TV-BLT            the optimum of single participation, with the learning-rate schedule, under min-sep k, s: its
 *                       columns have norm 1, and those of k steps are near each other when s is small
 *
 * Where the separation is one number (people who come back to a count), so that nothing has to be robust, also
 *
 *     trees, square root, independent noise, every closed form that is named; dense C of few steps or when named
 *
 * Over a range these are no candidates. A family that is named and adds none is reported with the reason. Separations above (n-1)/(k-1), where k participations
 * do not fit into n steps, are left out.
 */
#include "design/design.h"

#include "base/memory.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * Over a range: where the sensitivity takes O(n^2) at each separation, as that of a TV-BLT does, every eighth of the 33 is
 * computed, and stands for those up to the next, where it can only be less.
 */
enum { EVERY = 8 };

static int64_t highest(const dpmf_design *d) {
    const int64_t k = d->options.epochs, fits = k > 1 ? (d->problem.steps - 1) / (k - 1) : d->problem.steps;
    return d->options.separation_high < fits ? d->options.separation_high : fits;
}

/* `count` whole numbers from low to high, evenly spaced, each once; returns their number. */
static int64_t spread(int64_t low, int64_t high, int64_t count, int64_t *out) {
    assert(low >= 1 && low <= high);
    if (high - low + 1 < count) count = high - low + 1;
    for (int64_t i = 0; i < count; i++)
        out[i] = count == 1 ? low : low + (high - low) / (count - 1) * i + (high - low) % (count - 1) * i / (count - 1);
    return count;
}

static dpmf_status separated(const dpmf_design *d, int64_t separation, dpmf_participation **out) {
    return dpmf_participation_create(DPMF_PARTICIPATION_MIN_SEPARATION, d->problem.steps, d->options.epochs, separation,
                                     out);
}

/* The requested loss without the sensitivity; infinite if it is beyond the range of a double. */
static dpmf_status error_of(const dpmf_design *d, const dpmf_strategy *s, double *out) {
    double *per_step = NULL, square = 0, largest = 0;
    TRY(base_alloc_doubles(d->problem.steps, "the errors", &per_step));
    dpmf_status status = dpmf_error_compute(d->problem.workload, s, &d->options.run, per_step);
    for (int64_t t = 0; t < d->problem.steps && status == DPMF_OK; t++) {
        square += per_step[t] * per_step[t] / (double)d->problem.steps;
        largest = fmax(largest, per_step[t]);
    }
    double error = d->problem.loss == DPMF_LOSS_MAX ? largest : sqrt(square);
    if (status == DPMF_OK && d->problem.loss > DPMF_LOSS_MAX)
        status = problem_loss_of(&(problem_loss){d->problem.loss, d->problem.loss_power, NULL}, d->problem.steps,
                                 per_step, &error);
    base_free(per_step);
    if (status != DPMF_OK) return status;
    *out = isfinite(error) ? error : INFINITY;
    return DPMF_OK;
}

static dpmf_status sensitivity_at(const dpmf_design *d, const dpmf_strategy *s, int64_t separation, double *out) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_participation *participation = NULL;
    dpmf_sensitivity found = {0};
    o.adjacency = d->problem.adjacency;
    o.columns = d->options.dim == 1;
    o.run = d->options.run;
    TRY(separated(d, separation, &participation));
    dpmf_status status = dpmf_sensitivity_compute(s, participation, &o, &found);
    dpmf_participation_free(participation);
    if (status == DPMF_OK) *out = found.value;
    return status;
}

dpmf_status design_federated_loss(const dpmf_design *d, const dpmf_strategy *s, int64_t separation, double *out) {
    double error = 0, sensitivity = 0;
    TRY(error_of(d, s, &error));
    TRY(sensitivity_at(d, s, separation, &sensitivity));
    *out = error * sensitivity;
    return DPMF_OK;
}

static dpmf_status fill_losses(const dpmf_design *d, const design_federated_range *f, design_federated_item *item) {
    const int many = f->points == DESIGN_FEDERATED_POINTS;
    const int64_t every = many && item->strategy->ops->gram_row != NULL ? EVERY : 1;
    double error = 0, sensitivity = 0;
    TRY(error_of(d, item->strategy, &error));
    for (int64_t i = 0; i < f->points; i++) {
        if (i % every == 0) TRY(sensitivity_at(d, item->strategy, f->separation[i], &sensitivity));
        item->loss[i] = sensitivity * error;
    }
    return DPMF_OK;
}

static dpmf_status make_room(design_federated_range *f) {
    void *bigger = NULL;
    if (f->count < f->capacity) return DPMF_OK;
    const int64_t capacity = f->capacity == 0 ? 32 : 2 * f->capacity;
    TRY(base_alloc(capacity, sizeof *f->item, "the candidates", &bigger));
    if (f->count > 0) memcpy(bigger, f->item, (size_t)f->count * sizeof *f->item);
    base_free(f->item);
    f->item = bigger;
    f->capacity = capacity;
    return DPMF_OK;
}

dpmf_status design_federated_take(const dpmf_design *d, design_federated_range *f, dpmf_strategy *strategy,
                                  const char *made_by, int *kept) {
    dpmf_status status = make_room(f);
    design_federated_item *item = status == DPMF_OK ? &f->item[f->count] : NULL;
    *kept = 0;
    if (item != NULL) {
        *item = (design_federated_item){.strategy = strategy};
        snprintf(item->made_by, sizeof item->made_by, "%s", made_by);
        status = fill_losses(d, f, item);
        *kept = status == DPMF_OK && isfinite(item->loss[0]);
        if (status == DPMF_ERROR_NUMERICAL) status = DPMF_OK;
    }
    if (*kept)
        f->count++;
    else
        dpmf_strategy_free(strategy);
    return status;
}

dpmf_status design_federated_optimum(const dpmf_design *d, const char *family, int64_t separation,
                                     const dpmf_optimize_options *o, dpmf_strategy **out) {
    dpmf_participation *participation = NULL;
    dpmf_optimization result;
    TRY(separated(d, separation, &participation));
    dpmf_status status = dpmf_optimize(family, d->problem.workload, participation, o, out, &result);
    if (design_may_skip(status) &&
        d->plain != d->problem.workload) /* not with a schedule: evaluated with it all the same */
        status = dpmf_optimize(family, d->plain, participation, o, out, &result);
    dpmf_participation_free(participation);
    return design_may_skip(status) ? DPMF_OK : status;
}

/* A closed form, where the separation is one number: it was not made for it. */
static dpmf_status add_closed_form(const dpmf_design *d, design_federated_range *f, const dpmf_family *family,
                                   const char *made_by) {
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_strategy *s = NULL;
    int kept = 0;
    if (family->bands) o.bands = f->made_for[0] < d->problem.steps ? f->made_for[0] : d->problem.steps;
    const dpmf_status status = dpmf_strategy_create(family->name, d->problem.workload, &o, &s);
    if (status != DPMF_OK) return design_may_skip(status) ? DPMF_OK : status;
    return design_federated_take(d, f, s, made_by, &kept);
}

/* Adds what the family has for separation i of the range. */
static dpmf_status ask_family(dpmf_design *d, design_federated_range *f, const strategy_family *family, int64_t i) {
    const strategy_candidates *has = &family->candidates;
    const char *name = family->shown.name, *as = has->separated_as;
    const int64_t before = f->count;
    if (!design_is_allowed(d, name)) return DPMF_OK;
    if (has->separated != NULL) TRY(has->separated(d, f, i));
    if (as == NULL && design_is_named(d, name) && family->shown.closed_form) as = family->shown.listed;
    if (as != NULL && f->points == 1) TRY(add_closed_form(d, f, &family->shown, as));
    for (int64_t j = before; j < f->count; j++)
        f->item[j].asked = name;
    return DPMF_OK;
}

/* A family that is named and added nothing is reported, unless it did so itself. */
static dpmf_status ask_the_named(dpmf_design *d, design_federated_range *f) {
    const char *names = d->options.families;
    for (const char *at = names; at != NULL && *at != 0;) {
        const size_t part = strcspn(at, ",");
        const strategy_family *family = strategy_family_find(at, part);
        const char *name = family->shown.name;
        at += part + (at[part] == ',');
        if (family->candidates.turn == 0) TRY(ask_family(d, f, family, 0)); /* only where it is named */
        int has = 0;
        for (int64_t j = 0; j < f->count && !has; j++)
            has = strcmp(f->item[j].asked, name) == 0;
        if (has || strstr(d->skipped_for_time, name) != NULL || strstr(d->skipped_for_steps, name) != NULL) continue;
        design_note_skipped(d, "%s was left out: %s.", name,
                            family->shown.closed_form && f->points > 1
                                ? "a closed form is compared at one separation, not over a range"
                                : "design has no candidate of it for this workload where units decide when they take "
                                  "part (evaluate or optimize makes one, calibrate gives it its noise)");
    }
    return DPMF_OK;
}

static int same_family(const design_federated_item *a, const design_federated_item *b) {
    return strcmp(a->strategy->family, b->strategy->family) == 0;
}

dpmf_status design_federated_open(dpmf_design *d, design_federated_range *out) {
    const int64_t low = d->options.separation_low, high = highest(d);
    design_federated_range f = {0};
    const int64_t count = spread(low, high, DESIGN_FEDERATED_MADE_FOR, f.made_for);
    dpmf_status status = DPMF_OK;
    f.points = spread(low, high, DESIGN_FEDERATED_POINTS, f.separation);
    for (int64_t i = 0; i < count; i++) {
        TRY_DONE(base_progress(&d->options.run, "federated candidates", (double)i / (double)count));
        for (const strategy_family *family = strategy_family_next(NULL); family != NULL;
             family = strategy_family_next(family))
            TRY_DONE(ask_family(d, &f, family, i));
    }
    TRY_DONE(ask_the_named(d, &f));
    for (int64_t i = 0; i < f.points; i++) {
        f.least[i] = INFINITY;
        for (int64_t j = 0; j < f.count; j++)
            f.least[i] = fmin(f.least[i], f.item[j].loss[i]);
    }
    for (int64_t j = 0; j < f.count; j++) {
        design_federated_item *item = &f.item[j];
        item->worst = 0;
        for (int64_t i = 0; i < f.points; i++) {
            double ratio = item->loss[i] / f.least[i];
            if (ratio <= item->worst) continue;
            item->worst = ratio;
            item->worst_at = f.separation[i];
        }
    }
    /* Marks those that another of the family makes useless; a few that need less memory stay choices. */
    for (int64_t i = 0; i < f.count; i++) {
        design_federated_item *item = &f.item[i];
        int64_t buffers = strategy_buffers(item->strategy);
        for (int64_t j = 0; j < f.count; j++) {
            const design_federated_item *other = &f.item[j];
            int64_t theirs = strategy_buffers(other->strategy);
            if (j == i || !same_family(item, other) || theirs > buffers || other->worst > item->worst) continue;
            if (theirs < buffers || other->worst < item->worst || j < i) item->dominated = 1;
        }
    }
    *out = f;
done:
    if (status != DPMF_OK) design_federated_close(&f);
    return status;
}

void design_federated_close(design_federated_range *f) {
    for (int64_t i = 0; i < f->count; i++)
        dpmf_strategy_free(f->item[i].strategy);
    base_free(f->item);
    *f = (design_federated_range){0};
}

dpmf_status design_federated(dpmf_design *d) {
    design_federated_range f = {0};
    dpmf_status status = design_federated_open(d, &f);
    for (int64_t i = 0; i < f.count && status == DPMF_OK; i++) {
        design_federated_item *item = &f.item[i];
        const size_t length = strlen(item->made_by);
        snprintf(item->made_by + length, sizeof item->made_by - length, "; at most %.5g of the best at %lld to %lld",
                 item->worst, (long long)f.separation[0], (long long)f.separation[f.points - 1]);
        const candidate c = {.strategy = item->strategy,
                             .compared = d->unsampled.sigma * f.least[0] * item->worst,
                             .info = {.is_search_point = item->dominated,
                                      .worst_ratio = f.points > 1 ? item->worst : 0,
                                      .worst_at = f.points > 1 ? item->worst_at : 0}};
        status = design_add(d, &c, item->made_by, NULL);
    }
    design_federated_close(&f);
    return status;
}

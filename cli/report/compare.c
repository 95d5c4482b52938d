/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf report: the rivals. Where the design covers the file's setting it is run again for it; else (weights, shuffled
 * or full participation, nothing that fits) the closed forms are evaluated one by one under the file's own
 * participation. Without sampling every mechanism has the same sigma at equal privacy, so a file without epsilon is
 * compared by losses.
 */
#include "report/report.h"

#include "family.h"
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Up to how many steps what is done, so that a page takes some seconds. */
enum {
    DESIGN_MOST = 32768,    /* the whole design */
    BANDS_MOST = 1024,      /* bands of the closed forms */
    BANDS_MOST_OF_MANY = 64 /* the same for more steps */
};

static void says(report *r, const char *text) {
    size_t length = strlen(r->compared);
    snprintf(r->compared + length, sizeof r->compared - length, "%s%s", length > 0 ? " " : "", text);
}

/* ---- the design of the file's setting ---- */

/* Is the file's sampling one that the candidates can rest on, without simulating each of them? */
static bool amplified(const report *r) {
    const dpmf_sampling *s = &r->sampling;
    return s->kind == DPMF_SAMPLING_POISSON || s->kind == DPMF_SAMPLING_BLOCK_CYCLIC ||
           s->picks == 1 /* random allocation */;
}

/* Passes over the data, and whether they describe the file's participation exactly. */
static int64_t epochs_of(const report *r, bool *same) {
    dpmf_participation_kind kind = dpmf_participation_get(r->participation).kind;
    int64_t count = dpmf_participation_get(r->participation).count;
    if (amplified(r)) {
        const dpmf_sampling *s = &r->sampling;
        double fraction =
            s->picks > 0 ? (double)s->picks / (double)s->count : s->probability; /* of the data, per step */
        double expected = fraction * (double)r->steps;
        int64_t epochs = llround(expected);
        if (epochs < 1) epochs = 1;
        *same = fabs(expected - (double)epochs) <= 1e-9 * expected;
        return epochs;
    }
    *same = kind != DPMF_PARTICIPATION_CYCLIC ||
            dpmf_participation_get(r->participation).separation == (r->steps + count - 1) / count;
    return dpmf_participation_get(r->participation).is_single ? 1 : count;
}

static bool design_covers(const report *r) {
    dpmf_participation_kind kind = dpmf_participation_get(r->participation).kind;
    return r->steps <= DESIGN_MOST && dpmf_mechanism_get(r->mechanism).weights == NULL &&
           kind != DPMF_PARTICIPATION_SHUFFLED && kind != DPMF_PARTICIPATION_FULL &&
           !(kind == DPMF_PARTICIPATION_PATTERNS && r->sampled) && !(r->sampled && !r->claimed);
}

/* Under the constraints of the file's design, unless the page's options say otherwise. */
static void take_limits(report *r, dpmf_design_options *how) {
    char words[DESIGNED_MAX];
    const dpmf_design_limits *held = &r->designed, *used = &r->limits;
    how->dim = used->dim;
    how->memory = used->memory;
    how->loss = used->loss;
    how->max_overhead = used->max_overhead > 0.0 ? used->max_overhead : INFINITY;
    const bool changed =
        held->dim != used->dim || held->memory != used->memory || held->max_overhead != used->max_overhead;
    says(r, held->dim == 0 ? "The file records no design; candidates were compared for"
            : changed      ? "Candidates were compared under other limits than those of the file's design:"
                           : "Candidates were compared under the limits of the file's design:");
    snprintf(r->compared + strlen(r->compared), sizeof r->compared - strlen(r->compared), " %s.",
             designed_words(used, words));
}

static dpmf_status run_design(report *r) {
    dpmf_design_options how = dpmf_design_options_defaults();
    bool same = true;
    how.epochs = epochs_of(r, &same);
    how.epsilon = r->claimed ? dpmf_mechanism_get(r->mechanism).epsilon : 1.0;
    how.delta = r->delta;
    take_limits(r, &how);
    how.adjacency = dpmf_mechanism_get(r->mechanism).adjacency;
    if (amplified(r)) {
        how.sampling = r->sampling.picks > 0 ? r->sampling.kind : DPMF_SAMPLING_BLOCK_CYCLIC;
        how.batch_cap = r->sampling.cap;
        how.units = r->sampling.units;
    }
    how.run = r->run;
    if (dpmf_participation_get(r->participation).kind == DPMF_PARTICIPATION_MIN_SEPARATION) {
        how.federated = 1;
        how.unit = dpmf_mechanism_get(r->mechanism).unit;
        if (how.unit == NULL) how.unit = "unit"; /* only the noise of candidates is shown */
        how.separation_low = how.separation_high = dpmf_participation_get(r->participation).separation;
        if (r->limits.separation_high > how.separation_low) how.separation_high = r->limits.separation_high;
    }
    if (dpmf_participation_get(r->participation).kind == DPMF_PARTICIPATION_PATTERNS) {
        how.participation = r->participation;
        how.unit = dpmf_mechanism_get(r->mechanism).unit != NULL ? dpmf_mechanism_get(r->mechanism).unit : "unit";
    }
    dpmf_status status = dpmf_design_create(r->workload, &how, &r->design);
    if (status != DPMF_OK) return status;
    if (!same)
        says(r, "The candidates are for whole passes over the data, but the file's setting is not a whole number of "
                "passes.");
    if (r->sampled && !amplified(r))
        says(r, "The candidates use no sampling: with the file's kind of sampling each one would need a simulation.");
    return DPMF_OK;
}

/* ---- closed forms, one by one ---- */

typedef struct closed_form {
    const char *family;
    bool bands;
} closed_form;

static const closed_form closed_forms[] = {{DPMF_FAMILY_IDENTITY, false}, {DPMF_FAMILY_TOEPLITZ, false},
                                           {DPMF_FAMILY_TREE, false},     {DPMF_FAMILY_TREE_ONLINE, false},
                                           {DPMF_FAMILY_BSR, true},       {DPMF_FAMILY_BISR, true}};

static dpmf_status evaluate_closed(const report *r, const char *family, int64_t bands, double sigma,
                                   dpmf_candidate *c) {
    dpmf_strategy_options shape = dpmf_strategy_options_defaults();
    dpmf_mechanism_options how = dpmf_mechanism_options_defaults();
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *made = NULL;
    shape.bands = bands;
    how.evaluate.adjacency = dpmf_mechanism_get(r->mechanism).adjacency;
    how.evaluate.weights = dpmf_mechanism_get(r->mechanism).weights;
    how.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    how.evaluate.run = r->run;
    how.sigma = sigma;
    how.made_by = "closed form";
    dpmf_status status = dpmf_strategy_create(family, r->workload, &shape, &strategy);
    if (status == DPMF_OK) status = dpmf_mechanism_create(r->workload, r->participation, strategy, &how, &made);
    if (status == DPMF_OK) {
        dpmf_evaluation found = dpmf_mechanism_get(made).evaluation;
        *c = (dpmf_candidate){.family = family, .bands = bands, .buffers = dpmf_strategy_get(strategy).buffers};
        c->sigma = sigma;
        c->sensitivity = found.sensitivity;
        c->rms_loss = found.rms_loss, c->max_loss = found.max_loss;
        c->noise_rms = sigma * found.rms_loss, c->noise_max = sigma * found.max_loss;
        c->eligible = 1;
        snprintf(c->reason, sizeof c->reason, "in closed form");
        uint64_t buffers = 0;
        status = dpmf_noise_memory(made, r->dim, NULL, &c->memory_bytes, &buffers);
        c->ratio = r->least_proven > 0.0 ? c->noise_rms / r->least_proven : 0.0;
    }
    dpmf_mechanism_free(made);
    dpmf_strategy_free(strategy);
    return status;
}

static int add_rival(report *r, const dpmf_candidate *c) {
    rival *grown = realloc(r->rivals, (size_t)(r->rival_count + 1) * sizeof *grown);
    if (grown == NULL) return fail_memory();
    r->rivals = grown;
    r->rivals[r->rival_count++] = (rival){.is = *c};
    return 0;
}

/* Every number of bands that is a power of two; the best of them is the family's, the others a sweep. */
static int sweep_bands(report *r, const char *family, double sigma) {
    const int64_t most = r->steps <= DESIGN_MOST ? BANDS_MOST : BANDS_MOST_OF_MANY;
    int64_t best = -1;
    int code = 0;
    for (int64_t bands = 1; code == 0 && bands <= r->steps && bands <= most; bands *= 2) {
        dpmf_candidate c;
        dpmf_status status = evaluate_closed(r, family, bands, sigma, &c);
        if (status == DPMF_ERROR_CANCELLED) return fail_status(status, NULL);
        if (status != DPMF_OK) continue; /* no such mechanism for this workload */
        c.is_search_point = 1;
        code = add_rival(r, &c);
        if (code == 0 && (best < 0 || c.noise_rms < r->rivals[best].is.noise_rms)) best = r->rival_count - 1;
    }
    if (code == 0 && best >= 0) r->rivals[best].is.is_search_point = 0;
    return code;
}

static int compare_closed_forms(report *r) {
    double sigma = r->best_scale;
    int code = 0;
    if (sigma <= 0.0) {
        says(r, "The file has sampling and no epsilon: it is not known at which noise another mechanism is equally "
                "private.");
        return 0;
    }
    for (size_t i = 0; code == 0 && i < sizeof closed_forms / sizeof *closed_forms; ++i) {
        dpmf_candidate c;
        if (closed_forms[i].bands) {
            code = sweep_bands(r, closed_forms[i].family, sigma);
            continue;
        }
        dpmf_status status = evaluate_closed(r, closed_forms[i].family, 0, sigma, &c);
        if (status == DPMF_ERROR_CANCELLED) return fail_status(status, NULL);
        if (status == DPMF_OK) code = add_rival(r, &c);
    }
    says(r, "The mechanisms that need no search, evaluated under the file's own participation.");
    return code;
}

/* ---- the file's own, and the order ---- */

static dpmf_candidate own_candidate(const report *r) {
    dpmf_candidate c = {.family = dpmf_strategy_get(r->strategy).family, .sampling = r->sampling, .eligible = 1};
    c.bands = family_bands(r->strategy);
    c.buffers = dpmf_strategy_get(r->strategy).buffers;
    c.normalized = dpmf_strategy_get(r->strategy).is_normalized;
    c.sigma = r->scale;
    c.sigma_kind = r->accounted ? r->privacy.kind : DPMF_EXACT;
    c.sensitivity = r->held.sensitivity;
    c.rms_loss = r->held.rms_loss, c.max_loss = r->held.max_loss;
    c.noise_rms = r->scale * c.rms_loss, c.noise_max = r->scale * c.max_loss;
    c.memory_bytes = r->memory;
    c.ratio = r->least_proven > 0.0 ? c.noise_rms / r->least_proven : 0.0;
    return c;
}

static bool is_own(const dpmf_candidate *c, const dpmf_candidate *own) {
    return strcmp(c->family, own->family) == 0 && c->sampling.kind == own->sampling.kind &&
           c->buffers == own->buffers && c->normalized == own->normalized &&
           fabs(c->noise_rms / own->noise_rms - 1.0) < 1e-6;
}

static int by_noise(const void *a, const void *b) {
    const rival *one = a, *other = b;
    double x = one->is.noise_rms, y = other->is.noise_rms;
    if (x != y) return x < y ? -1 : 1;
    return one->is.is_search_point - other->is.is_search_point;
}

/* Without an epsilon sigma is 1 for all: a design was calibrated for some other one, which does not matter. */
static void by_loss(dpmf_candidate *c) {
    c->sigma = 1.0;
    c->sigma_kind = DPMF_EXACT;
    c->noise_rms = c->rms_loss;
    c->noise_max = c->max_loss;
}

static bool within_memory(const report *r, const dpmf_candidate *own) {
    if (r->limits.memory == DPMF_MEMORY_NO_ROWS) return r->memory_buffers == 0;
    return r->limits.memory == 0 || own->memory_bytes <= r->limits.memory;
}

/*
 * Eligible is what fits and is fast enough. The file's own mechanism was found fast enough when it was designed: a
 * measurement a little above the limit here is a remark, and does not undo that.
 */
static void keep_eligible(const report *r, dpmf_candidate *own) {
    const dpmf_design_limits *held = &r->designed, *used = &r->limits;
    const bool fits = within_memory(r, own);
    if (own->eligible || !fits || held->dim == 0 || held->max_overhead <= 0.0) return;
    if (held->max_overhead > used->max_overhead || held->dim != used->dim) return;
    own->eligible = 1;
    snprintf(own->reason, sizeof own->reason,
             "fast enough when it was designed; here a row takes %.3g times the time of independent noise",
             own->overhead);
}

/* "Best" goes to the file where the design's choice, under the same criterion, is no better. */
static void name_best(report *r) {
    rival *own = NULL, *best = NULL;
    for (int64_t i = 0; i < r->rival_count; ++i) {
        if (r->rivals[i].own) own = &r->rivals[i];
        if (r->rivals[i].chosen) best = &r->rivals[i];
    }
    if (own == NULL || best == NULL || own == best || !own->is.eligible) return;
    const bool max_loss = r->limits.loss == DPMF_LOSS_MAX;
    double held = max_loss ? own->is.noise_max : own->is.noise_rms;
    double found = max_loss ? best->is.noise_max : best->is.noise_rms;
    if (best->is.worst_ratio >
        0.0) { /* federated: that decides, and of a mechanism that is no candidate it is not known */
        held = own->is.worst_ratio > 0.0 ? own->is.worst_ratio : HUGE_VAL;
        found = best->is.worst_ratio;
    }
    if (held > found) return;
    best->chosen = false;
    own->chosen = true;
    snprintf(best->is.reason, sizeof best->is.reason, "what a design chooses among its candidates");
    says(r, "This file is as good as, or better than, the choice that the design makes among its candidates.");
}

static int mark_own(report *r) {
    dpmf_candidate own = own_candidate(r);
    own.eligible = within_memory(r, &own);
    if (!r->claimed && !r->sampled) by_loss(&own);
    for (int point = 0; point <= 1; ++point) /* the family's best, before a point of its sweep */
        for (int64_t i = 0; i < r->rival_count; ++i)
            if (r->rivals[i].is.is_search_point == point && is_own(&r->rivals[i].is, &own)) {
                r->rivals[i].own = true;
                r->rivals[i].is.is_search_point = 0; /* the table shows it */
                keep_eligible(r, &r->rivals[i].is);
                return 0;
            }
    snprintf(own.reason, sizeof own.reason, "the mechanism of this file%s",
             own.eligible ? "" : ", which takes more memory than is allowed here");
    int code = add_rival(r, &own);
    if (code == 0) r->rivals[r->rival_count - 1].own = true;
    return code;
}

int report_compare(report *r) {
    int code = 0;
    r->equal_privacy = r->claimed;
    if (!r->sampled) r->least_proven = r->scale * r->held.lower_bound.rms_loss;
    dpmf_status status = design_covers(r) ? run_design(r) : DPMF_OK;
    if (status == DPMF_ERROR_CANCELLED) return fail_status(status, NULL);
    if (status != DPMF_OK) report_note(r, "No design for this setting: %s.", dpmf_last_error());
    if (r->design != NULL) {
        for (int64_t i = 0; code == 0 && i < dpmf_design_get(r->design).count; ++i) {
            dpmf_candidate c = *dpmf_design_candidate(r->design, i);
            if (!r->claimed) by_loss(&c);
            if (r->claimed && c.ratio > 0.0) r->least_proven = c.noise_rms / c.ratio;
            code = add_rival(r, &c);
            if (code == 0 && i == dpmf_design_get(r->design).chosen) r->rivals[i].chosen = true;
        }
    }
    if (code == 0 && r->design == NULL) code = compare_closed_forms(r);
    if (!r->claimed && !r->sampled)
        for (int64_t i = 0; i < r->rival_count; ++i)
            by_loss(&r->rivals[i].is);
    if (code == 0) code = mark_own(r);
    for (int64_t i = 0; i < r->rival_count; ++i)
        if (r->rivals[i].own && r->rivals[i].chosen) /* what the design warns of holds for the file, its choice */
            for (int64_t k = 0; k < dpmf_design_get(r->design).warnings; ++k)
                report_note(r, "%s", dpmf_design_warning(r->design, k));
    if (code == 0) name_best(r);
    if (code == 0) qsort(r->rivals, (size_t)r->rival_count, sizeof *r->rivals, by_noise);
    return code;
}

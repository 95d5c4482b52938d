/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: what the page says about privacy, memory, and the error of each step beside the optimum's. */
#include "report/report.h"

#include "problem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DENSE_MOST = 2048,    /* steps: half a second for the dense optimum of single participation */
    SEVERAL_MOST = 1024,  /* steps: some seconds for that of several, which takes many more iterations */
    PATTERNS_MOST = 24,   /* steps: where one unit has many possible patterns, some seconds */
    STREAMED_MOST = 32768 /* steps: some seconds for the optimum as a stream */
};
static const double DEFAULT_DELTA = 1e-6; /* for a file that has sigma and no delta */

void report_note(report *r, const char *format, ...) {
    char text[1200];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    json_text(&r->notes, NULL, text);
}

int report_without(report *r, dpmf_status status, const char *part) {
    if (status == DPMF_OK) return 0;
    if (status == DPMF_ERROR_CANCELLED) return fail_status(status, NULL);
    report_note(r, "%s: not on this page (%s).", part,
                status == DPMF_ERROR_MEMORY ? "out of memory" : dpmf_last_error());
    return 0;
}

/* ---- privacy ---- */

static int find_privacy(report *r) {
    dpmf_account_options how = dpmf_mechanism_account_options(r->mechanism);
    how.run = r->run;
    int code = take_unit(r->given, &how.covered);
    if (code != 0) return code;
    const bool own = r->sigma == dpmf_mechanism_get(r->mechanism).sigma;
    dpmf_status status = own ? own_epsilon(r->mechanism, r->delta, &how, &r->privacy)
                             : dpmf_account_epsilon(r->sigma, r->delta, &how, &r->privacy);
    if (status != DPMF_OK) return report_without(r, status, "Privacy");
    r->accounted = true;
    double claimed = dpmf_mechanism_get(r->mechanism).epsilon;
    dpmf_privacy said = r->privacy;
    if (r->claimed && said.kind != DPMF_EXACT && said.epsilon < claimed)
        said.epsilon = claimed; /* as true, and round */
    r->how = how;
    dpmf_privacy_statement(&said, &how, r->statement, sizeof r->statement);
    /* A bound found again may be off by its slack; more than that is worth a word. */
    double most = claimed * (r->privacy.kind == DPMF_EXACT ? 1.0 + 1e-9 : 1.0 + 2e-3);
    if (r->claimed && r->privacy.epsilon > most)
        report_note(
            r, "The file claims epsilon = %.6g, but its sigma gives no better than %.6g here (%s). Run dpmf verify.",
            safe_digits(claimed, 6, 1), safe_digits(r->privacy.epsilon, 6, 1), dpmf_certainty_name(r->privacy.kind));
    return 0;
}

/* epsilon at several delta: powers of ten from 1e-2 down, and the file's own among them as a marked point. */
static int find_curve(report *r) {
    dpmf_account_options how = dpmf_mechanism_account_options(r->mechanism);
    how.run = r->run;
    const bool simulated =
        r->sampling.kind == DPMF_SAMPLING_BALLS_IN_BINS || r->sampling.kind == DPMF_SAMPLING_MIN_SEPARATION;
    const double per_decade = r->sampled ? 1.0 : 2.0, least = simulated ? r->delta : 1e-10;
    for (int i = 0; r->curve_points < CURVE_MOST; ++i) {
        double delta = pow(10.0, -2.0 - i / per_decade);
        if (delta < least * (1.0 - 1e-9)) break;
        dpmf_privacy found;
        dpmf_status status = dpmf_account_epsilon(r->sigma, delta, &how, &found);
        if (status == DPMF_ERROR_CANCELLED) return fail_status(status, NULL);
        if (status != DPMF_OK) break; /* what there is stays */
        r->curve_delta[r->curve_points] = delta;
        r->curve_epsilon[r->curve_points] = found.epsilon;
        r->curve_known[r->curve_points++] = found.without_sampling;
    }
    return 0;
}

/* The largest true positive rate at false positive rates from 1e-5 to 0.3 and a half; a simulation would take minutes. */
static int find_risk(report *r) {
    dpmf_account_options how = dpmf_mechanism_account_options(r->mechanism);
    dpmf_risk_options asked = dpmf_risk_options_defaults();
    how.run = r->run;
    if (r->privacy.confidence > 0.0) return 0;
    for (int i = 0; i < RATES; ++i)
        r->rate_fpr[i] = i < RATES - 1 ? pow(10.0, -5.0 + 0.45 * i) : 0.5;
    asked.fpr = r->rate_fpr;
    asked.count = RATES;
    asked.remainder = fmin(fmax(r->delta, 1e-100), 0.1);
    const dpmf_status status = dpmf_account_risk(r->sigma, &how, &asked, r->rate_tpr, &r->risk);
    r->risky = status == DPMF_OK;
    return report_without(r, status, "Attacks");
}

static int gather_privacy(report *r) {
    double delta = dpmf_mechanism_get(r->mechanism).delta;
    r->claimed = r->sigma > 0.0 && delta > 0.0 && dpmf_mechanism_get(r->mechanism).epsilon > 0.0;
    r->delta = r->claimed ? delta : DEFAULT_DELTA;
    if (r->sigma <= 0.0) return 0;
    int code = find_privacy(r);
    if (code == 0 && r->accounted) code = find_risk(r);
    return code == 0 && r->accounted ? find_curve(r) : code;
}

/* ---- errors, step by step ---- */

static int gather_errors(report *r) {
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    how.adjacency = dpmf_mechanism_get(r->mechanism).adjacency;
    how.sensitivity = dpmf_mechanism_get(r->mechanism).sensitivity_bound;
    how.weights = dpmf_mechanism_get(r->mechanism).weights;
    how.lower_bound = DPMF_LOWER_BOUND_NONE; /* the file's evaluation has it */
    how.of = r->held.sensitivity.of;
    how.columns = r->held.sensitivity.columns;
    how.run = r->run;
    r->per_step = allocate(r->steps, sizeof *r->per_step);
    if (r->per_step == NULL) return fail_memory();
    dpmf_evaluation found;
    dpmf_status status = dpmf_evaluate(r->workload, r->participation, r->strategy, &how, &found, r->per_step);
    if (status != DPMF_OK) {
        free(r->per_step);
        r->per_step = NULL;
        return report_without(r, status, "The error of each step");
    }
    for (int64_t t = 0; t < r->steps; ++t)
        r->per_step[t] *= r->scale;
    return 0;
}

/* The family whose optimum can be computed in some seconds; NULL: none. */
static const char *optimum_family(const report *r) {
    bool single = dpmf_participation_get(r->participation).is_single;
    const int q_bands = dpmf_workload_get(r->workload).inverse_q_bands;
    const dpmf_participation_kind kind = dpmf_participation_get(r->participation).kind;
    const bool patterns = kind == DPMF_PARTICIPATION_SHUFFLED || kind == DPMF_PARTICIPATION_MIN_SEPARATION ||
                          kind == DPMF_PARTICIPATION_PATTERNS;
    if (r->steps <= (single ? DENSE_MOST : patterns ? PATTERNS_MOST : SEVERAL_MOST)) return DPMF_FAMILY_DENSE;
    return single && q_bands >= 0 && r->steps <= STREAMED_MOST ? DPMF_FAMILY_TVBLT : NULL;
}

static dpmf_status evaluate_optimum(report *r, const dpmf_strategy *best, const dpmf_optimization *result) {
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_evaluation found;
    how.adjacency = dpmf_mechanism_get(r->mechanism).adjacency;
    how.weights = dpmf_mechanism_get(r->mechanism).weights;
    how.lower_bound = DPMF_LOWER_BOUND_NONE;
    how.run = r->run;
    dpmf_status status = dpmf_evaluate(r->workload, r->participation, best, &how, &found, r->best);
    if (status != DPMF_OK) return status;
    for (int64_t t = 0; t < r->steps; ++t)
        r->best[t] *= r->best_scale;
    r->best_rms = found.rms_loss * r->best_scale;
    /* Under replace-one adjacency the losses, and not the optimizer's bounds, have the factor of two. */
    double unit = how.adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2.0 : 1.0;
    r->best_gap = result->optimum_lower > 0.0 ? found.rms_loss / (unit * result->optimum_lower) - 1.0 : HUGE_VAL;
    if (r->best_gap < 0.0) r->best_gap = 0.0;
    return DPMF_OK;
}

/*
 * With sampling the losses are at another sensitivity and another sigma: the optimum without sampling is set beside
 * them at the sigma that gives it the same (epsilon, delta).
 */
static dpmf_status optimum_scale(report *r) {
    if (r->sampled && !r->claimed) return DPMF_OK; /* nothing says at which sigma */
    if (!r->sampled) {
        r->best_scale = r->scale;
        return DPMF_OK;
    }
    dpmf_account_options how = dpmf_account_options_defaults();
    dpmf_privacy found;
    how.adjacency = dpmf_mechanism_get(r->mechanism).adjacency;
    if (how.adjacency == DPMF_ADJACENCY_REPLACE_ONE) how.sigma_unit = 2.0;
    dpmf_status status = dpmf_calibrate_sigma(dpmf_mechanism_get(r->mechanism).epsilon, r->delta, &how, &found);
    if (status == DPMF_OK) r->best_scale = found.sigma;
    return status;
}

static int gather_optimum(report *r) {
    const char *family = optimum_family(r);
    const double *weights = dpmf_mechanism_get(r->mechanism).weights;
    if (family == NULL || r->per_step == NULL) return 0;
    for (int64_t i = 0; weights != NULL && i < r->steps; ++i)
        if (weights[i] <= 0.0) return 0;
    if (r->best_scale <= 0.0) return 0;
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_optimization result;
    dpmf_strategy *best = NULL;
    how.weights = weights;
    how.run = r->run;
    dpmf_status status = dpmf_optimize(family, r->workload, r->participation, &how, &best, &result);
    if (status == DPMF_OK && best != NULL) {
        r->best = allocate(r->steps, sizeof *r->best);
        status = r->best != NULL ? evaluate_optimum(r, best, &result) : DPMF_ERROR_MEMORY;
    }
    dpmf_strategy_free(best);
    if (status != DPMF_OK || r->best == NULL) {
        free(r->best);
        r->best = NULL;
        /* Some settings have no known optimum. The section states that, and the user need not act. */
        return status == DPMF_ERROR_CANCELLED ? fail_status(status, NULL) : 0;
    }
    snprintf(r->best_name, sizeof r->best_name, "%s%s",
             strcmp(family, DPMF_FAMILY_DENSE) == 0 ? "dense optimum" : "optimum (tvblt)",
             r->sampled ? " without sampling, at equal privacy" : "");
    snprintf(r->best_scope, sizeof r->best_scope, "%s", result.scope != NULL ? result.scope : "");
    return 0;
}

/* ---- all of it ---- */

int report_gather(report *r) {
    const arguments *given = r->given;
    r->workload = dpmf_mechanism_get(r->mechanism).workload;
    r->participation = dpmf_mechanism_get(r->mechanism).participation;
    r->strategy = dpmf_mechanism_get(r->mechanism).strategy;
    r->held = dpmf_mechanism_get(r->mechanism).evaluation;
    r->steps = dpmf_workload_get(r->workload).steps;
    r->sigma = dpmf_mechanism_get(r->mechanism).sigma;
    r->scale = r->sigma > 0.0 ? r->sigma : 1.0;
    r->sampling = dpmf_mechanism_get(r->mechanism).sampling;
    r->sampled = !dpmf_sampling_is_none(&r->sampling);
    if (dpmf_sampling_format(&r->sampling, r->sampling_text) != DPMF_OK) return fail_status(DPMF_ERROR_FORMAT, NULL);
    r->limits = r->designed = dpmf_mechanism_get(r->mechanism).designed;
    if (r->limits.dim == 0) r->limits.dim = DEFAULT_DIM;
    if (option_given(given, OPTION_DIM)) r->limits.dim = given->count[OPTION_DIM];
    if (option_given(given, OPTION_MEMORY)) r->limits.memory = memory_limit(given);
    if (option_given(given, OPTION_MAX_OVERHEAD)) r->limits.max_overhead = given->number[OPTION_MAX_OVERHEAD];
    r->dim = r->limits.dim;
    dpmf_status status = dpmf_noise_memory(r->mechanism, r->dim, NULL, &r->memory, &r->memory_buffers);
    int code = report_without(r, status, "Memory of the noise");
    if (code == 0) code = gather_privacy(r);
    if (code == 0) code = gather_errors(r);
    if (code == 0) code = report_without(r, optimum_scale(r), "Noise without sampling");
    if (code == 0) code = gather_optimum(r);
    return code;
}

void report_free(report *r) {
    free(r->per_step);
    free(r->best);
    free(r->rivals);
    text_free(&r->notes);
    dpmf_design_free(r->design);
    dpmf_mechanism_free(r->mechanism);
}

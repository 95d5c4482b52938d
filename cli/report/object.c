/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: what was gathered about a mechanism file, as JSON, and its main figures for readers without script. */
#include "report/report.h"

#include "family.h"
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of the object ---- */

static void add_mechanism(const report *r, text_buffer *t) {
    char words[DESIGNED_MAX];
    const dpmf_strategy *s = r->strategy;
    json_text(t, "name", r->name);
    json_text(t, "family", dpmf_strategy_get(s).family);
    json_integer(t, "steps", r->steps);
    json_integer(t, "stamps", dpmf_strategy_get(s).stamps);
    json_count_known(t, "bands", family_bands(s));
    json_integer(t, "buffers", dpmf_strategy_get(s).buffers);
    json_bool(t, "normalized", dpmf_strategy_get(s).is_normalized);
    json_text(t, "workload", dpmf_workload_get(r->workload).text);
    json_text(t, "participation", dpmf_participation_get(r->participation).text);
    json_bool(t, "single_participation", dpmf_participation_get(r->participation).is_single);
    json_text(t, "sampling", r->sampling_text);
    json_bool(t, "sampled", r->sampled);
    json_text(t, "adjacency", dpmf_adjacency_name(dpmf_mechanism_get(r->mechanism).adjacency));
    json_bool(t, "weights", dpmf_mechanism_get(r->mechanism).weights != NULL);
    json_text(t, "made_by", dpmf_mechanism_get(r->mechanism).made_by);
    json_text(t, "designed", r->designed.dim > 0 ? designed_words(&r->designed, words) : NULL);
    json_text(t, "digest", dpmf_mechanism_get(r->mechanism).digest);
    json_known(t, "sigma", r->sigma);
    json_sensitivity(t, r->held.sensitivity);
    json_losses(t, &r->held);
    json_lower_bound(t, r->held.lower_bound);
    json_known(t, "ratio", r->held.lower_bound.rms_loss > 0.0 ? r->held.rms_loss / r->held.lower_bound.rms_loss : 0.0);
    json_double(t, "noise_rms", r->scale * r->held.rms_loss);
    json_double(t, "noise_max", r->scale * r->held.max_loss);
    json_known(t, "noise_rms_bound", r->least_proven);
}

static void add_cost(const report *r, text_buffer *t) {
    const dpmf_strategy *s = r->strategy;
    json_open(t, "cost", '{');
    json_integer(t, "dim", r->dim);
    json_text(t, "dim_is",
              option_given(r->given, OPTION_DIM) ? "as given"
              : r->designed.dim > 0              ? "as designed"
                                                 : "assumed");
    json_count_known(t, "memory_bytes", (int64_t)r->memory);
    json_integer(t, "memory_buffers_bytes", (int64_t)r->memory_buffers);
    json_bool(t, "step_by_step",
              dpmf_strategy_get(s).streams || dpmf_strategy_get(s).buffers < dpmf_strategy_get(s).steps - 1);
    json_double(t, "normals_per_number", dpmf_strategy_get(s).normals);
    json_close(t, '}');
}

static void add_risk(const report *r, text_buffer *t) {
    if (!r->risky) {
        json_null(t, "risk");
        return;
    }
    json_open(t, "risk", '{');
    json_double(t, "advantage", r->risk.advantage);
    json_double(t, "bayes_error", r->risk.bayes_error);
    json_double(t, "mu", r->risk.mu);
    json_double(t, "mu_remainder", r->risk.remainder);
    json_text(t, "kind", dpmf_certainty_name(r->risk.kind));
    json_open(t, "rates", '[');
    for (int i = 0; i < RATES; ++i) {
        json_open(t, NULL, '{');
        json_double(t, "fpr", r->rate_fpr[i]);
        json_double(t, "tpr", r->rate_tpr[i]);
        json_close(t, '}');
    }
    json_close(t, ']');
    json_close(t, '}');
}

static void add_privacy(const report *r, text_buffer *t) {
    if (!r->accounted) {
        json_null(t, "privacy");
        return;
    }
    json_open(t, "privacy", '{');
    json_double(t, "epsilon", r->privacy.epsilon);
    json_double(t, "delta", r->delta);
    json_text(t, "kind", dpmf_certainty_name(r->privacy.kind));
    json_known(t, "confidence", r->privacy.confidence);
    json_text(t, "method", r->privacy.method);
    json_known(t, "epsilon_claimed", r->claimed ? dpmf_mechanism_get(r->mechanism).epsilon : 0.0);
    json_text(t, "statement", r->statement);
    json_protected(t, &r->how);
    json_open(t, "curve", '[');
    for (int i = 0; i < r->curve_points; ++i) {
        json_open(t, NULL, '{');
        json_double(t, "delta", r->curve_delta[i]);
        json_double(t, "epsilon", r->curve_epsilon[i]);
        json_known(t, "epsilon_sampling_known", r->sampled ? r->curve_known[i] : 0.0);
        json_close(t, '}');
    }
    json_close(t, ']');
    add_risk(r, t);
    report_parts(r, t);
    json_close(t, '}');
}

static void add_rival(text_buffer *t, const rival *v) {
    const dpmf_candidate *c = &v->is;
    char sampling[64];
    /* A product is of the weaker kind of its factors. */
    const dpmf_certainty kind =
        c->sigma_kind == DPMF_ESTIMATE || c->sensitivity.kind == DPMF_EXACT ? c->sigma_kind : c->sensitivity.kind;
    json_open(t, NULL, '{');
    json_text(t, "family", c->family);
    json_count_known(t, "bands", c->bands);
    json_integer(t, "buffers", c->buffers);
    json_bool(t, "normalized", c->normalized != 0);
    const bool sampled =
        !dpmf_sampling_is_none(&c->sampling) && dpmf_sampling_format(&c->sampling, sampling) == DPMF_OK;
    json_text(t, "sampling", sampled ? sampling : NULL);
    json_bool(t, "this_file", v->own);
    json_bool(t, "best_eligible", v->chosen);
    json_bool(t, "eligible", c->eligible != 0);
    json_bool(t, "search_point", c->is_search_point != 0);
    json_text(t, "reason", c->reason);
    json_double(t, "sigma", c->sigma);
    json_sensitivity(t, c->sensitivity);
    json_double(t, "rms_loss", c->rms_loss);
    json_double(t, "max_loss", c->max_loss);
    json_double(t, "noise_rms", c->noise_rms);
    json_double(t, "noise_max", c->noise_max);
    json_text(t, "kind", dpmf_certainty_name(kind));
    json_known(t, "ratio", c->ratio);
    json_known(t, "worst_ratio", c->worst_ratio);
    json_count_known(t, "memory_bytes", (int64_t)c->memory_bytes);
    json_known(t, "overhead", c->overhead);
    json_close(t, '}');
}

static void add_comparison(const report *r, text_buffer *t) {
    json_open(t, "comparison", '{');
    json_bool(t, "equal_privacy", r->equal_privacy);
    json_bool(t, "range_of_separations", r->limits.separation_high > 0);
    json_text(t, "words", r->compared);
    if (r->design != NULL && r->claimed)
        json_text(t, "why", dpmf_design_get(r->design).why);
    else
        json_null(t, "why");
    json_open(t, "candidates", '[');
    for (int64_t i = 0; i < r->rival_count; ++i)
        add_rival(t, &r->rivals[i]);
    json_close(t, ']');
    json_close(t, '}');
}

/* Curves are thinned; `sample` has a few steps as they are. */
static int add_steps(const report *r, text_buffer *t) {
    enum { ROWS = 16 };
    if (r->per_step == NULL) {
        json_null(t, "per_step");
        return 0;
    }
    json_open(t, "per_step", '{');
    json_sequence(t, "noise", r->steps, r->per_step);
    if (r->best != NULL) {
        double *ratio = allocate(r->steps, sizeof *ratio);
        if (ratio == NULL) return fail_memory();
        for (int64_t i = 0; i < r->steps; ++i)
            ratio[i] = r->best[i] > 0.0 ? r->per_step[i] / r->best[i] : NAN;
        json_sequence(t, "optimum", r->steps, r->best);
        json_sequence(t, "ratio", r->steps, ratio);
        free(ratio);
    }
    json_open(t, "sample", '[');
    const int64_t rows = r->steps < ROWS ? r->steps : ROWS;
    for (int64_t i = 0; i < rows; ++i) {
        int64_t step = rows > 1 ? (int64_t)((double)(r->steps - 1) * (double)i / (double)(rows - 1)) : 0;
        json_open(t, NULL, '{');
        json_integer(t, "step", step);
        json_double(t, "noise", r->per_step[step]);
        json_double(t, "optimum", r->best != NULL ? r->best[step] : NAN);
        json_close(t, '}');
    }
    json_close(t, ']');
    json_close(t, '}');
    return 0;
}

static void add_optimum(const report *r, text_buffer *t) {
    if (r->best == NULL) {
        json_null(t, "optimum");
        return;
    }
    json_open(t, "optimum", '{');
    json_text(t, "name", r->best_name);
    json_text(t, "scope", r->best_scope);
    json_double(t, "noise_rms", r->best_rms);
    json_double(t, "gap", isfinite(r->best_gap) ? r->best_gap : NAN);
    json_close(t, '}');
}

int report_object(report *r, text_buffer *t) {
    json_begin(t);
    json_text(t, "page", "mechanism");
    add_mechanism(r, t);
    add_privacy(r, t);
    add_cost(r, t);
    add_comparison(r, t);
    add_optimum(r, t);
    int code = add_steps(r, t);
    if (code == 0) code = report_matrices(r, t);
    if (code == 0) code = report_batches(r, t);
    json_open(t, "notes", '['); /* last: what could not be made is among them */
    if (r->notes.bytes != NULL) text_add_bytes(t, r->notes.bytes, r->notes.length);
    t->failed = t->failed || r->notes.failed;
    json_close(t, ']');
    json_close(t, '}');
    return code;
}

/* ---- without script ---- */

void report_plain(const report *r, text_buffer *t) {
    const char *kind = dpmf_certainty_name(r->held.sensitivity.kind);
    const double bound = r->held.lower_bound.rms_loss;
    text_add(t, "<h1>");
    html_text(t, r->name);
    text_add(t, "</h1>\n<section>\n<p>Family ");
    html_text(t, dpmf_strategy_get(r->strategy).family);
    text_add(t, ", %lld steps, workload ", (long long)r->steps);
    html_text(t, dpmf_workload_get(r->workload).text);
    text_add(t, ", participation ");
    html_text(t, dpmf_participation_get(r->participation).text);
    text_add(t, "</p>\n<div class=\"statement\">\n");
    plain_paragraphs(t, r->accounted ? r->statement
                                     : "This mechanism has no noise multiplier yet. It promises no privacy until you "
                                       "choose sigma; figures of noise on this page are for sigma = 1.");
    text_add(t, "</div>\n");
    plain_table(t, "Figure|Value|Kind");
    if (r->claimed) plain_figure(t, "ε of the file", dpmf_mechanism_get(r->mechanism).epsilon, "claimed");
    if (r->accounted) {
        plain_figure(t, "ε, computed again", r->privacy.epsilon, dpmf_certainty_name(r->privacy.kind));
        plain_figure(t, "δ", r->delta, r->claimed ? "of the guarantee" : "chosen for this page");
        plain_figure(t, "σ", r->sigma, "given");
    }
    plain_figure(t, "Sensitivity", r->held.sensitivity.value, kind);
    plain_figure(t, "RMS loss", r->held.rms_loss, kind);
    plain_figure(t, "Max loss", r->held.max_loss, kind);
    if (bound > 0.0) {
        plain_figure(t, "RMS loss of any mechanism", bound, dpmf_certainty_name(DPMF_LOWER_BOUND));
        plain_figure(t, "RMS loss / bound", r->held.rms_loss / bound, dpmf_certainty_name(DPMF_UPPER_BOUND));
    }
    plain_figure(t, "Noise, RMS over steps", r->scale * r->held.rms_loss, kind);
    plain_table_end(t);
    if (r->per_step != NULL) {
        const sequence curves[] = {{"this file", r->per_step}, {r->best_name, r->best}};
        plain_picture(t, "Standard deviation of the noise in the output of each step, clip norm 1", r->steps, true,
                      r->best != NULL ? 2 : 1, curves);
    }
    text_add(t, "<p>SHA-256 <code>%s</code></p>\n</section>\n", dpmf_mechanism_get(r->mechanism).digest);
}

/* ---- parts of the run ---- */

static void add_part(text_buffer *t, const char *released, double epsilon, dpmf_certainty kind, const char *theorem) {
    json_open(t, NULL, '{');
    json_text(t, "released", released);
    json_double(t, "epsilon", epsilon);
    json_text(t, "kind", dpmf_certainty_name(kind));
    json_text(t, "by", theorem);
    json_close(t, '}');
}

static void add_first(const report *r, text_buffer *t, int64_t steps) {
    dpmf_account_options how = dpmf_account_options_defaults();
    dpmf_privacy found;
    double sigma = 0.0;
    char name[80];
    if (steps < 1 || steps >= r->steps) return;
    if (dpmf_mechanism_account_first(r->mechanism, steps, &r->run, &sigma, &how) != DPMF_OK) return;
    if (dpmf_account_epsilon(sigma, r->delta, &how, &found) != DPMF_OK) return;
    snprintf(name, sizeof name, "the first %lld steps alone", (long long)steps);
    add_part(t, name, found.epsilon, found.kind, "leading block of C; an end fixed before the run");
}

static void add_tuning(const report *r, text_buffer *t, const char *law, const char *name, const char *theorem) {
    dpmf_account_options how = dpmf_mechanism_account_options(r->mechanism);
    dpmf_tuning tuning;
    dpmf_privacy found;
    how.run = r->run;
    if (dpmf_tuning_parse(law, &tuning) != DPMF_OK) return;
    if (dpmf_account_tuning(r->sigma, r->delta, &how, &tuning, &found) != DPMF_OK) return;
    add_part(t, name, found.epsilon, found.kind, theorem);
}

void report_parts(const report *r, text_buffer *t) {
    json_open(t, "parts", '[');
    add_first(r, t, r->steps / 4);
    add_first(r, t, r->steps / 2);
    add_first(r, t, r->steps / 4 * 3);
    dpmf_ledger *ledger = NULL;
    dpmf_privacy found;
    dpmf_status status = dpmf_ledger_create(dpmf_mechanism_get(r->mechanism).adjacency, &ledger);
    if (status == DPMF_OK) status = dpmf_ledger_add_mechanism(ledger, r->mechanism, 2);
    if (status == DPMF_OK) status = dpmf_ledger_epsilon(ledger, r->delta, &r->run, &found);
    if (status == DPMF_OK)
        add_part(t, "two such runs on the same data", found.epsilon, found.kind,
                 found.total_mu > 0.0 ? "Gaussian privacy adds its squares" : "composition, in the certified engine");
    dpmf_ledger_free(ledger);
    add_tuning(r, t, "poisson:10", "the best of 10 runs on average, Poisson's law",
               "Papernot and Steinke 2022, Theorem 6");
    add_tuning(r, t, "negative-binomial:1,0.1", "the best of 10 runs on average, geometric law",
               "Papernot and Steinke 2022, Theorem 2");
    json_close(t, ']');
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/account.h"

#include "letters/letters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_first(text_buffer *t, const arguments *given, const account *a) {
    text_add(
        t,
        "This is for the first %lld of %lld steps only, with an end that was fixed before the run. If you looked at "
        "results or data to decide when to stop, state the epsilon of the whole run, which covers every stop.\n",
        (long long)given->count[OPTION_FIRST],
        (long long)dpmf_strategy_get(dpmf_mechanism_get(a->mechanism).strategy).steps);
}

static void add_tuning(text_buffer *t, const arguments *given, const account *a) {
    text_add(t,
             "The best of a random number of runs (%s, %.4g on average), best by any score, is (epsilon, "
             "delta)-differentially private with epsilon = %.6g and delta = %.6g, an upper bound (Papernot and Steinke "
             "2022), if the number is freshly drawn from this distribution, if the settings of every run are drawn at "
             "random from one list that does not depend on the data, and if only the best is released.\n"
             "One run alone: ",
             option_text(given, OPTION_TUNING), dpmf_tuning_runs(&a->tuning), rounded_up(a->tuned.epsilon),
             rounded_up(a->tuned.delta));
}

void account_statement(const arguments *given, account *a) {
    text_buffer before = {0};
    if (option_given(given, OPTION_FIRST)) add_first(&before, given, a);
    if (a->tuned.delta > 0.0) add_tuning(&before, given, a);
    size_t used = before.failed || before.bytes == NULL ? 0 : before.length;
    if (used >= sizeof a->statement) used = 0;
    if (used > 0) memcpy(a->statement, before.bytes, used);
    text_free(&before);
    dpmf_privacy_statement(&a->found, &a->how, option_text(given, OPTION_UNIT), a->statement + used,
                           sizeof a->statement - used);
}

static int64_t steps_of(const account *a) {
    if (a->how.compositions > 0) return a->how.compositions;
    if (dpmf_sampling_describe(a->how.sampling.kind)->allocates && a->how.strategy == NULL)
        return a->how.sampling.count * (a->how.epochs > 0 ? a->how.epochs : 1);
    return a->how.strategy == NULL ? 1 : dpmf_strategy_get(a->how.strategy).steps;
}

static void print_json(text_buffer *t, const arguments *given, const account *a, const char *sampling) {
    const dpmf_privacy *p = &a->found, *answer = a->tuned.delta > 0.0 ? &a->tuned : p;
    json_begin(t);
    json_double(t, "epsilon", answer->epsilon);
    json_double(t, "delta", p->delta);
    json_known(t, "sigma", p->sigma);
    json_known(t, "mu", p->mu);
    json_known(t, "rho", p->rho);
    json_text(t, "kind", dpmf_kind_name(answer->kind));
    json_known(t, "confidence", p->confidence);
    json_text(t, "method", answer->method);
    json_text(t, "adjacency", dpmf_adjacency_name(a->how.adjacency));
    json_text(t, "sampling", sampling);
    json_integer(t, "compositions", steps_of(a));
    json_text(t, "statement", a->statement);
    json_known(t, "total_mu", p->total_mu);
    json_known(t, "total_rho", p->total_rho);
    json_known(t, "epsilon_without_sampling", p->without_sampling);
    json_integer(t, "accounted_compositions", p->compositions);
    json_double(t, "accounted_probability", p->probability);
    json_bool(t, "slack_met", p->slack_met != 0);
    if (a->recomputed > 0.0) json_double(t, "epsilon_recomputed", a->recomputed);
    if (option_given(given, OPTION_FIRST)) {
        json_integer(t, "first", given->count[OPTION_FIRST]);
        json_integer(t, "whole", dpmf_strategy_get(dpmf_mechanism_get(a->mechanism).strategy).steps);
    }
    if (a->tuned.delta > 0.0) {
        json_text(t, "tuning", option_text(given, OPTION_TUNING));
        json_double(t, "expected_runs", dpmf_tuning_runs(&a->tuning));
        json_double(t, "epsilon_one_run", p->epsilon);
    }
    if (a->how.unconditional) json_integer(t, "coins", (int64_t)a->how.seed);
    if (a->how.units > 0) json_bool(t, "delta_below_one_unit", !delta_too_large(p->delta, a->how.units));
    if (option_given(given, OPTION_CURVE)) {
        json_open(t, "curve", '[');
        for (int i = 0; i < CURVE_POINTS; ++i) {
            json_open(t, NULL, '{');
            json_double(t, "delta", pow(10.0, -(i + 1)));
            json_double(t, "epsilon", a->curve[i]);
            json_close(t, '}');
        }
        json_close(t, ']');
    }
    if (a->observed.asked) observed_json(t, &a->observed);
    json_end(t);
}

static const char *kind_of(const account *a, asked what) {
    return a->ask == what ? dpmf_kind_name(a->found.kind) : NULL;
}

static void print_table(text_buffer *t, const arguments *given, const account *a, const char *sampling) {
    const dpmf_privacy *p = &a->found;
    const char *kind = dpmf_kind_name(p->kind);
    if (a->tuned.delta > 0.0) {
        table_double(t, "epsilon", a->tuned.epsilon, dpmf_kind_name(a->tuned.kind));
        table_double(t, "one run", p->epsilon, kind);
        table_double(t, "runs", dpmf_tuning_runs(&a->tuning), "on average");
    } else if (a->recomputed > 0.0) {
        table_double(t, "epsilon", p->epsilon, "as the file claims");
        table_double(t, "recomputed", a->recomputed, kind);
    } else {
        table_double(t, "epsilon", p->epsilon, a->ask == ASK_EPSILON || a->ask == ASK_RHO ? kind : NULL);
    }
    table_double(t, "delta", p->delta, kind_of(a, ASK_DELTA));
    if (p->sigma > 0.0) table_double(t, "sigma", p->sigma, kind_of(a, ASK_SIGMA));
    if (p->mu > 0.0) table_double(t, "mu", p->mu, NULL);
    if (p->rho > 0.0) table_double(t, "rho", p->rho, NULL);
    table_text(t, "method", a->tuned.delta > 0.0 ? a->tuned.method : p->method);
    if (p->confidence > 0.0) table_double(t, "confidence", p->confidence, NULL);
    table_text(t, "adjacency", dpmf_adjacency_name(a->how.adjacency));
    table_text(t, "sampling", sampling);
    table_integer(t, "compositions", steps_of(a));
    if (a->how.unconditional) table_integer(t, "random seed", (int64_t)a->how.seed);
    if (p->without_sampling > 0.0) table_double(t, "epsilon without it", p->without_sampling, "same noise and delta");
    if (delta_too_large(p->delta, a->how.units)) table_text(t, "warning", DELTA_TOO_LARGE);
    if (!p->slack_met) table_text(t, "note", "the bound holds, but may be looser than --tolerance");
    if (option_given(given, OPTION_CURVE)) text_add(t, "\ndelta     epsilon\n");
    for (int i = 0; option_given(given, OPTION_CURVE) && i < CURVE_POINTS; ++i) {
        char text[DIGITS_LENGTH];
        digits_of(a->curve[i], p->kind == DPMF_UPPER_BOUND ? 1 : 0, text);
        text_add(t, "1e-%-7d%s\n", i + 1, text);
    }
    if (a->observed.asked) observed_table(t, &a->observed);
    add_words(t, terminal_alphabet(), "\n%s", a->statement);
    if (a->observed.asked) {
        text_add(t, "\n");
        observed_statement(t, &a->observed, terminal_alphabet());
        text_add(t, "\n");
    }
}

int print_account(const arguments *given, const account *a) {
    text_buffer t = {0};
    char sampling[64];
    if (dpmf_sampling_format(&a->how.sampling, sampling) != DPMF_OK) return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    if (option_given(given, OPTION_JSON))
        print_json(&t, given, a, sampling);
    else
        print_table(&t, given, a, sampling);
    int code = text_print(&t);
    text_free(&t);
    return code;
}

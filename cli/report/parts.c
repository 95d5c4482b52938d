/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf report: what the same noise gives for a part of the run, for the best of several runs and for several together. */
#include "report/report.h"

#include <stdio.h>

static void add_part(text_buffer *t, const char *released, double epsilon, dpmf_kind kind, const char *theorem) {
    json_open(t, NULL, '{');
    json_text(t, "released", released);
    json_double(t, "epsilon", epsilon);
    json_text(t, "kind", dpmf_kind_name(kind));
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
    dpmf_account_options how = dpmf_mechanism_account(r->mechanism);
    dpmf_tuning tuning;
    dpmf_privacy found;
    how.run = r->run;
    if (dpmf_tuning_parse(law, &tuning) != DPMF_OK) return;
    if (dpmf_account_tuning(r->sigma, r->delta, &how, &tuning, &found) != DPMF_OK) return;
    add_part(t, name, found.epsilon, found.kind, theorem);
}

static void add_runs(const report *r, text_buffer *t) {
    dpmf_ledger *ledger = NULL;
    dpmf_privacy found;
    dpmf_status status = dpmf_ledger_create(dpmf_mechanism_get(r->mechanism).adjacency, &ledger);
    if (status == DPMF_OK) status = dpmf_ledger_add_mechanism(ledger, r->mechanism, 2);
    if (status == DPMF_OK) status = dpmf_ledger_epsilon(ledger, r->delta, &r->run, &found);
    if (status == DPMF_OK)
        add_part(t, "two such runs on the same data", found.epsilon, found.kind,
                 found.total_mu > 0.0 ? "Gaussian privacy adds its squares" : "composition, in the certified engine");
    dpmf_ledger_free(ledger);
}

void report_parts(const report *r, text_buffer *t) {
    json_open(t, "parts", '[');
    add_first(r, t, r->steps / 4);
    add_first(r, t, r->steps / 2);
    add_first(r, t, r->steps / 4 * 3);
    add_runs(r, t);
    add_tuning(r, t, "poisson:10", "the best of 10 runs on average, Poisson's law",
               "Papernot and Steinke 2022, Theorem 6");
    add_tuning(r, t, "negative-binomial:1,0.1", "the best of 10 runs on average, geometric law",
               "Papernot and Steinke 2022, Theorem 2");
    json_close(t, ']');
}

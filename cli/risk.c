/* SPDX-License-Identifier: Apache-2.0 */
#include "risk.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double USUAL_RATES[] = {1e-3, 0.01, 0.1};

/* R,R,...: false positive rates. */
static int read_rates(const char *text, risk_answer *a) {
    char one[64], shown[SHOWN];
    for (const char *at = text; at != NULL;) {
        const char *comma = strchr(at, ',');
        const size_t length = comma == NULL ? strlen(at) : (size_t)(comma - at);
        double value = 0.0;
        if (length >= sizeof one || a->how.count >= RISK_RATES)
            return fail(EXIT_USAGE, "--fpr %s: accepted: 1 to %d rates, with commas between", show(text, shown),
                        RISK_RATES);
        memcpy(one, at, length);
        one[length] = 0;
        if (!read_number(one, &value) || !(value >= 1e-100 && value < 1.0))
            return fail(EXIT_USAGE, "--fpr %s: accepted: rates from 1e-100 to below 1, with commas between",
                        show(text, shown));
        a->fpr[a->how.count++] = value;
        at = comma == NULL ? NULL : comma + 1;
    }
    return 0;
}

int risk_read(const arguments *given, const char *verb, risk_answer *a) {
    static const option_id with_risk[] = {OPTION_FPR, OPTION_PRIOR};
    const bool tpr = option_given(given, OPTION_TPR), advantage = option_given(given, OPTION_ADVANTAGE);
    a->target = tpr || advantage;
    a->asked = a->target || option_given(given, OPTION_RISK);
    a->how = dpmf_risk_options_defaults();
    if (tpr && advantage) return fail(EXIT_USAGE, "%s: --tpr and --advantage exclude each other", verb);
    for (size_t i = 0; i < sizeof with_risk / sizeof *with_risk; i++)
        if (!a->asked && option_given(given, with_risk[i]))
            return fail(EXIT_USAGE, "--%s goes with --risk, --tpr or --advantage", options[with_risk[i]].name);
    if (!a->asked) return 0;
    if (option_given(given, OPTION_PRIOR)) a->how.prior = given->number[OPTION_PRIOR];
    if (tpr) a->tpr_most = given->number[OPTION_TPR];
    if (advantage) a->advantage_most = given->number[OPTION_ADVANTAGE];
    if (option_given(given, OPTION_FPR)) {
        int code = read_rates(option_text(given, OPTION_FPR), a);
        if (code != 0) return code;
    }
    if (tpr && a->how.count != 1) return fail(EXIT_USAGE, "%s: --tpr needs one rate in --fpr", verb);
    if (a->how.count > 0) return 0;
    a->how.count = sizeof USUAL_RATES / sizeof *USUAL_RATES;
    memcpy(a->fpr, USUAL_RATES, sizeof USUAL_RATES);
    return 0;
}

dpmf_status risk_sigma(const risk_answer *a, const dpmf_account_options *how, double *sigma) {
    dpmf_privacy found;
    const dpmf_status status = a->tpr_most > 0.0 ? dpmf_calibrate_risk(a->tpr_most, a->fpr[0], how, &found)
                                                 : dpmf_calibrate_sigma(0.0, a->advantage_most * (1.0 - 1e-12), how,
                                                                        &found); /* read back with roundings */
    if (status == DPMF_OK) *sigma = found.sigma;
    return status;
}

dpmf_status risk_compute(risk_answer *a, double sigma, double delta, const dpmf_account_options *how) {
    if (!a->asked) return DPMF_OK;
    a->how.fpr = a->fpr;
    if (delta >= 1e-100) a->how.remainder = fmin(delta, 0.1);
    const dpmf_status status = dpmf_account_risk(sigma, how, &a->how, a->tpr, &a->found);
    if (status == DPMF_OK)
        dpmf_risk_statement(&a->found, &a->how, a->tpr, how->covered.unit, a->statement, sizeof a->statement);
    return status;
}

void risk_json(text_buffer *t, const risk_answer *a) {
    if (!a->asked) return;
    json_open(t, "risk", '{');
    json_double(t, "advantage", a->found.advantage);
    json_double(t, "prior", a->found.prior);
    json_double(t, "bayes_error", a->found.bayes_error);
    json_double(t, "mu", a->found.mu);
    json_double(t, "mu_remainder", a->found.remainder);
    json_text(t, "kind", dpmf_certainty_name(a->found.kind));
    json_known(t, "confidence", a->found.confidence);
    json_text(t, "method", a->found.method);
    json_open(t, "rates", '[');
    for (int64_t i = 0; i < a->how.count; i++) {
        json_open(t, NULL, '{');
        json_double(t, "fpr", a->fpr[i]);
        json_double(t, "tpr", a->tpr[i]);
        json_close(t, '}');
    }
    json_close(t, ']');
    json_text(t, "statement", a->statement);
    json_close(t, '}');
}

void risk_table(text_buffer *t, const risk_answer *a) {
    const bool exact = a->found.kind == DPMF_EXACT;
    const char *most = dpmf_certainty_name(exact ? DPMF_EXACT : DPMF_UPPER_BOUND);
    if (!a->asked) return;
    for (int64_t i = 0; i < a->how.count; i++) {
        char name[40];
        snprintf(name, sizeof name, "TPR at %.4g", safe_digits(a->fpr[i], 4, -1));
        table_upper(t, name, a->tpr[i], most);
    }
    table_upper(t, "advantage", a->found.advantage, most);
    table_lower(t, "Bayes error", a->found.bayes_error, exact ? most : dpmf_certainty_name(DPMF_LOWER_BOUND));
    table_lower(t, "prior", a->found.prior, NULL);
    table_upper(t, "Gaussian mu", a->found.mu, most);
    if (a->found.remainder > 0.0) table_upper(t, "apart from", a->found.remainder, "of true positives");
    if (a->found.confidence > 0.0) table_lower(t, "all with", a->found.confidence, "confidence");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The guarantee of a mechanism file or of a run, and the limits of its design, in words and JSON. */
#include "problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int take_unit(const arguments *given, dpmf_coverage *covered) {
    const char *named = given->text[OPTION_UNIT];
    if (named == NULL || (covered->unit != NULL && strcmp(covered->unit, named) == 0)) return 0;
    if (covered->unit != NULL) return contradiction(given, OPTION_UNIT, covered->unit);
    covered->unit = named;
    covered->unit_named = 1;
    return 0;
}

dpmf_status own_epsilon(const dpmf_mechanism *mechanism, double delta, const dpmf_account_options *how,
                        dpmf_privacy *out) {
    const dpmf_mechanism_info m = dpmf_mechanism_get(mechanism);
    dpmf_account_options words = dpmf_account_options_defaults();
    dpmf_privacy found = {0};
    if (m.epsilon > 0.0 && delta == m.delta) {
        dpmf_status status = dpmf_mechanism_confirm(mechanism, &how->run, &found);
        words.covered = how->covered; /* an account refuses a name of the unit that must not stand in a statement */
        if (status == DPMF_OK && found.confidence > 0.0) status = dpmf_account_epsilon(1.0, delta, &words, out);
        if (status != DPMF_OK) return status;
    }
    if (found.confidence == 0.0) return dpmf_account_epsilon(m.sigma > 0.0 ? m.sigma : 1.0, delta, how, out);
    *out = found;
    out->delta = delta;
    return DPMF_OK;
}

int state_run(const arguments *given, const dpmf_mechanism *mechanism, double clip, int64_t done, run_guarantee *out) {
    const dpmf_mechanism_info m = dpmf_mechanism_get(mechanism);
    out->how = dpmf_mechanism_account_options(mechanism);
    out->how.covered.clip = clip;
    out->how.covered.done = done;
    int code = take_unit(given, &out->how.covered);
    if (code != 0) return code;
    /* The account also refuses a name of the unit that must not stand in a statement. */
    dpmf_status status = own_epsilon(mechanism, m.delta > 0.0 ? m.delta : 1e-6, &out->how, &out->found);
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (m.epsilon == 0.0) {
        out->found = (dpmf_privacy){0};
        snprintf(out->statement, sizeof out->statement, "No guarantee is claimed: the mechanism (%s, SHA-256 %s) %s.\n",
                 dpmf_strategy_get(m.strategy).family, m.digest,
                 m.sigma > 0.0 ? "has a sigma, and no epsilon and delta" : "is not calibrated");
        return 0;
    }
    out->found.epsilon = fmax(out->found.epsilon, m.epsilon); /* the claim is as true, and is what people publish */
    dpmf_privacy_statement(&out->found, &out->how, out->statement, sizeof out->statement);
    return 0;
}

void json_protected(text_buffer *t, const dpmf_account_options *how) {
    const dpmf_coverage *c = &how->covered;
    const bool known = c->family != NULL && dpmf_sampling_is_none(&how->sampling); /* else participations are drawn */
    json_open(t, "protected", '{');
    json_text(t, "unit", c->unit);
    json_bool(t, "unit_recorded", c->unit != NULL && !c->unit_named && c->family != NULL);
    json_text(t, "participation", known ? c->participation.text : NULL);
    json_count_known(t, "most_participations", known ? c->participation.count : 0);
    json_count_known(t, "separation", known ? c->participation.separation : 0);
    json_known(t, "clip", c->clip);
    if (c->done >= 0)
        json_integer(t, "steps_done", c->done);
    else
        json_null(t, "steps_done");
    json_count_known(t, "steps_designed", c->participation.steps);
    json_text(t, "family", c->family);
    if (c->family != NULL)
        json_bool(t, "correlated", c->correlated != 0);
    else
        json_null(t, "correlated");
    json_known(t, "sensitivity", c->sensitivity.value);
    json_count_known(t, "columns", c->sensitivity.columns); /* that it holds for; null: any number */
    json_text(t, "digest", c->digest);
    json_close(t, '}');
}

/* ---- words of a design ------------------------------------------------------------------------------------------ */

const char *loss_words(const dpmf_design_limits *d, char out[LOSS_SHOWN]) {
    static const char *const names[] = {"rms", "max", "lp:", "last", "own"};
    int length = snprintf(out, LOSS_SHOWN, "%s", names[d->loss]);
    if (d->loss == DPMF_LOSS_LP) snprintf(out + length, (size_t)(LOSS_SHOWN - length), "%g", d->loss_power);
    return out;
}

const char *designed_words(const dpmf_design_limits *d, char out[DESIGNED_MAX]) {
    char bytes[BYTES_SHOWN], memory[60] = "any memory", time[80] = "any time", range[60] = "";
    char loss[LOSS_SHOWN];
    if (d->memory == DPMF_MEMORY_NO_ROWS)
        snprintf(memory, sizeof memory, "no row kept");
    else if (d->memory > 0)
        snprintf(memory, sizeof memory, "memory at most %s", show_bytes(d->memory, bytes));
    if (d->max_overhead > 0.0)
        snprintf(time, sizeof time, "at most %g times the time of independent noise", d->max_overhead);
    if (d->separation_high > 0) snprintf(range, sizeof range, ", separations up to %" PRId64, d->separation_high);
    snprintf(out, DESIGNED_MAX, "rows of %" PRId64 " numbers, %s, %s, least %s noise%s", d->dim, memory, time,
             d->loss == DPMF_LOSS_RMS ? "RMS" : loss_words(d, loss), range);
    return out;
}

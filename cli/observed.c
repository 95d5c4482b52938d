/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of a run is sigma x s, s the sensitivity in the file, for any participation. With the sensitivity s' of the
 * actual participations it is sigma s/s' times s': the account uses this multiplier.
 */
#include "observed.h"

#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The library counts units; people use clients and lines. */
static int fail_observed(dpmf_status status, const char *path, const participation_log *log) {
    int64_t later = 0;
    if (status == DPMF_ERROR_ARGUMENT && log_find_repeat(log, &later) == 1) {
        char name[SHOWN];
        return fail(EXIT_UNABLE, "%s, line %" PRId64 ": client %s takes part twice in round %" PRId64, path, later + 2,
                    show(log_client(log, log->client[later]), name), log->round[later]);
    }
    return fail_status(status, path);
}

int observed_open(const char *path, const dpmf_mechanism *mechanism, dpmf_run run, observed_run *out) {
    const dpmf_strategy *strategy = dpmf_mechanism_get(mechanism).strategy;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    int code = log_read(path, dpmf_strategy_get(strategy).steps, &out->log);
    if (code != 0) return code;
    o.adjacency = dpmf_mechanism_get(mechanism).adjacency;
    o.run = run;
    dpmf_status status = dpmf_sensitivity_observed(strategy, out->log.count, out->log.client, out->log.round, &o,
                                                   &out->sensitivity, &out->worst);
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    if (status != DPMF_OK) return fail_observed(status, path, &out->log);
    out->designed = dpmf_mechanism_get(mechanism).evaluation.sensitivity;
    out->asked = true;
    return 0;
}

void observed_close(observed_run *o) {
    log_free(&o->log);
}

dpmf_status observed_account(observed_run *o, double sigma, const dpmf_privacy *designed,
                             const dpmf_account_options *how) {
    o->sigma = sigma * (o->designed.value / o->sensitivity.value);
    dpmf_status status = o->of_delta ? dpmf_account_delta(o->sigma, designed->epsilon, how, &o->privacy)
                                     : dpmf_account_epsilon(o->sigma, designed->delta, how, &o->privacy);
    if (o->sensitivity.kind != DPMF_EXACT) o->privacy.kind = DPMF_UPPER_BOUND;
    return status;
}

/* Is it above the file's assumption, beyond rounding? */
static bool exceeds(const observed_run *o) {
    return o->sensitivity.value > o->designed.value * (1 + 1e-9);
}

void observed_json(text_buffer *t, const observed_run *o) {
    json_open(t, "observed", '{');
    json_double(t, "sensitivity", o->sensitivity.value);
    json_text(t, "kind", dpmf_kind_name(o->sensitivity.kind));
    json_integer(t, "clients", o->log.clients);
    json_integer(t, "participations", o->log.count);
    json_text(t, "worst_client", log_client(&o->log, o->worst));
    json_double(t, "sigma", o->sigma);
    json_double(t, "epsilon", o->privacy.epsilon);
    json_double(t, "delta", o->privacy.delta);
    json_text(t, "method", o->sensitivity.method);
    json_double(t, "designed_sensitivity", o->designed.value);
    json_bool(t, "exceeds_design", exceeds(o));
    text_buffer statement = {0};
    observed_statement(&statement, o, ALPHABET_ASCII);
    if (statement.failed || statement.bytes == NULL) t->failed = true;
    if (!t->failed) json_text(t, "statement", statement.bytes);
    text_free(&statement);
    json_close(t, '}');
}

/* Rows of the table, with room for the longest of these names. */
static void add_row(text_buffer *t, const char *name, double value, const char *kind) {
    text_add(t, "%-22s%-16.9g%s\n", name, value, kind);
}

void observed_table(text_buffer *t, const observed_run *o) {
    const char *kind = dpmf_kind_name(o->privacy.kind);
    text_add(t, "\nThe actual run: %" PRId64 " participations of %" PRId64 " client%s\n", o->log.count, o->log.clients,
             o->log.clients == 1 ? "" : "s");
    add_row(t, "observed sensitivity", o->sensitivity.value, dpmf_kind_name(o->sensitivity.kind));
    add_row(t, "designed sensitivity", o->designed.value, dpmf_kind_name(o->designed.kind));
    text_add(t, "%-22s%s\n", "worst client", log_client(&o->log, o->worst));
    add_row(t, "observed sigma", o->sigma, "the same noise divided by the observed sensitivity");
    add_row(t, "observed epsilon", o->privacy.epsilon, o->of_delta ? "as asked" : kind);
    add_row(t, "observed delta", o->privacy.delta, o->of_delta ? kind : "as asked");
    if (exceeds(o))
        text_add(t, "%-22s%s\n", "warning",
                 o->sensitivity.kind == DPMF_EXACT
                     ? "the run breaks an assumption of the design: its guarantee does not hold"
                     : "it is not proven that the run satisfies the assumptions of the design");
}

bool observed_breaks(const observed_run *o) {
    return o->log.count > 0 && exceeds(o) && o->sensitivity.kind == DPMF_EXACT;
}

/* Up to four digits: a guarantee is never rounded down. */
static double four_digits(double x) {
    if (!(x > 0) || !isfinite(x)) return x;
    double scale = pow(10.0, 3 - floor(log10(x)));
    return ceil(x * scale * (1 - 1e-15)) / scale;
}

void observed_statement(text_buffer *t, const observed_run *o, alphabet how) {
    add_words(t, how,
              "The actual run: with the %" PRId64 " participations of the log, the sensitivity is %.9g (%s; client ",
              o->log.count, o->sensitivity.value, dpmf_kind_name(o->sensitivity.kind));
    text_add(t, "%s", log_client(&o->log, o->worst)); /* a name stays as it is */
    add_words(
        t, how,
        ") instead of %.9g, and the same noise gives epsilon = %.4g at delta = %.4g%s. This figure takes the log as "
        "given: it holds if who takes part in which round does not depend on anybody's data. It protects neither "
        "the log nor anything that was decided by looking at the data. A guarantee made before the run needs a "
        "participation that certainly holds: the one above.",
        o->designed.value, four_digits(o->privacy.epsilon), four_digits(o->privacy.delta),
        o->privacy.kind == DPMF_EXACT ? "" : " (an upper bound)");
    if (observed_breaks(o))
        text_add(t, " Here the log breaks the participation that the design assumes, and its guarantee does not hold.");
}

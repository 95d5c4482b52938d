/* SPDX-License-Identifier: Apache-2.0 */
#include "options/verbs.h"
#include "output.h"
#include "problem.h"
#include "risk.h"

#include <stdio.h>

enum { STATEMENT_MAX = 4096 + RISK_STATEMENT };

typedef struct calibration {
    dpmf_mechanism *from, *made;
    dpmf_sampling sampling;
    dpmf_privacy found;
    risk_answer risk;
} calibration;

/* The same mechanism for groups of another size, not calibrated. */
static dpmf_status regroup(const arguments *given, const dpmf_run *run, calibration *c) {
    const dpmf_mechanism_info held = dpmf_mechanism_get(c->from);
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_mechanism *made = NULL;
    if (!option_given(given, OPTION_GROUP) || given->count[OPTION_GROUP] == (held.group > 1 ? held.group : 1))
        return DPMF_OK;
    about.evaluate.adjacency = held.adjacency;
    about.evaluate.sensitivity = held.sensitivity_bound;
    about.evaluate.weights = held.weights;
    about.evaluate.run = *run;
    about.sampling = held.sampling;
    about.made_by = held.made_by;
    about.unit = held.unit;
    about.designed = held.designed;
    about.group = given->count[OPTION_GROUP];
    const dpmf_status status = dpmf_mechanism_create(held.workload, held.participation, held.strategy, &about, &made);
    if (status != DPMF_OK) return status;
    dpmf_mechanism_free(c->from);
    c->from = made;
    return DPMF_OK;
}

static dpmf_status calibrate_at(const arguments *given, const dpmf_run *run, double epsilon, calibration *c) {
    dpmf_mechanism *made = NULL;
    const dpmf_status status = dpmf_mechanism_calibrate(c->from, epsilon, given->number[OPTION_DELTA], &c->sampling,
                                                        option_text(given, OPTION_UNIT), run, &made, &c->found);
    if (status != DPMF_OK) return status;
    dpmf_mechanism_free(c->made);
    c->made = made;
    return DPMF_OK;
}

/*
 * A file claims (epsilon, delta). The sigma that limits the risk has an epsilon at delta, and the file is calibrated for that: a search
 * may end a little below that sigma, and then epsilon is lowered until it is not below.
 */
static dpmf_status limit_risk(const arguments *given, const dpmf_run *run, calibration *c) {
    dpmf_privacy at;
    double sigma = 0.0, less = 2e-5;
    dpmf_status status = calibrate_at(given, run, 1.0, c); /* only for the options of its account */
    if (status != DPMF_OK) return status;
    dpmf_account_options how = dpmf_mechanism_account_options(c->made);
    how.run = *run;
    status = risk_sigma(&c->risk, &how, &sigma);
    if (status == DPMF_OK) status = dpmf_account_epsilon(sigma, given->number[OPTION_DELTA], &how, &at);
    if (status != DPMF_OK) return status;
    for (double epsilon = at.epsilon; status == DPMF_OK; less *= 2.0) {
        status = calibrate_at(given, run, epsilon, c);
        if (c->found.sigma >= sigma) break;
        epsilon *= 1.0 - (less < 0.5 ? less : 0.5);
    }
    return status;
}

static int compute(const arguments *given, calibration *c) {
    const dpmf_run run = run_with((int)given->count[OPTION_THREADS]);
    dpmf_status status = DPMF_OK;
    c->sampling = dpmf_mechanism_get(c->from).sampling;
    if (option_given(given, OPTION_SAMPLING))
        status = dpmf_sampling_parse(option_text(given, OPTION_SAMPLING), &c->sampling);
    if (status != DPMF_OK) return fail_status(status, "--sampling");
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* a search may be silent for long */
    status = regroup(given, &run, c);
    if (status != DPMF_OK) return fail_status(status, "--group");
    status = c->risk.target ? limit_risk(given, &run, c) : calibrate_at(given, &run, given->number[OPTION_EPSILON], c);
    if (status == DPMF_OK && c->risk.asked) {
        dpmf_account_options how = dpmf_mechanism_account_options(c->made);
        how.run = run;
        status = risk_compute(&c->risk, c->found.sigma, c->found.delta, &how);
    }
    end_later();
    progress_clear();
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

static void print_json(text_buffer *t, const calibration *c, const dpmf_account_options *how, const char *sampling,
                       const char *statement) {
    const dpmf_evaluation held = dpmf_mechanism_get(c->made).evaluation;
    json_begin(t);
    json_text(t, "family", dpmf_strategy_get(dpmf_mechanism_get(c->made).strategy).family);
    json_integer(t, "steps", dpmf_strategy_get(dpmf_mechanism_get(c->made).strategy).steps);
    json_double(t, "sigma", c->found.sigma);
    json_double(t, "epsilon", c->found.epsilon);
    json_double(t, "delta", c->found.delta);
    json_text(t, "kind", dpmf_certainty_name(c->found.kind));
    json_known(t, "confidence", c->found.confidence);
    json_text(t, "method", c->found.method);
    json_text(t, "adjacency", dpmf_adjacency_name(dpmf_mechanism_get(c->made).adjacency));
    json_text(t, "sampling", sampling);
    json_integer(t, "group", how->group > 1 ? how->group : 1);
    json_sensitivity(t, held.sensitivity);
    json_double(t, "noise_rms", c->found.sigma * held.rms_loss);
    json_double(t, "noise_max", c->found.sigma * held.max_loss);
    json_text(t, "digest", dpmf_mechanism_get(c->made).digest);
    json_text(t, "statement", statement);
    json_protected(t, how);
    risk_json(t, &c->risk);
    json_end(t);
}

static int print_answer(const arguments *given, const calibration *c) {
    text_buffer t = {0};
    char sampling[64] = "none", statement[STATEMENT_MAX];
    const dpmf_account_options how = dpmf_mechanism_account_options(c->made);
    if (dpmf_sampling_format(&c->sampling, sampling) != DPMF_OK) return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    const size_t used = dpmf_privacy_statement(&c->found, &how, statement, sizeof statement);
    if (c->risk.asked && used < sizeof statement)
        snprintf(statement + used, sizeof statement - used, "%s", c->risk.statement);
    if (option_given(given, OPTION_JSON))
        print_json(&t, c, &how, sampling, statement);
    else {
        const dpmf_evaluation held = dpmf_mechanism_get(c->made).evaluation;
        table_text(&t, "family", dpmf_strategy_get(dpmf_mechanism_get(c->made).strategy).family);
        table_integer(&t, "steps", dpmf_strategy_get(dpmf_mechanism_get(c->made).strategy).steps);
        table_upper(&t, "sigma", c->found.sigma, dpmf_certainty_name(c->found.kind));
        table_upper(&t, "epsilon", c->found.epsilon, NULL);
        table_upper(&t, "delta", c->found.delta, NULL);
        table_text(&t, "method", c->found.method);
        table_text(&t, "sampling", sampling);
        if (how.group > 1) table_integer(&t, "group", how.group);
        table_sensitivity(&t, held.sensitivity);
        risk_table(&t, &c->risk);
        table_upper(&t, "RMS noise", c->found.sigma * held.rms_loss, "sigma x RMS loss");
        add_words(&t, terminal_alphabet(), "\n%s", statement);
    }
    return text_finish(&t);
}

int cmd_calibrate(const arguments *given) {
    calibration c = {0};
    int code = risk_read(given, "calibrate", &c.risk);
    if (code != 0) return code;
    if (option_given(given, OPTION_EPSILON) == c.risk.target || !option_given(given, OPTION_DELTA))
        return fail(EXIT_USAGE, "calibrate needs --delta D and one of --epsilon E, --advantage A and --tpr T --fpr R");
    code = load_mechanism(given->operand, &c.from);
    dpmf_coverage covered = {.unit = code == 0 ? dpmf_mechanism_get(c.from).unit : NULL};
    if (code == 0) code = take_unit(given, &covered);
    if (code == 0) code = compute(given, &c);
    if (code == 0) code = save_mechanism(c.made, option_text(given, OPTION_OUT));
    if (code == 0) code = print_answer(given, &c);
    dpmf_mechanism_free(c.from);
    dpmf_mechanism_free(c.made);
    return code;
}

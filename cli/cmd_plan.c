/* SPDX-License-Identifier: Apache-2.0 */
/* plan: the options of a data set, the grid as a table or JSON, and the recommended mechanism in a file. */
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"
#include "problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATEMENT_MAX = 8192, NUMBER_MAX = 40 };

/* ---- options ---- */

/* The two ends of LOW..HIGH, or one value twice; false if there is none. */
static bool split_range(const char *text, char low[NUMBER_MAX], char high[NUMBER_MAX]) {
    const char *dots = strstr(text, "..");
    const size_t length = dots == NULL ? strlen(text) : (size_t)(dots - text);
    const char *second = dots == NULL ? text : dots + 2;
    if (length == 0 || length >= NUMBER_MAX || *second == '\0' || strlen(second) >= NUMBER_MAX) return false;
    memcpy(low, text, length);
    low[length] = '\0';
    memcpy(high, second, strlen(second) + 1);
    return true;
}

static bool is_epochs(double value) {
    return value > 0.0 && value <= 1e6 && (value < 1.0 || value == floor(value));
}

static int read_epochs(const arguments *given, dpmf_plan_options *how) {
    const char *text = option_text(given, OPTION_EPOCHS);
    char low[NUMBER_MAX], high[NUMBER_MAX], shown[SHOWN];
    if (text == NULL) return 0;
    if (split_range(text, low, high) && read_number(low, &how->epochs_low) && read_number(high, &how->epochs_high) &&
        is_epochs(how->epochs_low) && is_epochs(how->epochs_high) && how->epochs_low <= how->epochs_high)
        return 0;
    return fail(
        EXIT_USAGE,
        "--epochs %s: plan accepts K and LOW..HIGH (LOW at most HIGH), each a whole number from 1 to 1e6 or a part of "
        "an epoch between 0 and 1, as in 2..8 and 0.5",
        show(text, shown));
}

static int read_batch(const arguments *given, dpmf_plan_options *how) {
    const char *text = option_text(given, OPTION_BATCH);
    char low[NUMBER_MAX], high[NUMBER_MAX], shown[SHOWN];
    if (text == NULL) return 0;
    if (split_range(text, low, high) && read_count(low, &how->batch_low) && read_count(high, &how->batch_high) &&
        how->batch_low >= 1 && how->batch_low <= how->batch_high && how->batch_high <= how->units)
        return 0;
    return fail(EXIT_USAGE,
                "--batch %s: plan accepts M and LOW..HIGH (LOW at most HIGH), whole numbers from 1 to %" PRId64
                " (the units), as in 64..4096",
                show(text, shown), how->units);
}

static int read_sampling(const arguments *given, dpmf_design_options *how) {
    const char *text = given->text[OPTION_SAMPLING];
    const dpmf_sampling_facts *kind;
    char shown[SHOWN], names[160] = "";
    how->any_sampling = text == NULL || strcmp(text, "any") == 0;
    for (int i = 0; (kind = dpmf_sampling_describe((dpmf_sampling_kind)i)) != NULL; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", kind->name);
        if (how->any_sampling || strcmp(text, kind->name) != 0) continue;
        how->sampling = (dpmf_sampling_kind)i;
        return 0;
    }
    if (how->any_sampling) return 0;
    return fail(EXIT_USAGE, "--sampling %s: plan accepts %s and any (numbers follow from the epochs and the bands)",
                show(text, shown), names);
}

static int read_options(const arguments *given, dpmf_plan_options *how) {
    static const option_id needed[] = {OPTION_UNITS, OPTION_EPSILON, OPTION_DELTA};
    dpmf_design_options *design = &how->design;
    *how = dpmf_plan_options_defaults();
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!option_given(given, needed[i]))
            return fail(EXIT_USAGE, "plan needs --%s %s", options[needed[i]].name, options[needed[i]].argument);
    if (!(given->number[OPTION_EPSILON] > 0.0))
        return fail(EXIT_USAGE, "--epsilon %s: a number above 0 is accepted", option_text(given, OPTION_EPSILON));
    how->units = given->count[OPTION_UNITS];
    how->workload = option_text(given, OPTION_WORKLOAD);
    how->within = given->number[OPTION_WITHIN];
    design->epsilon = given->number[OPTION_EPSILON];
    design->delta = given->number[OPTION_DELTA];
    design->dim = given->count[OPTION_DIM];
    design->memory = memory_limit(given);
    if (option_given(given, OPTION_MAX_OVERHEAD)) design->max_overhead = given->number[OPTION_MAX_OVERHEAD];
    design->families = option_text(given, OPTION_FAMILIES);
    design->unit = option_text(given, OPTION_UNIT);
    if (option_given(given, OPTION_TOLERANCE)) design->tolerance = given->number[OPTION_TOLERANCE];
    design->run = run_with((int)given->count[OPTION_THREADS]);
    if (dpmf_adjacency_parse(option_text(given, OPTION_ADJACENCY), &design->adjacency) != DPMF_OK)
        return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    int code = take_loss(given, &design->loss, &design->loss_power);
    if (code == 0) code = read_sampling(given, design);
    if (code == 0) code = read_epochs(given, how);
    if (code == 0) code = read_batch(given, how);
    return code;
}

/* ---- the answer ---- */

static void json_sampling(text_buffer *t, const char *key, const dpmf_sampling *sampling) {
    char shown[64] = "none";
    if (dpmf_sampling_format(sampling, shown) != DPMF_OK) shown[0] = '\0';
    json_text(t, key, shown);
}

static void json_point(text_buffer *t, const char *key, const dpmf_plan_row *r) {
    const dpmf_candidate *c = &r->chosen;
    json_open(t, key, '{');
    json_double(t, "epochs", r->epochs);
    json_integer(t, "steps", r->steps);
    json_double(t, "batch", r->batch);
    json_text(t, "family", c->family);
    json_count_known(t, "bands", c->bands);
    json_integer(t, "buffers", c->buffers);
    json_sampling(t, "sampling", &c->sampling);
    json_double(t, "sigma", c->sigma);
    json_double(t, "rms_loss", c->rms_loss);
    json_double(t, "max_loss", c->max_loss);
    json_double(t, "noise_rms", c->noise_rms);
    json_double(t, "noise_max", c->noise_max);
    json_double(t, "noise_per_epoch", r->noise_per_epoch);
    json_double(t, "independent_noise_per_epoch", r->independent_noise_per_epoch);
    json_sampling(t, "independent_sampling", &r->independent.sampling);
    json_double(t, "independent_sigma", r->independent.sigma);
    json_integer(t, "memory_bytes", (int64_t)c->memory_bytes);
    json_double(t, "overhead", c->overhead);
    json_double(t, "seconds_per_step", r->seconds_per_step);
    json_bool(t, "best_of_epochs", r->best_of_epochs != 0);
    json_close(t, '}');
}

static void print_json(text_buffer *t, const arguments *given, const dpmf_plan *plan, const char *statement) {
    const dpmf_plan_info found = dpmf_plan_get(plan);
    const dpmf_account_options accounted = dpmf_mechanism_account_options(found.mechanism);
    json_begin(t);
    json_integer(t, "units", given->count[OPTION_UNITS]);
    json_text(t, "workload", dpmf_workload_get(dpmf_mechanism_get(found.mechanism).workload).text);
    json_double(t, "epsilon", given->number[OPTION_EPSILON]);
    json_double(t, "delta", given->number[OPTION_DELTA]);
    json_text(t, "loss", option_text(given, OPTION_LOSS));
    json_double(t, "within", given->number[OPTION_WITHIN]);
    json_bool(t, "delta_below_one_unit", !delta_too_large(given->number[OPTION_DELTA], given->count[OPTION_UNITS]));
    json_open(t, "points", '[');
    for (int64_t i = 0; i < found.count; i++)
        json_point(t, NULL, &found.rows[i]);
    json_close(t, ']');
    json_point(t, "recommended", &found.rows[found.recommended]);
    json_text(t, "rule", found.rule);
    json_text(t, "why", found.why);
    json_text(t, "statement", statement);
    json_text(t, "digest", dpmf_mechanism_get(found.mechanism).digest);
    json_text(t, "unit", dpmf_mechanism_get(found.mechanism).unit);
    json_protected(t, &accounted);
    json_end(t);
}

static int print_plan(const arguments *given, const dpmf_plan *plan) {
    const dpmf_plan_info found = dpmf_plan_get(plan);
    const dpmf_account_options accounted = dpmf_mechanism_account_options(found.mechanism);
    text_buffer t = {0};
    char statement[STATEMENT_MAX]; /* for a clip norm of 1, whose factor cancels */
    dpmf_privacy_statement(&found.privacy, &accounted, statement, sizeof statement);
    if (option_given(given, OPTION_JSON)) {
        print_json(&t, given, plan, statement);
    } else {
        if (delta_too_large(given->number[OPTION_DELTA], given->count[OPTION_UNITS]))
            text_add(&t, "warning: %s\n\n", DELTA_TOO_LARGE);
        add_words(&t, terminal_alphabet(), "%s", found.text);
    }
    return text_finish(&t);
}

int cmd_plan(const arguments *given) {
    dpmf_plan_options how;
    dpmf_plan *plan = NULL;
    int code = read_options(given, &how);
    if (code == 0 && !end_at_once(NULL)) code = fail(EXIT_CANCELLED, "cancelled");
    if (code == 0) {
        const dpmf_status status = dpmf_plan_create(&how, &plan);
        if (status != DPMF_OK) code = fail_status(status, NULL);
    }
    end_later();
    if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
    if (code == 0) code = save_mechanism(dpmf_plan_get(plan).mechanism, option_text(given, OPTION_OUT));
    if (code == 0) code = print_plan(given, plan);
    dpmf_plan_free(plan);
    return code;
}

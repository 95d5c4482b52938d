/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>

/* What is printed beside the figures. */
typedef struct answer {
    dpmf_evaluation found;
    double ratio;     /* of the loss to its lower bound; 0: none is known */
    double *per_step; /* NULL: not asked for */
} answer;

static void print_json(text_buffer *t, const problem *p, const answer *a) {
    int64_t steps = dpmf_workload_steps(p->workload);
    json_begin(t);
    json_text(t, "family", dpmf_strategy_family(p->strategy));
    json_integer(t, "steps", steps);
    json_text(t, "workload", dpmf_workload_text(p->workload));
    json_text(t, "participation", dpmf_participation_text(p->participation));
    json_sensitivity(t, a->found.sensitivity);
    json_losses(t, &a->found);
    json_lower_bound(t, a->found.lower_bound);
    if (a->ratio > 0.0)
        json_double(t, "ratio", a->ratio);
    else
        json_null(t, "ratio");
    json_integer(t, "buffers", dpmf_strategy_buffers(p->strategy));
    if (a->per_step != NULL) {
        json_open(t, "per_step_error", '[');
        for (int64_t i = 0; i < steps; ++i)
            json_double(t, NULL, a->per_step[i]);
        json_close(t, ']');
    }
    json_integer(t, "bands", dpmf_strategy_bands(p->strategy));
    json_integer(t, "stamps", dpmf_strategy_stamps(p->strategy));
    json_bool(t, "normalized", dpmf_strategy_is_normalized(p->strategy) != 0);
    json_text(t, "adjacency", dpmf_adjacency_name(p->adjacency));
    json_bool(t, "weighted", p->weights != NULL);
    json_end(t);
}

static void print_table(text_buffer *t, const arguments *given, const problem *p, const answer *a) {
    int64_t steps = dpmf_workload_steps(p->workload), stamps = dpmf_strategy_stamps(p->strategy);
    table_text(t, "family", dpmf_strategy_family(p->strategy));
    if (stamps > 1) table_integer(t, "stamps", stamps);
    if (dpmf_strategy_is_normalized(p->strategy)) table_text(t, "columns", "normalized");
    table_integer(t, "steps", steps);
    table_text(t, "workload", dpmf_workload_text(p->workload));
    if (p->weights != NULL) table_text(t, "weights", "given");
    table_text(t, "participation", dpmf_participation_text(p->participation));
    table_text(t, "adjacency", dpmf_adjacency_name(p->adjacency));
    table_sensitivity(t, a->found.sensitivity);
    table_losses(t, &a->found);
    table_lower_bound(t, a->found.lower_bound);
    bool max = option_is(given, OPTION_LOSS, "max");
    if (a->ratio > 0.0) table_double(t, "ratio", a->ratio, max ? "max loss / lower bound" : "RMS loss / lower bound");
    table_integer(t, "buffers", dpmf_strategy_buffers(p->strategy));
    if (a->per_step == NULL) return;
    text_add(t, "\nstep      error (%s)\n", dpmf_kind_name(a->found.sensitivity.kind));
    for (int64_t i = 0; i < steps; ++i)
        text_add(t, "%-10lld%.9g\n", (long long)i, a->per_step[i]);
}

static dpmf_lower_bound_mode bound_of(const arguments *given) {
    if (option_is(given, OPTION_BOUND, "none")) return DPMF_LOWER_BOUND_NONE;
    return option_is(given, OPTION_BOUND, "force") ? DPMF_LOWER_BOUND_FORCE : DPMF_LOWER_BOUND_AUTO;
}

/* The figures, and the mechanism that is to be saved if there is a place for it. */
static int evaluate(const arguments *given, const problem *p, answer *a) {
    dpmf_mechanism *mechanism = NULL;
    dpmf_mechanism_options saved = dpmf_mechanism_options_defaults();
    const char *path = option_text(given, OPTION_OUT);
    saved.evaluate.adjacency = p->adjacency;
    saved.evaluate.sensitivity = p->sensitivity;
    saved.evaluate.lower_bound = bound_of(given);
    saved.evaluate.weights = p->weights;
    saved.evaluate.run = run_with((int)given->count[OPTION_THREADS]);
    saved.made_by = p->made_by;
    dpmf_status status = DPMF_OK;
    if (path != NULL) status = dpmf_mechanism_create(p->workload, p->participation, p->strategy, &saved, &mechanism);
    if (status == DPMF_OK && mechanism != NULL) a->found = dpmf_mechanism_evaluation(mechanism);
    if (status == DPMF_OK && (mechanism == NULL || a->per_step != NULL))
        status = dpmf_evaluate(p->workload, p->participation, p->strategy, &saved.evaluate, &a->found, a->per_step);
    int code = status == DPMF_OK ? 0 : fail_status(status, NULL);
    if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
    if (code == 0 && path != NULL) {
        status = dpmf_mechanism_save(mechanism, path);
        if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_IO; /* a place that cannot hold a file */
        if (status != DPMF_OK) code = fail_status(status, "--out");
    }
    dpmf_mechanism_free(mechanism);
    return code;
}

static double ratio_of(const arguments *given, const dpmf_evaluation *found) {
    const dpmf_lower_bound *bound = &found->lower_bound;
    if (bound->scope == NULL) return 0.0;
    return option_is(given, OPTION_LOSS, "max") ? found->max_loss / bound->max_loss : found->rms_loss / bound->rms_loss;
}

static int evaluate_and_print(const arguments *given, const problem *p) {
    answer a = {0};
    text_buffer t = {0};
    if (option_given(given, OPTION_PER_STEP)) {
        a.per_step = allocate(dpmf_workload_steps(p->workload), sizeof *a.per_step);
        if (a.per_step == NULL) return fail_memory();
    }
    int code = evaluate(given, p, &a);
    if (code == 0) {
        a.ratio = ratio_of(given, &a.found);
        if (option_given(given, OPTION_JSON))
            print_json(&t, p, &a);
        else
            print_table(&t, given, p, &a);
        code = text_print(&t);
    }
    text_free(&t);
    free(a.per_step);
    return code;
}

int cmd_evaluate(const arguments *given) {
    problem p = {0};
    int code = given->operand != NULL ? problem_from_file(given, &p) : problem_from_options(given, &p);
    if (code == 0) code = evaluate_and_print(given, &p);
    problem_free(&p);
    return code;
}

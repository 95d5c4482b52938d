/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>

static void print_json(text_buffer *t, const problem *p, const dpmf_evaluation *found, const double *per_step) {
    int64_t steps = dpmf_workload_steps(p->workload);
    json_begin(t);
    json_text(t, "family", dpmf_strategy_family(p->strategy));
    json_integer(t, "steps", steps);
    json_text(t, "workload", dpmf_workload_text(p->workload));
    json_text(t, "participation", dpmf_participation_text(p->participation));
    json_sensitivity(t, found->sensitivity);
    json_losses(t, found);
    json_null(t, "lower_bound");
    json_null(t, "ratio");
    json_integer(t, "buffers", dpmf_strategy_buffers(p->strategy));
    if (per_step != NULL) {
        json_open(t, "per_step_error", '[');
        for (int64_t i = 0; i < steps; ++i)
            json_double(t, NULL, per_step[i]);
        json_close(t, ']');
    }
    json_integer(t, "bands", dpmf_strategy_bands(p->strategy));
    json_bool(t, "normalized", dpmf_strategy_is_normalized(p->strategy) != 0);
    json_text(t, "adjacency", dpmf_adjacency_name(p->adjacency));
    json_bool(t, "weighted", p->weights != NULL);
    json_end(t);
}

static void print_table(text_buffer *t, const problem *p, const dpmf_evaluation *found, const double *per_step) {
    const char *kind = dpmf_kind_name(found->sensitivity.kind);
    table_text(t, "family", dpmf_strategy_family(p->strategy));
    if (dpmf_strategy_is_normalized(p->strategy)) table_text(t, "columns", "normalized");
    table_integer(t, "steps", dpmf_workload_steps(p->workload));
    table_text(t, "workload", dpmf_workload_text(p->workload));
    if (p->weights != NULL) table_text(t, "weights", "given");
    table_text(t, "participation", dpmf_participation_text(p->participation));
    table_text(t, "adjacency", dpmf_adjacency_name(p->adjacency));
    table_sensitivity(t, found->sensitivity);
    table_losses(t, found);
    table_text(t, "lower bound", "none known");
    table_integer(t, "buffers", dpmf_strategy_buffers(p->strategy));
    if (per_step == NULL) return;
    text_add(t, "\nstep      error (%s)\n", kind);
    for (int64_t i = 0; i < dpmf_workload_steps(p->workload); ++i)
        text_add(t, "%-10lld%.9g\n", (long long)i, per_step[i]);
}

/* The figures, and the mechanism that is to be saved if there is a place for it. */
static int evaluate(const arguments *given, const problem *p, dpmf_evaluation *found, double *per_step) {
    dpmf_mechanism *mechanism = NULL;
    dpmf_mechanism_options saved = dpmf_mechanism_options_defaults();
    const char *path = option_text(given, OPTION_OUT);
    saved.evaluate.adjacency = p->adjacency;
    saved.evaluate.weights = p->weights;
    saved.evaluate.run = run_with((int)given->count[OPTION_THREADS]);
    saved.made_by = p->made_by;
    dpmf_status status = DPMF_OK;
    if (path != NULL) status = dpmf_mechanism_create(p->workload, p->participation, p->strategy, &saved, &mechanism);
    if (status == DPMF_OK && mechanism != NULL) *found = dpmf_mechanism_evaluation(mechanism);
    if (status == DPMF_OK && (mechanism == NULL || per_step != NULL))
        status = dpmf_evaluate(p->workload, p->participation, p->strategy, &saved.evaluate, found, per_step);
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

static int evaluate_and_print(const arguments *given, const problem *p) {
    dpmf_evaluation found;
    double *per_step = NULL;
    text_buffer t = {0};
    if (option_given(given, OPTION_PER_STEP)) {
        per_step = allocate(dpmf_workload_steps(p->workload), sizeof *per_step);
        if (per_step == NULL) return fail_memory();
    }
    int code = evaluate(given, p, &found, per_step);
    if (code == 0) {
        if (option_given(given, OPTION_JSON))
            print_json(&t, p, &found, per_step);
        else
            print_table(&t, p, &found, per_step);
        code = text_print(&t);
    }
    text_free(&t);
    free(per_step);
    return code;
}

/* What is asked for but cannot be had, known before any work. */
static int check_possible(const arguments *given, const problem *p) {
    char shown[SHOWN];
    const char *participation = dpmf_participation_text(p->participation);
    if (!option_is(given, OPTION_SENSITIVITY, "auto")) {
        const char *method = option_text(given, OPTION_SENSITIVITY);
        if (dpmf_participation_get_kind(p->participation) == DPMF_PARTICIPATION_SINGLE)
            return fail(EXIT_UNABLE,
                        "--sensitivity %s: single participation needs no bound, its sensitivity is exact: "
                        "use auto",
                        method);
        return fail(EXIT_UNABLE, "--sensitivity %s: not available in this version for participation %s: use auto",
                    method, participation);
    }
    if (option_is(given, OPTION_BOUND, "force"))
        return fail(EXIT_UNABLE, "--bound force: no proven lower bound is known for workload %s under participation %s",
                    show(dpmf_workload_text(p->workload), shown), participation);
    return 0;
}

int cmd_evaluate(const arguments *given) {
    problem p = {0};
    int code = given->operand != NULL ? problem_from_file(given, &p) : problem_from_options(given, &p);
    if (code == 0) code = check_possible(given, &p);
    if (code == 0) code = evaluate_and_print(given, &p);
    problem_free(&p);
    return code;
}

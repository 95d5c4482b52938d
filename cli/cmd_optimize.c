/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include "progress.h"
#include "verbs.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The strategy is optimized for single participation, so far; evaluated for any. */
static int check_participations(const arguments *given, const problem *p) {
    const char *optimized_for = option_text(given, OPTION_OPTIMIZE_PARTICIPATION);
    if (optimized_for == NULL) optimized_for = dpmf_participation_text(p->participation);
    if (strcmp(optimized_for, "single") == 0) return 0;
    return fail(EXIT_UNABLE,
                "--family %s is optimized for single participation in this version, not for %s "
                "(--optimize-participation single evaluates the result under another)",
                option_text(given, OPTION_FAMILY), optimized_for);
}

static int check_family_options(const arguments *given) {
    const char *name = option_text(given, OPTION_FAMILY);
    if (name == NULL) return fail(EXIT_USAGE, "optimize needs --family NAME: dense or tvblt");
    bool tvblt = strcmp(name, "tvblt") == 0;
    if (!tvblt && strcmp(name, "dense") != 0)
        return fail(EXIT_USAGE, "--family %s: dense and tvblt can be optimized in this version", name);
    if (!tvblt && option_given(given, OPTION_BUFFERS))
        return fail(EXIT_USAGE, "--family dense has no --buffers to choose");
    if (!tvblt && option_given(given, OPTION_WANTED_RATIO))
        return fail(EXIT_USAGE, "--wanted-ratio is for --family tvblt");
    if (option_given(given, OPTION_BUFFERS) && option_given(given, OPTION_WANTED_RATIO))
        return fail(EXIT_USAGE, "--buffers and --wanted-ratio exclude each other");
    return 0;
}

/* The dense optimum without its matrix: the bounds are the answer. */
static int answer_from_bounds(const arguments *given, const problem *p, answer *a) {
    const dpmf_optimization *found = &a->found_by->result;
    double n = (double)dpmf_workload_steps(p->workload);
    if (option_given(given, OPTION_OUT) || option_given(given, OPTION_PER_STEP))
        return fail(EXIT_UNABLE, "--family dense: its matrix is formed up to %d steps; --family tvblt has no limit",
                    DPMF_DENSE_STEPS_MAX);
    if (strcmp(dpmf_participation_text(p->participation), "single") != 0)
        return fail(EXIT_UNABLE, "--family dense above %d steps: evaluated under single participation only",
                    DPMF_DENSE_STEPS_MAX);
    double times = p->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2.0 : 1.0;
    double upper = times * found->optimum_upper, lower = times * found->optimum_lower;
    a->found.sensitivity = (dpmf_sensitivity){times, DPMF_EXACT, DPMF_SENSITIVITY_PARTICIPATION, "columns of norm 1"};
    a->found.lower_bound.scope = "any mechanism: dual of the optimum";
    if (option_is(given, OPTION_LOSS, "max")) {
        a->found.max_loss = upper;
        a->found.lower_bound.max_loss = lower;
    } else {
        a->found.rms_loss = upper;
        a->found.total_squared_loss = upper * upper * n;
        a->found.lower_bound.rms_loss = lower;
    }
    return 0;
}

static int optimize(const arguments *given, const dpmf_workload *optimize_for, problem *p, optimized *o) {
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    how.loss = option_is(given, OPTION_LOSS, "max") ? DPMF_LOSS_MAX : DPMF_LOSS_RMS;
    how.nodes = (int)given->count[OPTION_BUFFERS];
    if (option_given(given, OPTION_WANTED_RATIO)) how.wanted_ratio = given->number[OPTION_WANTED_RATIO];
    if (option_given(given, OPTION_TOLERANCE)) how.tolerance = given->number[OPTION_TOLERANCE];
    how.weights = p->weights;
    how.run = run_with((int)given->count[OPTION_THREADS]);
    double start = seconds_now();
    dpmf_status status =
        dpmf_optimize(option_text(given, OPTION_FAMILY), optimize_for, &how, &p->own_strategy, &o->result);
    o->seconds = seconds_now() - start;
    p->strategy = p->own_strategy;
    if (status != DPMF_OK) return fail_status(status, NULL);
    return interrupted() ? fail(EXIT_CANCELLED, "cancelled") : 0;
}

static int optimize_and_print(const arguments *given, const dpmf_workload *optimize_for, problem *p) {
    optimized o = {0};
    answer a = {.found_by = &o};
    int code = optimize(given, optimize_for, p, &o);
    if (code == 0 && option_given(given, OPTION_PER_STEP) && p->strategy != NULL) {
        a.per_step = allocate(dpmf_workload_steps(p->workload), sizeof *a.per_step);
        if (a.per_step == NULL) code = fail_memory();
    }
    if (code == 0) code = p->strategy == NULL ? answer_from_bounds(given, p, &a) : evaluate_problem(given, p, &a);
    if (code == 0) code = print_answer(given, p, &a);
    free(a.per_step);
    return code;
}

int cmd_optimize(const arguments *given) {
    problem p = {0};
    dpmf_workload *optimize_for = NULL;
    int code = check_family_options(given);
    if (code == 0) code = problem_without_strategy(given, &p, &optimize_for);
    if (code == 0) code = check_participations(given, &p);
    if (code == 0) {
        p.made_by = "optimized under single participation";
        code = optimize_and_print(given, optimize_for == NULL ? p.workload : optimize_for, &p);
    }
    dpmf_workload_free(optimize_for);
    problem_free(&p);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include "family.h"
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --buffers: a number, or ratio:X. */
static int read_buffers(const arguments *given, const dpmf_family *kind, dpmf_optimize_options *how) {
    const char *text = given->text[OPTION_BUFFERS];
    const bool ratio = text != NULL && strncmp(text, "ratio:", 6) == 0, buffers = text != NULL && !ratio;
    int64_t count = 0;
    char list[FAMILY_LIST], shown[SHOWN];
    if ((buffers && (!read_count(text, &count) || count < 1 || count > 64)) ||
        (ratio && (!read_number(text + 6, &how->wanted_ratio) || how->wanted_ratio < 1.0)))
        return fail(EXIT_USAGE, "--buffers %s: a whole number from 1 to 64 is accepted, or ratio:X with X from 1",
                    show(text, shown));
    how->buffers = (int)count;
    if (buffers && kind->optimize_buffers == 0)
        return fail(EXIT_USAGE, "--family %s has no --buffers to choose", kind->name);
    if (!buffers && kind->optimize_buffers > 0 && !kind->optimize_chooses)
        return fail(EXIT_USAGE, "--family %s needs --buffers R, the rank", kind->name);
    if (ratio && !kind->optimize_chooses)
        return fail(EXIT_USAGE, "--buffers %s is for --family %s", text,
                    FAMILY_LIST_BY(optimize_chooses, " and ", list));
    if (option_given(given, OPTION_SHARED_SEEDS) && kind->optimize_shared_seeds == 0)
        return fail(EXIT_USAGE, "--shared-seeds is for --family %s",
                    FAMILY_LIST_BY(optimize_shared_seeds, " and ", list));
    if (option_given(given, OPTION_SHARED_SEEDS) && ratio)
        return fail(EXIT_USAGE, "--shared-seeds takes a number of --buffers, not %s", text);
    return 0;
}

/* The forms that a paper describes and that we compare with; the library checks their ranges. */
static int read_variant(const arguments *given, const dpmf_family *kind, dpmf_optimize_options *how) {
    const char *text = option_text(given, OPTION_VARIANT);
    char shown[SHOWN], list[FAMILY_LIST];
    if (text == NULL) return 0;
    const bool taper = strncmp(text, "taper:", 6) == 0 && read_count(text + 6, &how->taper) && how->taper > 0;
    const bool non_negative = strcmp(text, "non-negative") == 0, corners = strcmp(text, "corners") == 0;
    const bool constraint = strcmp(text, "zero") == 0 || non_negative || corners;
    how->sweep = strcmp(text, "sweep") == 0;
    how->constraint = corners        ? DPMF_CONSTRAINT_CORNERS
                      : non_negative ? DPMF_CONSTRAINT_NON_NEGATIVE
                                     : DPMF_CONSTRAINT_ZERO;
    how->damped = strcmp(text, "damped") == 0;
    if (!taper && !how->sweep && !constraint && !how->damped)
        return fail(EXIT_USAGE,
                    "--variant %s: optimize accepts zero, non-negative, corners, sweep, taper:B0 and damped",
                    show(text, shown));
    if (how->damped && !kind->optimize_damped)
        return fail(EXIT_USAGE, "--variant %s is for --family %s", text,
                    FAMILY_LIST_BY(optimize_damped, " and ", list));
    if ((taper || how->sweep) && !kind->optimize_variants)
        return fail(EXIT_USAGE, "--variant %s is for --family %s", text,
                    FAMILY_LIST_BY(optimize_variants, " and ", list));
    if (constraint && !kind->optimize_constraint)
        return fail(EXIT_USAGE, "--variant %s is for --family %s", text,
                    FAMILY_LIST_BY(optimize_constraint, " and ", list));
    return 0;
}

/* Options that only some families take; the library checks their ranges. */
static int check_family_options(const arguments *given, dpmf_optimize_options *how) {
    const char *name = option_text(given, OPTION_FAMILY);
    char shown[SHOWN], list[FAMILY_LIST];
    if (name == NULL) return fail(EXIT_USAGE, "optimize needs --family NAME");
    const dpmf_family *kind = find_family(name);
    if (kind == NULL || kind->optimized == 0)
        return fail(EXIT_USAGE, "--family %s: %s can be optimized", show(name, shown),
                    FAMILY_LIST_BY(optimized, " and ", list));
    const bool bands = kind->optimize_bands != 0;
    if (bands != option_given(given, OPTION_BANDS))
        return fail(EXIT_USAGE, bands ? "--family %s needs --bands B" : "--family %s takes no --bands", name);
    int code = read_buffers(given, kind, how);
    if (code != 0) return code;
    if (!option_is(given, OPTION_NORMALIZE, "none") && !kind->optimize_normalize)
        return fail(EXIT_USAGE, "--family %s takes no --normalize", name);
    if (!option_is(given, OPTION_SIGNS, "auto") && !kind->optimize_signs)
        return fail(EXIT_USAGE, "--signs is for --family %s", FAMILY_LIST_BY(optimize_signs, " and ", list));
    if (option_is(given, OPTION_SIGNS, "non-negative")) how->signs = DPMF_SIGNS_NON_NEGATIVE;
    if (option_is(given, OPTION_SIGNS, "any")) how->signs = DPMF_SIGNS_ANY;
    return read_variant(given, kind, how);
}

/* The dense optimum without its matrix: the bounds are the result. */
static int answer_from_bounds(const arguments *given, const problem *p, const dpmf_participation *optimize_for,
                              answer *a) {
    const dpmf_optimization *found = &a->found_by->result;
    double n = (double)dpmf_workload_get(p->workload).steps;
    if (option_given(given, OPTION_OUT) || option_given(given, OPTION_PER_STEP) || option_given(given, OPTION_EPSILON))
        return fail(EXIT_UNABLE, "--family dense: its matrix is formed up to %d steps; --family tvblt has no limit",
                    DPMF_DENSE_STEPS_MAX);
    if (strcmp(dpmf_participation_get(p->participation).text, dpmf_participation_get(optimize_for).text) != 0)
        return fail(EXIT_UNABLE, "--family dense above %d steps: evaluated under the participation it is optimized for",
                    DPMF_DENSE_STEPS_MAX);
    double times = p->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2.0 : 1.0;
    double upper = times * found->optimum_upper, lower = times * found->optimum_lower;
    a->found.sensitivity = (dpmf_sensitivity){times, DPMF_EXACT, DPMF_SENSITIVITY_PARTICIPATION, "scaled to 1", 0};
    a->found.lower_bound.scope = found->scope;
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

/* What a mechanism is optimized for, and how. */
typedef struct target {
    const dpmf_workload *workload;
    const dpmf_participation *participation;
    bool same; /* the same as in the evaluation */
    const dpmf_optimize_options *how;
} target;

static int optimize(const arguments *given, const target *to, problem *p, optimized *o) {
    double start = seconds_now();
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* a factorization may be silent for long */
    dpmf_status status = dpmf_optimize(option_text(given, OPTION_FAMILY), to->workload, to->participation, to->how,
                                       &p->own_strategy, &o->result);
    end_later();
    o->seconds = seconds_now() - start;
    p->strategy = p->own_strategy;
    if (status != DPMF_OK) return fail_status(status, NULL);
    return interrupted() ? fail(EXIT_CANCELLED, "cancelled") : 0;
}

/*
 * Both hold for any mechanism under single participation: then the better of two duals is printed beside the other
 * loss.
 */
static bool of_one_kind(const char *a, const char *b) {
    static const char DUAL[] = "any mechanism: dual of the optimum";
    return a != NULL && strncmp(a, DUAL, sizeof DUAL - 1) == 0 && strncmp(b, DUAL, sizeof DUAL - 1) == 0;
}

/* The bound of the optimization where it is stronger than that of the evaluation. */
static void adopt_bound(const arguments *given, const problem *p, const target *to, answer *a) {
    const dpmf_optimization *found = &a->found_by->result;
    bool max_loss = option_is(given, OPTION_LOSS, "max");
    double times = p->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2.0 : 1.0;
    double *held = max_loss ? &a->found.lower_bound.max_loss : &a->found.lower_bound.rms_loss;
    if (!to->same || found->scope == NULL || option_is(given, OPTION_BOUND, "none") || is_other_loss(given)) return;
    if (times * found->optimum_lower <= *held * (1.0 + 1e-6)) return; /* the same, or proven for more mechanisms */
    if (!of_one_kind(a->found.lower_bound.scope, found->scope))
        a->found.lower_bound = (dpmf_lower_bound){.scope = found->scope};
    *held = times * found->optimum_lower;
}

static int optimize_and_print(const arguments *given, const target *to, problem *p) {
    optimized o = {.damped = to->how->damped != 0};
    answer a = {.found_by = &o};
    int code = optimize(given, to, p, &o);
    if (code == 0 && option_given(given, OPTION_PER_STEP) && p->strategy != NULL) {
        a.per_step = allocate(dpmf_workload_get(p->workload).steps, sizeof *a.per_step);
        if (a.per_step == NULL) code = fail_memory();
    }
    if (code == 0)
        code =
            p->strategy == NULL ? answer_from_bounds(given, p, to->participation, &a) : evaluate_problem(given, p, &a);
    if (code == 0 && p->strategy != NULL) adopt_bound(given, p, to, &a);
    if (code == 0) code = print_answer(given, p, &a);
    free(a.per_step);
    return code;
}

int cmd_optimize(const arguments *given) {
    problem p = {0};
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_workload *other_workload = NULL;
    dpmf_participation *other_participation = NULL;
    int code = check_guarantee_options(given);
    if (code == 0) code = take_loss(given, &how.loss, &how.loss_power);
    if (code == 0) code = check_family_options(given, &how);
    if (code == 0) code = problem_without_strategy(given, &p, &other_workload);
    if (code == 0 && option_given(given, OPTION_OPTIMIZE_PARTICIPATION))
        code = make_participation(given, OPTION_OPTIMIZE_PARTICIPATION,
                                  stamp_steps(given, dpmf_workload_get(p.workload).steps), &other_participation);
    if (code == 0 && stamps_chosen(given) && option_given(given, OPTION_OPTIMIZE_WORKLOAD))
        code = fail(EXIT_USAGE, "--stamps auto chooses by the loss on --workload: --optimize-workload takes a number");
    if (code == 0) {
        how.bands = given->count[OPTION_BANDS];
        how.shared_seeds = (int)given->count[OPTION_SHARED_SEEDS];
        if (option_given(given, OPTION_TOLERANCE)) how.tolerance = given->number[OPTION_TOLERANCE];
        if (option_is(given, OPTION_NORMALIZE, "after")) how.normalize = DPMF_NORMALIZE_AFTER;
        if (option_is(given, OPTION_NORMALIZE, "within")) how.normalize = DPMF_NORMALIZE_WITHIN;
        how.weights = p.weights;
        how.run = run_with((int)given->count[OPTION_THREADS]);
        const bool stamped = option_given(given, OPTION_STAMPS) && given->count[OPTION_STAMPS] != 1;
        if (stamped) how.stamps = given->count[OPTION_STAMPS];
        if (stamped) how.stamp_participation = other_participation;
        target to = {other_workload == NULL ? p.workload : other_workload,
                     other_participation == NULL || stamped ? p.participation : other_participation, true, &how};
        if (other_workload != NULL)
            code = same_workload(other_workload, p.workload, option_text(given, OPTION_OPTIMIZE_WORKLOAD),
                                 option_text(given, OPTION_WORKLOAD), &to.same);
        const dpmf_participation *aim = other_participation == NULL ? p.participation : other_participation;
        if (aim != p.participation &&
            (stamped || strcmp(dpmf_participation_get(aim).text, dpmf_participation_get(p.participation).text) != 0))
            to.same = false;
        snprintf(p.own_made_by, sizeof p.own_made_by, "%soptimized for %.50s", stamped ? "stamps, " : "",
                 dpmf_participation_get(aim).text);
        p.made_by = p.own_made_by;
        if (code == 0) code = optimize_and_print(given, &to, &p);
    }
    dpmf_workload_free(other_workload);
    dpmf_participation_free(other_participation);
    problem_free(&p);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include "family.h"
#include "options/verbs.h"
#include "output.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --joint, before anything is written. 0, or the exit code after a message. */
static int evaluate_joint(const arguments *given, const problem *p, dpmf_sensitivity *out) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    if (!option_given(given, OPTION_JOINT)) return 0;
    if (!dpmf_sampling_is_none(&p->sampling))
        return fail(EXIT_USAGE, "--joint: under sampling both moments are one contribution of norm sqrt(1 + W); "
                                "mechanisms without sampling are accepted");
    if (p->strategy == NULL) return fail(EXIT_USAGE, "--joint: the mechanism is too large to be formed");
    o.adjacency = p->adjacency;
    o.sensitivity = p->sensitivity;
    o.columns = p->columns;
    o.run = run_with((int)given->count[OPTION_THREADS]);
    o.squares = given->number[OPTION_JOINT];
    dpmf_status status = dpmf_sensitivity_compute(p->strategy, p->participation, &o, out);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int cmd_evaluate(const arguments *given) {
    problem p = {0};
    answer a = {0};
    spectrum risk = {0};
    regret learning = {0};
    dpmf_loss loss = DPMF_LOSS_RMS;
    double power = 0.0;
    int code = check_guarantee_options(given);
    if (code == 0 && option_given(given, OPTION_SPECTRUM))
        code = spectrum_read(option_text(given, OPTION_SPECTRUM), &risk);
    if (code == 0) code = regret_read(given, &learning);
    if (code == 0) code = take_loss(given, &loss, &power);
    if (code == 0 && option_is(given, OPTION_NORMALIZE, "within"))
        code = fail(EXIT_USAGE, "--normalize within is for optimize: evaluate accepts none and after");
    if (code == 0) code = given->operand != NULL ? problem_from_file(given, &p) : problem_from_options(given, &p);
    if (code == 0) code = regret_check(given, &p, &learning);
    if (code == 0 && option_given(given, OPTION_PER_STEP)) {
        a.per_step = allocate(dpmf_workload_get(p.workload).steps, sizeof *a.per_step);
        if (a.per_step == NULL) code = fail_memory();
    }
    if (code == 0) code = evaluate_joint(given, &p, &a.joint);
    if (code == 0) code = evaluate_problem(given, &p, &a);
    if (code == 0 && option_given(given, OPTION_SPECTRUM)) {
        code = spectrum_evaluate(given, &p, &risk);
        a.risk = &risk;
    }
    if (code == 0 && option_given(given, OPTION_REGRET)) {
        code = regret_evaluate(&p, &a.found, a.privacy.sigma, &learning);
        a.learning = &learning;
    }
    if (code == 0) code = print_answer(given, &p, &a);
    free(a.per_step);
    spectrum_free(&risk);
    problem_free(&p);
    return code;
}

/* Matrices up to this size, and this many coefficients, are printed; larger ones belong in a file. */
enum { PRINTED_STEPS_MAX = 256, PRINTED_COEFFICIENTS_MAX = 65536 };

static bool wants_max(const arguments *given) {
    return option_is(given, OPTION_LOSS, "max");
}

bool is_other_loss(const arguments *given) {
    return !option_is(given, OPTION_LOSS, "rms") && !option_is(given, OPTION_LOSS, "max");
}

/* The loss over its lower bound; 0: not known. That of lp:P, P >= 2, is the RMS loss's, which is no larger. */
static double ratio_of(const arguments *given, const dpmf_evaluation *found) {
    double power = 0.0;
    dpmf_loss asked = DPMF_LOSS_RMS;
    if (is_other_loss(given) &&
        (take_loss(given, &asked, &power) != 0 || power < 2.0 || found->lower_bound.rms_loss <= 0.0))
        return 0.0;
    if (is_other_loss(given)) return found->loss / found->lower_bound.rms_loss;
    double loss = wants_max(given) ? found->max_loss : found->rms_loss;
    double bound = wants_max(given) ? found->lower_bound.max_loss : found->lower_bound.rms_loss;
    return bound > 0.0 ? loss / bound : 0.0;
}

/* ---- additions of optimize ---- */

/* Column j of C, or of its inverse; NULL after a message. */
static double *column_of(const dpmf_strategy *strategy, int64_t j, bool inverse) {
    int64_t n = dpmf_strategy_get(strategy).steps;
    double *column = allocate(n, sizeof *column);
    if (column == NULL) {
        fail_memory();
        return NULL;
    }
    dpmf_status status = DPMF_OK;
    if (inverse) {
        column[j] = 1.0;
        status = dpmf_strategy_solve(strategy, column, column);
    } else {
        status = dpmf_strategy_column(strategy, j, column);
    }
    if (status == DPMF_OK) return column;
    fail_status(status, NULL);
    free(column);
    return NULL;
}

/* Row t of C^-1 has been multiplied by the norm of column t, to which C[t,t] is inversely proportional. */
static int undo_norms(const dpmf_strategy *strategy, int64_t count, double *column) {
    for (int64_t i = 0; i < count; i++) {
        double *own = column_of(strategy, i, false);
        if (own == NULL) return EXIT_UNABLE;
        column[i] *= own[i];
        free(own);
    }
    return 0;
}

/* Where columns are normalized these are the coefficients before, up to a factor, which does not matter to it. */
static int json_coefficients(text_buffer *t, const dpmf_strategy *strategy, bool inverse) {
    int64_t count = inverse ? dpmf_strategy_get(strategy).buffers + 1 : dpmf_strategy_get(strategy).bands;
    double *column = column_of(strategy, 0, inverse);
    if (column == NULL) return EXIT_UNABLE;
    if (inverse && dpmf_strategy_get(strategy).is_normalized && undo_norms(strategy, count, column) != 0) {
        free(column);
        return EXIT_UNABLE;
    }
    json_doubles(t, inverse ? "inverse_coefficients" : "coefficients", count, column);
    free(column);
    return 0;
}

/* The matrix by rows, or its diagonals, as --parameters takes them. */
static int json_matrix(text_buffer *t, const dpmf_strategy *strategy, bool diagonals) {
    int64_t n = dpmf_strategy_get(strategy).steps, lists = diagonals ? dpmf_strategy_get(strategy).bands : n;
    double *columns = allocate(n * n, sizeof *columns);
    if (columns == NULL) return fail_memory();
    for (int64_t j = 0; j < n; j++)
        if (dpmf_strategy_column(strategy, j, columns + j * n) != DPMF_OK) {
            free(columns);
            return fail_status(DPMF_ERROR_NUMERICAL, NULL);
        }
    json_open(t, diagonals ? "diagonals" : "matrix", '[');
    for (int64_t i = 0; i < lists; i++) {
        json_open(t, NULL, '[');
        for (int64_t j = 0; j < (diagonals ? n - i : n); j++)
            json_double(t, NULL, columns[j * n + (diagonals ? j + i : i)]);
        json_close(t, ']');
    }
    json_close(t, ']');
    free(columns);
    return 0;
}

/* A decay that rounds to 1 is printed as the number before 1: those who read it refuse 1, which never forgets. */
static void json_decays(text_buffer *t, const char *name, int count, const double *gap) {
    json_open(t, name, '[');
    for (int i = 0; i < count; i++)
        json_double(t, NULL, fmin(1.0 - gap[i], 1.0 - 0.5 * DBL_EPSILON));
    json_close(t, ']');
}

/* 1 - decay is printed as well: near 1 the decay itself has lost its digits. C^-1 follows, where it is a BLT too. */
static int json_blt(text_buffer *t, const dpmf_strategy *strategy) {
    const dpmf_strategy_info info = dpmf_strategy_get(strategy);
    json_doubles(t, "scale", info.blt_buffers, info.blt_scale);
    json_doubles(t, "gap", info.blt_buffers, info.blt_gap);
    json_decays(t, "decay", info.blt_buffers, info.blt_gap);
    if (info.blt_inverse_gap == NULL) {
        json_null(t, "inverse_scale");
        json_null(t, "inverse_gap");
        json_null(t, "inverse_decay");
        return 0;
    }
    json_doubles(t, "inverse_scale", info.blt_buffers, info.blt_inverse_scale);
    json_doubles(t, "inverse_gap", info.blt_buffers, info.blt_inverse_gap);
    json_decays(t, "inverse_decay", info.blt_buffers, info.blt_inverse_gap);
    return 0;
}

/* Are these the numbers that the family takes with --parameters? */
static bool holds(const dpmf_family *kind, const char *numbers) {
    return kind != NULL && kind->parameters != NULL && strcmp(kind->parameters, numbers) == 0;
}

static int json_parameters(text_buffer *t, const dpmf_strategy *strategy) {
    const dpmf_family *kind = find_family(dpmf_strategy_get(strategy).family);
    bool diagonals = holds(kind, "diagonals"), inverse = holds(kind, "inverse_coefficients");
    if (holds(kind, "scale and decay")) return json_blt(t, strategy);
    if (inverse || holds(kind, "coefficients")) return json_coefficients(t, strategy, inverse);
    return diagonals || holds(kind, "matrix") ? json_matrix(t, strategy, diagonals) : 0;
}

static bool is_printed(const dpmf_strategy *s) {
    const dpmf_family *kind = find_family(dpmf_strategy_get(s).family);
    bool few = kind != NULL && kind->optimize_chooses; /* as few numbers as buffers */
    if (few || dpmf_strategy_get(s).steps <= PRINTED_STEPS_MAX) return true;
    if (holds(kind, "inverse_coefficients")) return family_bands(s) <= PRINTED_COEFFICIENTS_MAX;
    return holds(kind, "coefficients") && dpmf_strategy_get(s).bands <= PRINTED_COEFFICIENTS_MAX;
}

/* Enough to make the mechanism again with evaluate --parameters; null where that would be long. */
static int json_optimized(text_buffer *t, const problem *p, const optimized *o) {
    const dpmf_strategy *s = p->strategy;
    json_text(t, "outcome", dpmf_outcome_name(o->result.outcome));
    json_integer(t, "iterations", o->result.iterations);
    json_double(t, "seconds", o->seconds);
    json_open(t, "optimum", '{');
    json_known(t, "lower", o->result.optimum_lower);
    json_double(t, "upper", o->result.scope == NULL ? NAN : o->result.optimum_upper);
    json_text(t, "scope", o->result.scope);
    json_close(t, '}');
    json_known(t, "stationarity", o->result.stationarity);
    json_text(t, "searched", o->result.searched);
    if (o->result.dropped > 0) json_integer(t, "dropped_buffers", o->result.dropped);
    if (o->damped) json_double(t, "nu", o->result.nu);
    bool tvblt = s != NULL && strcmp(dpmf_strategy_get(s).family, DPMF_FAMILY_TVBLT) == 0;
    if (s == NULL || !is_printed(s)) {
        json_null(t, "parameters");
        return 0;
    }
    json_open(t, "parameters", '{');
    if (o->result.nodes > 0) json_integer(t, tvblt ? "nodes" : "buffers", o->result.nodes);
    int code = tvblt ? 0 : json_parameters(t, s);
    json_close(t, '}');
    return code;
}

static void table_optimized(text_buffer *t, const optimized *o) {
    char text[80];
    snprintf(text, sizeof text, "%s after %d iterations, %.3g s", dpmf_outcome_name(o->result.outcome),
             o->result.iterations, o->seconds);
    table_text(t, "optimum", text);
    if (o->result.scope != NULL) {
        table_lower(t, "  at least", o->result.optimum_lower, o->result.scope);
        table_upper(t, "  at most", o->result.optimum_upper, "loss of the optimum found");
    }
    if (o->result.stationarity > 0.0) table_double(t, "  gradient", o->result.stationarity, "of ln loss");
    if (o->result.searched != NULL) table_text(t, "  among", o->result.searched);
    if (o->result.nodes > 0) table_integer(t, "nodes", o->result.nodes);
    if (o->damped) table_double(t, "nu", o->result.nu, "damping of the square root");
    if (o->result.dropped == 0) return;
    snprintf(text, sizeof text, "%d of the buffers asked for: they gain nothing (less than 1e-7)", o->result.dropped);
    table_text(t, "dropped", text);
}

/* ---- the figures ---- */

/* The bound on mechanisms without a horizon is about running sums. */
static bool is_unbounded(const problem *p) {
    return p->strategy != NULL && strcmp(dpmf_strategy_get(p->strategy).family, DPMF_FAMILY_UNBOUNDED) == 0 &&
           strcmp(dpmf_workload_get(p->workload).text, "prefix") == 0;
}

/* A matrix that is not triangular, whose rows need not be one for each step. */
static bool has_rows(const problem *p) {
    return strstr(dpmf_workload_get(p->workload).text, "rows") != NULL;
}

static double per_row(const problem *p, const answer *a) {
    return sqrt(a->found.total_squared_loss / (double)dpmf_workload_get(p->workload).rows);
}

static int print_json(text_buffer *t, const arguments *given, const problem *p, const answer *a) {
    int64_t steps = dpmf_workload_get(p->workload).steps;
    const dpmf_strategy *s = p->strategy;
    json_begin(t);
    json_text(t, "family", s == NULL ? "dense" : dpmf_strategy_get(s).family);
    if (option_given(given, OPTION_PARAMETERS) && p->own_made_by[0] != '\0') json_text(t, "made_by", p->own_made_by);
    json_integer(t, "steps", steps);
    json_text(t, "workload", dpmf_workload_get(p->workload).text);
    if (has_rows(p)) {
        json_integer(t, "workload_rows", dpmf_workload_get(p->workload).rows);
        json_known(t, "rms_loss_per_row", per_row(p, a));
    }
    if (p->made_for != NULL) json_text(t, "made_for_workload", p->made_for);
    json_text(t, "participation", dpmf_participation_get(p->participation).text);
    json_sensitivity(t, a->found.sensitivity);
    if (a->joint.value > 0.0) {
        json_open(t, "joint_sensitivity", '{');
        json_double(t, "value", a->joint.value);
        json_text(t, "kind", dpmf_certainty_name(a->joint.kind));
        json_text(t, "method", a->joint.method);
        json_double(t, "weight", given->number[OPTION_JOINT]);
        json_close(t, '}');
    }
    json_known(t, "rms_loss", a->found.rms_loss);
    json_known(t, "max_loss", a->found.max_loss);
    if (s != NULL) json_text(t, "max_loss_kind", max_loss_kind(s, &a->found));
    json_known(t, "total_squared_loss", a->found.total_squared_loss);
    if (is_other_loss(given)) {
        json_open(t, "loss", '{');
        json_text(t, "name", option_text(given, OPTION_LOSS));
        json_known(t, "value", a->found.loss);
        json_close(t, '}');
    }
    json_lower_bound(t, a->found.lower_bound);
    json_known(t, "ratio", ratio_of(given, &a->found));
    if (is_unbounded(p)) json_double(t, "horizon_free_bound", DPMF_UNBOUNDED_LOWER_BOUND);
    json_integer(t, "buffers", s == NULL ? steps - 1 : dpmf_strategy_get(s).buffers);
    json_double(t, "normals_per_number", s == NULL ? 1 : dpmf_strategy_get(s).normals);
    if (a->per_step != NULL) json_doubles(t, "per_step_error", steps, a->per_step);
    json_integer(t, "bands", s == NULL ? steps : dpmf_strategy_get(s).bands);
    json_integer(t, "stamps", s == NULL ? 1 : dpmf_strategy_get(s).stamps);
    if (s != NULL && dpmf_strategy_get(s).branching > 0) json_integer(t, "branching", dpmf_strategy_get(s).branching);
    json_bool(t, "normalized", s == NULL || dpmf_strategy_get(s).is_normalized != 0);
    json_text(t, "adjacency", dpmf_adjacency_name(p->adjacency));
    json_text(t, "unit", p->unit);
    json_bool(t, "weighted", p->weights != NULL);
    if (a->privacy.sigma > 0.0) {
        json_double(t, "sigma", a->privacy.sigma);
        json_double(t, "epsilon", a->privacy.epsilon);
        json_double(t, "delta", a->privacy.delta);
        json_double(t, "noise_rms", a->privacy.sigma * a->found.rms_loss);
        json_double(t, "noise_max", a->privacy.sigma * a->found.max_loss);
    }
    if (a->risk != NULL) json_spectrum(t, a->risk);
    if (a->learning != NULL) json_regret(t, a->learning);
    int code = a->found_by == NULL ? 0 : json_optimized(t, p, a->found_by);
    json_end(t);
    return code;
}

static void print_table(text_buffer *t, const arguments *given, const problem *p, const answer *a) {
    int64_t steps = dpmf_workload_get(p->workload).steps;
    char rows[160];
    const dpmf_strategy *s = p->strategy;
    table_text(t, "family", s == NULL ? "dense (too large to be formed)" : dpmf_strategy_get(s).family);
    if (option_given(given, OPTION_PARAMETERS) && p->own_made_by[0] != '\0') table_text(t, "made by", p->own_made_by);
    if (s != NULL && dpmf_strategy_get(s).stamps > 1) table_integer(t, "stamps", dpmf_strategy_get(s).stamps);
    if (s != NULL && dpmf_strategy_get(s).branching > 2) table_integer(t, "branching", dpmf_strategy_get(s).branching);
    if (s != NULL && dpmf_strategy_get(s).is_normalized) table_text(t, "columns", "normalized");
    table_integer(t, "steps", steps);
    table_text(t, "workload", dpmf_workload_get(p->workload).text);
    if (has_rows(p)) {
        snprintf(rows, sizeof rows, "%lld, each released in the step of its last non-zero column; RMS over them %.9g",
                 (long long)dpmf_workload_get(p->workload).rows, safe_digits(per_row(p, a), DIGITS, 1));
        table_text(t, "  rows", rows);
    }
    if (p->made_for != NULL) table_text(t, "  made for", p->made_for);
    if (p->weights != NULL) table_text(t, "weights", "given");
    table_text(t, "participation", dpmf_participation_get(p->participation).text);
    table_text(t, "adjacency", dpmf_adjacency_name(p->adjacency));
    if (p->unit != NULL) table_text(t, "unit", p->unit);
    if (a->found_by != NULL) table_optimized(t, a->found_by);
    table_sensitivity(t, a->found.sensitivity);
    if (a->joint.value > 0.0) {
        snprintf(rows, sizeof rows, "%s, of both moments", dpmf_certainty_name(a->joint.kind));
        table_upper(t, "  joint", a->joint.value, rows);
    }
    if (s != NULL) table_losses(t, s, &a->found);
    if (is_other_loss(given)) {
        char kind[80];
        snprintf(kind, sizeof kind, "%s (%.40s)", dpmf_certainty_name(a->found.sensitivity.kind),
                 option_text(given, OPTION_LOSS));
        table_double(t, "asked loss", a->found.loss, kind);
    }
    if (s == NULL)
        table_double(t, wants_max(given) ? "max loss" : "RMS loss",
                     wants_max(given) ? a->found.max_loss : a->found.rms_loss, "upper bound");
    table_lower_bound(t, a->found.lower_bound);
    double ratio = ratio_of(given, &a->found);
    if (ratio > 0.0)
        table_upper(t, "ratio", ratio,
                    is_other_loss(given) ? "asked loss / RMS lower bound, which it cannot be below"
                    : wants_max(given)   ? "max loss / lower bound"
                                         : "RMS loss / lower bound");
    if (is_unbounded(p))
        table_lower(t, "  at every step", DPMF_UNBOUNDED_LOWER_BOUND,
                    "no mechanism without a horizon stays below this (max loss / lower bound for that step)");
    table_integer(t, "buffers", s == NULL ? steps - 1 : dpmf_strategy_get(s).buffers);
    if (s != NULL && dpmf_strategy_get(s).normals > 1)
        table_double(t, "normals", dpmf_strategy_get(s).normals, "normal numbers per number of noise, on average");
    if (a->privacy.sigma > 0.0) {
        table_upper(t, "sigma", a->privacy.sigma, dpmf_certainty_name(a->privacy.kind));
        table_upper(t, "epsilon", a->privacy.epsilon, NULL);
        table_upper(t, "delta", a->privacy.delta, NULL);
        table_upper(t, "RMS noise", a->privacy.sigma * a->found.rms_loss, "sigma x RMS loss");
    }
    if (a->risk != NULL) table_spectrum(t, a->risk);
    if (a->learning != NULL) table_regret(t, a->learning);
    if (a->per_step == NULL) return;
    text_add(t, "\nstep      error (%s)\n", dpmf_certainty_name(a->found.sensitivity.kind));
    for (int64_t i = 0; i < steps; i++)
        text_add(t, "%-10lld%.*g\n", (long long)i, DIGITS, safe_digits(a->per_step[i], DIGITS, 1));
}

int print_answer(const arguments *given, const problem *p, const answer *a) {
    text_buffer t = {0};
    int code = 0;
    if (option_given(given, OPTION_JSON))
        code = print_json(&t, given, p, a);
    else
        print_table(&t, given, p, a);
    if (code == 0) code = text_print(&t);
    text_free(&t);
    return code;
}

/* ---- evaluating ---- */

int check_guarantee_options(const arguments *given) {
    if (option_given(given, OPTION_UNIT) && !option_given(given, OPTION_OUT))
        return fail(EXIT_USAGE, "%s: --unit is recorded in the file of --out, which is not given",
                    verbs[given->verb].name);
    if (option_given(given, OPTION_EPSILON) == option_given(given, OPTION_DELTA)) return 0;
    return fail(EXIT_USAGE, "%s: --epsilon and --delta go together", verbs[given->verb].name);
}

int evaluate_problem(const arguments *given, const problem *p, answer *a) {
    dpmf_mechanism *mechanism = NULL;
    dpmf_mechanism_options saved = dpmf_mechanism_options_defaults();
    const char *path = option_text(given, OPTION_OUT);
    saved.evaluate.adjacency = p->adjacency;
    saved.evaluate.sensitivity = p->sensitivity;
    saved.evaluate.lower_bound = option_is(given, OPTION_BOUND, "none")    ? DPMF_LOWER_BOUND_NONE
                                 : option_is(given, OPTION_BOUND, "force") ? DPMF_LOWER_BOUND_FORCE
                                                                           : DPMF_LOWER_BOUND_AUTO;
    saved.evaluate.weights = p->weights;
    saved.evaluate.columns = p->columns;
    if (take_loss(given, &saved.evaluate.loss, &saved.evaluate.loss_power) != 0) return EXIT_USAGE;
    saved.evaluate.run = run_with((int)given->count[OPTION_THREADS]);
    saved.sampling = p->sampling;
    if (!dpmf_sampling_is_none(&p->sampling)) saved.evaluate.of = DPMF_SENSITIVITY_COLUMN;
    saved.made_by = p->made_by;
    saved.unit = p->unit;
    dpmf_status status = DPMF_OK;
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* nothing is written yet */
    if (path != NULL || option_given(given, OPTION_EPSILON))
        status = dpmf_mechanism_create(p->workload, p->participation, p->strategy, &saved, &mechanism);
    if (status == DPMF_OK && mechanism != NULL) a->found = dpmf_mechanism_get(mechanism).evaluation;
    if (status == DPMF_OK && (mechanism == NULL || a->per_step != NULL))
        status = dpmf_evaluate(p->workload, p->participation, p->strategy, &saved.evaluate, &a->found, a->per_step);
    if (status == DPMF_OK && option_given(given, OPTION_EPSILON)) {
        dpmf_mechanism *plain = mechanism;
        mechanism = NULL;
        status = dpmf_mechanism_calibrate(plain, given->number[OPTION_EPSILON], given->number[OPTION_DELTA], NULL, NULL,
                                          &saved.evaluate.run, &mechanism, &a->privacy);
        dpmf_mechanism_free(plain);
    }
    end_later();
    int code = status == DPMF_OK ? 0 : fail_status(status, NULL);
    if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
    if (code == 0) code = save_mechanism(mechanism, path);
    dpmf_mechanism_free(mechanism);
    return code;
}

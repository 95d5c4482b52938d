/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include "family.h"
#include "own.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void problem_free(problem *p) {
    dpmf_mechanism_free(p->mechanism);
    dpmf_workload_free(p->own_workload);
    dpmf_participation_free(p->own_participation);
    dpmf_strategy_free(p->own_strategy);
    free(p->own_weights);
    memset(p, 0, sizeof *p);
}

int load_mechanism(const char *path, dpmf_mechanism **out) {
    dpmf_status status = dpmf_mechanism_load(path, out);
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_FORMAT; /* the fault is in the file, not in the command */
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int save_mechanism(const dpmf_mechanism *mechanism, const char *path) {
    if (path == NULL) return 0;
    dpmf_status status = dpmf_mechanism_save(mechanism, path);
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_IO; /* a path that cannot hold a file */
    return status == DPMF_OK ? 0 : fail_status(status, "--out");
}

int load_confirmed(const char *path, int threads, dpmf_mechanism **out) {
    char shown[SHOWN];
    const dpmf_run run = run_with(threads);
    int code = load_mechanism(path, out);
    if (code != 0) return code;
    dpmf_status status = dpmf_mechanism_confirm(*out, &run, NULL);
    progress_clear();
    if (status != DPMF_ERROR_FORMAT) return status == DPMF_OK ? 0 : fail_status(status, NULL);
    return fail(EXIT_UNABLE, "%s: %s; run 'dpmf verify' for more", show(path, shown), dpmf_last_error());
}

int check_calibrated(const arguments *given, const dpmf_mechanism *mechanism) {
    char shown[SHOWN];
    if (dpmf_mechanism_get(mechanism).sigma > 0.0 || option_given(given, OPTION_UNCALIBRATED)) return 0;
    return fail(
        EXIT_UNABLE,
        "%s is not calibrated: it has no sigma, and its noise would promise nothing; 'dpmf calibrate' finds the "
        "sigma for an (epsilon, delta)%s",
        show(given->operand, shown),
        options[OPTION_UNCALIBRATED].verbs >> given->verb & 1u ? ", --uncalibrated takes sigma = 1" : "");
}

/* ---- objects of the options ------------------------------------------------------------------------------------ */

static int fail_option(dpmf_status status, const arguments *given, option_id id) {
    char about[SHOWN + 40], shown[SHOWN];
    bool file = options[id].kind == KIND_FILE; /* then the library's own message names it */
    snprintf(about, sizeof about, "--%s%s%s", options[id].name, file ? "" : " ",
             file ? "" : show(option_text(given, id), shown));
    return fail_status(status, about);
}

int make_workload(const arguments *given, option_id id, int64_t steps, dpmf_workload **out) {
    const char *words = option_text(given, id);
    if (words == NULL) return 0;
    dpmf_status status = dpmf_workload_parse(words, steps, out);
    return status == DPMF_OK ? 0 : fail_option(status, given, id);
}

int make_participation(const arguments *given, option_id id, int64_t steps, dpmf_participation **out) {
    const char *words = option_text(given, id);
    if (words == NULL) return 0;
    dpmf_status status = dpmf_participation_parse(words, steps, out);
    return status == DPMF_OK ? 0 : fail_option(status, given, id);
}

static int check_weights(const arguments *given, int64_t steps, const dpmf_array *array) {
    char shown[SHOWN];
    const char *path = show(option_text(given, OPTION_WEIGHTS), shown);
    if (array->dimensions != 1 || array->shape[0] != steps)
        return fail(EXIT_UNABLE,
                    "--weights %s: %" PRId64 " numbers in %d dimensions, accepted are %" PRId64 " (the steps) in one",
                    path, array->shape[0] * array->shape[1], array->dimensions, steps);
    bool all_zero = true;
    for (int64_t t = 0; t < steps; t++) {
        if (!(array->values[t] >= 0.0 && isfinite(array->values[t])))
            return fail(EXIT_UNABLE, "--weights %s: weight %" PRId64 " is %g, accepted are finite numbers >= 0", path,
                        t, array->values[t]);
        if (array->values[t] > 0.0) all_zero = false;
    }
    if (all_zero) return fail(EXIT_UNABLE, "--weights %s: all are zero, at least one must be above 0", path);
    return 0;
}

/* "last", or "last:FRACTION": the last steps alone, with weights of mean 1, so that the RMS loss is that of these steps. */
static int make_last(const arguments *given, int64_t steps, double **out) {
    const char *words = option_text(given, OPTION_WEIGHTS) + strlen("last");
    double part = 0.0;
    char *end = NULL, shown[SHOWN];
    if (*words == ':') part = strtod(words + 1, &end);
    if (*words == ':' && (end == words + 1 || *end != '\0' || !(part > 0.0 && part <= 1.0)))
        return fail(EXIT_USAGE, "--weights last:%s: accepted is a fraction of the steps above 0 and up to 1",
                    show(words + 1, shown));
    const int64_t count = (int64_t)fmax(1.0, round(part * (double)steps));
    *out = allocate(steps, sizeof **out);
    if (*out == NULL) return fail_memory();
    for (int64_t t = steps - count; t < steps; t++)
        (*out)[t] = (double)steps / (double)count;
    return 0;
}

int make_weights(const arguments *given, int64_t steps, double **out) {
    dpmf_array array;
    if (!option_given(given, OPTION_WEIGHTS)) return 0;
    const char *words = option_text(given, OPTION_WEIGHTS);
    if (strcmp(words, "last") == 0 || strncmp(words, "last:", strlen("last:")) == 0)
        return make_last(given, steps, out);
    dpmf_status status = dpmf_array_load(option_text(given, OPTION_WEIGHTS), &array);
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_FORMAT; /* the fault is in the file, not in the command */
    if (status != DPMF_OK) return fail_option(status, given, OPTION_WEIGHTS);
    int code = check_weights(given, steps, &array);
    if (code == 0) *out = allocate(steps, sizeof **out);
    if (code == 0 && *out == NULL) code = fail_memory();
    if (code == 0) memcpy(*out, array.values, (size_t)steps * sizeof **out);
    dpmf_array_free(&array);
    return code;
}

static dpmf_adjacency adjacency_of(const arguments *given) {
    dpmf_adjacency adjacency = DPMF_ADJACENCY_ZERO_OUT;
    dpmf_status status = dpmf_adjacency_parse(option_text(given, OPTION_ADJACENCY), &adjacency);
    assert(status == DPMF_OK); /* the option's table has let only these words through */
    (void)status;
    return adjacency;
}

static dpmf_sensitivity_bound sensitivity_of(const arguments *given) {
    dpmf_sensitivity_bound bound = DPMF_BOUND_AUTO;
    dpmf_status status = dpmf_sensitivity_bound_parse(option_text(given, OPTION_SENSITIVITY), &bound);
    assert(status == DPMF_OK); /* as above */
    (void)status;
    return bound;
}

uint64_t memory_limit(const arguments *given) {
    const uint64_t bytes = (uint64_t)given->count[OPTION_MEMORY];
    if (!option_given(given, OPTION_MEMORY)) return 0;
    return bytes == 0 ? DPMF_MEMORY_NO_ROWS : bytes;
}

int take_loss(const arguments *given, dpmf_loss *loss, double *power) {
    static const char *const names[] = {
        [DPMF_LOSS_RMS] = "rms", [DPMF_LOSS_MAX] = "max", [DPMF_LOSS_LP] = "lp:", [DPMF_LOSS_LAST] = "last"};
    const char *text = option_text(given, OPTION_LOSS);
    char shown[SHOWN];
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        *loss = (dpmf_loss)i;
        if (i != DPMF_LOSS_LP && strcmp(text, names[i]) == 0) return 0;
        if (i == DPMF_LOSS_LP && strncmp(text, "lp:", 3) == 0 && read_number(text + 3, power) && *power >= 1.0 &&
            *power <= 1000.0)
            return 0;
    }
    return fail(EXIT_USAGE, "--loss %s: accepted are rms, max, last and lp:P with P from 1 to 1000", show(text, shown));
}

/* --columns of evaluate and optimize, which are about the dimension of contributions; *out stays where it is not given. */
static int take_columns(const arguments *given, int64_t *out) {
    char shown[SHOWN];
    if (!option_given(given, OPTION_COLUMNS)) return 0;
    *out = option_is(given, OPTION_COLUMNS, "1") ? 1 : 0;
    if (*out == 1 || option_is(given, OPTION_COLUMNS, "any")) return 0;
    return fail(EXIT_USAGE,
                "--columns %s: %s accepts 1 (contributions of single numbers) and any: the sensitivity of two columns "
                "is bounded by that of any number",
                show(option_text(given, OPTION_COLUMNS), shown), verbs[given->verb].name);
}

int64_t stamp_steps(const arguments *given, int64_t steps) {
    const int64_t stamps = option_given(given, OPTION_STAMPS) ? given->count[OPTION_STAMPS] : 1;
    return stamps > 1 && steps % stamps == 0 ? steps / stamps : steps;
}

/* The participation that a strategy would be optimised for must be possible; nothing here depends on it otherwise. */
static int check_optimize_participation(const arguments *given, int64_t steps) {
    dpmf_participation *participation = NULL;
    if (given->verb == VERB_OPTIMIZE) steps = stamp_steps(given, steps);
    int code = make_participation(given, OPTION_OPTIMIZE_PARTICIPATION, steps, &participation);
    dpmf_participation_free(participation);
    return code;
}

/* Replaces the strategy by its lower-triangular form. */
static int make_triangular(const arguments *given, problem *p) {
    dpmf_strategy *triangular = NULL;
    char shown[SHOWN];
    if (!option_given(given, OPTION_VARIANT)) return 0;
    if (!option_is(given, OPTION_VARIANT, "triangular"))
        return fail(EXIT_USAGE, "--variant %s: evaluate accepts triangular",
                    show(option_text(given, OPTION_VARIANT), shown));
    dpmf_status status = dpmf_strategy_create_triangular(p->strategy, &triangular);
    if (status != DPMF_OK) return fail_status(status, "--variant triangular");
    snprintf(p->own_made_by, sizeof p->own_made_by, "lower-triangular form of %s",
             dpmf_strategy_get(p->strategy).family);
    p->made_by = p->own_made_by;
    dpmf_strategy_free(p->own_strategy);
    p->strategy = p->own_strategy = triangular;
    return 0;
}

/* ---- from options ---------------------------------------------------------------------------------------------- */

int problem_without_strategy(const arguments *given, problem *out, dpmf_workload **optimize_for) {
    int64_t steps = given->count[OPTION_STEPS];
    if (!option_given(given, OPTION_STEPS))
        return fail(EXIT_USAGE, "%s needs --steps N%s", verbs[given->verb].name,
                    verbs[given->verb].operand == NULL ? "" : " or a mechanism FILE");
    int code = make_workload(given, OPTION_WORKLOAD, steps, &out->own_workload);
    if (code == 0) code = make_participation(given, OPTION_PARTICIPATION, steps, &out->own_participation);
    if (code == 0) code = check_optimize_participation(given, steps);
    if (code == 0) code = make_weights(given, steps, &out->own_weights);
    if (code == 0) code = make_workload(given, OPTION_OPTIMIZE_WORKLOAD, steps, optimize_for);
    if (code != 0) return code;
    out->workload = out->own_workload;
    out->participation = out->own_participation;
    out->weights = out->own_weights;
    out->adjacency = adjacency_of(given);
    out->sensitivity = sensitivity_of(given);
    out->unit = option_text(given, OPTION_UNIT);
    return take_columns(given, &out->columns);
}

/* A closed form with the number of stamps that has the least loss. */
static int choose_stamps(const arguments *given, const dpmf_family *kind, problem *p) {
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_strategy_options made;
    dpmf_optimization found;
    int code = read_closed_form(given, kind, dpmf_workload_get(p->workload).steps, &made);
    if (code == 0) code = take_loss(given, &how.loss, &how.loss_power);
    if (code != 0) return code;
    how.stamps = DPMF_STAMPS_AUTO;
    how.closed_form = &made;
    how.weights = p->weights;
    how.run = run_with((int)given->count[OPTION_THREADS]);
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled");
    dpmf_status status = dpmf_optimize(kind->name, p->workload, p->participation, &how, &p->own_strategy, &found);
    end_later();
    progress_clear();
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int problem_from_options(const arguments *given, problem *out) {
    const char *name = option_text(given, OPTION_FAMILY);
    dpmf_workload *source = NULL;
    if (!option_given(given, OPTION_STEPS))
        return fail(EXIT_USAGE, "%s needs --steps N or a mechanism FILE", verbs[given->verb].name);
    if (name == NULL) return fail(EXIT_USAGE, "%s needs --family NAME or a mechanism FILE", verbs[given->verb].name);
    int code = check_family(name, given);
    const bool choose = stamps_chosen(given);
    if (code == 0 && choose &&
        (option_given(given, OPTION_PARAMETERS) || option_given(given, OPTION_OPTIMIZE_WORKLOAD)))
        return fail(EXIT_USAGE, "--stamps auto is for closed forms of the workload itself: --parameters and "
                                "--optimize-workload take a number");
    if (code == 0) code = problem_without_strategy(given, out, &source);
    if (code == 0 && choose)
        code = choose_stamps(given, find_family(name), out);
    else if (code == 0)
        code = make_strategy(given, find_family(name), source != NULL ? source : out->workload,
                             (strategy_shape){0, 1, option_is(given, OPTION_NORMALIZE, "after"), out->own_made_by},
                             &out->own_strategy);
    dpmf_workload_free(source);
    if (code != 0) return code;
    out->strategy = out->own_strategy;
    out->made_by = out->own_made_by[0] != '\0'              ? out->own_made_by
                   : option_given(given, OPTION_PARAMETERS) ? "given parameters"
                                                            : "closed form";
    return make_triangular(given, out);
}

/* ---- from a file ----------------------------------------------------------------------------------------------- */

int contradiction(const arguments *given, option_id id, const char *held) {
    char shown[SHOWN], file[SHOWN];
    const char *value = option_text(given, id);
    bool flag = options[id].kind == KIND_FLAG;
    return fail(EXIT_USAGE, "--%s%s%s contradicts %s, which has %s", options[id].name, flag ? "" : " ",
                flag ? "" : show(value, shown), show(given->operand, file), held);
}

/*
 * Are two operators the same matrix? They are applied to one vector without structure: different matrices agree on it
 * only by an accident of measure zero, and rounding does not count as a difference. They take `steps` numbers to `rows`.
 */
static int compare_operators(bool strategies, const void *a, const void *b, int64_t steps, int64_t rows, bool *same) {
    double *x = allocate(steps + 2 * rows, sizeof *x);
    if (x == NULL) return fail_memory();
    double *y = x + steps, *z = y + rows, largest = 0.0, difference = 0.0;
    for (int64_t t = 0; t < steps; t++) {
        double turn = 0.6180339887498949 * (double)(t + 1); /* the golden ratio: fractional parts that never repeat */
        x[t] = 0.5 + (turn - floor(turn));
    }
    dpmf_status status = strategies ? dpmf_strategy_apply(a, x, y) : dpmf_workload_apply(a, x, y);
    if (status == DPMF_OK) status = strategies ? dpmf_strategy_apply(b, x, z) : dpmf_workload_apply(b, x, z);
    for (int64_t t = 0; status == DPMF_OK && t < rows; t++) {
        largest = fmax(largest, fmax(fabs(y[t]), fabs(z[t])));
        difference = fmax(difference, fabs(y[t] - z[t]));
    }
    free(x);
    *same = difference <= 1e-9 * largest; /* far above rounding, far below any difference that is meant */
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

/*
 * Is it the same workload? Texts decide unless one of its parts came from a file: then the matrices, or, where a workload is no
 * square matrix, the words of the two options, which name the files.
 */
int same_workload(const dpmf_workload *a, const dpmf_workload *b, const char *words_a, const char *words_b,
                  bool *same) {
    const dpmf_workload_info x = dpmf_workload_get(a), y = dpmf_workload_get(b);
    const bool from_file =
        strstr(x.text, "lr") != NULL || strstr(x.text, "file") != NULL || strstr(x.text, "rows") != NULL;
    const bool square =
        x.rows == x.steps && y.rows == y.steps && strstr(x.text, "rows") == NULL && strstr(y.text, "rows") == NULL;
    *same = strcmp(x.text, y.text) == 0;
    if (square && (from_file || !*same)) return compare_operators(false, a, b, x.steps, x.steps, same);
    if (from_file) *same = *same && words_a != NULL && words_b != NULL && strcmp(words_a, words_b) == 0;
    return 0;
}

/* --workload beside a FILE: its mechanism is priced on that workload. */
static int take_workload(const arguments *given, problem *p) {
    bool same = true;
    if (!option_given(given, OPTION_WORKLOAD)) return 0;
    int code = make_workload(given, OPTION_WORKLOAD, dpmf_workload_get(p->workload).steps, &p->own_workload);
    if (code == 0) code = same_workload(p->own_workload, p->workload, NULL, NULL, &same);
    if (code != 0 || same) return code;
    p->made_for = dpmf_workload_get(p->workload).text;
    p->workload = p->own_workload;
    return 0;
}

static int check_participation(const arguments *given, const problem *p) {
    dpmf_participation *asked = NULL;
    if (!option_given(given, OPTION_PARTICIPATION)) return 0;
    const char *held = dpmf_participation_get(p->participation).text;
    int code = make_participation(given, OPTION_PARTICIPATION, dpmf_workload_get(p->workload).steps, &asked);
    if (code == 0 && strcmp(dpmf_participation_get(asked).text, held) != 0)
        code = contradiction(given, OPTION_PARTICIPATION, held);
    dpmf_participation_free(asked);
    return code;
}

static int check_weights_held(const arguments *given, problem *p) {
    double *asked = NULL;
    int64_t steps = dpmf_workload_get(p->workload).steps;
    if (!option_given(given, OPTION_WEIGHTS)) return 0;
    int code = make_weights(given, steps, p->made_for != NULL ? &p->own_weights : &asked);
    if (code == 0 && p->made_for != NULL) { /* another question may have its own weights */
        p->weights = p->own_weights;
        return 0;
    }
    if (code == 0 && p->weights == NULL)
        code = contradiction(given, OPTION_WEIGHTS, "none");
    else if (code == 0 && memcmp(asked, p->weights, (size_t)steps * sizeof *asked) != 0)
        code = contradiction(given, OPTION_WEIGHTS, "others");
    free(asked);
    return code;
}

/* Options that describe a strategy: makes it again and compares. */
static int check_strategy_made(const arguments *given, const problem *p, const dpmf_family *kind) {
    static const option_id makers[] = {OPTION_PARAMETERS, OPTION_NU,     OPTION_BANDS,
                                       OPTION_BUFFERS,    OPTION_LEVELS, OPTION_OPTIMIZE_WORKLOAD};
    dpmf_strategy *asked = NULL;
    bool same = true;
    int64_t steps = dpmf_workload_get(p->workload).steps, rows = dpmf_strategy_get(p->strategy).rows;
    int64_t bands = kind->bands ? family_bands(p->strategy) : dpmf_strategy_get(p->strategy).bands;
    strategy_shape held = {bands, dpmf_strategy_get(p->strategy).stamps,
                           dpmf_strategy_get(p->strategy).is_normalized != 0, NULL};
    dpmf_workload *source = NULL; /* of --optimize-workload, else that of the file */
    int code = make_workload(given, OPTION_OPTIMIZE_WORKLOAD, steps, &source);
    if (code == 0) code = make_strategy(given, kind, source != NULL ? source : p->workload, held, &asked);
    dpmf_workload_free(source);
    if (code == 0 && dpmf_strategy_get(asked).rows != rows)
        same = false;
    else if (code == 0)
        code = compare_operators(true, asked, p->strategy, steps, rows, &same);
    dpmf_strategy_free(asked);
    for (size_t i = 0; code == 0 && !same && i < sizeof makers / sizeof *makers; i++)
        if (option_given(given, makers[i])) return contradiction(given, makers[i], "another strategy");
    return code;
}

/* The parameters of the file's strategy. */
static int check_strategy_named(const arguments *given, const problem *p) {
    char held[40];
    const char *name = dpmf_strategy_get(p->strategy).family;
    int64_t stamps = dpmf_strategy_get(p->strategy).stamps;
    if (option_given(given, OPTION_FAMILY)) {
        const char *asked = option_text(given, OPTION_FAMILY);
        if (find_family(asked) == NULL) return check_family(asked, given);
        if (strcmp(decoded_family(asked, given), name) != 0) return contradiction(given, OPTION_FAMILY, name);
    }
    if (decoder_path(given) != NULL && !option_given(given, OPTION_PARAMETERS))
        return fail(EXIT_USAGE, "--decoder file:B.npy needs --parameters FILE, the matrix that it decodes");
    const dpmf_family *kind = find_family(name);
    bool one_decoder = kind == NULL || kind->restart == NULL;
    bool only_restart = !one_decoder && kind->optimal == NULL && option_is(given, OPTION_DECODER, "optimal");
    if (strcmp(decoded_family(name, given), name) != 0 || only_restart)
        return contradiction(given, OPTION_DECODER, name);
    /* A family that is its own best decoder, as smooth-binary, has a square C with it alone. */
    const dpmf_strategy_info info = dpmf_strategy_get(p->strategy);
    if (!one_decoder && kind->restart == kind->optimal && option_given(given, OPTION_DECODER) &&
        option_is(given, OPTION_DECODER, "optimal") != (info.rows == info.steps))
        return contradiction(given, OPTION_DECODER, info.rows == info.steps ? "optimal" : "restart");
    if (option_given(given, OPTION_BRANCHING) && given->count[OPTION_BRANCHING] != info.branching) {
        snprintf(held, sizeof held, "%" PRId64, info.branching);
        return contradiction(given, OPTION_BRANCHING, info.branching == 0 ? "none" : held);
    }
    if (stamps_chosen(given))
        return fail(EXIT_USAGE,
                    "--stamps auto: the strategy of a FILE has a fixed number of steps, a number is accepted");
    if (option_given(given, OPTION_STAMPS) && given->count[OPTION_STAMPS] != stamps) {
        snprintf(held, sizeof held, "%" PRId64, stamps);
        return contradiction(given, OPTION_STAMPS, held);
    }
    const bool normalized = dpmf_strategy_get(p->strategy).is_normalized != 0;
    if (option_given(given, OPTION_NORMALIZE) && option_is(given, OPTION_NORMALIZE, "after") != normalized)
        return contradiction(given, OPTION_NORMALIZE, normalized ? "normalized columns" : "columns not normalized");
    return 0;
}

static int check_strategy(const arguments *given, const problem *p) {
    char held[40];
    const char *name = dpmf_strategy_get(p->strategy).family;
    const dpmf_family *kind = find_family(name);
    int code = check_strategy_named(given, p);
    if (code != 0) return code;
    bool parameters = option_given(given, OPTION_PARAMETERS), bands = option_given(given, OPTION_BANDS);
    bool source = option_given(given, OPTION_OPTIMIZE_WORKLOAD), nu = option_given(given, OPTION_NU);
    bool counts = option_given(given, OPTION_BUFFERS) || option_given(given, OPTION_LEVELS);
    if (!parameters && !bands && !nu && !source && !counts) return 0;
    if (kind == NULL) return fail(EXIT_USAGE, "family %s of the file takes no such options", name);
    code = check_family(name, given);
    if (code != 0) return code;
    if (parameters || kind->closed_form) return check_strategy_made(given, p, kind);
    if (bands && given->count[OPTION_BANDS] != dpmf_strategy_get(p->strategy).bands) {
        snprintf(held, sizeof held, "%" PRId64, dpmf_strategy_get(p->strategy).bands);
        return contradiction(given, OPTION_BANDS, held);
    }
    return 0; /* the purpose of a given strategy does not matter */
}

static int check_small(const arguments *given, const problem *p) {
    char held[40];
    int64_t steps = dpmf_workload_get(p->workload).steps;
    if (option_given(given, OPTION_STEPS) && given->count[OPTION_STEPS] != steps) {
        snprintf(held, sizeof held, "%" PRId64, steps);
        return contradiction(given, OPTION_STEPS, held);
    }
    if (option_given(given, OPTION_ADJACENCY) && adjacency_of(given) != p->adjacency)
        return contradiction(given, OPTION_ADJACENCY, dpmf_adjacency_name(p->adjacency));
    if (option_given(given, OPTION_SENSITIVITY) && sensitivity_of(given) != p->sensitivity)
        return contradiction(given, OPTION_SENSITIVITY, dpmf_sensitivity_bound_name(p->sensitivity));
    return check_optimize_participation(given, steps);
}

/*
 * The strategy of a FILE repeated: a problem of S times its steps, with the file's workload and participation unless others
 * are given. The file's sigma and sampling hold for its own steps, and are left behind.
 */
static int repeat_file(const arguments *given, problem *out) {
    const dpmf_mechanism_info m = dpmf_mechanism_get(out->mechanism);
    const int64_t stamps = given->count[OPTION_STAMPS], block = dpmf_strategy_get(m.strategy).steps;
    const char *workload =
        option_given(given, OPTION_WORKLOAD) ? option_text(given, OPTION_WORKLOAD) : dpmf_workload_get(m.workload).text;
    const char *participation = option_given(given, OPTION_PARTICIPATION)
                                    ? option_text(given, OPTION_PARTICIPATION)
                                    : dpmf_participation_get(m.participation).text;
    char about[SHOWN + 40], shown[SHOWN];
    if (m.weights != NULL && !option_given(given, OPTION_WEIGHTS))
        return fail(EXIT_USAGE,
                    "--stamps %" PRId64 ": %s has weights for %" PRId64 " steps, --weights for all is required", stamps,
                    show(given->operand, shown), block);
    dpmf_status status = dpmf_strategy_create_stamped(m.strategy, stamps, &out->own_strategy);
    if (status != DPMF_OK) return fail_status(status, "--stamps");
    const int64_t steps = stamps * block;
    if (option_given(given, OPTION_STEPS) && given->count[OPTION_STEPS] != steps)
        return fail(EXIT_USAGE, "--steps %" PRId64 ": %" PRId64 " stamps of %" PRId64 " steps are %" PRId64,
                    given->count[OPTION_STEPS], stamps, block, steps);
    status = dpmf_workload_parse(workload, steps, &out->own_workload);
    snprintf(about, sizeof about, "--workload for %" PRId64 " steps", steps);
    if (status != DPMF_OK) return fail_status(status, about);
    status = dpmf_participation_parse(participation, steps, &out->own_participation);
    snprintf(about, sizeof about, "--participation for %" PRId64 " steps", steps);
    if (status != DPMF_OK) return fail_status(status, about);
    int code = make_weights(given, steps, &out->own_weights);
    if (code != 0) return code;
    snprintf(out->own_made_by, sizeof out->own_made_by, "%.58s, repeated", m.made_by);
    out->workload = out->own_workload;
    out->participation = out->own_participation;
    out->strategy = out->own_strategy;
    out->weights = out->own_weights;
    out->adjacency = option_given(given, OPTION_ADJACENCY) ? adjacency_of(given) : m.adjacency;
    out->sensitivity = option_given(given, OPTION_SENSITIVITY) ? sensitivity_of(given) : m.sensitivity_bound;
    out->unit = option_given(given, OPTION_UNIT) ? option_text(given, OPTION_UNIT) : m.unit;
    out->made_by = out->own_made_by;
    return 0;
}

/* Is the strategy of the file to be repeated? A file that is stamped already is compared with the number instead. */
static bool is_repeated(const arguments *given, const dpmf_mechanism *mechanism) {
    return option_given(given, OPTION_STAMPS) && given->count[OPTION_STAMPS] > 1 &&
           dpmf_strategy_get(dpmf_mechanism_get(mechanism).strategy).stamps == 1;
}

int problem_from_file(const arguments *given, problem *out) {
    int code = load_mechanism(given->operand, &out->mechanism);
    if (code != 0) return code;
    if (is_repeated(given, out->mechanism)) {
        static const option_id others[] = {OPTION_FAMILY,  OPTION_PARAMETERS, OPTION_BANDS,
                                           OPTION_NU,      OPTION_DECODER,    OPTION_BRANCHING,
                                           OPTION_VARIANT, OPTION_NORMALIZE,  OPTION_OPTIMIZE_WORKLOAD};
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (option_given(given, others[i]))
                return fail(EXIT_USAGE, "--%s: not with --stamps, which repeats the strategy of the FILE as it is",
                            options[others[i]].name);
        return repeat_file(given, out);
    }
    out->workload = dpmf_mechanism_get(out->mechanism).workload;
    out->participation = dpmf_mechanism_get(out->mechanism).participation;
    out->strategy = dpmf_mechanism_get(out->mechanism).strategy;
    out->weights = dpmf_mechanism_get(out->mechanism).weights;
    out->adjacency = dpmf_mechanism_get(out->mechanism).adjacency;
    out->sensitivity = dpmf_mechanism_get(out->mechanism).sensitivity_bound;
    out->columns = dpmf_mechanism_get(out->mechanism).evaluation.sensitivity.columns;
    out->sampling = dpmf_mechanism_get(out->mechanism).sampling;
    out->made_by = dpmf_mechanism_get(out->mechanism).made_by;
    dpmf_coverage covered = {.unit = dpmf_mechanism_get(out->mechanism).unit};
    code = take_unit(given, &covered);
    out->unit = covered.unit;
    if (code == 0) code = take_columns(given, &out->columns);
    if (code == 0) code = check_small(given, out);
    if (code == 0) code = check_participation(given, out);
    if (code == 0) code = check_strategy(given, out);
    if (code == 0) code = take_workload(given, out);
    if (code == 0) code = check_weights_held(given, out);
    return code == 0 ? make_triangular(given, out) : code;
}

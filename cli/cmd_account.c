/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"
#include "log.h"
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"
#include "problem.h"
#include "risk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CURVE_POINTS = 15, STATEMENT_MAX = 6000 + RISK_STATEMENT };

/* What is asked, and with what. */
typedef enum asked { ASK_EPSILON, ASK_DELTA, ASK_SIGMA, ASK_RHO, ASK_STEPS, ASK_PROBABILITY, ASK_TARGET } asked;

typedef struct account {
    asked ask;
    double sigma; /* 0: not known */
    double epsilon, delta;
    dpmf_mechanism *mechanism;
    dpmf_account_options how;
    dpmf_privacy found;
    int64_t most_steps;
    double most_probability;
    double curve[CURVE_POINTS];
    char statement[STATEMENT_MAX];
    observed_run observed;
    dpmf_tuning tuning;
    dpmf_privacy tuned; /* of the best of a random number of runs; delta 0: not asked for */
    risk_answer risk;
    double recomputed; /* of a FILE that claims epsilon at this delta: what it is; found has the claim. 0: not so */
    double
        recomputed_delta; /* the same of a simulated claim: the delta that fresh samples show at the claimed epsilon */
} account;

/* ---- the answer ---- */

/* The guarantee in sentences, into a->statement. */
static void account_statement(const arguments *given, account *a) {
    text_buffer before = {0};
    if (option_given(given, OPTION_FIRST))
        text_add(
            &before,
            "This is for the first %lld of %lld steps only, with an end that was fixed before the run. If you looked "
            "at results or data to decide when to stop, state the epsilon of the whole run, which covers every "
            "stop.\n",
            (long long)given->count[OPTION_FIRST],
            (long long)dpmf_strategy_get(dpmf_mechanism_get(a->mechanism).strategy).steps);
    if (a->tuned.delta > 0.0)
        text_add(
            &before,
            "The best of a random number of runs (%s, %.4g on average), best by any score, is (epsilon, "
            "delta)-differentially private with epsilon = %.6g and delta = %.6g, an upper bound (Papernot and "
            "Steinke 2022), if the number is freshly drawn from this distribution, if the settings of every run are "
            "drawn at random from one list that does not depend on the data, and if only the best is released.\n"
            "One run alone: ",
            option_text(given, OPTION_TUNING), dpmf_tuning_runs(&a->tuning), safe_digits(a->tuned.epsilon, 6, 1),
            safe_digits(a->tuned.delta, 6, 1));
    size_t used = before.failed || before.bytes == NULL ? 0 : before.length;
    if (used >= sizeof a->statement) used = 0;
    if (used > 0) memcpy(a->statement, before.bytes, used);
    text_free(&before);
    dpmf_privacy_statement(&a->found, &a->how, a->statement + used, sizeof a->statement - used);
    used = strlen(a->statement);
    if (a->risk.asked) snprintf(a->statement + used, sizeof a->statement - used, "%s", a->risk.statement);
}

static int64_t steps_of(const account *a) {
    if (a->how.compositions > 0) return a->how.compositions;
    if (dpmf_sampling_describe(a->how.sampling.kind)->allocates && a->how.strategy == NULL)
        return a->how.sampling.count * (a->how.epochs > 0 ? a->how.epochs : 1);
    return a->how.strategy == NULL ? 1 : dpmf_strategy_get(a->how.strategy).steps;
}

/* What sigma is a multiple of: the noise of a step has the deviation clip norm x sigma x this. */
static const char *sigma_per(const dpmf_account_options *how) {
    if (!dpmf_sampling_is_none(&how->sampling)) return "largest column norm of C";
    return how->sigma_unit == 2.0 ? "replace-one sensitivity" : "zero-out sensitivity";
}

static void print_json(text_buffer *t, const arguments *given, const account *a, const char *sampling) {
    const dpmf_privacy *p = &a->found, *answer = a->tuned.delta > 0.0 ? &a->tuned : p;
    json_begin(t);
    json_double(t, "epsilon", answer->epsilon);
    json_double(t, "delta", p->delta);
    json_known(t, "sigma", p->sigma);
    json_text(t, "sigma_per", sigma_per(&a->how));
    json_known(t, "mu", p->mu);
    json_known(t, "rho", p->rho);
    json_text(t, "kind", dpmf_certainty_name(answer->kind));
    json_known(t, "confidence", p->confidence);
    json_text(t, "method", answer->method);
    json_text(t, "adjacency", dpmf_adjacency_name(a->how.adjacency));
    json_text(t, "sampling", sampling);
    json_integer(t, "group", a->how.group > 1 ? a->how.group : 1);
    json_integer(t, "compositions", steps_of(a));
    json_text(t, "statement", a->statement);
    json_protected(t, &a->how);
    json_known(t, "total_mu", p->total_mu);
    json_known(t, "total_rho", p->total_rho);
    json_known(t, "epsilon_without_sampling", p->without_sampling);
    json_integer(t, "accounted_compositions", p->compositions);
    json_double(t, "accounted_probability", p->probability);
    json_bool(t, "slack_met", p->slack_met != 0);
    if (a->recomputed > 0.0) json_double(t, "epsilon_recomputed", a->recomputed);
    if (a->recomputed_delta > 0.0) json_double(t, "delta_recomputed", a->recomputed_delta);
    if (option_given(given, OPTION_FIRST)) {
        json_integer(t, "first", given->count[OPTION_FIRST]);
        json_integer(t, "whole", dpmf_strategy_get(dpmf_mechanism_get(a->mechanism).strategy).steps);
    }
    if (a->tuned.delta > 0.0) {
        json_text(t, "tuning", option_text(given, OPTION_TUNING));
        json_double(t, "expected_runs", dpmf_tuning_runs(&a->tuning));
        json_double(t, "epsilon_one_run", p->epsilon);
    }
    if (a->how.unconditional) json_integer(t, "coins", (int64_t)a->how.seed);
    if (a->how.units > 0) json_bool(t, "delta_below_one_unit", !delta_too_large(p->delta, a->how.units));
    if (option_given(given, OPTION_CURVE)) {
        json_open(t, "curve", '[');
        for (int i = 0; i < CURVE_POINTS; ++i) {
            json_open(t, NULL, '{');
            json_double(t, "delta", pow(10.0, -(i + 1)));
            json_double(t, "epsilon", a->curve[i]);
            json_close(t, '}');
        }
        json_close(t, ']');
    }
    risk_json(t, &a->risk);
    if (a->observed.asked) observed_json(t, &a->observed);
    json_end(t);
}

static void print_table(text_buffer *t, const arguments *given, const account *a, const char *sampling) {
    const dpmf_privacy *p = &a->found;
    const char *kind = dpmf_certainty_name(p->kind);
    if (a->tuned.delta > 0.0) {
        table_double(t, "epsilon", a->tuned.epsilon, dpmf_certainty_name(a->tuned.kind));
        table_double(t, "one run", p->epsilon, kind);
        table_double(t, "runs", dpmf_tuning_runs(&a->tuning), "on average");
    } else if (a->recomputed > 0.0) {
        table_upper(t, "epsilon", p->epsilon, "as the file claims");
        table_double(t, "recomputed", a->recomputed, kind);
    } else if (a->recomputed_delta > 0.0) {
        table_upper(t, "epsilon", p->epsilon, "as the file claims");
        table_upper(t, "recomputed delta", a->recomputed_delta, "shown by a new simulation");
    } else {
        table_upper(t, "epsilon", p->epsilon,
                    a->ask == ASK_EPSILON || a->ask == ASK_RHO || a->ask == ASK_TARGET ? kind : NULL);
    }
    table_upper(t, "delta", p->delta, a->ask == ASK_DELTA ? kind : NULL);
    if (p->sigma > 0.0) table_upper(t, "sigma", p->sigma, a->ask == ASK_SIGMA ? kind : NULL);
    if (p->sigma > 0.0 && a->how.adjacency == DPMF_ADJACENCY_REPLACE_ONE)
        table_text(t, "sigma is per", sigma_per(&a->how));
    if (p->mu > 0.0) table_upper(t, "mu", p->mu, NULL);
    if (p->rho > 0.0) table_upper(t, "rho", p->rho, NULL);
    table_text(t, "method", a->tuned.delta > 0.0 ? a->tuned.method : p->method);
    if (p->confidence > 0.0) table_lower(t, "confidence", p->confidence, NULL);
    table_text(t, "adjacency", dpmf_adjacency_name(a->how.adjacency));
    table_text(t, "sampling", sampling);
    if (a->how.group > 1) table_integer(t, "group", a->how.group);
    table_integer(t, "compositions", steps_of(a));
    risk_table(t, &a->risk);
    if (a->how.unconditional) table_integer(t, "random seed", (int64_t)a->how.seed);
    if (p->without_sampling > 0.0) table_upper(t, "epsilon without it", p->without_sampling, "same noise and delta");
    if (delta_too_large(p->delta, a->how.units)) table_text(t, "warning", DELTA_TOO_LARGE);
    if (!p->slack_met) table_text(t, "note", "the bound holds, but may be looser than --tolerance");
    if (option_given(given, OPTION_CURVE)) text_add(t, "\ndelta     epsilon\n");
    for (int i = 0; option_given(given, OPTION_CURVE) && i < CURVE_POINTS; ++i)
        text_add(t, "1e-%-7d%.*g\n", i + 1, DIGITS, safe_digits(a->curve[i], DIGITS, 1));
    if (a->observed.asked) observed_table(t, &a->observed);
    add_words(t, terminal_alphabet(), "\n%s", a->statement);
    if (a->observed.asked) {
        text_add(t, "\n");
        observed_statement(t, &a->observed, terminal_alphabet());
        text_add(t, "\n");
    }
}

static int print_account(const arguments *given, const account *a) {
    text_buffer t = {0};
    char sampling[64];
    if (dpmf_sampling_format(&a->how.sampling, sampling) != DPMF_OK) return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    if (option_given(given, OPTION_JSON))
        print_json(&t, given, a, sampling);
    else
        print_table(&t, given, a, sampling);
    return text_finish(&t);
}

/* ---- the question ---- */

static int refuse_set(void) {
    return fail(EXIT_USAGE,
                "account: give two of --sigma, --epsilon and --delta, or --rho and --delta, or with --largest "
                "sigma, epsilon and delta");
}

static bool same_sampling(const dpmf_sampling *a, const dpmf_sampling *b) {
    return a->kind == b->kind && a->probability == b->probability && a->count == b->count && a->picks == b->picks &&
           a->cap == b->cap && a->units == b->units;
}

static void put_cap(const arguments *given, account *a) {
    if (!option_given(given, OPTION_BATCH_CAP)) return;
    a->how.sampling.cap = given->count[OPTION_BATCH_CAP];
    a->how.sampling.units = given->count[OPTION_UNITS];
}

static int load_file(const arguments *given, account *a) {
    a->how.covered.unit = option_text(given, OPTION_UNIT);
    if (given->operand == NULL) return 0;
    int code = load_confirmed(given->operand, (int)given->count[OPTION_THREADS], &a->mechanism);
    if (code != 0) return code;
    dpmf_adjacency held = dpmf_mechanism_get(a->mechanism).adjacency;
    if (option_given(given, OPTION_ADJACENCY) && a->how.adjacency != held)
        return fail(EXIT_USAGE, "--adjacency %s: the FILE has %s", option_text(given, OPTION_ADJACENCY),
                    dpmf_adjacency_name(held));
    dpmf_account_options of_file = dpmf_mechanism_account_options(a->mechanism);
    if (of_file.sampling.cap > 0 &&
        ((option_given(given, OPTION_BATCH_CAP) && given->count[OPTION_BATCH_CAP] != of_file.sampling.cap) ||
         (option_given(given, OPTION_UNITS) && given->count[OPTION_UNITS] != of_file.sampling.units)))
        return fail(EXIT_USAGE,
                    "--batch-cap, --units: the FILE has a cap of %" PRId64 " on batches from %" PRId64 " units",
                    of_file.sampling.cap, of_file.sampling.units);
    if (!dpmf_sampling_is_none(&of_file.sampling) && option_given(given, OPTION_SAMPLING) &&
        !same_sampling(&of_file.sampling, &a->how.sampling))
        return fail(EXIT_USAGE, "--sampling %s: the FILE has another", option_text(given, OPTION_SAMPLING));
    if (!option_given(given, OPTION_SAMPLING)) a->how.sampling = of_file.sampling;
    if (a->how.sampling.cap == 0) put_cap(given, a);
    a->how.adjacency = held;
    a->how.sigma_unit = of_file.sigma_unit;
    a->how.strategy = of_file.strategy;
    if (!option_given(given, OPTION_GROUP)) a->how.group = of_file.group;
    a->how.covered = of_file.covered;
    code = take_unit(given, &a->how.covered);
    if (code != 0 || a->how.sampling.kind == of_file.sampling.kind) return code;
    a->how.covered.sensitivity.value = 0.0;
    a->how.sigma_unit = 0.0; /* sampling that the file does not know of: per largest column norm */
    a->how.strategy = dpmf_mechanism_get(a->mechanism).strategy;
    return 0;
}

/*
 * Where the test is a part of the mechanism its random seed is too: a user-chosen seed could be retried until the
 * result looks good. So the seed is fresh, and it is recorded.
 */
static int draw_coins(const arguments *given, account *a) {
    uint8_t coins[DPMF_KEY_SIZE];
    if (option_given(given, OPTION_SEED))
        return fail(EXIT_USAGE, "--seed and --confidence unconditional exclude each other: the randomness of the test "
                                "is fresh");
    dpmf_status status = dpmf_key_create(coins);
    if (status != DPMF_OK) return fail_status(status, NULL);
    a->how.seed = 0;
    for (int i = 0; i < 6; i++) /* 48 bits: exact in every reader of JSON */
        a->how.seed = a->how.seed << 8 | coins[i];
    return 0;
}

/*
 * The sampling for the library's reader. min-sep:P,B,warm is min-sep:P,B and sets *warm. With --largest probability the
 * probability itself need not be given: "poisson" or nothing, "block-cyclic:BANDS".
 */
static const char *sampling_text(const arguments *given, char out[64], int *warm) {
    const char *text = option_text(given, OPTION_SAMPLING), *blocks = "block-cyclic:", *end = ",warm";
    const size_t name = strlen(blocks), length = strlen(text), last = strlen(end);
    if (strncmp(text, "min-sep:", 8) == 0 && length < 64 && length > last && strcmp(text + length - last, end) == 0) {
        *warm = 1;
        snprintf(out, 64, "%.*s", (int)(length - last), text);
        return out;
    }
    if (!option_is(given, OPTION_LARGEST, "probability")) return text;
    if (!option_given(given, OPTION_SAMPLING) || strcmp(text, "poisson") == 0) return "poisson:1";
    if (strncmp(text, blocks, name) != 0 || strchr(text, ',') != NULL || strlen(text) > 40) return text;
    snprintf(out, 64, "%s1,%s", blocks, text + name);
    return out;
}

/* A name of the library's, or monte-carlo:SAMPLES. */
static int read_engine(const arguments *given, account *a) {
    static const char simulation[] = "monte-carlo:";
    const char *text = option_text(given, OPTION_ENGINE);
    char shown[SHOWN];
    const bool counted = strncmp(text, simulation, sizeof simulation - 1) == 0;
    if (counted && read_count(text + sizeof simulation - 1, &a->how.samples) && a->how.samples >= 1 &&
        a->how.samples <= 10000000000) {
        a->how.engine = DPMF_ENGINE_MONTE_CARLO;
        return 0;
    }
    if (!counted && dpmf_engine_parse(text, &a->how.engine) == DPMF_OK) return 0;
    return fail(
        EXIT_USAGE,
        "--engine %s: accepted: auto, fourier, connect-the-dots, rdp, monte-carlo, monte-carlo:SAMPLES (from 1 to "
        "1e10)",
        show(text, shown));
}

static int read_options(const arguments *given, account *a) {
    char completed[64];
    a->how = dpmf_account_options_defaults();
    const char *sampling = sampling_text(given, completed, &a->how.warm);
    dpmf_status status = dpmf_sampling_parse(sampling, &a->how.sampling);
    if (status != DPMF_OK) return fail_status(status, "--sampling");
    if (dpmf_adjacency_parse(option_text(given, OPTION_ADJACENCY), &a->how.adjacency) != DPMF_OK)
        return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    int code = read_engine(given, a);
    if (code != 0) return code;
    a->how.compositions = given->count[OPTION_COMPOSITIONS];
    a->how.epochs = given->count[OPTION_EPOCHS];
    a->how.units = given->count[OPTION_UNITS];
    a->how.group = given->count[OPTION_GROUP];
    if (option_given(given, OPTION_TOLERANCE)) a->how.slack = given->number[OPTION_TOLERANCE];
    a->how.unconditional = option_is(given, OPTION_CONFIDENCE, "unconditional");
    if (option_given(given, OPTION_CONFIDENCE) && !a->how.unconditional)
        a->how.confidence = given->number[OPTION_CONFIDENCE];
    a->how.seed = (uint64_t)given->count[OPTION_SEED];
    put_cap(given, a);
    a->how.run = run_with((int)given->count[OPTION_THREADS]);
    return a->how.unconditional ? draw_coins(given, a) : 0;
}

/* Options without effect are refused rather than ignored. */
static int check_idle(const arguments *given, const account *a) {
    const dpmf_sampling_facts *sampling = dpmf_sampling_describe(a->how.sampling.kind);
    static const option_id of_simulation[] = {OPTION_CONFIDENCE, OPTION_SEED};
    for (size_t i = 0; i < sizeof of_simulation / sizeof *of_simulation; i++)
        if (!sampling->simulated && option_given(given, of_simulation[i]))
            return fail(EXIT_USAGE, "--%s is for balls-in-bins and min-sep sampling", options[of_simulation[i]].name);
    if (a->how.samples > 0 && !sampling->simulated)
        return fail(EXIT_USAGE, "--engine monte-carlo is for balls-in-bins and min-sep sampling");
    if (given->count[OPTION_BATCH_CAP] < 0)
        return fail(EXIT_USAGE, "--batch-cap auto is for design: a number is accepted");
    if (option_given(given, OPTION_BATCH_CAP) && !option_given(given, OPTION_UNITS))
        return fail(EXIT_USAGE, "--batch-cap needs --units: the cap binds more often with more units");
    if (option_given(given, OPTION_BATCH_CAP) && dpmf_sampling_is_none(&a->how.sampling))
        return fail(EXIT_USAGE, "--batch-cap goes with --sampling poisson, block-cyclic and min-sep");
    if (option_given(given, OPTION_GAUSSIAN) && !option_given(given, OPTION_RHO))
        return fail(EXIT_USAGE, "--gaussian goes with --rho");
    static const option_id no_export[] = {OPTION_RHO, OPTION_LOG, OPTION_FIRST, OPTION_TUNING};
    for (size_t i = 0; i < sizeof no_export / sizeof *no_export; i++)
        if (option_given(given, OPTION_EXPORT) && option_given(given, no_export[i]))
            return fail(EXIT_USAGE, "--export: --%s is not accepted with it", options[no_export[i]].name);
    if (option_given(given, OPTION_GROUP) && (option_given(given, OPTION_RHO) || option_given(given, OPTION_LOG)))
        return fail(EXIT_USAGE, "--group: --rho and --log are not accepted with it");
    if (option_given(given, OPTION_RHO) &&
        (!dpmf_sampling_is_none(&a->how.sampling) || a->how.engine != DPMF_ENGINE_AUTO))
        return fail(EXIT_USAGE, "--rho: --sampling and --engine are not accepted with it");
    return 0;
}

static int find_question(const arguments *given, account *a) {
    bool sigma = option_given(given, OPTION_SIGMA);
    bool epsilon = option_given(given, OPTION_EPSILON), delta = option_given(given, OPTION_DELTA);
    bool largest = option_given(given, OPTION_LARGEST);
    a->epsilon = given->number[OPTION_EPSILON];
    a->delta = given->number[OPTION_DELTA];
    if (a->risk.target) {
        a->ask = ASK_TARGET;
        if (a->mechanism != NULL && !delta) a->delta = dpmf_mechanism_get(a->mechanism).delta;
        if (sigma || epsilon || largest || option_given(given, OPTION_RHO) || !(a->delta > 0.0))
            return fail(EXIT_USAGE, "account: --advantage and --tpr find sigma: they go with --delta, and not with "
                                    "--sigma, --epsilon, --rho and --largest");
        return 0;
    }
    if (option_given(given, OPTION_RHO)) {
        a->ask = ASK_RHO;
        if (a->risk.asked && !option_given(given, OPTION_GAUSSIAN))
            return fail(EXIT_USAGE, "--risk: with --rho it needs --gaussian");
        return !sigma && !epsilon && !largest && delta && given->operand == NULL ? 0 : refuse_set();
    }
    if (a->mechanism != NULL && !epsilon && !delta && dpmf_mechanism_get(a->mechanism).delta > 0.0) {
        a->delta = dpmf_mechanism_get(a->mechanism).delta; /* what its sigma was calibrated for */
        delta = true;
    }
    if (sigma) a->sigma = given->number[OPTION_SIGMA];
    if (a->sigma == 0.0 && a->mechanism != NULL && epsilon != delta) {
        a->sigma = dpmf_mechanism_get(a->mechanism).sigma;
        if (a->sigma == 0.0) return fail(EXIT_USAGE, "%s is not calibrated: --sigma is required", given->operand);
    }
    if (largest) {
        a->ask = option_is(given, OPTION_LARGEST, "steps") ? ASK_STEPS : ASK_PROBABILITY;
        if (a->ask == ASK_STEPS && option_given(given, OPTION_COMPOSITIONS))
            return fail(EXIT_USAGE, "--largest steps and --compositions exclude each other");
        return a->sigma > 0.0 && epsilon && delta && given->operand == NULL ? 0 : refuse_set();
    }
    a->ask = a->sigma == 0.0 ? ASK_SIGMA : delta ? ASK_EPSILON : ASK_DELTA;
    if (a->mechanism != NULL && !(a->sigma > 0.0) && epsilon + delta < 2) return check_calibrated(given, a->mechanism);
    return (a->sigma > 0.0) + epsilon + delta == 2 ? 0 : refuse_set();
}

/* Only the first steps of the FILE's run. */
static int read_first(const arguments *given, account *a) {
    static const option_id idle[] = {OPTION_SIGMA, OPTION_COMPOSITIONS, OPTION_EPOCHS, OPTION_SAMPLING, OPTION_LOG};
    if (!option_given(given, OPTION_FIRST)) return 0;
    if (a->mechanism == NULL) return fail(EXIT_USAGE, "--first: a mechanism FILE is required");
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (option_given(given, idle[i]))
            return fail(EXIT_USAGE, "--first is for the run of FILE: --%s is not accepted with it",
                        options[idle[i]].name);
    if (a->ask != ASK_EPSILON && a->ask != ASK_DELTA)
        return fail(EXIT_USAGE, "--first: give --delta or --epsilon, not both: the noise of the run is fixed");
    dpmf_account_options of_part = a->how;
    dpmf_status status =
        dpmf_mechanism_account_first(a->mechanism, given->count[OPTION_FIRST], &a->how.run, &a->sigma, &of_part);
    if (status != DPMF_OK) return fail_status(status, "--first");
    a->how.sampling = of_part.sampling;
    a->how.compositions = of_part.compositions;
    a->how.strategy = of_part.strategy;
    a->how.sigma_unit = of_part.sigma_unit;
    a->how.covered.sensitivity = of_part.covered.sensitivity;
    a->how.covered.first = of_part.covered.first;
    return 0;
}

static int read_tuning(const arguments *given, account *a) {
    if (!option_given(given, OPTION_TUNING)) return 0;
    dpmf_status status = dpmf_tuning_parse(option_text(given, OPTION_TUNING), &a->tuning);
    if (status != DPMF_OK) return fail_status(status, "--tuning");
    if (a->ask != ASK_EPSILON || a->risk.asked || option_given(given, OPTION_LOG) || option_given(given, OPTION_CURVE))
        return fail(EXIT_USAGE, "--tuning computes epsilon: sigma (or a FILE) and --delta are required, --log, --risk "
                                "and --curve are not accepted");
    return 0;
}

/* The log of a run, accepted only where the participation is not secret. */
static int read_log(const arguments *given, account *a) {
    const char *path = option_text(given, OPTION_LOG);
    if (path == NULL) return 0;
    if (a->mechanism == NULL) return fail(EXIT_USAGE, "--log: a mechanism FILE is required");
    const dpmf_sampling of_file = dpmf_mechanism_get(a->mechanism).sampling;
    if (!dpmf_sampling_is_none(&of_file) || !dpmf_sampling_is_none(&a->how.sampling))
        return fail(EXIT_USAGE, "--log: the guarantee under sampling is for batches that stay secret; a log tells "
                                "nothing about it (accepted: sampling none)");
    if (a->risk.asked) return fail(EXIT_USAGE, "--log: --risk is for all runs, and is not accepted with it");
    if (option_given(given, OPTION_COMPOSITIONS))
        return fail(EXIT_USAGE, "--log is for one run: --compositions is not accepted with it");
    if (a->ask != ASK_EPSILON && a->ask != ASK_DELTA)
        return fail(EXIT_USAGE, "--log: give --delta or --epsilon, not both: the noise of a finished run is fixed");
    a->observed.of_delta = a->ask == ASK_DELTA;
    return observed_open(path, a->mechanism, a->how.run, &a->observed);
}

static dpmf_status answer(const arguments *given, account *a) {
    double epsilon = a->epsilon, delta = a->delta;
    int64_t compositions = a->how.compositions > 0 ? a->how.compositions : 1;
    dpmf_status status;
    switch (a->ask) {
    case ASK_TARGET:
        status = risk_sigma(&a->risk, &a->how, &a->sigma);
        return status == DPMF_OK ? dpmf_account_epsilon(a->sigma, delta, &a->how, &a->found) : status;
    case ASK_EPSILON:
        return dpmf_account_epsilon(a->sigma, delta, &a->how, &a->found);
    case ASK_DELTA:
        return dpmf_account_delta(a->sigma, epsilon, &a->how, &a->found);
    case ASK_SIGMA:
        return dpmf_calibrate_sigma(epsilon, delta, &a->how, &a->found);
    case ASK_RHO:
        return dpmf_account_zcdp(given->number[OPTION_RHO], delta, option_given(given, OPTION_GAUSSIAN), compositions,
                                 &a->found);
    case ASK_STEPS:
        return dpmf_calibrate_compositions(a->sigma, epsilon, delta, &a->how, &a->most_steps, &a->found);
    default:
        return dpmf_calibrate_probability(a->sigma, epsilon, delta, &a->how, &a->most_probability, &a->found);
    }
}

/* Does the question repeat a FILE's own claim, with no option that changes it? */
static bool asks_claim(const arguments *given, const account *a) {
    static const option_id changes[] = {OPTION_SIGMA,  OPTION_COMPOSITIONS, OPTION_EPOCHS,
                                        OPTION_ENGINE, OPTION_TOLERANCE,    OPTION_BATCH_CAP,
                                        OPTION_GROUP,  OPTION_SEED,         OPTION_CONFIDENCE};
    if (a->mechanism == NULL || a->ask != ASK_EPSILON || a->how.warm || option_given(given, OPTION_FIRST)) return false;
    const dpmf_mechanism_info held = dpmf_mechanism_get(a->mechanism);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (option_given(given, changes[i])) return false;
    return held.epsilon > 0.0 && a->delta == held.delta && same_sampling(&held.sampling, &a->how.sampling);
}

/*
 * A FILE's own guarantee: people publish the claim, so the computed value, a little smaller by the slack of
 * calibration, is printed beside it. The account of load_confirmed is the only one: the smaller of two simulations would be
 * less certain than either.
 */
static dpmf_status own_guarantee(account *a) {
    const double claimed = dpmf_mechanism_get(a->mechanism).epsilon;
    dpmf_status status = dpmf_mechanism_confirm(a->mechanism, NULL, &a->found);
    if (status != DPMF_OK) return status;
    if (a->found.confidence > 0.0)
        a->recomputed_delta = a->found.delta;
    else if (a->found.epsilon <= claimed)
        a->recomputed = a->found.epsilon;
    a->found.delta = a->delta;
    a->found.epsilon = fmax(a->found.epsilon, claimed);
    return DPMF_OK;
}

static dpmf_status trace_curve(const arguments *given, account *a) {
    for (int i = 0; option_given(given, OPTION_CURVE) && i < CURVE_POINTS; i++) {
        dpmf_privacy point;
        double delta = pow(10.0, -(i + 1));
        dpmf_status status = a->ask == ASK_RHO
                                 ? dpmf_account_zcdp(a->found.rho, delta, option_given(given, OPTION_GAUSSIAN),
                                                     a->found.compositions, &point)
                                 : dpmf_account_epsilon(a->found.sigma, delta, &a->how, &point);
        if (status != DPMF_OK) return status;
        a->curve[i] = point.epsilon;
    }
    return DPMF_OK;
}

/* The whole curve into a file for other accountants. */
static dpmf_status export_curve(const arguments *given, const account *a) {
    dpmf_ledger *ledger = NULL;
    const dpmf_run run = run_with((int)given->count[OPTION_THREADS]);
    if (!option_given(given, OPTION_EXPORT)) return DPMF_OK;
    dpmf_status status = dpmf_ledger_create(a->how.adjacency, &ledger);
    if (status == DPMF_OK) status = dpmf_ledger_add_sampled(ledger, a->found.sigma, &a->how, 1);
    if (status == DPMF_OK) status = dpmf_ledger_export(ledger, option_text(given, OPTION_EXPORT), 0.0, &run);
    dpmf_ledger_free(ledger);
    return status;
}

/* rho of a Gaussian mechanism is one with sigma = 1/mu. */
static dpmf_status add_risk(account *a) {
    const double sigma = a->ask == ASK_RHO ? 1.0 / a->found.mu : a->found.sigma;
    return a->risk.asked ? risk_compute(&a->risk, sigma, a->found.delta, &a->how) : DPMF_OK;
}

static int compute(const arguments *given, account *a) {
    dpmf_status status = asks_claim(given, a) ? own_guarantee(a) : answer(given, a);
    /* The sampling that was found belongs in the statement. */
    if (status == DPMF_OK && a->ask == ASK_STEPS) a->how.compositions = a->most_steps;
    if (status == DPMF_OK && a->ask == ASK_PROBABILITY) a->how.sampling.probability = a->most_probability;
    if (status == DPMF_OK) status = trace_curve(given, a);
    if (status == DPMF_OK && option_given(given, OPTION_TUNING))
        status = dpmf_account_tuning(a->sigma, a->delta, &a->how, &a->tuning, &a->tuned);
    if (status == DPMF_OK) status = add_risk(a);
    if (status == DPMF_OK) status = export_curve(given, a);
    if (status == DPMF_OK && a->observed.asked) status = observed_account(&a->observed, a->sigma, &a->found, &a->how);
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (a->how.compositions == 0 && a->ask == ASK_RHO) a->how.compositions = a->found.compositions;
    account_statement(given, a);
    if (a->observed.asked && observed_breaks(&a->observed))
        snprintf(
            a->statement, sizeof a->statement,
            "The log breaks the participation that the design assumes: the design's guarantee of epsilon = %.4g at "
            "delta = %.4g does not hold for this run.\n",
            safe_digits(a->found.epsilon, 4, 1), safe_digits(a->found.delta, 4, 1));
    return 0;
}

int cmd_account(const arguments *given) {
    if (option_given(given, OPTION_COMPOSE) && option_given(given, OPTION_RISK))
        return fail(EXIT_USAGE, "--risk is for one run: --compose is not accepted with it");
    if (option_given(given, OPTION_COMPOSE)) return account_compose(given);
    if (option_given(given, OPTION_TIMES)) return fail(EXIT_USAGE, "--times goes with --compose");
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* until text_print */
    account a = {0};
    int code = read_options(given, &a);
    if (code == 0) code = load_file(given, &a);
    if (code == 0) code = check_idle(given, &a);
    if (code == 0) code = risk_read(given, "account", &a.risk);
    if (code == 0) code = find_question(given, &a);
    if (code == 0) code = read_first(given, &a);
    if (code == 0) code = read_tuning(given, &a);
    if (code == 0) code = read_log(given, &a);
    if (code == 0) code = compute(given, &a);
    if (code == 0) code = print_account(given, &a);
    if (code == 0 && a.observed.asked && observed_breaks(&a.observed)) code = EXIT_NEGATIVE;
    if (option_given(given, OPTION_LOG)) observed_close(&a.observed);
    if (a.mechanism != NULL) dpmf_mechanism_free(a.mechanism);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "compose.h"
#include "observed.h"
#include "options/verbs.h"
#include "problem.h"
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CURVE_POINTS = 15, STATEMENT_MAX = 4096 };

/* What is asked, and with what. */
typedef enum asked { ASK_EPSILON, ASK_DELTA, ASK_SIGMA, ASK_RHO, ASK_STEPS, ASK_PROBABILITY } asked;

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
} account;

static int refuse_set(void) {
    return fail(EXIT_USAGE,
                "account: give two of sigma (or --mu), --epsilon and --delta, or --rho and --delta, or with --largest "
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

static int load_mechanism(const arguments *given, account *a) {
    if (given->operand == NULL) return 0;
    int code = load_confirmed(given->operand, (int)given->count[OPTION_THREADS], &a->mechanism);
    if (code != 0) return code;
    dpmf_adjacency held = dpmf_mechanism_adjacency(a->mechanism);
    if (option_given(given, OPTION_ADJACENCY) && a->how.adjacency != held)
        return fail(EXIT_USAGE, "--adjacency %s: the FILE has %s", option_text(given, OPTION_ADJACENCY),
                    dpmf_adjacency_name(held));
    dpmf_account_options of_file = dpmf_mechanism_account(a->mechanism);
    if (of_file.sampling.cap > 0 &&
        ((option_given(given, OPTION_BATCH_CAP) && given->count[OPTION_BATCH_CAP] != of_file.sampling.cap) ||
         (option_given(given, OPTION_UNITS) && given->count[OPTION_UNITS] != of_file.sampling.units)))
        return fail(EXIT_USAGE, "--batch-cap, --units: the FILE has a cap of %lld on batches from %lld units",
                    (long long)of_file.sampling.cap, (long long)of_file.sampling.units);
    if (!dpmf_sampling_is_none(&of_file.sampling) && option_given(given, OPTION_SAMPLING) &&
        !same_sampling(&of_file.sampling, &a->how.sampling))
        return fail(EXIT_USAGE, "--sampling %s: the FILE has another", option_text(given, OPTION_SAMPLING));
    if (!option_given(given, OPTION_SAMPLING)) a->how.sampling = of_file.sampling;
    if (a->how.sampling.cap == 0) put_cap(given, a);
    a->how.adjacency = held;
    a->how.sigma_unit = of_file.sigma_unit;
    a->how.strategy = of_file.strategy;
    if (a->how.sampling.kind == of_file.sampling.kind) return 0;
    a->how.sigma_unit = 0.0; /* sampling that the file does not know of: per largest column norm */
    a->how.strategy = dpmf_mechanism_strategy(a->mechanism);
    return 0;
}

/*
 * Where the test is a part of the mechanism its coins are too: chosen by whoever asks, they could be chosen until the
 * answer pleases. So they are fresh, and recorded.
 */
static int draw_coins(const arguments *given, account *a) {
    uint8_t coins[DPMF_KEY_SIZE];
    if (option_given(given, OPTION_SEED))
        return fail(EXIT_USAGE, "--seed and --unconditional exclude each other: the coins of the test are fresh");
    dpmf_status status = dpmf_key_create(coins);
    if (status != DPMF_OK) return fail_status(status, NULL);
    a->how.seed = 0;
    for (int i = 0; i < 6; ++i) /* 48 bits: exact in every reader of JSON */
        a->how.seed = a->how.seed << 8 | coins[i];
    return 0;
}

static int read_options(const arguments *given, account *a) {
    const char *sampling = option_text(given, OPTION_SAMPLING);
    a->how = dpmf_account_options_defaults();
    dpmf_status status = dpmf_sampling_parse(sampling, &a->how.sampling);
    if (status != DPMF_OK) return fail_status(status, "--sampling");
    if (dpmf_adjacency_parse(option_text(given, OPTION_ADJACENCY), &a->how.adjacency) != DPMF_OK ||
        dpmf_engine_parse(option_text(given, OPTION_ENGINE), &a->how.engine) != DPMF_OK)
        return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    a->how.compositions = given->count[OPTION_COMPOSITIONS];
    a->how.epochs = given->count[OPTION_EPOCHS];
    a->how.units = given->count[OPTION_UNITS];
    a->how.slack = given->number[OPTION_SLACK];
    if (option_given(given, OPTION_CONFIDENCE)) a->how.confidence = given->number[OPTION_CONFIDENCE];
    a->how.unconditional = option_given(given, OPTION_UNCONDITIONAL);
    a->how.warm = option_given(given, OPTION_WARM);
    a->how.samples = given->count[OPTION_SAMPLES];
    a->how.seed = (uint64_t)given->count[OPTION_SEED];
    put_cap(given, a);
    a->how.run = run_with((int)given->count[OPTION_THREADS]);
    return a->how.unconditional ? draw_coins(given, a) : 0;
}

/* Options that would say nothing are refused, so that nobody believes that they were heeded. */
static int check_idle(const arguments *given, const account *a) {
    dpmf_sampling_kind kind = a->how.sampling.kind;
    bool simulated = kind == DPMF_SAMPLING_BALLS_IN_BINS || kind == DPMF_SAMPLING_MIN_SEPARATION;
    static const option_id of_simulation[] = {OPTION_CONFIDENCE, OPTION_UNCONDITIONAL, OPTION_SAMPLES, OPTION_SEED};
    for (size_t i = 0; i < sizeof of_simulation / sizeof *of_simulation; ++i)
        if (!simulated && option_given(given, of_simulation[i]))
            return fail(EXIT_USAGE, "--%s is for balls-in-bins and min-sep sampling", options[of_simulation[i]].name);
    if (given->count[OPTION_BATCH_CAP] < 0)
        return fail(EXIT_USAGE, "--batch-cap auto is for design: a number is accepted");
    if (option_given(given, OPTION_BATCH_CAP) && !option_given(given, OPTION_UNITS))
        return fail(EXIT_USAGE, "--batch-cap needs --units: the cap binds more often the more there are to draw from");
    if (option_given(given, OPTION_BATCH_CAP) && dpmf_sampling_is_none(&a->how.sampling))
        return fail(EXIT_USAGE, "--batch-cap goes with --sampling poisson, block-cyclic and min-sep");
    if (option_given(given, OPTION_WARM) && kind != DPMF_SAMPLING_MIN_SEPARATION)
        return fail(EXIT_USAGE, "--warm is for min-sep sampling");
    if (option_given(given, OPTION_GAUSSIAN) && !option_given(given, OPTION_RHO))
        return fail(EXIT_USAGE, "--gaussian goes with --rho");
    if (option_given(given, OPTION_CONFIDENCE) && option_given(given, OPTION_UNCONDITIONAL))
        return fail(EXIT_USAGE, "--confidence and --unconditional exclude each other");
    if (option_given(given, OPTION_RHO) &&
        (!dpmf_sampling_is_none(&a->how.sampling) || a->how.engine != DPMF_ENGINE_AUTO))
        return fail(EXIT_USAGE, "--rho: without --sampling and --engine only");
    return 0;
}

static int find_question(const arguments *given, account *a) {
    bool sigma = option_given(given, OPTION_SIGMA), mu = option_given(given, OPTION_MU);
    bool epsilon = option_given(given, OPTION_EPSILON), delta = option_given(given, OPTION_DELTA);
    bool largest = option_given(given, OPTION_LARGEST);
    a->epsilon = given->number[OPTION_EPSILON];
    a->delta = given->number[OPTION_DELTA];
    if (option_given(given, OPTION_RHO)) {
        a->ask = ASK_RHO;
        return !sigma && !mu && !epsilon && !largest && delta && given->operand == NULL ? 0 : refuse_set();
    }
    if (a->mechanism != NULL && !epsilon && !delta && dpmf_mechanism_delta(a->mechanism) > 0.0) {
        a->delta = dpmf_mechanism_delta(a->mechanism); /* what its sigma was calibrated for */
        delta = true;
    }
    if (sigma && mu) return fail(EXIT_USAGE, "--sigma and --mu exclude each other");
    double unit = a->how.adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2.0 : 1.0;
    if (a->how.sigma_unit > 0.0) unit /= a->how.sigma_unit;
    if (sigma) a->sigma = given->number[OPTION_SIGMA];
    if (mu) a->sigma = unit / given->number[OPTION_MU];
    if (a->sigma == 0.0 && a->mechanism != NULL && epsilon != delta) {
        a->sigma = dpmf_mechanism_sigma(a->mechanism);
        if (a->sigma == 0.0) return fail(EXIT_USAGE, "%s is not calibrated: --sigma is needed", given->operand);
    }
    if (largest) {
        a->ask = option_is(given, OPTION_LARGEST, "steps") ? ASK_STEPS : ASK_PROBABILITY;
        if (a->ask == ASK_STEPS && option_given(given, OPTION_COMPOSITIONS))
            return fail(EXIT_USAGE, "--largest steps and --compositions exclude each other");
        return a->sigma > 0.0 && epsilon && delta && given->operand == NULL ? 0 : refuse_set();
    }
    a->ask = a->sigma == 0.0 ? ASK_SIGMA : delta ? ASK_EPSILON : ASK_DELTA;
    return (a->sigma > 0.0) + epsilon + delta == 2 ? 0 : refuse_set();
}

/* The log of a run; only where nothing is secret about who takes part. */
static int read_log(const arguments *given, account *a) {
    const char *path = option_text(given, OPTION_LOG);
    if (path == NULL) return 0;
    if (a->mechanism == NULL) return fail(EXIT_USAGE, "--log: a mechanism FILE is needed");
    const dpmf_sampling of_file = dpmf_mechanism_sampling(a->mechanism);
    if (!dpmf_sampling_is_none(&of_file) || !dpmf_sampling_is_none(&a->how.sampling))
        return fail(EXIT_USAGE, "--log: the guarantee under sampling is over batches that stay secret; a log of them "
                                "says nothing about it (accepted: sampling none)");
    if (option_given(given, OPTION_COMPOSITIONS))
        return fail(EXIT_USAGE, "--log is of one run: without --compositions");
    if (a->ask != ASK_EPSILON && a->ask != ASK_DELTA)
        return fail(EXIT_USAGE,
                    "--log: give --delta or --epsilon, not both: the noise of a run that happened is fixed");
    a->observed.of_delta = a->ask == ASK_DELTA;
    return observed_open(path, a->mechanism, a->how.run, &a->observed);
}

static dpmf_status answer(const arguments *given, account *a) {
    double epsilon = a->epsilon, delta = a->delta;
    int64_t compositions = a->how.compositions > 0 ? a->how.compositions : 1;
    switch (a->ask) {
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

/* What was found of the sampling belongs into the statement. */
static void adopt_largest(account *a) {
    if (a->ask == ASK_STEPS) a->how.compositions = a->most_steps;
    if (a->ask == ASK_PROBABILITY) a->how.sampling.probability = a->most_probability;
}

static dpmf_status trace_curve(const arguments *given, account *a) {
    for (int i = 0; option_given(given, OPTION_CURVE) && i < CURVE_POINTS; ++i) {
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

static int64_t steps_of(const account *a) {
    if (a->how.compositions > 0) return a->how.compositions;
    const bool rounds =
        a->how.sampling.kind == DPMF_SAMPLING_ALLOCATION || a->how.sampling.kind == DPMF_SAMPLING_BALLS_IN_BINS;
    if (rounds && a->how.strategy == NULL) return a->how.sampling.count * (a->how.epochs > 0 ? a->how.epochs : 1);
    return a->how.strategy == NULL ? 1 : dpmf_strategy_steps(a->how.strategy);
}

static void print_json(text_buffer *t, const arguments *given, const account *a, const char *sampling) {
    const dpmf_privacy *p = &a->found;
    json_begin(t);
    json_double(t, "epsilon", p->epsilon);
    json_double(t, "delta", p->delta);
    json_known(t, "sigma", p->sigma);
    json_known(t, "mu", p->mu);
    json_known(t, "rho", p->rho);
    json_text(t, "kind", dpmf_kind_name(p->kind));
    json_known(t, "confidence", p->confidence);
    json_text(t, "method", p->method);
    json_text(t, "adjacency", dpmf_adjacency_name(a->how.adjacency));
    json_text(t, "sampling", sampling);
    json_integer(t, "compositions", steps_of(a));
    json_text(t, "statement", a->statement);
    json_known(t, "total_mu", p->total_mu);
    json_known(t, "total_rho", p->total_rho);
    json_known(t, "epsilon_without_sampling", p->without_sampling);
    json_integer(t, "accounted_compositions", p->compositions);
    json_double(t, "accounted_probability", p->probability);
    json_bool(t, "slack_met", p->slack_met != 0);
    if (a->how.unconditional) json_integer(t, "coins", (int64_t)a->how.seed);
    if (a->how.units > 0) json_bool(t, "delta_below_one_unit", p->delta * (double)a->how.units < 1.0);
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
    if (a->observed.asked) observed_json(t, &a->observed);
    json_end(t);
}

static const char *kind_of(const account *a, asked what) {
    return a->ask == what ? dpmf_kind_name(a->found.kind) : NULL;
}

static void print_table(text_buffer *t, const arguments *given, const account *a, const char *sampling) {
    const dpmf_privacy *p = &a->found;
    const char *kind = dpmf_kind_name(p->kind);
    table_double(t, "epsilon", p->epsilon, a->ask == ASK_EPSILON || a->ask == ASK_RHO ? kind : NULL);
    table_double(t, "delta", p->delta, kind_of(a, ASK_DELTA));
    if (p->sigma > 0.0) table_double(t, "sigma", p->sigma, kind_of(a, ASK_SIGMA));
    if (p->mu > 0.0) table_double(t, "mu", p->mu, NULL);
    if (p->rho > 0.0) table_double(t, "rho", p->rho, NULL);
    table_text(t, "method", p->method);
    if (p->confidence > 0.0) table_double(t, "confidence", p->confidence, NULL);
    table_text(t, "adjacency", dpmf_adjacency_name(a->how.adjacency));
    table_text(t, "sampling", sampling);
    table_integer(t, "compositions", steps_of(a));
    if (a->how.unconditional) table_integer(t, "coins of the test", (int64_t)a->how.seed);
    if (p->without_sampling > 0.0) table_double(t, "epsilon without it", p->without_sampling, "same noise and delta");
    if (a->how.units > 0 && p->delta * (double)a->how.units >= 1.0)
        table_text(t, "warning", "delta is 1/units or more: it allows a unit to be published whole; take less");
    if (!p->slack_met) table_text(t, "note", "the bound holds, but may be looser than --slack");
    if (option_given(given, OPTION_CURVE)) text_add(t, "\ndelta     epsilon\n");
    for (int i = 0; option_given(given, OPTION_CURVE) && i < CURVE_POINTS; ++i)
        text_add(t, "1e-%-7d%.9g\n", i + 1, a->curve[i]);
    if (a->observed.asked) observed_table(t, &a->observed);
    text_add(t, "\n%s", a->statement);
    if (a->observed.asked) {
        text_add(t, "\n");
        observed_statement(t, &a->observed);
        text_add(t, "\n");
    }
}

static int print_answer(const arguments *given, const account *a) {
    text_buffer t = {0};
    char sampling[64];
    if (dpmf_sampling_format(&a->how.sampling, sampling) != DPMF_OK) return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    if (option_given(given, OPTION_JSON))
        print_json(&t, given, a, sampling);
    else
        print_table(&t, given, a, sampling);
    int code = text_print(&t);
    text_free(&t);
    return code;
}

static int compute(const arguments *given, account *a) {
    dpmf_status status = answer(given, a);
    if (status == DPMF_OK) adopt_largest(a);
    if (status == DPMF_OK) status = trace_curve(given, a);
    if (status == DPMF_OK && a->observed.asked) status = observed_account(&a->observed, a->sigma, &a->found, &a->how);
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (a->how.compositions == 0 && a->ask == ASK_RHO) a->how.compositions = a->found.compositions;
    dpmf_privacy_statement(&a->found, &a->how, option_text(given, OPTION_UNIT), a->statement, sizeof a->statement);
    if (observed_breaks(&a->observed))
        snprintf(
            a->statement, sizeof a->statement,
            "The log breaks the participation that the design assumes: the design's guarantee of epsilon = %.4g at "
            "delta = %.4g does not hold for this run.\n",
            a->found.epsilon, a->found.delta);
    return 0;
}

int cmd_account(const arguments *given) {
    if (option_given(given, OPTION_COMPOSE)) return account_compose(given);
    if (option_given(given, OPTION_TIMES)) return fail(EXIT_USAGE, "--times goes with --compose");
    account a = {0};
    int code = read_options(given, &a);
    if (code == 0) code = load_mechanism(given, &a);
    if (code == 0) code = check_idle(given, &a);
    if (code == 0) code = find_question(given, &a);
    if (code == 0) code = read_log(given, &a);
    if (code == 0) code = compute(given, &a);
    if (code == 0) code = print_answer(given, &a);
    if (code == 0 && observed_breaks(&a.observed)) code = EXIT_NEGATIVE;
    observed_close(&a.observed);
    dpmf_mechanism_free(a.mechanism);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf train: what is said at the end. */
#include "train/train.h"

#include "output.h"
#include "problem.h"
#include "rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STATEMENT_MAX = 8192 };

typedef struct guarantee {
    bool known;
    dpmf_account_options how;
    dpmf_privacy found;
    char statement[STATEMENT_MAX];
} guarantee;

/* What a user adds to a round, where it is not a gradient. */
static void add_local(const training *t, guarantee *g) {
    const dpmf_trainer_options *o = &t->how;
    const size_t length = strlen(g->statement);
    char batch[64] = "all of its examples";
    if (o->local_steps == 0) return;
    if (o->local_batch > 0)
        snprintf(batch, sizeof batch, "batches of up to %lld of its examples", (long long)o->local_batch);
    snprintf(g->statement + length, sizeof g->statement - length,
             "What a user adds to a round is its update after %lld local step%s of SGD (rate %.6g, %s), clipped to the "
             "clip norm as a whole.\n",
             (long long)o->local_steps, o->local_steps == 1 ? "" : "s", o->local_rate, batch);
}

/* The fewest digits that are the number again. */
static void shortest(double value, char out[32]) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value) return;
    }
}

static void add_normalised(const training *t, guarantee *g) {
    const dpmf_trainer_options *o = &t->how;
    const size_t length = strlen(g->statement);
    char clip[32], gamma[32];
    if (o->gamma == 0) return;
    shortest(o->clip, clip);
    shortest(o->gamma, gamma);
    snprintf(
        g->statement + length, sizeof g->statement - length,
        "What one %s adds to a sum, a vector g, was normalised to %s g/(|g| + %s), which is never longer than %s: the "
        "guarantee above holds as for clipping.\n",
        t->unit, clip, gamma, clip);
}

static void add_scaled(const training *t, guarantee *g) {
    const size_t length = strlen(g->statement);
    if (t->how.precondition == 0) return;
    snprintf(
        g->statement + length, sizeof g->statement - length,
        "Gradients were scaled coordinate by coordinate before they were clipped, by second moments of what earlier "
        "steps released: noisy sums alone.\n");
}

/* epsilon of the mechanism at its own delta, or at the one given; computed here, not taken from the file. */
static int account_for(const training *t, guarantee *g) {
    const double claimed = dpmf_mechanism_get(t->mechanism).delta;
    const double delta = option_given(t->given, OPTION_DELTA) ? t->given->number[OPTION_DELTA] : claimed;
    dpmf_account_options how = dpmf_mechanism_account_options(t->mechanism);
    if (t->how.noiseless) {
        snprintf(g->statement, sizeof g->statement, "Not private: no noise was added.");
        return 0;
    }
    if (!(delta > 0.0)) {
        snprintf(g->statement, sizeof g->statement,
                 "The mechanism was made for no particular delta: add --delta D to get the guarantee in sentences.");
        return 0;
    }
    how.covered.unit = t->unit; /* that the file records, or that this run clipped for */
    how.covered.clip = t->how.clip;
    how.covered.done = dpmf_trainer_step(t->trainer);
    how.run = run_with((int)t->given->count[OPTION_THREADS]);
    g->how = how;
    dpmf_status status = own_epsilon(t->mechanism, delta, &how, &g->found);
    if (status != DPMF_OK) return fail_status(status, NULL);
    g->known = true;
    dpmf_privacy_statement(&g->found, &how, g->statement, sizeof g->statement);
    if (t->how.exact) {
        const dpmf_exact release = dpmf_trainer_exact(t->trainer);
        char plain[STATEMENT_MAX];
        memcpy(plain, g->statement, sizeof plain);
        dpmf_exact_statement(&release, plain, g->statement, sizeof g->statement);
    }
    add_local(t, g);
    add_normalised(t, g);
    add_scaled(t, g);
    const size_t length = strlen(g->statement);
    snprintf(g->statement + length, sizeof g->statement - length,
             "The numbers of examples, features and classes are taken as public.\n%s",
             option_given(t->given, OPTION_PUBLIC_TEST_CURVE)
                 ? "The curve is computed on the test data, which this guarantee does not cover.\n"
                 : "");
    return 0;
}

static const char *evaluated_on(const training *t) {
    return option_given(t->given, OPTION_HOLD_OUT) ? "hold-out" : "test";
}

/* An optimizer with a second moment, and as many bands as make `design` give the same advice. */
static bool needs_advice(const training *t) {
    enum { FEW_BANDS = 8 };
    const dpmf_optimizer kind = t->how.optimizer;
    if (t->how.noiseless || kind == DPMF_OPTIMIZER_SGD || kind == DPMF_OPTIMIZER_FTRL) return false;
    return dpmf_strategy_get(dpmf_mechanism_get(t->mechanism).strategy).bands > FEW_BANDS;
}

/* Empty: none. */
static void add_advice(const training *t, char out[STATEMENT_MAX]) {
    out[0] = '\0';
    if (needs_advice(t))
        snprintf(out, STATEMENT_MAX,
                 "With an adaptive optimizer such as %s, fewer bands can train better than the noise alone suggests "
                 "(McKenna 2024, Section 4.3): this mechanism has %lld; try --family identity, which has 1, or a FILE "
                 "that `dpmf optimize --family banded-toeplitz --bands B` made with a few.",
                 option_text(t->given, OPTION_OPTIMIZER),
                 (long long)dpmf_strategy_get(dpmf_mechanism_get(t->mechanism).strategy).bands);
}

/* NULL: not applicable. */
static void print_json(const training *t, const guarantee *g, text_buffer *out) {
    const dpmf_mechanism *m = t->mechanism;
    const bool ftrl = t->how.optimizer == DPMF_OPTIMIZER_FTRL;
    char advice[STATEMENT_MAX];
    add_advice(t, advice);
    json_begin(out);
    json_double(out, "test_accuracy", t->accuracy);
    json_double(out, "test_loss", t->loss);
    json_text(out, "evaluated_on", evaluated_on(t));
    json_known(out, "epsilon", g->known ? g->found.epsilon : 0.0);
    json_known(out, "delta", g->known ? g->found.delta : 0.0);
    if (g->known && delta_too_large(g->found.delta, t->units)) json_bool(out, "delta_below_one_unit", false);
    json_text(out, "kind", g->known ? dpmf_certainty_name(g->found.kind) : NULL);
    json_known(out, "sigma", t->how.noiseless ? 0.0 : dpmf_mechanism_get(m).sigma);
    json_text(out, "family", t->how.noiseless ? NULL : dpmf_strategy_get(dpmf_mechanism_get(m).strategy).family);
    json_text(out, "workload", dpmf_workload_get(dpmf_mechanism_get(m).workload).text);
    json_text(out, "features", option_text(t->given, OPTION_FEATURES));
    json_text(out, "model", option_text(t->given, OPTION_MODEL));
    json_integer(out, "dim", t->dim);
    json_integer(out, "examples", dpmf_dataset_count(t->train));
    json_text(out, "unit", t->unit);
    json_integer(out, "units", t->units);
    json_integer(out, "steps", t->steps);
    json_double(out, "batch", dpmf_sampler_get(t->sampler).expected);
    json_double(out, "epochs", (double)t->steps * dpmf_sampler_get(t->sampler).expected / (double)t->units);
    json_text(out, "sampler", dpmf_sampler_get(t->sampler).text);
    json_double(out, "clip", t->how.clip);
    json_known(out, "gamma", t->how.gamma);
    json_known(out, "precondition", t->how.precondition);
    json_text(out, "zero_above",
              option_is(t->given, OPTION_ZERO_ABOVE, "0") ? NULL : option_text(t->given, OPTION_ZERO_ABOVE));
    json_known(out, "local_steps", (double)t->how.local_steps);
    json_known(out, "local_rate", t->how.local_rate);
    json_known(out, "local_batch", (double)t->how.local_batch);
    json_text(out, "optimizer", option_text(t->given, OPTION_OPTIMIZER));
    json_double(out, "learning_rate", t->how.learning_rate);
    json_double(out, "momentum", t->how.momentum);
    json_text(out, "constraint", ftrl ? option_text(t->given, OPTION_CONSTRAINT) : NULL);
    json_text(out, "regularizer", ftrl ? option_text(t->given, OPTION_REGULARIZER) : NULL);
    json_text(out, "schedule", option_text(t->given, OPTION_SCHEDULE));
    json_integer(out, "resumed_at", t->resumed_at);
    json_double(out, "seconds", t->seconds);
    json_double(out, "seconds_noise", dpmf_trainer_noise_seconds(t->trainer));
    json_text(out, "release", t->how.noiseless ? NULL : t->how.exact ? "exact" : "plain");
    json_bool(out, "private", !t->how.noiseless && !option_given(t->given, OPTION_TESTING_SEED));
    json_text(out, "digest", t->how.noiseless ? NULL : dpmf_mechanism_get(m).digest);
    json_text(out, "out", t->given->text[OPTION_OUT]);
    json_text(out, "test_curve", t->given->text[OPTION_PUBLIC_TEST_CURVE]);
    json_text(out, "advice", advice[0] != '\0' ? advice : NULL);
    json_text(out, "statement", g->statement);
    if (g->known)
        json_protected(out, &g->how);
    else
        json_null(out, "protected");
    json_end(out);
}

static void print_table(const training *t, const guarantee *g, text_buffer *out) {
    char advice[STATEMENT_MAX];
    if (!option_is(t->given, OPTION_FEATURES, "none"))
        table_text(out, "features", option_text(t->given, OPTION_FEATURES));
    table_text(out, "model", option_text(t->given, OPTION_MODEL));
    table_integer(out, "weights", t->dim);
    table_text(out, "sampler", dpmf_sampler_get(t->sampler).text);
    table_integer(out, "steps", t->steps);
    table_double(out, "batch", dpmf_sampler_get(t->sampler).expected, "expected");
    if (t->how.local_steps > 0) {
        table_integer(out, "local steps", t->how.local_steps);
        table_double(out, "local rate", t->how.local_rate, NULL);
    }
    if (t->how.local_batch > 0) table_integer(out, "local batch", t->how.local_batch);
    table_text(out, "optimizer", option_text(t->given, OPTION_OPTIMIZER));
    if (t->how.constraint != DPMF_WEIGHTS_FREE)
        table_text(out, "  constraint", option_text(t->given, OPTION_CONSTRAINT));
    if (t->how.regularizer != DPMF_REGULARIZER_SQUARED)
        table_text(out, "  regularizer", option_text(t->given, OPTION_REGULARIZER));
    table_text(out, "schedule", option_text(t->given, OPTION_SCHEDULE));
    if (!t->how.noiseless) {
        table_text(out, "family", dpmf_strategy_get(dpmf_mechanism_get(t->mechanism).strategy).family);
        table_upper(out, "sigma", dpmf_mechanism_get(t->mechanism).sigma, NULL);
    }
    if (g->known) {
        table_upper(out, "epsilon", g->found.epsilon, dpmf_certainty_name(g->found.kind));
        table_upper(out, "delta", g->found.delta, NULL);
        if (delta_too_large(g->found.delta, t->units)) table_text(out, "warning", DELTA_TOO_LARGE);
    }
    table_double(out, "accuracy", t->accuracy, evaluated_on(t));
    table_double(out, "loss", t->loss, evaluated_on(t));
    table_double(out, "seconds", t->seconds, NULL);
    add_words(out, terminal_alphabet(), "\n%s\n", g->statement);
    add_advice(t, advice);
    if (advice[0] != '\0') text_add(out, "%s\n", advice);
}

int training_print(const training *t) {
    text_buffer out = {0};
    guarantee g = {0};
    int code = account_for(t, &g);
    if (code != 0) return code;
    if (option_given(t->given, OPTION_JSON))
        print_json(t, &g, &out);
    else
        print_table(t, &g, &out);
    code = text_print(&out);
    text_free(&out);
    return code;
}

/* ---- the curve ---- */

/*
 * dpmf train --public-test-curve: loss and accuracy now and then during the run, as CSV.
 *
 * They are computed on the test data alone. On the training data they would tell of each example, exactly, and no noise
 * hides that: there is no option for it. Of the training data the numbers say no more than the models along the way do,
 * which the guarantee covers together. The guarantee does not cover the test data, and many exact figures reveal individual
 * test examples: the name of the option declares that the test data are public.
 *
 * The file is written whole, with every checkpoint and at the end. A run that goes on keeps the rows up to its checkpoint;
 * those after it are computed again, and are the same.
 */

static const char HEAD[] = "step,loss,accuracy\n";
enum { POINTS = 50, LINE_MOST = 200 };

static bool is_same_file(const char *one, const char *other) {
    struct stat a, b;
    return one != NULL && other != NULL && stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

int curve_check(const arguments *given) {
    if (option_given(given, OPTION_PUBLIC_TEST_CURVE) &&
        is_same_file(given->text[OPTION_DATA], given->text[OPTION_TEST_DATA]))
        return fail(EXIT_USAGE, "--public-test-curve: --test-data is the training file, and a curve on training data "
                                "is not private");
    return 0;
}

/* One of several processes writes for all. */
static bool is_mine(const training *t) {
    return option_given(t->given, OPTION_PUBLIC_TEST_CURVE) &&
           (training_together == NULL || training_together->part == 0);
}

/* The rows of an earlier part of this run, up to its checkpoint. */
int curve_open(training *t) {
    const char *path = t->given->text[OPTION_PUBLIC_TEST_CURVE];
    char line[LINE_MOST], shown[SHOWN];
    if (!is_mine(t)) return 0;
    text_add(&t->curve, "%s", HEAD);
    FILE *file = t->resumed_at > 0 ? fopen(path, "r") : NULL;
    if (file == NULL) return 0; /* none was kept, or none is needed */
    bool good = fgets(line, sizeof line, file) != NULL && strcmp(line, HEAD) == 0;
    while (good && fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        errno = 0;
        const long long step = strtoll(line, &end, 10);
        good = errno == 0 && step > 0 && *end == ',' && strchr(line, '\n') != NULL;
        if (good && step <= t->resumed_at) text_add(&t->curve, "%s", line);
    }
    fclose(file);
    return good ? 0
                : fail(EXIT_UNABLE,
                       "--public-test-curve %s: not the curve of this run, which goes on: name another file",
                       show(path, shown));
}

int curve_point(training *t) {
    const int64_t step = dpmf_trainer_step(t->trainer);
    const int64_t every = t->steps > POINTS ? t->steps / POINTS : 1;
    double accuracy = 0.0, loss = 0.0;
    if (!is_mine(t) || (step % every != 0 && step != t->steps)) return 0;
    dpmf_status status = dpmf_trainer_evaluate(t->trainer, t->test, &accuracy, &loss);
    if (status != DPMF_OK) return fail_status(status, "--public-test-curve");
    text_add(&t->curve, "%lld,%.10g,%.10g\n", (long long)step, loss, accuracy);
    return 0;
}

int curve_write(const training *t) {
    row_output out;
    if (!is_mine(t) || t->curve.length == 0) return 0;
    if (t->curve.failed) return fail_memory();
    int code = rows_open(t->given->text[OPTION_PUBLIC_TEST_CURVE], false, &out);
    if (code == 0) code = rows_write(&out, t->curve.bytes, t->curve.length);
    if (code == 0) code = rows_finish(&out);
    rows_close(&out);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf train: private training of a small model, from data to accuracy. */
#include "ledger.h"
#include "options/verbs.h"
#include "output.h"
#include "train/train.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const training_team *training_together = NULL;

/* Where several processes train together, a failure of one ends all of them. */
static int all(int code) {
    return training_together != NULL ? training_together->all(code) : code;
}

static int check_usage(const arguments *given) {
    const bool key = option_given(given, OPTION_KEY_FILE), seed = option_given(given, OPTION_TESTING_SEED);
    if (key && seed) return fail(EXIT_USAGE, "--key-file and --testing-seed: only one of them gives the key");
    if (option_given(given, OPTION_CHECKPOINT) && !key && !seed)
        return fail(EXIT_USAGE,
                    "--checkpoint needs --key-file: without it the key is fresh, and nothing can be resumed");
    if (option_given(given, OPTION_STATE) && !option_is(given, OPTION_STATE, "none") && !key && !seed)
        return fail(EXIT_USAGE, "--state needs --key-file: without it the key is fresh, and nothing can be resumed");
    if (option_given(given, OPTION_EVERY) && !option_given(given, OPTION_CHECKPOINT))
        return fail(EXIT_USAGE, "--every needs --checkpoint FILE");
    if (option_given(given, OPTION_LEDGER) && option_given(given, OPTION_NOISELESS))
        return fail(EXIT_USAGE,
                    "--ledger and --noiseless exclude each other: without noise there is nothing to account for");
    const bool ftrl = option_is(given, OPTION_OPTIMIZER, "ftrl");
    if ((option_is(given, OPTION_OPTIMIZER, "adam") || option_is(given, OPTION_OPTIMIZER, "adagrad")) &&
        option_given(given, OPTION_MOMENTUM))
        return fail(EXIT_USAGE, "--momentum belongs to --optimizer sgd, rmsprop and ftrl");
    const bool adam = option_is(given, OPTION_OPTIMIZER, "adam");
    if (option_given(given, OPTION_CORRECT) && (!adam || option_given(given, OPTION_NOISELESS)))
        return fail(EXIT_USAGE, "--correct needs --optimizer adam, and noise");
    if (option_given(given, OPTION_PRECONDITION) && option_given(given, OPTION_CORRECT))
        return fail(EXIT_USAGE, "--precondition and --correct: one of them is accepted");
    if (option_given(given, OPTION_PRECONDITION) && !adam && !option_is(given, OPTION_OPTIMIZER, "adagrad") &&
        !option_is(given, OPTION_OPTIMIZER, "rmsprop"))
        return fail(EXIT_USAGE, "--precondition needs --optimizer adam, adagrad or rmsprop: sgd and ftrl have no "
                                "second moments");
    if (option_given(given, OPTION_PRECONDITION) && option_given(given, OPTION_LOCAL_STEPS))
        return fail(EXIT_USAGE, "--precondition and --local-steps: one of them is accepted");
    if (ftrl && option_given(given, OPTION_DECAY))
        return fail(EXIT_USAGE, "--decay: ftrl has --regularizer in its place");
    static const option_id leader[] = {OPTION_CONSTRAINT, OPTION_REGULARIZER};
    for (size_t i = 0; i < sizeof leader / sizeof *leader; ++i)
        if (option_given(given, leader[i]) && !ftrl)
            return fail(EXIT_USAGE, "--%s needs --optimizer ftrl", options[leader[i]].name);
    static const option_id local[] = {OPTION_LOCAL_RATE, OPTION_LOCAL_BATCH};
    for (size_t i = 0; i < sizeof local / sizeof *local; ++i)
        if (option_given(given, local[i]) && !option_given(given, OPTION_LOCAL_STEPS))
            return fail(EXIT_USAGE, "--%s needs --local-steps L", options[local[i]].name);
    if (option_given(given, OPTION_LOCAL_STEPS) && !option_given(given, OPTION_LOCAL_RATE))
        return fail(EXIT_USAGE, "--local-steps needs --local-rate R");
    return curve_check(given);
}

/* norm, auto, or auto:GAMMA: the default is that of Bu et al. 2023. */
static int read_clipping(training *t) {
    const char *text = option_text(t->given, OPTION_CLIPPING);
    char shown[SHOWN];
    t->how.gamma = 0;
    if (strcmp(text, "norm") == 0) return 0;
    t->how.gamma = 0.01;
    if (strcmp(text, "auto") == 0) return 0;
    if (strncmp(text, "auto:", 5) == 0 && read_number(text + 5, &t->how.gamma) && t->how.gamma >= 0x1p-100 &&
        t->how.gamma <= 0x1p100)
        return 0;
    return fail(EXIT_USAGE, "--clipping %s: norm, auto, or auto: and a number from 2^-100 to 2^100 is accepted",
                show(text, shown));
}

/* X, or max:X. */
static int read_zero_above(training *t) {
    const char *text = option_text(t->given, OPTION_ZERO_ABOVE);
    char shown[SHOWN];
    t->how.zero_largest = strncmp(text, "max:", 4) == 0;
    if (read_number(text + (t->how.zero_largest ? 4 : 0), &t->how.zero_above) && t->how.zero_above <= 1e300 &&
        (t->how.zero_largest ? t->how.zero_above > 0.0 : t->how.zero_above >= 0.0))
        return 0;
    return fail(EXIT_USAGE, "--zero-above %s: a number from 0 to 1e300 is accepted, or max: and one above 0",
                show(text, shown));
}

static dpmf_optimizer optimizer_of(const arguments *given) {
    static const char *const names[] = {"sgd", "adam", "adagrad", "rmsprop", "ftrl"};
    int found = 0;
    for (int i = 0; i < 5; i++)
        if (option_is(given, OPTION_OPTIMIZER, names[i])) found = i;
    return (dpmf_optimizer)found;
}

/* NAME, or NAME:X with a number above 0; *x keeps what it is without one. */
static bool is_named(const char *text, const char *name, double *x) {
    const size_t length = strlen(name);
    double value = 0.0;
    if (strncmp(text, name, length) != 0) return false;
    if (text[length] == '\0') return *x > 0.0;
    if (text[length] != ':' || !read_number(text + length + 1, &value) || !(value > 0.0) || !(value <= 1e12))
        return false;
    *x = value;
    return true;
}

/* The set and the regularizer of ftrl. */
static int read_leader(training *t) {
    static const char *const sets[] = {"none", "ball", "box", "simplex"};
    dpmf_trainer_options *o = &t->how;
    const char *set = option_text(t->given, OPTION_CONSTRAINT);
    const char *regularizer = option_text(t->given, OPTION_REGULARIZER);
    char shown[SHOWN];
    int found = strcmp(set, sets[0]) == 0 ? 0 : -1;
    for (int i = 1; i < 4 && found < 0; i++) {
        o->radius = strcmp(sets[i], "simplex") == 0 ? 1.0 : 0.0;
        if (is_named(set, sets[i], &o->radius)) found = i;
    }
    if (found < 0)
        return fail(
            EXIT_USAGE,
            "--constraint %s: none, ball:R, box:R, simplex and simplex:R are accepted, R above 0 and up to 1e12",
            show(set, shown));
    o->constraint = (dpmf_weight_set)found;
    if (strcmp(regularizer, "l2") == 0) return 0;
    if (strcmp(regularizer, "entropy") == 0)
        o->regularizer = DPMF_REGULARIZER_ENTROPY;
    else if (is_named(regularizer, "l1", &o->l1))
        o->regularizer = DPMF_REGULARIZER_L1;
    else
        return fail(EXIT_USAGE,
                    "--regularizer %s: l2, l1:LAMBDA and entropy are accepted, LAMBDA above 0 and up to 1e12",
                    show(regularizer, shown));
    if (o->regularizer == DPMF_REGULARIZER_ENTROPY && o->constraint != DPMF_WEIGHTS_SIMPLEX)
        return fail(EXIT_USAGE, "--regularizer entropy needs --constraint simplex");
    if (o->regularizer == DPMF_REGULARIZER_L1 && o->constraint == DPMF_WEIGHTS_SIMPLEX)
        return fail(EXIT_USAGE, "--regularizer l1 with --constraint simplex, where the l1 norm is constant: none, ball "
                                "and box are accepted");
    return 0;
}

/*
 * A run of another number of processes has state files with other names, which this run would not open: it would draw the same
 * secret batches from the same key. `state` is the name without the number of the process; parts 0: a process alone.
 */
static int check_siblings(const char *state, int64_t parts) {
    const char *slash = strrchr(state, '/'), *name = slash != NULL ? slash + 1 : state;
    const size_t length = strlen(name);
    char directory[TRAINING_PATH], shown[SHOWN];
    int code = 0;
    snprintf(directory, sizeof directory, "%.*s", slash != NULL ? (int)(slash - state + 1) : 1,
             slash != NULL ? state : ".");
    DIR *opened = opendir(directory);
    for (const struct dirent *entry; opened != NULL && code == 0 && (entry = readdir(opened)) != NULL;) {
        long long part = 0, of = 0;
        int used = 0;
        if (strncmp(entry->d_name, name, length) != 0) continue;
        const char *rest = entry->d_name + length;
        const bool several = sscanf(rest, ".%lld-of-%lld%n", &part, &of, &used) == 2 && rest[used] == '\0';
        if ((several && of != parts) || (*rest == '\0' && parts > 0))
            code = fail(EXIT_USAGE,
                        "the state file %s belongs to a run of another number of processes with this key: another run "
                        "needs its own --key-file",
                        show(entry->d_name, shown));
    }
    if (opened != NULL) closedir(opened);
    return code;
}

/* The state file: the given one, or the one beside the key file; one for each of several processes. */
static int find_state(training *t) {
    const arguments *given = t->given;
    const char *path = given->text[OPTION_STATE], *key = given->text[OPTION_KEY_FILE];
    int length = 0;
    if (option_given(given, OPTION_NOISELESS) || option_is(given, OPTION_STATE, "none")) return 0;
    if (path != NULL) length = snprintf(t->state, sizeof t->state, "%s", path);
    if (path == NULL && key != NULL) length = snprintf(t->state, sizeof t->state, "%s.state", key);
    if (length > 0 && length < TRAINING_PATH && (training_together == NULL || training_together->part == 0)) {
        int code = check_siblings(t->state, training_together != NULL ? training_together->parts : 0);
        if (code != 0) return code; /* one process looks for all */
    }
    if (length > 0 && length < TRAINING_PATH && training_together != NULL)
        length += snprintf(t->state + length, sizeof t->state - (size_t)length, ".%" PRId64 "-of-%" PRId64,
                           training_together->part, training_together->parts);
    return length < TRAINING_PATH ? 0 : fail(EXIT_USAGE, "--state: the name is too long");
}

static int read_options(training *t) {
    const arguments *given = t->given;
    dpmf_trainer_options *o = &t->how;
    *o = dpmf_trainer_options_defaults();
    o->hidden = t->hidden;
    o->noiseless = option_given(given, OPTION_NOISELESS);
    o->exact = option_is(given, OPTION_RELEASE, "exact");
    int code = read_clipping(t);
    if (code != 0) return code;
    const bool without = o->noiseless && !option_given(given, OPTION_CLIP) && o->gamma == 0;
    o->clip = without ? INFINITY : given->number[OPTION_CLIP];
    o->local_steps = given->count[OPTION_LOCAL_STEPS];
    o->local_rate = given->number[OPTION_LOCAL_RATE];
    o->local_batch = given->count[OPTION_LOCAL_BATCH];
    o->by_unit = training_by_user(t);
    o->optimizer = optimizer_of(given);
    o->precondition = option_given(given, OPTION_PRECONDITION) ? given->number[OPTION_PRECONDITION] : 0.0;
    o->correct = option_given(given, OPTION_CORRECT);
    o->learning_rate = given->number[OPTION_LEARNING_RATE];
    o->momentum = given->number[OPTION_MOMENTUM];
    o->decay = given->number[OPTION_DECAY];
    o->schedule = t->schedule;
    o->seed = (uint64_t)given->count[OPTION_SEED];
    o->run = run_with((int)given->count[OPTION_THREADS]);
    o->state = t->state[0] != '\0' ? t->state : NULL;
    if (training_together != NULL) {
        o->part = training_together->part;
        o->parts = training_together->parts;
        o->reduce = training_together->reduce;
    }
    o->state_now = o->state != NULL && option_given(given, OPTION_LEDGER);
    code = read_leader(t);
    return code != 0 ? code : read_zero_above(t);
}

/* An existing checkpoint is continued; one of another run is refused. */
static int resume(training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    if (path == NULL || (access(path, F_OK) != 0 && errno == ENOENT)) return 0;
    dpmf_status status = dpmf_trainer_load(t->trainer, path);
    if (status != DPMF_OK) return fail_status(status, NULL);
    t->resumed_at = dpmf_trainer_step(t->trainer);
    return 0;
}

/* The run by its state file: begun before, complete, or lost. */
static int check_begun(training *t) {
    const char *checkpoint = t->given->text[OPTION_CHECKPOINT], *out = t->given->text[OPTION_OUT];
    const int64_t begun = dpmf_trainer_begun(t->trainer), step = dpmf_trainer_step(t->trainer);
    if (checkpoint == NULL && begun > 0)
        return fail(EXIT_UNABLE,
                    "this run was started before: the noise of %" PRId64 " of its %" PRId64
                    " steps has been used, and without "
                    "--checkpoint it cannot be resumed; a new run needs a new --key-file",
                    begun, t->steps);
    if (step == t->steps && (out == NULL || access(out, F_OK) == 0))
        return fail(EXIT_UNABLE,
                    "this run is complete: all of its %" PRId64 " steps were taken, and no step is repeated", t->steps);
    t->begun_before = begun;
    return 0;
}

/* A state file of another run cannot name the difference; a checkpoint can. */
static int explain_another(training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    dpmf_trainer_options without = t->how;
    char said[600];
    snprintf(said, sizeof said, "%s; a key file serves one run: another needs its own --key-file", dpmf_last_error());
    without.state = NULL;
    without.state_now = 0;
    if (path != NULL && access(path, F_OK) == 0 && training_together == NULL &&
        dpmf_trainer_create(t->train, t->mechanism, t->sampler, t->key, &without, &t->trainer) == DPMF_OK) {
        dpmf_status status = dpmf_trainer_load(t->trainer, path);
        const bool named = strstr(dpmf_last_error(), "belongs to another run") != NULL;
        if (status != DPMF_OK && (named || status != DPMF_ERROR_ARGUMENT)) return fail_status(status, NULL);
    }
    return fail(EXIT_USAGE, "%s", said);
}

static int open_trainer(training *t) {
    dpmf_status status = dpmf_trainer_create(t->train, t->mechanism, t->sampler, t->key, &t->how, &t->trainer);
    if (status == DPMF_ERROR_ARGUMENT && t->how.state != NULL && access(t->how.state, F_OK) == 0)
        return explain_another(t);
    if (status != DPMF_OK) return fail_status(status, NULL);
    /* Test data that do not fit should be found now rather than after the last step. */
    status = dpmf_trainer_evaluate(t->trainer, t->test, NULL, NULL);
    return status == DPMF_OK ? 0 : fail_status(DPMF_ERROR_FORMAT, NULL);
}

/* Part 0 opens its state file first: all parts have its salt. */
static int open_all(training *t) {
    const training_team *team = training_together;
    if (team == NULL) return open_trainer(t);
    int code = all(team->part == 0 ? open_trainer(t) : 0);
    if (code != 0) return code;
    dpmf_trainer_salt(t->trainer, t->salt);
    team->salt(t);
    t->how.salt = t->salt;
    return all(team->part != 0 ? open_trainer(t) : 0);
}

/* What distinguishes two runs with one key and mechanism is what their noise is bound to, the contents of the data included. */
static int enter_ledger(training *t) {
    text_buffer binding = {0};
    if (!option_given(t->given, OPTION_LEDGER)) return 0;
    if (training_together != NULL && training_together->part != 0) return 0; /* one process enters for all */
    dpmf_trainer_salt(t->trainer, t->salt);
    text_add(&binding, "train %s %" PRId64, dpmf_sampler_get(t->sampler).text, t->units);
    text_add(&binding, "\n%s", dpmf_trainer_digest(t->trainer));
    int code = binding.failed ? fail_memory() : ledger_enter(t->given, t->mechanism, t->key, t->salt, binding.bytes);
    text_free(&binding);
    return code;
}

static int prepare_training(training *t) {
    const training_team *team = training_together;
    /* Nothing has been written yet. Several processes stop together at their next exchange. */
    int code = team == NULL && !end_at_once(NULL) ? fail(EXIT_CANCELLED, "cancelled") : training_unit(t);
    if (code == 0 && option_given(t->given, OPTION_LOCAL_STEPS) && !training_by_user(t))
        code = fail(EXIT_USAGE, "--local-steps needs --unit user, or a FILE for users: users train locally");
    if (code == 0) code = training_data(t);
    end_later();
    code = all(code);
    if (code == 0) code = team != NULL ? team->mechanism(t) : training_mechanism(t);
    if (code != 0) return code;
    code = all(find_state(t));
    if (code != 0) return code;
    code = all(read_options(t));
    if (code != 0) return code;
    dpmf_status status = team != NULL ? DPMF_OK : key_from_options(t->given, t->key);
    code = status == DPMF_OK ? 0 : fail_status(status, NULL);
    if (team != NULL) code = team->key(t);
    if (code == 0) code = all(training_sampler(t));
    if (code == 0 && team != NULL) code = team->agree(t);
    if (code == 0) code = open_all(t);
    if (code != 0) return code;
    code = team != NULL ? team->resume(t) : resume(t);
    if (code == 0) code = all(check_begun(t));
    if (code == 0) code = all(curve_open(t));
    if (code == 0) code = all(enter_ledger(t));
    dpmf_key_wipe(t->key);
    return code;
}

static int save_checkpoint(training *t) {
    const char *path = t->given->text[OPTION_CHECKPOINT];
    if (path == NULL) return 0;
    if (training_together != NULL) return training_together->save(t);
    dpmf_status status = dpmf_trainer_save(t->trainer, path);
    return status == DPMF_OK ? 0 : fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_NUMERICAL : status, NULL);
}

/* Writes the curve first: one that is ahead of its checkpoint is cut back, one that is behind would have a gap. */
static int save_progress(training *t) {
    int code = t->given->text[OPTION_CHECKPOINT] != NULL ? all(curve_write(t)) : 0;
    return code == 0 ? save_checkpoint(t) : code;
}

/* A run that is stopped keeps its results so far. */
static int run_steps(training *t) {
    const int64_t every = t->given->count[OPTION_EVERY], begun = dpmf_trainer_step(t->trainer);
    dpmf_status status = DPMF_OK;
    int code = 0;
    while (status == DPMF_OK && code == 0 && dpmf_trainer_step(t->trainer) < t->steps) {
        status = dpmf_trainer_next(t->trainer);
        if (training_together != NULL) status = training_together->step(status);
        if (status == DPMF_OK && option_given(t->given, OPTION_PUBLIC_TEST_CURVE)) {
            const double evaluated = seconds_now();
            code = all(curve_point(t));
            t->seconds -= seconds_now() - evaluated; /* not the time of training */
        }
        if (status == DPMF_OK && code == 0 && dpmf_trainer_step(t->trainer) % every == 0) code = save_progress(t);
    }
    if (status == DPMF_ERROR_CANCELLED) code = save_progress(t);
    if (status == DPMF_OK && code == 0 && begun < t->steps && t->steps % every != 0) code = save_progress(t);
    progress_clear();
    if (code != 0) return code;
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_NUMERICAL; /* the command is not at fault */
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

static int write_weights(const training *t) {
    dpmf_array weights = {.dimensions = 1, .shape = {t->dim, 1}};
    const float *from = dpmf_trainer_weights(t->trainer);
    if (!option_given(t->given, OPTION_OUT)) return 0;
    weights.values = allocate(t->dim, sizeof(double));
    if (weights.values == NULL) return fail_memory();
    for (int64_t i = 0; i < t->dim; i++)
        weights.values[i] = (double)from[i];
    dpmf_status status = dpmf_array_save(t->given->text[OPTION_OUT], &weights);
    free(weights.values);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

static int train(training *t) {
    int code = prepare_training(t);
    if (code != 0) return code;
    const double begun = seconds_now();
    code = run_steps(t);
    t->seconds += seconds_now() - begun;
    if (code == 0 && training_together != NULL) code = training_together->finish(t);
    if (code != 0) return code;
    if (training_together != NULL && training_together->part != 0) return 0; /* one process prints for all */
    dpmf_status status = dpmf_trainer_evaluate(t->trainer, t->test, &t->accuracy, &t->loss);
    if (status != DPMF_OK) return fail_status(status, NULL);
    code = write_weights(t);
    if (code == 0 && t->resumed_at < t->steps) code = curve_write(t); /* else it was written before */
    if (code == 0) code = training_print(t);
    if (code != 0) return code;
    if (t->resumed_at > 0 && t->resumed_at < t->steps)
        fail(0, "resumed at step %" PRId64 " of %" PRId64, t->resumed_at, t->steps);
    if (t->resumed_at == t->steps) fail(0, "this run was complete: no step was taken, and this is its model");
    if (t->resumed_at == 0 && t->begun_before > 0)
        fail(0,
             "this run was started before and had no checkpoint: its first %" PRId64
             " steps were repeated, with the same sums",
             t->begun_before < t->steps ? t->begun_before : t->steps);
    if (t->how.noiseless) fail(0, "not private: no noise was added");
    if (!t->how.noiseless && option_given(t->given, OPTION_TESTING_SEED))
        fail(0, "not private: anybody can compute the key of a testing seed");
    return 0;
}

int cmd_train(const arguments *given) {
    training t = {.given = given};
    int code = check_usage(given);
    if (code == 0) code = ledger_check(given);
    if (code == 0) code = train(&t);
    dpmf_key_wipe(t.key);
    dpmf_trainer_free(t.trainer);
    dpmf_sampler_free(t.sampler);
    dpmf_design_free(t.design);
    dpmf_mechanism_free(t.own);
    dpmf_workload_free(t.workload);
    dpmf_dataset_free(t.train);
    dpmf_dataset_free(t.test);
    free(t.schedule);
    text_free(&t.curve);
    return code;
}

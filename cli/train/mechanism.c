/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf train: how many steps of how many examples, for which workload, with which mechanism, drawn how.
 *
 * A fixed order of M units at a time has epochs of b = ceil(units/M) steps; steps, batch and epochs are then tied by
 * b = ceil(steps/epochs), which is the separation that a designed mechanism assumes. Under sampling only the expected
 * batch units x epochs/steps counts.
 */
#include "train/train.h"

#include "output.h"
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_ROOM = 1024 };

static int64_t ceil_divide(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static bool sampled(const training *t) {
    return !option_is(t->given, OPTION_SAMPLING, "none");
}

/* ---- the plan ---- */

/* A fixed order: the three numbers must belong to one another. */
static int plan_order(training *t, bool steps, bool batch, bool epochs) {
    if (!batch) t->batch = ceil_divide(t->units, ceil_divide(t->steps, t->epochs));
    t->epoch = ceil_divide(t->units, t->batch);
    if (!steps) t->steps = t->epoch * t->epochs;
    if (!epochs) t->epochs = ceil_divide(t->steps, t->epoch);
    if (ceil_divide(t->steps, t->epochs) == t->epoch) return 0;
    if (!batch)
        return fail(EXIT_USAGE,
                    "--steps %lld --epochs %lld: %lld units do not divide into epochs of %lld batches; give --batch "
                    "instead of --steps",
                    (long long)t->steps, (long long)t->epochs, (long long)t->units,
                    (long long)ceil_divide(t->steps, t->epochs));
    return fail(EXIT_USAGE, "--steps %lld --batch %lld: an epoch has %lld steps, and a multiple of that is accepted",
                (long long)t->steps, (long long)t->batch, (long long)t->epoch);
}

/* Sampling: whole epochs, since that is what a design takes; the expected batch may move by a hundredth for it. */
static int plan_sampling(training *t, bool steps, bool batch, bool epochs) {
    const double units = (double)t->units;
    if (!steps) t->steps = (int64_t)llround(units * (double)t->epochs / (double)t->batch);
    if (!epochs) t->epochs = (int64_t)llround((double)t->batch * (double)t->steps / units);
    if (t->steps < 1) t->steps = 1;
    const double expected = units * (double)t->epochs / (double)t->steps;
    if (batch && !(fabs(expected - (double)t->batch) <= 0.01 * (double)t->batch))
        return fail(
            EXIT_USAGE,
            "--steps %lld --batch %lld are %.4g epochs of %lld units: a whole number is accepted under sampling",
            (long long)t->steps, (long long)t->batch, (double)t->batch * (double)t->steps / units, (long long)t->units);
    t->batch = (int64_t)llround(expected);
    t->epoch = ceil_divide(t->steps, t->epochs);
    if (option_is(t->given, OPTION_SAMPLING, "allocation") && t->epoch * t->epochs != t->steps)
        return fail(
            EXIT_USAGE,
            "--sampling allocation: %lld steps are not %lld whole epochs, in each of which every unit is used once",
            (long long)t->steps, (long long)t->epochs);
    return 0;
}

int training_plan(training *t) {
    const arguments *given = t->given;
    const bool steps = option_given(given, OPTION_STEPS), batch = option_given(given, OPTION_BATCH);
    const bool epochs = option_given(given, OPTION_EPOCHS);
    t->steps = given->count[OPTION_STEPS];
    t->batch = given->count[OPTION_BATCH];
    t->epochs = given->count[OPTION_EPOCHS];
    if (batch && t->batch > t->units)
        return fail(EXIT_USAGE, "--batch %lld: at most the %lld %s are accepted", (long long)t->batch,
                    (long long)t->units, training_by_user(t) ? "users" : "training examples");
    if (given->operand != NULL) return 0;
    if (steps + batch + epochs != 2) return fail(EXIT_USAGE, "train needs two of --steps N, --batch M and --epochs K");
    if (steps && epochs && t->epochs > t->steps)
        return fail(EXIT_USAGE, "--epochs %lld: at most the %lld steps are accepted", (long long)t->epochs,
                    (long long)t->steps);
    return sampled(t) ? plan_sampling(t, steps, batch, epochs) : plan_order(t, steps, batch, epochs);
}

/* ---- the workload and the schedule ---- */

/* Is every part of it a factor of the learning rate, and nothing else of a workload? */
static bool is_schedule(const char *text) {
    for (;; ++text) {
        const char *list = option_values(&options[OPTION_SCHEDULE], VERB_TRAIN), *word;
        bool known = false;
        for (int length; (word = next_word(&list, &length)) != NULL;) {
            const size_t name = strcspn(word, ":") + 1;
            if (strncmp(text, word, name) == 0) known = true;
        }
        if (!known) return false;
        text += strcspn(text, ",");
        if (*text == '\0') return true;
    }
}

/* The schedule as numbers: 1 / Q[t,t] of the workload that has nothing else in it. */
static int read_schedule(training *t) {
    const char *text = t->given->text[OPTION_SCHEDULE];
    dpmf_workload *alone = NULL;
    char shown[SHOWN];
    if (text == NULL) return 0;
    if (!is_schedule(text))
        return fail(EXIT_USAGE, "--schedule %s: %s, joined by commas, are accepted", show(text, shown),
                    option_values(&options[OPTION_SCHEDULE], VERB_TRAIN));
    dpmf_status status = dpmf_workload_parse(text, t->steps, &alone);
    if (status != DPMF_OK) return fail_status(status, "--schedule");
    t->schedule = allocate(t->steps, sizeof *t->schedule);
    for (int64_t i = 0; t->schedule != NULL && status == DPMF_OK && i < t->steps; ++i) {
        double q[3], r[2];
        status = dpmf_workload_inverse_row(alone, i, q, r);
        t->schedule[i] = 1.0 / q[0];
    }
    dpmf_workload_free(alone);
    if (t->schedule == NULL) return fail_memory();
    return status == DPMF_OK ? 0 : fail_status(status, "--schedule");
}

/* SGD's own linear map, unless --workload says otherwise; Adam's is none, and prefix sums stand for it. */
int training_workload(training *t) {
    const arguments *given = t->given;
    const double momentum = given->number[OPTION_MOMENTUM];
    const double decay = given->number[OPTION_DECAY] * given->number[OPTION_LEARNING_RATE];
    const char *schedule = given->text[OPTION_SCHEDULE];
    text_buffer text = {0};
    int code = read_schedule(t);
    if (code != 0 || given->operand != NULL) return code;
    if (option_given(given, OPTION_WORKLOAD)) {
        text_add(&text, "%s", option_text(given, OPTION_WORKLOAD));
    } else if (option_is(given, OPTION_OPTIMIZER, "sgd")) {
        if (momentum > 0.0) text_add(&text, "momentum:%.17g", momentum);
        if (schedule != NULL) text_add(&text, "%s%s", text.length > 0 ? "," : "", schedule);
        if (decay > 0.0) text_add(&text, "%sdecay:%.17g", text.length > 0 ? "," : "", decay);
    }
    if (text.length == 0) text_add(&text, "prefix");
    dpmf_status status = text.failed ? DPMF_ERROR_MEMORY : dpmf_workload_parse(text.bytes, t->steps, &t->workload);
    text_free(&text);
    return status == DPMF_OK ? 0 : fail_status(status, "--workload");
}

/* ---- the mechanism ---- */

static int read_mechanism(training *t, const char *path) {
    int code = load_confirmed(path, (int)t->given->count[OPTION_THREADS], &t->own);
    t->mechanism = t->own;
    return code;
}

bool training_by_user(const training *t) {
    return strcmp(t->unit, "user") == 0;
}

/* Gradients are clipped for what the FILE protects. One that records no unit is for what train clips for. */
int training_unit(training *t) {
    char shown[SHOWN], file[SHOWN];
    const char *named = option_text(t->given, OPTION_UNIT);
    int code = t->given->operand != NULL ? read_mechanism(t, t->given->operand) : 0;
    dpmf_coverage covered = {.unit = code == 0 && t->own != NULL ? dpmf_mechanism_get(t->own).unit : NULL};
    const bool recorded = covered.unit != NULL;
    if (code == 0) code = take_unit(t->given, &covered);
    if (code != 0) return code;
    t->unit = covered.unit != NULL ? covered.unit : "example";
    if (strcmp(t->unit, "example") == 0 || training_by_user(t)) return 0;
    if (recorded)
        return fail(EXIT_USAGE, "%s protects one %s: train accepts mechanisms for example and user",
                    show(t->given->operand, file), t->unit);
    return fail(EXIT_USAGE, "--unit %s: train accepts example and user", show(named, shown));
}

/* From the operand: it settles the steps, and what else was given must agree with it. */
static int mechanism_from_file(training *t) {
    static const option_id refused[] = {OPTION_WORKLOAD,  OPTION_FAMILY, OPTION_EPSILON,  OPTION_SAMPLING,
                                        OPTION_ADJACENCY, OPTION_EPOCHS, OPTION_BATCH_CAP};
    const arguments *given = t->given;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        if (option_given(given, refused[i]))
            return fail(EXIT_USAGE, "--%s is for a design, but the mechanism comes from the FILE",
                        options[refused[i]].name);
    const int64_t steps = dpmf_strategy_get(dpmf_mechanism_get(t->mechanism).strategy).steps;
    if (option_given(given, OPTION_STEPS) && t->steps != steps)
        return fail(EXIT_USAGE, "--steps %lld: the FILE has %lld", (long long)t->steps, (long long)steps);
    t->steps = steps;
    return 0;
}

/* How batches are drawn for independent noise: as --sampling says, the numbers from the plan. */
static dpmf_sampling independent_sampling(const training *t) {
    dpmf_sampling s = {.kind = DPMF_SAMPLING_NONE};
    if (option_is(t->given, OPTION_SAMPLING, "allocation"))
        s = (dpmf_sampling){.kind = DPMF_SAMPLING_ALLOCATION, .count = t->epoch, .picks = 1};
    else if (sampled(t))
        s = (dpmf_sampling){
            .kind = DPMF_SAMPLING_POISSON, .probability = (double)t->epochs / (double)t->steps, .count = 1};
    if (option_given(t->given, OPTION_BATCH_CAP)) {
        s.cap = t->given->count[OPTION_BATCH_CAP];
        s.units = t->units;
    }
    return s;
}

/* Independent noise under sampling, or under nothing at all for a run without noise. */
static dpmf_status independent_mechanism(training *t) {
    dpmf_strategy *strategy = NULL;
    dpmf_participation *participation = NULL;
    dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
    dpmf_account_options account = dpmf_account_options_defaults();
    dpmf_privacy found = {0};
    const bool private = !option_given(t->given, OPTION_NOISELESS);
    const bool poisson = sampled(t) && !option_is(t->given, OPTION_SAMPLING, "allocation");
    about.sampling = independent_sampling(t);
    about.made_by = "train";
    about.unit = t->unit;
    about.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE; /* the distance of DP-SGD from the optimum is not printed */
    dpmf_status status = dpmf_adjacency_parse(option_text(t->given, OPTION_ADJACENCY), &about.evaluate.adjacency);
    if (status == DPMF_OK) status = dpmf_strategy_create(DPMF_FAMILY_IDENTITY, t->workload, NULL, &strategy);
    if (status == DPMF_OK)
        status = dpmf_participation_create(poisson ? DPMF_PARTICIPATION_FULL : DPMF_PARTICIPATION_CYCLIC, t->steps,
                                           t->epochs, t->epoch, &participation);
    if (status == DPMF_OK && private) {
        account.sampling = about.sampling;
        account.compositions = t->steps;
        account.adjacency = about.evaluate.adjacency;
        account.run = run_with((int)t->given->count[OPTION_THREADS]);
        status =
            dpmf_calibrate_sigma(t->given->number[OPTION_EPSILON], t->given->number[OPTION_DELTA], &account, &found);
        about.sigma = found.sigma;
        about.epsilon = t->given->number[OPTION_EPSILON];
        about.delta = t->given->number[OPTION_DELTA];
    }
    if (status == DPMF_OK) status = dpmf_mechanism_create(t->workload, participation, strategy, &about, &t->own);
    t->mechanism = t->own;
    dpmf_participation_free(participation);
    dpmf_strategy_free(strategy);
    return status;
}

static int design_mechanism(training *t) {
    const arguments *given = t->given;
    dpmf_design_options how = dpmf_design_options_defaults();
    char shown[SHOWN];
    const char *sampling = option_text(given, OPTION_SAMPLING);
    const bool independent = strcmp(sampling, "poisson") == 0 || strcmp(sampling, "allocation") == 0;
    if (option_given(given, OPTION_NOISELESS) || independent) {
        if (independent && option_given(given, OPTION_FAMILY) && !option_is(given, OPTION_FAMILY, DPMF_FAMILY_IDENTITY))
            return fail(EXIT_USAGE, "--family %s: --sampling %s is for independent noise, identity",
                        show(option_text(given, OPTION_FAMILY), shown), sampling);
        dpmf_status status = independent_mechanism(t);
        return status == DPMF_OK ? 0 : fail_status(status, NULL);
    }
    how.epochs = t->epochs;
    how.epsilon = given->number[OPTION_EPSILON];
    how.delta = given->number[OPTION_DELTA];
    how.dim = t->dim;
    how.unit = t->unit;
    how.max_overhead = INFINITY; /* gradients take far longer than any noise here */
    how.families = given->text[OPTION_FAMILY];
    how.sampling = strcmp(sampling, "block-cyclic") == 0 ? DPMF_SAMPLING_BLOCK_CYCLIC : DPMF_SAMPLING_NONE;
    how.batch_cap = given->count[OPTION_BATCH_CAP];
    how.units = how.batch_cap > 0 ? t->units : 0;
    how.run = run_with((int)given->count[OPTION_THREADS]);
    dpmf_status status = dpmf_adjacency_parse(option_text(given, OPTION_ADJACENCY), &how.adjacency);
    if (status == DPMF_OK) status = dpmf_design_create(t->workload, &how, &t->design);
    if (status != DPMF_OK) return fail_status(status, NULL);
    t->mechanism = dpmf_design_get(t->design).mechanism;
    return 0;
}

/* Is `name` one of the words of a list with commas? */
static bool listed(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
    return false;
}

/* How often, and how far apart: as the plan has it, or by the same probability. */
static bool same_batches(const training *t) {
    const dpmf_sampling sampling = dpmf_mechanism_get(t->own).sampling;
    const dpmf_participation *assumed = dpmf_mechanism_get(t->own).participation;
    if (sampling.kind == DPMF_SAMPLING_ALLOCATION) return sampling.count == t->epoch && sampling.picks == 1;
    if (!dpmf_sampling_is_none(&sampling))
        return sampling.probability == (double)t->epochs / (double)t->steps &&
               sampling.cap == t->given->count[OPTION_BATCH_CAP];
    return dpmf_participation_get(assumed).count == t->epochs && dpmf_participation_get(assumed).separation == t->epoch;
}

static bool same_sampling(const training *t) {
    const dpmf_sampling held = dpmf_mechanism_get(t->own).sampling;
    if (option_is(t->given, OPTION_SAMPLING, "none")) return dpmf_sampling_is_none(&held);
    if (option_is(t->given, OPTION_SAMPLING, "poisson")) return held.kind == DPMF_SAMPLING_POISSON;
    if (option_is(t->given, OPTION_SAMPLING, "allocation")) return held.kind == DPMF_SAMPLING_ALLOCATION;
    return true; /* a design under block-cyclic sampling may choose not to need it */
}

/* The design of an earlier run of the same command, kept beside its checkpoint. NULL: it is that. */
static const char *differs_in(const training *t) {
    const arguments *given = t->given;
    const dpmf_strategy *strategy = dpmf_mechanism_get(t->own).strategy;
    if (dpmf_strategy_get(strategy).steps != t->steps) return "steps";
    if (dpmf_mechanism_get(t->own).epsilon != given->number[OPTION_EPSILON]) return "epsilon";
    if (dpmf_mechanism_get(t->own).delta != given->number[OPTION_DELTA]) return "delta";
    if (strcmp(dpmf_workload_get(dpmf_mechanism_get(t->own).workload).text, dpmf_workload_get(t->workload).text) != 0)
        return "workload";
    if (strcmp(dpmf_adjacency_name(dpmf_mechanism_get(t->own).adjacency), option_text(given, OPTION_ADJACENCY)) != 0)
        return "adjacency";
    const char *unit = dpmf_mechanism_get(t->own).unit;
    if (unit == NULL || strcmp(unit, t->unit) != 0) return "unit";
    if (option_given(given, OPTION_FAMILY) && !listed(given->text[OPTION_FAMILY], dpmf_strategy_get(strategy).family))
        return "family";
    if (!same_sampling(t)) return "sampling";
    return same_batches(t) ? NULL : "batch";
}

static int earlier_mechanism(training *t, const char *path) {
    char shown[SHOWN];
    int code = read_mechanism(t, path);
    const char *field = code == 0 ? differs_in(t) : NULL;
    if (field == NULL) return code;
    return fail(EXIT_USAGE, "--checkpoint %s: the run in it has another --%s; another run needs another checkpoint",
                show(t->given->text[OPTION_CHECKPOINT], shown), field);
}

static int check_usage(const arguments *given) {
    const char *sampling = option_text(given, OPTION_SAMPLING);
    char shown[SHOWN];
    const bool noiseless = option_given(given, OPTION_NOISELESS);
    const bool epsilon = option_given(given, OPTION_EPSILON), delta = option_given(given, OPTION_DELTA);
    if (strcmp(sampling, "none") != 0 && strcmp(sampling, "block-cyclic") != 0 && strcmp(sampling, "poisson") != 0 &&
        strcmp(sampling, "allocation") != 0)
        return fail(EXIT_USAGE,
                    "--sampling %s: train accepts none, block-cyclic, poisson and allocation; the rest follows from "
                    "the batch",
                    show(sampling, shown));
    if (given->operand != NULL) return 0;
    if (given->count[OPTION_BATCH_CAP] < 0)
        return fail(EXIT_USAGE, "--batch-cap auto is for design: a number is accepted");
    if (option_given(given, OPTION_BATCH_CAP) && strcmp(sampling, "block-cyclic") != 0 &&
        strcmp(sampling, "poisson") != 0)
        return fail(EXIT_USAGE, "--batch-cap goes with --sampling poisson and block-cyclic");
    if (noiseless && (epsilon || delta))
        return fail(EXIT_USAGE, "--noiseless: without noise there is no epsilon and no delta");
    if (noiseless && strcmp(sampling, "block-cyclic") == 0)
        return fail(EXIT_USAGE, "--noiseless --sampling block-cyclic: none and poisson are accepted without noise");
    if (!noiseless && (!epsilon || !delta || !(given->number[OPTION_EPSILON] > 0.0)))
        return fail(EXIT_USAGE, "train needs --epsilon E above 0 and --delta D, or a mechanism FILE, or --noiseless");
    return 0;
}

int training_mechanism(training *t) {
    char beside[4200];
    const char *checkpoint = t->given->text[OPTION_CHECKPOINT];
    int code = check_usage(t->given);
    if (code == 0) code = training_plan(t);
    if (code == 0 && t->given->operand != NULL) code = mechanism_from_file(t);
    if (code == 0) code = training_workload(t);
    if (code != 0 || t->mechanism != NULL) return code;
    if (checkpoint == NULL || option_given(t->given, OPTION_NOISELESS)) return design_mechanism(t);
    if (snprintf(beside, sizeof beside, "%s.mechanism", checkpoint) >= (int)sizeof beside)
        return fail(EXIT_USAGE, "--checkpoint: the name is too long");
    if (access(beside, F_OK) == 0) return earlier_mechanism(t, beside);
    code = design_mechanism(t);
    if (code != 0) return code;
    dpmf_status status = dpmf_mechanism_save(t->mechanism, beside);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

/* ---- the sampler ---- */

/* Units of a batch in a fixed order of `separation` batches; what was given must be that. */
static int order_text(training *t, const char *name, int64_t separation, char text[64]) {
    const bool given = t->batch > 0 && !sampled(t); /* a design under sampling may choose an order after all */
    const int64_t batch = given ? t->batch : ceil_divide(t->units, separation);
    snprintf(text, 64, "%s:%lld", name, (long long)batch);
    t->batch = batch;
    return 0;
}

/* What the mechanism assumes is what is done; the library checks that it is. */
/*
 * A name of the run: runs that differ in anything draw batches of their own. With the same coins the guarantees of two
 * runs would not add up.
 */
static void name_run(const training *t, char out[NAME_ROOM]) {
    const dpmf_trainer_options *o = &t->how;
    const char *schedule = t->given->text[OPTION_SCHEDULE];
    snprintf(out, NAME_ROOM,
             "%s %lld %.17g %.17g %d %d %.17g %.17g %d %.17g %.17g %.17g %.17g %llu %lld %lld %lld %.200s",
             dpmf_mechanism_get(t->mechanism).digest, (long long)o->hidden, o->clip, o->zero_above, o->by_unit,
             (int)o->optimizer, o->learning_rate, o->momentum, o->nesterov, o->beta1, o->beta2, o->adam_epsilon,
             o->decay, (unsigned long long)o->seed, (long long)dpmf_dataset_count(t->train),
             (long long)dpmf_dataset_features(t->train), (long long)dpmf_dataset_classes(t->train),
             schedule == NULL ? "" : schedule);
}

int training_sampler(training *t) {
    const dpmf_sampling sampling = dpmf_mechanism_get(t->mechanism).sampling;
    const dpmf_participation *assumed = dpmf_mechanism_get(t->mechanism).participation;
    char text[64], name[NAME_ROOM];
    int code = 0;
    dpmf_status status = DPMF_OK;
    if (!dpmf_sampling_is_none(&sampling)) {
        if (t->given->operand != NULL && t->batch > 0)
            return fail(EXIT_USAGE, "--batch: the FILE's sampling determines the batch size");
        status = dpmf_sampling_format(&sampling, text);
    } else if (dpmf_participation_get(assumed).kind == DPMF_PARTICIPATION_SHUFFLED) {
        code = order_text(t, "shuffled", dpmf_participation_get(assumed).separation, text);
    } else {
        code = order_text(t, "cyclic", dpmf_participation_get(assumed).separation, text);
    }
    if (code != 0) return code;
    name_run(t, name);
    if (status == DPMF_OK) status = dpmf_sampler_create(text, t->units, t->steps, t->key, name, &t->sampler);
    return status == DPMF_OK ? 0 : fail_status(status, "the sampler");
}

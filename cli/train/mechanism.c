/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf train: the mechanism, designed or from a file, and the sampler that does what it assumes. */
#include "train/train.h"

#include "output.h"
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_ROOM = 1024 };

static const char MADE_BY_NAME[] = "train"; /* independent noise whose sampling was named, and not designed */

static bool sampled(const training *t) {
    return !training_samples(t, "none");
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
    static const option_id refused[] = {OPTION_WORKLOAD,  OPTION_FAMILY, OPTION_EPSILON,   OPTION_SAMPLING,
                                        OPTION_ADJACENCY, OPTION_EPOCHS, OPTION_BATCH_CAP, OPTION_MEMORY};
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
    if (training_samples(t, "allocation"))
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
    const bool poisson = sampled(t) && !training_samples(t, "allocation");
    about.sampling = independent_sampling(t);
    about.made_by = MADE_BY_NAME;
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

/* The kind of that name; none for `any`, which is no kind. */
static dpmf_sampling_kind named_sampling(const training *t) {
    const dpmf_sampling_facts *kind;
    for (int i = 0; (kind = dpmf_sampling_describe((dpmf_sampling_kind)i)) != NULL; i++)
        if (training_samples(t, kind->name)) return (dpmf_sampling_kind)i;
    return DPMF_SAMPLING_NONE;
}

static int design_mechanism(training *t) {
    const arguments *given = t->given;
    dpmf_design_options how = dpmf_design_options_defaults();
    char shown[SHOWN];
    const char *sampling = training_sampling(t);
    const bool independent = training_samples(t, "poisson") || training_samples(t, "allocation");
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
    how.memory = memory_limit(given);
    /* Gradients take far longer than any noise here; but what keeps no row may take as long as one likes. */
    if (how.memory != DPMF_MEMORY_NO_ROWS) how.max_overhead = INFINITY;
    how.families = given->text[OPTION_FAMILY];
    how.any_sampling = training_samples(t, TRAINING_ANY);
    how.sampling = named_sampling(t);
    how.batch_cap = given->count[OPTION_BATCH_CAP];
    how.units = how.batch_cap > 0 || dpmf_sampling_describe(how.sampling)->fixed ? t->units : 0;
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
    const dpmf_sampling held = dpmf_mechanism_get(t->own).sampling;
    const dpmf_participation_info assumed = dpmf_participation_get(dpmf_mechanism_get(t->own).participation);
    const double rate = (double)t->epochs / (double)t->steps;
    if (dpmf_sampling_is_none(&held))
        return assumed.separation == t->epoch && assumed.count == (t->steps - 1) / t->epoch + 1;
    if (held.cap != t->given->count[OPTION_BATCH_CAP]) return false;
    switch (held.kind) {
    case DPMF_SAMPLING_ALLOCATION:
        return held.count == t->epoch && held.picks == 1;
    case DPMF_SAMPLING_BALLS_IN_BINS:
        return held.count == t->epoch;
    case DPMF_SAMPLING_FIXED:
    case DPMF_SAMPLING_FIXED_REPLACE:
        return held.units == t->units && held.picks == (int64_t)ceil((double)t->units * rate * (1 - 1e-12));
    case DPMF_SAMPLING_MIN_SEPARATION: /* waits between uses: `epochs` of them are expected, as the design has it */
        return fabs(held.probability / (1 + (double)(held.count - 1) * held.probability) - rate) <= 1e-9 * rate;
    default:
        return held.probability == rate;
    }
}

/* A design under a named sampling may choose not to need it, and under block-cyclic sampling Poisson for independent noise. */
static bool same_sampling(const training *t) {
    const dpmf_sampling held = dpmf_mechanism_get(t->own).sampling;
    const dpmf_sampling_kind named = named_sampling(t);
    const bool independent = training_samples(t, "poisson") || training_samples(t, "allocation");
    if (training_samples(t, TRAINING_ANY)) return strcmp(dpmf_mechanism_get(t->own).made_by, MADE_BY_NAME) != 0;
    if (dpmf_sampling_is_none(&held)) return !independent;
    return held.kind == named || (named == DPMF_SAMPLING_BLOCK_CYCLIC && held.kind == DPMF_SAMPLING_POISSON);
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

static bool may_cap(const training *t) {
    return training_samples(t, TRAINING_ANY) || dpmf_sampling_describe(named_sampling(t))->cappable;
}

static int check_sampling(const training *t) {
    const char *sampling = training_sampling(t);
    char shown[SHOWN];
    if (!training_samples(t, TRAINING_ANY) && sampled(t) && named_sampling(t) == DPMF_SAMPLING_NONE)
        return fail(
            EXIT_USAGE,
            "--sampling %s: train accepts none, poisson, block-cyclic, balls-in-bins, min-sep, allocation, fixed, "
            "fixed-replace and any; the numbers follow from the batch",
            show(sampling, shown));
    if (!option_given(t->given, OPTION_BATCH_CAP)) return 0;
    if (t->given->count[OPTION_BATCH_CAP] < 0)
        return fail(EXIT_USAGE, "--batch-cap auto is for design: a number is accepted");
    if (!sampled(t) || !may_cap(t))
        return fail(EXIT_USAGE, "--batch-cap goes with --sampling poisson, block-cyclic, min-sep and any");
    return 0;
}

static int check_usage(const training *t) {
    const arguments *given = t->given;
    const bool noiseless = option_given(given, OPTION_NOISELESS);
    const bool epsilon = option_given(given, OPTION_EPSILON), delta = option_given(given, OPTION_DELTA);
    if (given->operand != NULL) return 0;
    int code = check_sampling(t);
    if (code != 0) return code;
    if (noiseless && (epsilon || delta))
        return fail(EXIT_USAGE, "--noiseless: without noise there is no epsilon and no delta");
    if (noiseless && sampled(t) && !training_samples(t, "poisson") && !training_samples(t, "allocation"))
        return fail(EXIT_USAGE, "--noiseless --sampling %s: none, poisson and allocation are accepted without noise",
                    training_sampling(t));
    if (!noiseless && (!epsilon || !delta || !(given->number[OPTION_EPSILON] > 0.0)))
        return fail(EXIT_USAGE, "train needs --epsilon E above 0 and --delta D, or a mechanism FILE, or --noiseless");
    return 0;
}

/* A fixed order may be chosen as well, whose batches have no cap. */
static int check_cap(const training *t) {
    const int64_t cap = t->given->count[OPTION_BATCH_CAP];
    if (!option_given(t->given, OPTION_BATCH_CAP) || !training_samples(t, TRAINING_ANY) || cap >= t->batch) return 0;
    return fail(EXIT_USAGE, "--batch-cap %lld: at least the %lld of a batch are accepted with --sampling any",
                (long long)cap, (long long)t->batch);
}

int training_mechanism(training *t) {
    char beside[4200];
    const char *checkpoint = t->given->text[OPTION_CHECKPOINT];
    int code = check_usage(t);
    if (code == 0) code = training_plan(t);
    if (code == 0 && t->given->operand == NULL) code = check_cap(t);
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

/* Units of a batch in a fixed order of `separation` batches. The library refuses what does not realise the participation. */
static void order_text(training *t, const char *name, int64_t separation, char text[64]) {
    const bool from_file = t->given->operand != NULL;
    int64_t batch = from_file ? t->batch : training_order(t, separation);
    if (batch == 0) batch = (t->units - 1) / separation + 1;
    snprintf(text, 64, "%s:%lld", name, (long long)batch);
    t->batch = batch;
}

/*
 * A name of the run: runs that differ in anything draw batches of their own. With the same coins the guarantees of two
 * runs would not add up.
 */
static void name_run(const training *t, char out[NAME_ROOM]) {
    const dpmf_trainer_options *o = &t->how;
    char local[240] = "", rule[100] = "";
    if (o->gamma > 0) snprintf(rule, sizeof rule, " auto %.17g", o->gamma);
    if (o->precondition > 0)
        snprintf(rule + strlen(rule), sizeof rule - strlen(rule), " scaled %.17g", o->precondition);
    if (o->correct) snprintf(rule + strlen(rule), sizeof rule - strlen(rule), " corrected");
    if (o->local_steps > 0)
        snprintf(local, sizeof local, " local %lld %.17g %lld", (long long)o->local_steps, o->local_rate,
                 (long long)o->local_batch);
    if (o->optimizer == DPMF_OPTIMIZER_FTRL)
        snprintf(local + strlen(local), sizeof local - strlen(local), " ftrl %d %.17g %d %.17g", (int)o->constraint,
                 o->radius, (int)o->regularizer, o->l1);
    snprintf(
        out, NAME_ROOM,
        "%s %lld %.17g %.17g %d %d %.17g %.17g %d %.17g %.17g %.17g %.17g %llu %lld %lld %lld %016llx %.200s%s%s%s%s",
        dpmf_mechanism_get(t->mechanism).digest, (long long)o->hidden, o->clip, o->zero_above, o->by_unit,
        (int)o->optimizer, o->learning_rate, o->momentum, o->nesterov, o->beta1, o->beta2, o->adam_epsilon, o->decay,
        (unsigned long long)o->seed, (long long)dpmf_dataset_count(t->train),
        (long long)dpmf_dataset_features(t->train), (long long)dpmf_dataset_classes(t->train),
        (unsigned long long)training_schedule_hash(t), option_text(t->given, OPTION_SCHEDULE),
        o->noiseless ? " noiseless" : "", o->zero_largest ? " largest" : "", local, rule);
}

/* What the mechanism assumes is what is done; the library checks that it is. */
int training_sampler(training *t) {
    const dpmf_sampling sampling = dpmf_mechanism_get(t->mechanism).sampling;
    const dpmf_participation *assumed = dpmf_mechanism_get(t->mechanism).participation;
    char text[64], name[NAME_ROOM];
    dpmf_status status = DPMF_OK;
    if (!dpmf_sampling_is_none(&sampling)) {
        if (t->given->operand != NULL && t->batch > 0)
            return fail(EXIT_USAGE, "--batch: the FILE's sampling determines the batch size");
        status = dpmf_sampling_format(&sampling, text);
    } else if (dpmf_participation_get(assumed).kind == DPMF_PARTICIPATION_SHUFFLED) {
        order_text(t, "shuffled", dpmf_participation_get(assumed).separation, text);
    } else {
        order_text(t, "cyclic", dpmf_participation_get(assumed).separation, text);
    }
    name_run(t, name);
    if (status == DPMF_OK) status = dpmf_sampler_create(text, t->units, t->steps, t->key, name, &t->sampler);
    return status == DPMF_OK ? 0 : fail_status(status, "the sampler");
}

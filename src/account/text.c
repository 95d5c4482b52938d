/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of accounting: this file converts engines and samplings to and from text, and writes the guarantee in
 * sentences. Everything that is known of a kind of sampling is in one row of SAMPLINGS, from which parsing, lists,
 * errors, sentences and the choice of an account follow.
 */
#include "account/account.h"

#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const ENGINES[] = {
    [DPMF_ENGINE_AUTO] = "auto",
    [DPMF_ENGINE_FOURIER] = "fourier",
    [DPMF_ENGINE_CONNECT_THE_DOTS] = "connect-the-dots",
    [DPMF_ENGINE_RDP] = "rdp",
    [DPMF_ENGINE_MONTE_CARLO] = "monte-carlo",
};
enum { ENGINE_COUNT = sizeof ENGINES / sizeof ENGINES[0] };

const char *account_engine_name(dpmf_engine engine) {
    return (unsigned)engine < ENGINE_COUNT ? ENGINES[engine] : "unknown";
}

dpmf_status dpmf_engine_parse(const char *text, dpmf_engine *out) {
    char shown[64];
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the engine's name is NULL");
    for (int i = 0; i < ENGINE_COUNT; i++)
        if (strcmp(text, ENGINES[i]) == 0) {
            *out = (dpmf_engine)i;
            return DPMF_OK;
        }
    return base_fail(DPMF_ERROR_ARGUMENT, "engine '%s', accepted: auto, fourier, connect-the-dots, rdp, monte-carlo",
                     base_show(text, strlen(text), shown));
}

/*
 * In sentences, @u is the unit, @n the compositions, @p the sampling's probability and @q that of a unit whose turn it is,
 * @b the count, @k the picks, @z the units that a batch is drawn from, @s whose turn it is, @e how often bins are drawn, @w how waits begin.
 */
typedef struct sampling_row {
    dpmf_sampling_facts facts;
    int has_probability, has_count, has_picks;
    int has_units;        /* 1: `picks`, then `units`, then `count` if it is not 1 */
    int replaced;         /* 1: a unit may be drawn several times for one batch */
    int banded;           /* 1: for C of at most `count` bands, or of one where there is no count of steps or blocks */
    int blocks;           /* 1: `count` is a number of blocks that the units are split into */
    const char *sentence; /* of a statement */
    const char *warning;  /* of design */
} sampling_row;

static const sampling_row SAMPLINGS[] = {
    [DPMF_SAMPLING_NONE] = {.facts = {.name = "none", .form = "none"}},
    [DPMF_SAMPLING_POISSON] =
        {.facts = {.name = "poisson", .form = "poisson:Q", .composes = 1, .cappable = 1},
         .has_probability = 1,
         .banded = 1,
         .sentence = "every @u takes part in each of @n steps, independently, with probability @p.",
         .warning = "The guarantee holds only for Poisson batches sampled exactly this way, with the randomness kept "
                    "secret: in every step every unit takes part with probability @p, independently. Batches from a "
                    "shuffled loader do not satisfy it."},
    [DPMF_SAMPLING_BLOCK_CYCLIC] =
        {.facts = {.name = "block-cyclic", .form = "block-cyclic:Q,BANDS", .composes = 1, .cappable = 1},
         .has_probability = 1,
         .has_count = 1,
         .banded = 1,
         .blocks = 1,
         .sentence = "the data are split once into @b blocks, step t draws from block t mod @b, every @u in it "
                     "independently with probability @q; accounted for as @n compositions.",
         .warning = "The guarantee holds only for block-cyclic Poisson batches sampled exactly this way, with the "
                    "randomness kept secret: split the data once into @b blocks; in step t every unit of block t mod "
                    "@b takes part with probability @q, independently. Batches of fixed size from a shuffled loader do "
                    "not satisfy it."},
    [DPMF_SAMPLING_BALLS_IN_BINS] =
        {.facts = {.name = "balls-in-bins", .form = "balls-in-bins:BINS", .allocates = 1, .simulated = 1},
         .has_count = 1,
         .sentence = "every @u is put into one of @b bins at random, @e, and step t uses bin t mod @b.",
         .warning = "The guarantee holds only for bins drawn exactly this way, with the randomness kept secret: put "
                    "every unit into one of @b bins at random, once, and use bin t mod @b in step t. Batches then vary "
                    "in size. Batches from a shuffled loader do not satisfy it."},
    [DPMF_SAMPLING_MIN_SEPARATION] =
        {.facts = {.name = "min-sep", .form = "min-sep:P,B", .simulated = 1, .waits = 1, .cappable = 1},
         .has_probability = 1,
         .has_count = 1,
         .banded = 1,
         .sentence = "every @u that may take part does so with probability @p and then waits @b steps@w.",
         .warning =
             "The guarantee holds only for batches sampled exactly this way, with the randomness kept secret: in "
             "every step every unit that may take part does so with probability @p, and then waits @b steps."},
    [DPMF_SAMPLING_ALLOCATION] =
        {.facts = {.name = "allocation", .form = "allocation:K,T", .allocates = 1},
         .has_count = 1,
         .has_picks = 1,
         .banded = 1,
         .sentence = "every @u takes part in exactly @k of @b steps, chosen at random for each @u separately, freshly "
                     "in each of @n epochs.",
         .warning = "The guarantee holds only for random allocation done exactly this way, with the randomness kept "
                    "secret: in every epoch of @b steps every unit takes part in exactly @k, chosen at random for each "
                    "unit separately, freshly in each epoch. Batches then vary in size. Batches from a shuffled loader "
                    "do not satisfy it."},
    [DPMF_SAMPLING_FIXED] =
        {.facts = {.name = "fixed", .form = "fixed:M,N", .composes = 1, .fixed = 1},
         .has_units = 1,
         .banded = 1,
         .blocks = 1,
         .sentence =
             "every batch is a random @k of the @z, all sets of @k equally likely, drawn freshly in each step@s; "
             "accounted for as @n compositions.",
         .warning =
             "The guarantee holds only for batches of a fixed size sampled exactly this way, with the randomness kept "
             "secret: every batch is a random @k of the @z, all sets of @k equally likely, drawn freshly in each "
             "step@s. Batches from a shuffled loader, which passes over the data once in an epoch, do not satisfy it."},
    [DPMF_SAMPLING_FIXED_REPLACE] =
        {.facts = {.name = "fixed-replace", .form = "fixed-replace:M,N", .composes = 1, .fixed = 1},
         .has_units = 1,
         .replaced = 1,
         .banded = 1,
         .blocks = 1,
         .sentence = "every batch is @k independent uniform draws from the @z, with replacement, drawn freshly in each "
                     "step@s; a @u that is drawn twice counts twice; accounted for as @n compositions.",
         .warning =
             "The guarantee holds only for batches sampled exactly this way, with the randomness kept secret: every "
             "batch is @k independent uniform draws from the @z, with replacement, drawn freshly in each step@s. "
             "Batches from a shuffled loader do not satisfy it."},
};
enum { SAMPLING_COUNT = sizeof SAMPLINGS / sizeof SAMPLINGS[0] };

const dpmf_sampling_facts *dpmf_sampling_describe(dpmf_sampling_kind kind) {
    return (unsigned)kind < SAMPLING_COUNT ? &SAMPLINGS[kind].facts : NULL;
}

int dpmf_sampling_is_none(const dpmf_sampling *sampling) {
    return sampling->kind == DPMF_SAMPLING_NONE;
}

int account_sampling_composes(const dpmf_sampling *sampling) {
    return SAMPLINGS[sampling->kind].facts.composes;
}

int account_sampling_allocates(const dpmf_sampling *sampling) {
    return SAMPLINGS[sampling->kind].facts.allocates;
}

int64_t account_sampling_bands(const dpmf_sampling *sampling) {
    const sampling_row *row = &SAMPLINGS[sampling->kind];
    return !row->banded ? 0 : row->blocks || (row->has_count && !row->has_picks) ? sampling->count : 1;
}

int64_t account_sampling_blocks(const dpmf_sampling *sampling) {
    return SAMPLINGS[sampling->kind].blocks ? sampling->count : 1;
}

int64_t account_sampling_draws(const dpmf_sampling *sampling, int *replaced) {
    const sampling_row *row = &SAMPLINGS[sampling->kind];
    if (replaced != NULL) *replaced = row->replaced;
    return row->has_units ? sampling->picks : 0;
}

double account_sampling_turn(const dpmf_sampling *sampling) {
    const double blocks = (double)account_sampling_blocks(sampling);
    int replaced = 0;
    const int64_t draws = account_sampling_draws(sampling, &replaced);
    const double size = floor((double)sampling->units / blocks); /* of the smaller blocks */
    if (draws == 0) return fmin(1, sampling->probability * blocks);
    return replaced ? -expm1((double)draws * log1p(-1 / size)) : fmin(1, (double)draws / size);
}

int account_cap_binds(const account_question *q) {
    return q->cap > 0 && q->cap < (q->units + q->blocks - 1) / q->blocks;
}

static dpmf_status refuse_sampling(const char *text, const char *why) {
    char shown[64], forms[240] = "";
    for (int i = 0, used = 0; i < SAMPLING_COUNT && used < (int)sizeof forms; i++)
        used +=
            snprintf(forms + used, sizeof forms - (size_t)used, "%s%s", i == 0 ? "" : ", ", SAMPLINGS[i].facts.form);
    return base_fail(DPMF_ERROR_ARGUMENT, "sampling '%s': %s (%s)", base_show(text, strlen(text), shown), why, forms);
}

/* "M,N" or "M,N,B". */
static dpmf_status read_sizes(const char *text, const char *values, dpmf_sampling *out) {
    int64_t *const into[] = {&out->picks, &out->units, &out->count};
    const char *at = values;
    out->count = 1;
    for (int i = 0; i < 3; i++) {
        const size_t length = strcspn(at, ",");
        if (!base_parse_integer(at, length, into[i]) || *into[i] < 1)
            return refuse_sampling(text, "whole numbers of at least 1 are accepted");
        at += length;
        if (*at == '\0') return i > 0 ? account_sampling_check(out) : refuse_sampling(text, "M and N are needed");
        at++;
    }
    return refuse_sampling(text, "M, N and a number of blocks are accepted");
}

static dpmf_status read_values(const char *text, const sampling_row *row, const char *values, dpmf_sampling *out) {
    size_t first = row->has_probability ? strcspn(values, ",") : 0;
    const char *rest = values + first;
    if (row->has_probability) {
        if (!base_parse_double(values, first, &out->probability) || out->probability < 0 || out->probability > 1)
            return refuse_sampling(text, "a probability from 0 to 1 is accepted");
        if (row->has_count != (*rest == ',')) return refuse_sampling(text, "the number of values differs from");
        if (row->has_count) rest++;
    }
    if (row->has_picks) {
        size_t length = strcspn(rest, ",");
        if (rest[length] != ',' || !base_parse_integer(rest, length, &out->picks) || out->picks < 1)
            return refuse_sampling(text, "two whole numbers of at least 1 are accepted");
        rest += length + 1;
    }
    if (row->has_count && (!base_parse_integer(rest, strlen(rest), &out->count) || out->count < 1))
        return refuse_sampling(text, "a whole number of at least 1 is accepted");
    if (out->picks > out->count) return refuse_sampling(text, "K is at most T");
    return DPMF_OK;
}

/* ",cap:M" or ",cap:M:N" at the end. */
static dpmf_status read_cap(const char *text, const char *values, dpmf_sampling *out) {
    const size_t cap = strcspn(values, ":");
    if (!base_parse_integer(values, cap, &out->cap) || out->cap < 1)
        return refuse_sampling(text, "a cap of at least 1 is accepted");
    if (values[cap] == '\0') return DPMF_OK;
    if (!base_parse_integer(values + cap + 1, strlen(values + cap + 1), &out->units) || out->units < 1)
        return refuse_sampling(text, "after the cap, the number of units, at least 1, is accepted");
    return DPMF_OK;
}

static dpmf_status parse_plain(const char *text, dpmf_sampling *out) {
    size_t name = strcspn(text, ":");
    const sampling_row *row = NULL;
    for (int i = 0; i < SAMPLING_COUNT; i++)
        if (strlen(SAMPLINGS[i].facts.name) == name && memcmp(SAMPLINGS[i].facts.name, text, name) == 0)
            row = &SAMPLINGS[i];
    if (row == NULL) return refuse_sampling(text, "not a sampling");
    dpmf_sampling found = {.kind = (dpmf_sampling_kind)(row - SAMPLINGS)};
    int wants = row->has_probability || row->has_count || row->has_units;
    if (wants != (text[name] == ':')) return refuse_sampling(text, wants ? "values are needed" : "takes no values");
    if (row->has_units)
        TRY(read_sizes(text, text + name + 1, &found));
    else if (wants)
        TRY(read_values(text, row, text + name + 1, &found));
    *out = found;
    return DPMF_OK;
}

static const char CAP[] = ",cap:";

dpmf_status dpmf_sampling_parse(const char *text, dpmf_sampling *out) {
    char plain[64];
    dpmf_sampling found = {0}, capped = {0};
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the sampling's text is NULL");
    const char *cap = strstr(text, CAP);
    if (cap == NULL) return parse_plain(text, out);
    if ((size_t)(cap - text) >= sizeof plain) return refuse_sampling(text, "too long");
    snprintf(plain, sizeof plain, "%.*s", (int)(cap - text), text);
    TRY(parse_plain(plain, &found));
    TRY(read_cap(text, cap + sizeof CAP - 1, &capped));
    found.cap = capped.cap;
    found.units = capped.units;
    TRY(account_sampling_check(&found));
    *out = found;
    return DPMF_OK;
}

dpmf_status dpmf_sampling_format(const dpmf_sampling *sampling, char out[64]) {
    char number[32], made[160];
    const size_t room = sizeof made; /* enough for the longest of all */
    TRY(account_sampling_check(sampling));
    const sampling_row *row = &SAMPLINGS[sampling->kind];
    base_format_double(sampling->probability, number);
    size_t used = (size_t)snprintf(made, room, "%s", row->facts.name);
    if (row->has_probability) used += (size_t)snprintf(made + used, room - used, ":%s", number);
    if (row->has_picks) used += (size_t)snprintf(made + used, room - used, ":%lld", (long long)sampling->picks);
    if (row->has_count)
        used += (size_t)snprintf(made + used, room - used, "%c%lld", row->has_probability || row->has_picks ? ',' : ':',
                                 (long long)sampling->count);
    if (row->has_units)
        used += (size_t)snprintf(made + used, room - used, ":%lld,%lld", (long long)sampling->picks,
                                 (long long)sampling->units);
    if (row->has_units && sampling->count > 1)
        used += (size_t)snprintf(made + used, room - used, ",%lld", (long long)sampling->count);
    if (sampling->cap > 0) used += (size_t)snprintf(made + used, room - used, "%s%lld", CAP, (long long)sampling->cap);
    if (sampling->cap > 0 && sampling->units > 0)
        used += (size_t)snprintf(made + used, room - used, ":%lld", (long long)sampling->units);
    if (used > 63)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampling '%s': longer than 63 bytes; a probability of fewer digits is accepted", made);
    memcpy(out, made, used + 1);
    return DPMF_OK;
}

dpmf_status account_sampling_check(const dpmf_sampling *s) {
    if ((unsigned)s->kind >= SAMPLING_COUNT)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling kind %d, accepted 0 to %d", (int)s->kind, SAMPLING_COUNT - 1);
    const sampling_row *row = &SAMPLINGS[s->kind];
    if (row->has_probability && !(s->probability >= 0 && s->probability <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: probability %g, accepted 0 to 1", row->facts.form,
                         s->probability);
    if (row->has_count && s->count < 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: %lld, accepted 1 or more", row->facts.form,
                         (long long)s->count);
    if (row->facts.allocates && s->count > (int64_t)1000000000)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: %lld steps or bins, accepted 1 to 1e9", row->facts.form,
                         (long long)s->count);
    if (row->has_units && (s->count < 1 || s->picks < 1 || s->units < s->count || s->units > (int64_t)1000000000000 ||
                           s->picks > (row->replaced ? (int64_t)1000000000000 : s->units / s->count)))
        return base_fail(
            DPMF_ERROR_ARGUMENT,
            "sampling %s: batches of %lld out of %lld units in %lld blocks, accepted: 1 to 1e12 units, at least "
            "one in each block, and batches of 1 %s",
            row->facts.form, (long long)s->picks, (long long)s->units, (long long)s->count,
            row->replaced ? "to 1e12 draws" : "unit to all of a block");
    if (s->cap != 0 && !row->facts.cappable)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "sampling %s with a cap: accepted with poisson, block-cyclic and min-sep", row->facts.form);
    if (s->cap < 0 || s->units < 0 || s->units > (int64_t)1000000000000)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampling %s: a cap of %lld on batches from %lld units, accepted: 0 (none) or more, "
                         "and up to 1e12 units",
                         row->facts.form, (long long)s->cap, (long long)s->units);
    if (row->has_picks && (s->picks < 1 || s->picks > s->count))
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling %s: %lld picks, accepted 1 to %lld", row->facts.form,
                         (long long)s->picks, (long long)s->count);
    return DPMF_OK;
}

/*
 * ---- the guarantee in sentences ----
 *
 * The sentences follow the order of a reader's questions: what is released, which unit is protected, against which
 * observer, on what condition, with which certainty. Figures are rounded up where a guarantee would otherwise be
 * overstated.
 */

typedef base_text text;
#define add base_text_add

/* `value` with four significant digits, not below it. */
static double up(double value) {
    return base_safe_digits(value, 4, 1);
}

typedef struct sentence_values {
    const dpmf_sampling *sampling;
    int digits;
    double probability; /* of a unit whose turn it is */
    int64_t compositions;
    const char *unit, *bins, *waits;
} sentence_values;

static void add_sentence(text *t, const char *sentence, const sentence_values *v) {
    const dpmf_sampling *s = v->sampling;
    for (const char *at = sentence; *at != 0; at++) {
        const size_t plain = strcspn(at, "@");
        add(t, "%.*s", (int)plain, at);
        at += plain;
        if (*at == 0) break;
        switch (*++at) {
        case 'p':
        case 'q':
            add(t, "%.*g", v->digits, *at == 'p' ? s->probability : v->probability);
            break;
        case 'n':
        case 'b':
        case 'k':
            add(t, "%lld", (long long)(*at == 'n' ? v->compositions : *at == 'b' ? s->count : s->picks));
            break;
        case 'z':
            if (s->count > 1) add(t, "units of one of the %lld blocks of the ", (long long)s->count);
            add(t, "%lld units", (long long)s->units);
            break;
        case 's':
            if (s->count > 1) add(t, " (step t from block t mod %lld, the blocks made once)", (long long)s->count);
            break;
        default:
            add(t, "%s", *at == 'u' ? v->unit : *at == 'e' ? v->bins : v->waits);
        }
    }
}

size_t account_sampling_warning(const dpmf_sampling *sampling, char *out, size_t size) {
    const sampling_row *row = &SAMPLINGS[sampling->kind];
    const sentence_values values = {sampling, 6, account_sampling_turn(sampling), 0, "", "", ""};
    text t = {.out = out, .size = size};
    if (size > 0) out[0] = 0;
    if (row->warning != NULL) add_sentence(&t, row->warning, &values);
    return t.length;
}

enum { UNIT_LONGEST = 40 };

/* A statement is read as a whole: a name in it must not be a sentence. */
static int is_unit_name(const char *unit) {
    int letter = 0; /* is the byte before one? */
    const size_t length = strlen(unit);
    for (size_t i = 0; i < length; i++) {
        const int is = (unit[i] >= 'a' && unit[i] <= 'z') || (unit[i] >= 'A' && unit[i] <= 'Z');
        if (!is && !(letter && (unit[i] == ' ' || unit[i] == '-'))) return 0;
        letter = is;
    }
    return letter && length <= UNIT_LONGEST;
}

dpmf_status account_unit_check(const char *unit) {
    char shown[64];
    if (unit == NULL || is_unit_name(unit)) return DPMF_OK;
    return base_fail(
        DPMF_ERROR_ARGUMENT,
        "unit '%s', accepted: up to %d letters from A to Z, in words with a space or a hyphen between, for "
        "example user",
        base_show(unit, strlen(unit), shown), UNIT_LONGEST);
}

/* "in at most 10 of the 1000 steps, ...": what one unit may do. */
static void add_participation(text *t, const dpmf_participation_info *p) {
    const long long n = (long long)p->steps, k = (long long)p->count, b = (long long)p->separation;
    if (p->kind == DPMF_PARTICIPATION_FULL)
        add(t, "takes part in any number of the %lld steps", n);
    else if (p->kind == DPMF_PARTICIPATION_PATTERNS)
        add(t, "takes part in steps of one of the listed patterns (%s), at most %lld of the %lld steps", p->text, k, n);
    else if (p->kind == DPMF_PARTICIPATION_SINGLE || k == 1)
        add(t, "takes part in at most one of the %lld steps", n);
    else if (p->kind == DPMF_PARTICIPATION_SHUFFLED)
        add(t, "takes part at most once in each of the %lld epochs of %lld steps", k, b);
    else if (p->kind == DPMF_PARTICIPATION_CYCLIC)
        add(t, "takes part in at most %lld of the %lld steps, exactly %lld or a multiple of %lld apart", k, n, b, b);
    else if (b == 1)
        add(t, "takes part in at most %lld of the %lld steps, any of them", k, n);
    else
        add(t, "takes part in at most %lld of the %lld steps, any two of them at least %lld apart", k, n, b);
}

static void add_group(text *t, const dpmf_account_options *o, const char *unit) {
    if (o->group > 1)
        add(t, "The figures are for groups: any %lld of them together, or one %s that adds as much.\n",
            (long long)o->group, unit);
}

/* Who is protected: how often, how far apart, with how much in each step. */
static void add_protected(text *t, const dpmf_privacy *p, const dpmf_account_options *o, const char *unit) {
    const dpmf_coverage *c = &o->covered;
    char clip[40] = "the clip norm", number[32];
    if (c->family != NULL && c->clip > 0) {
        base_format_double(c->clip, number);
        snprintf(clip, sizeof clip, "%s", number);
    }
    if (c->family == NULL && dpmf_sampling_is_none(&o->sampling)) {
        add(t,
            "Protected: each %s that can move the run by at most the sensitivity of which sigma is a multiple. Without "
            "a "
            "mechanism nothing is known about how often it may take part.\n",
            unit);
        add_group(t, o, unit);
        return;
    }
    add(t, "Protected: each %s that ", unit);
    if (!dpmf_sampling_is_none(&o->sampling)) {
        add(t,
            "is one entry of the data that the sampling draws from, and adds at most %s, in l2 norm, to each step that "
            "draws it. ",
            clip);
        if (o->group > 1)
            add(t,
                "The figures are for any %lld such entries together, for example those of one user; a user with more "
                "of them "
                "is not covered.\n",
                (long long)o->group);
        else
            add(t, "No %s of several entries is covered.\n", unit);
        return;
    }
    if (c->participation.text == NULL)
        add(t, "has the participations that the log of the run has, if the choice of those who take part does not "
               "depend on the "
               "data");
    else if (p->compositions > 1)
        add(t, "in each of the %lld runs ", (long long)p->compositions);
    if (c->participation.text != NULL) add_participation(t, &c->participation);
    add(t,
        ", and adds at most %s, in l2 norm, to %s. For any %s that takes part otherwise or adds more the epsilon is "
        "another, and can be far larger.\n",
        clip, c->participation.count == 1 ? "it" : "each", unit);
    add_group(t, o, unit);
}

/* By which mechanism: steps designed and done, whether its noise is correlated, how sensitive it is, which file it is. */
static void add_mechanism(text *t, const dpmf_account_options *o) {
    const dpmf_coverage *c = &o->covered;
    const long long steps = (long long)c->participation.steps;
    if (c->family == NULL) return;
    add(t, "Mechanism: %s, designed for %lld steps", c->family, steps);
    if (c->first > 0)
        add(t, "; the figures are for the first %lld of them alone", (long long)c->first);
    else if (c->done >= 0 && c->done < steps)
        add(t, ", of which %lld are done; the figures are for %s", (long long)c->done,
            c->participation.text == NULL ? "what the log has" : "all of them");
    else if (c->done >= 0)
        add(t, ", all of which are done");
    add(t, c->correlated ? ". The noise of different steps is correlated: they are protected together, as one release"
                         : ". The noise of different steps is independent");
    if (c->sensitivity.value > 0)
        add(t, ". %s %.4g (%s, rounded up) for a clip norm of 1%s",
            c->sensitivity.of == DPMF_SENSITIVITY_COLUMN ? "Largest column norm" : "Sensitivity",
            up(c->sensitivity.value), dpmf_certainty_name(c->sensitivity.kind),
            c->sensitivity.columns == 1 ? " and contributions of one number: it holds for streams of one column alone"
                                        : "");
    if (c->digest != NULL && c->digest[0] != 0) add(t, ". SHA-256 of the mechanism: %s", c->digest);
    add(t, ".\n");
}

static void add_sampling(text *t, const dpmf_privacy *p, const dpmf_account_options *o, const char *unit) {
    const dpmf_sampling *s = &o->sampling;
    const sampling_row *row = &SAMPLINGS[s->kind];
    const sentence_values values = {.sampling = s,
                                    .digits = 9,
                                    .probability = p->probability,
                                    .compositions = p->compositions,
                                    .unit = unit,
                                    .bins = o->epochs > 0 ? "freshly in each epoch" : "once",
                                    .waits = o->warm ? "; at the start the waits are spread over all positions" : ""};
    if (row->sentence == NULL) {
        add(t, "No secret sampling is assumed: the figures hold for any order of the data within these limits.\n");
        return;
    }
    add(t, "This holds only for batches sampled exactly this way, with the randomness kept secret: ");
    for (int first = 1; first >= 0; first--) { /* the cap comes after a step that is drawn, before other choices */
        if (first == row->facts.composes) {
            add_sentence(t, row->sentence, &values);
            add(t, "\n");
        }
        if (first && o->batch_cap > 0)
            add(t,
                "At most %lld take part in a batch: if more are drawn from the %lld units, a random %lld of them take "
                "part%s.\n",
                (long long)o->batch_cap, (long long)o->units, (long long)o->batch_cap,
                o->adjacency == DPMF_ADJACENCY_ZERO_OUT ? "; zeroed-out ones count too" : "");
    }
    add(t, "Batches from a shuffled data loader do not satisfy this.\n");
    if (p->without_sampling > 0)
        add(t, "Without that assumption the same noise gives epsilon = %.4g at this delta.\n", up(p->without_sampling));
}

const char *account_real_noise(void) {
    return "Arithmetic: the noise is taken as real-valued";
}

size_t dpmf_privacy_statement(const dpmf_privacy *p, const dpmf_account_options *options, char *out, size_t size) {
    dpmf_account_options o = {.covered.done = -1};
    if (options != NULL) o = *options;
    if (o.batch_cap == 0) o.batch_cap = o.sampling.cap;
    if (o.units == 0) o.units = o.sampling.units;
    text t = {.out = out, .size = size};
    const int recorded = o.covered.unit != NULL && is_unit_name(o.covered.unit);
    const char *unit = recorded ? o.covered.unit : "unit";
    if (size > 0) out[0] = 0;
    add(&t,
        "All noisy outputs of the run together - every intermediate model or sum, not only the last - are (epsilon, "
        "delta)-differentially private with epsilon = %.4g and delta = %.4g.\n",
        up(p->epsilon), up(p->delta));
    const char *per = o.sigma_unit == 2 ? " (replace-one, twice the zero-out one)" : "";
    if (o.sigma_unit != 2 && o.adjacency == DPMF_ADJACENCY_REPLACE_ONE)
        per = " (the zero-out one: what one unit adds at most; a replacement can move twice as much, and the figures "
              "are for that)";
    if (p->sigma > 0)
        add(&t, "Noise multiplier sigma = %.9g: Gaussian noise of standard deviation clip norm x sigma x %s%s.\n",
            base_safe_digits(p->sigma, 9, 1),
            dpmf_sampling_is_none(&o.sampling) ? "sensitivity" : "largest column norm of C", per);
    add(&t, "Privacy unit: %s%s. ", recorded ? "one " : "not recorded", recorded ? unit : "");
    if (recorded && o.covered.unit_named && o.covered.family != NULL)
        add(&t, "The mechanism records no unit: that it is one %s is the word of the caller. ", unit);
    if (o.adjacency == DPMF_ADJACENCY_ZERO_OUT)
        add(&t,
            "Data sets are neighbours when all contributions of one %s are replaced by zeros (zero-out adjacency).\n",
            unit);
    else if (o.adjacency == DPMF_ADJACENCY_ADD_REMOVE)
        add(&t, "Data sets are neighbours when one %s is added or removed (add-remove adjacency).\n", unit);
    else
        add(&t, "Data sets are neighbours when one %s is replaced by another (replace-one adjacency).\n", unit);
    add_protected(&t, p, &o, unit);
    add_mechanism(&t, &o);
    if (p->total_rho > 0) add(&t, "The run is %.6g-zCDP", up(p->total_rho));
    if (p->total_rho > 0 && p->total_mu > 0) add(&t, " and %.6g-GDP", up(p->total_mu));
    if (p->total_rho > 0) add(&t, ".\n");
    add_sampling(&t, p, &o, unit);
    if (p->kind == DPMF_EXACT)
        add(&t, "The figure is exact (%s).\n", p->method);
    else if (p->kind == DPMF_ESTIMATE)
        add(&t, "The figure is an estimate without a certificate (%s): do not publish it as a guarantee.\n", p->method);
    else if (p->confidence > 0)
        add(&t, "The figure is an upper bound that holds with probability %.6g over the simulation (%s).\n",
            base_safe_digits(p->confidence, 6, -1), p->method);
    else
        add(&t, "The figure is a proven upper bound (%s)%s.\n", p->method,
            p->slack_met ? "" : "; it may be looser than requested");
    add(&t, "%s; hyper-parameters chosen on the same data are not accounted for.\n", account_real_noise());
    return t.length;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include "options/options.h"
#include "output.h"
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dpmf_status key_from_options(const arguments *given, uint8_t key[DPMF_KEY_SIZE]) {
    if (option_given(given, OPTION_TESTING_SEED))
        return dpmf_key_testing((uint64_t)given->count[OPTION_TESTING_SEED], key);
    if (option_given(given, OPTION_KEY_FILE)) return dpmf_key_load(given->text[OPTION_KEY_FILE], 1, key);
    return dpmf_key_create(key);
}

/* E,D */
static bool read_budget(const char *text, double *epsilon, double *delta) {
    char first[64];
    const size_t length = strcspn(text, ",");
    if (text[length] != ',' || length >= sizeof first) return false;
    memcpy(first, text, length);
    first[length] = '\0';
    return read_number(first, epsilon) && read_number(text + length + 1, delta) && *epsilon > 0.0 && *epsilon < 1e6 &&
           *delta >= 1e-300 && *delta < 1.0;
}

int ledger_check(const arguments *given) {
    const char *text = option_text(given, OPTION_BUDGET);
    double epsilon = 0.0, delta = 0.0;
    char shown[SHOWN];
    if (text == NULL) return 0;
    if (!option_given(given, OPTION_LEDGER)) return fail(EXIT_USAGE, "--budget needs --ledger FILE");
    if (read_budget(text, &epsilon, &delta)) return 0;
    return fail(EXIT_USAGE, "--budget %s: E,D is accepted, as in 5,1e-6: epsilon above 0 and below 1e6, delta below 1",
                show(text, shown));
}

int ledger_enter(const arguments *given, const dpmf_mechanism *mechanism, const uint8_t key[DPMF_KEY_SIZE],
                 const uint8_t salt[DPMF_SALT_SIZE], const char *binding) {
    const char *path = option_text(given, OPTION_LEDGER);
    dpmf_ledger_options how = dpmf_ledger_options_defaults();
    if (path == NULL) return 0;
    if (option_given(given, OPTION_BUDGET) &&
        !read_budget(option_text(given, OPTION_BUDGET), &how.budget_epsilon, &how.budget_delta))
        return ledger_check(given);
    how.what = verbs[given->verb].name;
    how.binding = binding;
    how.salt = salt;
    how.run = run_with(1);
    dpmf_status status = dpmf_ledger_enter(path, mechanism, key, &how, NULL);
    progress_clear();
    return status == DPMF_OK ? 0 : fail_status(status, "--ledger");
}

bool ledger_is(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    const int first = fgetc(file); /* JSON; a mechanism file begins with the length of its header */
    const int second = fgetc(file);
    fclose(file);
    return first == '{' && second == '"';
}

/* ---- account --compose ---- */

typedef struct part {
    const char *path;          /* of a file, or the text of a guarantee */
    dpmf_mechanism *mechanism; /* NULL: a ledger or a guarantee */
    dpmf_ledger *entries;      /* NULL: a guarantee */
    int64_t times;
    double epsilon; /* alone, as often as it was run; at the same delta */
} part;

typedef struct composition {
    int count;
    part parts[OPERANDS_MAX];
    dpmf_adjacency adjacency;
    dpmf_ledger *ledger;
    dpmf_privacy found;
} composition;

/* pure:1 and its like, instead of a file; a file with such a name is written ./pure:1. */
static bool is_guarantee(const char *text) {
    static const char *const kinds[] = {"pure:", "approximate:", "laplace:", "pld:"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (strncmp(text, kinds[i], strlen(kinds[i])) == 0) return true;
    return false;
}

static int read_times(const arguments *given, composition *c) {
    const char *text = option_text(given, OPTION_TIMES);
    for (int i = 0; i < c->count; ++i) {
        char *end = NULL;
        c->parts[i].times = 1;
        if (text == NULL) continue;
        c->parts[i].times = strtoll(text, &end, 10);
        const bool last = i + 1 == c->count;
        if (end == text || *end != (last ? '\0' : ',') || c->parts[i].times < 1 || c->parts[i].times > 1000000000)
            return fail(EXIT_USAGE, "--times %s: one whole number from 1 to 1e9 for each of %d parts, joined by commas",
                        option_text(given, OPTION_TIMES), c->count);
        text = end + 1;
    }
    return 0;
}

/* That of the first file, else as asked for: others are refused when they are added. */
static int take_adjacency(const arguments *given, composition *c) {
    const bool asked = option_given(given, OPTION_ADJACENCY);
    if (dpmf_adjacency_parse(option_text(given, OPTION_ADJACENCY), &c->adjacency) != DPMF_OK)
        return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    for (int i = 0; i < c->count; ++i) {
        const part *p = &c->parts[i];
        if (p->mechanism == NULL && p->entries == NULL) continue;
        const dpmf_adjacency held =
            p->mechanism != NULL ? dpmf_mechanism_get(p->mechanism).adjacency : dpmf_ledger_get(p->entries).adjacency;
        if (asked && held != c->adjacency)
            return fail(EXIT_USAGE, "--adjacency %s: the FILE has %s", option_text(given, OPTION_ADJACENCY),
                        dpmf_adjacency_name(held));
        c->adjacency = held;
        break;
    }
    return 0;
}

/* group 0: those of the files. */
static dpmf_status add_part(dpmf_ledger *to, const part *p, int64_t group) {
    if (p->entries != NULL) return dpmf_ledger_add_ledger(to, p->entries);
    if (p->mechanism == NULL) return dpmf_ledger_add_guarantee(to, p->path, p->times);
    dpmf_account_options how = dpmf_mechanism_account_options(p->mechanism);
    const double sigma = dpmf_mechanism_get(p->mechanism).sigma;
    if (group == 0 || sigma == 0.0) return dpmf_ledger_add_mechanism(to, p->mechanism, p->times);
    how.group = group;
    return dpmf_ledger_add_sampled(to, sigma, &how, p->times);
}

static int load(const arguments *given, composition *c) {
    c->count = given->operand_count;
    if (c->count == 0) return fail(EXIT_USAGE, "--compose needs mechanism FILEs, ledger FILEs or guarantees as pure:1");
    int code = read_times(given, c);
    for (int i = 0; code == 0 && i < c->count; ++i) {
        part *p = &c->parts[i];
        char shown[SHOWN];
        p->path = given->operands[i];
        if (given->count[OPTION_GROUP] > 1 && (is_guarantee(p->path) || ledger_is(p->path)))
            code = fail(EXIT_USAGE, "--group: %s has a unit of its own, mechanism FILEs alone are accepted with it",
                        show(p->path, shown));
        if (code != 0 || is_guarantee(p->path)) continue;
        if (!ledger_is(p->path)) {
            code = load_confirmed(p->path, (int)given->count[OPTION_THREADS], &p->mechanism);
        } else if (p->times != 1) {
            code = fail(EXIT_USAGE, "--times: %s is a ledger, which counts once", show(p->path, shown));
        } else {
            dpmf_status status = dpmf_ledger_load(p->path, &p->entries);
            if (status != DPMF_OK) code = fail_status(status, NULL);
        }
    }
    return code;
}

static int check_options(const arguments *given) {
    static const option_id idle[] = {
        OPTION_SIGMA,     OPTION_RHO,        OPTION_GAUSSIAN, OPTION_COMPOSITIONS, OPTION_LARGEST, OPTION_BATCH_CAP,
        OPTION_UNITS,     OPTION_CURVE,      OPTION_EPOCHS,   OPTION_LOG,          OPTION_ENGINE,  OPTION_SEED,
        OPTION_TOLERANCE, OPTION_CONFIDENCE, OPTION_FIRST,    OPTION_TUNING,       OPTION_FPR,     OPTION_TPR,
        OPTION_ADVANTAGE, OPTION_PRIOR,      OPTION_UNIT};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; ++i)
        if (option_given(given, idle[i]))
            return fail(EXIT_USAGE, "--compose takes its runs from the FILEs: --%s is not accepted with it",
                        options[idle[i]].name);
    if (option_given(given, OPTION_SAMPLING))
        return fail(EXIT_USAGE, "--compose: the samplings are those of the FILEs");
    if (option_given(given, OPTION_DELTA) == option_given(given, OPTION_EPSILON))
        return fail(EXIT_USAGE, "--compose: give one of --delta and --epsilon");
    return 0;
}

/* Alone, as often as it was run, at the delta of all together. */
static dpmf_status account_alone(part *p, dpmf_adjacency adjacency, int64_t group, double delta, const dpmf_run *run) {
    dpmf_ledger *alone = NULL;
    dpmf_privacy privacy = {0};
    dpmf_status status = dpmf_ledger_create(adjacency, &alone);
    if (status == DPMF_OK) status = add_part(alone, p, group);
    if (status == DPMF_OK && delta >= 1e-300 && delta < 1.0) status = dpmf_ledger_epsilon(alone, delta, run, &privacy);
    p->epsilon = privacy.epsilon;
    dpmf_ledger_free(alone);
    return status;
}

static int compute(const arguments *given, composition *c) {
    const dpmf_run run = run_with((int)given->count[OPTION_THREADS]);
    const bool of_epsilon = option_given(given, OPTION_DELTA);
    const int64_t group = option_given(given, OPTION_GROUP) ? given->count[OPTION_GROUP] : 0;
    dpmf_status status = dpmf_ledger_create(c->adjacency, &c->ledger);
    for (int i = 0; status == DPMF_OK && i < c->count; ++i)
        status = add_part(c->ledger, &c->parts[i], group);
    if (status == DPMF_OK)
        status = of_epsilon ? dpmf_ledger_epsilon(c->ledger, given->number[OPTION_DELTA], &run, &c->found)
                            : dpmf_ledger_delta(c->ledger, given->number[OPTION_EPSILON], &run, &c->found);
    for (int i = 0; status == DPMF_OK && i < c->count; ++i)
        status = account_alone(&c->parts[i], c->adjacency, group, c->found.delta, &run);
    if (status == DPMF_OK && option_given(given, OPTION_EXPORT))
        status = dpmf_ledger_export(c->ledger, option_text(given, OPTION_EXPORT), 0.0, &run);
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

/* Gaussian runs alone, under a budget that was fixed beforehand, may be chosen one after the other. */
static const char *condition_of(const composition *c) {
    const part *first = &c->parts[0];
    bool guarantees = false;
    bool drawn = false;
    for (int i = 0; i < c->count; ++i) {
        const bool guarantee = is_guarantee(c->parts[i].path);
        guarantees = guarantees || guarantee;
        drawn = drawn || (guarantee && strstr(c->parts[i].path, "@poisson:") != NULL);
    }
    if (drawn && c->adjacency == DPMF_ADJACENCY_ZERO_OUT)
        return "if every mechanism has the guarantee or the privacy curve that was given for it under the same "
               "adjacency and treats a unit that is replaced by zeros exactly like one that was not drawn (a batch "
               "size "
               "that is released, or divided by, breaks this), if the choice of mechanisms did not depend on what "
               "earlier ones released, and if each was sampled as described";
    if (guarantees)
        return "if every mechanism has the guarantee or the privacy curve that was given for it under the same "
               "adjacency, "
               "if the choice of mechanisms did not depend on what earlier ones released, and if each was sampled as "
               "described";
    if (!(c->found.total_mu > 0.0))
        return "if the choice of runs did not depend on what earlier runs released, and if each was sampled as its "
               "file describes";
    if (c->count == 1 && first->entries != NULL && dpmf_ledger_get(first->entries).budget_epsilon > 0.0)
        return "even if runs were chosen by what earlier runs released: all are Gaussian, and each was entered under a "
               "budget that was fixed beforehand (a filter for Gaussian privacy, Smith and Thakurta 2022)";
    return "if the choice of runs did not depend on what earlier runs released (all are Gaussian: a ledger with a "
           "budget would allow that)";
}

static void add_statement(text_buffer *t, alphabet how, const composition *c) {
    add_words(
        t, how,
        "All noisy outputs of these runs together are (epsilon, delta)-differentially private with epsilon = %.6g and "
        "delta = %.6g, %s. The figure is %s (%s).",
        safe_digits(c->found.epsilon, 6, 1), safe_digits(c->found.delta, 6, 1), condition_of(c),
        c->found.kind == DPMF_EXACT ? "exact" : "a proven upper bound", c->found.method);
}

static void json_part(text_buffer *t, const part *p) {
    const bool guarantee = p->mechanism == NULL && p->entries == NULL;
    json_open(t, NULL, '{');
    json_text(t, guarantee ? "guarantee" : "file", p->path);
    if (guarantee) {
        json_integer(t, "times", p->times);
    } else if (p->mechanism != NULL) {
        const dpmf_sampling of_part = dpmf_mechanism_get(p->mechanism).sampling;
        char sampling[64] = "";
        if (dpmf_sampling_format(&of_part, sampling) != DPMF_OK) sampling[0] = '\0';
        json_text(t, "digest", dpmf_mechanism_get(p->mechanism).digest);
        json_integer(t, "times", p->times);
        json_double(t, "sigma", dpmf_mechanism_get(p->mechanism).sigma);
        json_text(t, "sampling", sampling);
    } else {
        json_integer(t, "entries", dpmf_ledger_get(p->entries).entries);
        json_known(t, "budget_epsilon", dpmf_ledger_get(p->entries).budget_epsilon);
        json_known(t, "budget_delta", dpmf_ledger_get(p->entries).budget_delta);
    }
    json_double(t, "epsilon_alone", p->epsilon);
    json_close(t, '}');
}

static void print_json(text_buffer *t, const composition *c) {
    text_buffer statement = {0};
    json_begin(t);
    json_double(t, "epsilon", c->found.epsilon);
    json_double(t, "delta", c->found.delta);
    json_text(t, "kind", dpmf_certainty_name(c->found.kind));
    json_text(t, "method", c->found.method);
    json_text(t, "adjacency", dpmf_adjacency_name(c->adjacency));
    json_bool(t, "slack_met", c->found.slack_met != 0);
    json_open(t, "parts", '[');
    for (int i = 0; i < c->count; ++i)
        json_part(t, &c->parts[i]);
    json_close(t, ']');
    add_statement(&statement, ALPHABET_ASCII, c);
    json_text(t, "statement", statement.bytes);
    text_free(&statement);
    json_end(t);
}

static void print_table(text_buffer *t, const composition *c, bool of_epsilon) {
    const char *kind = dpmf_certainty_name(c->found.kind);
    table_upper(t, "epsilon", c->found.epsilon, of_epsilon ? kind : NULL);
    table_upper(t, "delta", c->found.delta, of_epsilon ? NULL : kind);
    table_text(t, "method", c->found.method);
    text_add(t, "\n%-14s %-6s %s\n", "epsilon alone", "times", "file or guarantee");
    for (int i = 0; i < c->count; ++i)
        text_add(t, "%-14.6g %-6lld %s\n", c->parts[i].epsilon, (long long)c->parts[i].times, c->parts[i].path);
    text_add(t, "\n");
    add_statement(t, terminal_alphabet(), c);
    text_add(t, "\n");
}

int account_compose(const arguments *given) {
    composition c = {0};
    text_buffer t = {0};
    int code = check_options(given);
    if (code == 0) code = load(given, &c);
    if (code == 0) code = take_adjacency(given, &c);
    if (code == 0) code = compute(given, &c);
    if (code == 0) {
        if (option_given(given, OPTION_JSON))
            print_json(&t, &c);
        else
            print_table(&t, &c, option_given(given, OPTION_DELTA));
        code = text_print(&t);
    }
    text_free(&t);
    dpmf_ledger_free(c.ledger);
    for (int i = 0; i < c.count; ++i)
        dpmf_mechanism_free(c.parts[i].mechanism);
    for (int i = 0; i < c.count; ++i)
        dpmf_ledger_free(c.parts[i].entries);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* design: the options of a training run, the comparison as a table or JSON, and the chosen mechanism in a file. */
#include "calendar.h"
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"
#include "problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATEMENT_MAX = 8192 };

/* ---- options ---- */

static bool is_listed(const arguments *given) {
    return option_given(given, OPTION_PARTICIPATION) &&
           strncmp(option_text(given, OPTION_PARTICIPATION), "file:", 5) == 0;
}

/* min-sep:K,B or min-sep:K,LOW..HIGH */
static int read_participation(const char *text, dpmf_design_options *how) {
    char times[32] = "", low[32] = "", shown[SHOWN];
    int used = 0;
    const bool named = sscanf(text, "min-sep:%31[^,],%31[^.]%n", times, low, &used) == 2 ||
                       sscanf(text, "minsep:%31[^,],%31[^.]%n", times, low, &used) == 2;
    const char *high = strncmp(text + used, "..", 2) == 0 ? text + used + 2 : text[used] == '\0' ? low : "";
    if (!named || !read_count(times, &how->epochs) || !read_count(low, &how->separation_low) ||
        !read_count(high, &how->separation_high) || how->epochs < 1 || how->separation_low < 1 ||
        how->separation_low > how->separation_high)
        return fail(EXIT_USAGE,
                    "--participation %s: design accepts min-sep:K,B and min-sep:K,LOW..HIGH, as in min-sep:5,200..400 "
                    "(LOW at most HIGH), file:PATTERNS, or --epochs K for cyclic participation",
                    show(text, shown));
    how->federated = 1;
    if (how->epochs > 1 && how->unit == NULL)
        return fail(
            EXIT_USAGE,
            "--participation %s: one unit takes part up to %" PRId64
            " times, and epsilon is for all of it: design needs --unit NAME (example, user or another word), for "
            "example --unit user",
            show(text, shown), how->epochs);
    return 0;
}

static int read_sampling(const arguments *given, dpmf_design_options *how) {
    const char *text = option_text(given, OPTION_SAMPLING);
    const dpmf_sampling_facts *kind;
    char shown[SHOWN], names[200] = "";
    how->batch_cap = given->count[OPTION_BATCH_CAP];
    how->units = given->count[OPTION_UNITS];
    how->group = given->count[OPTION_GROUP];
    how->any_sampling = strcmp(text, "any") == 0;
    if (option_given(given, OPTION_BATCH_CAP) && (!option_given(given, OPTION_UNITS) || strcmp(text, "none") == 0))
        return fail(EXIT_USAGE, "--batch-cap needs --units, and --sampling poisson, block-cyclic, min-sep or any");
    for (int i = 0; (kind = dpmf_sampling_describe((dpmf_sampling_kind)i)) != NULL; i++) {
        const size_t used = strlen(names);
        if (strcmp(text, kind->name) == 0) {
            how->sampling = (dpmf_sampling_kind)i;
            return 0;
        }
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", kind->name);
    }
    if (how->any_sampling) return 0;
    return fail(EXIT_USAGE, "--sampling %s: design accepts %s and any (numbers follow from the epochs and the bands)",
                show(text, shown), names);
}

/* ---- in the words of federated learning ---- */

static bool has_users(const arguments *given) {
    return option_given(given, OPTION_USERS) || option_given(given, OPTION_ROUNDS) ||
           option_given(given, OPTION_PER_ROUND) || option_given(given, OPTION_SEPARATION);
}

static int64_t steps_of(const arguments *given) {
    return given->count[has_users(given) ? OPTION_ROUNDS : OPTION_STEPS];
}

static int64_t units_of(const arguments *given) {
    return given->count[has_users(given) ? OPTION_USERS : OPTION_UNITS];
}

static int check_users(const arguments *given) {
    static const option_id needed[] = {OPTION_USERS, OPTION_ROUNDS, OPTION_PER_ROUND, OPTION_EPSILON, OPTION_DELTA},
                           others[] = {OPTION_STEPS, OPTION_EPOCHS, OPTION_PARTICIPATION, OPTION_UNITS};
    const int64_t users = given->count[OPTION_USERS], most = given->count[OPTION_PER_ROUND];
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!option_given(given, needed[i]))
            return fail(EXIT_USAGE, "a federated design needs --%s %s", options[needed[i]].name,
                        options[needed[i]].argument);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_given(given, others[i]))
            return fail(EXIT_USAGE, "--%s: not with --users, --rounds and --per-round, from which it follows",
                        options[others[i]].name);
    if (!option_is(given, OPTION_SAMPLING, "none"))
        return fail(EXIT_USAGE,
                    "--sampling %s: not with --users: the server knows who takes part, so that nothing is secret",
                    option_text(given, OPTION_SAMPLING));
    if (most > users)
        return fail(EXIT_USAGE, "--per-round %" PRId64 ": at most %" PRId64 " (the users) are accepted", most, users);
    return 0;
}

/* Rounds and users as steps and participation. */
static int read_users(const arguments *given, dpmf_design_options *how) {
    const int64_t users = given->count[OPTION_USERS], rounds = given->count[OPTION_ROUNDS],
                  most = given->count[OPTION_PER_ROUND], turn = users / most;
    const char *text = option_text(given, OPTION_SEPARATION);
    char low[32] = "", shown[SHOWN];
    int used = 0;
    if (how->unit == NULL) how->unit = "user";
    if (text == NULL) {
        const int64_t groups = (users - 1) / most + 1;
        how->separation_low = groups < rounds ? groups : rounds;
        how->epochs = (rounds - 1) / how->separation_low + 1;
        return 0;
    }
    const bool named = sscanf(text, "%31[^.]%n", low, &used) == 1;
    const char *high = strncmp(text + used, "..", 2) == 0 ? text + used + 2 : text[used] == '\0' ? low : "";
    if (!named || !read_count(low, &how->separation_low) || !read_count(high, &how->separation_high) ||
        how->separation_low < 1 || how->separation_low > how->separation_high || how->separation_high > rounds)
        return fail(EXIT_USAGE,
                    "--separation %s: LOW or LOW..HIGH are accepted, with 1 <= LOW <= HIGH <= %" PRId64 " (the rounds)",
                    show(text, shown), rounds);
    if (how->separation_low > turn)
        return fail(EXIT_USAGE,
                    "--separation %s: LOW is at most %" PRId64 ", because %" PRId64 " users at %" PRId64
                    " per round have all had a turn after that",
                    show(text, shown), turn, users, most);
    how->federated = 1;
    how->epochs = (rounds - 1) / how->separation_low + 1;
    return 0;
}

/* ---- in the words of counting ---- */

static bool is_counting(const arguments *given) {
    return option_given(given, OPTION_AT_MOST);
}

/* What the words of bound allow: rows in windows of lines, and so a participation and a group. */
typedef struct counting {
    int64_t windows, uses, rows; /* windows that are protected together; lines of a unit; rows of it in each of these */
    bool alone;                  /* each window of a user is a unit */
} counting;

static int64_t lines_of_window(period by, period per, int64_t steps) {
    static const int64_t days[PERIOD_TOTAL] = {[PERIOD_DAY] = 1, [PERIOD_WEEK] = 7, [PERIOD_MONTH] = 31};
    int64_t most = per == PERIOD_EVER ? steps : by == per ? 1 : days[per] * (by == PERIOD_HOUR ? 24 : 1);
    return most < steps ? most : steps;
}

static counting counting_of(const arguments *given) {
    period by = PERIOD_DAY, per = PERIOD_EVER;
    const int64_t most = given->count[OPTION_AT_MOST], steps = given->count[OPTION_STEPS];
    const char *unit = option_text(given, OPTION_UNIT), *word = option_text(given, OPTION_PER);
    const char *last = strrchr(unit, '-');
    period_read(option_text(given, OPTION_BY), &by);
    period_read(word, &per);
    counting c = {.alone = last != NULL && strcmp(last + 1, word) == 0, .rows = most};
    c.windows = c.alone ? 1 : calendar_touched(per, by, steps);
    c.uses = c.windows;
    if (option_given(given, OPTION_ONCE)) {
        const int64_t lines = lines_of_window(by, per, steps);
        c.uses *= most < lines ? most : lines;
        c.rows = 1;
    }
    if (c.uses > steps) c.uses = steps;
    return c;
}

static int check_counting(const arguments *given) {
    static const option_id others[] = {OPTION_EPOCHS, OPTION_PARTICIPATION, OPTION_GROUP, OPTION_BATCH_CAP,
                                       OPTION_UNITS};
    const char *unit = option_text(given, OPTION_UNIT), *per = option_text(given, OPTION_PER);
    const char *last = unit != NULL ? strrchr(unit, '-') : NULL;
    period by = PERIOD_DAY, window = PERIOD_EVER, named = PERIOD_EVER;
    char shown[SHOWN];
    if (has_users(given)) return fail(EXIT_USAGE, "--at-most: not with the words of federated learning (--users)");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_given(given, others[i]))
            return fail(EXIT_USAGE, "--%s: not with --at-most, from which it follows", options[others[i]].name);
    if (!option_is(given, OPTION_SAMPLING, "none"))
        return fail(EXIT_USAGE, "--sampling %s: not with --at-most: counts sample nothing",
                    option_text(given, OPTION_SAMPLING));
    if (unit == NULL)
        return fail(EXIT_USAGE,
                    "--at-most: who is protected? --unit user: all rows of a user together; --unit user-day, "
                    "user-week or user-month, with the same --per: those of one such window alone");
    period_read(option_text(given, OPTION_BY), &by);
    period_read(per, &window);
    if (!calendar_nested(by, window))
        return fail(EXIT_USAGE, "--by %s: a line must lie within one %s (--per)", option_text(given, OPTION_BY), per);
    if (last != NULL && period_read(last + 1, &named) && named != window)
        return fail(EXIT_USAGE, "--unit %s: with --per %s the unit is user (all rows together)%s%s", show(unit, shown),
                    per, window == PERIOD_EVER ? "" : " or user-", window == PERIOD_EVER ? "" : per);
    return 0;
}

static void read_counting(const arguments *given, dpmf_design_options *how) {
    const counting c = counting_of(given);
    how->epochs = c.uses;
    how->group = c.rows;
    if (!option_given(given, OPTION_DIM)) how->dim = 1;
    if (c.uses == 1) return;
    how->federated = 1;
    how->separation_low = how->separation_high = 1;
}

/* The same in a sentence, with the commands that use the file. */
static void add_counting(text_buffer *t, const arguments *given) {
    const counting c = counting_of(given);
    const int64_t most = given->count[OPTION_AT_MOST];
    const char *per = option_text(given, OPTION_PER), *file = option_text(given, OPTION_OUT);
    const bool ever = strcmp(per, "ever") == 0, once = option_given(given, OPTION_ONCE);
    text_add(t, "A user counts with at most %" PRId64 " row%s %s%s", most, most == 1 ? "" : "s",
             ever ? "in the whole stream" : "in each ", ever ? "" : per);
    if (once) text_add(t, ", at most one of them in a line");
    if (c.alone)
        text_add(t, ". One %s of a user is protected; a user who comes in several is not, as a whole.", per);
    else if (!ever)
        text_add(t, ". All of them together are protected: the lines touch up to %" PRId64 " %ss.", c.windows, per);
    else
        text_add(t, ". All of them together are protected.");
    text_add(t,
             " Make the lines with dpmf bound --at-most %" PRId64
             " --per %s%s --by %s, and publish them with dpmf count "
             "%s, whose --clip stays 1: the noise is for %" PRId64 " row%s already.",
             most, per, once ? " --once" : "", option_text(given, OPTION_BY), file != NULL ? file : "FILE", c.rows,
             c.rows == 1 ? "" : "s");
}

static int check_needed(const arguments *given) {
    static const option_id needed[] = {OPTION_STEPS, OPTION_EPSILON, OPTION_DELTA};
    if (has_users(given)) {
        int code = check_users(given);
        if (code != 0) return code;
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!has_users(given) && !option_given(given, needed[i]))
            return fail(EXIT_USAGE, "design needs --%s %s", options[needed[i]].name, options[needed[i]].argument);
    static const option_id counted[] = {OPTION_PER, OPTION_ONCE, OPTION_BY};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        if (!is_counting(given) && option_given(given, counted[i]))
            return fail(EXIT_USAGE, "--%s needs --at-most K, the rows of a user that are counted",
                        options[counted[i]].name);
    if (is_counting(given)) {
        int code = check_counting(given);
        if (code != 0) return code;
    } else if (!has_users(given) && option_given(given, OPTION_EPOCHS) == option_given(given, OPTION_PARTICIPATION))
        return fail(EXIT_USAGE,
                    "design needs one of --epochs K and --participation min-sep:K,LOW..HIGH or file:PATTERNS, "
                    "or --at-most K to count, or --users, --rounds and --per-round");
    if (option_is(given, OPTION_RELEASE, "exact") && !option_given(given, OPTION_DIM))
        return fail(EXIT_USAGE,
                    "--release exact needs --dim M: rounding adds to the sensitivity, more for larger rows");
    if (!(given->number[OPTION_EPSILON] > 0.0))
        return fail(EXIT_USAGE, "--epsilon %s: a number above 0 is accepted", option_text(given, OPTION_EPSILON));
    if (option_given(given, OPTION_EPOCHS) && given->count[OPTION_EPOCHS] > given->count[OPTION_STEPS])
        return fail(EXIT_USAGE, "--epochs %" PRId64 ": at most %" PRId64 " (the steps) are accepted",
                    given->count[OPTION_EPOCHS], given->count[OPTION_STEPS]);
    return 0;
}

static int read_options(const arguments *given, dpmf_design_options *how) {
    *how = dpmf_design_options_defaults();
    how->epochs = given->count[OPTION_EPOCHS];
    how->epsilon = given->number[OPTION_EPSILON];
    how->delta = given->number[OPTION_DELTA];
    how->dim = given->count[OPTION_DIM];
    how->memory = memory_limit(given);
    if (option_given(given, OPTION_MAX_OVERHEAD)) how->max_overhead = given->number[OPTION_MAX_OVERHEAD];
    how->families = option_text(given, OPTION_FAMILIES);
    how->measure = option_given(given, OPTION_MEASURE);
    how->unit = option_text(given, OPTION_UNIT);
    if (option_given(given, OPTION_STAMPS)) how->stamps = given->count[OPTION_STAMPS];
    if (option_given(given, OPTION_TOLERANCE)) how->tolerance = given->number[OPTION_TOLERANCE];
    how->run = run_with((int)given->count[OPTION_THREADS]);
    if (dpmf_adjacency_parse(option_text(given, OPTION_ADJACENCY), &how->adjacency) != DPMF_OK)
        return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    int code = take_loss(given, &how->loss, &how->loss_power);
    if (code == 0) code = read_sampling(given, how);
    if (code == 0 && has_users(given)) code = read_users(given, how);
    if (code == 0 && is_counting(given)) read_counting(given, how);
    if (is_listed(given)) how->epochs = 1; /* the patterns determine how often */
    if (code == 0 && option_given(given, OPTION_PARTICIPATION) && !is_listed(given))
        code = read_participation(option_text(given, OPTION_PARTICIPATION), how);
    return code;
}

/* ---- JSON ---- */

static void json_candidate(text_buffer *t, const char *key, const dpmf_candidate *c) {
    char sampling[64] = "none";
    if (dpmf_sampling_format(&c->sampling, sampling) != DPMF_OK) sampling[0] = '\0';
    json_open(t, key, '{');
    json_text(t, "family", c->family);
    json_count_known(t, "bands", c->bands);
    json_integer(t, "buffers", c->buffers);
    json_double(t, "sigma", c->sigma);
    json_sensitivity(t, c->sensitivity);
    json_double(t, "rms_loss", c->rms_loss);
    json_double(t, "max_loss", c->max_loss);
    json_double(t, "noise_rms", c->noise_rms);
    json_double(t, "noise_max", c->noise_max);
    json_integer(t, "memory_bytes", (int64_t)c->memory_bytes);
    json_known(t, "overhead", c->overhead);
    json_known(t, "ratio", c->ratio);
    json_bool(t, "eligible", c->eligible != 0);
    json_text(t, "reason", c->reason);
    json_text(t, "sampling", sampling);
    json_bool(t, "amplified", !dpmf_sampling_is_none(&c->sampling));
    json_bool(t, "normalized", c->normalized != 0);
    json_text(t, "sigma_kind", dpmf_certainty_name(c->sigma_kind));
    json_known(t, "seconds_per_step", c->seconds_per_step);
    json_known(t, "milliseconds_per_step", 1e3 * c->seconds_per_step);
    json_double(t, "normals_per_number", c->normals_per_number);
    json_text(t, "account", c->account);
    json_known(t, "confidence", c->confidence);
    json_known(t, "worst_ratio", c->worst_ratio);
    json_count_known(t, "worst_separation", c->worst_at);
    json_double(t, "noise", c->noise); /* of the loss that decides */
    json_integer(t, "stamps", c->stamps);
    json_close(t, '}');
}

/* The candidates proper, or the points of the searches over bands and buffers. */
static void json_candidates(text_buffer *t, const char *key, const dpmf_design *d, bool is_search_point) {
    json_open(t, key, '[');
    for (int64_t i = 0; i < dpmf_design_get(d).count; i++)
        if ((dpmf_design_candidate(d, i)->is_search_point != 0) == is_search_point)
            json_candidate(t, NULL, dpmf_design_candidate(d, i));
    json_close(t, ']');
}

static void print_json(text_buffer *t, const arguments *given, const dpmf_design *d, const dpmf_exact *exact,
                       const char *statement) {
    const dpmf_mechanism *m = dpmf_design_get(d).mechanism;
    json_begin(t);
    json_integer(t, "steps", steps_of(given));
    if (has_users(given)) {
        json_integer(t, "users", given->count[OPTION_USERS]);
        json_integer(t, "per_round", given->count[OPTION_PER_ROUND]);
    }
    json_text(t, "workload", dpmf_workload_get(dpmf_mechanism_get(m).workload).text);
    json_text(t, "participation", dpmf_participation_get(dpmf_mechanism_get(m).participation).text);
    json_double(t, "epsilon", given->number[OPTION_EPSILON]);
    json_double(t, "delta", given->number[OPTION_DELTA]);
    if (units_of(given) > 0)
        json_bool(t, "delta_below_one_unit", !delta_too_large(given->number[OPTION_DELTA], units_of(given)));
    if (is_counting(given)) {
        const counting c = counting_of(given);
        json_open(t, "counting", '{');
        json_integer(t, "at_most", given->count[OPTION_AT_MOST]);
        json_text(t, "per", option_text(given, OPTION_PER));
        json_text(t, "by", option_text(given, OPTION_BY));
        json_bool(t, "once", option_given(given, OPTION_ONCE));
        json_integer(t, "windows", c.windows);
        json_integer(t, "lines", c.uses);
        json_integer(t, "rows", c.rows);
        json_close(t, '}');
    }
    json_candidates(t, "candidates", d, false);
    json_candidate(t, "chosen", dpmf_design_candidate(d, dpmf_design_get(d).chosen));
    if (exact->grid > 0) {
        json_open(t, "exact", '{');
        json_double(t, "grid_per_clip", exact->grid);
        json_double(t, "sensitivity", exact->sensitivity);
        json_double(t, "rounding", exact->rounding);
        json_double(t, "arithmetic", exact->arithmetic);
        json_close(t, '}');
    }
    json_text(t, "statement", statement);
    json_text(t, "why", dpmf_design_get(d).why);
    json_known(t, "sampling_would_save", dpmf_design_get(d).sampling_would_save);
    json_open(t, "warnings", '[');
    for (int64_t i = 0; i < dpmf_design_get(d).warnings; i++)
        json_text(t, NULL, dpmf_design_warning(d, i));
    json_close(t, ']');
    json_candidates(t, "sweep", d, true);
    json_text(t, "digest", dpmf_mechanism_get(m).digest);
    const dpmf_account_options accounted = dpmf_mechanism_account_options(m);
    json_text(t, "unit", dpmf_mechanism_get(m).unit);
    json_protected(t, &accounted);
    json_end(t);
}

/* ---- the table ---- */

/*
 * Over a range of separations the worst ratio decides, and has a column after the name, which is then short: nothing is
 * normalized or sampled there.
 */
enum { NAME_WIDTH = 29, NAME_WIDTH_FEDERATED = 16 };

static void table_candidate(text_buffer *t, const dpmf_candidate *c, bool chosen, bool measured) {
    char name[80], stamps[40] = "", bands[24] = "-", memory[BYTES_SHOWN], ratio[24] = "-";
    const bool worst = c->worst_ratio > 0.0;
    if (c->stamps > 1) snprintf(stamps, sizeof stamps, ", %" PRId64 " stamps", c->stamps);
    snprintf(name, sizeof name, "%s%s%s%s", c->family, c->normalized ? ", normalized" : "", stamps,
             !dpmf_sampling_is_none(&c->sampling) ? " *" : "");
    if (c->bands > 0) snprintf(bands, sizeof bands, "%" PRId64, c->bands);
    show_bytes(c->memory_bytes, memory);
    if (c->ratio > 0.0)
        snprintf(ratio, sizeof ratio, c->ratio < 1.01 ? "%.6f" : "%.4f",
                 safe_digits(c->ratio, c->ratio < 1.01 ? 7 : 5, 1));
    text_add(t, "%s %-*s ", chosen ? ">" : " ", worst ? NAME_WIDTH_FEDERATED : NAME_WIDTH, name);
    if (worst) text_add(t, "%12.6f ", safe_digits(c->worst_ratio, 7, 1));
    text_add(t, "%6s %8lld %10.5g %10.5g %10s ", bands, (long long)c->buffers, safe_digits(c->sigma, 5, 1),
             safe_digits(c->noise, 5, 1), memory);
    if (measured && c->seconds_per_step > 0.0) text_add(t, "%10.3g ", 1e3 * c->seconds_per_step);
    if (measured && c->seconds_per_step <= 0.0) text_add(t, "%10s ", "-");
    text_add(t, "%8.2f %8.3g %10s  %s\n", c->overhead, c->normals_per_number, ratio, c->eligible ? "yes" : "no");
}

/* The bytes of `text` that `most` characters of UTF-8 take, to the end of its line at most. */
static int line_bytes(const char *text, int most) {
    int bytes = 0;
    for (int count = 0; text[bytes] != '\0' && text[bytes] != '\n'; bytes++) {
        count += ((unsigned char)text[bytes] & 0xc0) != 0x80;
        if (count > most) break;
    }
    return bytes;
}

/* Sentences in the terminal's letters. Breaks lines at spaces, `width` characters at most, all after `indent` spaces. */
static void add_wrapped(text_buffer *t, const char *sentences, int indent, int width) {
    text_buffer words = {0};
    add_words(&words, terminal_alphabet(), "%s", sentences);
    const char *text = words.bytes == NULL ? "" : words.bytes;
    while (*text != '\0') {
        int line = line_bytes(text, width - indent);
        if (text[line] != '\0' && text[line] != '\n')
            while (line > 1 && text[line] != ' ')
                line--;
        text_add(t, "%*s%.*s\n", indent, "", line, text);
        text += line;
        text += *text == ' ' || *text == '\n';
    }
    t->failed = t->failed || words.failed;
    text_free(&words);
}

enum { TEXT_WIDTH = 110 };

/* The sampling, and the origin of the bound: once each. */
static void print_accounts(text_buffer *t, const dpmf_design *d) {
    text_add(t, "  * with privacy amplified by sampling:\n");
    for (int64_t i = 0; i < dpmf_design_get(d).count; i++) {
        const dpmf_candidate *c = dpmf_design_candidate(d, i);
        char sampling[64];
        if (c->is_search_point || dpmf_sampling_is_none(&c->sampling)) continue;
        if (dpmf_sampling_format(&c->sampling, sampling) != DPMF_OK) continue;
        text_add(t, "    %-29s %-36s by %s%s\n", c->family, sampling, c->account,
                 c->confidence > 0.0 ? " (simulation)" : "");
    }
}

static void print_table(text_buffer *t, const arguments *given, const dpmf_design *d, const char *statement) {
    const dpmf_mechanism *m = dpmf_design_get(d).mechanism;
    const bool measured = option_given(given, OPTION_MEASURE);
    const char *asked = option_text(given, OPTION_LOSS);
    char heading[24];
    snprintf(heading, sizeof heading, "%.12s noise", strcmp(asked, "rms") == 0 ? "RMS" : asked);
    const bool worst = dpmf_design_candidate(d, dpmf_design_get(d).chosen)->worst_ratio > 0.0;
    bool amplified = false, refused = false;
    if (has_users(given))
        text_add(t, "%" PRId64 " users, at most %" PRId64 " in each of ", given->count[OPTION_USERS],
                 given->count[OPTION_PER_ROUND]);
    text_add(t, "%lld %s, %s, participation %s, ", (long long)steps_of(given), has_users(given) ? "rounds" : "steps",
             dpmf_workload_get(dpmf_mechanism_get(m).workload).text,
             dpmf_participation_get(dpmf_mechanism_get(m).participation).text);
    add_words(t, terminal_alphabet(), "epsilon = %g, delta = %g\n\n", given->number[OPTION_EPSILON],
              given->number[OPTION_DELTA]);
    if (delta_too_large(given->number[OPTION_DELTA], units_of(given))) text_add(t, "warning: %s\n\n", DELTA_TOO_LARGE);
    text_add(t, "  %-*s ", worst ? NAME_WIDTH_FEDERATED : NAME_WIDTH, "family");
    if (worst) text_add(t, "%12s ", "worst ratio");
    text_add(t, "%6s %8s %10s %10s %10s ", "bands", "buffers", "sigma", heading, "memory");
    if (measured) text_add(t, "%10s ", "ms/step");
    text_add(t, "%8s %8s %10s  %s\n", "x i.i.d.", "normals", "x bound", "eligible");
    for (int64_t i = 0; i < dpmf_design_get(d).count; i++) {
        const dpmf_candidate *c = dpmf_design_candidate(d, i);
        if (c->is_search_point) continue;
        table_candidate(t, c, i == dpmf_design_get(d).chosen, measured);
        amplified = amplified || !dpmf_sampling_is_none(&c->sampling);
        refused = refused || !c->eligible;
    }
    if (worst)
        text_add(t,
                 "  worst ratio decides: at the separation where it is largest, its noise over the best candidate's\n");
    if (amplified) print_accounts(t, d);
    if (refused) text_add(t, "\nNot eligible:\n");
    for (int64_t i = 0; i < dpmf_design_get(d).count; i++) {
        const dpmf_candidate *c = dpmf_design_candidate(d, i);
        char line[sizeof c->reason + 64];
        snprintf(line, sizeof line, "%s: %s", c->family, c->reason);
        if (!c->is_search_point && !c->eligible) add_wrapped(t, line, 2, TEXT_WIDTH);
    }
    text_add(t, "\nChosen:\n");
    add_wrapped(t, dpmf_design_get(d).why, 2, TEXT_WIDTH);
    if (dpmf_design_get(d).warnings > 0) text_add(t, "\nBefore you train:\n");
    for (int64_t i = 0; i < dpmf_design_get(d).warnings; i++)
        add_wrapped(t, dpmf_design_warning(d, i), 2, TEXT_WIDTH);
    if (is_counting(given)) {
        text_buffer words = {0};
        add_counting(&words, given);
        text_add(t, "\nCounting:\n");
        add_wrapped(t, words.bytes != NULL ? words.bytes : "", 2, TEXT_WIDTH);
        t->failed = t->failed || words.failed;
        text_free(&words);
    }
    text_add(t, "\nPrivacy:\n");
    add_wrapped(t, statement, 2, TEXT_WIDTH);
}

/* ---- the verb ---- */

static int print_design(const arguments *given, const dpmf_design *d, const dpmf_exact *exact) {
    text_buffer t = {0};
    char plain[STATEMENT_MAX], of_exact[STATEMENT_MAX]; /* for a clip norm of 1, whose factor cancels */
    const char *statement = exact->grid > 0 ? of_exact : plain;
    dpmf_design_statement(d, plain, STATEMENT_MAX);
    if (exact->grid > 0) dpmf_exact_statement(exact, plain, of_exact, STATEMENT_MAX);
    if (option_given(given, OPTION_JSON))
        print_json(&t, given, d, exact, statement);
    else
        print_table(&t, given, d, statement);
    return text_finish(&t);
}

int cmd_design(const arguments *given) {
    dpmf_design_options how;
    dpmf_workload *workload = NULL;
    dpmf_participation *listed = NULL;
    dpmf_design *design = NULL;
    dpmf_exact exact = {0};
    int code = check_needed(given);
    if (code == 0) code = read_options(given, &how);
    if (code == 0) code = make_workload(given, OPTION_WORKLOAD, steps_of(given), &workload);
    if (code == 0 && is_listed(given))
        code = make_participation(given, OPTION_PARTICIPATION, given->count[OPTION_STEPS], &listed);
    if (code == 0) how.participation = listed;
    if (code == 0 && !end_at_once(NULL)) code = fail(EXIT_CANCELLED, "cancelled");
    if (code == 0) {
        dpmf_status status = dpmf_design_create(workload, &how, &design);
        if (status != DPMF_OK) code = fail_status(status, NULL);
    }
    if (code == 0 && option_is(given, OPTION_RELEASE, "exact")) { /* refuses a mechanism without an exact release */
        dpmf_status status =
            dpmf_exact_plan(dpmf_design_get(design).mechanism, given->count[OPTION_DIM], 1.0, 0.0, &how.run, &exact);
        if (status != DPMF_OK)
            code = fail_status(status, "--release exact (other families: --families, without sampling)");
    }
    end_later();
    if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
    if (code == 0) code = save_mechanism(dpmf_design_get(design).mechanism, option_text(given, OPTION_OUT));
    if (code == 0) code = print_design(given, design, &exact);
    dpmf_design_free(design);
    dpmf_participation_free(listed);
    dpmf_workload_free(workload);
    return code;
}

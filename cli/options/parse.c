/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From argv to `arguments`, by the table of options/options.c. `--name VALUE`, `--name=VALUE` and `-o VALUE` are read; `--`
 * ends the options. A separate value may start with one dash (its own check then refuses it, with the accepted range)
 * but not with two, so that a forgotten value does not swallow the next option; `-oVALUE` is refused, so that `-out
 * FILE` does not write a file named "ut".
 */
#include "options/options.h"

#include "output.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool option_given(const arguments *given, option_id id) {
    return given->text[id] != NULL;
}

const char *option_text(const arguments *given, option_id id) {
    return given->text[id] != NULL ? given->text[id] : options[id].preset;
}

bool option_is(const arguments *given, option_id id, const char *word) {
    const char *text = option_text(given, id);
    return text != NULL && strcmp(text, word) == 0;
}

const char *next_word(const char **list, int *length) {
    const char *word = *list;
    if (word == NULL || *word == '\0') return NULL;
    *length = (int)strcspn(word, "|");
    *list = word + *length + (word[*length] == '|');
    return word;
}

bool option_of_verb(option_id id, verb_id verb) {
    return (options[id].verbs >> verb & 1u) != 0;
}

/* ---- the closest name ------------------------------------------------------------------------------------------ */

/* Levenshtein distance, for names shorter than the buffer; a longer one is close to nothing. */
static int distance(const char *a, const char *b) {
    int row[40];
    int m = (int)strlen(b);
    if (strlen(a) >= 40 || m >= 40) return 1000;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; a[i - 1] != '\0'; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int replaced = diagonal + (a[i - 1] != b[j - 1]);
            int shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[m];
}

/* Keeps in *best the name nearest to the typed one: a third of it may differ, or it may be a beginning. */
static void consider(const char *typed, const char *name, int *best_distance, const char **best) {
    size_t length = strlen(typed);
    int d = distance(typed, name);
    if (length >= 2 && strncmp(typed, name, length) == 0) d = 1;
    if (d > 1 && d > (int)(length / 3)) return;
    if (d >= *best_distance) return;
    *best_distance = d;
    *best = name;
}

bool find_verb(const char *name, verb_id *out, const char **closest) {
    int best = 1000;
    *closest = NULL;
    for (int i = 0; i < VERB_TOTAL; i++) {
        if (strcmp(name, verbs[i].name) == 0) {
            *out = (verb_id)i;
            return true;
        }
        consider(name, verbs[i].name, &best, closest);
    }
    return false;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

const char *option_values(const option_row *o, verb_id verb) {
    return o->values_of != NULL ? o->values_of(verb) : o->values;
}

const char *option_help(const option_row *o) {
    return o->help_of != NULL ? o->help_of() : o->help;
}

/* Every step number is exact in a double: the library's own limit. */
int64_t option_count_high(const option_row *o) {
    return o->count_high > 0 ? o->count_high : (int64_t)1 << 53;
}

/* One of the words; where one of them is file:NAME, any path may stand in place of NAME. */
static bool is_choice(const option_row *o, verb_id verb, const char *text) {
    const char *list = option_values(o, verb);
    const bool file = strncmp(text, "file:", 5) == 0 && text[5] != '\0';
    int length;
    for (const char *word; (word = next_word(&list, &length)) != NULL;)
        if (file ? strncmp(word, text, 5) == 0
                 : (size_t)length == strlen(text) && strncmp(word, text, (size_t)length) == 0)
            return true;
    return false;
}

static int refuse_choice(const option_row *o, verb_id verb, const char *text) {
    char accepted[200] = "", shown[SHOWN];
    const char *list = option_values(o, verb);
    int length;
    for (const char *word; (word = next_word(&list, &length)) != NULL;) {
        size_t used = strlen(accepted);
        snprintf(accepted + used, sizeof accepted - used, "%s%.*s", used > 0 ? ", " : "", length, word);
    }
    return fail(EXIT_USAGE, "--%s %s: accepted: %s", o->name, show(text, shown), accepted);
}

static int refuse_range(const option_row *o, const char *text) {
    char shown[SHOWN];
    if (o->kind == KIND_BYTES)
        return fail(EXIT_USAGE, "--%s %s: a number of bytes from %" PRId64 " to %" PRId64 " is accepted (500M, 4GiB)",
                    o->name, show(text, shown), o->count_low, option_count_high(o));
    if (o->kind == KIND_COUNT)
        return fail(EXIT_USAGE,
                    "--%s %s: a whole number from %" PRId64 " to %" PRId64 " is accepted (1e6, 10k, 2M, 1G are too)",
                    o->name, show(text, shown), o->count_low, option_count_high(o));
    return fail(EXIT_USAGE, "--%s %s: a number from %g to below %g is accepted", o->name, show(text, shown),
                o->number_low, o->number_high);
}

static int read_value(option_id id, const char *text, arguments *out) {
    const option_row *o = &options[id];
    switch ((o->ranged >> out->verb & 1u) != 0 ? KIND_TEXT : o->kind) {
    case KIND_FLAG:
        break;
    case KIND_TEXT:
    case KIND_FILE:
        if (*text == '\0')
            return fail(EXIT_USAGE, "--%s '': a %s is accepted, not an empty text", o->name, o->argument);
        break;
    case KIND_CHOICE:
        if (!is_choice(o, out->verb, text)) return refuse_choice(o, out->verb, text);
        break;
    case KIND_COUNT:
    case KIND_BYTES:
        out->count[id] = -1;
        if (o->word != NULL && strcmp(text, o->word) == 0) break;
        if (!(o->kind == KIND_BYTES ? read_bytes : read_count)(text, &out->count[id]) ||
            out->count[id] < o->count_low || out->count[id] > option_count_high(o))
            return refuse_range(o, text);
        break;
    case KIND_NUMBER:
        out->number[id] = -1.0;
        if (o->word != NULL && strcmp(text, o->word) == 0) break;
        if (!read_number(text, &out->number[id]) ||
            !(out->number[id] >= o->number_low && out->number[id] < o->number_high))
            return refuse_range(o, text);
        break;
    }
    return 0;
}

/* ---- the command line ------------------------------------------------------------------------------------------ */

static int refuse_option(const char *typed, verb_id verb) {
    char shown[SHOWN], name[SHOWN];
    const char *closest = NULL;
    int best = 1000;
    const char *start = typed + strspn(typed, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start, "="), start);
    for (int i = 0; i < OPTION_TOTAL; i++) {
        if (strncmp(typed, "--", 2) == 0 && strcmp(options[i].name, name) == 0)
            return fail(EXIT_USAGE, "--%s is not an option of %s", name, verbs[verb].name);
        if (option_of_verb((option_id)i, verb)) consider(name, options[i].name, &best, &closest);
    }
    if (closest != NULL) return fail(EXIT_USAGE, "unknown option %s: did you mean --%s?", show(typed, shown), closest);
    return fail(EXIT_USAGE, "unknown option %s: 'dpmf %s --help' lists the options of %s", show(typed, shown),
                verbs[verb].name, verbs[verb].name);
}

static int find_option(const char *name, size_t length, char letter, verb_id verb) {
    for (int i = 0; i < OPTION_TOTAL; i++) {
        if (!option_of_verb((option_id)i, verb)) continue;
        if (letter != '\0' ? options[i].letter == letter
                           : strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return i;
    }
    return -1;
}

/* Splits argv[*at] (which starts with a dash) into an option and its value, and moves *at to the last argument used. */
static int read_option(int argc, char **argv, int *at, verb_id verb, arguments *out) {
    const char *typed = argv[*at];
    const char *value = NULL;
    int found = -1;
    if (typed[1] == '-') {
        const char *name = typed + 2;
        size_t length = strcspn(name, "=");
        if (name[length] == '=') value = name + length + 1;
        found = find_option(name, length, '\0', verb);
    } else if (typed[2] == '\0') {
        found = find_option(NULL, 0, typed[1], verb);
    }
    if (found < 0) return refuse_option(typed, verb);
    const option_row *o = &options[found];
    if (out->text[found] != NULL) return fail(EXIT_USAGE, "--%s is given twice", o->name);
    if (o->kind == KIND_FLAG) {
        if (value != NULL) {
            char shown[SHOWN];
            return fail(EXIT_USAGE, "--%s takes no value, and was given %s", o->name, show(value, shown));
        }
        out->text[found] = "";
        return 0;
    }
    if (value == NULL) {
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0)
            return fail(EXIT_USAGE, "--%s needs a value: --%s %s", o->name, o->name, o->argument);
        value = argv[++*at];
    }
    out->text[found] = value;
    return read_value((option_id)found, value, out);
}

static int read_operand(const char *text, verb_id verb, arguments *out) {
    char shown[SHOWN];
    const bool several = verb == VERB_ACCOUNT && out->operand_count < OPERANDS_MAX; /* --compose may come later */
    if (verbs[verb].operand == NULL || (out->operand != NULL && !several))
        return fail(EXIT_USAGE, "unexpected argument %s: %s takes %s", show(text, shown), verbs[verb].name,
                    verbs[verb].operand == NULL ? "none" : "only one");
    if (*text == '\0')
        return fail(EXIT_USAGE, "'': %s takes a %s, not an empty text", verbs[verb].name, verbs[verb].operand);
    if (out->operand == NULL) out->operand = text;
    out->operands[out->operand_count++] = text;
    return 0;
}

/*
 * A file called "-" is standard input or output, never a name: secret rows must not appear in a file that their owner does
 * not expect. "./-" names a file. What is both read and written, or would mix with an answer, is refused.
 */
static int read_dashes(verb_id verb, arguments *out) {
    static const char input[] = "/dev/stdin";
    const bool plain_out = verb == VERB_NOISE || verb == VERB_COUNT || verb == VERB_PREDICT;
    for (int i = 0; i < OPTION_TOTAL; i++) {
        if (options[i].kind != KIND_FILE || out->text[i] == NULL || strcmp(out->text[i], "-") != 0) continue;
        const bool page = i == OPTION_OUT && verb == VERB_REPORT && out->text[OPTION_JSON] == NULL;
        if (page) continue; /* cli/report/page.c prints it */
        if (i == OPTION_OUT && !plain_out)
            return fail(EXIT_USAGE, "--out -: standard output has the answer: name a file (./- is one called -)");
        if (i == OPTION_KEY_FILE || i == OPTION_SEED_KEY || i == OPTION_STATE || i == OPTION_LEDGER ||
            i == OPTION_CHECKPOINT || i == OPTION_PUBLIC_TEST_CURVE)
            return fail(EXIT_USAGE, "--%s -: a file is accepted, not standard input or output (./- is one called -)",
                        options[i].name);
        out->text[i] = i == OPTION_OUT || i == OPTION_FOLLOW ? NULL : input;
    }
    for (int i = 0; i < out->operand_count; i++) {
        if (strcmp(out->operands[i], "-") != 0) continue;
        if (verb == VERB_COUNT)
            return fail(EXIT_USAGE,
                        "-: standard input has the numbers: name the mechanism's file (./- is one called -)");
        out->operands[i] = input;
        if (i == 0) out->operand = input;
    }
    return 0;
}

int parse_arguments(int argc, char **argv, int first, verb_id verb, arguments *out) {
    memset(out, 0, sizeof *out);
    out->verb = verb;
    bool options_over = false;
    for (int at = first; at < argc; at++) {
        int code = 0;
        if (options_over || argv[at][0] != '-' || argv[at][1] == '\0')
            code = read_operand(argv[at], verb, out);
        else if (strcmp(argv[at], "--") == 0)
            options_over = true;
        else
            code = read_option(argc, argv, &at, verb, out);
        if (code != 0) return code;
        if (out->text[OPTION_HELP] != NULL) return 0;
    }
    if (out->operand_count > 1 && out->text[OPTION_COMPOSE] == NULL) {
        char shown[SHOWN];
        return fail(EXIT_USAGE, "unexpected argument %s: %s takes only one", show(out->operands[1], shown),
                    verbs[verb].name);
    }
    if (out->operand == NULL && verbs[verb].operands_needed > 0)
        return fail(EXIT_USAGE, "%s needs a %s: dpmf %.*s", verbs[verb].name, verbs[verb].operand,
                    (int)strcspn(verbs[verb].usage, "\n"), verbs[verb].usage);
    const int dashes = read_dashes(verb, out);
    if (dashes != 0) return dashes;
    for (int i = 0; i < OPTION_TOTAL; i++) {
        if (out->text[i] != NULL || options[i].preset == NULL) continue;
        int code = read_value((option_id)i, options[i].preset, out);
        assert(code == 0); /* every default in the table is acceptable to itself */
        (void)code;
    }
    return 0;
}

/* ---- numbers ---- */

/*
 * Counts are read as decimal texts, not through a double, so that every whole number up to 2^63 - 1 is exact and
 * nothing is rounded into the accepted range. The program never calls setlocale, so strtod's point is always '.'.
 */

/* The parts of [+-]digits[.digits][e[+-]digits], of which `rest` follows. */
typedef struct decimal {
    bool negative;
    const char *digits; /* where the mantissa starts */
    size_t length;      /* of the mantissa, the point included */
    int point;          /* digits after the point */
    long exponent;
    const char *rest;
} decimal;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool scan(const char *text, decimal *out) {
    memset(out, 0, sizeof *out);
    out->negative = *text == '-';
    if (*text == '+' || *text == '-') text++;
    out->digits = text;
    int before = 0;
    while (is_digit(*text))
        text++, before++;
    if (*text == '.')
        for (text++; is_digit(*text); text++) {
            if (out->point > 10000) return false; /* keeps the arithmetic on exponents far from overflow */
            out->point++;
        }
    if (before + out->point == 0) return false;
    out->length = (size_t)(text - out->digits);
    if (*text == 'e' || *text == 'E') {
        text++;
        if (!is_digit(text[*text == '+' || *text == '-'])) return false;
        char *end;
        errno = 0;
        out->exponent = strtol(text, &end, 10);
        if (errno != 0 || out->exponent > 100000 || out->exponent < -100000) return false;
        text = end;
    }
    out->rest = text;
    return true;
}

/* value * 10 + digit, or false past 2^63 - 1. */
static bool append_digit(int64_t *value, int digit) {
    return !__builtin_mul_overflow(*value, (int64_t)10, value) &&
           !__builtin_add_overflow(*value, (int64_t)digit, value);
}

bool read_count(const char *text, int64_t *out) {
    decimal d;
    if (!scan(text, &d)) return false;
    long shift = d.exponent - d.point; /* the number is the mantissa's digits times 10^shift */
    if (*d.rest == 'k') shift += 3;
    if (*d.rest == 'M') shift += 6;
    if (*d.rest == 'G') shift += 9;
    if (strchr("kMG", *d.rest) != NULL && *d.rest != '\0') ++d.rest;
    if (*d.rest != '\0') return false;

    /* Zeros at the end of the mantissa are given back to the exponent: 1.50e1 is whole. */
    while (d.length > 0 && shift < 0) {
        char last = d.digits[d.length - 1];
        if (last != '0' && last != '.') return false;
        d.length--;
        if (last == '0') shift++;
    }
    int64_t value = 0;
    for (size_t i = 0; i < d.length; i++)
        if (d.digits[i] != '.' && !append_digit(&value, d.digits[i] - '0')) return false;
    for (; shift > 0 && value != 0; shift--)
        if (!append_digit(&value, 0)) return false;
    *out = d.negative ? -value : value;
    return true;
}

bool read_bytes(const char *text, int64_t *out) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    char mantissa[64];
    size_t length = strlen(text);
    for (int i = 0; i < 4; i++) {
        if (length <= 3 || length - 3 >= sizeof mantissa || strcmp(text + length - 3, units[i]) != 0) continue;
        memcpy(mantissa, text, length - 3);
        mantissa[length - 3] = '\0';
        double value = 0.0;
        if (!read_number(mantissa, &value)) return false;
        value = floor(ldexp(value, 10 * (i + 1))); /* a part of a byte is none */
        if (!(value > -9e18 && value < 9e18)) return false;
        *out = (int64_t)value;
        return true;
    }
    /* 1GB, 2g, 1T: powers of 1000 as in counts, in either case and with or without a B. */
    if (length > 1 && (text[length - 1] == 'B' || text[length - 1] == 'b')) length--;
    const char *letters = "kKmMgGtT", *unit = length > 1 ? strchr(letters, text[length - 1]) : NULL;
    if (unit != NULL) length--;
    if (length == 0 || length >= sizeof mantissa - 3) return false;
    memcpy(mantissa, text, length);
    mantissa[length] = '\0';
    if (strpbrk(mantissa, letters) != NULL) return false;
    strcat(mantissa, unit == NULL ? "" : unit - letters < 2 ? "k" : unit - letters < 4 ? "M" : "G");
    if (!read_count(mantissa, out)) return false;
    return unit == NULL || unit - letters < 6 || !__builtin_mul_overflow(*out, (int64_t)1000, out);
}

bool read_number(const char *text, double *out) {
    decimal d;
    if (!scan(text, &d) || *d.rest != '\0') return false;
    double value = strtod(text, NULL);
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "family.h"

#include "output.h"
#include "own.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const dpmf_family *find_family(const char *name) {
    for (int64_t i = 0; dpmf_family_info(i) != NULL; i++)
        if (strcmp(dpmf_family_info(i)->name, name) == 0) return dpmf_family_info(i);
    return NULL;
}

/* --buffers of a formula is a number: 0 if it is not given, -1 if it is none. */
static int64_t buffers_given(const arguments *given) {
    int64_t count = 0;
    if (!option_given(given, OPTION_BUFFERS)) return 0;
    return read_count(option_text(given, OPTION_BUFFERS), &count) && count > 0 ? count : -1;
}

/* --buffers and --levels, where no search chooses them. */
static int check_counts(const dpmf_family *kind, const arguments *given) {
    char list[FAMILY_LIST], shown[SHOWN];
    const int64_t buffers = buffers_given(given);
    if (option_given(given, OPTION_LEVELS) && kind->levels == 0)
        return fail(EXIT_USAGE, "--levels: family %s takes none; %s does", kind->name,
                    FAMILY_LIST_BY(levels, " and ", list));
    if (buffers != 0 && kind->buffers == 0)
        return fail(EXIT_USAGE, "--buffers: family %s takes none here; %s do, and 'dpmf optimize' for others",
                    kind->name, FAMILY_LIST_BY(buffers, " and ", list));
    if (buffers < 0 || buffers > kind->buffers)
        return fail(EXIT_USAGE, "--buffers %s: a whole number from 1 to %d is accepted",
                    show(option_text(given, OPTION_BUFFERS), shown), kind->buffers);
    return 0;
}

int check_family(const char *name, const arguments *given) {
    char list[FAMILY_LIST], shown[SHOWN];
    const dpmf_family *kind = find_family(name);
    if (kind == NULL)
        return fail(EXIT_USAGE, "--family %s: accepted: %s", show(name, shown), family_list(FAMILY_ANY, ", ", list));
    bool parameters = option_given(given, OPTION_PARAMETERS);
    if (!kind->closed_form && kind->parameters == NULL && given->operand == NULL)
        return fail(EXIT_USAGE, "--family %s has parameters: a mechanism FILE or 'dpmf optimize' is required", name);
    if (!kind->closed_form && !parameters && given->operand == NULL)
        return fail(EXIT_USAGE, "--family %s has parameters: a mechanism FILE or --parameters FILE is required", name);
    if (parameters && kind->parameters == NULL) return fail(EXIT_USAGE, "--parameters: family %s takes none", name);
    if (option_given(given, OPTION_BANDS) && !kind->bands)
        return fail(EXIT_USAGE, "--bands: family %s takes none; %s do", name, FAMILY_LIST_BY(bands, " and ", list));
    if (decoder_path(given) != NULL && (!parameters || strcmp(kind->parameters, "matrix") != 0))
        return fail(EXIT_USAGE, "--decoder file:B.npy is for a matrix of your own: --family " DPMF_FAMILY_DENSE
                                " --parameters FILE");
    if (option_given(given, OPTION_NU) && (!kind->nu || parameters))
        return fail(EXIT_USAGE, "--nu: only family %s without --parameters takes it",
                    FAMILY_LIST_BY(nu, " and ", list));
    if (option_given(given, OPTION_BRANCHING) && !kind->branching)
        return fail(EXIT_USAGE, "--branching: family %s takes none; %s do", name,
                    FAMILY_LIST_BY(branching, " and ", list));
    return check_counts(kind, given);
}

const char *decoded_family(const char *name, const arguments *given) {
    const dpmf_family *kind = find_family(name);
    if (kind == NULL || !option_given(given, OPTION_DECODER) || decoder_path(given) != NULL) return name;
    const char *decoded = option_is(given, OPTION_DECODER, "optimal") ? kind->optimal : kind->restart;
    return decoded != NULL ? decoded : name;
}

int64_t family_bands(const dpmf_strategy *strategy) {
    const dpmf_family *kind = find_family(dpmf_strategy_get(strategy).family);
    if (kind == NULL || !kind->bands) return 0;
    return kind->inverse ? dpmf_strategy_get(strategy).buffers + 1 : dpmf_strategy_get(strategy).bands;
}

/* Bands and stamps as given, or else as in `shape`, which is changed to them. */
static int check_shape(const arguments *given, const dpmf_family *kind, int64_t steps, strategy_shape *shape) {
    if (option_given(given, OPTION_STAMPS) && !stamps_chosen(given)) shape->stamps = given->count[OPTION_STAMPS];
    if (shape->stamps > steps || steps % shape->stamps != 0)
        return fail(EXIT_USAGE, "--stamps %" PRId64 ": a divisor of %" PRId64 " (the steps) is accepted", shape->stamps,
                    steps);
    if (option_given(given, OPTION_BANDS)) shape->bands = given->count[OPTION_BANDS];
    int64_t block = steps / shape->stamps;
    const char *of = shape->stamps > 1 ? "the steps of a stamp" : "the steps";
    if (!kind->bands || option_given(given, OPTION_PARAMETERS)) return 0;
    if (shape->bands == 0)
        return fail(EXIT_USAGE, "--family %s needs --bands B, from 1 to %" PRId64 " (%s)", kind->name, block, of);
    if (shape->bands > block)
        return fail(EXIT_USAGE, "--bands %" PRId64 ": a whole number from 1 to %" PRId64 " (%s) is accepted",
                    shape->bands, block, of);
    return 0;
}

static dpmf_strategy_options closed_form(const arguments *given, const dpmf_family *kind, const strategy_shape *shape) {
    dpmf_strategy_options made = dpmf_strategy_options_defaults();
    if (kind->bands) made.bands = shape->bands;
    if (kind->nu) made.nu = given->number[OPTION_NU];
    if (kind->buffers > 0) made.buffers = buffers_given(given);
    if (kind->levels > 0) made.levels = given->count[OPTION_LEVELS];
    if (kind->branching) made.branching = given->count[OPTION_BRANCHING];
    made.stamps = shape->stamps;
    if (option_given(given, OPTION_DECODER))
        made.decoder = option_is(given, OPTION_DECODER, "optimal") ? DPMF_DECODER_OPTIMAL : DPMF_DECODER_RESTART;
    made.column_normalize = shape->normalize;
    return made;
}

bool stamps_chosen(const arguments *given) {
    return option_given(given, OPTION_STAMPS) && given->count[OPTION_STAMPS] == DPMF_STAMPS_AUTO;
}

int read_closed_form(const arguments *given, const dpmf_family *kind, int64_t steps, dpmf_strategy_options *out) {
    strategy_shape shape = {0, 1, option_is(given, OPTION_NORMALIZE, "after"), NULL};
    int code = check_shape(given, kind, steps, &shape);
    if (code == 0) *out = closed_form(given, kind, &shape);
    return code;
}

static int make_closed_form(const arguments *given, const dpmf_family *kind, const dpmf_workload *workload,
                            const strategy_shape *shape, dpmf_strategy **out) {
    const dpmf_strategy_options made = closed_form(given, kind, shape);
    dpmf_status status = dpmf_strategy_create(kind->name, workload, &made, out);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int make_strategy(const arguments *given, const dpmf_family *kind, const dpmf_workload *workload, strategy_shape shape,
                  dpmf_strategy **out) {
    const char *path = option_text(given, OPTION_PARAMETERS);
    int64_t steps = dpmf_workload_get(workload).steps, found = 0;
    dpmf_strategy *block = NULL;
    int code = check_shape(given, kind, steps, &shape);
    if (code != 0) return code;
    if (path == NULL) return make_closed_form(given, kind, workload, &shape, out);
    if (takes_own_matrix(kind)) return make_own(given, kind, workload, &shape, out);
    code = read_strategy(path, kind, steps / shape.stamps, &found, &block);
    if (code != 0) return code;
    if (option_given(given, OPTION_BANDS) && given->count[OPTION_BANDS] != found) {
        dpmf_strategy_free(block);
        return fail(EXIT_USAGE, "--bands %" PRId64 ": the parameters have %" PRId64, given->count[OPTION_BANDS], found);
    }
    /* The strategy of one stamp, repeated, and its columns divided by their norms; takes over `block`. */
    dpmf_strategy *whole = NULL;
    dpmf_status status = dpmf_strategy_create_stamped(block, shape.stamps, &whole);
    dpmf_strategy_free(block);
    if (status == DPMF_OK && shape.normalize) {
        status = dpmf_strategy_create_normalized(whole, out);
        dpmf_strategy_free(whole);
    } else if (status == DPMF_OK) {
        *out = whole;
    }
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

/* ---- values and help of options ---- */

/* Appends what fits; the buffers below have twice the size needed. */
static void append(char *out, size_t room, const char *join, const char *word) {
    size_t used = strlen(out);
    snprintf(out + used, room - used, "%s%s", join, word);
}

const char *family_values(verb_id verb) {
    (void)verb;
    static char list[400];
    if (list[0] != '\0') return list;
    for (int64_t i = 0; dpmf_family_info(i) != NULL; i++)
        append(list, sizeof list, i > 0 ? "|" : "", dpmf_family_info(i)->name);
    return list;
}

const char *participation_values(verb_id verb) {
    (void)verb;
    static char list[160];
    const char *form;
    if (list[0] != '\0') return list;
    for (int i = 0; (form = dpmf_participation_form((dpmf_participation_kind)i)) != NULL; i++)
        append(list, sizeof list, i > 0 ? "|" : "", form);
    return list;
}

const char *sampling_values(verb_id verb) {
    (void)verb;
    static char list[160];
    const dpmf_sampling_facts *kind;
    if (list[0] != '\0') return list;
    for (int i = 0; (kind = dpmf_sampling_describe((dpmf_sampling_kind)i)) != NULL; i++)
        append(list, sizeof list, i > 0 ? "|" : "", kind->form);
    return list;
}

const char *format_values(verb_id verb) {
    return verb == VERB_NOISE   ? "f32|f64|npy"
           : verb == VERB_COUNT ? "text|csv|jsonl"
           : verb == VERB_QUERY ? "text|csv"
           : verb == VERB_HELP  ? "man|bash|zsh"
                                : "f32|f64|npy|text|csv|jsonl|man|bash|zsh";
}

const char *by_values(verb_id verb) {
    return verb == VERB_DESIGN || verb == VERB_BOUND ? "hour|day|week|month" : "hour|day|week|month|weekday";
}

static int place_of(int64_t i, size_t field) {
    return field == FAMILY_ANY ? 1 : *(const int *)((const char *)dpmf_family_info(i) + field);
}

static int next_place(size_t field, int after) {
    int next = 0;
    for (int64_t i = 0; dpmf_family_info(i) != NULL; i++) {
        int at = place_of(i, field);
        if (at > after && (next == 0 || at < next)) next = at;
    }
    return next;
}

const char *family_list(size_t field, const char *last, char out[FAMILY_LIST]) {
    const char *held = NULL; /* a name waits until it is known whether it is the last */
    out[0] = '\0';
    for (int at = next_place(field, 0); at != 0; at = next_place(field, at))
        for (int64_t i = 0; dpmf_family_info(i) != NULL; i++) {
            if (place_of(i, field) != at) continue;
            if (held != NULL) append(out, FAMILY_LIST, out[0] == '\0' ? "" : ", ", held);
            held = dpmf_family_info(i)->name;
        }
    if (held != NULL) append(out, FAMILY_LIST, out[0] == '\0' ? "" : last, held);
    return out;
}

const char *family_help(void) {
    static char help[2000];
    char list[FAMILY_LIST];
    if (help[0] != '\0') return help;
    append(help, sizeof help, "kind of strategy: ", "");
    for (int64_t i = 0; dpmf_family_info(i) != NULL; i++) {
        const char *listed = dpmf_family_info(i)->listed;
        append(help, sizeof help, i > 0 && listed[0] != ',' ? "; " : "", listed);
    }
    append(help, sizeof help,
           ". evaluate: a family with parameters needs --parameters or a FILE. optimize: it can optimize ",
           FAMILY_LIST_BY(optimized, " and ", list));
    return help;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "options/kinds.h"

#include <stdio.h>
#include <string.h>

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
           : verb == VERB_HELP  ? "man|bash|zsh"
                                : "f32|f64|npy|text|csv|jsonl|man|bash|zsh";
}

static int next_place(int (*place)(const dpmf_family *kind), int after) {
    int next = 0;
    for (int64_t i = 0; dpmf_family_info(i) != NULL; i++) {
        int at = place(dpmf_family_info(i));
        if (at > after && (next == 0 || at < next)) next = at;
    }
    return next;
}

const char *family_list(int (*place)(const dpmf_family *kind), const char *last, char out[FAMILY_LIST]) {
    const char *held = NULL; /* a name waits until it is known whether it is the last */
    out[0] = '\0';
    for (int at = next_place(place, 0); at != 0; at = next_place(place, at))
        for (int64_t i = 0; dpmf_family_info(i) != NULL; i++) {
            if (place(dpmf_family_info(i)) != at) continue;
            if (held != NULL) append(out, FAMILY_LIST, out[0] == '\0' ? "" : ", ", held);
            held = dpmf_family_info(i)->name;
        }
    if (held != NULL) append(out, FAMILY_LIST, out[0] == '\0' ? "" : last, held);
    return out;
}

static int is_optimized(const dpmf_family *kind) {
    return kind->optimized != 0;
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
           family_list(is_optimized, " and ", list));
    return help;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Participation: the steps in which one privacy unit may take part (Choquette-Choo et al. 2023, Section 2; Pillutla et
 * al. 2025, Definitions 3.12 to 3.14). Separation is the difference of step numbers, so b = 1 allows neighbouring
 * steps.
 */
#include "workload/workload.h"

#include "base/memory.h"
#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * The kinds, one row each, from which parsing, texts, lists and errors come. `name` stands in an object's text, and so
 * in mechanism files and JSON: "minsep" stays there, since digests cover it. Help and messages write "min-sep", as for
 * samplings; both are accepted.
 */
typedef struct kind_row {
    const char *name, *typed, *form;
    workload_pattern pattern;
    int plain;  /* 1: takes no K,B */
    int passes; /* 1: k is the number of passes of b steps, no more and no fewer */
} kind_row;

static const kind_row KINDS[] = {
    [DPMF_PARTICIPATION_SINGLE] = {"single", "single", "single", WORKLOAD_FIXED, .plain = 1},
    [DPMF_PARTICIPATION_CYCLIC] = {"cyclic", "cyclic", "cyclic:K,B", WORKLOAD_FIXED, .passes = 1},
    [DPMF_PARTICIPATION_MIN_SEPARATION] = {"minsep", "min-sep", "min-sep:K,B", WORKLOAD_APART, .plain = 0},
    [DPMF_PARTICIPATION_SHUFFLED] = {"shuffled", "shuffled", "shuffled:K,B", WORKLOAD_EPOCHS, .passes = 1},
    [DPMF_PARTICIPATION_FULL] = {"full", "full", "full", WORKLOAD_FIXED, .plain = 1},
};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

const char *dpmf_participation_form(dpmf_participation_kind kind) {
    return (unsigned)kind < KIND_COUNT ? KINDS[kind].form : NULL;
}

static int is_name(const char *name, const char *text, size_t length) {
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* Can k participations, b apart, happen in n steps? If the pattern fixes their number, can no more happen? */
static dpmf_status check_feasible(dpmf_participation_kind kind, int64_t n, int64_t k, int64_t b) {
    const char *name = KINDS[kind].typed;
    if (k < 1 || k > n)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "participation %s: k = %" PRId64 ", accepted 1 to %" PRId64 " (the steps)", name, k, n);
    if (b < 1 || b > n)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "participation %s: b = %" PRId64 ", accepted 1 to %" PRId64 " (the steps)", name, b, n);
    if (k - 1 > (n - 1) / b)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "participation %s:%" PRId64 ",%" PRId64 ": does not fit in %" PRId64
                         " steps, accepted k up to %" PRId64 " for this b",
                         name, k, b, n, (n - 1) / b + 1);
    if (KINDS[kind].passes && (n - 1) / b + 1 > k)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "participation %s:%" PRId64 ",%" PRId64 ": %" PRId64 " steps make %" PRId64
                         " passes of b, accepted (k-1) b < steps <= k b",
                         name, k, b, n, (n - 1) / b + 1);
    return DPMF_OK;
}

dpmf_status dpmf_participation_create(dpmf_participation_kind kind, int64_t steps, int64_t count, int64_t separation,
                                      dpmf_participation **out) {
    if ((int)kind < 0 || (int)kind >= KIND_COUNT)
        return base_fail(DPMF_ERROR_ARGUMENT, "participation kind %d, accepted 0 to %d", (int)kind, KIND_COUNT - 1);
    if (steps < 1 || steps > ((int64_t)1 << 53))
        return base_fail(DPMF_ERROR_ARGUMENT, "steps = %" PRId64 ", accepted 1 to 2^53", steps);
    const int plain = KINDS[kind].plain;
    if (!plain) TRY(check_feasible(kind, steps, count, separation));
    dpmf_participation *p = NULL;
    TRY(base_alloc(1, sizeof *p, "a participation", (void **)&p));
    p->references = 1;
    p->kind = kind;
    p->pattern = KINDS[kind].pattern;
    p->steps = steps;
    p->count = kind == DPMF_PARTICIPATION_SINGLE ? 1 : kind == DPMF_PARTICIPATION_FULL ? steps : count;
    p->separation = kind == DPMF_PARTICIPATION_SINGLE ? steps : kind == DPMF_PARTICIPATION_FULL ? 1 : separation;
    if (plain)
        snprintf(p->text, sizeof p->text, "%s", KINDS[kind].name);
    else
        snprintf(p->text, sizeof p->text, "%s:%" PRId64 ",%" PRId64, KINDS[kind].name, count, separation);
    *out = p;
    return DPMF_OK;
}

static dpmf_status parse_pair(const char *name, const char *text, int64_t *k, int64_t *b) {
    const char *comma = strchr(text, ',');
    if (comma == NULL || !base_parse_integer(text, (size_t)(comma - text), k) ||
        !base_parse_integer(comma + 1, strlen(comma + 1), b)) {
        char shown[64];
        return base_fail(DPMF_ERROR_ARGUMENT, "participation %s:'%s', accepted %s:K,B with whole numbers", name,
                         base_show(text, strlen(text), shown), name);
    }
    return DPMF_OK;
}

dpmf_status dpmf_participation_parse(const char *text, int64_t steps, dpmf_participation **out) {
    size_t length = text == NULL ? 0 : strcspn(text, ":");
    for (int kind = 0; kind < KIND_COUNT && text != NULL; kind++) {
        const char *typed = KINDS[kind].typed;
        const int plain = KINDS[kind].plain;
        if (!is_name(KINDS[kind].name, text, length) && !is_name(typed, text, length)) continue;
        if (plain && text[length] == '\0')
            return dpmf_participation_create((dpmf_participation_kind)kind, steps, 0, 0, out);
        if (plain || text[length] == '\0') break;
        int64_t k = 0, b = 0;
        TRY(parse_pair(typed, text + length + 1, &k, &b));
        return dpmf_participation_create((dpmf_participation_kind)kind, steps, k, b, out);
    }
    char shown[64] = "", forms[160] = "";
    for (int kind = 0, used = 0; kind < KIND_COUNT && used < (int)sizeof forms; kind++)
        used += snprintf(forms + used, sizeof forms - (size_t)used, "%s%s", kind == 0 ? "" : ", ", KINDS[kind].form);
    return base_fail(DPMF_ERROR_ARGUMENT, "participation '%s', accepted: %s",
                     text == NULL ? "NULL" : base_show(text, strlen(text), shown), forms);
}

dpmf_status workload_participation_single(int64_t steps, dpmf_participation **out) {
    return dpmf_participation_create(DPMF_PARTICIPATION_SINGLE, steps, 0, 0, out);
}

dpmf_participation *workload_participation_retain(const dpmf_participation *participation) {
    dpmf_participation *p = (dpmf_participation *)participation; /* only the count changes */
    __atomic_add_fetch(&p->references, 1, __ATOMIC_RELAXED);
    return p;
}

void dpmf_participation_free(dpmf_participation *p) {
    if (p == NULL || __atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    base_free(p);
}

int participation_is_single(const dpmf_participation *p) {
    return p->kind == DPMF_PARTICIPATION_SINGLE;
}

dpmf_participation_info dpmf_participation_get(const dpmf_participation *p) {
    return (dpmf_participation_info){.kind = p->kind,
                                     .steps = p->steps,
                                     .count = p->count,
                                     .separation = p->separation,
                                     .is_single = participation_is_single(p),
                                     .text = p->text};
}

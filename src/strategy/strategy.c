/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies by name: the table of families asked (families/families.c), the options checked against what the family takes,
 * and the family's block made, repeated and normalized.
 */
#include "strategy/strategy.h"

#include "base/status.h"
#include "workload/workload.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

const dpmf_family *dpmf_family_info(int64_t i) {
    return i >= 0 && i < families_table.families ? &families_table.family[i].shown : NULL;
}

const strategy_family *strategy_family_find(const char *name, size_t length) {
    for (int64_t i = 0; i < families_table.families; i++) {
        const char *known = families_table.family[i].shown.name;
        if (strlen(known) == length && memcmp(known, name, length) == 0) return &families_table.family[i];
    }
    return NULL;
}

const strategy_family *strategy_family_next(const strategy_family *family) {
    const int after = family == NULL ? 0 : family->candidates.turn;
    const strategy_family *next = NULL;
    for (int64_t i = 0; i < families_table.families; i++) {
        const strategy_family *f = &families_table.family[i];
        if (f->candidates.turn > after && (next == NULL || f->candidates.turn < next->candidates.turn)) next = f;
    }
    return next;
}

static int next_place(strategy_family_place place, int after) {
    int next = 0;
    for (int64_t i = 0; i < families_table.families; i++) {
        int at = place(&families_table.family[i].shown);
        if (at > after && (next == 0 || at < next)) next = at;
    }
    return next;
}

const char *strategy_family_list(strategy_family_place place, const char *last, char out[STRATEGY_FAMILY_LIST]) {
    int64_t count = 0, shown = 0;
    int used = 0;
    for (int64_t i = 0; i < families_table.families; i++)
        count += place(&families_table.family[i].shown) != 0;
    out[0] = 0;
    for (int at = next_place(place, 0); at != 0; at = next_place(place, at))
        for (int64_t i = 0; i < families_table.families && used < STRATEGY_FAMILY_LIST; i++) {
            const dpmf_family *f = &families_table.family[i].shown;
            if (place(f) != at) continue;
            used += snprintf(out + used, (size_t)(STRATEGY_FAMILY_LIST - used), "%s%s",
                             shown == 0           ? ""
                             : shown == count - 1 ? last
                                                  : ", ",
                             f->name);
            shown++;
        }
    assert(used < STRATEGY_FAMILY_LIST);
    return out;
}

dpmf_status strategy_create_identity(int64_t steps, dpmf_strategy **out) {
    return families_table.identity(steps, out);
}

dpmf_status strategy_create_matrix(int64_t steps, const double *matrix, dpmf_strategy **out) {
    return families_table.matrix(steps, matrix, out);
}

/* ---- by name ---- */

dpmf_strategy_options dpmf_strategy_options_defaults(void) {
    return (dpmf_strategy_options){0};
}

static int takes_nu(const dpmf_family *f) {
    return f->nu;
}

static int is_closed_form(const dpmf_family *f) {
    return f->closed_form;
}

static dpmf_status check_options(const dpmf_family *f, int64_t steps, const dpmf_strategy_options *o) {
    char list[STRATEGY_FAMILY_LIST];
    if (o->stamps < 0 || o->stamps > steps || (o->stamps > 0 && steps % o->stamps != 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "stamps = %lld, accepted: a divisor of the %lld steps",
                         (long long)o->stamps, (long long)steps);
    int64_t block = steps / (o->stamps > 0 ? o->stamps : 1);
    if (f->bands && (o->bands < 1 || o->bands > block))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: bands = %lld, accepted 1 to %lld (the steps%s)", f->name,
                         (long long)o->bands, (long long)block, o->stamps > 1 ? " of a stamp" : "");
    if (!f->bands && o->bands != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: bands = %lld, but it has no bands to choose", f->name,
                         (long long)o->bands);
    if (!(o->nu >= 0 && o->nu < 1)) return base_fail(DPMF_ERROR_ARGUMENT, "nu = %g, accepted 0 <= nu < 1", o->nu);
    if (!f->nu && o->nu != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: nu = %g, but only %s takes nu", f->name, o->nu,
                         strategy_family_list(takes_nu, " and ", list));
    if ((int)o->decoder < DPMF_DECODER_DEFAULT || o->decoder > DPMF_DECODER_OPTIMAL)
        return base_fail(DPMF_ERROR_ARGUMENT, "decoder %d, accepted 0 to 2", (int)o->decoder);
    return DPMF_OK;
}

/* The block, then its repetition, then the norms of its columns. */
static dpmf_status create_checked(const strategy_family *family, const dpmf_workload *workload,
                                  const dpmf_strategy_options *o, dpmf_strategy **out) {
    int64_t stamps = o->stamps > 0 ? o->stamps : 1;
    /* One encoder may have two decoders: the family names the default, the option the other. */
    const char *decoded = o->decoder == DPMF_DECODER_RESTART   ? family->shown.restart
                          : o->decoder == DPMF_DECODER_OPTIMAL ? family->shown.optimal
                                                               : NULL;
    if (decoded != NULL) family = strategy_family_find(decoded, strlen(decoded));
    dpmf_workload *block = NULL;
    dpmf_strategy *plain = NULL, *repeated = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(workload_head(workload, workload->steps / stamps, &block));
    TRY_DONE(family->create(block, o, &plain));
    TRY_DONE(families_table.repeat(plain, stamps, &repeated));
    if (o->column_normalize)
        TRY_DONE(families_table.normalize(repeated, out));
    else
        *out = strategy_retain(repeated);
done:
    dpmf_workload_free(block);
    dpmf_strategy_free(plain);
    dpmf_strategy_free(repeated);
    return status;
}

dpmf_status dpmf_strategy_create(const char *family, const dpmf_workload *workload,
                                 const dpmf_strategy_options *options, dpmf_strategy **out) {
    dpmf_strategy_options o = options == NULL ? dpmf_strategy_options_defaults() : *options;
    char shown[64], list[STRATEGY_FAMILY_LIST];
    if (family == NULL || workload == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "strategy: the family or the workload is NULL");
    const strategy_family *known = strategy_family_find(family, strlen(family));
    if (known == NULL || known->create == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "family '%s', accepted without parameters: %s",
                         base_show(family, strlen(family), shown), strategy_family_list(is_closed_form, ", ", list));
    TRY(check_options(&known->shown, workload->steps, &o));
    return create_checked(known, workload, &o, out);
}

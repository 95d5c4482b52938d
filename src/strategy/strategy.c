/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies by name: the options checked against what the family takes (families/families.c), and the family's block
 * made, repeated and normalized.
 */
#include "strategy/strategy.h"

#include "base/text.h"
#include "workload/workload.h"

#include <string.h>

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
static dpmf_status create_checked(strategy_family_id family, const dpmf_workload *workload,
                                  const dpmf_strategy_options *o, dpmf_strategy **out) {
    int64_t stamps = o->stamps > 0 ? o->stamps : 1;
    dpmf_workload *block = NULL;
    dpmf_strategy *plain = NULL, *repeated = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(workload_head(workload, dpmf_workload_steps(workload) / stamps, &block));
    TRY_DONE(strategy_family_create(family, block, o, &plain));
    TRY_DONE(dpmf_strategy_create_stamped(plain, stamps, &repeated));
    if (o->column_normalize)
        TRY_DONE(dpmf_strategy_create_normalized(repeated, out));
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
    strategy_family_id id = strategy_family_find(family, strlen(family));
    const dpmf_family *known = dpmf_family_info(id);
    if (known == NULL || !known->closed_form)
        return base_fail(DPMF_ERROR_ARGUMENT, "family '%s', accepted without parameters: %s",
                         base_show(family, strlen(family), shown), strategy_family_list(is_closed_form, ", ", list));
    TRY(check_options(known, dpmf_workload_steps(workload), &o));
    return create_checked(id, workload, &o, out);
}

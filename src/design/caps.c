/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate's sampling before it is accounted for: a cap that is to be found, and whether sigma follows from it alone. */
#include "design/design.h"

#include "account/account.h"

int design_sampling_alone(const dpmf_sampling *sampling) {
    return !dpmf_sampling_describe(sampling->kind)->simulated;
}

dpmf_status design_settle_cap(const design_problem *p, dpmf_sampling *sampling) {
    if (sampling->cap != DPMF_BATCH_CAP_AUTO) return DPMF_OK;
    for (int64_t i = p->list.count - 1; i >= 0; i--) {
        const dpmf_sampling *other = &p->list.entry[i].shown.sampling;
        if (other->kind == sampling->kind && other->count == sampling->count) {
            sampling->cap = other->cap;
            return DPMF_OK;
        }
    }
    dpmf_account_options how = dpmf_account_options_defaults();
    how.sampling = *sampling;
    how.sampling.cap = 0;
    how.compositions = p->steps;
    how.adjacency = p->options.adjacency;
    how.run = p->options.run;
    return dpmf_calibrate_cap(p->options.epsilon, p->options.delta, 0, &how, &sampling->cap, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: a run that is made to be attacked, the attack, and the bounds that its success proves.
 *
 *     fresh key -> coins -> run with canaries -> a score for each canary -> guesses, and the size of the noise -> bounds
 *
 * Two bounds share the allowed probability of a false alarm, 1 - confidence, in equal parts, so that the larger of them holds
 * with the whole confidence. Noise, samplers and training are used through public calls only, so that an audit can do
 * nothing that a user's program could not.
 */
#include "audit/audit.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CANARIES_MIN = 20, CANARIES_MAX = 1000000 };

dpmf_audit_options dpmf_audit_options_defaults(void) {
    return (dpmf_audit_options){.canaries = 1000, .confidence = 0.95, .noise_factor = 1, .run = dpmf_run_defaults()};
}

static dpmf_status check_options(const dpmf_audit_options *o) {
    if (o->canaries < CANARIES_MIN || o->canaries > CANARIES_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " canaries, accepted: %d to %d", o->canaries, CANARIES_MIN,
                         CANARIES_MAX);
    if (!(o->confidence >= 0.5 && o->confidence < 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "a confidence of %g, accepted: 0.5 to below 1", o->confidence);
    if (!(o->noise_factor > 0 && isfinite(o->noise_factor)))
        return base_fail(DPMF_ERROR_ARGUMENT, "a noise factor of %g, accepted: above 0", o->noise_factor);
    if (!(o->epsilon >= 0) || !(o->delta > 0 && o->delta < 1))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a claim of epsilon %g, delta %g, accepted: epsilon 0 (the mechanism's) or above, delta "
                         "between 0 and 1",
                         o->epsilon, o->delta);
    return DPMF_OK;
}

/* The claim: the caller's, else the mechanism's for this delta, else the epsilon that sigma gives. */
static dpmf_status find_claim(dpmf_audit *a) {
    dpmf_account_options how = dpmf_mechanism_account_options(a->mechanism);
    dpmf_privacy found = {0};
    a->result.delta = a->options.delta;
    a->result.confidence = a->options.confidence;
    a->result.sigma_claimed = dpmf_mechanism_get(a->mechanism).sigma;
    a->result.epsilon_claimed = a->options.epsilon;
    if (a->options.epsilon == 0 && a->options.delta == dpmf_mechanism_get(a->mechanism).delta)
        a->result.epsilon_claimed = dpmf_mechanism_get(a->mechanism).epsilon;
    if (a->result.epsilon_claimed > 0) return DPMF_OK;
    how.run = a->options.run;
    TRY(dpmf_account_epsilon(dpmf_mechanism_get(a->mechanism).sigma, a->options.delta, &how, &found));
    a->result.epsilon_claimed = found.epsilon;
    return DPMF_OK;
}

static dpmf_status open_audit(const dpmf_mechanism *mechanism, const dpmf_audit_options *options, dpmf_audit **out) {
    const dpmf_audit_options defaults = dpmf_audit_options_defaults();
    dpmf_audit *made = NULL;
    dpmf_status status = DPMF_OK;
    if (mechanism == NULL || out == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "audit: the mechanism or out is NULL");
    const dpmf_strategy *strategy = dpmf_mechanism_get(mechanism).strategy;
    if (!(dpmf_mechanism_get(mechanism).sigma > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "the mechanism has no sigma, so there is no claim to audit");
    if (dpmf_strategy_get(strategy).rows != dpmf_strategy_get(strategy).steps)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "an audit undoes the correlation of the noise with C, which has %" PRId64 " rows for %" PRId64
                         " steps here; accepted: a square C",
                         dpmf_strategy_get(strategy).rows, dpmf_strategy_get(strategy).steps);
    TRY(base_alloc(1, sizeof *made, "an audit", (void **)&made));
    dpmf_audit_options *o = &made->options;
    *o = options != NULL ? *options : defaults;
    if (o->canaries == 0) o->canaries = defaults.canaries;
    if (o->confidence == 0) o->confidence = defaults.confidence;
    if (o->noise_factor == 0) o->noise_factor = 1;
    if (o->delta == 0) o->delta = dpmf_mechanism_get(mechanism).delta;
    made->mechanism = mechanism;
    made->steps = dpmf_strategy_get(dpmf_mechanism_get(mechanism).strategy).steps;
    TRY_DONE(check_options(o));
    TRY_DONE(find_claim(made));
    *out = made;
    made = NULL;
done:
    dpmf_audit_free(made);
    return status;
}

static dpmf_status find_bounds(dpmf_audit *a) {
    dpmf_audit_result *r = &a->result;
    const double failure = (1 - a->options.confidence) / 2;
    r->canaries = a->canaries;
    for (int64_t i = 0; i < a->canaries; i++)
        r->included += a->included[i];
    if (r->included == 0 || r->included == a->canaries)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " of %" PRId64 " canaries are in: some, but not all, must be",
                         r->included, a->canaries);
    TRY(audit_score(a));
    TRY(audit_guess(a, failure));
    TRY(audit_gaussian(a, failure));
    r->epsilon_lower = fmax(r->epsilon_guesses, r->epsilon_gaussian);
    return DPMF_OK;
}

/* Frees what only the run needed; coins and scores stay. */
static void forget_run(dpmf_audit *a) {
    base_free(a->taken);
    base_free(a->released);
    base_free(a->projected);
    base_free(a->norm);
    a->taken = NULL;
    a->released = a->projected = a->norm = NULL;
    a->mechanism = NULL;
    a->options.key = NULL;
}

static dpmf_status take_record(dpmf_audit *a) {
    const dpmf_audit_record *r = a->options.record;
    if (r->included == NULL || r->taken == NULL || r->released == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "audit: included, taken or released is NULL");
    TRY(audit_allocate(a, a->options.canaries));
    for (int64_t i = 0; i < a->canaries; i++)
        a->included[i] = r->included[i] != 0;
    for (int64_t i = 0; i < a->canaries * a->steps; i++) {
        if (!isfinite(r->released[i])) return base_fail(DPMF_ERROR_ARGUMENT, "audit: a released number is not finite");
        a->taken[i] = r->taken[i] != 0;
        a->released[i] = r->released[i];
    }
    return DPMF_OK;
}

static dpmf_status make_run(dpmf_audit *a, const dpmf_mechanism *mechanism) {
    dpmf_mechanism *disturbed = NULL;
    dpmf_status status = DPMF_OK;
    uint8_t key[DPMF_KEY_SIZE];
    if (a->options.key != NULL)
        memcpy(key, a->options.key, sizeof key);
    else
        TRY_DONE(dpmf_key_create(key));
    if (a->options.noise_factor != 1) {
        /* The same mechanism with other noise, which shows that an audit can fail. */
        dpmf_mechanism_options about = dpmf_mechanism_options_defaults();
        about.sigma = a->options.noise_factor * dpmf_mechanism_get(mechanism).sigma;
        about.sampling = dpmf_mechanism_get(mechanism).sampling;
        about.evaluate.adjacency = dpmf_mechanism_get(mechanism).adjacency;
        about.evaluate.sensitivity = dpmf_mechanism_get(mechanism).sensitivity_bound;
        about.evaluate.of = dpmf_mechanism_get(mechanism).evaluation.sensitivity.of;
        about.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
        about.evaluate.run = a->options.run;
        TRY_DONE(dpmf_mechanism_create(dpmf_mechanism_get(mechanism).workload,
                                       dpmf_mechanism_get(mechanism).participation,
                                       dpmf_mechanism_get(mechanism).strategy, &about, &disturbed));
    }
    const dpmf_mechanism *actual = disturbed != NULL ? disturbed : mechanism;
    status = a->options.train != NULL ? audit_run_trained(a, actual, key) : audit_run_noise(a, actual, key);
done:
    dpmf_key_wipe(key);
    dpmf_mechanism_free(disturbed);
    return status;
}

dpmf_status dpmf_audit_create(const dpmf_mechanism *mechanism, const dpmf_audit_options *options, dpmf_audit **out) {
    dpmf_audit *a = NULL;
    TRY(open_audit(mechanism, options, &a));
    dpmf_status status = a->options.record != NULL ? take_record(a) : make_run(a, mechanism);
    if (status == DPMF_OK) status = find_bounds(a);
    if (status == DPMF_OK) {
        forget_run(a);
        *out = a;
    } else {
        dpmf_audit_free(a);
    }
    return status;
}

void dpmf_audit_free(dpmf_audit *a) {
    if (a == NULL) return;
    forget_run(a);
    base_free(a->included);
    base_free(a->score);
    base_free(a);
}

dpmf_audit_info dpmf_audit_get(const dpmf_audit *audit) {
    if (audit == NULL) return (dpmf_audit_info){0};
    return (dpmf_audit_info){.result = audit->result, .scores = audit->score, .included = audit->included};
}

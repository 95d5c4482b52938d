/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The response of a mechanism: one number that depends on every coefficient of workload, weights and strategy,
 *
 *     r = u' P A W v,    u and v in [-1, 1), P the square roots of the weights on the diagonal,
 *
 * with u[t] and v[i] the values at 2t and 2i + 1 of the 64-bit mixing function of Steele, Lea and Flood 2014, started at
 * a salt. A change d of one coefficient C[i,j] moves r by (u' P A W)_i d (W v)_j, about d itself, where a loss, which adds
 * up squares over all steps, may move by d^2 or d/n. Independent numbers make |r| about |P A W v|, which is what its
 * rounding is measured by.
 *
 * The salt is a digest of all that is given: workload, participation, strategy, adjacency, sampling, sigma, epsilon,
 * delta and weights, to the last bit. There are changes of these that no figure shows: a separation wider than the
 * bands of C, a coefficient that is multiplied by zeros, the last digits of one that hardly matters. Other inputs have
 * other u and v and so another response, which shows when it is computed again.
 */
#include "mechanism/mechanism.h"

#include "base/memory.h"
#include "base/random.h"
#include "strategy/strategy.h"

#include <math.h>
#include <stdlib.h>

double mechanism_response_number(uint64_t salt, uint64_t index) {
    uint64_t state = salt + index * BASE_SPLITMIX_STEP;
    return base_scatter(&state);
}

dpmf_status mechanism_response_salt(const dpmf_mechanism *m, uint64_t *out) {
    base_writer text = {0};
    base_tensors tensors = {0};
    char digest[65] = "";
    dpmf_status status = DPMF_OK;
    base_json_open(&text, NULL, '{');
    TRY_DONE(mechanism_describe_inputs(m, &text, &tensors));
    base_json_close(&text, '}');
    TRY_DONE(text.status);
    TRY_DONE(base_safetensors_digest(text.text, &tensors, digest));
    digest[16] = '\0'; /* 64 bits of it */
    *out = strtoull(digest, NULL, 16);
done:
    base_writer_free(&text);
    return status;
}

static dpmf_status compute_response(const dpmf_mechanism *m, uint64_t salt, double *v, double *x, double *response,
                                    double *size) {
    int64_t n = m->problem.steps, rows = strategy_rows(m->strategy);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < rows; i++)
        v[i] = mechanism_response_number(salt, 2 * (uint64_t)i + 1);
    TRY(dpmf_strategy_solve(m->strategy, v, x));
    TRY(dpmf_workload_apply(m->problem.workload, x, x));
    for (int64_t t = 0; t < n; t++) {
        double answer = m->problem.weights == NULL ? x[t] : sqrt(m->problem.weights[t]) * x[t];
        sum += mechanism_response_number(salt, 2 * (uint64_t)t) * answer;
        squares += answer * answer;
    }
    if (!isfinite(squares)) return base_fail(DPMF_ERROR_NUMERICAL, "the response of the mechanism is not finite");
    *response = sum;
    *size = sqrt(squares);
    return DPMF_OK;
}

dpmf_status mechanism_response_of(const dpmf_mechanism *m, double *response, double *size) {
    double *v = NULL, *x = NULL;
    uint64_t salt = 0;
    dpmf_status status = DPMF_OK;
    *response = *size = 0;
    if (m->problem.steps > MECHANISM_RESPONSE_STEPS_MAX) return DPMF_OK;
    status = mechanism_response_salt(m, &salt);
    if (status != DPMF_OK) return status == DPMF_ERROR_UNSUPPORTED ? DPMF_OK : status; /* a user's operator */
    TRY_DONE(base_alloc_doubles(strategy_rows(m->strategy), "the seeds of a response", &v));
    TRY_DONE(base_alloc_doubles(m->problem.steps, "a response", &x));
    status = compute_response(m, salt, v, x, response, size);
done:
    base_free(v);
    base_free(x);
    return status;
}

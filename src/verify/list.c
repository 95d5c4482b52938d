/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of checks: every part of the verification adds its own, and the public calls read them. It does not depend
 * on how a figure is found.
 */
#include "verify/verify.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static void append_check(dpmf_verification *v, dpmf_check check, const char *how, va_list values) {
    assert(v->count < VERIFY_CHECKS_MAX);
    if (vsnprintf(check.how, sizeof check.how, how, values) < 0) check.how[0] = '\0';
    v->check[v->count++] = check;
}

void verify_check_add(dpmf_verification *v, dpmf_check check, const char *how, ...) {
    va_list values;
    va_start(values, how);
    append_check(v, check, how, values);
    va_end(values);
}

void verify_check_equal(dpmf_verification *v, const char *name, double claimed, double found, double tolerance,
                        const char *how, ...) {
    const int ok = fabs(claimed - found) <= tolerance * fabs(claimed); /* false for NaN */
    va_list values;
    va_start(values, how);
    append_check(v, (dpmf_check){.name = name, .ok = ok, .claimed = claimed, .found = found, .tolerance = tolerance},
                 how, values);
    va_end(values);
}

void verify_check_response(const verify_task *v, const char *name, double found, double tolerance, const char *how) {
    const double claimed = v->mechanism->response, allowed = tolerance * v->response_size;
    const dpmf_check check = {.name = name,
                              .ok = fabs(claimed - found) <= allowed,
                              .claimed = claimed,
                              .found = found,
                              .tolerance = claimed == 0 ? allowed : allowed / fabs(claimed)};
    verify_check_add(v->out, check, "%s", how);
}

void verify_check_skip(dpmf_verification *v, const char *name, const char *why, ...) {
    va_list values;
    va_start(values, why);
    append_check(v, (dpmf_check){.name = name, .ok = -1, .claimed = NAN, .found = NAN}, why, values);
    va_end(values);
}

int verify_is_verdict(dpmf_status status) {
    return status == DPMF_ERROR_ARGUMENT || status == DPMF_ERROR_FORMAT || status == DPMF_ERROR_NUMERICAL ||
           status == DPMF_ERROR_UNSUPPORTED;
}

void dpmf_verification_free(dpmf_verification *verification) {
    base_free(verification);
}

dpmf_verification_info dpmf_verification_get(const dpmf_verification *v) {
    dpmf_verification_info info = {.ok = 1, .count = v->count};
    for (int64_t i = 0; i < v->count; i++)
        if (v->check[i].ok == 0) info.ok = 0;
    return info;
}

const dpmf_check *dpmf_verification_check(const dpmf_verification *v, int64_t i) {
    return i >= 0 && i < v->count ? &v->check[i] : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Questions for the engines of accounting: a question with its slack, asked of epsilon or of ln delta. */
#ifndef DPMF_TESTS_ACCOUNT_ASK_H
#define DPMF_TESTS_ACCOUNT_ASK_H

#include "account/contour/contour.h"
#include "account/grid/grid.h"

#include <math.h>

static inline account_question epsilon_at(account_question how, double log_delta) {
    how.of_epsilon = 1;
    how.given = log_delta;
    return how;
}

static inline account_question log_delta_at(account_question how, double epsilon) {
    how.of_epsilon = 0;
    how.given = epsilon;
    return how;
}

static inline dpmf_status ask_dots(const account_pair *pair, account_question q, double *value, int *met) {
    account_answer found = {0};
    TRY(grid_answer(&(grid_source){.pair = pair}, &q, &found));
    *value = found.value;
    *met = found.met;
    return DPMF_OK;
}

static inline dpmf_status ask_list(int count, const grid_part *parts, int reversed, account_question q, double *value,
                                   int *met) {
    account_answer found = {.value = NAN};
    const dpmf_status status =
        grid_answer(&(grid_source){.count = count, .reversed = reversed, .parts = parts}, &q, &found);
    *value = found.value;
    *met = found.met;
    return status;
}

static inline dpmf_status ask_fourier(const account_pair *pair, account_question q, double *value, int *met) {
    account_answer found = {0};
    TRY(fourier_answer(pair, &q, &found));
    *value = found.value;
    *met = found.met;
    return DPMF_OK;
}

static inline dpmf_status ask_rdp(const account_pair *pair, account_question q, double *value) {
    return account_rdp_answer(pair, &q, value);
}

static inline dpmf_status ask_contour(const account_pair *pair, account_question q, double *value, double *error) {
    return contour_answer(pair, &q, value, error);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of tests/data/accounting.csv, made by tests/python/reference_accounting.py. */
#ifndef DPMF_TESTS_ACCOUNT_ROWS_H
#define DPMF_TESTS_ACCOUNT_ROWS_H

#include "support/account_ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct account_row {
    int direct; /* from the definition; else by a contour in many digits */
    account_pair pair;
    double epsilon, log_delta;
} account_row;

enum { ACCOUNT_ROWS_MAX = 1000 };

/* Reads them all; `rows` has room for ACCOUNT_ROWS_MAX. */
static inline int account_rows_read(account_row *rows) {
    const char *source = getenv("DPMF_SOURCE");
    char path[1024], line[256], how[16], direction[16];
    snprintf(path, sizeof path, "%s%stests/data/accounting.csv", source == NULL ? "" : source,
             source == NULL ? "" : "/");
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s cannot be opened (run from the top of the source tree, or set DPMF_SOURCE)", path);
    int count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        assert_true(count < ACCOUNT_ROWS_MAX);
        account_row *r = &rows[count++];
        long long n = 0;
        assert_int_equal(sscanf(line, "%15[^;];%15[^;];%lf;%lf;%lld;%lf;%lf", how, direction, &r->pair.sigma,
                                &r->pair.probability, &n, &r->epsilon, &r->log_delta),
                         7);
        r->direct = strcmp(how, "direct") == 0;
        r->pair.compositions = n;
        r->pair.direction = strcmp(direction, "remove") == 0 ? ACCOUNT_REMOVE
                            : strcmp(direction, "add") == 0  ? ACCOUNT_ADD
                                                             : ACCOUNT_REPLACE;
    }
    fclose(file);
    return count;
}

#define ACCOUNT_ROW_FORMAT "%s sigma %g q %g n %lld epsilon %.9g ln delta %.12g"
#define ACCOUNT_ROW_VALUES(r)                                                                                          \
    ((r)->pair.direction == ACCOUNT_REMOVE ? "remove"                                                                  \
     : (r)->pair.direction == ACCOUNT_ADD  ? "add"                                                                     \
                                           : "replace"),                                                                \
        (r)->pair.sigma, (r)->pair.probability, (long long)(r)->pair.compositions, (r)->epsilon, (r)->log_delta

/*
 * The certified engine on a row: never below the true epsilon (1e-12 apart, what the row's digits lose as doubles), at
 * most 0.1 % or 1e-4 above it.
 */
static inline void account_row_certified(const account_row *r) {
    const account_question options = {.relative = 5e-4, .absolute = 5e-5};
    double epsilon = -1;
    int met = 0;
    assert_int_equal(ask_dots(&r->pair, epsilon_at(options, r->log_delta), &epsilon, &met), DPMF_OK);
    const double most = r->epsilon * 1.001 > r->epsilon + 1e-4 ? r->epsilon * 1.001 : r->epsilon + 1e-4;
    if (!(epsilon >= r->epsilon * (1 - 1e-12) && epsilon <= most))
        fail_msg("certified %.12g for " ACCOUNT_ROW_FORMAT, epsilon, ACCOUNT_ROW_VALUES(r));
}

#endif

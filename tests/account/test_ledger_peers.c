/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of different runs against tests/data/ledger.csv (tests/python/reference_ledger.py): never looser than dp-accounting by
 * more than 1e-4, never below the value of a contour in 50 digits.
 */
#include "dpmf.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 20 };

typedef struct row {
    double mu, delta, peer, log_delta;
    int runs;
    double sigma[3], q[3];
    long long steps[3];
} row;

static void read_runs(char *text, row *r) {
    r->runs = 0;
    for (char *at = strtok(text, " "); at != NULL; at = strtok(NULL, " "), r->runs++) {
        assert_true(r->runs < 3);
        assert_int_equal(sscanf(at, "%lf:%lf:%lld", &r->sigma[r->runs], &r->q[r->runs], &r->steps[r->runs]), 3);
    }
}

static void read_rows(row rows[CASES]) {
    const char *source = getenv("DPMF_SOURCE");
    char path[1024], line[512], runs[256];
    snprintf(path, sizeof path, "%s%stests/data/ledger.csv", source == NULL ? "" : source, source == NULL ? "" : "/");
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s cannot be opened (run from the top of the source tree, or set DPMF_SOURCE)", path);
    assert_non_null(fgets(line, sizeof line, file)); /* its header */
    for (int i = 0; i < CASES; i++) {
        row *r = &rows[i];
        assert_non_null(fgets(line, sizeof line, file));
        assert_int_equal(sscanf(line, "%lf,%255[^,],%lf,%lf,%lf", &r->mu, runs, &r->delta, &r->peer, &r->log_delta), 5);
        read_runs(runs, r);
    }
    fclose(file);
}

static dpmf_ledger *ledger_of(const row *r, int backwards) {
    dpmf_ledger *ledger = NULL;
    check_ok(dpmf_ledger_create(DPMF_ADJACENCY_ZERO_OUT, &ledger));
    if (!backwards) check_ok(dpmf_ledger_add_gaussian(ledger, r->mu, 1));
    for (int i = 0; i < r->runs; i++) {
        const int j = backwards ? r->runs - 1 - i : i;
        dpmf_account_options o = dpmf_account_options_defaults();
        o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, r->q[j], 0, 0, 0, 0};
        o.compositions = r->steps[j];
        check_ok(dpmf_ledger_add_sampled(ledger, r->sigma[j], &o, 1));
    }
    if (backwards) check_ok(dpmf_ledger_add_gaussian(ledger, r->mu, 1));
    return ledger;
}

static void test_against_a_peer_and_a_contour(void **state) {
    row rows[CASES];
    double looser = -INFINITY, above = 0;
    (void)state;
    read_rows(rows);
    for (int i = 0; i < CASES; i++) {
        dpmf_ledger *ledger = ledger_of(&rows[i], 0), *back = ledger_of(&rows[i], 1);
        dpmf_privacy p, q;
        check_ok(dpmf_ledger_epsilon(ledger, rows[i].delta, NULL, &p));
        check_ok(dpmf_ledger_epsilon(back, rows[i].delta, NULL, &q));
        assert_true(p.epsilon == q.epsilon); /* the order does not matter */
        if (!(p.epsilon <= rows[i].peer + 1e-4))
            fail_msg("case %d: epsilon %.9g, dp-accounting %.9g", i, p.epsilon, rows[i].peer);
        looser = fmax(looser, p.epsilon - rows[i].peer);
        check_ok(dpmf_ledger_delta(ledger, rows[i].peer, NULL, &p));
        if (!(log(p.delta) >= rows[i].log_delta))
            fail_msg("case %d: ln delta %.15g, below the true %.15g", i, log(p.delta), rows[i].log_delta);
        above = fmax(above, log(p.delta) - rows[i].log_delta);
        dpmf_ledger_free(ledger);
        dpmf_ledger_free(back);
    }
    print_message("epsilon at most %.3g above dp-accounting's; ln delta at most %.3g above the true one\n", looser,
                  above);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_a_peer_and_a_contour)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

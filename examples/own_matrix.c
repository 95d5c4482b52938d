/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of your own: a C with more rows than steps, with its pseudo-inverse and with a decoder; recurrent coefficients. */
#include <dpmf.h>
#include <stdio.h>

enum { STEPS = 4, ROWS = 7 };

static dpmf_status show(const char *name, const char *family, const dpmf_workload *a, const dpmf_strategy_options *o) {
    dpmf_strategy *strategy = NULL;
    dpmf_evaluation found;
    dpmf_status status = dpmf_strategy_create(family, a, o, &strategy);
    if (status == DPMF_OK) status = dpmf_evaluate(a, NULL, strategy, NULL, &found, NULL);
    if (status == DPMF_OK)
        printf("%-28s sensitivity %.4f, RMS loss %.4f, %lld buffers\n", name, found.sensitivity.value, found.rms_loss,
               (long long)dpmf_strategy_get(strategy).buffers);
    dpmf_strategy_free(strategy);
    return status;
}

int main(void) {
    /* A binary tree over four steps: four leaves, two sums of pairs, one sum of all. */
    static const double tree[ROWS][STEPS] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1},
                                             {1, 1, 0, 0}, {0, 0, 1, 1}, {1, 1, 1, 1}};
    /* Each running sum from as few nodes as possible: decoder x tree = prefix sums. */
    static const double decoder[STEPS][ROWS] = {
        {1, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 1, 0, 0}, {0, 0, 1, 0, 1, 0, 0}, {0, 0, 0, 0, 0, 0, 1}};
    static const double m[2][2] = {{0.8, 0.3}, {-0.3, 0.8}}, u[2] = {1, 0.2}, v[2] = {1, 0};
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    dpmf_workload *workload = NULL;
    dpmf_status status = dpmf_workload_parse("prefix", STEPS, &workload);
    o.matrix_rows = ROWS;
    o.matrix = &tree[0][0];
    if (status == DPMF_OK) status = show("tree, pseudo-inverse", DPMF_FAMILY_DENSE, workload, &o);
    o.decoder_matrix = &decoder[0][0];
    if (status == DPMF_OK) status = show("tree, decoder of few nodes", DPMF_FAMILY_DENSE, workload, &o);
    o = dpmf_strategy_options_defaults();
    o.matrix_rows = 2;
    o.matrix = &m[0][0];
    o.u = u;
    o.v = v;
    if (status == DPMF_OK) status = show("recurrent coefficients", DPMF_FAMILY_RECURRENT, workload, &o);
    if (status != DPMF_OK) fprintf(stderr, "%s\n", dpmf_last_error());
    dpmf_workload_free(workload);
    return status == DPMF_OK ? 0 : 1;
}

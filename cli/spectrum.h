/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise in a quadratic loss with Hessian eigenvalues lambda_i and learning rate R (Pillutla et al. 2025, Section 3.5.2:
 * linear regression). Along eigenvector i gradient descent is o_t = (1 - R lambda_i) o_{t-1} + R noise_t, so that the noise
 * adds R^2/2 lambda_i Var o_t to the loss, and Var o_t is the squared error for the workload decay(R lambda_i).
 */
#ifndef DPMF_CLI_SPECTRUM_H
#define DPMF_CLI_SPECTRUM_H

#include "output.h"
#include "problem.h"

typedef struct spectrum {
    int64_t count;
    double *eigenvalues; /* above 0 */
    double rate;
    double *mean, *last, *independent_mean,
        *independent_last; /* R^2/2 lambda_i x squared error: mean of the steps, last step */
} spectrum;

/* 0, or the exit code after a message. */
int spectrum_read(const char *path, spectrum *out);

/* The four lists, for p->strategy and for independent noise under the same participation; sigma 1. */
int spectrum_evaluate(const arguments *given, const problem *p, spectrum *s);
void spectrum_free(spectrum *s);

void json_spectrum(text_buffer *t, const spectrum *s);
void table_spectrum(text_buffer *t, const spectrum *s);

#endif

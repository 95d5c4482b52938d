/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy: the ops table that every family fills in. Optional entries may be NULL; strategy.c then builds them from
 * the others (a column from apply, an inverse column from step, ...).
 */
#ifndef DPMF_STRATEGY_H
#define DPMF_STRATEGY_H

#include "base/json.h"
#include "base/safetensors.h"
#include "base/status.h"

typedef struct dpmf_i_strategy_ops {
    const char *class_name; /* how the file names the representation: "identity", "toeplitz", "banded", ... */
    void (*release)(dpmf_strategy *s);
    dpmf_status (*apply)(const dpmf_strategy *s, const double *x, double *y); /* y = C x; x != y */
    dpmf_status (*solve)(const dpmf_strategy *s, const double *y, double *x); /* x = C^-1 y; x != y */
    void (*step)(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row);
    int64_t (*buffers)(const dpmf_strategy *s);

    dpmf_status (*column)(const dpmf_strategy *s, int64_t j, double *column); /* optional */
    dpmf_status (*column_norms)(const dpmf_strategy *s, double *norms);       /* optional */
    void (*inverse_part)(const dpmf_strategy *s, int64_t t, int64_t j, int64_t count, double *values);
    /* optional: C^-1[t, j..j+count) for j + count <= t + 1, cheaply */

    /* Band structure; NULL or a value of steps: none. Row t, j = 0..bands-1; entries left of column 0 are 0. */
    int64_t (*bands)(const dpmf_strategy *s);
    void (*row)(const dpmf_strategy *s, int64_t t, double *values); /* C[t, t-j] */
    int64_t (*inverse_bands)(const dpmf_strategy *s);
    void (*inverse_row)(const dpmf_strategy *s, int64_t t, double *values); /* C^-1[t, t-j] */

    /* First columns of C and C^-1 if C is Toeplitz (counts may be less than steps: zeros follow); NULL: it is not. */
    void (*toeplitz)(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                     const double **inverse);

    /* The file: numbers to an open JSON object, arrays to `tensors` (borrowed). Each class has a reader in its file. */
    void (*write)(const dpmf_strategy *s, dpmf_i_writer *w, dpmf_i_tensors *tensors);
} dpmf_i_strategy_ops;

struct dpmf_strategy {
    const dpmf_i_strategy_ops *ops;
    int references; /* atomic */
    int64_t steps;
    const char *family;  /* a string constant */
    int64_t singular_at; /* the first t with C[t,t] = 0, or -1: then C has an inverse */
};

/* Makes the common part of a strategy of `size` bytes, zeroed, with one reference. */
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_new(const dpmf_i_strategy_ops *ops, size_t size, const char *family,
                                                int64_t steps, dpmf_strategy **out);

/* Shares it: one more free is needed. Returns its argument. */
dpmf_strategy *dpmf_i_strategy_retain(const dpmf_strategy *strategy);

/* Structure, with the NULL entries of the table filled in. */
int64_t dpmf_i_strategy_bands(const dpmf_strategy *s);
int64_t dpmf_i_strategy_inverse_bands(const dpmf_strategy *s);
int dpmf_i_strategy_toeplitz(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                             const double **inverse); /* 1 if Toeplitz */

/* DPMF_ERROR_NUMERICAL with a message if C has no inverse. */
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_need_inverse(const dpmf_strategy *s);

/* The dense matrix itself where there is one, else NULL. */
const double *dpmf_i_strategy_dense_matrix(const dpmf_strategy *s);

/* C = A for which workload? NULL if it is not of that class. */
const dpmf_workload *dpmf_i_strategy_own_workload(const dpmf_strategy *s);

/* The families, each in its file. */
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_create_identity(int64_t steps, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_create_workload(const dpmf_workload *workload, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_create_root(const dpmf_workload *workload, double nu, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_create_bsr(const dpmf_workload *workload, int64_t bands,
                                                       dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_create_bisr(const dpmf_workload *workload, int64_t bands,
                                                        dpmf_strategy **out);

/* Their readers: from a mechanism file's JSON object and arrays. */
typedef struct dpmf_i_strategy_source {
    const cJSON *object;
    const dpmf_i_tensors *tensors;
    const dpmf_workload *workload;
    const char *family; /* a string constant */
    int64_t steps;
} dpmf_i_strategy_source;
DPMF_MUST_CHECK dpmf_status dpmf_i_toeplitz_read(const dpmf_i_strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status dpmf_i_banded_read(const dpmf_i_strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status dpmf_i_dense_read(const dpmf_i_strategy_source *source, dpmf_strategy **out);
/* An array of the file with this shape (columns 0: a vector; rows or columns -1: any), or DPMF_ERROR_FORMAT. */
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_array(const dpmf_i_strategy_source *source, const char *name, int64_t rows,
                                                  int64_t columns, const dpmf_i_tensor **out);

/* The strategy part of a mechanism file: an object {"class": ..., "family": ..., numbers} and arrays "strategy.*". */
void dpmf_i_strategy_write(const dpmf_strategy *s, dpmf_i_writer *w, dpmf_i_tensors *tensors);
DPMF_MUST_CHECK dpmf_status dpmf_i_strategy_read(const cJSON *object, int64_t steps, const dpmf_workload *workload,
                                                 const dpmf_i_tensors *tensors, dpmf_strategy **out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy: the ops table that every family fills in. C has `rows` rows and one column a step; W is a left inverse,
 * W C = I, which for a square C is C^-1. Optional entries may be NULL; strategy/object.c then builds what it can from the
 * others (a column from apply, norms from columns, ...).
 */
#ifndef DPMF_STRATEGY_H
#define DPMF_STRATEGY_H

#include "base/json.h"
#include "base/safetensors.h"
#include "base/status.h"
#include "families/blt/blt.h"
#include "families/replay/replay.h"
#include "families/tree/tree.h"
#include "families/tvblt/tvblt.h"
#include "families/unbounded/unbounded.h"

#include <stddef.h>

typedef struct strategy_ops {
    const char *class_name;            /* how the file names the representation: "toeplitz", "banded", "tree", ... */
    void (*release)(dpmf_strategy *s); /* optional */
    int64_t (*rows)(const dpmf_strategy *s);                                  /* optional: steps */
    dpmf_status (*apply)(const dpmf_strategy *s, const double *x, double *y); /* y = C x; x != y */
    dpmf_status (*solve)(const dpmf_strategy *s, const double *y, double *x); /* x = W y; x != y */

    /* The stream of W Z; optional: without it every row needs every seed. */
    void (*step)(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row);
    int64_t (*seeds)(const dpmf_strategy *s, int64_t t); /* optional: 1 seed row a step */
    int64_t (*buffers)(const dpmf_strategy *s);
    double (*normals)(const dpmf_strategy *s); /* optional: 1 normal number for a number of noise */

    dpmf_status (*column)(const dpmf_strategy *s, int64_t j, double *column); /* optional; `rows` numbers */
    dpmf_status (*column_norms)(const dpmf_strategy *s, double *norms);       /* optional */
    dpmf_status (*gram)(const dpmf_strategy *s, int64_t lag, double *values); /* optional: (C'C)[t, t+lag], all t */
    void (*covariance)(const dpmf_strategy *s, int64_t t, double *values);    /* optional: (W W')[t, t..n) */
    void (*inverse_part)(const dpmf_strategy *s, int64_t t, int64_t j, int64_t count, double *values);
    /* optional: W[t, j..j+count) for a square C and j + count <= t + 1, cheaply */

    /* Band structure of a square C; optional: none. Row t, j = 0..bands-1; entries left of column 0 are 0. */
    int64_t (*bands)(const dpmf_strategy *s);
    void (*row)(const dpmf_strategy *s, int64_t t, double *values); /* C[t, t-j] */
    int64_t (*inverse_bands)(const dpmf_strategy *s);
    void (*inverse_row)(const dpmf_strategy *s, int64_t t, double *values); /* C^-1[t, t-j] */

    /* First columns of C and C^-1 if C is Toeplitz (counts may be less than steps: zeros follow). */
    void (*toeplitz)(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                     const double **inverse);

    /* The file: numbers to an open JSON object, arrays to `tensors` (borrowed). Each class has a reader in its file. */
    void (*write)(const dpmf_strategy *s, base_writer *w, base_tensors *tensors);
} strategy_ops;

/*
 * Which of the optional entries mean something for this object. A new strategy can do what its table has; a wrapper,
 * whose table has everything, can do what its inner strategy can.
 */
enum {
    STRATEGY_CAN_STEP = 1,
    STRATEGY_CAN_GRAM = 2,
    STRATEGY_CAN_COVARIANCE = 4,
    STRATEGY_CAN_INVERSE_PART = 8,
    STRATEGY_CAN_ROW = 16,
    STRATEGY_CAN_INVERSE_ROW = 32,
    STRATEGY_CAN_TOEPLITZ = 64,
    STRATEGY_CAN_SAVE = 128
};

struct dpmf_strategy {
    const strategy_ops *ops;
    int references; /* atomic */
    unsigned can;
    int64_t steps;
    const char *family;  /* a string constant */
    int64_t singular_at; /* the first t with C[t,t] = 0, or -1: then C has a left inverse */
};

/* Defines cast: from a strategy to the family's own struct, which begins with it (`base`). */
#define STRATEGY_CAST(family)                                                                                          \
    static inline const family *cast(const dpmf_strategy *s) {                                                         \
        _Static_assert(offsetof(family, base) == 0, "a family's struct begins with the strategy");                     \
        return (const family *)s;                                                                                      \
    }

static inline int strategy_can(const dpmf_strategy *s, unsigned what) {
    return (s->can & what) == what;
}

/* Makes the common part of a strategy of `size` bytes, zeroed, with one reference. */
DPMF_MUST_CHECK dpmf_status strategy_new(const strategy_ops *ops, size_t size, const char *family, int64_t steps,
                                         dpmf_strategy **out);

/* Shares it: one more free is needed. Returns its argument. */
dpmf_strategy *strategy_retain(const dpmf_strategy *strategy);

/* Structure, with the missing entries of the table filled in. */
int64_t strategy_bands(const dpmf_strategy *s);
int64_t strategy_inverse_bands(const dpmf_strategy *s);
int strategy_toeplitz(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                      const double **inverse); /* 1 if Toeplitz */

/* (C'C)[t, t+lag] for t = 0..steps-lag-1, 0 <= lag < steps (strategy/gram.c). */
DPMF_MUST_CHECK dpmf_status strategy_gram(const dpmf_strategy *s, int64_t lag, double *values);

/* The repeated block and how often; the strategy itself and 1 if it is not stamped. */
const dpmf_strategy *strategy_block(const dpmf_strategy *s, int64_t *stamps);

/* The strategy inside a column normalization and its norms; the strategy itself and NULL if there is none. */
const dpmf_strategy *strategy_scaled(const dpmf_strategy *s, const double **norms);

/* Is it a tree, and which? */
int strategy_tree(const dpmf_strategy *s, tree_kind *kind);

/* Squared errors of fft and fft-opt under prefix sums, in closed form; 0 if it is neither. */
int strategy_fft_prefix_error(const dpmf_strategy *s, double *squares);

/* W whole, steps x rows numbers (strategy/triangular.c). */
DPMF_MUST_CHECK dpmf_status strategy_left_inverse(const dpmf_strategy *s, double *w);

/* Its first `steps` steps as a strategy of their own: the leading block of C (strategy/leading.c). */
DPMF_MUST_CHECK dpmf_status strategy_create_leading(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out);

/* DPMF_ERROR_NUMERICAL with a message if C has no inverse. */
DPMF_MUST_CHECK dpmf_status strategy_need_inverse(const dpmf_strategy *s);

/* The dense matrix itself where there is one, else NULL. */
const double *strategy_matrix(const dpmf_strategy *s);

/* C = A for which workload? NULL if it is not of that class. */
const dpmf_workload *strategy_own_workload(const dpmf_strategy *s);

/* ---- the families (families/families.c) ---- */

/* In the order in which lists show them: the i of dpmf_family_info. */
typedef enum strategy_family_id {
    STRATEGY_FAMILY_IDENTITY = 0,
    STRATEGY_FAMILY_WORKLOAD,
    STRATEGY_FAMILY_DENSE,
    STRATEGY_FAMILY_BANDED,
    STRATEGY_FAMILY_TOEPLITZ,
    STRATEGY_FAMILY_BANDED_TOEPLITZ,
    STRATEGY_FAMILY_BSR,
    STRATEGY_FAMILY_BISR,
    STRATEGY_FAMILY_BLT,
    STRATEGY_FAMILY_TVBLT,
    STRATEGY_FAMILY_UNBOUNDED,
    STRATEGY_FAMILY_LOWRANK,
    STRATEGY_FAMILY_TREE,
    STRATEGY_FAMILY_TREE_ONLINE,
    STRATEGY_FAMILY_TREE_FULL,
    STRATEGY_FAMILY_FFT,
    STRATEGY_FAMILY_FFT_OPT,
    STRATEGY_FAMILY_COUNT
} strategy_family_id;

/* The family of that name, of `length` bytes; STRATEGY_FAMILY_COUNT if there is none. */
strategy_family_id strategy_family_find(const char *name, size_t length);

/* A family that has a closed form, made for the block of one stamp; the options have been checked. */
DPMF_MUST_CHECK dpmf_status strategy_family_create(strategy_family_id id, const dpmf_workload *block,
                                                   const dpmf_strategy_options *o, dpmf_strategy **out);

/*
 * The names of some families, joined by ", " and before the last by `last`. `place`: where a family stands in the list,
 * from 1; 0: not in it. Those in the same place are shown in the table's order. Returns `out`.
 */
enum { STRATEGY_FAMILY_LIST = 400 };
typedef int (*strategy_family_place)(const dpmf_family *family);
const char *strategy_family_list(strategy_family_place place, const char *last, char out[STRATEGY_FAMILY_LIST]);

/* Each in its file: */
DPMF_MUST_CHECK dpmf_status toeplitz_create_identity(int64_t steps, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status workload_strategy_create(const dpmf_workload *workload, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status toeplitz_create_root(const dpmf_workload *workload, double nu, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status toeplitz_create_bsr(const dpmf_workload *workload, int64_t bands, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status toeplitz_create_bisr(const dpmf_workload *workload, int64_t bands, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status tree_create(tree_kind kind, int64_t steps, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status fft_create(int64_t steps, int best, dpmf_strategy **out);

/* Their readers: from a mechanism file's JSON object and arrays. */
typedef struct strategy_source {
    const cJSON *object;
    const base_tensors *tensors;
    const dpmf_workload *workload;
    const char *family; /* a string constant */
    int64_t steps;
} strategy_source;
DPMF_MUST_CHECK dpmf_status toeplitz_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status banded_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status dense_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status replay_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status tree_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status lowrank_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status fft_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status workload_strategy_read(const strategy_source *source, dpmf_strategy **out);
typedef dpmf_status (*strategy_reader)(const strategy_source *source, dpmf_strategy **out);

/* Who reads strategies of that class; NULL: no family's (families/families.c). */
strategy_reader strategy_family_reader(const char *class_name);

/* An array of the file with this shape (columns 0: a vector; rows or columns -1: any), or DPMF_ERROR_FORMAT. */
DPMF_MUST_CHECK dpmf_status strategy_array(const strategy_source *source, const char *name, int64_t rows,
                                           int64_t columns, const base_tensor **out);

/* The strategy part of a mechanism file: an object {"class": ..., "family": ..., numbers} and arrays "strategy.*". */
void strategy_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors);
DPMF_MUST_CHECK dpmf_status strategy_read(const cJSON *object, int64_t steps, const dpmf_workload *workload,
                                          const base_tensors *tensors, dpmf_strategy **out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy: the table of operations that every family fills in. C has `rows` rows and one column per step; W is a left
 * inverse, W C = I, which for a square C is C^-1. Optional entries may be NULL; strategy/strategy.c then builds what it can
 * from the others (a column from apply, norms from columns, ...).
 *
 * The stages ask this table what an object can do, and never which family it is of. Where an entry is missing, or answers
 * that it has no way of its own, the stage takes its general route.
 */
#ifndef DPMF_STRATEGY_H
#define DPMF_STRATEGY_H

#include "base/json.h"
#include "base/safetensors.h"
#include "base/status.h"

#include <stddef.h>

/* Questions of the stages above (error/error.h, sensitivity/sensitivity.h, noise/plan.h, optimize/optimize.h, design/design.h). */
struct error_question;
struct sensitivity_task;
struct sensitivity_found;
struct noise_plan;
struct optimize_task;
struct design_federated_range;

typedef struct strategy_ops {
    const char *class_name;            /* how the file names the representation: "toeplitz", "banded", "tree", ... */
    void (*release)(dpmf_strategy *s); /* optional */
    int64_t (*rows)(const dpmf_strategy *s);                                  /* optional: steps */
    dpmf_status (*apply)(const dpmf_strategy *s, const double *x, double *y); /* y = C x; x != y */
    dpmf_status (*solve)(const dpmf_strategy *s, const double *y, double *x); /* x = W y; x != y */

    /* The stream of W Z; optional: without it every row needs every seed. */
    void (*step)(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row);
    int64_t (*seeds)(const dpmf_strategy *s, int64_t t); /* optional: 1 seed row per step */
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

    int64_t (*branching)(const dpmf_strategy *s); /* optional: of a tree whose nodes have a chosen number of children */

    void (*describe)(const dpmf_strategy *s, dpmf_strategy_info *info); /* optional: parameters of a class of its own */

    int is_toeplitz; /* C is Toeplitz by its class, also where its coefficients are too many to be held */

    const double *(*matrix)(const dpmf_strategy *s); /* optional: C itself, where it is held as a matrix */

    /* optional: the strategy inside a wrapper; fills in how often it is repeated, or by what its columns are divided */
    const dpmf_strategy *(*inside)(const dpmf_strategy *s, int64_t *stamps, const double **norms);

    /* optional: its first steps, m <= steps: the leading block of C by itself; or the same stream, cut off */
    dpmf_status (*leading)(const dpmf_strategy *s, int64_t m, dpmf_strategy **out);
    dpmf_status (*cut)(const dpmf_strategy *s, int64_t m, dpmf_strategy **out);

    /* Rows of C'C where most of them are needed, optional: from some numbers per step, (C'C)[t, t+1..t+count]. */
    int64_t (*gram_numbers)(const dpmf_strategy *s);
    void (*gram_prepare)(const dpmf_strategy *s, double *prepared);
    void (*gram_row)(const dpmf_strategy *s, const double *prepared, int64_t t, int64_t count, double *values);

    /* ---- what a stage leaves to the family; all optional; `done` = 0, and nothing else: the general route ---- */

    /* |B[t,:]|^2 of s as the question has it: repeated, its rows scaled */
    dpmf_status (*squared_errors)(const dpmf_strategy *s, const struct error_question *question, int *done,
                                  double *squares);
    /* those of steps first..first+count-1 alone, and their sum and largest without an array of them; 0: it cannot */
    int (*squared_error_range)(const dpmf_strategy *s, const dpmf_workload *a, int64_t first, int64_t count,
                               double *squares);
    int (*squared_error_sums)(const dpmf_strategy *s, const dpmf_workload *a, double *total, double *largest);

    /* the longest column: value, kind and method; 0: it has no way of its own */
    int (*longest_column)(const dpmf_strategy *s, dpmf_sensitivity *out);
    /* several participations; `task` is unwrapped (sensitivity_task_unwrap), and s its core */
    dpmf_status (*sensitivity)(const dpmf_strategy *s, const struct sensitivity_task *task, int *done,
                               struct sensitivity_found *out);

    void (*plan_noise)(struct noise_plan *plan); /* the route of its stream; plan->leaf is the strategy */

    /* The file: numbers to an open JSON object, arrays to `tensors` (borrowed). Each class has a reader in its file. */
    void (*write)(const dpmf_strategy *s, base_writer *w, base_tensors *tensors);
} strategy_ops;

/* Which optional entries mean something for this object: those of its table; of a wrapper those of the strategy inside. */
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

/* Can it do all of these? */
int strategy_can(const dpmf_strategy *s, unsigned what);

/* Makes the common part of a strategy of `size` bytes, zeroed, with one reference. */
DPMF_MUST_CHECK dpmf_status strategy_new(const strategy_ops *ops, size_t size, const char *family, int64_t steps,
                                         dpmf_strategy **out);

/* Shares it: one more free is needed. Returns its argument. */
dpmf_strategy *strategy_retain(const dpmf_strategy *strategy);

/* Structure, with the missing entries of the table filled in. */
int64_t strategy_rows(const dpmf_strategy *s);
int64_t strategy_buffers(const dpmf_strategy *s);
double strategy_normals(const dpmf_strategy *s);
int strategy_is_normalized(const dpmf_strategy *s);
int64_t strategy_bands(const dpmf_strategy *s);
int64_t strategy_inverse_bands(const dpmf_strategy *s);
int strategy_toeplitz(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                      const double **inverse); /* 1 if Toeplitz */

/* Numbers that a strategy makes and holds although its file does not have them: 128 MB at most, for a file of any size. */
#define STRATEGY_HELD_MAX ((int64_t)1 << 24)

/* (C'C)[t, t+lag] for t = 0..steps-lag-1, 0 <= lag < steps (strategy/strategy.c). */
DPMF_MUST_CHECK dpmf_status strategy_gram(const dpmf_strategy *s, int64_t lag, double *values);

/* The repeated block and how often; the strategy itself and 1 if it is not repeated. */
const dpmf_strategy *strategy_block(const dpmf_strategy *s, int64_t *stamps);

/* The strategy inside a column normalization and its norms; the strategy itself and NULL if there is none. */
const dpmf_strategy *strategy_scaled(const dpmf_strategy *s, const double **norms);

const dpmf_strategy *strategy_innermost(const dpmf_strategy *s);

/* W whole, steps x rows numbers (strategy/triangular.c). */
DPMF_MUST_CHECK dpmf_status strategy_left_inverse(const dpmf_strategy *s, double *w);

/* The same stream cut off after `steps` steps, where the family has that; else it whole, retained. */
DPMF_MUST_CHECK dpmf_status strategy_cut(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out);

/* Its first `steps` steps as a strategy of their own: the leading block of C (strategy/triangular.c). */
DPMF_MUST_CHECK dpmf_status strategy_create_leading(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out);

/* DPMF_ERROR_NUMERICAL with a message if C has no inverse. */
DPMF_MUST_CHECK dpmf_status strategy_need_inverse(const dpmf_strategy *s);

/* C itself where it is held as a matrix, else NULL. */
const double *strategy_matrix(const dpmf_strategy *s);

/* ---- the table of families ---- */

/* A strategy in a mechanism file: its JSON object and arrays. */
typedef struct strategy_source {
    const cJSON *object;
    const base_tensors *tensors;
    const dpmf_workload *workload;
    const char *family; /* a string constant */
    int64_t steps;
} strategy_source;

/* What a family adds to a design (design/design.h). */
typedef struct strategy_candidates {
    int turn;          /* families are asked in this order, from 1, for what one reached can spare the next; 0: never */
    int64_t steps_max; /* without a search: its closed form is a candidate up to here; 0: only where it is named */
    unsigned samplings; /* bits 1 << dpmf_sampling_kind: it is a candidate under these, besides block-cyclic */
    int before_others;  /* under sampling its search comes first: it can have less noise than is proven for the rest */
    int keeps_schedule; /* it is never optimized without the workload's learning rates */
    const char *baseline; /* how sentences name it, if it is what the choice is compared with */
    dpmf_status (*search)(dpmf_design *d);
    dpmf_status (*search_last)(dpmf_design *d); /* optional: once more, after the searches of all families */
    /* Where clients decide when they take part, optional: candidates made for separation i of the range. */
    dpmf_status (*separated)(dpmf_design *d, struct design_federated_range *f, int64_t i);
    const char *separated_as; /* how its closed form is named there if it is a candidate; NULL: it is none */
} strategy_candidates;

typedef struct strategy_family {
    dpmf_family shown;
    /* From a workload, for the block of one stamp; the options have been checked. NULL: it has no closed form. */
    dpmf_status (*create)(const dpmf_workload *block, const dpmf_strategy_options *o, dpmf_strategy **out);
    /* The same from numbers in the options (`matrix`). NULL: it takes none there. */
    dpmf_status (*create_given)(const dpmf_workload *block, const dpmf_strategy_options *o, dpmf_strategy **out);
    /* The best of the family; `out` may be NULL. NULL: it is not optimized. */
    dpmf_status (*optimize)(const struct optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
    strategy_candidates candidates;
} strategy_family;

/* How a file names a representation, and its reader. */
typedef struct strategy_class {
    const char *name;
    dpmf_status (*read)(const strategy_source *source, dpmf_strategy **out);
} strategy_class;

/*
 * All that is known of the families by name, and the plain forms into which any strategy can be brought. It is filled in by
 * families/families.c, and only the files of this stage look into it.
 */
typedef struct strategy_table {
    const strategy_family *family; /* in the order in which lists show them: the i of dpmf_family_info */
    int64_t families;
    const strategy_class *class;
    int64_t classes;
    dpmf_status (*identity)(int64_t steps, dpmf_strategy **out);
    dpmf_status (*matrix)(int64_t steps, const double *matrix, dpmf_strategy **out);
    dpmf_status (*bands)(int64_t steps, int64_t bands, const double *rows, dpmf_strategy **out);
    dpmf_status (*toeplitz)(int64_t steps, dpmf_toeplitz_shape shape, int64_t count, const double *c,
                            dpmf_strategy **out);
    dpmf_status (*repeat)(const dpmf_strategy *strategy, int64_t stamps, dpmf_strategy **out);
    dpmf_status (*normalize)(const dpmf_strategy *strategy, dpmf_strategy **out);
} strategy_table;
extern const strategy_table families_table;

/* The family of that name, of `length` bytes; NULL if there is none. */
const strategy_family *strategy_family_find(const char *name, size_t length);

/* The family whose turn in a design comes after that of `family`, or the first for NULL; NULL if there is none. */
const strategy_family *strategy_family_next(const strategy_family *family);

/*
 * The names of some families, joined by ", " and before the last by `last`. `place`: where a family stands in the list,
 * from 1; 0: not in it. Those in the same place are shown in the table's order. Returns `out`.
 */
enum { STRATEGY_FAMILY_LIST = 400 };
typedef int (*strategy_family_place)(const dpmf_family *family);
const char *strategy_family_list(strategy_family_place place, const char *last, char out[STRATEGY_FAMILY_LIST]);

/* Plain forms: C = I; C from a lower-triangular matrix; any strategy repeated. */
DPMF_MUST_CHECK dpmf_status strategy_create_identity(int64_t steps, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status strategy_create_matrix(int64_t steps, const double *matrix, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status strategy_create_repeated(const dpmf_strategy *block, int64_t stamps, dpmf_strategy **out);

/* An array of the file with this shape (columns 0: a vector; rows or columns -1: any), or DPMF_ERROR_FORMAT. */
DPMF_MUST_CHECK dpmf_status strategy_array(const strategy_source *source, const char *name, int64_t rows,
                                           int64_t columns, const base_tensor **out);

/* The strategy part of a mechanism file: an object {"class": ..., "family": ..., numbers} and arrays "strategy.*". */
void strategy_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors);
DPMF_MUST_CHECK dpmf_status strategy_read(const cJSON *object, int64_t steps, const dpmf_workload *workload,
                                          const base_tensors *tensors, dpmf_strategy **out);

#endif

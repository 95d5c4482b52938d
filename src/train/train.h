/* SPDX-License-Identifier: Apache-2.0 */
/* Training: the two models, the clipped sum of a batch, and the trainer over them. */
#ifndef DPMF_TRAIN_H
#define DPMF_TRAIN_H

#include "base/status.h"
#include "base/threads.h"
#include "kernels/multiply/multiply.h"
#include "train/dataset.h"
#include "train/grid.h"

/* ---- the model (train/model.c) ---- */

/*
 * Layer one maps features to `outputs` numbers: the classes of softmax regression, or the hidden units, whose tanh layer
 * two maps to the classes. Weights lie as outputs x features, biases, classes x hidden, biases.
 */
typedef struct train_model {
    int64_t features, hidden, classes, outputs;
    int64_t first_bias, second, second_bias, dim; /* where they begin; layer one begins at 0 */
} train_model;

/* hidden 0: softmax regression. Refuses sizes whose products would overflow. */
DPMF_MUST_CHECK dpmf_status train_model_of(int64_t features, int64_t hidden, int64_t classes, train_model *out);

/* Zeros for softmax regression; else uniform in +-sqrt(6/(inputs + outputs)) (Glorot and Bengio 2010), biases zero. */
DPMF_MUST_CHECK dpmf_status train_model_start(const train_model *model, uint64_t seed, float *weights);

/* Weights as products read them, made anew when they change. */
typedef struct train_turned {
    float *first;  /* features x outputs */
    float *second; /* hidden x classes; NULL without a hidden layer */
} train_turned;
void train_model_turn(const train_model *model, const float *weights, train_turned *turned);

enum { TRAIN_LANES = 64 }; /* examples that go through the model together, one a column */

/* Room for them; every array is rows x TRAIN_LANES. The pointers are those rows. */
typedef struct train_lanes {
    float *memory;
    const float **rows;
    float *x, *first, *second, *back; /* features, outputs, classes, hidden rows */
    const float **x_rows, **first_rows, **second_rows;
} train_lanes;
DPMF_MUST_CHECK dpmf_status train_lanes_create(const train_model *model, train_lanes *out);
void train_lanes_free(train_lanes *lanes);

/*
 * The outputs of up to TRAIN_LANES examples: logits in lanes->first (softmax regression) or, with a hidden layer, its
 * activations in lanes->first and the logits in lanes->second. Returns the logits.
 */
float *train_model_forward(const train_model *model, const float *weights, const train_turned *turned, int64_t count,
                           const float *const *x, train_lanes *lanes);

/* Logits become derivatives of the loss by them; layer one's, with a hidden layer, come in lanes->back. */
void train_model_backward(const train_model *model, const float *weights, int64_t count, const int32_t *label,
                          train_lanes *lanes);

/* ---- the clipped sum (train/gradient.c over train/clip.c over train/grid.c) ---- */

/* Some of a batch's units, whole: as many as fit the room of a block, or one that is larger. */
typedef struct train_block {
    int64_t room, count; /* examples */
    int64_t units;
    const float **x;                        /* rows of the data set */
    int32_t *label;                         /* of each example */
    int64_t *start;                         /* unit u has the examples [start[u], start[u + 1]) of the block */
    float *first, *second;                  /* derivatives by the outputs of each layer, an example a row */
    float *hidden;                          /* activations, an example a row */
    const float **hidden_rows;              /* those rows */
    train_input *input, *hidden_input;      /* of each example, on grids of their own */
    double *first_clipped, *second_clipped; /* derivatives for the exact product, in rows of train_stride();
                                             * NULL: by_unit, or no clip */
    int *clipped;                           /* of each unit: its gradient is not what it was */
    double *factor;                         /* by_unit: what its gradient is multiplied by */
} train_block;

typedef struct train_clip {
    double clip;       /* may be infinite */
    double zero_above; /* 0: never */
    int by_unit;
    int64_t units; /* the most that a batch can have */
    double noise;  /* standard deviation; 0: none */
    double grid;   /* of the exact release, which sums share; 0: chosen */
} train_clip;

typedef struct train_gradient {
    const dpmf_dataset *data;
    train_model model;
    train_clip clip;
    base_pool *pool; /* borrowed */
    double worth;    /* examples x weights of a block from which on threads share it; tests set it to 0 */
    const float *weights;
    train_turned turned;
    train_block block;
    train_lanes *lanes; /* one a thread */
    float *users;       /* by_unit: gradients of a group of users, users_room rows of dim numbers */
    int64_t users_room;
    int64_t group, group_size; /* its first unit in the block, and how many */
    int64_t *unit_start;       /* by_unit: the examples of unit u are unit_member[unit_start[u]] ... */
    int64_t *unit_member;
    train_grid grid;
    float *plain;           /* without a clip norm: the sums in float; else NULL */
    int64_t *sums;          /* out: dim numbers, in steps of the grid */
    int64_t units, clipped; /* out: units that were summed, and those of them that were clipped or left out */
} train_gradient;

DPMF_MUST_CHECK dpmf_status train_gradient_create(const dpmf_dataset *data, const train_model *model, train_clip clip,
                                                  base_pool *pool, train_gradient **out);
void train_gradient_free(train_gradient *gradient);

/*
 * The sum over units batch[part], batch[part + parts], ... of their clipped gradients at `weights`, into
 * gradient->sums. Without a clip norm DPMF_ERROR_NUMERICAL if one of them is not finite; with one such a unit adds 0.
 */
DPMF_MUST_CHECK dpmf_status train_gradient_sum(train_gradient *gradient, const float *weights, int64_t count,
                                               const int64_t *batch, int64_t part, int64_t parts);

/* train/clip.c: work(gradient, item, worker) for each item; by several threads if the block is worth it. */
DPMF_MUST_CHECK dpmf_status train_share(train_gradient *gradient, int64_t items, base_work work);

/* Doubles from one row to the next: an odd number of cache lines, or rows would meet in the same places of the cache. */
static inline int64_t train_stride(int64_t outputs) {
    return 8 * (((outputs + 7) / 8) | 1);
}

/* The clipped derivatives of one example of the block; any thread. */
void train_clip_example(train_gradient *gradient, int64_t example);

/* Adds the clipped gradients of the block's units to gradient->sums, or, without a clip norm, to gradient->plain ... */
DPMF_MUST_CHECK dpmf_status train_clip_and_add(train_gradient *gradient);

/* ... which at the end of the batch becomes gradient->sums. */
DPMF_MUST_CHECK dpmf_status train_plain_finish(train_gradient *gradient);

/* ---- the optimizer (train/optimizer.c) ---- */

typedef struct train_stepper {
    dpmf_optimizer kind;
    double learning_rate, momentum, beta1, beta2, adam_epsilon, decay;
    int nesterov;
    double *schedule; /* NULL, or one factor a step */
    int64_t dim;
    int states; /* rows of `state`: 0, 1 or 2 */
    float *state;
} train_stepper;

DPMF_MUST_CHECK dpmf_status train_stepper_open(const dpmf_trainer_options *options, int64_t steps, int64_t dim,
                                               train_stepper *out);
void train_stepper_close(train_stepper *stepper);

/* weights <- the next weights, for the gradient sums/expected of step t. */
void train_stepper_step(train_stepper *stepper, int64_t t, const float *sums, double expected, float *weights);

/* ---- the trainer (train/train.c, train/identity.c, train/checkpoint.c) ---- */

struct dpmf_trainer {
    const dpmf_dataset *data;
    const dpmf_mechanism *mechanism;
    dpmf_sampler *sampler;
    dpmf_trainer_options options; /* its schedule is the stepper's */
    train_model model;
    base_pool *pool;
    train_gradient *gradient;
    train_stepper stepper;
    dpmf_noise *noise; /* NULL: noiseless */
    int64_t offset;    /* of this part's share of the noise */
    int64_t steps, step;
    float *weights;
    float *released; /* what the optimizer sees of a step; before that a row of noise */
    int64_t *batch;
    double clipped, noise_seconds;
    char *identity;      /* text, one line a field: what a checkpoint must agree with */
    uint8_t mac_key[32]; /* of checkpoints */
};

/*
 * Everything that a run's values depend on as lines "name: value"; *shared gets the digest of those that all parts of it
 * have in common, which is the label of the noise.
 */
DPMF_MUST_CHECK dpmf_status train_identify(const dpmf_trainer *trainer, const uint8_t key[DPMF_KEY_SIZE],
                                           char **identity, char shared[65]);

/* Refuses a text that is not the trainer's own identity; the message names the first field that differs. */
DPMF_MUST_CHECK dpmf_status train_identity_compare(const char *held, const char *own, const char *path);

#endif

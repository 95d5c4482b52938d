/* SPDX-License-Identifier: Apache-2.0 */
/* Training: data sets, the two models, the clipped sum of a batch, and the trainer over them. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "base/status.h"
#include "base/threads.h"
#include "dpmf_train.h"
#include "train/kernels/multiply/multiply.h"

#include <stdatomic.h>
#include <string.h>

/* ---- the grid that sums of gradients lie on: whole numbers, so that sums are exact in any order (train/grid.c) ---- */

/* x to the nearest whole number, ties to even, |x| < 2^51: as a double, and as an integer. */
static inline double train_whole(double x) {
    const double middle = 6755399441055744.0; /* 1.5 x 2^52: what is added to it loses its fraction */
    return (x + middle) - middle;
}

static inline int64_t train_integer(double x) {
    const double shifted = x + 6755399441055744.0;
    int64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return bits - INT64_C(0x4338000000000000);
}

/* |x|^2 in double: no float overflows it. */
double train_square_of(int64_t count, const float *x);

/* Inputs of a layer, with the 1 of the bias, on a grid of their own. */
typedef struct train_input {
    double square; /* |b|^2 as an integer, the 1 included; NaN: an input is not finite, and all of them are 0 now */
    double step;   /* x = b step, a power of two */
} train_input;

/* Rounds the inputs to multiples of `step`, 2^-20 to 2^-21 of their norm. */
train_input train_round_inputs(int64_t count, float *x);

/* The whole number that stands for the bias's 1, times `step`. */
double train_one_of(const train_input *input);

/* Beyond these the grid of a sum leaves the range of floats; the noise has the same bounds. */
#define TRAIN_CLIP_MIN 0x1p-100
#define TRAIN_CLIP_MAX 0x1p100

typedef struct train_grid {
    double step, per_step; /* xi, a power of two, and 1/xi */
    double radius;         /* floor(clip/xi): the largest norm, in steps, that a unit may add */
    double gamma;          /* of normalised contributions; 0: clipped */
} train_grid;

/* For a clip norm, up to `units` units, noise of deviation `noise` (0: none), `outputs` of all layers. Some have no grid. */
DPMF_MUST_CHECK dpmf_status train_grid_choose(double clip, int64_t units, double noise, double given, int64_t outputs,
                                              train_grid *out);

/* A layer of one example: its derivatives, and its inputs on their grid. */
typedef struct train_layer {
    int64_t outputs;
    const float *d;
    train_input input;
    int64_t inputs; /* the numbers themselves; only a largest coordinate needs them */
    const float *x;
    double *out; /* the derivatives as they are to be multiplied with the inputs: products on the grid */
} train_layer;

/* Units that add nothing: those whose l2 norm, or whose largest coordinate, is above a number. */
typedef struct train_zero {
    double above; /* 0: none */
    int largest;  /* 1: the largest absolute coordinate is compared */
} train_zero;

/* Clips the sum over `layers` of d x' to radius, exactly; zeros if not finite or above zero's. *clipped: it changed. */
void train_clip_layers(const train_grid *grid, train_zero zero, int layers, const train_layer *layer, int *clipped);

/* The same for v/count, which is formed: rint(*factor v) has a norm of at most radius; 0 for numbers that are not finite. */
void train_clip_vector(const train_grid *grid, train_zero zero, int64_t dim, const float *v, int64_t count,
                       double *factor, int *clipped);

/* ---- data sets: examples in memory as float rows, their labels, and, where users are known, whose they are ---- */

/* Bounds that keep every size below far from overflow; what memory allows is the allocator's to say. */
#define TRAIN_EXAMPLES_MAX ((int64_t)1 << 40)
#define TRAIN_FEATURES_MAX ((int64_t)1 << 24)
enum { TRAIN_CLASSES_MAX = 65536 };

/* Rows that several data sets may share: parts of one are no copies. They do not change while they are shared. */
typedef struct train_rows {
    atomic_int owners;
    float *x;           /* on grids (above); a row that was not finite is 0 */
    train_input *input; /* those grids */
} train_rows;

DPMF_MUST_CHECK dpmf_status train_rows_create(int64_t count, int64_t features, train_rows **out);
void train_rows_leave(train_rows *rows); /* the last owner frees them; NULL is fine */

struct dpmf_dataset {
    int64_t count, features, classes;
    int64_t channels, height, width; /* of images: features = their product; 0: unknown */
    int64_t units;                   /* users; the number of examples where `unit` is NULL */
    float *x;                        /* count x features, of `rows` */
    train_input *input;              /* their grids */
    train_rows *rows;
    int32_t *label;  /* in [0, classes) */
    int64_t *unit;   /* NULL, or the user of each example, in [0, units) */
    char names[65];  /* SHA-256 of the names of the features, in order; empty: they have none */
    char digest[65]; /* SHA-256 of what it was made from; two data sets with one digest are equal */
};

/* A data set whose arrays are still to be filled in; `with_units`: `unit` is there too. */
DPMF_MUST_CHECK dpmf_status train_dataset_allocate(int64_t count, int64_t features, int with_units, dpmf_dataset **out);

/* Gives the data set rows of `features` numbers, which it owns from then on, in place of those that it has. */
void train_dataset_install(dpmf_dataset *dataset, train_rows *rows, int64_t features);

/* classes = the largest label + 1. */
void train_dataset_count_classes(dpmf_dataset *dataset);

/* Puts the features on their grids; after that the data set may be used. */
void train_dataset_finish(dpmf_dataset *dataset);

/* SHA-256 of the numbers themselves into `digest`, before they are put on grids. */
DPMF_MUST_CHECK dpmf_status train_dataset_digest(dpmf_dataset *dataset);

/* IDX from memory, plain or gzip (base_free the payload); `dimensions`: 1 or 3. Other magic, sizes and tails are refused. */
DPMF_MUST_CHECK dpmf_status train_idx_decode(const uint8_t *bytes, size_t size, const char *name, int dimensions,
                                             int64_t shape[3], uint8_t **payload);

/* One file of CIFAR-10, plain or gzip. */
DPMF_MUST_CHECK dpmf_status train_cifar_decode(const uint8_t *bytes, size_t size, const char *name, dpmf_dataset **out);

DPMF_MUST_CHECK dpmf_status train_csv_decode(const char *text, size_t size, const char *name, const char *label,
                                             const char *unit, dpmf_dataset **out);

/* ---- the model (train/model.c) ---- */

/* Layer one maps features to classes, or hidden units, whose tanh layer two maps. Order: W1 (outputs x features), b1, W2, b2 */
typedef struct train_model {
    int64_t features, hidden, classes, outputs;
    int64_t first_bias, second, second_bias, dim; /* where they begin; layer one begins at 0 */
} train_model;

/* hidden 0: softmax regression. Refuses sizes whose products would overflow. */
DPMF_MUST_CHECK dpmf_status train_model_of(int64_t features, int64_t hidden, int64_t classes, train_model *out);

/* Zeros for softmax regression; else uniform in +-sqrt(6/(inputs + outputs)) (Glorot and Bengio 2010), biases zero. */
DPMF_MUST_CHECK dpmf_status train_model_start(const train_model *model, uint64_t seed, float *weights);

/* Weights as products read them, made again when they change. */
typedef struct train_turned {
    float *first;  /* features x outputs */
    float *second; /* hidden x classes; NULL without a hidden layer */
} train_turned;
void train_model_turn(const train_model *model, const float *weights, train_turned *turned);

enum { TRAIN_LANES = 64 }; /* examples that go through the model together, one per column */

/* Room for them; every array is rows x TRAIN_LANES. The pointers are those rows. */
typedef struct train_lanes {
    float *memory;
    const float **rows;
    float *x, *first, *second, *back; /* features, outputs, classes, hidden rows */
    const float **x_rows, **first_rows, **second_rows;
} train_lanes;
DPMF_MUST_CHECK dpmf_status train_lanes_create(const train_model *model, train_lanes *out);
void train_lanes_free(train_lanes *lanes);

/* Returns the logits of up to TRAIN_LANES examples: lanes->first, or, where that has a hidden layer, lanes->second. */
float *train_model_forward(const train_model *model, const float *weights, const train_turned *turned, int64_t count,
                           const float *const *x, train_lanes *lanes);

/* Logits become derivatives of the loss by them; layer one's, with a hidden layer, come in lanes->back. */
void train_model_backward(const train_model *model, const float *weights, int64_t count, const int32_t *label,
                          train_lanes *lanes);

/* ---- blocks of examples (train/block.c) ---- */

enum { TRAIN_COLUMNS = 256 }; /* of one item of a product: enough that it is worth a thread */

static inline int64_t train_pieces(int64_t columns) {
    return (columns + TRAIN_COLUMNS - 1) / TRAIN_COLUMNS;
}

typedef struct train_block {
    int64_t room;              /* examples */
    const float **x;           /* rows of the data set */
    int32_t *label;            /* of each example */
    float *first, *second;     /* derivatives by the outputs of each layer, an example a row */
    float *hidden;             /* activations, an example a row */
    const float **hidden_rows; /* those rows */
} train_block;

/* Room for `room` examples in a block of zeros; train_block_free after a failure too. */
DPMF_MUST_CHECK dpmf_status train_block_create(const train_model *model, int64_t room, train_block *out);
void train_block_free(train_block *block);

/* Derivatives and activations of the examples [from, from + count), at most TRAIN_LANES. */
void train_block_derive(const train_model *model, const float *weights, const train_turned *turned, int64_t from,
                        int64_t count, train_lanes *lanes, train_block *block);

/* Adds the gradients of the examples [from, to) to `sums`: one item after the other, or side by side. */
int64_t train_block_items(const train_model *model);
void train_block_add(const train_model *model, const train_block *block, int64_t from, int64_t to, int64_t item,
                     float *sums);

/* ---- local training (train/local.c) ---- */

typedef struct train_local_room train_local_room;
typedef struct train_local {
    int64_t steps; /* L; 0: a user adds its gradient */
    double rate;   /* R */
    int64_t batch; /* M; 0: all of a user's examples */
    uint64_t seed; /* of the order of batches, not secret */
    int rooms;
    train_local_room *room; /* one per thread */
} train_local;

typedef struct train_local_user {
    int64_t number, count; /* in the data set; of its examples */
    const float *const *x;
    const int32_t *label;
} train_local_user;

/* Room for users of up to `largest` examples; train_local_close after a failure too. */
DPMF_MUST_CHECK dpmf_status train_local_open(const train_model *model, int threads, int64_t largest, train_local *out);
void train_local_close(train_local *local);

/* dim numbers: the weights minus those after local training from them. */
void train_local_update(const train_local *local, const train_model *model, const float *weights, int64_t round,
                        const train_local_user *user, int worker, train_lanes *lanes, float *update);

/* ---- the clipped sum (train/gradient.c over train/grid.c) ---- */

typedef struct train_clip {
    double clip;       /* may be infinite */
    double zero_above; /* 0: never */
    int by_unit;
    int64_t units;     /* the most that a batch can have */
    double noise;      /* standard deviation; 0: none */
    double grid;       /* of the exact release, which sums share; 0: chosen */
    int zero_largest;  /* 1: zero_above is for the largest coordinate, not for the norm */
    train_local local; /* by_unit: local training in place of gradients; its room is made here */
    double gamma;      /* 0: clipped; else normalised, clip g / (|g| + gamma) */
    int scaled;        /* 1: gradients are formed, and scaled by `scale` of the sum before they are clipped */
} train_clip;

typedef struct train_gradient {
    const dpmf_dataset *data;
    train_model model;
    train_clip clip;
    base_pool *pool; /* borrowed */
    double worth;    /* examples x weights of a block from which on threads share it; tests set it to 0 */
    const float *weights;
    const float *scale; /* NULL, or dim factors of a unit's gradient before it is clipped */
    train_turned turned;
    /* Some of a batch's units, whole: as many as fit the room of the block, or one that is larger. */
    train_block block;
    int64_t count, members;                 /* examples and units of the block */
    int64_t *start;                         /* unit u has the examples [start[u], start[u + 1]) of the block */
    int64_t *name;                          /* of each unit of the block: its number in the data set */
    train_input *input, *hidden_input;      /* of each example, on grids of their own */
    double *first_clipped, *second_clipped; /* derivatives for the exact product, in rows of stride();
                                             * NULL: by_unit, or no clip */
    int *changed;                           /* of each unit: its gradient is not what it was */
    double *factor;                         /* by_unit: what its gradient is multiplied by */
    train_lanes *lanes;                     /* one per thread */
    float *users;                           /* by_unit: gradients of a group of users, users_room rows of dim numbers */
    int64_t users_room;
    int64_t group, group_size; /* its first unit in the block, and how many */
    int64_t *unit_start;       /* by_unit: the examples of unit u are unit_member[unit_start[u]] ... */
    int64_t *unit_member;
    train_grid grid;
    int64_t round;          /* in: of local training */
    float *plain;           /* without a clip norm: the sums in float; else NULL */
    int64_t *sums;          /* out: dim numbers, in steps of the grid */
    int64_t units, clipped; /* out: units that were summed, and those of them that were clipped or left out */
} train_gradient;

DPMF_MUST_CHECK dpmf_status train_gradient_create(const dpmf_dataset *data, const train_model *model, train_clip clip,
                                                  base_pool *pool, train_gradient **out);
void train_gradient_free(train_gradient *gradient);

/* Sums batch[part], batch[part + parts], ... A unit that is not finite adds 0; without a clip norm: DPMF_ERROR_NUMERICAL. */
DPMF_MUST_CHECK dpmf_status train_gradient_sum(train_gradient *gradient, const float *weights, int64_t count,
                                               const int64_t *batch, int64_t part, int64_t parts);

/* ---- follow the regularized leader: from a dual vector to weights (train/ftrl.c) ---- */

typedef struct train_leader {
    dpmf_weight_set constraint;
    double radius;
    dpmf_regularizer regularizer;
    double l1;
    double *room; /* for dim numbers, where a simplex needs it */
} train_leader;

DPMF_MUST_CHECK dpmf_status train_leader_open(const dpmf_trainer_options *options, int64_t dim, train_leader *out);
void train_leader_close(train_leader *leader);

/*
 * The weights in Theta that minimise <-z, w> + |w|^2/2 + threshold |w|_1, or <-z, w> + sum w ln w with entropy, which
 * moves z to the largest entry 0: the answer stays the same. If an entry of z is not finite, all weights are NaN.
 */
void train_leader_weights(const train_leader *leader, int64_t dim, double threshold, float *z, float *weights);

/* ---- the optimizer (train/train.c) ---- */

typedef struct train_stepper {
    dpmf_optimizer kind;
    double learning_rate, momentum, beta1, beta2, adam_epsilon, decay, smoothing;
    int nesterov;
    double *schedule; /* NULL, or one factor a step */
    double *passed;   /* its running sums, where FTRL's L1 needs them */
    int64_t dim;
    int states; /* rows of `state`: 0, 1 or 2 */
    float *state;
    train_leader leader;
    double
        *variance; /* NULL; or of the noise of a gradient's coordinate, for each step: Adam takes it off its squares */
    double *least; /* and then what the second moment is not taken below */
} train_stepper;

DPMF_MUST_CHECK dpmf_status train_stepper_open(const dpmf_trainer_options *options, int64_t steps, int64_t dim,
                                               train_stepper *out);
void train_stepper_close(train_stepper *stepper);

/* Before step 0: the weights that training begins with, for a model's own. */
void train_stepper_begin(train_stepper *stepper, float *weights);

/* weights <- the next weights, for the gradient sums/expected of step t. */
void train_stepper_step(train_stepper *stepper, int64_t t, const float *sums, double expected, float *weights);

/* Options of second moments, and what they do not go with. */
DPMF_MUST_CHECK dpmf_status train_check_moments(const dpmf_trainer_options *options);

/* Adam's correction: `deviation` is that of the noise of a gradient's coordinate in a row of W of norm 1. */
DPMF_MUST_CHECK dpmf_status train_stepper_correct(train_stepper *stepper, const dpmf_mechanism *mechanism,
                                                  double deviation, const dpmf_run *run);

/* dim factors above 0 from the second moments of the steps before; all 1 before the first. */
void train_stepper_scales(const train_stepper *stepper, double floor, float *scale);

/* ---- the trainer (train/train.c, train/checkpoint.c) ---- */

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
    int has_state;     /* the noise has a state file */
    int64_t offset;    /* of this part's share of the noise */
    int64_t steps, step;
    float *weights;
    float *released; /* what the optimizer sees of a step; before that a row of noise */
    float *scale;    /* NULL, or what gradients of the step are multiplied by before they are clipped */
    int64_t *batch;
    double clipped, noise_seconds;
    char *identity;       /* text, one line a field: what a checkpoint must agree with */
    char shared[65];      /* digest of what all parts share of it */
    char data_digest[65]; /* of the data set when the trainer was made */
    uint8_t mac_key[32];  /* of checkpoints */
};

/* What a run's values depend on, as lines "name: value"; *shared: the digest of what all parts share, the noise's label. */
DPMF_MUST_CHECK dpmf_status train_identify(const dpmf_trainer *trainer, const uint8_t key[DPMF_KEY_SIZE],
                                           char **identity, char shared[65]);

#endif

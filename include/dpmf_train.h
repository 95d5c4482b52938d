/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf_train: private training of two small models (libdpmf_train, on top of libdpmf).
 *
 * Two models, softmax regression and one hidden layer (tanh), trained privately: step t sums the gradients of a batch's
 * units, each clipped to the norm `clip`, adds row t of the noise, divides by the expected batch size, and passes the
 * result to the optimizer, which is post-processing. A unit's contribution lies on a grid and is clipped there, in integers,
 * and sums are integers: two data sets that differ in one unit have sums that differ by at most `clip`, exactly.
 *
 * A step is one function of (key, data, options, step): the same bits for any number of threads, after any interruption
 * and on any instruction set. The noise is bound to the data and to every option, so a run with, for example, another
 * learning rate gets other noise from the same key. Two runs together still have the sum of both guarantees, and
 * with sampling only if their batches are drawn independently: give their samplers other labels, or other keys.
 *
 * SGD with momentum and schedule is the linear map A of the workload with the same momentum, schedule and decay (Denisov
 * et al. 2022, Section 4): a mechanism made for that workload includes the optimizer, one made for prefix sums
 * leaves it to post-processing; the trainer runs the same steps in both cases.
 *
 * The conventions are those of dpmf.h. Failures set the message of dpmf_last_error, and memory comes from the same allocator
 * under the same limit.
 */
#ifndef DPMF_TRAIN_H
#define DPMF_TRAIN_H

#include "dpmf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * 1  Data sets
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct dpmf_dataset dpmf_dataset;

/*
 * IDX: `images` (magic 0x803, bytes, divided by 255) and `labels` (0x801), plain or gzip. The number of classes is the
 * largest label plus one, here and in CSV.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_load_idx(const char *images, const char *labels, dpmf_dataset **out);

/*
 * CIFAR-10's binary format, plain or gzip: records of a class, 0 to 9, and 3 x 32 x 32 bytes, divided by 255. The files'
 * records one after the other; ten classes.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_load_cifar(int64_t files, const char *const *paths,
                                                             dpmf_dataset **out);

/*
 * CSV: a header line; the column `label` (NULL: none, every class is 0) holds 0 to classes - 1, the column `unit` (NULL:
 * none) a user's name, all others numbers. No quotes. A message names the line. Features that are not finite, here and
 * below, do not end anything: an example that has one adds 0 to every sum.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_load_csv(const char *path, const char *label, const char *unit,
                                                           dpmf_dataset **out);

/*
 * Holds out at least `held` examples for a test: the last ones, or, with by_unit, all those of as many users as it takes,
 * from the last user back. What is left keeps the other users, numbered as before.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_split(const dpmf_dataset *dataset, int64_t held, int by_unit,
                                                        dpmf_dataset **left, dpmf_dataset **out);

/*
 * Features on another scale: x_j becomes (x_j - offset_j) factor_j, with `features` numbers each that must not come
 * from the private examples (for example, a public range); with NULL for both, each example is divided by its own l2
 * norm. Training data and all data that the model is later applied to need the same.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_scale(dpmf_dataset *dataset, const double *offset,
                                                        const double *factor);

/*
 * Scattering features in place of pixels (Oyallon and Mallat 2015): a fixed function of each image, which costs no privacy and
 * makes a private linear model good (Tramer and Boneh 2021). Morlet filters of J scales and L angles, moduli of order 0, 1
 * and 2, smoothed and taken at every 2^J-th pixel; groups of three channels of an image normalised to mean 0 and
 * variance 1 (with `pink` each path minus the mean and divided by the deviation that it has over fixed images of pink noise
 * instead, which is better for colour photographs), rounded to half precision, and divided by the square root of their number. An image of c x h x w becomes
 * c (1 + J L + J (J - 1)/2 L^2) h' w'/4^J features, h' and w' its sides rounded up to multiples of 2^(J+1): 5184 for J = 2,
 * L = 8 and 28 x 28. The result is a function of the image and the options alone: the same bits on every machine.
 *
 * `cache`: up to two directories. A file there, named by a digest of data and options, keeps the features; it is
 * read from the first that has it, else written to the first that can be written, and is as private as the data. One that was
 * changed or cut is not used; `note` has the reason. A cache that cannot be written is no failure.
 */
typedef struct dpmf_scattering_options {
    int64_t scales, angles; /* J, 1 to 6, with 2^J not above a side; L, 1 to 16 */
    const char *cache[2];   /* NULL: none */
    dpmf_run run;
    int pink; /* 1: the scale of pink noise instead of groups of an image */
} dpmf_scattering_options;

typedef enum dpmf_cache_use {
    DPMF_CACHE_UNUSED = 0, /* none was given */
    DPMF_CACHE_READ,
    DPMF_CACHE_WRITTEN,
    DPMF_CACHE_FAILED /* computed, but not written */
} dpmf_cache_use;

typedef struct dpmf_scattering_result {
    dpmf_cache_use cache;
    char note[1024]; /* a file that was not used or not written, and the reason; empty: none */
} dpmf_scattering_result;

/* J = 2, L = 8, groups, no cache. */
DPMF_API dpmf_scattering_options dpmf_scattering_options_defaults(void);

/* The data set needs the shape of its images. On failure it is unchanged; `result` may be NULL. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_scatter(dpmf_dataset *dataset, const dpmf_scattering_options *options,
                                                          dpmf_scattering_result *result);

/* Channels, height and width of the images; 0 where they are unknown. IDX and CIFAR-10 files have them; for other data they can be set. */
DPMF_API void dpmf_dataset_shape(const dpmf_dataset *dataset, int64_t shape[3]);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_set_shape(dpmf_dataset *dataset, const int64_t shape[3]);
DPMF_API void dpmf_dataset_free(dpmf_dataset *dataset);
DPMF_API int64_t dpmf_dataset_count(const dpmf_dataset *dataset);
DPMF_API int64_t dpmf_dataset_features(const dpmf_dataset *dataset);
DPMF_API int64_t dpmf_dataset_classes(const dpmf_dataset *dataset);
DPMF_API const int32_t *dpmf_dataset_labels(const dpmf_dataset *dataset); /* one per example, borrowed */
DPMF_API int64_t dpmf_dataset_units(const dpmf_dataset *dataset);         /* users; examples where there are none */

/* ---- expert ---- */

/* A data set from memory, copied: count x features numbers, labels in [0, classes), NULL or the unit of each example, from 0. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_create(int64_t count, int64_t features, int64_t classes,
                                                         const float *x, const int32_t *label, const int64_t *unit,
                                                         dpmf_dataset **out);

/* Examples [first, first + count) as a separate data set, for example to hold some out. Classes and units keep their numbers. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_dataset_slice(const dpmf_dataset *dataset, int64_t first, int64_t count,
                                                        dpmf_dataset **out);

/* ------------------------------------------------------------------------------------------------------------------
 * 2  The trainer
 * --------------------------------------------------------------------------------------------------------------- */

typedef enum dpmf_optimizer {
    DPMF_OPTIMIZER_SGD = 0,
    DPMF_OPTIMIZER_ADAM,
    DPMF_OPTIMIZER_ADAGRAD, /* Duchi, Hazan and Singer 2011 */
    DPMF_OPTIMIZER_RMSPROP, /* Tieleman and Hinton 2012 */
    DPMF_OPTIMIZER_FTRL     /* follow the regularized leader: see below */
} dpmf_optimizer;

/*
 * DP-FTRL, also known as dual averaging or lazy mirror descent (Pillutla et al. 2025, Section 1.10.2): after step t the
 * weights are
 *
 *     argmin over w in Theta of  <s, w> + h(w)/learning_rate,    s = the private sum of schedule[j] x gradient j, j <= t.
 *
 * s is the prefix sum with its noise, never projected; only the weights are. That is not projected SGD, which forgets the part
 * of a step that leaves Theta. Without a constraint and with the squared distance it is SGD, bit for bit. All of it acts on
 * private sums: post-processing. With momentum s sums the momentum's updates instead (Kairouz et al. 2021).
 */
typedef enum dpmf_weight_set { /* Theta, of all weights together; R = radius */
                               DPMF_WEIGHTS_FREE = 0,
                               DPMF_WEIGHTS_BALL,   /* l2 norm at most R */
                               DPMF_WEIGHTS_BOX,    /* each weight in [-R, R] */
                               DPMF_WEIGHTS_SIMPLEX /* no weight below 0, and their sum is R */
} dpmf_weight_set;

typedef enum dpmf_regularizer {
    DPMF_REGULARIZER_SQUARED = 0, /* h(w) = |w - w_0|^2/2, w_0 the first weights, moved to the nearest point of Theta */
    DPMF_REGULARIZER_L1,          /* and l1 x |w|_1 x learning_rate x (schedule[0] + ... + schedule[t]): Xiao 2009 */
    DPMF_REGULARIZER_ENTROPY /* h(w) = sum w ln w, of a simplex alone: multiplicative weights; w_0 has equal weights */
} dpmf_regularizer;

typedef struct dpmf_trainer_options {
    int64_t hidden;    /* 0: softmax regression; else one hidden layer with this number of units */
    double clip;       /* per unit, 2^-100 to 2^100; infinity: none, without noise only */
    double gamma;      /* 0: clipped; 2^-100 to 2^100: normalised, clip g / (|g| + gamma), as for dpmf_clip_add */
    double zero_above; /* units whose norm is above this add nothing (Choquette-Choo et al. 2023, App. F.3); 0: never */
    int zero_largest;  /* 1: those whose largest absolute coordinate is, as it is there */
    int by_unit;       /* 1: the unit is the user: the mean of all its examples' gradients is clipped */
    dpmf_optimizer optimizer;
    double learning_rate;
    double momentum;        /* sgd, rmsprop, ftrl: m <- momentum m + g, as in the workload; in [0, 1) */
    int nesterov;           /* sgd, ftrl: 1: g + momentum m is used instead of m */
    double beta1, beta2;    /* adam */
    double adam_epsilon;    /* adam, adagrad, rmsprop: added to the root of the second moment */
    double decay;           /* weights are multiplied by 1 - learning rate x decay before each step */
    const double *schedule; /* NULL or `steps` factors >= 0 of the learning rate, copied */
    uint64_t seed;          /* of the initial weights; not secret */
    int noiseless;          /* 1: no noise is added: not private, for tests and comparison */
    /*
     * One of several processes that train together, each with all the data: it sums every parts-th unit of a batch and
     * adds the noise of its share of the coordinates; `reduce` adds the sums up over all parts, in place: integers, so
     * that the order does not matter.
     */
    int64_t part, parts; /* parts 0 means 1 */
    dpmf_status (*reduce)(void *context, int64_t *sums, int64_t count);
    void *reduce_context;
    /* As for noise. Every row is bound to its sum: a resumed run repeats a step only with the same sum. */
    const char *state, *key_file;
    int rows_may_repeat;
    dpmf_run run;
    int exact; /* 1: the exact release (dpmf_exact): the noise is on the grid of the sums, with a proof for what is released */
    const uint8_t *salt; /* as for noise: of parts 1 and up, that of part 0 (dpmf_trainer_salt) */
    int state_now;       /* as for noise */
    /*
     * Federated averaging (DP-FedAvg: McMahan et al. 2018): with by_unit and local_steps > 0 a user adds, in place of its
     * gradient, the server's weights minus those after that number of steps of SGD from them, at local_rate and on its own
     * examples: on all of them in each step, or on batches of local_batch in passes of random order. The optimizer above is
     * the server's, and takes the sum of these updates, clipped like gradients, for a gradient.
     */
    int64_t local_steps;
    double local_rate;
    int64_t local_batch;          /* 0: all */
    double smoothing;             /* rmsprop: of the squares, in [0, 1) */
    dpmf_weight_set constraint;   /* ftrl */
    double radius;                /* of the constraint, above 0; 0 without one */
    dpmf_regularizer regularizer; /* ftrl */
    double l1;                    /* of the regularizer L1, above 0; else 0 */
    /*
     * adam, adagrad, rmsprop: 2^-20 to 2^20: gradients are scaled coordinate by coordinate by the second moments of the steps before,
     * (1 + f) / ((v / mean v)^(1/2) + f), and then clipped (Ganesh, McMahan and Thakurta 2025); 0: they are not. For examples
     * this takes as long as one gradient after the other.
     */
    double precondition;
    int correct; /* adam: 1: the variance of the noise is taken off the squares (Tang, Shpilevskiy and Lecuyer 2024) */
} dpmf_trainer_options;

/*
 * The factors of a schedule, `steps` of them: "linear", "linear:FLOOR", "cosine", "cosine:FLOOR" and the other schedules of
 * dpmf_workload_parse, joined by commas, or "constant". They are post-processing and no part of a workload, so that a factor may
 * be 0, and FLOOR too; it is 0 if left out.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_schedule_parse(const char *text, int64_t steps, double *factors);

/* Softmax regression by SGD: clip 1, learning rate 0.5, no momentum; Adam's 0.9, 0.999 and 1e-8; RMSprop's 0.99. */
DPMF_API dpmf_trainer_options dpmf_trainer_options_defaults(void);

typedef struct dpmf_trainer dpmf_trainer;

/*
 * Data set, mechanism and sampler are borrowed and must outlive it; a data set that is changed later is refused by the next
 * step. The sampler must realise what the mechanism assumes
 * (without noise this is not required), over the units of the data. A mechanism that has no sigma is refused.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_trainer_create(const dpmf_dataset *dataset, const dpmf_mechanism *mechanism,
                                                         dpmf_sampler *sampler, const uint8_t key[DPMF_KEY_SIZE],
                                                         const dpmf_trainer_options *options, dpmf_trainer **out);
DPMF_API void dpmf_trainer_free(dpmf_trainer *trainer);

/* Number of weights of a model, which is the dim of its noise; 0 if there is no such model. */
DPMF_API int64_t dpmf_trainer_dim(const dpmf_dataset *dataset, int64_t hidden);

/*
 * One step. After any failure, the step can be tried again. A unit whose gradient is not finite adds 0, and nothing shows it:
 * with a clip norm no failure depends on a unit's data. Weights that are no longer finite are an error: they are released,
 * and a function of the noisy sums. Without a clip norm (noiseless) a gradient that is not finite is one too.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_trainer_next(dpmf_trainer *trainer);
DPMF_API dpmf_exact dpmf_trainer_exact(const dpmf_trainer *trainer); /* as `release` of dpmf_noise_get */
DPMF_API int64_t dpmf_trainer_step(const dpmf_trainer *trainer);     /* of the next batch */
DPMF_API int64_t dpmf_trainer_steps(const dpmf_trainer *trainer);    /* of the mechanism */
DPMF_API int64_t dpmf_trainer_begun(const dpmf_trainer *trainer);    /* steps whose noise the state file records */

/*
 * dim numbers, borrowed: the first layer's weights (outputs x features), its biases, and, with a hidden layer, the same
 * of the second.
 */
DPMF_API const float *dpmf_trainer_weights(const dpmf_trainer *trainer);

/* Fraction of the examples that are classified correctly, and the mean cross-entropy. Not private for data that are not public. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_trainer_evaluate(const dpmf_trainer *trainer, const dpmf_dataset *dataset,
                                                           double *accuracy, double *loss);

/*
 * The answer of a trained model to each example of a data set: the class (-1: none, its logits are not numbers) and, unless
 * NULL, its probability. `weights` are `count` numbers as above; the number of classes follows from `count`, and is 0 if no
 * model has this number.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_model_predict(const dpmf_dataset *dataset, int64_t hidden, int64_t count,
                                                        const float *weights, const dpmf_run *run, int32_t *label,
                                                        double *probability);
DPMF_API int64_t dpmf_model_classes(int64_t features, int64_t hidden, int64_t weights);

/*
 * A checkpoint: weights, optimizer, sampler, noise and step together, written completely or not at all; as secret as the
 * key. Loading refuses another mechanism, data, model, sampler, key or option by name. A resumed run has the same bits.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_trainer_save(dpmf_trainer *trainer, const char *path);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_trainer_load(dpmf_trainer *trainer, const char *path);

/* The trainer of an audit (dpmf_audit_options.train): the attacker sees the weights of softmax regression after each step. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_trainer_audit(void *context, const dpmf_audit_run *run);

/* ---- expert ---- */

/* Facts about the run. */
DPMF_API double dpmf_trainer_clipped(const dpmf_trainer *trainer);       /* fraction of the last batch; not private */
DPMF_API double dpmf_trainer_noise_seconds(const dpmf_trainer *trainer); /* spent on noise since it was made */
DPMF_API const char *dpmf_trainer_digest(const dpmf_trainer *trainer);   /* SHA-256 of all that the run depends on, the
                                                                          * data, the options and the key included; borrowed */
DPMF_API void dpmf_trainer_salt(const dpmf_trainer *trainer, uint8_t salt[DPMF_SALT_SIZE]); /* as in dpmf_noise_info */

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer: one step after the other.
 *
 *     sum over the batch's units of clipped gradients  +  row t of the noise  ->  / expected batch size  ->  optimizer
 *
 * Sum and noise are integers on one grid (train/grid.c): exact, so that what one unit adds is all that one unit changes. The
 * sum is divided by the expected size of a batch, which is public; the realised size would tell who took part. The order within
 * a step is what makes failures harmless: everything that looks at data comes first and cannot fail for what it sees, the noise
 * row is taken for a sum that is named first (so that no other sum ever meets that row), and the weights move last. After any
 * failure sampler and noise go back to the step's beginning, and the step can be taken again: it gives the same values.
 */
#include "train/train.h"

#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

dpmf_trainer_options dpmf_trainer_options_defaults(void) {
    return (dpmf_trainer_options){.clip = 1.0,
                                  .learning_rate = 0.5,
                                  .beta1 = 0.9,
                                  .beta2 = 0.999,
                                  .adam_epsilon = 1e-8,
                                  .parts = 1,
                                  .run = dpmf_run_defaults(),
                                  .smoothing = 0.99};
}

int64_t dpmf_trainer_dim(const dpmf_dataset *dataset, int64_t hidden) {
    train_model model;
    if (dataset == NULL || train_model_of(dataset->features, hidden, dataset->classes, &model) != DPMF_OK) return 0;
    return model.dim;
}

static dpmf_status check_clip(const dpmf_trainer_options *o, const dpmf_dataset *data) {
    if (!(o->clip >= TRAIN_CLIP_MIN) || (o->clip > TRAIN_CLIP_MAX && !(isinf(o->clip) && o->noiseless)))
        return base_fail(DPMF_ERROR_ARGUMENT, "clip = %g, accepted: %g to %g%s", o->clip, TRAIN_CLIP_MIN,
                         TRAIN_CLIP_MAX, o->noiseless ? ", or infinity for none" : "");
    if (o->gamma != 0 && !(o->gamma >= TRAIN_CLIP_MIN && o->gamma <= TRAIN_CLIP_MAX))
        return base_fail(DPMF_ERROR_ARGUMENT, "gamma = %g, accepted: 0 (clipped), or %g to %g", o->gamma,
                         TRAIN_CLIP_MIN, TRAIN_CLIP_MAX);
    if (o->gamma != 0 && isinf(o->clip))
        return base_fail(DPMF_ERROR_ARGUMENT, "gamma = %g and no clip norm: what is normalised is as long as that",
                         o->gamma);
    if (!(o->zero_above >= 0.0))
        return base_fail(DPMF_ERROR_ARGUMENT, "zero_above = %g, accepted: 0 (never) or above", o->zero_above);
    if (o->zero_largest && !(o->zero_above > 0.0))
        return base_fail(DPMF_ERROR_ARGUMENT, "zero_largest without zero_above, accepted: a zero_above over 0");
    if (o->by_unit && data->unit == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "the unit is the user, but the data set has no users");
    return DPMF_OK;
}

static dpmf_status check_local(const dpmf_trainer_options *o) {
    const double largest = 1e30; /* as the optimizer's */
    if (o->local_steps < 0 || o->local_steps > INT32_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "local_steps = %" PRId64 ", accepted: 0 (none) to %d", o->local_steps,
                         INT32_MAX);
    if (o->local_steps == 0 && (o->local_rate != 0 || o->local_batch != 0))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "local_rate = %g and local_batch = %" PRId64 " without local_steps, accepted: 0",
                         o->local_rate, o->local_batch);
    if (o->local_steps == 0) return DPMF_OK;
    if (!o->by_unit)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "local_steps = %" PRId64 " where the unit is the example, accepted: 0; "
                         "users train locally",
                         o->local_steps);
    if (!(o->local_rate > 0.0) || !(o->local_rate < largest))
        return base_fail(DPMF_ERROR_ARGUMENT, "local_rate = %g, accepted: above 0 and below %g", o->local_rate,
                         largest);
    if (o->local_batch < 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "local_batch = %" PRId64 ", accepted: 0 (all of a user's examples) or above", o->local_batch);
    return DPMF_OK;
}

/* The units that batches are drawn from must be those of the data, and batches a function of the key and the step. */
static dpmf_status check_sampler(const dpmf_trainer *t) {
    const dpmf_sampler_identity s = dpmf_sampler_identify(t->sampler);
    const int64_t units = t->options.by_unit ? t->data->units : t->data->count;
    if (s.units != units)
        return base_fail(DPMF_ERROR_ARGUMENT, "the sampler draws from %" PRId64 " units, accepted: %" PRId64 " (%s)",
                         s.units, units, t->options.by_unit ? "the users of the data" : "the examples");
    if (s.steps < t->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the sampler has %" PRId64 " steps, accepted: the mechanism's %" PRId64,
                         s.steps, t->steps);
    if (s.offered)
        return base_fail(DPMF_ERROR_ARGUMENT, "the sampler has been offered units: the trainer uses all of them");
    if (!(dpmf_sampler_get(t->sampler).expected > 0.0))
        return base_fail(DPMF_ERROR_ARGUMENT, "the sampler's batches are empty: more than 0 units are accepted");
    if (t->options.noiseless) return DPMF_OK;
    if (dpmf_mechanism_get(t->mechanism).adjacency == DPMF_ADJACENCY_ADD_REMOVE)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "training divides by the expected size of a batch, which reveals the number of units: "
                         "zero-out and replace-one adjacency are accepted, add-remove is not");
    return dpmf_sampler_check(t->sampler, t->mechanism);
}

static dpmf_status check_mechanism(const dpmf_trainer *t) {
    if (t->options.noiseless) return DPMF_OK;
    if (!(dpmf_mechanism_get(t->mechanism).sigma > 0.0))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the mechanism has no sigma, so training with it would have no known guarantee: "
                         "dpmf_design_create (`dpmf design -o`) makes mechanisms that have one");
    if (*dpmf_mechanism_get(t->mechanism).digest == '\0')
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "the mechanism has no digest (a user's operator), so its noise cannot be bound to it");
    return DPMF_OK;
}

/* The share of part i are the coordinates [dim i/parts, dim (i+1)/parts). */
static int64_t share(int64_t dim, int64_t part, int64_t parts) {
    return dim / parts * part + dim % parts * part / parts;
}

/* One grid for sums and noise: 2^-36 of the noise's size, but at least 2^34 steps to the clip norm, for its rounding. */
static dpmf_status choose_exact_grid(const dpmf_trainer *t, double *grid) {
    const double clip = t->options.clip;
    dpmf_exact exact;
    int exponent = 0;
    if (!isfinite(clip)) return DPMF_OK; /* refused elsewhere */
    frexp(clip, &exponent);
    TRY(dpmf_exact_plan(t->mechanism, t->model.dim, clip, 0, &t->options.run, &exact));
    *grid = fmax(fmin(exact.grid, ldexp(1, exponent - 34)), ldexp(1, exponent - 42));
    return DPMF_OK;
}

static dpmf_status open_noise(dpmf_trainer *t, const uint8_t key[DPMF_KEY_SIZE], const char *label) {
    const dpmf_trainer_options *o = &t->options;
    dpmf_noise_options wanted = dpmf_noise_options_defaults();
    t->offset = share(t->model.dim, o->part, o->parts);
    if (o->noiseless) return DPMF_OK;
    wanted.offset = t->offset;
    wanted.count = share(t->model.dim, o->part + 1, o->parts) - t->offset;
    wanted.label = label;
    wanted.run = o->run;
    wanted.exact = o->exact != 0;
    if (o->exact) TRY(choose_exact_grid(t, &wanted.grid));
    wanted.state = o->state;
    wanted.key_file = o->key_file;
    wanted.rows_may_repeat = o->rows_may_repeat;
    wanted.salt = o->salt;
    wanted.state_now = o->state_now;
    wanted.replay = !o->rows_may_repeat && (o->state != NULL || o->key_file != NULL); /* over the same sums alone */
    t->has_state = wanted.state != NULL || wanted.replay;
    if (wanted.count < 1 << 20) wanted.run.threads = 1; /* a short row is made sooner than threads wake */
    return dpmf_noise_create(t->mechanism, t->model.dim, o->clip, key, &wanted, &t->noise);
}

static dpmf_status open_trainer(dpmf_trainer *t, const uint8_t key[DPMF_KEY_SIZE]) {
    const dpmf_trainer_options *o = &t->options;
    train_clip clip = {
        .clip = o->clip,
        .zero_above = o->zero_above,
        .by_unit = o->by_unit != 0,
        .zero_largest = o->zero_largest != 0,
        .gamma = o->gamma,
        .scaled = o->precondition > 0.0,
        .local = {.steps = o->local_steps, .rate = o->local_rate, .batch = o->local_batch, .seed = o->seed}};
    TRY(train_model_of(t->data->features, o->hidden, t->data->classes, &t->model));
    TRY(check_clip(o, t->data));
    TRY(check_local(o));
    TRY(train_check_moments(o));
    if (o->parts < 1 || o->part < 0 || o->part >= o->parts || o->parts > t->model.dim)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "part %" PRId64 " of %" PRId64 ", accepted: 0 to parts - 1 of 1 to %" PRId64
                         " (the weights of the model)",
                         o->part, o->parts, t->model.dim);
    if (o->parts > 1 && o->reduce == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " parts and no `reduce` that adds up their sums", o->parts);
    TRY(check_mechanism(t));
    TRY(check_sampler(t));
    TRY(train_stepper_open(o, t->steps, t->model.dim, &t->stepper));
    t->options.schedule = NULL;
    TRY(base_alloc(t->model.dim, sizeof(float), "the weights", (void **)&t->weights));
    TRY(base_alloc(t->model.dim, sizeof(float), "the sum of a step", (void **)&t->released));
    if (clip.scaled) TRY(base_alloc(t->model.dim, sizeof(float), "the scales", (void **)&t->scale));
    TRY(base_alloc(dpmf_sampler_get(t->sampler).capacity, sizeof(int64_t), "a batch", (void **)&t->batch));
    TRY(train_model_start(&t->model, o->seed, t->weights));
    train_stepper_begin(&t->stepper, t->weights);
    TRY(base_pool_create(o->run.threads, &t->pool));
    memcpy(t->data_digest, t->data->digest, sizeof t->data_digest);
    TRY(train_identify(t, key, &t->identity, t->shared));
    TRY(crypto_key_derive(key, "dpmf trainer checkpoint 1", "", t->mac_key));
    TRY(open_noise(t, key, t->shared));
    clip.units = dpmf_sampler_get(t->sampler).capacity;
    clip.noise = t->noise != NULL ? dpmf_noise_get(t->noise).release.scale : 0.0;
    clip.grid = t->noise != NULL ? dpmf_noise_get(t->noise).grid : 0.0;
    if (o->correct != 0)
        TRY(train_stepper_correct(&t->stepper, t->mechanism, clip.noise / dpmf_sampler_get(t->sampler).expected,
                                  &o->run));
    return train_gradient_create(t->data, &t->model, clip, t->pool, &t->gradient);
}

dpmf_status dpmf_trainer_create(const dpmf_dataset *dataset, const dpmf_mechanism *mechanism, dpmf_sampler *sampler,
                                const uint8_t key[DPMF_KEY_SIZE], const dpmf_trainer_options *options,
                                dpmf_trainer **out) {
    dpmf_trainer *made = NULL;
    if (dataset == NULL || mechanism == NULL || sampler == NULL || key == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_trainer_create: the data set, mechanism, sampler, key or out is "
                                              "NULL");
    TRY(base_alloc(1, sizeof *made, "the trainer", (void **)&made));
    made->data = dataset;
    made->mechanism = mechanism;
    made->sampler = sampler;
    made->options = options != NULL ? *options : dpmf_trainer_options_defaults();
    if (made->options.parts == 0) made->options.parts = 1;
    made->steps = dpmf_strategy_get(dpmf_mechanism_get(mechanism).strategy).steps;
    dpmf_status status = open_trainer(made, key);
    made->options.state = made->options.key_file = NULL; /* the caller's */
    made->options.salt = NULL;
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_trainer_free(made);
    return status;
}

void dpmf_trainer_free(dpmf_trainer *t) {
    if (t == NULL) return;
    dpmf_noise_free(t->noise);
    train_gradient_free(t->gradient);
    base_pool_free(t->pool);
    train_stepper_close(&t->stepper);
    base_free(t->weights);
    base_free(t->released);
    base_free(t->scale);
    if (t->batch != NULL) crypto_wipe(t->batch, (size_t)dpmf_sampler_get(t->sampler).capacity * sizeof *t->batch);
    base_free(t->batch);
    base_free(t->identity);
    crypto_wipe(t->mac_key, sizeof t->mac_key);
    base_free(t);
}

static double seconds(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static dpmf_status fail_size(const dpmf_trainer *t, const char *what) {
    return base_fail(DPMF_ERROR_NUMERICAL,
                     "step %" PRId64 ": %s; the weights have grown too large: use a learning rate below %g", t->step,
                     what, t->options.learning_rate);
}

static dpmf_status add_noise(dpmf_trainer *t) {
    if (t->noise == NULL) return DPMF_OK;
    const double before = seconds();
    if (dpmf_noise_get(t->noise).step != t->step || dpmf_noise_get(t->noise).in_doubt)
        TRY(dpmf_noise_seek(t->noise, t->step));
    if (t->has_state) {
        /* Names the sum that the row will meet; nothing else remembers it. */
        uint8_t digest[DPMF_DIGEST_SIZE];
        const base_part part = {t->gradient->sums, (size_t)t->model.dim * sizeof *t->gradient->sums};
        TRY(base_sha256_bytes(1, &part, digest));
        dpmf_status status = dpmf_noise_bind_sum(t->noise, digest);
        crypto_wipe(digest, sizeof digest);
        TRY(status);
    }
    if (t->options.exact) {
        const dpmf_segment sums = {t->gradient->sums + t->offset, dpmf_noise_get(t->noise).count};
        TRY(dpmf_noise_add_whole(t->noise, 1, &sums));
    } else {
        TRY(dpmf_noise_next(t->noise, t->released + t->offset));
        /* floor(n/xi + 1/2): the sum is whole, so this and the sum together are the rounding of their exact sum. */
        const double per_step = t->gradient->grid.per_step;
        const float *row = t->released + t->offset;
        int64_t *sums = t->gradient->sums + t->offset;
        const int64_t count = dpmf_noise_get(t->noise).count;
        for (int64_t i = 0; i < count; i++) {
            const double exact = (double)row[i] * per_step;
            if (fabs(exact) < 0x1p50) { /* nearest, and ties upwards, where the nearest is even */
                sums[i] += train_integer(exact) + (exact - train_whole(exact) == 0.5);
                continue;
            }
            if (!(fabs(exact) < 0x1p62)) return fail_size(t, "the noise does not fit the grid of the sum");
            sums[i] += (int64_t)floor(exact + 0.5);
        }
    }
    t->noise_seconds += seconds() - before;
    return DPMF_OK;
}

dpmf_status dpmf_trainer_next(dpmf_trainer *t) {
    if (t == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_trainer_next: the trainer is NULL");
    if (t->step >= t->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %" PRId64 " of a run of %" PRId64 " steps: it is complete", t->step,
                         t->steps);
    if (strcmp(t->data->digest, t->data_digest) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the data set was changed after the trainer was made: features and scales "
                         "come before");
    TRY(base_progress(&t->options.run, "training", (double)t->step / (double)t->steps));
    const dpmf_trainer_options *o = &t->options;
    /* After a failure sampler and noise are ahead, and the next call seeks back. */
    /* This part's sum. It can only be wrong without a clip norm, where there is nothing to protect. */
    int64_t count = 0;
    if (dpmf_sampler_get(t->sampler).step != t->step) TRY(dpmf_sampler_seek(t->sampler, t->step));
    TRY(dpmf_sampler_next(t->sampler, t->batch, &count));
    t->gradient->round = t->step;
    if (t->scale != NULL) train_stepper_scales(&t->stepper, o->precondition, t->scale);
    t->gradient->scale = t->scale;
    dpmf_status status =
        train_gradient_sum(t->gradient, t->weights, count, t->batch, t->options.part, t->options.parts);
    TRY(status == DPMF_ERROR_NUMERICAL ? fail_size(t, "a gradient or an update is not finite") : status);
    TRY(add_noise(t));
    if (o->parts > 1) TRY(o->reduce(o->reduce_context, t->gradient->sums, t->model.dim));
    /* The sum in float, which is post-processing, and the weights after it. */
    for (int64_t i = 0; i < t->model.dim; i++)
        t->released[i] = (float)((double)t->gradient->sums[i] * t->gradient->grid.step /
                                 (t->scale != NULL ? (double)t->scale[i] : 1.0));
    train_stepper_step(&t->stepper, t->step, t->released, dpmf_sampler_get(t->sampler).expected, t->weights);
    for (int64_t i = 0; i < t->model.dim; i++)
        if (!isfinite(t->weights[i])) return fail_size(t, "a weight is not finite");
    t->clipped = t->gradient->units > 0 ? (double)t->gradient->clipped / (double)t->gradient->units : 0.0;
    t->step++;
    return DPMF_OK;
}

dpmf_exact dpmf_trainer_exact(const dpmf_trainer *trainer) {
    return trainer != NULL && trainer->noise != NULL ? dpmf_noise_get(trainer->noise).release : (dpmf_exact){0};
}

const char *dpmf_trainer_digest(const dpmf_trainer *trainer) {
    return trainer != NULL ? trainer->shared : "";
}

void dpmf_trainer_salt(const dpmf_trainer *trainer, uint8_t salt[DPMF_SALT_SIZE]) {
    memset(salt, 0, DPMF_SALT_SIZE);
    if (trainer == NULL || trainer->noise == NULL) return;
    const dpmf_noise_info info = dpmf_noise_get(trainer->noise);
    memcpy(salt, info.salt, sizeof info.salt);
}

int64_t dpmf_trainer_step(const dpmf_trainer *trainer) {
    return trainer != NULL ? trainer->step : 0;
}

int64_t dpmf_trainer_begun(const dpmf_trainer *trainer) {
    return trainer != NULL && trainer->noise != NULL ? dpmf_noise_get(trainer->noise).reserved : 0;
}

int64_t dpmf_trainer_steps(const dpmf_trainer *trainer) {
    return trainer != NULL ? trainer->steps : 0;
}

const float *dpmf_trainer_weights(const dpmf_trainer *trainer) {
    return trainer != NULL ? trainer->weights : NULL;
}

double dpmf_trainer_clipped(const dpmf_trainer *trainer) {
    return trainer != NULL ? trainer->clipped : 0.0;
}

double dpmf_trainer_noise_seconds(const dpmf_trainer *trainer) {
    return trainer != NULL ? trainer->noise_seconds : 0.0;
}

/*
 * ---- the optimizer ----
 *
 * What becomes of a private gradient g: post-processing, which costs no privacy.
 *
 *     SGD    m <- beta m + g,  u = m, or g + beta m (Nesterov),      w <- (1 - eta lambda) w - eta u
 *     Adam   m <- beta1 m + (1-beta1) g,  v <- beta2 v + (1-beta2) g^2,
 *            u = m/(1 - beta1^(t+1)) / (sqrt(v/(1 - beta2^(t+1))) + epsilon)       (Kingma and Ba 2015), decay as above
 *     Adagrad  v <- v + g^2,                    u = g/(sqrt(v) + epsilon)    (Duchi, Hazan and Singer 2011), decay as above
 *     RMSprop  v <- rho v + (1-rho) g^2,  m <- beta m + g/(sqrt(v) + epsilon),  u = m (Tieleman and Hinton 2012), decay
 *     FTRL   z <- z - eta u, u as for SGD,       w <- the weights of z (train/ftrl.c)
 *
 * train/moments.c scales gradients by v before they are clipped, and takes the noise's variance off g^2.
 *
 * with eta = learning rate x schedule[t]. SGD is the recursion of the named workloads (dpmf.h, section 2), so that
 * w_t - w_0 = -rate (A g)_t where lambda = 0.
 */

static dpmf_status check_between(const char *name, double value, double low, double high) {
    if (value >= low && value < high) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "%s = %g, accepted: %g to below %g", name, value, low, high);
}

static dpmf_status check_options(const dpmf_trainer_options *o) {
    const double largest = 1e30; /* beyond what float weights can follow */
    if ((int)o->optimizer < 0 || o->optimizer > DPMF_OPTIMIZER_FTRL)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "optimizer %d, accepted: 0 (SGD), 1 (Adam), 2 (Adagrad), 3 (RMSprop), 4 (FTRL)",
                         (int)o->optimizer);
    if (!(o->learning_rate > 0.0) || !(o->learning_rate < largest))
        return base_fail(DPMF_ERROR_ARGUMENT, "learning_rate = %g, accepted: above 0 and below %g", o->learning_rate,
                         largest);
    TRY(check_between("momentum", o->momentum, 0.0, 1.0));
    TRY(check_between("beta1", o->beta1, 0.0, 1.0));
    TRY(check_between("beta2", o->beta2, 0.0, 1.0));
    TRY(check_between("decay", o->decay, 0.0, largest));
    if (!(o->adam_epsilon > 0.0) || !(o->adam_epsilon < largest))
        return base_fail(DPMF_ERROR_ARGUMENT, "adam_epsilon = %g, accepted: above 0 and below %g", o->adam_epsilon,
                         largest);
    TRY(check_between("smoothing", o->smoothing, 0.0, 1.0));
    if (o->optimizer == DPMF_OPTIMIZER_ADAM && (o->momentum != 0.0 || o->nesterov))
        return base_fail(DPMF_ERROR_ARGUMENT, "momentum = %g with Adam, accepted: 0; Adam has beta1", o->momentum);
    if (o->optimizer == DPMF_OPTIMIZER_ADAGRAD && o->momentum != 0.0)
        return base_fail(DPMF_ERROR_ARGUMENT, "momentum = %g with Adagrad, accepted: 0", o->momentum);
    if (o->nesterov && o->optimizer != DPMF_OPTIMIZER_SGD && o->optimizer != DPMF_OPTIMIZER_FTRL)
        return base_fail(DPMF_ERROR_ARGUMENT, "nesterov with optimizer %d, accepted: with 0 (SGD) and 4 (FTRL)",
                         (int)o->optimizer);
    if (o->optimizer == DPMF_OPTIMIZER_FTRL && o->decay != 0.0)
        return base_fail(DPMF_ERROR_ARGUMENT, "decay = %g with FTRL, accepted: 0; FTRL has a regularizer", o->decay);
    return DPMF_OK;
}

dpmf_status train_stepper_open(const dpmf_trainer_options *o, int64_t steps, int64_t dim, train_stepper *out) {
    dpmf_status status = DPMF_OK;
    train_stepper made = {.kind = o->optimizer,
                          .learning_rate = o->learning_rate,
                          .momentum = o->momentum,
                          .beta1 = o->beta1,
                          .beta2 = o->beta2,
                          .adam_epsilon = o->adam_epsilon,
                          .decay = o->decay,
                          .smoothing = o->smoothing,
                          .nesterov = o->nesterov != 0,
                          .dim = dim};
    TRY(check_options(o));
    /* Every step's rate: not negative, and the decay keeps the sign of the weights. With a rate of 0 they stand still. */
    for (int64_t t = 0; t < (o->schedule != NULL ? steps : 1); t++) {
        const double factor = o->schedule != NULL ? o->schedule[t] : 1.0;
        if (!(factor >= 0.0) || !(factor < 1e30))
            return base_fail(DPMF_ERROR_ARGUMENT, "schedule[%" PRId64 "] = %g, accepted: 0 to below 1e30", t, factor);
        if (!(o->learning_rate * factor * o->decay < 1.0))
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "decay = %g with learning rate %g, accepted: a product below 1 in every step", o->decay,
                             o->learning_rate * factor);
    }
    made.states = o->optimizer == DPMF_OPTIMIZER_ADAM ? 2 : (o->momentum > 0.0) + (o->optimizer != DPMF_OPTIMIZER_SGD);
    TRY_DONE(train_leader_open(o, dim, &made.leader));
    TRY_DONE(base_alloc(made.states * dim, sizeof(float), "the optimizer", (void **)&made.state));
    if (o->schedule != NULL) {
        TRY_DONE(base_alloc_doubles(steps, "the schedule", &made.schedule));
        memcpy(made.schedule, o->schedule, (size_t)steps * sizeof *made.schedule);
    }
    if (o->schedule != NULL && o->regularizer == DPMF_REGULARIZER_L1) {
        TRY_DONE(base_alloc_doubles(steps, "the sums of the schedule", &made.passed));
        for (int64_t t = 0; t < steps; t++)
            made.passed[t] = (t > 0 ? made.passed[t - 1] : 0.0) + o->schedule[t];
    }
done:
    if (status == DPMF_OK)
        *out = made;
    else
        train_stepper_close(&made);
    return status;
}

void train_stepper_close(train_stepper *stepper) {
    base_free(stepper->state);
    base_free(stepper->schedule);
    base_free(stepper->passed);
    base_free(stepper->variance);
    base_free(stepper->least);
    train_leader_close(&stepper->leader);
    *stepper = (train_stepper){0};
}

/* x^n by squaring: the same bits everywhere, which pow does not promise. */
static double power(double x, int64_t n) {
    double result = 1.0;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2 != 0) result *= x;
    return result;
}

static void step_adam(train_stepper *s, int64_t t, double rate, const float *sums, double scale, float *weights) {
    float *first = s->state, *second = s->state + s->dim;
    const double keep = 1.0 - rate * s->decay;
    const double unbias1 = 1.0 / (1.0 - power(s->beta1, t + 1));
    const double unbias2 = 1.0 / (1.0 - power(s->beta2, t + 1));
    const double variance = s->variance != NULL ? s->variance[t] : 0.0, least = s->least != NULL ? s->least[t] : 0.0;
    for (int64_t i = 0; i < s->dim; i++) {
        const double g = (double)sums[i] * scale;
        const double m = s->beta1 * (double)first[i] + (1.0 - s->beta1) * g;
        double v = s->beta2 * (double)second[i] + (1.0 - s->beta2) * (g * g - variance);
        first[i] = (float)m;
        second[i] = (float)v;
        if (v < least) v = least;
        weights[i] = (float)(keep * (double)weights[i] - rate * (m * unbias1) / (sqrt(v * unbias2) + s->adam_epsilon));
    }
}

/* Adagrad and RMSprop, whose momentum is of the scaled gradients. */
static void step_scaled(train_stepper *s, double rate, const float *sums, double scale, float *weights) {
    float *second = s->state, *moving = s->states > 1 ? s->state + s->dim : NULL;
    const int forgets = s->kind == DPMF_OPTIMIZER_RMSPROP;
    const double keep = 1.0 - rate * s->decay, old = forgets ? s->smoothing : 1.0;
    const double fresh = forgets ? 1.0 - s->smoothing : 1.0;
    for (int64_t i = 0; i < s->dim; i++) {
        const double g = (double)sums[i] * scale;
        const double v = old * (double)second[i] + fresh * g * g;
        double u = g / (sqrt(v) + s->adam_epsilon);
        second[i] = (float)v;
        if (moving != NULL) {
            u += s->momentum * (double)moving[i];
            moving[i] = (float)u;
        }
        weights[i] = (float)(keep * (double)weights[i] - rate * u);
    }
}

/* SGD with momentum moves `moved`. */
static void step_sgd(train_stepper *s, double rate, const float *sums, double scale, float *moved) {
    const double keep = 1.0 - rate * s->decay, beta = s->momentum;
    for (int64_t i = 0; i < s->dim; i++) {
        const double g = (double)sums[i] * scale;
        double u = g;
        if (beta > 0.0) {
            const double m = beta * (double)s->state[i] + g;
            s->state[i] = (float)m;
            u = s->nesterov ? g + beta * m : m;
        }
        moved[i] = (float)(keep * (double)moved[i] - rate * u);
    }
}

/* z of FTRL: the last row of the state. */
static float *dual_of(const train_stepper *s) {
    return s->state + (s->states - 1) * s->dim;
}

/* learning rate x l1 x (schedule[0] + ... + schedule[t]) */
static double threshold_after(const train_stepper *s, int64_t t) {
    if (s->leader.regularizer != DPMF_REGULARIZER_L1) return 0.0;
    return s->learning_rate * s->leader.l1 * (s->passed != NULL ? s->passed[t] : (double)(t + 1));
}

void train_stepper_begin(train_stepper *s, float *weights) {
    if (s->kind != DPMF_OPTIMIZER_FTRL) return;
    float *z = dual_of(s);
    if (s->leader.regularizer == DPMF_REGULARIZER_ENTROPY) {
        train_leader_weights(&s->leader, s->dim, 0.0, z, weights); /* z is 0: equal weights */
        return;
    }
    memcpy(z, weights, (size_t)s->dim * sizeof *z);
    train_leader_weights(&s->leader, s->dim, 0.0, z, weights);
    memcpy(z, weights, (size_t)s->dim * sizeof *z);
}

void train_stepper_step(train_stepper *s, int64_t t, const float *sums, double expected, float *weights) {
    const double rate = s->learning_rate * (s->schedule != NULL ? s->schedule[t] : 1.0);
    const double scale = 1.0 / expected;
    switch (s->kind) {
    case DPMF_OPTIMIZER_ADAM:
        step_adam(s, t, rate, sums, scale, weights);
        break;
    case DPMF_OPTIMIZER_ADAGRAD:
    case DPMF_OPTIMIZER_RMSPROP:
        step_scaled(s, rate, sums, scale, weights);
        break;
    case DPMF_OPTIMIZER_FTRL:
        step_sgd(s, rate, sums, scale, dual_of(s));
        train_leader_weights(&s->leader, s->dim, threshold_after(s, t), dual_of(s), weights);
        break;
    case DPMF_OPTIMIZER_SGD:
        step_sgd(s, rate, sums, scale, weights);
        break;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runs: resumed from a checkpoint, refused by name, split over several parts. */
#include "base/memory.h"
#include "noise/noise.h"
#include "sampler/sampler.h"
#include "support/failing_allocator.h"
#include "support/train_cases.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

static int setup(void **unused) {
    (void)unused;
    snprintf(path, sizeof path, "test_train_runs.%ld.state", (long)getpid());
    return 0;
}

static int teardown(void **unused) {
    (void)unused;
    unlink(path);
    return 0;
}

/* ---- resuming ---- */

/* A run to the end; the same run stopped at `stop` and continued from its checkpoint, in a new trainer. */
static void check_resume(const dpmf_dataset *data, const case_plan *plan, int64_t stop) {
    case_run whole = case_open(data, plan), first = case_open(data, plan);
    case_steps(&whole, plan->steps);
    case_steps(&first, stop);
    check_ok(dpmf_trainer_save(first.trainer, path));
    case_steps(&first, (plan->steps - stop) / 2); /* steps that the resumed run will take again */
    float *later = malloc((size_t)first.trainer->model.dim * sizeof *later);
    memcpy(later, first.trainer->weights, (size_t)first.trainer->model.dim * sizeof *later);
    const int64_t reached = dpmf_trainer_step(first.trainer);
    case_close(&first);
    case_plan other = *plan;
    other.options.run.threads = 3; /* nothing depends on it */
    case_run second = case_open(data, &other);
    second.trainer->gradient->worth = 0;
    check_ok(dpmf_trainer_load(second.trainer, path));
    assert_int_equal(dpmf_trainer_step(second.trainer), stop);
    case_steps(&second, reached - stop);
    assert_memory_equal(later, second.trainer->weights, (size_t)second.trainer->model.dim * sizeof *later);
    case_steps(&second, plan->steps - reached);
    check_same_weights(&whole, &second);
    check_ok(dpmf_trainer_load(second.trainer, path)); /* back again, in the same trainer */
    case_steps(&second, plan->steps - stop);
    check_same_weights(&whole, &second);
    free(later);
    case_close(&whole);
    case_close(&second);
}

static void test_a_resumed_run_has_the_same_weights_for_every_family(void **unused) {
    const char *families[] = {"identity", "toeplitz", "bsr", "bisr", "tree", "tree-online", "blt"};
    dpmf_dataset *data = case_data(21);
    (void)unused;
    for (int i = 0; i < 7; i++) {
        case_plan plan = case_defaults();
        plan.family = families[i];
        plan.bands = i == 2 || i == 3 ? 4 : 0;
        plan.options.hidden = i % 2 ? 6 : 0;
        plan.options.momentum = i == 2 ? 0.9 : 0;
        if (i == 4) plan.options.optimizer = DPMF_OPTIMIZER_ADAM;
        for (int64_t stop = 0; stop <= 20; stop += 10)
            check_resume(data, &plan, stop);
    }
    dpmf_dataset_free(data);
}

/* The state of every optimizer is in the checkpoint. */
static void test_a_resumed_run_has_the_same_weights_for_every_optimizer(void **unused) {
    dpmf_dataset *data = case_data(26);
    double schedule[20];
    (void)unused;
    for (int t = 0; t < 20; t++)
        schedule[t] = 1 - t / 40.0;
    for (int i = 0; i < 9; i++) {
        case_plan plan = case_defaults();
        dpmf_trainer_options *o = &plan.options;
        plan.family = "blt";
        o->schedule = schedule;
        o->optimizer = i < 1 ? DPMF_OPTIMIZER_ADAGRAD : i < 3 ? DPMF_OPTIMIZER_RMSPROP : DPMF_OPTIMIZER_FTRL;
        o->momentum = i == 2 || i == 4 ? 0.9 : 0;
        if (i > 3) o->constraint = i < 6 ? DPMF_WEIGHTS_BALL : i < 7 ? DPMF_WEIGHTS_BOX : DPMF_WEIGHTS_SIMPLEX;
        if (i > 3) o->radius = 0.1;
        if (i == 5 || i == 6) o->regularizer = DPMF_REGULARIZER_L1, o->l1 = 0.001;
        if (i == 8) o->regularizer = DPMF_REGULARIZER_ENTROPY;
        check_resume(data, &plan, 7);
    }
    dpmf_dataset_free(data);
}

static void test_a_resumed_run_has_the_same_weights_for_every_sampler(void **unused) {
    const char *samplers[][3] = {{"poisson:0.1", "poisson:0.1", "full"},
                                 {"block-cyclic:0.1,4", "block-cyclic:0.1,4", "cyclic:5,4"},
                                 {"shuffled:30", NULL, "shuffled:4,5"},
                                 {"min-sep:0.2,3", "min-sep:0.2,3", "minsep:7,3"},
                                 {"balls-in-bins:5", "balls-in-bins:5", "cyclic:4,5"}};
    dpmf_dataset *data = case_data(22);
    (void)unused;
    for (int i = 0; i < 5; i++) {
        case_plan plan = case_defaults();
        plan.sampler = samplers[i][0];
        plan.sampling = samplers[i][1];
        plan.participation = samplers[i][2];
        check_resume(data, &plan, 9);
    }
    case_plan users = case_defaults();
    users.options.by_unit = 1;
    users.sampler = "cyclic:5";
    check_resume(data, &users, 9);
    dpmf_dataset_free(data);
}

static case_plan local_plan(void) {
    case_plan plan = case_defaults();
    plan.options.by_unit = 1;
    plan.options.local_steps = 4;
    plan.options.local_rate = 0.5;
    plan.options.local_batch = 2;
    plan.options.learning_rate = 1;
    plan.sampler = "cyclic:5";
    return plan;
}

/* The orders of local batches are a function of the round, so that a round is the same whenever it is taken. */
static void test_a_resumed_run_with_local_training_has_the_same_weights(void **unused) {
    const char *families[] = {"blt", "bsr", "tree"};
    dpmf_dataset *data = case_data(27);
    uint64_t seed = 99;
    (void)unused;
    for (int i = 0; i < 6; i++) {
        case_plan plan = local_plan();
        plan.family = families[i % 3];
        plan.bands = i % 3 == 1 ? 4 : 0;
        plan.options.hidden = i % 2 ? 6 : 0;
        if (i < 3)
            plan.options.momentum = 0.95;
        else
            plan.options.optimizer = DPMF_OPTIMIZER_ADAM;
        check_resume(data, &plan, (int64_t)((check_random(&seed) + 1) * 10));
    }
    dpmf_dataset_free(data);
}

/* ---- refusals ---- */

static void refuse_load(case_run *r, dpmf_status expected, const char *says) {
    const size_t bytes = (size_t)r->trainer->model.dim * sizeof(float);
    float *before = malloc(bytes);
    memcpy(before, r->trainer->weights, bytes);
    const int64_t step = dpmf_trainer_step(r->trainer);
    check_fails(expected, dpmf_trainer_load(r->trainer, path));
    check_message(says);
    assert_memory_equal(before, r->trainer->weights, bytes);
    assert_int_equal(dpmf_trainer_step(r->trainer), step);
    free(before);
}

static void test_a_checkpoint_of_another_run_is_refused_by_name(void **unused) {
    dpmf_dataset *data = case_data(23), *other = case_data(24);
    case_plan plan = case_defaults();
    double schedule[20];
    const char *says[] = {"mechanism is",
                          "clip is 1 in it and 2 here",
                          "it has another key",
                          "learning rate is 0.5 in it and 0.25 here",
                          "model is softmax in it and mlp:3 here",
                          "sampler is cyclic:30 in it and cyclic:31 here",
                          "momentum is 0 in it and 0.5 here",
                          "optimizer is sgd in it and adam here",
                          "noise is private in it and none here",
                          "schedule is constant in it",
                          "data is",
                          "seed is 0 in it and 5 here",
                          "decay is",
                          "zero above is",
                          "mechanism is",
                          "normalised by is off in it and 0.01 here"};
    (void)unused;
    case_run own = case_open(data, &plan);
    case_steps(&own, 4);
    check_ok(dpmf_trainer_save(own.trainer, path));
    for (int t = 0; t < 20; t++)
        schedule[t] = 1 - t / 40.0;
    for (int i = 0; i < 16; i++) {
        case_plan changed = plan;
        dpmf_trainer_options *o = &changed.options;
        if (i == 0) changed.family = "tree";
        if (i == 1) o->clip = 2;
        if (i == 2) changed.key = 2;
        if (i == 3) o->learning_rate = 0.25;
        if (i == 4) o->hidden = 3;
        if (i == 5) changed.sampler = "cyclic:31";
        if (i == 6) o->momentum = 0.5;
        if (i == 7) o->optimizer = DPMF_OPTIMIZER_ADAM;
        if (i == 8) o->noiseless = 1;
        if (i == 9) o->schedule = schedule;
        if (i == 11) o->seed = 5;
        if (i == 12) o->decay = 0.125;
        if (i == 13) o->zero_above = 3;
        if (i == 14) changed.sigma = 0.75;
        if (i == 15) o->gamma = 0.01;
        case_run r = case_open(i == 10 ? other : data, &changed);
        case_steps(&r, 1);
        refuse_load(&r, DPMF_ERROR_ARGUMENT, says[i]);
        check_message("belongs to another run");
        case_close(&r);
    }
    case_close(&own);
    dpmf_dataset_free(data);
    dpmf_dataset_free(other);
}

static void test_a_checkpoint_under_other_local_options_is_refused_by_name(void **unused) {
    dpmf_dataset *data = case_data(28);
    const char *says[] = {"local steps is 4 in it and 5 here", "local rate is 0.5 in it and 0.25 here",
                          "local batch is 2 in it and 0 here", "local steps is 4 in it and off here",
                          "zero above is 0 in it and 3 here",  "unit is user in it and example here"};
    (void)unused;
    for (int i = 0; i < 6; i++) {
        case_plan plan = local_plan(), changed = plan;
        dpmf_trainer_options *o = &changed.options;
        if (i == 0) o->local_steps = 5;
        if (i == 1) o->local_rate = 0.25;
        if (i == 2) o->local_batch = 0;
        if (i == 3 || i == 5) o->local_steps = o->local_batch = 0, o->local_rate = 0;
        if (i == 4) o->zero_above = 3, o->zero_largest = 1;
        if (i == 5) o->by_unit = 0, changed.sampler = "cyclic:30";
        case_run own = case_open(data, &plan), r = case_open(data, &changed);
        case_steps(&own, 4);
        check_ok(dpmf_trainer_save(own.trainer, path));
        case_steps(&r, 1);
        refuse_load(&r, DPMF_ERROR_ARGUMENT, says[i]);
        if (i == 3) { /* and the other way */
            check_ok(dpmf_trainer_save(r.trainer, path));
            refuse_load(&own, DPMF_ERROR_ARGUMENT, "local steps is off in it and 4 here");
        }
        /* Every option is part of the noise's label. */
        assert_string_not_equal(dpmf_trainer_digest(own.trainer), dpmf_trainer_digest(r.trainer));
        case_close(&own);
        case_close(&r);
    }
    case_plan norm = local_plan(), coordinate = norm;
    norm.options.zero_above = coordinate.options.zero_above = 3;
    coordinate.options.zero_largest = 1;
    case_run own = case_open(data, &norm), r = case_open(data, &coordinate);
    check_ok(dpmf_trainer_save(own.trainer, path));
    refuse_load(&r, DPMF_ERROR_ARGUMENT, "zero by is off in it and the largest coordinate here");
    case_close(&own);
    case_close(&r);
    dpmf_dataset_free(data);
}

static void test_a_checkpoint_of_another_optimizer_is_refused_by_name(void **unused) {
    dpmf_dataset *data = case_data(29);
    const char *says[] = {"constraint is ball in it and box here",
                          "radius is 2 in it and 3 here",
                          "regularizer is l1 in it and squared distance here",
                          "l1 is 0.5 in it and 0.25 here",
                          "optimizer is ftrl in it and sgd here",
                          "optimizer is ftrl in it and adagrad here",
                          "optimizer is ftrl in it and rmsprop here",
                          "momentum is 0 in it and 0.5 here",
                          "nesterov is 0 in it and 1 here"};
    (void)unused;
    case_plan plan = case_defaults();
    plan.options.optimizer = DPMF_OPTIMIZER_FTRL;
    plan.options.constraint = DPMF_WEIGHTS_BALL;
    plan.options.radius = 2;
    plan.options.regularizer = DPMF_REGULARIZER_L1;
    plan.options.l1 = 0.5;
    case_run own = case_open(data, &plan);
    case_steps(&own, 4);
    check_ok(dpmf_trainer_save(own.trainer, path));
    for (int i = 0; i < 9; i++) {
        case_plan changed = plan;
        dpmf_trainer_options *o = &changed.options;
        if (i == 0) o->constraint = DPMF_WEIGHTS_BOX;
        if (i == 1) o->radius = 3;
        if (i == 2) o->regularizer = DPMF_REGULARIZER_SQUARED, o->l1 = 0;
        if (i == 3) o->l1 = 0.25;
        if (i >= 4 && i < 7) *o = case_defaults().options;
        if (i == 5) o->optimizer = DPMF_OPTIMIZER_ADAGRAD;
        if (i == 6) o->optimizer = DPMF_OPTIMIZER_RMSPROP;
        if (i == 7) o->momentum = 0.5;
        if (i == 8) o->nesterov = 1;
        case_run r = case_open(data, &changed);
        refuse_load(&r, DPMF_ERROR_ARGUMENT, says[i]);
        assert_string_not_equal(dpmf_trainer_digest(own.trainer), dpmf_trainer_digest(r.trainer));
        case_close(&r);
    }
    case_close(&own);
    plan = case_defaults();
    plan.options.optimizer = DPMF_OPTIMIZER_RMSPROP;
    case_run slow = case_open(data, &plan);
    check_ok(dpmf_trainer_save(slow.trainer, path));
    plan.options.smoothing = 0.5;
    case_run fast = case_open(data, &plan);
    refuse_load(&fast, DPMF_ERROR_ARGUMENT, "smoothing is 0.99 in it and 0.5 here");
    plan.options.smoothing = 0.99;
    plan.options.adam_epsilon = 0.5;
    case_run coarse = case_open(data, &plan);
    refuse_load(&coarse, DPMF_ERROR_ARGUMENT, "in it and 0.5 here");
    case_close(&slow);
    case_close(&fast);
    case_close(&coarse);
    dpmf_dataset_free(data);
}

static void write_bytes(const uint8_t *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
}

static void test_a_damaged_checkpoint_is_refused(void **unused) {
    dpmf_dataset *data = case_data(25);
    case_plan plan = case_defaults();
    static uint8_t bytes[1 << 16];
    struct stat info;
    (void)unused;
    plan.family = "bsr";
    plan.bands = 3;
    plan.options.momentum = 0.5;
    case_run r = case_open(data, &plan);
    case_steps(&r, 4);
    check_ok(dpmf_trainer_save(r.trainer, path));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    const size_t size = (size_t)info.st_size;
    FILE *file = fopen(path, "rb");
    assert_true(size < sizeof bytes && fread(bytes, 1, size, file) == size);
    fclose(file);
    for (size_t i = 0; i < size; i += i < 400 ? 1 : 97) {
        bytes[i] ^= 0x20;
        write_bytes(bytes, size);
        dpmf_status status = dpmf_trainer_load(r.trainer, path);
        assert_true(status == DPMF_ERROR_FORMAT || (status == DPMF_ERROR_ARGUMENT && i < 120)); /* the key's line */
        bytes[i] ^= 0x20;
    }
    for (size_t cut = 0; cut < size; cut += cut < 100 ? 1 : 501) {
        write_bytes(bytes, cut);
        refuse_load(&r, DPMF_ERROR_FORMAT, "");
    }
    bytes[size] = 0;
    write_bytes(bytes, size + 1);
    refuse_load(&r, DPMF_ERROR_FORMAT, "");
    write_bytes(bytes, size);
    assert_int_equal(chmod(path, 0644), 0);
    refuse_load(&r, DPMF_ERROR_IO, "mode 644");
    unlink(path);
    refuse_load(&r, DPMF_ERROR_IO, "it does not exist");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_load(r.trainer, ""));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_save(r.trainer, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_trainer_save(NULL, path));
    check_fails(DPMF_ERROR_IO, dpmf_trainer_save(r.trainer, "no such directory/x"));
    write_bytes(bytes, size);
    check_ok(dpmf_trainer_load(r.trainer, path));
    FAIL_EACH(dpmf_trainer_save(r.trainer, path));
    FAIL_EACH(dpmf_trainer_load(r.trainer, path));
    case_steps(&r, 16);
    case_run whole = case_open(data, &plan);
    case_steps(&whole, 20);
    check_same_weights(&whole, &r);
    case_close(&whole);
    case_close(&r);
    dpmf_dataset_free(data);
}

/* ---- several parts ---- */

enum { PARTS = 3, DIM_MAX = 4096 };

/* Adds up the sums of the parts, in their order, when all have arrived. */
typedef struct meeting {
    pthread_barrier_t barrier;
    int64_t *brought[PARTS];
    int calls, fail_at; /* reductions so far, and the one that fails in all parts; -1: none */
} meeting;

typedef struct member {
    meeting *together;
    int64_t part;
    case_run run;
    dpmf_status status; /* of the first step that failed */
} member;

static dpmf_status reduce(void *context, int64_t *sums, int64_t count) {
    member *m = context;
    static int64_t total[PARTS][DIM_MAX];
    m->together->brought[m->part] = sums;
    pthread_barrier_wait(&m->together->barrier);
    for (int64_t i = 0; i < count; i++) {
        total[m->part][i] = 0;
        for (int p = 0; p < PARTS; p++)
            total[m->part][i] += m->together->brought[p][i];
    }
    const int fail = m->together->calls == m->together->fail_at;
    pthread_barrier_wait(&m->together->barrier);
    memcpy(sums, total[m->part], (size_t)count * sizeof *sums);
    if (m->part == 0) m->together->calls++; /* the others read it behind the next barrier */
    return fail ? DPMF_ERROR_IO : DPMF_OK;
}

static void *work(void *context) {
    member *m = context;
    m->status = DPMF_OK;
    for (int t = 0; t < 20; t++) {
        dpmf_status status = dpmf_trainer_next(m->run.trainer);
        if (status == DPMF_ERROR_IO && m->status == DPMF_OK) {
            m->status = status;
            t--; /* the same step again, from a checkpoint that was made after it failed */
            char own[80];
            snprintf(own, sizeof own, "%s.%d", path, (int)m->part);
            if (dpmf_trainer_save(m->run.trainer, own) != DPMF_OK || dpmf_trainer_load(m->run.trainer, own) != DPMF_OK)
                m->status = DPMF_ERROR_FORMAT;
            unlink(own);
        } else if (status != DPMF_OK) {
            m->status = status;
            break;
        }
    }
    return NULL;
}

static void run_parts(const dpmf_dataset *data, case_plan plan, int fail_at, const case_run *want) {
    meeting together = {.fail_at = fail_at};
    member members[PARTS];
    pthread_t threads[PARTS];
    assert_int_equal(pthread_barrier_init(&together.barrier, NULL, PARTS), 0);
    plan.options.parts = PARTS;
    plan.options.reduce = reduce;
    for (int i = 0; i < PARTS; i++) {
        members[i] = (member){.together = &together, .part = i};
        plan.options.part = i;
        plan.options.reduce_context = &members[i];
        members[i].run = case_open(data, &plan);
    }
    for (int i = 0; i < PARTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &members[i]), 0);
    for (int i = 0; i < PARTS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PARTS; i++) {
        assert_int_equal(members[i].status, fail_at >= 0 ? DPMF_ERROR_IO : DPMF_OK);
        check_same_weights(want, &members[i].run);
    }
    for (int i = 0; i < PARTS; i++)
        case_close(&members[i].run);
    pthread_barrier_destroy(&together.barrier);
}

/* Each part sums a third of the units and makes a third of the noise; together they are the one run, to the last bit. */
static void test_parts_together_are_the_one_run(void **unused) {
    const char *families[] = {"bsr", "blt"};
    dpmf_dataset *data = case_data(26);
    (void)unused;
    for (int i = 0; i < 2; i++) {
        case_plan plan = case_defaults();
        plan.family = families[i];
        plan.bands = i == 0 ? 4 : 0;
        plan.options.hidden = 5;
        plan.options.momentum = 0.5;
        case_run alone = case_open(data, &plan);
        case_steps(&alone, 20);
        assert_true(alone.trainer->model.dim < DIM_MAX);
        run_parts(data, plan, -1, &alone);
        run_parts(data, plan, 7, &alone); /* a reduction that fails: the noise row is taken again */
        case_close(&alone);
    }
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_resumed_run_has_the_same_weights_for_every_family),
        cmocka_unit_test(test_a_resumed_run_has_the_same_weights_for_every_optimizer),
        cmocka_unit_test(test_a_resumed_run_has_the_same_weights_for_every_sampler),
        cmocka_unit_test(test_a_resumed_run_with_local_training_has_the_same_weights),
        cmocka_unit_test(test_a_checkpoint_of_another_run_is_refused_by_name),
        cmocka_unit_test(test_a_checkpoint_under_other_local_options_is_refused_by_name),
        cmocka_unit_test(test_a_checkpoint_of_another_optimizer_is_refused_by_name),
        cmocka_unit_test(test_a_damaged_checkpoint_is_refused),
        cmocka_unit_test(test_parts_together_are_the_one_run),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

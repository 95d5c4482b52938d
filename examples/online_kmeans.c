/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private online k-means (Pillutla et al. 2025, Example 1.26). Points arrive one by one, and after each of them the centers
 * are published. They are functions of running sums: for each center the number of points that were nearest to it when they
 * arrived, and the sum of these points. One private counter has all of them as columns. A point changes one row, by a norm of at
 * most sqrt(1 + 1) for points of the unit disc. That later points are assigned by published centers changes nothing: the
 * guarantee is for adaptive streams (Denisov et al. 2022, Theorem 2.1). The data are synthetic, so exact costs may be printed.
 */
#include <dpmf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 16000, CENTERS = 4, DIM = 2, BLOCK = 1 + DIM, COLUMNS = CENTERS * BLOCK };
static const double CLIP = 1.4142136, EPSILON = 1.0, DELTA = 1e-6; /* CLIP: above sqrt(2) */
static const double START[CENTERS][DIM] = {{0.7, 0.7}, {-0.7, 0.7}, {-0.7, -0.7}, {0.7, -0.7}};
static const double TRUTH[CENTERS][DIM] = {{0.6, 0.45}, {-0.55, 0.4}, {-0.3, -0.6}, {0.5, -0.4}};

static double random_number(uint64_t *state) { /* data only, never noise */
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

/* A point near one of the true centers, within the unit disc. */
static void make_point(uint64_t *state, double point[DIM]) {
    const int from = (int)((random_number(state) + 1) * 0.5 * CENTERS);
    for (int k = 0; k < DIM; k++)
        point[k] = TRUTH[from][k] + 0.1 * (random_number(state) + random_number(state));
}

static double distance(const double *a, const double *b) {
    return hypot(a[0] - b[0], a[1] - b[1]);
}

static int nearest(double centers[CENTERS][DIM], const double *point) {
    int best = 0;
    for (int j = 1; j < CENTERS; j++)
        if (distance(centers[j], point) < distance(centers[best], point)) best = j;
    return best;
}

/* A center becomes the mean of its points once their number stands out of the noise, by ten deviations. */
static void move_centers(const double *sums, double deviation, double centers[CENTERS][DIM]) {
    for (int j = 0; j < CENTERS; j++)
        for (int k = 0; k < DIM && sums[j * BLOCK] > 10 * deviation; k++)
            centers[j][k] = fmin(fmax(sums[j * BLOCK + 1 + k] / sums[j * BLOCK], -1), 1);
}

/*
 * One pass over the stream, without noise if `counter` is NULL; *cost is the mean squared distance of the points of its second half
 * to the centers before them.
 */
static dpmf_status cluster(dpmf_counter *counter, double centers[CENTERS][DIM], double *cost) {
    double sums[COLUMNS] = {0}, row[COLUMNS], point[DIM];
    uint64_t state = 7;
    memcpy(centers, START, sizeof START);
    *cost = 0;
    for (int t = 0; t < POINTS; t++) {
        make_point(&state, point);
        const int own = nearest(centers, point);
        if (t >= POINTS / 2)
            *cost += distance(centers[own], point) * distance(centers[own], point) / (POINTS - POINTS / 2);
        memset(row, 0, sizeof row);
        row[own * BLOCK] = 1;
        memcpy(row + own * BLOCK + 1, point, sizeof point);
        if (counter != NULL) {
            dpmf_status status = dpmf_counter_add(counter, 1, row, sums);
            if (status != DPMF_OK) return status;
        } else {
            for (int i = 0; i < COLUMNS; i++)
                sums[i] += row[i];
        }
        move_centers(sums, counter != NULL ? dpmf_counter_error(counter, t) : 0, centers);
    }
    return DPMF_OK;
}

/* Noise for running sums of POINTS rows, each unit in one of them. */
static dpmf_status make_mechanism(dpmf_mechanism **out, dpmf_privacy *guarantee) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *plain = NULL;
    dpmf_optimize_options how = dpmf_optimize_options_defaults();
    dpmf_optimization found;
    how.buffers = 3;
    dpmf_status status = dpmf_workload_parse("prefix", POINTS, &workload);
    if (status == DPMF_OK) status = dpmf_optimize("blt", workload, NULL, &how, &strategy, &found);
    if (status == DPMF_OK) status = dpmf_mechanism_create(workload, NULL, strategy, NULL, &plain);
    if (status == DPMF_OK) status = dpmf_mechanism_calibrate(plain, EPSILON, DELTA, NULL, NULL, NULL, out, guarantee);
    dpmf_mechanism_free(plain);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
    return status;
}

int main(void) {
    dpmf_mechanism *mechanism = NULL;
    dpmf_counter *counter = NULL;
    dpmf_counter_options options = dpmf_counter_options_defaults();
    dpmf_privacy guarantee;
    uint8_t key[DPMF_KEY_SIZE];
    double private[CENTERS][DIM], plain[CENTERS][DIM], private_cost = 0, plain_cost = 0, farthest = 0;
    options.clip_rows = 1; /* a point outside the disc is moved towards it, with its count */
    dpmf_status status = make_mechanism(&mechanism, &guarantee);
    if (status == DPMF_OK) status = dpmf_key_testing(1, key); /* not private: a real run calls dpmf_key_create */
    if (status == DPMF_OK) status = dpmf_counter_create(mechanism, COLUMNS, CLIP, key, &options, &counter);
    if (status == DPMF_OK) status = cluster(counter, private, &private_cost);
    if (status == DPMF_OK) status = cluster(NULL, plain, &plain_cost);
    if (status != DPMF_OK) fprintf(stderr, "%s\n", dpmf_last_error());
    for (int j = 0; j < CENTERS && status == DPMF_OK; j++) {
        printf("center %d: (%.3f, %.3f), without noise (%.3f, %.3f)\n", j, private[j][0], private[j][1], plain[j][0],
               plain[j][1]);
        farthest = fmax(farthest, distance(private[j], plain[j]));
    }
    if (status == DPMF_OK)
        printf("%d points, epsilon = %g, delta = %g: mean squared distance %.5f, without noise %.5f\n", POINTS,
               guarantee.epsilon, guarantee.delta, private_cost, plain_cost);
    dpmf_counter_free(counter);
    dpmf_mechanism_free(mechanism);
    return status == DPMF_OK && farthest < 0.1 && private_cost < 1.2 * plain_cost ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Privacy loss distributions in files, for exchange with other accountants.
 *
 *     {"format": "privacy-loss-distribution", "version": 1, "value_discretization_interval": h, "pessimistic_estimate": true,
 *      "adjacency": "add-remove",                                      (may be left out: then any)
 *      "remove": {"losses": [-3, 5], "probabilities": [0.4, 0.6], "infinity_mass": 0},
 *      "add": {...}}                                                   (or "symmetric": true)
 *
 * The numbers are those of dp-accounting's PrivacyLossDistribution.create_from_rounded_probability: losses are whole multiples of
 * h, with their mass under P. What is read is a claim of its author, of which only this can be checked: masses are not negative and
 * sum to 1, where more than 1 is on the safe side; a distribution that was rounded up has sum p e^-loss <= 1, so that more than
 * that reveals some of the optimistic ones. That sum is taken above the loss LOWEST, since dp-accounting moves the lower tail up to
 * its first loss, and leaves rounding errors of FFTs there. What is missing to the sum of 1 is added to infinity.
 * What is written dominates: its roundings are upwards (account/grid/atoms.c), and 17 digits give the same doubles again.
 */
#include "base/file.h"
#include "account/generic/generic.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/sum.h"

#include <math.h>
#include <string.h>

static const char WHAT[] = "privacy loss distribution", FORMAT[] = "privacy-loss-distribution";
static const double INTERVAL_MIN = 1e-12, INTERVAL_MAX = 100, MISSING = 1e-6, EXCESS = 1e-3, LOWEST = -1,
                    OPTIMISTIC = 1e-6;
enum { LOSSES_MAX = 1 << 22 };

static dpmf_status fail_format(const char *reason) {
    return base_fail(DPMF_ERROR_FORMAT, "privacy loss distribution: %s", reason);
}

typedef struct losses {
    int64_t count; /* of the losses above 0 */
    double *loss, *mass;
    base_running sum, image; /* of all masses; of mass e^-loss */
    double last;             /* the loss before, in steps */
    double beyond;           /* mass of losses above the largest that is distinguished from infinity */
} losses;

static dpmf_status take(losses *l, double steps, double mass, double grid) {
    if (!(steps == floor(steps) && fabs(steps) < 1e12 && steps > l->last))
        return fail_format("its losses are not whole numbers that rise");
    if (!(mass >= 0 && mass <= 1 + EXCESS)) return fail_format("a probability is not between 0 and 1");
    l->last = steps;
    base_running_add(&l->sum, mass);
    if (steps * grid > LOWEST) base_running_add(&l->image, mass * exp(-steps * grid));
    if (steps * grid > GENERIC_EPSILON_MAX) {
        l->beyond += mass;
    } else if (steps > 0 && mass > 0) {
        l->loss[l->count] = steps * grid;
        l->mass[l->count++] = mass;
    }
    return DPMF_OK;
}

static dpmf_status read_direction(const cJSON *root, const char *key, double grid, generic_law *out) {
    const cJSON *object = NULL;
    double infinite = 0;
    losses l = {.last = -INFINITY};
    dpmf_status status = DPMF_OK;
    TRY(base_json_get_object(root, key, WHAT, &object));
    TRY(base_json_get_double(object, "infinity_mass", WHAT, &infinite));
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(object, "losses"), *step = NULL;
    const cJSON *masses = cJSON_GetObjectItemCaseSensitive(object, "probabilities");
    const int64_t count = cJSON_IsArray(steps) ? cJSON_GetArraySize(steps) : -1;
    if (count < 0 || count > LOSSES_MAX || !cJSON_IsArray(masses) || cJSON_GetArraySize(masses) != count)
        return fail_format("'losses' and 'probabilities' are not two lists of the same length, at most 4194304");
    if (!(infinite >= 0 && infinite < 1)) return fail_format("its infinity_mass is not from 0 to below 1");
    TRY(BASE_ARRAYS("a privacy loss", {&l.loss, count + 1}, {&l.mass, count + 1}));
    const cJSON *mass = masses->child;
    cJSON_ArrayForEach(step, steps) {
        if (!cJSON_IsNumber(step) || !cJSON_IsNumber(mass)) {
            status = fail_format("a loss or a probability is not a number");
            goto done;
        }
        TRY_DONE(take(&l, step->valuedouble, mass->valuedouble, grid));
        mass = mass->next;
    }
    const double missing = 1 - infinite - base_running_value(&l.sum);
    if (!(missing <= MISSING && missing >= -EXCESS)) {
        status =
            base_fail(DPMF_ERROR_FORMAT, "%s: the probabilities of '%s' and its infinity_mass sum to %.9g, not to 1",
                      WHAT, key, 1 - missing);
        goto done;
    }
    if (base_running_value(&l.image) > 1 + OPTIMISTIC) {
        status =
            base_fail(DPMF_ERROR_FORMAT,
                      "%s: the sum of probability x e^-loss of '%s' is %.9g, above 1: an optimistic estimate, or no "
                      "distribution of a privacy loss",
                      WHAT, key, base_running_value(&l.image));
        goto done;
    }
    TRY_DONE(generic_law_create(l.count, l.loss, l.mass, infinite + fmax(missing, 0) + l.beyond * (1 + 1e-9), 0, out));
done:
    base_free(l.loss);
    return status;
}

static int is_true(const cJSON *root, const char *key) {
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(root, key));
}

static dpmf_status check_adjacency(const cJSON *root, dpmf_adjacency adjacency) {
    const char *text = NULL;
    dpmf_adjacency found;
    if (cJSON_GetObjectItemCaseSensitive(root, "adjacency") == NULL) {
        if (adjacency != DPMF_ADJACENCY_REPLACE_ONE) return DPMF_OK;
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "the privacy loss distribution names no adjacency: under replace-one adjacency, where "
                         "curves are larger, it must");
    }
    TRY(base_json_get_text(root, "adjacency", WHAT, &text));
    TRY(dpmf_adjacency_parse(text, &found));
    if (found == adjacency) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "the privacy loss distribution is for %s adjacency, the other runs for %s",
                     text, dpmf_adjacency_name(adjacency));
}

static dpmf_status read_root(const cJSON *root, dpmf_adjacency adjacency, generic_law laws[2]) {
    const char *format = NULL;
    int64_t version = 0;
    double grid = 0;
    generic_law found[2] = {{0}, {0}};
    dpmf_status status = DPMF_OK;
    TRY(base_json_get_text(root, "format", WHAT, &format));
    if (strcmp(format, FORMAT) != 0) return fail_format("its format is not privacy-loss-distribution");
    TRY(base_json_get_integer(root, "version", WHAT, 1, 1, &version));
    TRY(base_json_get_double(root, "value_discretization_interval", WHAT, &grid));
    if (!(grid >= INTERVAL_MIN && grid <= INTERVAL_MAX))
        return fail_format("its value_discretization_interval is not from 1e-12 to 100");
    if (!is_true(root, "pessimistic_estimate"))
        return fail_format("its pessimistic_estimate is not true; an optimistic one is a lower bound, and is refused");
    TRY(check_adjacency(root, adjacency));
    TRY_DONE(read_direction(root, "remove", grid, &found[0]));
    if (is_true(root, "symmetric"))
        TRY_DONE(generic_law_copy(&found[0], &found[1]));
    else
        TRY_DONE(read_direction(root, "add", grid, &found[1]));
    laws[0] = found[0];
    laws[1] = found[1];
    return DPMF_OK;
done:
    generic_law_free(&found[0]);
    generic_law_free(&found[1]);
    return status;
}

dpmf_status generic_read(const char *path, dpmf_adjacency adjacency, generic_law laws[2]) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    cJSON *root = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_file_read(path, WHAT, &bytes, &size));
    TRY_DONE(base_json_parse((const char *)bytes, size, 4, WHAT, &root));
    TRY_DONE(read_root(root, adjacency, laws));
done:
    cJSON_Delete(root);
    base_free(bytes);
    return status;
}

static void write_direction(base_writer *w, const char *key, int64_t stride, const grid_atoms *a) {
    base_json_open(w, key, '{');
    base_json_open(w, "losses", '[');
    for (int64_t i = 0; i < a->count; i++)
        if (a->mass[i] > 0) base_json_integer(w, NULL, (a->first + i) * stride);
    base_json_close(w, ']');
    base_json_open(w, "probabilities", '[');
    for (int64_t i = 0; i < a->count; i++)
        if (a->mass[i] > 0) base_json_double(w, NULL, a->mass[i]);
    base_json_close(w, ']');
    base_json_double(w, "infinity_mass", a->infinite);
    base_json_close(w, '}');
}

/* ---- curves as distributions: the dots connected (account/grid/atoms.c) ---- */

typedef struct dots {
    int64_t count;
    double reach;      /* so that as many points are asked for as there are */
    double *values[2]; /* of (P, Q), and reversed; they may be the same */
} dots;

static dpmf_status fill_dots(const void *of, int reversed, int64_t count, double step, double mass, const dpmf_run *run,
                             double *out) {
    const dots *d = of;
    (void)step;
    (void)mass;
    (void)run;
    for (int64_t i = 0; i < count; i++)
        out[i] = d->values[reversed != 0][i < d->count ? i : d->count - 1];
    return DPMF_OK;
}

static double reach_dots(const void *of, int reversed, double mass) {
    const dots *d = of;
    (void)reversed;
    (void)mass;
    return d->reach;
}

static dpmf_status write_atoms(const char *path, dpmf_adjacency adjacency, double interval, int64_t stride, int count,
                               const grid_atoms *atoms) {
    base_writer w = {0};
    base_json_open(&w, NULL, '{');
    base_json_text(&w, "format", FORMAT);
    base_json_integer(&w, "version", 1);
    base_json_double(&w, "value_discretization_interval", interval);
    base_json_bool(&w, "pessimistic_estimate", 1);
    base_json_text(&w, "adjacency", dpmf_adjacency_name(adjacency));
    write_direction(&w, "remove", stride, &atoms[0]);
    if (count > 1) write_direction(&w, "add", stride, &atoms[1]);
    base_json_bool(&w, "symmetric", count == 1);
    base_json_close(&w, '}');
    base_write_raw(&w, "\n");
    dpmf_status status = w.status;
    if (status == DPMF_OK) status = base_file_write(path, WHAT, 1, &(base_part){w.text, w.length});
    base_writer_free(&w);
    return status;
}

dpmf_status generic_write(const char *path, dpmf_adjacency adjacency, double interval, int64_t stride, int64_t count,
                          double *remove, double *add, const dpmf_run *run) {
    const double step = interval * (double)stride;
    const dots d = {count, ((double)count - 2.5) * step, {remove, add == NULL ? remove : add}};
    const grid_part part = {&d, fill_dots, reach_dots, 1};
    const int directions = add == NULL ? 1 : 2;
    grid_atoms atoms[2] = {{0}, {0}};
    dpmf_status status = DPMF_OK;
    for (int r = 0; r < directions; r++)
        TRY_DONE(grid_atoms_create(&part, r, step, 1, run, &atoms[r]));
    status = write_atoms(path, adjacency, interval, stride, directions, atoms);
done:
    grid_atoms_free(&atoms[0]);
    grid_atoms_free(&atoms[1]);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors of the learning rate from text: parts of base/schedule.c and files, joined by commas, which multiply. They act on
 * private gradients, so that nothing needs their inverse, and a factor may be 0: the model then stands still in that step.
 */
#include "train/train.h"

#include "base/memory.h"
#include "base/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char ACCEPTED[] = "accepted: linear[:FLOOR], cosine[:FLOOR], cooldown:FRACTION:FLOOR, warmup:FRACTION, "
                               "step:EVERY:FACTOR, lr:FILE.npy, "
                               "joined by commas, or constant";

/* The factors of a file: a number for each step. */
static dpmf_status apply_file(const char *path, size_t length, int64_t steps, double *factors) {
    dpmf_array array = {0};
    char *copy = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc((int64_t)length + 1, 1, "learning rates", (void **)&copy));
    memcpy(copy, path, length);
    TRY_DONE(dpmf_array_load(copy, &array));
    if (array.dimensions != 1 || array.shape[0] != steps) {
        status = base_fail(DPMF_ERROR_ARGUMENT,
                           "schedule: the lr file has %" PRId64
                           " numbers in %d dimension(s), accepted: one for each of %" PRId64 " steps",
                           array.shape[0] * array.shape[1], array.dimensions, steps);
        goto done;
    }
    for (int64_t t = 0; t < steps; t++)
        factors[t] *= array.values[t];
done:
    base_free(copy);
    dpmf_array_free(&array);
    return status;
}

static dpmf_status apply_part(const char *part, size_t length, int64_t steps, double *factors) {
    char shown[64], text[BASE_SCHEDULE_TEXT];
    if (length > 3 && memcmp(part, "lr:", 3) == 0) return apply_file(part + 3, length - 3, steps, factors);
    if (base_schedule_knows(part, length))
        return base_schedule_apply("schedule", 0, part, length, steps, factors, text);
    return base_fail(DPMF_ERROR_ARGUMENT, "schedule: '%s', %s", base_show(part, length, shown), ACCEPTED);
}

dpmf_status dpmf_schedule_parse(const char *text, int64_t steps, double *factors) {
    if (text == NULL || factors == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "schedule: the text or the factors are NULL, %s", ACCEPTED);
    if (steps < 1) return base_fail(DPMF_ERROR_ARGUMENT, "steps = %" PRId64 ", accepted 1 to 2^53", steps);
    for (int64_t t = 0; t < steps; t++)
        factors[t] = 1;
    for (const char *at = text; strcmp(text, "constant") != 0; at++) {
        const size_t length = strcspn(at, ",");
        TRY(apply_part(at, length, steps, factors));
        at += length;
        if (*at == '\0') break;
    }
    for (int64_t t = 0; t < steps; t++)
        if (!(factors[t] >= 0 && factors[t] <= 1e100))
            return base_fail(DPMF_ERROR_ARGUMENT, "schedule: factor %g of step %" PRId64 ", accepted 0 to 1e100",
                             factors[t], t);
    return DPMF_OK;
}

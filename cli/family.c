/* SPDX-License-Identifier: Apache-2.0 */
#include "family.h"

#include "options/kinds.h"
#include "output.h"
#include "parameters.h"

#include <inttypes.h>
#include <string.h>

const dpmf_family *find_family(const char *name) {
    for (int64_t i = 0; dpmf_family_info(i) != NULL; i++)
        if (strcmp(dpmf_family_info(i)->name, name) == 0) return dpmf_family_info(i);
    return NULL;
}

static int any_family(const dpmf_family *kind) {
    (void)kind;
    return 1;
}

static int has_bands(const dpmf_family *kind) {
    return kind->bands;
}

static int takes_nu(const dpmf_family *kind) {
    return kind->nu;
}

int check_family(const char *name, const arguments *given) {
    char list[FAMILY_LIST], shown[SHOWN];
    const dpmf_family *kind = find_family(name);
    if (kind == NULL)
        return fail(EXIT_USAGE, "--family %s: accepted: %s", show(name, shown), family_list(any_family, ", ", list));
    bool parameters = option_given(given, OPTION_PARAMETERS);
    if (!kind->closed_form && kind->parameters == NULL && given->operand == NULL)
        return fail(EXIT_USAGE, "--family %s has parameters: a mechanism FILE or 'dpmf optimize' is required", name);
    if (!kind->closed_form && !parameters && given->operand == NULL)
        return fail(EXIT_USAGE, "--family %s has parameters: a mechanism FILE or --parameters FILE is required", name);
    if (parameters && kind->parameters == NULL) return fail(EXIT_USAGE, "--parameters: family %s takes none", name);
    if (option_given(given, OPTION_BANDS) && !kind->bands)
        return fail(EXIT_USAGE, "--bands: family %s takes none; %s do", name, family_list(has_bands, " and ", list));
    if (option_given(given, OPTION_NU) && (!kind->nu || parameters))
        return fail(EXIT_USAGE, "--nu: only family %s without --parameters takes it",
                    family_list(takes_nu, " and ", list));
    return 0;
}

const char *decoded_family(const char *name, const arguments *given) {
    const dpmf_family *kind = find_family(name);
    if (kind == NULL || !option_given(given, OPTION_DECODER)) return name;
    const char *decoded = option_is(given, OPTION_DECODER, "optimal") ? kind->optimal : kind->restart;
    return decoded != NULL ? decoded : name;
}

int64_t family_bands(const dpmf_strategy *strategy) {
    const dpmf_family *kind = find_family(dpmf_strategy_get(strategy).family);
    if (kind == NULL || !kind->bands) return 0;
    return kind->inverse ? dpmf_strategy_get(strategy).buffers + 1 : dpmf_strategy_get(strategy).bands;
}

/* Bands and stamps as given, or else as in `shape`, which is changed to them. */
static int check_shape(const arguments *given, const dpmf_family *kind, int64_t steps, strategy_shape *shape) {
    if (option_given(given, OPTION_STAMPS)) shape->stamps = given->count[OPTION_STAMPS];
    if (shape->stamps > steps || steps % shape->stamps != 0)
        return fail(EXIT_USAGE, "--stamps %" PRId64 ": a divisor of %" PRId64 " (the steps) is accepted", shape->stamps,
                    steps);
    if (option_given(given, OPTION_BANDS)) shape->bands = given->count[OPTION_BANDS];
    int64_t block = steps / shape->stamps;
    const char *of = shape->stamps > 1 ? "the steps of a stamp" : "the steps";
    if (!kind->bands || option_given(given, OPTION_PARAMETERS)) return 0;
    if (shape->bands == 0)
        return fail(EXIT_USAGE, "--family %s needs --bands B, from 1 to %" PRId64 " (%s)", kind->name, block, of);
    if (shape->bands > block)
        return fail(EXIT_USAGE, "--bands %" PRId64 ": a whole number from 1 to %" PRId64 " (%s) is accepted",
                    shape->bands, block, of);
    return 0;
}

static int make_closed_form(const arguments *given, const dpmf_family *kind, const dpmf_workload *workload,
                            const strategy_shape *shape, dpmf_strategy **out) {
    dpmf_strategy_options made = dpmf_strategy_options_defaults();
    if (kind->bands) made.bands = shape->bands;
    if (kind->nu) made.nu = given->number[OPTION_NU];
    made.stamps = shape->stamps;
    if (option_given(given, OPTION_DECODER))
        made.decoder = option_is(given, OPTION_DECODER, "optimal") ? DPMF_DECODER_OPTIMAL : DPMF_DECODER_RESTART;
    made.column_normalize = shape->normalize;
    dpmf_status status = dpmf_strategy_create(kind->name, workload, &made, out);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

/* The strategy of one stamp, repeated, and its columns divided by their norms; takes over `block`. */
static int repeat(dpmf_strategy *block, const strategy_shape *shape, dpmf_strategy **out) {
    dpmf_strategy *whole = NULL;
    dpmf_status status = dpmf_strategy_create_stamped(block, shape->stamps, &whole);
    dpmf_strategy_free(block);
    if (status == DPMF_OK && shape->normalize) {
        status = dpmf_strategy_create_normalized(whole, out);
        dpmf_strategy_free(whole);
    } else if (status == DPMF_OK) {
        *out = whole;
    }
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int make_strategy(const arguments *given, const dpmf_family *kind, const dpmf_workload *workload, strategy_shape shape,
                  dpmf_strategy **out) {
    const char *path = option_text(given, OPTION_PARAMETERS);
    int64_t steps = dpmf_workload_get(workload).steps, found = 0;
    dpmf_strategy *block = NULL;
    int code = check_shape(given, kind, steps, &shape);
    if (code != 0) return code;
    if (path == NULL) return make_closed_form(given, kind, workload, &shape, out);
    code = read_strategy(path, kind, steps / shape.stamps, &found, &block);
    if (code != 0) return code;
    if (option_given(given, OPTION_BANDS) && given->count[OPTION_BANDS] != found) {
        dpmf_strategy_free(block);
        return fail(EXIT_USAGE, "--bands %" PRId64 ": the parameters have %" PRId64, given->count[OPTION_BANDS], found);
    }
    return repeat(block, &shape, out);
}

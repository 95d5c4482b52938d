/* SPDX-License-Identifier: Apache-2.0 */
#include "family.h"

#include "output.h"
#include "parameters.h"

#include <stdio.h>
#include <string.h>

static const family families[] = {
    {.name = "identity", .available = true, .closed_form = true},
    {.name = "workload", .available = true, .closed_form = true},
    {.name = "dense", .available = true, .parameter = "matrix"},
    {.name = "banded", .available = true, .bands = true, .parameter = "diagonals"},
    {.name = "toeplitz", .available = true, .closed_form = true, .nu = true, .parameter = "coefficients"},
    {.name = "banded-toeplitz", .available = true, .bands = true, .parameter = "coefficients"},
    {.name = "bsr", .available = true, .closed_form = true, .bands = true},
    {.name = "bisr", .available = true, .closed_form = true, .bands = true, .parameter = "inverse_coefficients"},
    {.name = "blt", .parameter = "parameters"},
    {.name = "tvblt", .parameter = "parameters"},
    {.name = "lowrank", .parameter = "parameters"},
    {.name = "tree", .closed_form = true},
    {.name = "tree-online", .closed_form = true},
    {.name = "tree-full", .closed_form = true},
    {.name = "fft", .closed_form = true},
    {.name = "fft-opt", .closed_form = true},
};

const family *find_family(const char *name) {
    for (size_t i = 0; i < sizeof families / sizeof *families; ++i)
        if (strcmp(families[i].name, name) == 0) return &families[i];
    return NULL;
}

static int refuse_name(const char *name) {
    char accepted[200] = "", shown[SHOWN];
    for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
        size_t used = strlen(accepted);
        if (families[i].available)
            snprintf(accepted + used, sizeof accepted - used, "%s%s", used > 0 ? ", " : "", families[i].name);
    }
    return fail(EXIT_USAGE, "--family %s: accepted are %s", show(name, shown), accepted);
}

int check_family(const char *name, const arguments *given) {
    const family *kind = find_family(name);
    if (kind == NULL) return refuse_name(name);
    bool parameters = option_given(given, OPTION_PARAMETERS);
    if (!kind->closed_form && !parameters && given->operand == NULL)
        return fail(EXIT_USAGE, "--family %s has parameters: a mechanism FILE or --parameters FILE is needed%s", name,
                    kind->available ? "" : " (and this version does not have the family)");
    if (!kind->available) return fail(EXIT_UNABLE, "family %s is not available in this version", name);
    if (parameters && kind->parameter == NULL) return fail(EXIT_USAGE, "--parameters: family %s takes none", name);
    if (option_given(given, OPTION_BANDS) && !kind->bands)
        return fail(EXIT_USAGE, "--bands: family %s takes none; banded, banded-toeplitz, bsr and bisr do", name);
    if (option_given(given, OPTION_NU) && (!kind->nu || parameters))
        return fail(EXIT_USAGE, "--nu: only family toeplitz without --parameters takes it");
    return 0;
}

static int make_closed_form(const arguments *given, const family *kind, const dpmf_workload *workload, int64_t bands,
                            bool normalize, dpmf_strategy **out) {
    dpmf_strategy_options made = dpmf_strategy_options_defaults();
    int64_t steps = dpmf_workload_steps(workload);
    if (option_given(given, OPTION_BANDS)) bands = given->count[OPTION_BANDS];
    if (kind->bands && bands == 0)
        return fail(EXIT_USAGE, "--family %s needs --bands B, from 1 to %lld (the steps)", kind->name,
                    (long long)steps);
    if (kind->bands && bands > steps)
        return fail(EXIT_USAGE, "--bands %lld: a whole number from 1 to %lld (the steps) is accepted", (long long)bands,
                    (long long)steps);
    if (kind->bands) made.bands = bands;
    if (kind->nu) made.nu = given->number[OPTION_NU];
    made.column_normalize = normalize;
    dpmf_status status = dpmf_strategy_create(kind->name, workload, &made, out);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int make_strategy(const arguments *given, const family *kind, const dpmf_workload *workload, int64_t bands,
                  bool normalize, dpmf_strategy **out) {
    const char *path = option_text(given, OPTION_PARAMETERS);
    if (path == NULL) return make_closed_form(given, kind, workload, bands, normalize, out);
    dpmf_strategy *plain = NULL;
    int64_t found = 0;
    int code = read_strategy(path, kind, dpmf_workload_steps(workload), &found, &plain);
    if (code != 0) return code;
    if (option_given(given, OPTION_BANDS) && given->count[OPTION_BANDS] != found) {
        code = fail(EXIT_USAGE, "--bands %lld: the parameters have %lld", (long long)given->count[OPTION_BANDS],
                    (long long)found);
    } else if (normalize) {
        dpmf_status status = dpmf_strategy_create_normalized(plain, out);
        if (status != DPMF_OK) code = fail_status(status, NULL);
    } else {
        *out = plain;
        return 0;
    }
    dpmf_strategy_free(plain);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/ledger.h"

#include "output.h"
#include "progress.h"

#include <stdio.h>

int ledger_check(const arguments *given) {
    const bool epsilon = option_given(given, OPTION_BUDGET_EPSILON), delta = option_given(given, OPTION_BUDGET_DELTA);
    if (epsilon != delta) return fail(EXIT_USAGE, "--budget-epsilon and --budget-delta go together");
    if (epsilon && !option_given(given, OPTION_LEDGER))
        return fail(EXIT_USAGE, "--budget-epsilon and --budget-delta need --ledger FILE");
    if (epsilon && given->number[OPTION_BUDGET_EPSILON] == 0.0)
        return fail(EXIT_USAGE, "--budget-epsilon 0: a budget above 0 is accepted");
    return 0;
}

int ledger_enter(const arguments *given, const dpmf_mechanism *mechanism, const uint8_t key[DPMF_KEY_SIZE],
                 const char *binding) {
    const char *path = option_text(given, OPTION_LEDGER);
    dpmf_ledger_options how = dpmf_ledger_options_defaults();
    if (path == NULL) return 0;
    if (option_given(given, OPTION_BUDGET_EPSILON)) {
        how.budget_epsilon = given->number[OPTION_BUDGET_EPSILON];
        how.budget_delta = given->number[OPTION_BUDGET_DELTA];
    }
    how.what = verbs[given->verb].name;
    how.binding = binding;
    how.run = run_with(1);
    dpmf_status status = dpmf_ledger_enter(path, mechanism, key, &how, NULL);
    progress_clear();
    return status == DPMF_OK ? 0 : fail_status(status, "--ledger");
}

bool ledger_is(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    const int first = fgetc(file); /* JSON; a mechanism file begins with the length of its header */
    const int second = fgetc(file);
    fclose(file);
    return first == '{' && second == '"';
}

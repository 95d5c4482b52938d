/* SPDX-License-Identifier: Apache-2.0 */
#include "privacy/ledger.h"

#include "options/numbers.h"
#include "output.h"
#include "progress.h"

#include <stdio.h>
#include <string.h>

/* E,D */
static bool read_budget(const char *text, double *epsilon, double *delta) {
    char first[64];
    const size_t length = strcspn(text, ",");
    if (text[length] != ',' || length >= sizeof first) return false;
    memcpy(first, text, length);
    first[length] = '\0';
    return read_number(first, epsilon) && read_number(text + length + 1, delta) && *epsilon > 0.0 && *epsilon < 1e6 &&
           *delta >= 1e-300 && *delta < 1.0;
}

int ledger_check(const arguments *given) {
    const char *text = option_text(given, OPTION_BUDGET);
    double epsilon = 0.0, delta = 0.0;
    char shown[SHOWN];
    if (text == NULL) return 0;
    if (!option_given(given, OPTION_LEDGER)) return fail(EXIT_USAGE, "--budget needs --ledger FILE");
    if (read_budget(text, &epsilon, &delta)) return 0;
    return fail(EXIT_USAGE, "--budget %s: E,D is accepted, as in 5,1e-6: epsilon above 0 and below 1e6, delta below 1",
                show(text, shown));
}

int ledger_enter(const arguments *given, const dpmf_mechanism *mechanism, const uint8_t key[DPMF_KEY_SIZE],
                 const char *binding) {
    const char *path = option_text(given, OPTION_LEDGER);
    dpmf_ledger_options how = dpmf_ledger_options_defaults();
    if (path == NULL) return 0;
    if (option_given(given, OPTION_BUDGET) &&
        !read_budget(option_text(given, OPTION_BUDGET), &how.budget_epsilon, &how.budget_delta))
        return ledger_check(given);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"
#include "options/verbs.h"
#include "output.h"

#include <inttypes.h>
#include <math.h>

static void print_json(text_buffer *t, const dpmf_verification *v) {
    json_begin(t);
    json_bool(t, "ok", dpmf_verification_get(v).ok != 0);
    json_open(t, "checks", '[');
    for (int64_t i = 0; i < dpmf_verification_get(v).count; i++) {
        const dpmf_check *check = dpmf_verification_check(v, i);
        json_open(t, NULL, '{');
        json_text(t, "name", check->name);
        if (check->ok < 0)
            json_null(t, "ok");
        else
            json_bool(t, "ok", check->ok != 0);
        json_double(t, "claimed", check->claimed);
        json_double(t, "found", check->found);
        json_double(t, "tolerance", check->tolerance);
        json_text(t, "how", check->how);
        json_close(t, '}');
    }
    json_close(t, ']');
    json_end(t);
}

static void add_number(text_buffer *t, double value) {
    if (isnan(value))
        text_add(t, "  %-20s", "");
    else
        text_add(t, "  %-20.15g", value);
}

/* ---- a ledger: read again entry by entry, composed, and compared with its budget ---- */

static void print_ledger(text_buffer *t, const arguments *given, const dpmf_ledger *ledger, const dpmf_privacy *found) {
    const double budget = dpmf_ledger_get(ledger).budget_epsilon;
    const bool ok = budget == 0.0 || found->epsilon <= budget * (1.0 + 1e-9);
    const char *how = budget == 0.0 ? "the ledger has no budget"
                      : found->total_mu > 0.0
                          ? "all entries composed; Gaussian, so with a budget fixed beforehand runs may be chosen one "
                            "after the other (Smith and Thakurta 2022)"
                          : "all entries composed; holds for a list that did not depend on what was "
                            "released";
    if (option_given(given, OPTION_JSON)) {
        json_begin(t);
        json_bool(t, "ok", ok);
        json_open(t, "checks", '[');
        json_open(t, NULL, '{');
        json_text(t, "name", "ledger.budget");
        if (budget == 0.0)
            json_null(t, "ok");
        else
            json_bool(t, "ok", ok);
        json_double(t, "claimed", budget > 0.0 ? budget : NAN);
        json_double(t, "found", budget > 0.0 ? found->epsilon : NAN);
        json_double(t, "tolerance", 1e-9);
        json_text(t, "how", how);
        json_close(t, '}');
        json_close(t, ']');
        json_integer(t, "entries", dpmf_ledger_get(ledger).entries);
        json_end(t);
        return;
    }
    text_add(t, "%-8s%-26s", budget == 0.0 ? "-" : ok ? "ok" : "FAILED", "ledger.budget");
    add_number(t, budget > 0.0 ? budget : NAN);
    add_number(t, budget > 0.0 ? found->epsilon : NAN);
    text_add(t, "  %s\n%s: %" PRId64 " entries\n", how, ok ? "verified" : "FAILED", dpmf_ledger_get(ledger).entries);
}

static int verify_ledger(const arguments *given) {
    const dpmf_run run = run_with((int)given->count[OPTION_THREADS]);
    dpmf_ledger *ledger = NULL;
    dpmf_privacy found = {0};
    text_buffer t = {0};
    dpmf_status status = dpmf_ledger_load(given->operand, &ledger);
    const double budget = status == DPMF_OK ? dpmf_ledger_get(ledger).budget_epsilon : 0.0;
    if (budget > 0.0) status = dpmf_ledger_epsilon(ledger, dpmf_ledger_get(ledger).budget_delta, &run, &found);
    progress_clear();
    int code = status == DPMF_OK ? 0 : fail_status(status, NULL);
    if (code == 0) {
        print_ledger(&t, given, ledger, &found);
        code = text_print(&t);
        if (code == 0 && budget > 0.0 && found.epsilon > budget * (1.0 + 1e-9)) code = EXIT_NEGATIVE;
    }
    text_free(&t);
    dpmf_ledger_free(ledger);
    return code;
}

int cmd_verify(const arguments *given) {
    if (!end_at_once(NULL)) return fail(EXIT_CANCELLED, "cancelled"); /* until text_print */
    if (ledger_is(given->operand)) return verify_ledger(given);
    const dpmf_run run = run_with((int)given->count[OPTION_THREADS]);
    dpmf_verification *verification = NULL;
    text_buffer t = {0};
    dpmf_status status = dpmf_verify(&(dpmf_verify_source){.path = given->operand}, &run, &verification);
    progress_clear();
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_FORMAT; /* the fault is in the file, not in the command */
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (option_given(given, OPTION_JSON))
        print_json(&t, verification);
    else {
        int64_t counts[3] = {0};
        text_add(&t, "%-8s%-26s  %-20s  %-20s  %s\n", "", "check", "claimed", "found", "how");
        for (int64_t i = 0; i < dpmf_verification_get(verification).count; i++) {
            const dpmf_check *check = dpmf_verification_check(verification, i);
            text_add(&t, "%-8s%-26s", check->ok > 0 ? "ok" : check->ok == 0 ? "FAILED" : "-", check->name);
            add_number(&t, check->claimed);
            add_number(&t, check->found);
            text_add(&t, "  %s\n", check->how);
            counts[check->ok + 1]++;
        }
        text_add(&t, "%s: %" PRId64 " agree, %" PRId64 " do not, %" PRId64 " were not checked\n",
                 dpmf_verification_get(verification).ok ? "verified" : "FAILED", counts[2], counts[1], counts[0]);
    }
    int code = text_print(&t);
    if (code == 0 && !dpmf_verification_get(verification).ok) code = EXIT_NEGATIVE;
    text_free(&t);
    dpmf_verification_free(verification);
    return code;
}

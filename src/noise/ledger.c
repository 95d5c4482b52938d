/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ledger on disk: every run on some data, entered before it begins.
 *
 * The file is one JSON object: format, adjacency, the budget, and the entries, each the numbers by which accounting knows
 * a run (sigma, sampling, steps, ...), the mechanism's digest, who entered it, and two names. `run` is HKDF of the key
 * with the mechanism's digest and what else tells runs apart: a run that is resumed has the same one and is not entered again.
 * `key` is HKDF of the key alone: sampled runs with one key would draw the same batches, so that their guarantees would
 * not add up, and a second one is refused. Neither tells anything of the key.
 *
 * Entering: the file is locked (flock, and the name must still be this file's: writers rename over it), read, the new entry
 * composed with the others, refused if that passes the budget, and only then written: a temporary file, synced, renamed, the
 * directory synced. A process that is killed leaves the old ledger or the new one, never a part; killed after it, an entry
 * without a release, which errs to the safe side.
 *
 * What may be said: where all runs are Gaussian their mu^2 add up and the budget is a mu that was fixed beforehand, which
 * may be spent by runs chosen in view of earlier ones (fully adaptive composition of Gaussian privacy, Smith and Thakurta
 * 2022); else the list must not depend on what was released.
 */
#include "noise/ledger.h"

#include "account/account.h"
#include "base/file.h"
#include "base/text.h"
#include "crypto/crypto.h"
#include "mechanism/mechanism.h"
#include "strategy/strategy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WHAT_MAX = 100 };

dpmf_ledger_options dpmf_ledger_options_defaults(void) {
    return (dpmf_ledger_options){.times = 1, .run = dpmf_run_defaults()};
}

/* ---- names ---- */

static dpmf_status name_of(const uint8_t *key, const char *label, const char *rest,
                           char out[2 * NOISE_LEDGER_NAME + 1]) {
    uint8_t bytes[32];
    TRY(crypto_key_derive(key, label, rest, bytes));
    for (int i = 0; i < NOISE_LEDGER_NAME; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    crypto_wipe(bytes, sizeof bytes);
    return DPMF_OK;
}

static dpmf_status name_run(const uint8_t *key, const char *digest, const char *binding, noise_ledger_entry *e) {
    char hash[65], both[2 * 65];
    const base_part part = {binding == NULL ? "" : binding, binding == NULL ? 0 : strlen(binding)};
    TRY(base_sha256(1, &part, hash));
    snprintf(both, sizeof both, "%s%s", digest, hash);
    TRY(name_of(key, "ledger run", both, e->run));
    return name_of(key, "ledger key", "", e->key);
}

/* ---- entering ---- */

static dpmf_status check_options(const char *path, const dpmf_ledger_options *o) {
    if (path == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "ledger: the path is NULL");
    const char *what = o->what == NULL ? "" : o->what;
    if (strlen(what) > WHAT_MAX || !base_utf8_valid((const uint8_t *)what, strlen(what)))
        return base_fail(DPMF_ERROR_ARGUMENT, "ledger: `what` is UTF-8 of at most %d bytes", WHAT_MAX);
    for (const char *c = what; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return base_fail(DPMF_ERROR_ARGUMENT, "ledger: `what` has a control character");
    if ((o->budget_epsilon != 0 || o->budget_delta != 0) &&
        !(o->budget_epsilon > 0 && isfinite(o->budget_epsilon) && o->budget_delta >= 1e-300 && o->budget_delta < 1))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a budget of epsilon %g, delta %g: accepted both above 0, delta below 1, or both 0",
                         o->budget_epsilon, o->budget_delta);
    if (o->times < 0 || o->times > 1000000000)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld times, accepted 1 to 1e9", (long long)o->times);
    return DPMF_OK;
}

/* A ledger keeps the budget that it began with. One that has none takes that of the call, and holds it if it is new. */
static dpmf_status settle_budget(const dpmf_ledger_options *o, dpmf_ledger *ledger, double *epsilon, double *delta) {
    const double held = dpmf_ledger_get(ledger).budget_epsilon, held_delta = dpmf_ledger_get(ledger).budget_delta;
    const int given = o->budget_epsilon > 0;
    if (held > 0 && given && (held != o->budget_epsilon || held_delta != o->budget_delta))
        return base_fail(
            DPMF_ERROR_ARGUMENT,
            "the ledger was made with the budget epsilon %g, delta %g, which cannot change to epsilon %g, delta %g",
            held, held_delta, o->budget_epsilon, o->budget_delta);
    if (held == 0 && given && dpmf_ledger_get(ledger).entries == 0)
        ledger_set_budget(ledger, o->budget_epsilon, o->budget_delta);
    *epsilon = held > 0 ? held : o->budget_epsilon;
    *delta = held > 0 ? held_delta : o->budget_delta;
    return DPMF_OK;
}

static const double ROUNDING = 1e-9; /* a run that was calibrated to the whole budget fits it */

static dpmf_status check_budget(const dpmf_ledger *ledger, const dpmf_ledger_options *o, dpmf_ledger_receipt *r) {
    if (r->budget_epsilon == 0) return DPMF_OK;
    TRY(dpmf_ledger_epsilon(ledger, r->budget_delta, &o->run, &r->privacy));
    if (r->privacy.epsilon <= r->budget_epsilon * (1 + ROUNDING)) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "the budget would be exceeded: with this run the ledger has epsilon = %.6g at delta = %g, "
                     "but its budget is %g; nothing was entered",
                     r->privacy.epsilon, r->budget_delta, r->budget_epsilon);
}

/* Is the run in it; or another one whose batches the same key would draw? */
static dpmf_status look_up(const cJSON *root, const noise_ledger_entry *added, int *there) {
    const cJSON *item = NULL;
    *there = 0;
    if (root == NULL) return DPMF_OK;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "entries")) {
        noise_ledger_entry e;
        TRY(noise_ledger_read_entry(item, &e));
        if (strcmp(e.run, added->run) == 0) {
            *there = 1;
            return DPMF_OK;
        }
        const int sampled = !dpmf_sampling_is_none(&e.how.sampling) && !dpmf_sampling_is_none(&added->how.sampling);
        if (sampled && e.key[0] != '\0' && strcmp(e.key, added->key) == 0)
            return base_fail(DPMF_ERROR_UNSUPPORTED,
                             "the ledger has another sampled run with this key: both would draw the same "
                             "batches, and then their guarantees do not add up; use another key");
    }
    return DPMF_OK;
}

static int is_empty(int file) {
    struct stat held;
    return fstat(file, &held) == 0 && held.st_size == 0;
}

static dpmf_status enter(const char *path, noise_ledger_entry *added, const dpmf_ledger_options *o,
                         dpmf_ledger_receipt *out) {
    dpmf_ledger_receipt r = {0};
    dpmf_ledger *ledger = NULL;
    cJSON *root = NULL;
    int file = -1, there = 0;
    dpmf_status status = DPMF_OK;
    added->times = o->times == 0 ? 1 : o->times;
    added->what = o->what == NULL ? "" : o->what;
    TRY(noise_ledger_lock(path, &file));
    TRY_DONE(noise_ledger_read(path, &root, &ledger));
    if (ledger == NULL) TRY_DONE(dpmf_ledger_create(added->how.adjacency, &ledger));
    TRY_DONE(settle_budget(o, ledger, &r.budget_epsilon, &r.budget_delta));
    TRY_DONE(look_up(root, added, &there));
    if (!there) TRY_DONE(dpmf_ledger_add_sampled(ledger, added->sigma, &added->how, added->times));
    TRY_DONE(check_budget(ledger, o, &r));
    if (!there) TRY_DONE(noise_ledger_write(path, ledger, root, added));
    r.entered = !there;
    r.entries = dpmf_ledger_get(ledger).entries + !there;
    if (out != NULL) *out = r;
done:
    if (status != DPMF_OK && is_empty(file)) unlink(path); /* made here, and nothing came of it */
    cJSON_Delete(root);
    dpmf_ledger_free(ledger);
    close(file);
    return status;
}

/* The numbers of the account, without C: what it has to be has been checked when they were taken. */
static dpmf_status fill_account(double sigma, const dpmf_account_options *how, noise_ledger_entry *e) {
    dpmf_ledger *alone = NULL;
    e->sigma = sigma;
    e->how = how == NULL ? dpmf_account_options_defaults() : *how;
    TRY(dpmf_ledger_create(e->how.adjacency, &alone));
    dpmf_status status = dpmf_ledger_add_sampled(alone, sigma, &e->how, 1);
    dpmf_ledger_free(alone);
    if (status != DPMF_OK) return status;
    if (e->how.strategy != NULL && !dpmf_sampling_is_none(&e->how.sampling) && e->how.compositions == 0)
        e->how.compositions = e->how.strategy->steps;
    e->how.strategy = NULL;
    return DPMF_OK;
}

dpmf_status dpmf_ledger_enter(const char *path, const dpmf_mechanism *mechanism, const uint8_t key[DPMF_KEY_SIZE],
                              const dpmf_ledger_options *options, dpmf_ledger_receipt *out) {
    const dpmf_ledger_options o = options == NULL ? dpmf_ledger_options_defaults() : *options;
    noise_ledger_entry added = {0};
    if (mechanism == NULL || key == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "ledger: the mechanism or the key is NULL");
    if (mechanism->sigma == 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "ledger: the mechanism is not calibrated, so it has no account");
    TRY(check_options(path, &o));
    TRY(dpmf_mechanism_confirm(mechanism, &o.run, NULL));
    const dpmf_account_options how = dpmf_mechanism_account(mechanism);
    TRY(fill_account(mechanism->sigma, &how, &added));
    added.digest = mechanism->digest;
    TRY(name_run(key, mechanism->digest, o.binding, &added));
    return enter(path, &added, &o, out);
}

dpmf_status dpmf_ledger_enter_account(const char *path, const char *name, double sigma,
                                      const dpmf_account_options *account, const dpmf_ledger_options *options,
                                      dpmf_ledger_receipt *out) {
    static const uint8_t nobody[32]; /* the name is no secret */
    const dpmf_ledger_options o = options == NULL ? dpmf_ledger_options_defaults() : *options;
    noise_ledger_entry added = {0};
    if (name == NULL || name[0] == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "ledger: the run has no name");
    TRY(check_options(path, &o));
    TRY(fill_account(sigma, account, &added));
    added.digest = "";
    TRY(name_run(nobody, name, o.binding, &added));
    added.key[0] = '\0';
    return enter(path, &added, &o, out);
}

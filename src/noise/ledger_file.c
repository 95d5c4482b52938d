/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a ledger: reading it whole, writing it whole, and the lock between the two (noise/ledger.c says what for). */
#include "account/account.h"
#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"
#include "noise/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char WHAT[] = "ledger", FORMAT[] = "dpmf-ledger";
enum { ENTRIES_MAX = 100000 };

/* ---- reading ---- */

static dpmf_status fail_format(const char *path, const char *why) {
    char shown[CRYPTO_SHOWN_PATH];
    return base_fail(DPMF_ERROR_FORMAT, "ledger '%s': %s", crypto_secret_show(path, shown), why);
}

static dpmf_status read_sampling(const cJSON *object, dpmf_sampling *out) {
    const char *text = NULL;
    TRY(base_json_get_text(object, "sampling", WHAT, &text));
    return dpmf_sampling_parse(text, out);
}

dpmf_status noise_ledger_read_entry(const cJSON *object, noise_ledger_entry *e) {
    const char *run = NULL, *key = NULL;
    *e = (noise_ledger_entry){.how = dpmf_account_options_defaults()};
    TRY(base_json_get_text(object, "run", WHAT, &run));
    TRY(base_json_get_text(object, "key", WHAT, &key));
    if (strlen(run) != 2 * NOISE_LEDGER_NAME || strlen(key) > 2 * NOISE_LEDGER_NAME)
        return base_fail(DPMF_ERROR_FORMAT, "ledger: the name of a run has %d digits", 2 * NOISE_LEDGER_NAME);
    snprintf(e->run, sizeof e->run, "%s", run);
    snprintf(e->key, sizeof e->key, "%s", key);
    TRY(base_json_get_text(object, "digest", WHAT, &e->digest));
    TRY(base_json_get_text(object, "what", WHAT, &e->what));
    TRY(base_json_get_double(object, "sigma", WHAT, &e->sigma));
    TRY(base_json_get_double(object, "sigma_unit", WHAT, &e->how.sigma_unit));
    TRY(read_sampling(object, &e->how.sampling));
    TRY(base_json_get_integer(object, "compositions", WHAT, 0, INT64_MAX, &e->how.compositions));
    TRY(base_json_get_integer(object, "epochs", WHAT, 0, INT64_MAX, &e->how.epochs));
    TRY(base_json_get_integer(object, "batch_cap", WHAT, 0, INT64_MAX, &e->how.batch_cap));
    TRY(base_json_get_integer(object, "units", WHAT, 0, INT64_MAX, &e->how.units));
    return base_json_get_integer(object, "times", WHAT, 1, 1000000000, &e->times);
}

static dpmf_status read_budget(const cJSON *root, dpmf_ledger *ledger) {
    const cJSON *budget = cJSON_GetObjectItemCaseSensitive(root, "budget");
    double epsilon = 0, delta = 0;
    if (cJSON_IsNull(budget)) return DPMF_OK;
    TRY(base_json_get_object(root, "budget", WHAT, &budget));
    TRY(base_json_get_double(budget, "epsilon", WHAT, &epsilon));
    TRY(base_json_get_double(budget, "delta", WHAT, &delta));
    if (!(epsilon > 0 && delta > 0 && delta < 1))
        return base_fail(DPMF_ERROR_FORMAT, "ledger: a budget of epsilon %g, delta %g", epsilon, delta);
    ledger_set_budget(ledger, epsilon, delta);
    return DPMF_OK;
}

/* The tree must outlive what is read from it. */
static dpmf_status read_root(const char *path, const cJSON *root, dpmf_ledger **out) {
    const char *format = NULL, *adjacency = NULL;
    int64_t version = 0;
    dpmf_adjacency kind = DPMF_ADJACENCY_ZERO_OUT;
    dpmf_ledger *ledger = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_json_get_text(root, "format", WHAT, &format));
    if (strcmp(format, FORMAT) != 0) return fail_format(path, "its format is not dpmf-ledger");
    TRY(base_json_get_integer(root, "version", WHAT, 1, 1, &version));
    TRY(base_json_get_text(root, "adjacency", WHAT, &adjacency));
    TRY(dpmf_adjacency_parse(adjacency, &kind));
    TRY(dpmf_ledger_create(kind, &ledger));
    TRY_DONE(read_budget(root, ledger));
    const cJSON *entries = cJSON_GetObjectItemCaseSensitive(root, "entries"), *item = NULL;
    if (!cJSON_IsArray(entries) || cJSON_GetArraySize(entries) > ENTRIES_MAX) {
        status = fail_format(path, "its entries are not a list");
        goto done;
    }
    cJSON_ArrayForEach(item, entries) {
        noise_ledger_entry e;
        TRY_DONE(noise_ledger_read_entry(item, &e));
        e.how.adjacency = kind;
        TRY_DONE(dpmf_ledger_add_sampled(ledger, e.sigma, &e.how, e.times));
        ledger_count(ledger);
    }
    *out = ledger;
    return DPMF_OK;
done:
    dpmf_ledger_free(ledger);
    return status;
}

/* An empty file is a ledger that nothing was entered in yet: *root NULL. */
dpmf_status noise_ledger_read(const char *path, cJSON **root, dpmf_ledger **ledger) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    dpmf_status status = DPMF_OK;
    *root = NULL;
    *ledger = NULL;
    TRY(base_file_read(path, WHAT, &bytes, &size));
    if (size > 0) {
        TRY_DONE(base_json_parse((const char *)bytes, size, 4, WHAT, root));
        status = read_root(path, *root, ledger);
        if (status == DPMF_ERROR_ARGUMENT || status == DPMF_ERROR_UNSUPPORTED) status = DPMF_ERROR_FORMAT;
    }
    if (status != DPMF_OK) {
        cJSON_Delete(*root);
        *root = NULL;
    }
done:
    base_free(bytes);
    return status;
}

dpmf_status dpmf_ledger_load(const char *path, dpmf_ledger **out) {
    cJSON *root = NULL;
    dpmf_ledger *ledger = NULL;
    if (path == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "ledger: the path is NULL");
    TRY(noise_ledger_read(path, &root, &ledger));
    cJSON_Delete(root);
    if (ledger == NULL) TRY(dpmf_ledger_create(DPMF_ADJACENCY_ZERO_OUT, &ledger));
    *out = ledger;
    return DPMF_OK;
}

/* ---- writing ---- */

static void write_entry(base_writer *w, const noise_ledger_entry *e) {
    char sampling[64] = "";
    dpmf_status status = dpmf_sampling_format(&e->how.sampling, sampling);
    if (status != DPMF_OK) w->status = status;
    base_json_open(w, NULL, '{');
    base_json_text(w, "run", e->run);
    base_json_text(w, "key", e->key);
    base_json_text(w, "digest", e->digest);
    base_json_text(w, "what", e->what);
    base_json_double(w, "sigma", e->sigma);
    base_json_double(w, "sigma_unit", e->how.sigma_unit);
    base_json_text(w, "sampling", sampling);
    base_json_integer(w, "compositions", e->how.compositions);
    base_json_integer(w, "epochs", e->how.epochs);
    base_json_integer(w, "batch_cap", e->how.batch_cap);
    base_json_integer(w, "units", e->how.units);
    base_json_integer(w, "times", e->times);
    base_json_close(w, '}');
}

static void write_all(base_writer *w, const dpmf_ledger *ledger, const cJSON *root, const noise_ledger_entry *added) {
    const cJSON *item = NULL;
    base_json_open(w, NULL, '{');
    base_json_text(w, "format", FORMAT);
    base_json_integer(w, "version", 1);
    base_json_text(w, "adjacency", dpmf_adjacency_name(dpmf_ledger_get(ledger).adjacency));
    if (dpmf_ledger_get(ledger).budget_epsilon > 0) {
        base_json_open(w, "budget", '{');
        base_json_double(w, "epsilon", dpmf_ledger_get(ledger).budget_epsilon);
        base_json_double(w, "delta", dpmf_ledger_get(ledger).budget_delta);
        base_json_close(w, '}');
    } else {
        base_json_null(w, "budget");
    }
    base_json_open(w, "entries", '[');
    if (root != NULL) {
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "entries")) {
            noise_ledger_entry e;
            const dpmf_status status = noise_ledger_read_entry(item, &e);
            if (status != DPMF_OK) w->status = status;
            if (status == DPMF_OK) write_entry(w, &e);
        }
    }
    write_entry(w, added);
    base_json_close(w, ']');
    base_json_close(w, '}');
    base_write_raw(w, "\n");
}

dpmf_status noise_ledger_write(const char *path, const dpmf_ledger *ledger, const cJSON *root,
                               const noise_ledger_entry *added) {
    base_writer w = {0};
    write_all(&w, ledger, root, added);
    dpmf_status status = w.status;
    const base_part part = {w.text, w.length};
    if (status == DPMF_OK) status = base_file_write(path, WHAT, 1, &part);
    base_writer_free(&w);
    return status;
}

/* ---- the lock ---- */

/* Opens (and makes) the file and locks it; a file that was renamed over while we waited is another's past. */
dpmf_status noise_ledger_lock(const char *path, int *out) {
    for (;;) {
        struct stat held, named;
        const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0) return crypto_secret_fail("open", WHAT, path, errno);
        while (flock(file, LOCK_EX) != 0)
            if (errno != EINTR) {
                const int error = errno;
                close(file);
                return crypto_secret_fail("lock", WHAT, path, error);
            }
        if (fstat(file, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino &&
            held.st_dev == named.st_dev) {
            *out = file;
            return DPMF_OK;
        }
        close(file);
    }
}

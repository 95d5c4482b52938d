/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ledger on disk lists every run on some data. A run is entered before it begins.
 *
 * The file is one JSON object: format, adjacency, the budget, and the entries, each with the numbers that accounting needs
 * of a run (sigma, sampling, steps, ...), the mechanism's digest, a text of the caller, and two names. `run` is HKDF of the
 * key with the mechanism's digest, the salt of the state file and all else that distinguishes runs: a resumed run has the same
 * one and is not entered again. `key` is HKDF of the key alone: a key serves one run of a mechanism, and a second one is refused;
 * sampled runs with one key would draw the same batches, so that their guarantees would not add up, and a second one is refused
 * for any mechanism. Neither name reveals anything of the key.
 *
 * Entering: the file is locked (flock, and the name must still be this file's: writers rename over it), read, the new entry
 * composed with the others, refused if that passes the budget, and only then written as an atomic file
 * (base/atomic_file.h). A process that is killed leaves the old ledger or the new one, never a part; killed after that, it
 * leaves an entry without a release, which errs to the safe side.
 *
 * What the sum means: where all runs are Gaussian their mu^2 add up and the budget is a mu that was fixed beforehand, which
 * may be spent by runs chosen in view of earlier ones (fully adaptive composition of Gaussian privacy, Smith and Thakurta
 * 2022); else the list must not depend on what was released.
 */
#include "account/account.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "crypto/crypto.h"
#include "mechanism/mechanism.h"
#include "strategy/strategy.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char WHAT[] = "ledger", FORMAT[] = "dpmf-ledger";
enum { WHAT_MAX = 100, ENTRIES_MAX = 100000, NAME = 16 }; /* NAME: bytes of a name, two digits each */

typedef struct entry {
    char run[2 * NAME + 1], key[2 * NAME + 1]; /* key: "" where there is none */
    const char *digest, *what;                 /* of one that was read, as long as the tree lives */
    double sigma;
    dpmf_account_options how; /* without a strategy */
    int64_t times;
} entry;

dpmf_ledger_options dpmf_ledger_options_defaults(void) {
    return (dpmf_ledger_options){.times = 1, .run = dpmf_run_defaults()};
}

/* ---- reading the file ---- */

static dpmf_status fail_format(const char *path, const char *why) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_FORMAT, "ledger '%s': %s", base_show_path(path, shown), why);
}

static dpmf_status read_entry(const cJSON *object, entry *e) {
    const char *run = NULL, *key = NULL, *sampling = NULL;
    *e = (entry){.how = dpmf_account_options_defaults()};
    TRY(base_json_get_text(object, "run", WHAT, &run));
    TRY(base_json_get_text(object, "key", WHAT, &key));
    if (strlen(run) != 2 * NAME || strlen(key) > 2 * NAME)
        return base_fail(DPMF_ERROR_FORMAT, "ledger: the name of a run has %d digits", 2 * NAME);
    snprintf(e->run, sizeof e->run, "%s", run);
    snprintf(e->key, sizeof e->key, "%s", key);
    TRY(base_json_get_text(object, "digest", WHAT, &e->digest));
    TRY(base_json_get_text(object, "what", WHAT, &e->what));
    TRY(base_json_get_double(object, "sigma", WHAT, &e->sigma));
    TRY(base_json_get_double(object, "sigma_unit", WHAT, &e->how.sigma_unit));
    TRY(base_json_get_text(object, "sampling", WHAT, &sampling));
    TRY(dpmf_sampling_parse(sampling, &e->how.sampling));
    TRY(base_json_get_integer(object, "compositions", WHAT, 0, INT64_MAX, &e->how.compositions));
    TRY(base_json_get_integer(object, "epochs", WHAT, 0, INT64_MAX, &e->how.epochs));
    TRY(base_json_get_integer(object, "batch_cap", WHAT, 0, INT64_MAX, &e->how.batch_cap));
    TRY(base_json_get_integer(object, "units", WHAT, 0, INT64_MAX, &e->how.units));
    if (cJSON_GetObjectItemCaseSensitive(object, "group") != NULL)
        TRY(base_json_get_integer(object, "group", WHAT, 1, 1000000000, &e->how.group));
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
        entry e;
        TRY_DONE(read_entry(item, &e));
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

/* Reads the whole file; free both. An empty file is a ledger without entries: both are NULL. */
static dpmf_status read_ledger(const char *path, cJSON **root, dpmf_ledger **ledger) {
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
    TRY(read_ledger(path, &root, &ledger));
    cJSON_Delete(root);
    if (ledger == NULL) TRY(dpmf_ledger_create(DPMF_ADJACENCY_ZERO_OUT, &ledger));
    *out = ledger;
    return DPMF_OK;
}

/* ---- writing it ---- */

static void write_entry(base_writer *w, const entry *e) {
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
    if (e->how.group > 1) base_json_integer(w, "group", e->how.group);
    base_json_integer(w, "times", e->times);
    base_json_close(w, '}');
}

static void write_all(base_writer *w, const dpmf_ledger *ledger, const cJSON *root, const entry *added) {
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
            entry e;
            const dpmf_status status = read_entry(item, &e);
            if (status != DPMF_OK) w->status = status;
            if (status == DPMF_OK) write_entry(w, &e);
        }
    }
    write_entry(w, added);
    base_json_close(w, ']');
    base_json_close(w, '}');
    base_write_raw(w, "\n");
}

/* Opens (and makes) the file and locks it until it is closed; tries again if it was replaced while we waited. */
static dpmf_status lock_ledger(const char *path, int *out) {
    for (;;) {
        struct stat held, named;
        const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0) return base_file_fail("open", WHAT, path, errno);
        while (flock(file, LOCK_EX) != 0)
            if (errno != EINTR) {
                const int error = errno;
                close(file);
                return base_file_fail("lock", WHAT, path, error);
            }
        if (fstat(file, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino &&
            held.st_dev == named.st_dev) {
            *out = file;
            return DPMF_OK;
        }
        close(file);
    }
}

static dpmf_status name_of(const uint8_t *key, const char *label, const char *rest, char out[2 * NAME + 1]) {
    uint8_t bytes[32];
    TRY(crypto_key_expand(key, label, rest, bytes));
    for (int i = 0; i < NAME; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    crypto_wipe(bytes, sizeof bytes);
    return DPMF_OK;
}

static dpmf_status name_run(const uint8_t *key, const char *digest, const dpmf_ledger_options *o, entry *e) {
    static const uint8_t none[DPMF_SALT_SIZE];
    char hash[65], name[65], both[2 * 65];
    const base_part whole = {digest, strlen(digest)};
    const int salted = o->salt != NULL && memcmp(o->salt, none, sizeof none) != 0;
    const base_part parts[2] = {{o->binding == NULL ? "" : o->binding, o->binding == NULL ? 0 : strlen(o->binding)},
                                {o->salt, DPMF_SALT_SIZE}};
    TRY(base_sha256(1 + salted, parts, hash));
    snprintf(name, sizeof name, "%s", digest);
    if (whole.size >= sizeof name) TRY(base_sha256(1, &whole, name)); /* a caller's name may be of any length */
    snprintf(both, sizeof both, "%s%s", name, hash);
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

/* A ledger keeps the budget that it began with. One that has none uses that of the call, and keeps it if it is new. */
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

/* A run that is resumed has the same numbers: with others it would be a new run that costs nothing. */
static dpmf_status check_same(const entry *held, const entry *added) {
    const dpmf_account_options *a = &held->how, *b = &added->how;
    char before[64] = "", now[64] = "";
    TRY(dpmf_sampling_format(&a->sampling, before));
    TRY(dpmf_sampling_format(&b->sampling, now));
    if (held->sigma == added->sigma && a->sigma_unit == b->sigma_unit && strcmp(before, now) == 0 &&
        a->compositions + !a->compositions == b->compositions + !b->compositions && a->epochs == b->epochs &&
        a->batch_cap == b->batch_cap && a->units == b->units && held->times == added->times &&
        (a->group > 1 ? a->group : 1) == (b->group > 1 ? b->group : 1))
        return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "the ledger has a run of this name with sigma %.9g, sampling %s, %lld steps, %lld times, and this "
                     "one has sigma %.9g, sampling %s, %lld steps, %lld times: a run that is resumed has the same; a "
                     "new one needs another name (or key)",
                     held->sigma, before, (long long)a->compositions, (long long)held->times, added->sigma, now,
                     (long long)b->compositions, (long long)added->times);
}

/* *there: the run is in it. Refuses another one of the same key and mechanism, or whose batches the same key would draw. */
static dpmf_status look_up(const cJSON *root, dpmf_adjacency adjacency, const entry *added, int *there) {
    const cJSON *item = NULL;
    *there = 0;
    if (root == NULL) return DPMF_OK;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "entries")) {
        entry e;
        TRY(read_entry(item, &e));
        if (strcmp(e.run, added->run) == 0) {
            if (adjacency != added->how.adjacency)
                return base_fail(DPMF_ERROR_ARGUMENT, "the ledger has this run with %s adjacency, and this one has %s",
                                 dpmf_adjacency_name(adjacency), dpmf_adjacency_name(added->how.adjacency));
            *there = 1;
            return check_same(&e, added);
        }
        const int sampled = !dpmf_sampling_is_none(&e.how.sampling) && !dpmf_sampling_is_none(&added->how.sampling);
        const int same_key = e.key[0] != '\0' && strcmp(e.key, added->key) == 0;
        if (same_key && strcmp(e.digest, added->digest) == 0)
            return base_fail(
                DPMF_ERROR_UNSUPPORTED,
                "the ledger has another run with this key and this mechanism (another state file, or other "
                "settings): use a new key for a new run; a run whose state file is lost cannot be resumed");
        if (sampled && same_key)
            return base_fail(DPMF_ERROR_UNSUPPORTED,
                             "the ledger has another sampled run with this key: both would draw the same "
                             "batches, and then their guarantees do not add up; use another key");
    }
    return DPMF_OK;
}

static dpmf_status enter(const char *path, entry *added, const dpmf_ledger_options *o, dpmf_ledger_receipt *out) {
    dpmf_ledger_receipt r = {0};
    dpmf_ledger *ledger = NULL;
    cJSON *root = NULL;
    base_writer w = {0};
    struct stat held;
    int file = -1, there = 0;
    dpmf_status status = DPMF_OK;
    added->times = o->times == 0 ? 1 : o->times;
    added->what = o->what == NULL ? "" : o->what;
    TRY(lock_ledger(path, &file));
    TRY_DONE(read_ledger(path, &root, &ledger));
    if (ledger == NULL) TRY_DONE(dpmf_ledger_create(added->how.adjacency, &ledger));
    TRY_DONE(settle_budget(o, ledger, &r.budget_epsilon, &r.budget_delta));
    TRY_DONE(look_up(root, dpmf_ledger_get(ledger).adjacency, added, &there));
    if (!there && dpmf_ledger_get(ledger).entries >= ENTRIES_MAX) { /* one more could not be read again */
        status = base_fail(DPMF_ERROR_ARGUMENT, "a ledger has at most %d entries; this one is full", ENTRIES_MAX);
        goto done;
    }
    if (!there) TRY_DONE(dpmf_ledger_add_sampled(ledger, added->sigma, &added->how, added->times));
    TRY_DONE(check_budget(ledger, o, &r));
    if (!there) { /* the new file, complete and synced, takes the place of the old one */
        write_all(&w, ledger, root, added);
        TRY_DONE(w.status);
        TRY_DONE(base_file_write(path, WHAT, 1, &(base_part){w.text, w.length}));
    }
    r.entered = !there;
    r.entries = dpmf_ledger_get(ledger).entries + !there;
    if (out != NULL) *out = r;
done:
    if (status != DPMF_OK && fstat(file, &held) == 0 && held.st_size == 0) unlink(path); /* it was made here */
    base_writer_free(&w);
    cJSON_Delete(root);
    dpmf_ledger_free(ledger);
    close(file);
    return status;
}

/* The numbers of the account, without C: the conditions on C were checked when they were taken. */
static dpmf_status fill_account(double sigma, const dpmf_account_options *how, entry *e) {
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
    entry added = {0};
    if (mechanism == NULL || key == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "ledger: the mechanism or the key is NULL");
    if (mechanism->sigma == 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "ledger: the mechanism is not calibrated, so it has no account");
    TRY(check_options(path, &o));
    TRY(dpmf_mechanism_confirm(mechanism, &o.run, NULL));
    const dpmf_account_options how = dpmf_mechanism_account_options(mechanism);
    TRY(fill_account(mechanism->sigma, &how, &added));
    added.digest = mechanism->digest;
    TRY(crypto_key_check(key));
    TRY(name_run(key, mechanism->digest, &o, &added));
    return enter(path, &added, &o, out);
}

dpmf_status dpmf_ledger_enter_account(const char *path, const char *name, double sigma,
                                      const dpmf_account_options *account, const dpmf_ledger_options *options,
                                      dpmf_ledger_receipt *out) {
    static const uint8_t no_key[32]; /* the name is no secret */
    const dpmf_ledger_options o = options == NULL ? dpmf_ledger_options_defaults() : *options;
    entry added = {0};
    if (name == NULL || name[0] == '\0') return base_fail(DPMF_ERROR_ARGUMENT, "ledger: the run has no name");
    TRY(check_options(path, &o));
    TRY(fill_account(sigma, account, &added));
    added.digest = "";
    TRY(name_run(no_key, name, &o, &added));
    added.key[0] = '\0';
    return enter(path, &added, &o, out);
}

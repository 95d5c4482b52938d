/* SPDX-License-Identifier: Apache-2.0 */
/* A ledger on disk: how a run is known in the file, and the file itself. */
#ifndef DPMF_NOISE_LEDGER_H
#define DPMF_NOISE_LEDGER_H

#include "base/json.h"

enum { NOISE_LEDGER_NAME = 16 }; /* bytes of a name; two digits each */

typedef struct noise_ledger_entry {
    char run[2 * NOISE_LEDGER_NAME + 1], key[2 * NOISE_LEDGER_NAME + 1]; /* key: "" where there is none */
    const char *digest, *what;
    double sigma;
    dpmf_account_options how; /* without a strategy */
    int64_t times;
} noise_ledger_entry;

/* An entry of the file; its texts live as long as the tree. */
DPMF_MUST_CHECK dpmf_status noise_ledger_read_entry(const cJSON *object, noise_ledger_entry *out);

/* The whole file; free both. An empty file is a ledger that nothing was entered in yet: both NULL. */
DPMF_MUST_CHECK dpmf_status noise_ledger_read(const char *path, cJSON **root, dpmf_ledger **ledger);

/* The entries of `root` (NULL: none) and one more, whole and synced, in the place of the file. */
DPMF_MUST_CHECK dpmf_status noise_ledger_write(const char *path, const dpmf_ledger *ledger, const cJSON *root,
                                               const noise_ledger_entry *added);

/* Opens (and makes) the file, and locks it until it is closed. */
DPMF_MUST_CHECK dpmf_status noise_ledger_lock(const char *path, int *file);

#endif

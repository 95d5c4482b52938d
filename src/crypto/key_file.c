/* SPDX-License-Identifier: Apache-2.0 */
/* The master key, as users have it: new, from a file, or, for tests, from a number. */
#include "crypto/crypto.h"

#include "base/file.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char WHAT[] = "key file";

_Static_assert(DPMF_KEY_SIZE == 32, "AES-256 and HKDF-SHA256 take 32 bytes");

dpmf_status dpmf_key_create(uint8_t key[DPMF_KEY_SIZE]) {
    if (key == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "key: memory for it is NULL");
    return crypto_key_random(key);
}

dpmf_status dpmf_key_testing(uint64_t seed, uint8_t key[DPMF_KEY_SIZE]) {
    uint8_t master[DPMF_KEY_SIZE] = {0};
    if (key == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "key: memory for it is NULL");
    for (int i = 0; i < 8; i++)
        master[i] = (uint8_t)(seed >> (8 * i));
    return crypto_key_expand(master, "dpmf testing key 1, not private", "", key);
}

void dpmf_key_wipe(uint8_t key[DPMF_KEY_SIZE]) {
    if (key != NULL) crypto_wipe(key, DPMF_KEY_SIZE);
}

/* *found: there is a file. */
static dpmf_status read_key(const char *path, uint8_t key[DPMF_KEY_SIZE], int *found) {
    char shown[BASE_SHOWN_PATH];
    uint8_t bytes[DPMF_KEY_SIZE];
    int file = -1;
    int64_t size = 0;
    TRY(crypto_secret_open(path, WHAT, 0, &file, &size));
    *found = file >= 0;
    if (file < 0) return DPMF_OK;
    dpmf_status status = DPMF_OK;
    if (size != DPMF_KEY_SIZE)
        status = base_fail(DPMF_ERROR_FORMAT, "the key file '%s' has %" PRId64 " bytes, accepted: %d",
                           base_show_path(path, shown), size, DPMF_KEY_SIZE);
    else
        status = crypto_secret_read(file, path, WHAT, 0, bytes, sizeof bytes);
    if (status == DPMF_OK && crypto_key_check(bytes) != DPMF_OK)
        status = base_fail(DPMF_ERROR_FORMAT, "the key file '%s': %s", base_show_path(path, shown), dpmf_last_error());
    if (status == DPMF_OK) memcpy(key, bytes, sizeof bytes);
    crypto_wipe(bytes, sizeof bytes);
    close(file);
    return status;
}

dpmf_status dpmf_key_load(const char *path, int create, uint8_t key[DPMF_KEY_SIZE]) {
    uint8_t fresh[DPMF_KEY_SIZE];
    char shown[BASE_SHOWN_PATH];
    int found = 0, existed = 0;
    if (path == NULL || *path == '\0' || key == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "key: the path is NULL or empty, or memory for the key is NULL");
    TRY(read_key(path, key, &found));
    if (found) return DPMF_OK;
    if (!create)
        return base_fail(DPMF_ERROR_IO, "cannot read the key file '%s': it does not exist",
                         base_show_path(path, shown));
    TRY(crypto_key_random(fresh));
    dpmf_status status = crypto_secret_create(path, WHAT, fresh, sizeof fresh, 0, &existed, NULL);
    if (status == DPMF_OK)
        memcpy(key, fresh, sizeof fresh);
    else if (existed) { /* another program has made one meanwhile: there must be one key */
        status = read_key(path, key, &found);
        if (status == DPMF_OK && !found)
            status = base_fail(DPMF_ERROR_IO, "the key file '%s' appears and disappears while it is opened",
                               base_show_path(path, shown));
    }
    crypto_wipe(fresh, sizeof fresh);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys. One master key gives an independent subkey for every use and mechanism by HKDF with SHA-256 (Krawczyk and
 * Eronen 2010, RFC 5869), on libcrypto's HMAC.
 *
 *     PRK = HMAC(salt, master),   subkey = HMAC(PRK, info || 0x01)
 *
 * A subkey needs one block of output, so the expansion has a single step. The salt is fixed and names the project; info
 * is label, a zero byte, digest: the zero keeps ("ab", "c") and ("a", "bc") apart.
 */
#include "crypto/crypto.h"

#include "base/memory.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

static const char salt[] = "dpmf subkeys 1"; /* without its final zero */

dpmf_status crypto_hkdf(const uint8_t *salt_bytes, size_t salt_size, const uint8_t *secret, size_t secret_size,
                        const uint8_t *info, size_t info_size, uint8_t *out, size_t size) {
    uint8_t prk[32], block[32], *message = NULL;
    const size_t room = sizeof block + info_size + 1;
    unsigned length = 0;
    size_t done = 0;
    dpmf_status status = DPMF_OK;
    if (size > 255 * sizeof block || salt_size > INT32_MAX || info_size > INT32_MAX || secret_size > INT32_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "HKDF: %zu bytes were requested; at most 8160 are possible", size);
    TRY_DONE(base_alloc((int64_t)room, 1, "the message of HKDF", (void **)&message));
    if (HMAC(EVP_sha256(), salt_bytes, (int)salt_size, secret, secret_size, prk, &length) == NULL) goto crypto;
    for (uint8_t i = 1; done < size; i++) {
        const size_t before = i == 1 ? 0 : sizeof block, some = size - done < sizeof block ? size - done : sizeof block;
        memcpy(message, block, before);
        if (info_size > 0) memcpy(message + before, info, info_size);
        message[before + info_size] = i;
        if (HMAC(EVP_sha256(), prk, sizeof prk, message, before + info_size + 1, block, &length) == NULL) goto crypto;
        memcpy(out + done, block, some);
        done += some;
    }
    goto done;
crypto:
    status = base_fail(DPMF_ERROR_MEMORY, "libcrypto could not compute HMAC-SHA256"); /* no other reason */
done:
    crypto_wipe(prk, sizeof prk);
    crypto_wipe(block, sizeof block);
    if (message != NULL) crypto_wipe(message, room);
    base_free(message);
    return status;
}

dpmf_status crypto_key_check(const uint8_t key[32]) {
    unsigned differ = 0;
    for (int i = 1; i < 32; i++) /* without branches on the key */
        differ |= key[i] ^ key[0];
    if (differ != 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "the key is one byte, 32 times: that is no secret; accepted are random bytes "
                                          "(a key file that does not exist is made with them)");
}

dpmf_status crypto_key_derive(const uint8_t master[32], const char *label, const char *digest, uint8_t subkey[32]) {
    TRY(crypto_key_check(master));
    return crypto_key_expand(master, label, digest, subkey);
}

dpmf_status crypto_key_expand(const uint8_t master[32], const char *label, const char *digest, uint8_t subkey[32]) {
    const size_t label_size = strlen(label) + 1, digest_size = strlen(digest);
    uint8_t made[32];
    char *info = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc((int64_t)(label_size + digest_size), 1, "the label of a key", (void **)&info));
    memcpy(info, label, label_size);
    memcpy(info + label_size, digest, digest_size);
    TRY_DONE(crypto_hkdf((const uint8_t *)salt, sizeof salt - 1, master, 32, (const uint8_t *)info,
                         label_size + digest_size, made, sizeof made));
    memcpy(subkey, made, sizeof made);
done:
    crypto_wipe(made, sizeof made);
    base_free(info);
    return status;
}

dpmf_status crypto_key_random(uint8_t key[32]) {
    uint8_t made[32];
    size_t have = 0;
    dpmf_status status = DPMF_OK;
    while (have < sizeof made && status == DPMF_OK) {
        const ssize_t more = getrandom(made + have, sizeof made - have, 0);
        if (more >= 0)
            have += (size_t)more;
        else if (errno != EINTR)
            status = base_fail(DPMF_ERROR_IO, "the system gave no random bytes: getrandom returned error %d", errno);
    }
    if (status == DPMF_OK) memcpy(key, made, sizeof made);
    crypto_wipe(made, sizeof made);
    return status;
}

void crypto_wipe(void *memory, size_t bytes) {
    if (bytes > 0) explicit_bzero(memory, bytes);
}

void crypto_wipe_free(void *memory, int64_t bytes) {
    if (memory != NULL) crypto_wipe(memory, (size_t)bytes);
    base_free(memory);
}

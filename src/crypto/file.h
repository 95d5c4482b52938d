/* SPDX-License-Identifier: Apache-2.0 */
/* Files that only their owner may read: keys, states, checkpoints. */
#ifndef DPMF_NOISE_FILE_H
#define DPMF_NOISE_FILE_H

#include "base/status.h"

/* DPMF_ERROR_IO: "cannot read the key file 'x': No such file or directory"; `error` is an errno. */
dpmf_status dpmf_i_crypto_secret_fail(const char *verb, const char *what, const char *path, int error);

/* The path as a message can show it. Returns `out`. */
enum { DPMF_I_CRYPTO_SHOWN_PATH = 320 };
const char *dpmf_i_crypto_secret_show(const char *path, char out[DPMF_I_CRYPTO_SHOWN_PATH]);

/*
 * Opens a regular file whose mode lets nobody but the owner in; `write`: for reading and writing. A file that is not
 * there is no failure: *file is -1.
 */
DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_secret_open(const char *path, const char *what, int write, int *file,
                                                      int64_t *size);

/* `size` bytes at `place`, all of them. `what` and `path` are for the message. */
DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_secret_read(int file, const char *path, const char *what, int64_t place,
                                                      void *bytes, size_t size);
DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_secret_write(int file, const char *path, const char *what, int64_t place,
                                                       const void *bytes, size_t size); /* and synced */

/*
 * A new file, mode 0600: whole and synced before it has its name. `replace` 0: an existing file is a failure, and stays
 * (*existed, if not NULL, says so). `file` NULL, or the file, open for reading and writing and locked with flock.
 */
DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_secret_create(const char *path, const char *what, const void *bytes,
                                                        size_t size, int replace, int *existed, int *file);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* --ledger: a run is entered before it releases anything. */
#ifndef DPMF_CLI_LEDGER_H
#define DPMF_CLI_LEDGER_H

#include "dpmf.h"
#include "options/options.h"

/* The key of --testing-seed or --key-file (made if it is missing), or a fresh one. */
dpmf_status key_from_options(const arguments *given, uint8_t key[DPMF_KEY_SIZE]);

/* Is --budget readable, and given with --ledger? 0, or the exit code after a message. */
int ledger_check(const arguments *given);

/*
 * Enters a run of the mechanism where --ledger is given; `what` is the verb, `salt` that of its state file, and `binding` what
 * else tells runs of one key and mechanism apart. 0, or the exit code after a message: then nothing may be released. The state
 * file is made before (state_now): a run that was entered and killed before its first row is still the same run.
 */
int ledger_enter(const arguments *given, const dpmf_mechanism *mechanism, const uint8_t key[DPMF_KEY_SIZE],
                 const uint8_t salt[DPMF_SALT_SIZE], const char *binding);

/* Does this file hold a ledger, and not a mechanism? */
bool ledger_is(const char *path);

/* account --compose: what several mechanism files, run on the same data, come to together. */

/* The exit code. */
int account_compose(const arguments *given);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* account --compose: what several mechanism files, run on the same data, come to together. */
#ifndef DPMF_CLI_COMPOSE_H
#define DPMF_CLI_COMPOSE_H

#include "options/options.h"

/* The exit code. */
int account_compose(const arguments *given);

#endif

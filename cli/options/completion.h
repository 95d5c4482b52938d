/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for shells, from the tables of options/options.c. */
#ifndef DPMF_CLI_COMPLETION_H
#define DPMF_CLI_COMPLETION_H

#include "output.h"

void add_bash_completion(text_buffer *t);
void add_zsh_completion(text_buffer *t);

#endif

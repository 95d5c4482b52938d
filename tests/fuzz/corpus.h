/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of make_corpus: each fills folders of DIRECTORY that are there. */
#ifndef DPMF_TESTS_FUZZ_CORPUS_H
#define DPMF_TESTS_FUZZ_CORPUS_H

void corpus_make_secret(const char *directory); /* state, checkpoint, ledger */
void corpus_make_text(const char *directory);   /* logs, command */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Greek letters in sentences for people. The library writes "epsilon", "delta", "sigma" and "x" for a product; readers of
 * a UTF-8 terminal or of a page get the letters. JSON and files keep the words.
 */
#ifndef DPMF_CLI_LETTERS_LETTERS_H
#define DPMF_CLI_LETTERS_LETTERS_H

#include "output.h"

typedef enum alphabet { ALPHABET_ASCII, ALPHABET_GREEK } alphabet;

/* GREEK where the locale of the environment (LC_ALL, LC_CTYPE, LANG) is UTF-8. The program's own locale stays "C". */
alphabet terminal_alphabet(void);

/* text_add, and with GREEK the words above as letters: whole words alone, neither options (--delta) nor parts of names. */
void add_words(text_buffer *t, alphabet how, const char *format, ...) PRINTF_LIKE(3, 4);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "letters/letters.h"

#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

alphabet terminal_alphabet(void) {
    static int known = -1; /* the locale of a process does not change */
    if (known < 0) {
        const bool set = setlocale(LC_CTYPE, "") != NULL;
        known = set && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        setlocale(LC_CTYPE, "C"); /* no parser may depend on the user's letters; LC_NUMERIC was never touched */
    }
    return known ? ALPHABET_GREEK : ALPHABET_ASCII;
}

/* Does `c` belong to a name, a path or an option, so that the word beside it is no word of its own? */
static bool joins(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-_/\\@~=", c) != NULL) || ((unsigned char)c & 0x80) != 0;
}

/* The letter for the word at `at`, or NULL; `before` is the character in front of it. `length`: of the word. */
static const char *letter_of(const char *at, char before, size_t *length) {
    static const struct {
        const char *word, *letter;
    } table[] = {{"epsilon", "ε"}, {"delta", "δ"}, {"sigma", "σ"}, {"x", "×"}};
    if (joins(before)) return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        *length = strlen(table[i].word);
        if (strncmp(at, table[i].word, *length) != 0) continue;
        const char *after = at + *length;
        if (joins(after[0]) || (after[0] == '.' && joins(after[1]))) return NULL; /* delta.npy */
        if (*length == 1 && (before != ' ' || after[0] != ' ')) return NULL;      /* a product has spaces around it */
        return table[i].letter;
    }
    return NULL;
}

static void add_greek(text_buffer *t, const char *text) {
    char before = ' ';
    while (*text != '\0') {
        size_t length = 1;
        const char *letter = letter_of(text, before, &length);
        if (letter == NULL) length = 1;
        text_add_bytes(t, letter != NULL ? letter : text, letter != NULL ? strlen(letter) : 1);
        before = text[length - 1];
        text += length;
    }
}

void add_words(text_buffer *t, alphabet how, const char *format, ...) {
    text_buffer ascii = {0};
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    const int length = vsnprintf(NULL, 0, format, values);
    char *room = length < 0 ? NULL : text_room(&ascii, (size_t)length + 1);
    if (room != NULL) {
        vsnprintf(room, (size_t)length + 1, format, again);
        text_used(&ascii, (size_t)length);
        if (how == ALPHABET_GREEK)
            add_greek(t, ascii.bytes);
        else
            text_add_bytes(t, ascii.bytes, ascii.length);
    } else {
        t->failed = true;
    }
    va_end(again);
    va_end(values);
    text_free(&ascii);
}

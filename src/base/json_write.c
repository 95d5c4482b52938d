/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical JSON writer: no spaces, keys in the order given, one form for every text and number. So equal contents
 * have equal digests.
 */
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int reserve_text(base_writer *w, size_t more) {
    if (w->status != DPMF_OK) return 0;
    if (w->length + more + 1 <= w->capacity) return 1;
    size_t capacity = 2 * w->capacity > 256 ? 2 * w->capacity : 256;
    if (capacity < w->length + more + 1) capacity = w->length + more + 1;
    void *text = NULL;
    w->status = base_alloc((int64_t)capacity, 1, "a JSON text", &text);
    if (w->status != DPMF_OK) return 0;
    if (w->length > 0) memcpy(text, w->text, w->length);
    base_free(w->text);
    w->text = text;
    w->capacity = capacity;
    return 1;
}

static void append(base_writer *w, const char *text, size_t length) {
    if (!reserve_text(w, length)) return;
    memcpy(w->text + w->length, text, length);
    w->length += length;
    w->text[w->length] = '\0';
}

/* Writes the text in quotes and escapes only what must be escaped, so that one text has one form. */
static void append_quoted(base_writer *w, const char *text) {
    static const char short_form[32] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    if (w->status == DPMF_OK && !base_utf8_valid((const uint8_t *)text, strlen(text))) {
        char shown[64];
        w->status =
            base_fail(DPMF_ERROR_ARGUMENT, "the text \"%s\" is not valid UTF-8", base_show(text, strlen(text), shown));
    }
    append(w, "\"", 1);
    for (const char *from = text, *p = text;; p++) {
        unsigned char c = (unsigned char)*p;
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        append(w, from, (size_t)(p - from));
        from = p + 1;
        if (c == '\0') break;
        if (c >= 0x20 || short_form[c] != 0) {
            append(w, (const char[]){'\\', c >= 0x20 ? (char)c : short_form[c]}, 2);
        } else {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", c);
            append(w, escape, 6);
        }
    }
    append(w, "\"", 1);
}

/* Writes the separator and the key before a value. */
static void begin(base_writer *w, const char *key) {
    if (w->need_comma) append(w, ",", 1);
    w->need_comma = 1;
    if (key == NULL) return;
    append_quoted(w, key);
    append(w, ":", 1);
}

void base_writer_free(base_writer *w) {
    base_free(w->text);
    memset(w, 0, sizeof *w);
}

void base_write_raw(base_writer *w, const char *text) {
    append(w, text, strlen(text));
}

void base_json_open(base_writer *w, const char *key, char bracket) {
    assert(bracket == '{' || bracket == '[');
    begin(w, key);
    append(w, &bracket, 1);
    w->need_comma = 0;
}

void base_json_close(base_writer *w, char bracket) {
    assert(bracket == '}' || bracket == ']');
    append(w, &bracket, 1);
    w->need_comma = 1;
}

void base_json_text(base_writer *w, const char *key, const char *value) {
    begin(w, key);
    append_quoted(w, value);
}

void base_json_integer(base_writer *w, const char *key, int64_t value) {
    char number[32];
    snprintf(number, sizeof number, "%" PRId64, value);
    begin(w, key);
    base_write_raw(w, number);
}

void base_json_double(base_writer *w, const char *key, double value) {
    char number[32] = "null";
    if (isinf(value)) {
        strcpy(number, value > 0 ? "\"inf\"" : "\"-inf\"");
    } else if (!isnan(value)) {
        base_format_double(value, number);
    }
    begin(w, key);
    base_write_raw(w, number);
}

void base_json_bool(base_writer *w, const char *key, int value) {
    begin(w, key);
    base_write_raw(w, value ? "true" : "false");
}

void base_json_null(base_writer *w, const char *key) {
    begin(w, key);
    base_write_raw(w, "null");
}

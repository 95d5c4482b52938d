/* SPDX-License-Identifier: Apache-2.0 */
/* Text and numbers as HTML. */
#include "report/html.h"

#include "letters/letters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- text ---- */

/* The length of the UTF-8 character at `c` if it is well formed and printable, else 0. */
static size_t character(const unsigned char *c) {
    if (c[0] < 0x80) return c[0] >= 0x20 && c[0] != 0x7f ? 1 : 0;
    size_t length = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4) return 0;
    for (size_t i = 1; i < length; ++i)
        if ((c[i] & 0xc0) != 0x80) return 0; /* the ending zero too */
    bool too_long = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool surrogate = c[0] == 0xed && c[1] >= 0xa0, beyond = c[0] == 0xf4 && c[1] >= 0x90;
    bool control = c[0] == 0xc2 && c[1] < 0xa0;
    /* Marks that turn the direction of what follows could make a page say something else than its bytes. */
    bool turning =
        c[0] == 0xe2 && ((c[1] == 0x80 && ((c[2] >= 0xaa && c[2] <= 0xae) || c[2] == 0x8e || c[2] == 0x8f)) ||
                         (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
    return too_long || surrogate || beyond || control || turning ? 0 : length;
}

void html_text(text_buffer *t, const char *text) {
    static const char markup[] = "&<>\"'";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        size_t length = character(c);
        const char *special = length == 1 ? strchr(markup, *c) : NULL;
        if (special != NULL)
            text_add(t, "%s", names[special - markup]);
        else if (length == 0)
            text_add(t, "\xef\xbf\xbd");
        else
            text_add_bytes(t, (const char *)c, length);
        c += length > 0 ? length : 1;
    }
}

void html_words(text_buffer *t, const char *sentences) {
    text_buffer words = {0};
    add_words(&words, ALPHABET_GREEK, "%s", sentences);
    if (words.failed)
        t->failed = true;
    else
        html_text(t, words.bytes == NULL ? "" : words.bytes);
    text_free(&words);
}

/* ---- numbers ---- */

static void superscript(int value, char *out) {
    static const char *const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    char plain[16];
    snprintf(plain, sizeof plain, "%d", value);
    *out = '\0';
    for (const char *c = plain; *c != '\0'; ++c)
        strcat(out, *c == '-' ? "⁻" : digits[*c - '0']);
}

const char *pretty(double value, int digits, char out[NUMBER]) {
    char text[NUMBER / 2], power[24];
    if (isnan(value)) return strcpy(out, "–");
    if (isinf(value)) return strcpy(out, value > 0.0 ? "∞" : "−∞");
    snprintf(text, sizeof text, "%.*g", digits, fabs(value));
    char *e = strchr(text, 'e');
    const char *sign = value < 0.0 ? "−" : "";
    if (e == NULL && fabs(value) < 1e-3 && value != 0.0) { /* 0.00012: easier as a power */
        snprintf(text, sizeof text, "%.*e", digits - 1, fabs(value));
        e = strchr(text, 'e');
        char *end = e; /* %e keeps zeros at the end, %g does not */
        while (end > text && strchr(text, '.') < end && strchr(text, '.') != NULL && end[-1] == '0')
            --end;
        if (end > text && end[-1] == '.') --end;
        memmove(end, e, strlen(e) + 1);
        e = end;
    }
    if (e == NULL) {
        snprintf(out, NUMBER, "%s%s", sign, text);
        return out;
    }
    int exponent = 0;
    (void)sscanf(e + 1, "%d", &exponent);
    superscript(exponent, power);
    *e = '\0';
    if (strcmp(text, "1") == 0)
        snprintf(out, NUMBER, "%s10%s", sign, power);
    else
        snprintf(out, NUMBER, "%s%s×10%s", sign, text, power);
    return out;
}

const char *pretty_count(int64_t value, char out[NUMBER]) {
    char plain[32];
    int length = snprintf(plain, sizeof plain, "%lld", (long long)value);
    *out = '\0';
    for (int i = 0; i < length; ++i) {
        char digit[2] = {plain[i], '\0'};
        if (i > 0 && length > 4 && (length - i) % 3 == 0)
            strcat(out, "\u202f"); /* a narrow space that does not break */
        strcat(out, digit);
    }
    return out;
}

static const char *scaled(double value, double step, const char *const *units, int count, char out[NUMBER]) {
    int i = 0;
    while (i + 1 < count && value >= 0.9995 * step)
        value /= step, ++i;
    snprintf(out, NUMBER, "%.*g\u00a0%s", value >= 99.95 ? 4 : 3, value, units[i]);
    return out;
}

const char *pretty_bytes(uint64_t value, char out[NUMBER]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    return scaled((double)value, 1000.0, units, 7, out);
}

const char *pretty_seconds(double value, char out[NUMBER]) {
    static const char *const units[] = {"ns", "µs", "ms", "s"};
    return scaled(value * 1e9, 1000.0, units, 4, out);
}

void html_badge(text_buffer *t, const char *style, const char *text) {
    text_add(t, "<span class=\"badge %s\">", style);
    html_text(t, text);
    text_add(t, "</span>");
}

void html_kind(text_buffer *t, dpmf_kind kind) {
    html_badge(t, kind == DPMF_EXACT ? "sure" : kind == DPMF_ESTIMATE ? "guess" : "bound", dpmf_kind_name(kind));
}

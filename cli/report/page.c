/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include "options/options.h"
#include "output.h"
#include "rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

extern const char report_template[]; /* cmake/embed_page.cmake */

/* ---- text ---- */

/* The length of the character at `at` if it is valid and printable, else 0. */
static size_t printable(const char *at, const char *end) {
    const unsigned char *c = (const unsigned char *)at;
    const size_t length = utf8_length(at, end);
    if (length == 1) return c[0] >= 0x20 && c[0] != 0x7f ? 1 : 0;
    if (length == 2) return c[0] == 0xc2 && c[1] < 0xa0 ? 0 : 2; /* control characters again */
    /* Marks that turn the direction of what follows could make a page say something else than its bytes. */
    bool turning = length == 3 && c[0] == 0xe2 &&
                   ((c[1] == 0x80 && ((c[2] >= 0xaa && c[2] <= 0xae) || c[2] == 0x8e || c[2] == 0x8f)) ||
                    (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
    return turning ? 0 : length;
}

/* `text` with each character of `markup` replaced by its name, and what is not printable UTF-8 by U+FFFD. */
static void add_safe(text_buffer *t, const char *text, const char *markup, const char *const *names) {
    const char *const end = text + strlen(text);
    for (const char *c = text; c < end;) {
        size_t length = printable(c, end);
        const char *special = length == 1 ? strchr(markup, *c) : NULL;
        if (special != NULL)
            text_add(t, "%s", names[special - markup]);
        else if (length == 0)
            text_add(t, "\xef\xbf\xbd");
        else
            text_add_bytes(t, c, length);
        c += length > 0 ? length : 1;
    }
}

void html_text(text_buffer *t, const char *text) {
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    add_safe(t, text, "&<>\"'", names);
}

/* In JSON '<' stands inside strings only. Without it neither </script> nor <!-- can end the block of the page. */
static void add_object(text_buffer *t, const text_buffer *object) {
    static const char *const names[] = {"\\u003c"};
    if (object->bytes != NULL) add_safe(t, object->bytes, "<", names);
    t->failed = t->failed || object->failed;
}

/* ---- the plain part ---- */

void plain_paragraphs(text_buffer *t, const char *lines) {
    text_buffer letters = {0};
    add_words(&letters, ALPHABET_GREEK, "%s", lines);
    char *rest = NULL;
    for (char *line = letters.bytes == NULL ? NULL : strtok_r(letters.bytes, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        text_add(t, "<p>");
        html_text(t, line);
        text_add(t, "</p>\n");
    }
    t->failed = t->failed || letters.failed;
    text_free(&letters);
}

void plain_table(text_buffer *t, const char *heads) {
    int length;
    text_add(t, "<table><thead><tr>");
    for (const char *head = next_word(&heads, &length); head != NULL; head = next_word(&heads, &length))
        text_add(t, "<th scope=\"col\">%.*s</th>", length, head);
    text_add(t, "</tr></thead>\n<tbody>\n");
}

void plain_table_end(text_buffer *t) {
    text_add(t, "</tbody></table>\n");
}

void plain_figure(text_buffer *t, const char *name, double value, const char *kind) {
    const int side = strcmp(kind, dpmf_certainty_name(DPMF_ESTIMATE)) == 0 ? 0 : side_of(kind) < 0 ? -1 : 1;
    const double shown = safe_digits(value, DIGITS, side);
    text_add(t, "<tr><th scope=\"row\">%s</th><td>%.*g</td><td>", name, DIGITS, shown);
    add_kind(t, value, shown, kind);
    text_add(t, "</td></tr>\n");
}

/* ---- sequences ---- */

enum { SHOWN_POINTS = 360 };

/* The least and the largest of each group of entries, in their order, and the last: the number of them. */
static int thinned(int64_t count, const double *y, int64_t shown[SHOWN_POINTS + 1]) {
    const int groups = SHOWN_POINTS / 2;
    int length = 0;
    if (count <= SHOWN_POINTS) {
        for (int64_t i = 0; i < count; ++i)
            shown[length++] = i;
        return length;
    }
    for (int g = 0; g < groups; ++g) {
        int64_t from = (int64_t)((double)count * g / groups), to = (int64_t)((double)count * (g + 1) / groups);
        int64_t least = from, largest = from;
        for (int64_t i = from; i < to; ++i) {
            if (y[i] < y[least]) least = i;
            if (y[i] > y[largest]) largest = i;
        }
        shown[length++] = least < largest ? least : largest;
        if (least != largest) shown[length++] = least < largest ? largest : least;
    }
    if (shown[length - 1] != count - 1) shown[length++] = count - 1;
    return length;
}

void json_sequence(text_buffer *t, const char *key, int64_t count, const double *y) {
    int64_t shown[SHOWN_POINTS + 1];
    const int length = thinned(count, y, shown);
    json_open(t, key, '[');
    for (int i = 0; i < length; ++i) {
        json_open(t, NULL, '[');
        json_integer(t, NULL, shown[i]);
        json_double(t, NULL, y[shown[i]]);
        json_close(t, ']');
    }
    json_close(t, ']');
}

void plain_picture(text_buffer *t, const char *label, int64_t count, bool from_zero, int sequences,
                   const sequence *each) {
    enum { LEFT = 100, TOP = 20, WIDTH = 520, HEIGHT = 320 };
    int64_t shown[SHOWN_POINTS + 1];
    double low = from_zero ? 0.0 : HUGE_VAL, high = -HUGE_VAL;
    for (int k = 0; k < sequences; ++k)
        for (int64_t i = 0; i < count; ++i)
            low = fmin(low, each[k].y[i]), high = fmax(high, each[k].y[i]);
    if (!(high > low)) high = low + 1.0;
    text_add(t,
             "<figure><svg role=\"img\" viewBox=\"0 0 640 400\" aria-label=\"%s\"><path class=\"frame\" "
             "d=\"M%d %dV%dH%d\"/>",
             label, LEFT, TOP, TOP + HEIGHT, LEFT + WIDTH);
    text_add(t, "<text x=\"%d\" y=\"%d\" dy=\".6em\" text-anchor=\"end\">%.4g</text>", LEFT - 8, TOP, high);
    text_add(t, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4g</text>", LEFT - 8, TOP + HEIGHT, low);
    text_add(t, "<text x=\"%d\" y=\"%d\">0</text>", LEFT, TOP + HEIGHT + 26);
    text_add(t, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%lld</text>", LEFT + WIDTH, TOP + HEIGHT + 26,
             (long long)(count - 1));
    for (int k = 0; k < sequences; ++k) {
        const int length = thinned(count, each[k].y, shown);
        text_add(t, "<path class=\"line s%d\" d=\"", k + 1);
        for (int i = 0; i < length; ++i)
            text_add(t, "%c%.1f %.1f", i == 0 ? 'M' : 'L',
                     LEFT + WIDTH * (count > 1 ? (double)shown[i] / (double)(count - 1) : 0.5),
                     TOP + HEIGHT * (high - each[k].y[shown[i]]) / (high - low));
        text_add(t, "%s\"/>", length == 1 ? "h1" : "");
    }
    text_add(t, "</svg>\n<ul class=\"legend\">");
    for (int k = 0; k < sequences; ++k) {
        text_add(t,
                 "<li><svg class=\"key\" aria-hidden=\"true\" viewBox=\"0 0 34 12\"><path class=\"line s%d\" "
                 "d=\"M1 6H33\"/></svg>",
                 k + 1);
        html_text(t, each[k].name);
        text_add(t, "</li>");
    }
    text_add(t, "</ul><figcaption><p>%s</p></figcaption></figure>\n", label);
}

/* ---- the page ---- */

/* Copies the template up to the mark @NAME@ and goes on behind it. */
static void copy_to_mark(text_buffer *t, const char **from, const char *mark) {
    const char *at = strstr(*from, mark);
    text_add_bytes(t, *from, (size_t)(at - *from));
    *from = at + strlen(mark);
}

int page_write(const page *p, const char *path) {
    text_buffer t = {0};
    row_output out;
    const char *from = report_template;
    copy_to_mark(&t, &from, "@VERSION@");
    text_add(&t, "%s", dpmf_version());
    copy_to_mark(&t, &from, "@TITLE@");
    if (p->title.bytes != NULL) html_text(&t, p->title.bytes);
    copy_to_mark(&t, &from, "@PLAIN@");
    if (p->plain.bytes != NULL) text_add_bytes(&t, p->plain.bytes, p->plain.length);
    copy_to_mark(&t, &from, "@OBJECT@");
    add_object(&t, &p->object);
    text_add(&t, "%s", from);
    int code = t.failed || p->title.failed || p->plain.failed ? fail_memory() : 0;
    progress_clear();
    if (code == 0) {
        code = rows_open(path, false, &out);
        if (code == 0) code = rows_write(&out, t.bytes, t.length);
        if (code == 0) code = rows_finish(&out);
        rows_close(&out);
    }
    text_free(&t);
    return code;
}

int page_print_object(const page *p) {
    text_buffer t = {0};
    add_object(&t, &p->object);
    text_add(&t, "\n");
    progress_clear();
    return text_finish(&t);
}

void page_free(page *p) {
    text_free(&p->title);
    text_free(&p->plain);
    text_free(&p->object);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTML page: a template (report.html, report.css and report.js in one, made by the build) around a JSON object. The
 * script draws the page from the object; until it has, and where there is none, readers see the `plain` part.
 */
#ifndef DPMF_CLI_REPORT_PAGE_H
#define DPMF_CLI_REPORT_PAGE_H

#include "output.h"

typedef struct page {
    text_buffer title;  /* text */
    text_buffer plain;  /* HTML */
    text_buffer object; /* JSON */
} page;

/* Any bytes as HTML text: markup escaped, what is not printable UTF-8 replaced. */
void html_text(text_buffer *t, const char *text);

/* Lines of text as paragraphs, with Greek letters. */
void plain_paragraphs(text_buffer *t, const char *lines);
void plain_table(text_buffer *t, const char *heads); /* heads are joined by '|'; rows are the caller's, then: */
void plain_table_end(text_buffer *t);
void plain_figure(text_buffer *t, const char *name, double value, const char *kind); /* a row of three */

/* A picture with one curve for each sequence, at 0 .. count-1, from zero up or from the least of them. */
typedef struct sequence {
    const char *name;
    const double *y;
} sequence;
void plain_picture(text_buffer *t, const char *label, int64_t count, bool from_zero, int sequences,
                   const sequence *each);

/* A sequence as an array of [index, value], thinned so that every extreme stays. */
void json_sequence(text_buffer *t, const char *key, int64_t count, const double *y);

/* Each: 0, or the exit code after a message. The object is printed as it stands in the page. */
int page_write(const page *p, const char *path); /* appears when it is complete */
int page_print_object(const page *p);
void page_free(page *p);

#endif

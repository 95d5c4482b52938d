/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of count as text, CSV and JSON lines. */
#include "count/count.h"

#include <math.h>
#include <string.h>

/* Four digits beyond the first one that the noise leaves uncertain; more would only show rounding. */
static int decimals_of(double error) {
    if (!(error > 0.0)) return 17;
    int digits = 4 - (int)floor(log10(error));
    return digits < 0 ? 0 : digits > 18 ? 18 : digits;
}

/* The numbers, with `separator` between them. */
static void add_numbers(text_buffer *t, const line_reader *reader, char separator, const fixed *sums, int decimals) {
    char *at = text_room(t, (size_t)reader->columns * (FIXED_TEXT + 1));
    if (at == NULL) return;
    char *const start = at;
    for (int64_t i = 0; i < reader->columns; ++i) {
        if (i > 0) *at++ = separator;
        at = fixed_print(at, sums[i], reader->grid, decimals);
    }
    text_used(t, (size_t)(at - start));
}

/* Quoted where it has to be; `also` is a letter that needs quotes too. */
static void add_field(text_buffer *t, slice field, char also) {
    bool quotes = field.length == 0;
    for (size_t i = 0; i < field.length; ++i)
        quotes = quotes || field.start[i] == '"' || field.start[i] == ',' || field.start[i] == also;
    if (!quotes) {
        text_add_bytes(t, field.start, field.length);
        return;
    }
    text_add_bytes(t, "\"", 1);
    for (size_t i = 0; i < field.length; ++i)
        text_add_bytes(t, field.start[i] == '"' ? "\"\"" : field.start + i, field.start[i] == '"' ? 2 : 1);
    text_add_bytes(t, "\"", 1);
}

static void add_json_text(text_buffer *t, slice field) {
    text_add_bytes(t, "\"", 1);
    for (size_t i = 0; i < field.length; ++i) {
        const unsigned char letter = (unsigned char)field.start[i];
        if (letter == '"' || letter == '\\')
            text_add(t, "\\%c", letter);
        else if (letter < 0x20)
            text_add(t, "\\u%04x", letter);
        else
            text_add_bytes(t, field.start + i, 1);
    }
    text_add_bytes(t, "\"", 1);
}

void print_titles(text_buffer *t, const line_reader *reader) {
    const char *title = reader->titles.bytes;
    const int64_t count = reader->columns + (reader->time != NULL);
    text_add(t, "step");
    for (int64_t i = 0; i < count; ++i) {
        text_add_bytes(t, ",", 1);
        add_field(t, (slice){title, strlen(title)}, ',');
        title += strlen(title) + 1;
    }
    text_add(t, ",standard_deviation\n");
}

void print_sums(text_buffer *t, line_format format, const line_reader *reader, int64_t step, slice time,
                const fixed *sums, double error) {
    const int decimals = decimals_of(error);
    if (format == FORMAT_JSONL) {
        text_add(t, "{\"step\":%lld,", (long long)step);
        if (reader->time != NULL) {
            text_add(t, "\"time\":");
            add_json_text(t, time);
            text_add(t, ",");
        }
        text_add(t, "\"sums\":[");
        add_numbers(t, reader, ',', sums, decimals);
        text_add(t, "],\"standard_deviation\":%.6g}\n", error);
        return;
    }
    const char separator = format == FORMAT_CSV ? ',' : ' ';
    if (format == FORMAT_CSV) text_add(t, "%lld,", (long long)step);
    if (reader->time != NULL) {
        add_field(t, time, separator);
        text_add_bytes(t, &separator, 1);
    }
    add_numbers(t, reader, separator, sums, decimals);
    text_add(t, "%c%.6g\n", separator, error);
}

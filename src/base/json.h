/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: a strict scan before cJSON sees a text (duplicate keys, depth, UTF-8, size), and a canonical writer. */
#ifndef DPMF_BASE_JSON_H
#define DPMF_BASE_JSON_H

#include "base/status.h"
#include <cjson/cJSON.h>

/* One JSON object: UTF-8, no duplicate keys, at most `max_depth` levels, numbers that doubles hold. Free with cJSON_Delete. */
DPMF_MUST_CHECK dpmf_status base_json_parse(const char *text, size_t length, int max_depth, const char *what,
                                            cJSON **out);

/* A growing text. Errors stick: write everything, then look at `status` once (its message is set when it happens). */
typedef struct base_writer {
    char *text; /* zero-terminated */
    size_t length, capacity;
    dpmf_status status;
    int need_comma;
} base_writer;

void base_writer_free(base_writer *w);
void base_write_raw(base_writer *w, const char *text); /* as it is */
void base_json_open(base_writer *w, const char *key,
                    char bracket);                  /* '{' or '['; key NULL inside arrays and at the top */
void base_json_close(base_writer *w, char bracket); /* '}' or ']' */
void base_json_text(base_writer *w, const char *key, const char *value);
void base_json_integer(base_writer *w, const char *key, int64_t value);
void base_json_double(base_writer *w, const char *key, double value); /* infinity: the string "inf"; NaN: null */
void base_json_bool(base_writer *w, const char *key, int value);
void base_json_null(base_writer *w, const char *key);

/* Members of an object, with their type checked; `what` names the object in messages. */
DPMF_MUST_CHECK dpmf_status base_json_get_text(const cJSON *object, const char *key, const char *what,
                                               const char **out);
DPMF_MUST_CHECK dpmf_status base_json_get_double(const cJSON *object, const char *key, const char *what, double *out);
DPMF_MUST_CHECK dpmf_status base_json_get_integer(const cJSON *object, const char *key, const char *what,
                                                  int64_t minimum, int64_t maximum, int64_t *out);
DPMF_MUST_CHECK dpmf_status base_json_get_object(const cJSON *object, const char *key, const char *what,
                                                 const cJSON **out);

#endif

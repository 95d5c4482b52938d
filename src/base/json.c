/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON. cJSON builds the tree, but it is lenient: it takes duplicate keys, control characters, bytes that are not UTF-8, lone
 * surrogates, and any tail. So our own strict scan (RFC 8259, one object) runs first, and cJSON only ever sees a text that
 * passed it. The scan takes O(length log length) time for any text, and its recursion is bounded by the depth allowed.
 */
#include "base/json.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* cJSON copies a number to a buffer of 64 bytes; a double needs at most 24. */
enum { NUMBER_LENGTH_MAX = 63 };

typedef struct span {
    uint32_t at, length;
} span;

/* The keys of the open objects, unescaped: a stack, since an inner object is closed before its parent continues. */
typedef struct scanner {
    const char *text, *what;
    size_t length, at;
    int max_depth;
    int64_t values; /* the number of nodes of cJSON's tree */
    span *keys;
    size_t key_count;
    char *names;
    size_t names_used;
} scanner;

static dpmf_status refuse_text(const scanner *s, const char *problem) {
    return base_fail(DPMF_ERROR_FORMAT, "%s: not strict JSON: %s at byte %zu", s->what, problem, s->at);
}

static int next_is(const scanner *s, char c) {
    return s->at < s->length && s->text[s->at] == c;
}

static void skip_spaces(scanner *s) {
    while (next_is(s, ' ') || next_is(s, '\t') || next_is(s, '\n') || next_is(s, '\r'))
        s->at++;
}

static size_t skip_digits(scanner *s) {
    size_t from = s->at;
    while (s->at < s->length && s->text[s->at] >= '0' && s->text[s->at] <= '9')
        s->at++;
    return s->at - from;
}

static dpmf_status scan_number(scanner *s) {
    size_t from = s->at;
    double value;
    if (next_is(s, '-')) s->at++;
    if (next_is(s, '0'))
        s->at++;
    else if (skip_digits(s) == 0)
        return refuse_text(s, "no value");
    if (next_is(s, '.')) {
        s->at++;
        if (skip_digits(s) == 0) return refuse_text(s, "a point with no digit after it");
    }
    if (next_is(s, 'e') || next_is(s, 'E')) {
        s->at++;
        if (next_is(s, '+') || next_is(s, '-')) s->at++;
        if (skip_digits(s) == 0) return refuse_text(s, "an exponent with no digit");
    }
    if (s->at - from > NUMBER_LENGTH_MAX) return refuse_text(s, "a number of more than 63 characters");
    if (!base_parse_double(s->text + from, s->at - from, &value)) return refuse_text(s, "a number out of range");
    return DPMF_OK;
}

/* Four hexadecimal digits, after "\u". */
static int scan_hex4(scanner *s, uint32_t *out) {
    uint32_t code = 0;
    if (s->length - s->at < 4) return 0;
    for (int i = 0; i < 4; i++) {
        char c = s->text[s->at + (size_t)i];
        uint32_t digit = 0;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return 0;
        code = 16 * code + digit;
    }
    s->at += 4;
    *out = code;
    return 1;
}

static size_t put_utf8(uint32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)(((0xf00 >> size) & 0xf0) | code); /* 110xxxxx, 1110xxxx, 11110xxx */
    return size;
}

/* After "\u": one escape, or the two of a surrogate pair. */
static dpmf_status scan_unicode(scanner *s, uint32_t *out) {
    uint32_t code = 0, second = 0;
    if (!scan_hex4(s, &code)) return refuse_text(s, "an escape that is not \\u and four hexadecimal digits");
    if (code == 0) return refuse_text(s, "a zero character");
    if (code >= 0xdc00 && code <= 0xdfff) return refuse_text(s, "a lone surrogate");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (s->length - s->at < 6 || memcmp(s->text + s->at, "\\u", 2) != 0) return refuse_text(s, "a lone surrogate");
        s->at += 2;
        if (!scan_hex4(s, &second) || second < 0xdc00 || second > 0xdfff) return refuse_text(s, "a lone surrogate");
        code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
    }
    *out = code;
    return DPMF_OK;
}

/* A string, its opening quote next. `names`, if not NULL, gets the unescaped bytes, never more than were read. */
static dpmf_status scan_string(scanner *s, char *names, size_t *length) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char scratch[4];
    size_t used = 0;
    assert(next_is(s, '"'));
    s->at++;
    for (;;) {
        char *out = names != NULL ? names + used : scratch;
        if (s->at == s->length) return refuse_text(s, "a string without end");
        char c = s->text[s->at];
        if ((unsigned char)c < 0x20) return refuse_text(s, "a control character in a string");
        s->at++;
        if (c == '"') break;
        if (c != '\\') {
            *out = c;
            used++;
            continue;
        }
        const char *letter = s->at < s->length ? memchr(letters, s->text[s->at], sizeof letters - 1) : NULL;
        if (letter != NULL) {
            s->at++;
            *out = meanings[letter - letters];
            used++;
        } else if (next_is(s, 'u')) {
            uint32_t code = 0;
            s->at++;
            TRY(scan_unicode(s, &code));
            used += put_utf8(code, out);
        } else {
            return refuse_text(s, "an unknown escape");
        }
    }
    *length = used;
    return DPMF_OK;
}

/* Any total order will do; this one looks at the bytes only when the lengths agree. */
static int compare_keys(const scanner *s, span a, span b) {
    if (a.length != b.length) return a.length < b.length ? -1 : 1;
    return memcmp(s->names + a.at, s->names + b.at, a.length);
}

static void sift_down(const scanner *s, span *heap, size_t root, size_t count) {
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) return;
        if (child + 1 < count && compare_keys(s, heap[child], heap[child + 1]) < 0) child++;
        if (compare_keys(s, heap[root], heap[child]) >= 0) return;
        span swap = heap[root];
        heap[root] = heap[child];
        heap[child] = swap;
        root = child;
    }
}

/* Heap sort works in place, and no order of keys makes it quadratic. Equal keys become neighbours. */
static dpmf_status check_unique(const scanner *s, span *keys, size_t count) {
    for (size_t i = count / 2; i > 0; i--)
        sift_down(s, keys, i - 1, count);
    for (size_t last = count; last > 1; last--) {
        span swap = keys[0];
        keys[0] = keys[last - 1];
        keys[last - 1] = swap;
        sift_down(s, keys, 0, last - 1);
    }
    for (size_t i = 1; i < count; i++) {
        if (compare_keys(s, keys[i - 1], keys[i]) == 0) {
            char shown[64];
            return base_fail(DPMF_ERROR_FORMAT, "%s: the key \"%s\" occurs twice in one object", s->what,
                             base_show(s->names + keys[i].at, keys[i].length, shown));
        }
    }
    return DPMF_OK;
}

static dpmf_status scan_key(scanner *s) {
    size_t length = 0;
    if (!next_is(s, '"')) return refuse_text(s, "no key");
    TRY(scan_string(s, s->names + s->names_used, &length));
    s->keys[s->key_count++] = (span){(uint32_t)s->names_used, (uint32_t)length};
    s->names_used += length;
    skip_spaces(s);
    if (!next_is(s, ':')) return refuse_text(s, "no colon after a key");
    s->at++;
    skip_spaces(s);
    return DPMF_OK;
}

static dpmf_status scan_value(scanner *s, int depth);

/* The members of an object or the items of an array, its opening bracket next. */
static dpmf_status scan_container(scanner *s, int depth, int is_object) {
    const char end = is_object ? '}' : ']';
    const size_t first_key = s->key_count, first_name = s->names_used;
    if (depth > s->max_depth) return refuse_text(s, "nested too deep");
    s->at++;
    skip_spaces(s);
    for (int first = 1; !(first && next_is(s, end)); first = 0) {
        if (is_object) TRY(scan_key(s));
        TRY(scan_value(s, depth));
        skip_spaces(s);
        if (next_is(s, end)) break;
        if (!next_is(s, ',')) return refuse_text(s, is_object ? "neither a comma nor }" : "neither a comma nor ]");
        s->at++;
        skip_spaces(s);
    }
    s->at++;
    if (is_object) TRY(check_unique(s, s->keys + first_key, s->key_count - first_key));
    s->key_count = first_key;
    s->names_used = first_name;
    return DPMF_OK;
}

/* A value; `depth` is the number of brackets open around it. */
static dpmf_status scan_value(scanner *s, int depth) {
    static const char *const words[] = {"true", "false", "null"};
    size_t ignored;
    s->values++;
    if (next_is(s, '{') || next_is(s, '[')) return scan_container(s, depth + 1, s->text[s->at] == '{');
    if (next_is(s, '"')) return scan_string(s, NULL, &ignored);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i]);
        if (s->length - s->at >= length && memcmp(s->text + s->at, words[i], length) == 0) {
            s->at += length;
            return DPMF_OK;
        }
    }
    return scan_number(s);
}

/* Room for every key that the text can hold: each has two quotes and a colon. */
static int64_t count_keys(const char *text, size_t length) {
    int64_t quotes = 0, colons = 0;
    for (size_t i = 0; i < length; i++) {
        quotes += text[i] == '"';
        colons += text[i] == ':';
    }
    return quotes / 2 < colons ? quotes / 2 : colons;
}

static dpmf_status scan_text(scanner *s) {
    dpmf_status status = DPMF_OK;
    void *keys = NULL, *names = NULL;
    if (s->length > UINT32_MAX) return base_fail(DPMF_ERROR_FORMAT, "%s: longer than 4 GiB", s->what);
    if (!base_utf8_valid((const uint8_t *)s->text, s->length))
        return base_fail(DPMF_ERROR_FORMAT, "%s: not valid UTF-8", s->what);
    TRY_DONE(base_alloc(count_keys(s->text, s->length) + 1, sizeof(span), "the keys of a JSON text", &keys));
    TRY_DONE(base_alloc((int64_t)s->length + 1, 1, "the keys of a JSON text", &names));
    s->keys = keys;
    s->names = names;
    skip_spaces(s);
    if (!next_is(s, '{')) {
        status = refuse_text(s, "no object");
        goto done;
    }
    TRY_DONE(scan_value(s, 0));
    skip_spaces(s);
    if (s->at != s->length) status = refuse_text(s, "something after the object");
done:
    base_free(keys);
    base_free(names);
    return status;
}

dpmf_status base_json_parse(const char *text, size_t length, int max_depth, const char *what, cJSON **out) {
    assert(max_depth >= 1 && max_depth <= CJSON_NESTING_LIMIT);
    scanner s = {.text = text, .what = what, .length = length, .max_depth = max_depth};
    TRY(scan_text(&s));
    /* cJSON's tree comes from malloc (its allocator is global). We take as much from ours first: the memory limit holds. */
    const size_t node = sizeof(cJSON) + 64; /* and what malloc adds to it and its two strings */
    void *room = NULL;
    TRY(base_alloc(s.values + (int64_t)(s.length / node) + 1, node, "the tree of a JSON text", &room));
    base_free(room);
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* cJSON reads numbers by the thread's locale */
    if (plain == (locale_t)0) return base_fail(DPMF_ERROR_MEMORY, "%s: no memory for a locale", what);
    locale_t before = uselocale(plain);
    cJSON *tree = cJSON_ParseWithLength(text, length);
    uselocale(before);
    freelocale(plain);
    if (tree == NULL) return base_fail(DPMF_ERROR_MEMORY, "%s: no memory for its JSON tree", what);
    *out = tree;
    return DPMF_OK;
}

static dpmf_status get(const cJSON *object, const char *key, const char *what, const cJSON **out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (item == NULL) return base_fail(DPMF_ERROR_FORMAT, "%s: \"%s\" is missing", what, key);
    *out = item;
    return DPMF_OK;
}

dpmf_status base_json_get_text(const cJSON *object, const char *key, const char *what, const char **out) {
    const cJSON *item = NULL;
    TRY(get(object, key, what, &item));
    if (!cJSON_IsString(item)) return base_fail(DPMF_ERROR_FORMAT, "%s: \"%s\" is not a string", what, key);
    *out = item->valuestring;
    return DPMF_OK;
}

dpmf_status base_json_get_double(const cJSON *object, const char *key, const char *what, double *out) {
    const cJSON *item = NULL;
    TRY(get(object, key, what, &item));
    if (!cJSON_IsNumber(item)) return base_fail(DPMF_ERROR_FORMAT, "%s: \"%s\" is not a number", what, key);
    *out = item->valuedouble;
    return DPMF_OK;
}

dpmf_status base_json_get_integer(const cJSON *object, const char *key, const char *what, int64_t minimum,
                                  int64_t maximum, int64_t *out) {
    const double whole = 9007199254740992.0; /* 2^53: past it a double may stand for several whole numbers */
    double value = 0;
    TRY(base_json_get_double(object, key, what, &value));
    if (fabs(value) > whole || value != floor(value) || (int64_t)value < minimum || (int64_t)value > maximum)
        return base_fail(DPMF_ERROR_FORMAT,
                         "%s: \"%s\" is %.17g, but a whole number from %" PRId64 " to %" PRId64 " is needed", what, key,
                         value, minimum, maximum);
    *out = (int64_t)value;
    return DPMF_OK;
}

dpmf_status base_json_get_object(const cJSON *object, const char *key, const char *what, const cJSON **out) {
    const cJSON *item = NULL;
    TRY(get(object, key, what, &item));
    if (!cJSON_IsObject(item)) return base_fail(DPMF_ERROR_FORMAT, "%s: \"%s\" is not an object", what, key);
    *out = item;
    return DPMF_OK;
}

/* ---- the canonical writer ---- */

/* No spaces, keys in the order given, one form for every text and number: equal contents have equal digests. */
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
    if (isinf(value))
        strcpy(number, value > 0 ? "\"inf\"" : "\"-inf\"");
    else if (!isnan(value))
        base_format_double(value, number);
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

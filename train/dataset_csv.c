/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CSV, strictly: a header line of distinct names, then lines of as many fields, by commas, without quotes; LF or CRLF; a byte
 * order mark is skipped. The first pass counts lines and finds columns. Users are numbered as they first appear.
 */
#include "train/train.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct field {
    const char *text;
    size_t length;
} field;

typedef struct reader {
    const char *at, *end;
    const char *name;             /* of the file */
    int64_t line;                 /* from 1; of what was read last */
    char names[65];               /* digest of those of the features, in order */
    int64_t columns, label, unit; /* -1: none */
    field *fields;                /* of one line */
    field *users;                 /* of each example */
} reader;

static dpmf_status refuse_field(const reader *r, const char *what, const field *f) {
    char shown[64];
    return base_fail(DPMF_ERROR_FORMAT, "'%s', line %" PRId64 ": '%s' is not %s", r->name, r->line,
                     base_show(f->text, f->length, shown), what);
}

/* The next line without its end; 0: there is none. */
static int next_line(reader *r, field *line) {
    if (r->at >= r->end) return 0;
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *last = stop != NULL ? stop : r->end;
    line->text = r->at;
    line->length = (size_t)(last - r->at);
    if (line->length > 0 && line->text[line->length - 1] == '\r') line->length--;
    r->at = stop != NULL ? stop + 1 : r->end;
    r->line++;
    return 1;
}

static int64_t count_fields(const field *line) {
    int64_t count = 1;
    for (size_t i = 0; i < line->length; i++)
        count += line->text[i] == ',';
    return count;
}

/* Into r->fields, exactly r->columns of them. */
static dpmf_status split(reader *r, const field *line) {
    const char *at = line->text, *end = line->text + line->length;
    const int64_t found = count_fields(line);
    if (found != r->columns)
        return base_fail(DPMF_ERROR_FORMAT,
                         "'%s', line %" PRId64 " has %" PRId64 " fields, accepted: %" PRId64 " as in the header",
                         r->name, r->line, found, r->columns);
    if (memchr(line->text, '"', line->length) != NULL)
        return base_fail(DPMF_ERROR_FORMAT, "'%s', line %" PRId64 " has a quotation mark: fields are read as they are",
                         r->name, r->line);
    for (int64_t i = 0; i < found; i++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        r->fields[i] = (field){at, (size_t)(stop - at)};
        at = stop + 1;
    }
    return DPMF_OK;
}

static int compare_fields(const void *a, const void *b) {
    const field *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->text, y->text, shorter);
    if (order != 0) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->text < y->text ? -1 : x->text > y->text; /* equal names: in the order of the file */
}

static int same(const field *x, const field *y) {
    return x->length == y->length && memcmp(x->text, y->text, x->length) == 0;
}

static dpmf_status find_column(const reader *r, const char *wanted, int64_t *column) {
    for (int64_t i = 0; i < r->columns; i++)
        if (r->fields[i].length == strlen(wanted) && memcmp(r->fields[i].text, wanted, r->fields[i].length) == 0) {
            *column = i;
            return DPMF_OK;
        }
    char shown[64];
    return base_fail(DPMF_ERROR_FORMAT, "'%s' has no column '%s'", r->name, base_show(wanted, strlen(wanted), shown));
}

/* Two data sets whose features have other names, or another order, do not belong together. */
static dpmf_status digest_names(reader *r) {
    dpmf_status status = DPMF_OK;
    base_part *parts = NULL;
    int count = 0;
    if (r->columns > INT32_MAX / 2)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' has %" PRId64 " columns, too many", r->name, r->columns);
    TRY(base_alloc(2 * r->columns, sizeof *parts, "the columns", (void **)&parts));
    for (int64_t i = 0; i < r->columns; i++) {
        if (i == r->label || i == r->unit) continue;
        parts[count++] = (base_part){r->fields[i].text, r->fields[i].length};
        parts[count++] = (base_part){",", 1};
    }
    status = base_sha256(count, parts, r->names);
    base_free(parts);
    return status;
}

/* The names: where label and unit are, none empty, none twice. */
static dpmf_status read_names(reader *r, const char *label, const char *unit) {
    if (label != NULL) TRY(find_column(r, label, &r->label));
    if (unit != NULL) TRY(find_column(r, unit, &r->unit));
    if (label != NULL && r->label == r->unit)
        return base_fail(DPMF_ERROR_ARGUMENT, "the label and the unit of '%s' are the same column", r->name);
    if (r->columns < 1 + (unit != NULL) + (label != NULL))
        return base_fail(DPMF_ERROR_FORMAT, "'%s' has no columns of features", r->name);
    TRY(digest_names(r));
    qsort(r->fields, (size_t)r->columns, sizeof *r->fields, compare_fields);
    for (int64_t i = 0; i < r->columns; i++) {
        if (r->fields[i].length == 0)
            return base_fail(DPMF_ERROR_FORMAT, "'%s', line 1: a column has no name", r->name);
        if (i > 0 && same(&r->fields[i - 1], &r->fields[i]))
            return refuse_field(r, "the name of one column only", &r->fields[i]);
    }
    return DPMF_OK;
}

static dpmf_status read_header(reader *r, const char *label, const char *unit) {
    field line;
    if (!next_line(r, &line) || line.length == 0)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' has no header line: names of columns are accepted", r->name);
    r->columns = count_fields(&line);
    r->unit = r->label = -1;
    TRY(base_alloc(r->columns, sizeof *r->fields, "the columns", (void **)&r->fields));
    TRY(split(r, &line));
    return read_names(r, label, unit);
}

static int64_t count_lines(const reader *r) {
    reader copy = *r;
    field line;
    int64_t count = 0;
    while (next_line(&copy, &line))
        count++;
    return count;
}

/* A decimal number of any size, or one of the words for none: what is not finite is for the sums to leave out. */
static int parse_number(const field *f, double *value) {
    static const char *const words[] = {"nan", "inf", "infinity"};
    const size_t sign = f->length > 0 && (f->text[0] == '-' || f->text[0] == '+');
    for (int i = 0; i < 3; i++)
        if (f->length - sign == strlen(words[i]) && strncasecmp(f->text + sign, words[i], f->length - sign) == 0) {
            *value = NAN;
            return 1;
        }
    if (base_parse_double(f->text, f->length, value)) return 1;
    *value = NAN; /* a decimal number that is beyond the range of a double */
    return base_is_decimal(f->text, f->length);
}

/* Nothing, or what programs write for a value that is missing: all whose name is missing would be one user beside their own. */
static int is_missing(field f) {
    static const char *const words[] = {"", "nan", "none", "nat", "null", "<na>", "n/a", "#n/a", "undefined"};
    while (f.length > 0 && f.text[0] == ' ')
        f = (field){f.text + 1, f.length - 1};
    while (f.length > 0 && f.text[f.length - 1] == ' ')
        f.length--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (f.length == strlen(words[i]) && strncasecmp(f.text, words[i], f.length) == 0) return 1;
    return 0;
}

static dpmf_status read_example(reader *r, dpmf_dataset *made, int64_t i) {
    float *x = made->x + i * made->features;
    for (int64_t j = 0; j < r->columns; j++) {
        const field *f = &r->fields[j];
        int64_t label = 0;
        double value = 0.0;
        if (j == r->unit) {
            if (is_missing(*f)) return refuse_field(r, "a user's name", f);
            r->users[i] = *f;
        } else if (j == r->label) {
            if (!base_parse_integer(f->text, f->length, &label) || label < 0 || label >= TRAIN_CLASSES_MAX)
                return refuse_field(r, "a label: whole numbers from 0 to 65535 are accepted", f);
            made->label[i] = (int32_t)label;
        } else {
            if (!parse_number(f, &value)) return refuse_field(r, "a number", f);
            *x++ = (float)value;
        }
    }
    return DPMF_OK;
}

/* Sorted names put equal users side by side, the first to appear in front; its place then orders the users. */
typedef struct user {
    field name;
    int64_t example;
} user;

static int compare_users(const void *a, const void *b) {
    return compare_fields(&((const user *)a)->name, &((const user *)b)->name);
}

static int compare_places(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static dpmf_status number_users(const reader *r, dpmf_dataset *made) {
    dpmf_status status = DPMF_OK;
    user *sorted = NULL;
    int64_t *first = NULL;
    int64_t users = 0;
    TRY_DONE(base_alloc(made->count, sizeof *sorted, "the users", (void **)&sorted));
    TRY_DONE(base_alloc(made->count, sizeof *first, "the users", (void **)&first));
    for (int64_t i = 0; i < made->count; i++)
        sorted[i] = (user){r->users[i], i};
    qsort(sorted, (size_t)made->count, sizeof *sorted, compare_users);
    for (int64_t i = 0; i < made->count; i++) { /* for now a user is the place of its first example */
        if (i == 0 || !same(&sorted[i].name, &sorted[i - 1].name)) first[users++] = sorted[i].example;
        made->unit[sorted[i].example] = first[users - 1];
    }
    qsort(first, (size_t)users, sizeof *first, compare_places);
    for (int64_t i = 0; i < made->count; i++) {
        const int64_t *place = bsearch(&made->unit[i], first, (size_t)users, sizeof *first, compare_places);
        made->unit[i] = place - first;
    }
    made->units = users;
done:
    base_free(sorted);
    base_free(first);
    return status;
}

dpmf_status train_csv_decode(const char *text, size_t size, const char *name, const char *label, const char *unit,
                             dpmf_dataset **out) {
    dpmf_status status = DPMF_OK;
    reader r = {.at = text, .end = text + size, .name = name};
    dpmf_dataset *made = NULL;
    if (!base_utf8_valid((const uint8_t *)text, size) || memchr(text, 0, size) != NULL)
        return base_fail(DPMF_ERROR_FORMAT, "'%s' is not a text file: UTF-8 without zero bytes is accepted", name);
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) r.at += 3; /* spreadsheets write a byte order mark */
    TRY_DONE(read_header(&r, label, unit));
    const int64_t count = count_lines(&r), features = r.columns - (unit != NULL) - (label != NULL);
    if (count == 0) {
        status = base_fail(DPMF_ERROR_FORMAT, "'%s' has a header line and no examples", name);
        goto done;
    }
    TRY_DONE(train_dataset_allocate(count, features, unit != NULL, &made));
    if (unit != NULL) TRY_DONE(base_alloc(count, sizeof *r.users, "the users", (void **)&r.users));
    memcpy(made->names, r.names, sizeof made->names);
    field line;
    for (int64_t i = 0; next_line(&r, &line); i++) {
        TRY_DONE(split(&r, &line));
        TRY_DONE(read_example(&r, made, i));
    }
    train_dataset_count_classes(made);
    if (unit != NULL) TRY_DONE(number_users(&r, made));
    TRY_DONE(train_dataset_digest(made));
    train_dataset_finish(made);
done:
    base_free(r.fields);
    base_free(r.users);
    if (status == DPMF_OK)
        *out = made;
    else
        dpmf_dataset_free(made);
    return status;
}

dpmf_status dpmf_dataset_load_csv(const char *path, const char *label, const char *unit, dpmf_dataset **out) {
    char name[64];
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (path == NULL || out == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_dataset_load_csv: the path or out is NULL");
    TRY(base_file_read(path, "data file", &bytes, &size));
    const size_t length = strlen(path);
    base_show(length > 60 ? path + (length - 60) : path, length > 60 ? 60 : length, name);
    dpmf_status status = train_csv_decode((const char *)bytes, size, name, label, unit, out);
    base_free(bytes);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy C: the object that every family's file makes. Its life, and the public calls on it, each a check and one
 * entry of the family's table, or what can be built for families that leave an entry out. Calls no family's file.
 */
#include "base/linalg.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/sum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static unsigned abilities(const strategy_ops *ops) {
    return (ops->step != NULL ? STRATEGY_CAN_STEP : 0u) | (ops->gram != NULL ? STRATEGY_CAN_GRAM : 0u) |
           (ops->covariance != NULL ? STRATEGY_CAN_COVARIANCE : 0u) |
           (ops->inverse_part != NULL ? STRATEGY_CAN_INVERSE_PART : 0u) | (ops->row != NULL ? STRATEGY_CAN_ROW : 0u) |
           (ops->inverse_row != NULL ? STRATEGY_CAN_INVERSE_ROW : 0u) |
           (ops->toeplitz != NULL ? STRATEGY_CAN_TOEPLITZ : 0u) | (ops->write != NULL ? STRATEGY_CAN_SAVE : 0u);
}

dpmf_status strategy_new(const strategy_ops *ops, size_t size, const char *family, int64_t steps, dpmf_strategy **out) {
    assert(size >= sizeof(dpmf_strategy));
    if (steps < 1 || steps > ((int64_t)1 << 53))
        return base_fail(DPMF_ERROR_ARGUMENT, "steps = %lld, accepted 1 to 2^53", (long long)steps);
    dpmf_strategy *s = NULL;
    TRY(base_alloc(1, size, "a strategy", (void **)&s));
    s->ops = ops;
    s->references = 1;
    s->steps = steps;
    s->family = family;
    s->singular_at = -1;
    s->can = abilities(ops);
    *out = s;
    return DPMF_OK;
}

dpmf_strategy *strategy_retain(const dpmf_strategy *strategy) {
    dpmf_strategy *s = (dpmf_strategy *)strategy; /* the count is the one thing that changes */
    __atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED);
    return s;
}

void dpmf_strategy_free(dpmf_strategy *strategy) {
    if (strategy == NULL || __atomic_sub_fetch(&strategy->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    if (strategy->ops->release != NULL) strategy->ops->release(strategy);
    base_free(strategy);
}

int strategy_can(const dpmf_strategy *s, unsigned what) {
    return (s->can & what) == what;
}

int64_t strategy_rows(const dpmf_strategy *s) {
    return s->ops->rows == NULL ? s->steps : s->ops->rows(s);
}

int64_t dpmf_strategy_seeds(const dpmf_strategy *s, int64_t t) {
    return s->ops->seeds == NULL ? 1 : s->ops->seeds(s, t);
}

int64_t strategy_bands(const dpmf_strategy *s) {
    return strategy_can(s, STRATEGY_CAN_ROW) ? s->ops->bands(s) : s->steps;
}

int64_t strategy_inverse_bands(const dpmf_strategy *s) {
    return strategy_can(s, STRATEGY_CAN_INVERSE_ROW) ? s->ops->inverse_bands(s) : s->steps;
}

int64_t strategy_buffers(const dpmf_strategy *s) {
    return s->ops->buffers(s);
}

double strategy_normals(const dpmf_strategy *s) {
    return s->ops->normals == NULL ? 1 : s->ops->normals(s);
}

dpmf_strategy_info dpmf_strategy_get(const dpmf_strategy *s) {
    int64_t all = 1, stamps = 1;
    const double *norms = NULL;
    for (const dpmf_strategy *at = strategy_block(strategy_scaled(s, &norms), &stamps); stamps > 1;
         at = strategy_block(strategy_scaled(at, &norms), &stamps))
        all *= stamps;
    dpmf_strategy_info info = {.family = s->family,
                               .steps = s->steps,
                               .rows = strategy_rows(s),
                               .bands = strategy_bands(s),
                               .buffers = strategy_buffers(s),
                               .normals = strategy_normals(s),
                               .is_normalized = strategy_is_normalized(s),
                               .stamps = all,
                               .streams = strategy_can(s, STRATEGY_CAN_STEP)};
    const dpmf_strategy *core = strategy_innermost(s);
    if (core->ops->branching != NULL) info.branching = core->ops->branching(core);
    if (s->ops->describe != NULL) s->ops->describe(s, &info);
    return info;
}

int strategy_toeplitz(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                      const double **inverse) {
    if (!strategy_can(s, STRATEGY_CAN_TOEPLITZ)) return 0;
    s->ops->toeplitz(s, count, c, inverse_count, inverse);
    return 1;
}

const double *strategy_matrix(const dpmf_strategy *s) {
    return s->ops->matrix == NULL ? NULL : s->ops->matrix(s);
}

dpmf_status strategy_cut(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out) {
    if (s->ops->cut != NULL) return s->ops->cut(s, steps, out);
    *out = strategy_retain(s);
    return DPMF_OK;
}

const dpmf_strategy *strategy_block(const dpmf_strategy *s, int64_t *stamps) {
    const double *norms = NULL;
    *stamps = 1;
    const dpmf_strategy *inside = s->ops->inside == NULL ? s : s->ops->inside(s, stamps, &norms);
    return *stamps > 1 ? inside : s;
}

const dpmf_strategy *strategy_scaled(const dpmf_strategy *s, const double **norms) {
    int64_t stamps = 1;
    *norms = NULL;
    const dpmf_strategy *inside = s->ops->inside == NULL ? s : s->ops->inside(s, &stamps, norms);
    return *norms != NULL ? inside : s;
}

const dpmf_strategy *strategy_innermost(const dpmf_strategy *s) {
    const double *norms = NULL;
    int64_t stamps = 1;
    while (s->ops->inside != NULL)
        s = s->ops->inside(s, &stamps, &norms);
    return s;
}

int strategy_is_normalized(const dpmf_strategy *strategy) {
    const double *norms = NULL;
    strategy_scaled(strategy, &norms);
    return norms != NULL;
}

dpmf_status strategy_need_inverse(const dpmf_strategy *s) {
    if (s->singular_at < 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_NUMERICAL,
                     "the strategy is singular: C[%lld,%lld] = 0, an inverse needs a non-zero diagonal",
                     (long long)s->singular_at, (long long)s->singular_at);
}

/* The families' entries need x != y; the public calls allow x == y. */
static dpmf_status through_copy(dpmf_status (*entry)(const dpmf_strategy *, const double *, double *),
                                const dpmf_strategy *s, int64_t in_count, const double *in, double *out) {
    if (in != out) return entry(s, in, out);
    double *copy = NULL;
    TRY(base_alloc_doubles(in_count, "a copy", &copy));
    memcpy(copy, in, (size_t)in_count * sizeof *copy);
    dpmf_status status = entry(s, copy, out);
    base_free(copy);
    return status;
}

dpmf_status dpmf_strategy_apply(const dpmf_strategy *s, const double *x, double *y) {
    return through_copy(s->ops->apply, s, s->steps, x, y);
}

dpmf_status dpmf_strategy_solve(const dpmf_strategy *s, const double *y, double *x) {
    TRY(strategy_need_inverse(s));
    return through_copy(s->ops->solve, s, strategy_rows(s), y, x);
}

dpmf_status dpmf_strategy_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                               double *row) {
    if (t < 0 || t >= s->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld: the mechanism has %lld steps",
                         (long long)t, (long long)(s->steps - 1), (long long)s->steps);
    if (count < 0) return base_fail(DPMF_ERROR_ARGUMENT, "count = %lld, accepted 0 and up", (long long)count);
    TRY(strategy_need_inverse(s));
    if (!strategy_can(s, STRATEGY_CAN_STEP))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family %s: a row of its noise needs seeds of other steps, it has no step of its own",
                         s->family);
    s->ops->step(s, t, count, seed, state, row);
    return DPMF_OK;
}

dpmf_status dpmf_strategy_column(const dpmf_strategy *s, int64_t j, double *column) {
    if (j < 0 || j >= s->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "column %lld, accepted 0 to %lld", (long long)j,
                         (long long)(s->steps - 1));
    if (s->ops->column != NULL) return s->ops->column(s, j, column);
    double *unit = NULL;
    TRY(base_alloc_doubles(s->steps, "a unit vector", &unit));
    unit[j] = 1;
    dpmf_status status = s->ops->apply(s, unit, column);
    base_free(unit);
    return status;
}

/* From rows of few bands: the squares of column j = t - i are met in rows j..j+bands-1. */
static dpmf_status norms_from_rows(const dpmf_strategy *s, double *norms) {
    int64_t bands = strategy_bands(s);
    double *row = NULL;
    TRY(base_alloc_doubles(bands, "a row", &row));
    memset(norms, 0, (size_t)s->steps * sizeof *norms);
    for (int64_t t = 0; t < s->steps; t++) {
        s->ops->row(s, t, row);
        for (int64_t i = 0; i < bands && i <= t; i++)
            norms[t - i] += row[i] * row[i];
    }
    for (int64_t j = 0; j < s->steps; j++)
        norms[j] = sqrt(norms[j]);
    base_free(row);
    return DPMF_OK;
}

dpmf_status dpmf_strategy_column_norms(const dpmf_strategy *s, double *norms) {
    if (s->ops->column_norms != NULL) return s->ops->column_norms(s, norms);
    if (strategy_can(s, STRATEGY_CAN_GRAM)) {
        TRY(s->ops->gram(s, 0, norms));
        for (int64_t t = 0; t < s->steps; t++)
            norms[t] = sqrt(norms[t]);
        return DPMF_OK;
    }
    if (strategy_bands(s) < s->steps) return norms_from_rows(s, norms);
    int64_t rows = strategy_rows(s);
    double *column = NULL;
    TRY(base_alloc_doubles(rows, "a column", &column));
    dpmf_status status = DPMF_OK;
    for (int64_t j = 0; j < s->steps && status == DPMF_OK; j++) {
        status = dpmf_strategy_column(s, j, column);
        if (status == DPMF_OK) norms[j] = base_norm(rows, column);
    }
    base_free(column);
    return status;
}

/* Row i meets columns u = i - j and t = u - lag. */
static dpmf_status gram_banded(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t bands = strategy_bands(s);
    double *row = NULL;
    memset(values, 0, (size_t)(s->steps - lag) * sizeof *values);
    if (lag >= bands) return DPMF_OK;
    TRY(base_alloc_doubles(bands, "a row", &row));
    for (int64_t i = lag; i < s->steps; i++) {
        s->ops->row(s, i, row);
        for (int64_t j = 0; j + lag < bands && j + lag <= i; j++)
            values[i - lag - j] += row[j] * row[j + lag];
    }
    base_free(row);
    return DPMF_OK;
}

/*
 * X = C'C one diagonal at a time: sensitivity under several participations needs only lags that can separate two of them.
 * Toeplitz: X[t, t+lag] = sum_{i <= n-1-t-lag} c_i c_{i+lag}, one running sum, O(n); banded: O(n b); else O(n) products of columns.
 */
dpmf_status strategy_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t count = 0, inverse_count = 0;
    const double *c = NULL, *inverse = NULL;
    assert(lag >= 0 && lag < s->steps);
    if (strategy_can(s, STRATEGY_CAN_GRAM)) return s->ops->gram(s, lag, values);
    if (strategy_toeplitz(s, &count, &c, &inverse_count, &inverse)) {
        const int64_t n = s->steps;
        base_running sum = {0};
        for (int64_t i = 0; i + lag < n; i++) {
            if (i + lag < count) base_running_add(&sum, c[i] * c[i + lag]);
            values[n - 1 - lag - i] = base_running_value(&sum);
        }
        return DPMF_OK;
    }
    if (strategy_bands(s) < s->steps) return gram_banded(s, lag, values);
    int64_t rows = strategy_rows(s);
    double *columns = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(2 * rows, "two columns", &columns));
    for (int64_t t = 0; t + lag < s->steps; t++) {
        TRY_DONE(dpmf_strategy_column(s, t, columns));
        if (lag > 0) TRY_DONE(dpmf_strategy_column(s, t + lag, columns + rows));
        values[t] = base_dot(rows, columns, lag > 0 ? columns + rows : columns);
    }
done:
    base_free(columns);
    return status;
}

/* Strategies by name: options are checked against the table of families; the block is made, repeated and normalized. */

const dpmf_family *dpmf_family_info(int64_t i) {
    return i >= 0 && i < families_table.families ? &families_table.family[i].shown : NULL;
}

const strategy_family *strategy_family_find(const char *name, size_t length) {
    for (int64_t i = 0; i < families_table.families; i++) {
        const char *known = families_table.family[i].shown.name;
        if (strlen(known) == length && memcmp(known, name, length) == 0) return &families_table.family[i];
    }
    return NULL;
}

const strategy_family *strategy_family_next(const strategy_family *family) {
    const int after = family == NULL ? 0 : family->candidates.turn;
    const strategy_family *next = NULL;
    for (int64_t i = 0; i < families_table.families; i++) {
        const strategy_family *f = &families_table.family[i];
        if (f->candidates.turn > after && (next == NULL || f->candidates.turn < next->candidates.turn)) next = f;
    }
    return next;
}

static int next_place(strategy_family_place place, int after) {
    int next = 0;
    for (int64_t i = 0; i < families_table.families; i++) {
        int at = place(&families_table.family[i].shown);
        if (at > after && (next == 0 || at < next)) next = at;
    }
    return next;
}

const char *strategy_family_list(strategy_family_place place, const char *last, char out[STRATEGY_FAMILY_LIST]) {
    int64_t count = 0, shown = 0;
    int used = 0;
    for (int64_t i = 0; i < families_table.families; i++)
        count += place(&families_table.family[i].shown) != 0;
    out[0] = 0;
    for (int at = next_place(place, 0); at != 0; at = next_place(place, at))
        for (int64_t i = 0; i < families_table.families && used < STRATEGY_FAMILY_LIST; i++) {
            const dpmf_family *f = &families_table.family[i].shown;
            if (place(f) != at) continue;
            used += snprintf(out + used, (size_t)(STRATEGY_FAMILY_LIST - used), "%s%s",
                             shown == 0           ? ""
                             : shown == count - 1 ? last
                                                  : ", ",
                             f->name);
            shown++;
        }
    assert(used < STRATEGY_FAMILY_LIST);
    return out;
}

dpmf_status strategy_create_identity(int64_t steps, dpmf_strategy **out) {
    return families_table.identity(steps, out);
}

dpmf_status strategy_create_matrix(int64_t steps, const double *matrix, dpmf_strategy **out) {
    return families_table.matrix(steps, matrix, out);
}

dpmf_status strategy_create_repeated(const dpmf_strategy *block, int64_t stamps, dpmf_strategy **out) {
    return families_table.repeat(block, stamps, out);
}

dpmf_strategy_options dpmf_strategy_options_defaults(void) {
    return (dpmf_strategy_options){0};
}

static int takes_nu(const dpmf_family *f) {
    return f->nu;
}

static int takes_buffers(const dpmf_family *f) {
    return f->buffers != 0;
}

static int takes_levels(const dpmf_family *f) {
    return f->levels != 0;
}

/* A number that some families take: 0 is "not given". */
static dpmf_status check_number(const dpmf_family *f, const char *what, int64_t given, int most,
                                strategy_family_place taken) {
    char list[STRATEGY_FAMILY_LIST];
    if (given == 0 || (given >= 1 && given <= most)) return DPMF_OK;
    if (most > 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: %s = %lld, accepted 1 to %d", f->name, what, (long long)given,
                         most);
    return base_fail(DPMF_ERROR_ARGUMENT, "family %s: %s = %lld, accepted only for %s", f->name, what, (long long)given,
                     strategy_family_list(taken, " and ", list));
}

static int takes_branching(const dpmf_family *f) {
    return f->branching;
}

static int is_closed_form(const dpmf_family *f) {
    return f->closed_form;
}

static dpmf_status check_options(const dpmf_family *f, int64_t steps, const dpmf_strategy_options *o) {
    char list[STRATEGY_FAMILY_LIST];
    if (o->stamps < 0 || o->stamps > steps || (o->stamps > 0 && steps % o->stamps != 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "stamps = %lld, accepted: a divisor of the %lld steps",
                         (long long)o->stamps, (long long)steps);
    int64_t block = steps / (o->stamps > 0 ? o->stamps : 1);
    if (f->bands && (o->bands < 1 || o->bands > block))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: bands = %lld, accepted 1 to %lld (the steps%s)", f->name,
                         (long long)o->bands, (long long)block, o->stamps > 1 ? " of a stamp" : "");
    if (!f->bands && o->bands != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: bands = %lld, but it has no bands to choose", f->name,
                         (long long)o->bands);
    if (!(o->nu >= 0 && o->nu < 1)) return base_fail(DPMF_ERROR_ARGUMENT, "nu = %g, accepted 0 <= nu < 1", o->nu);
    if (!f->nu && o->nu != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: nu = %g, but only %s takes nu", f->name, o->nu,
                         strategy_family_list(takes_nu, " and ", list));
    if (!f->branching && o->branching != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: branching = %lld, but only %s take it", f->name,
                         (long long)o->branching, strategy_family_list(takes_branching, " and ", list));
    if ((int)o->decoder < DPMF_DECODER_DEFAULT || o->decoder > DPMF_DECODER_OPTIMAL)
        return base_fail(DPMF_ERROR_ARGUMENT, "decoder %d, accepted 0 to 2", (int)o->decoder);
    TRY(check_number(f, "buffers", o->buffers, f->buffers, takes_buffers));
    return check_number(f, "levels", o->levels, f->levels, takes_levels);
}

/* Numbers of the caller's own are refused where they would be ignored. */
static dpmf_status check_given(const strategy_family *family, const dpmf_strategy_options *o) {
    if (o->matrix == NULL && (o->matrix_rows != 0 || o->decoder_matrix != NULL || o->u != NULL || o->v != NULL))
        return base_fail(DPMF_ERROR_ARGUMENT, "strategy: matrix_rows, decoder_matrix, u or v without a matrix");
    if (o->matrix == NULL || family->create_given != NULL) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "family %s: a matrix is given, but it takes none", family->shown.name);
}

static dpmf_status create_checked(const strategy_family *family, const dpmf_workload *workload,
                                  const dpmf_strategy_options *o, dpmf_strategy **out) {
    int64_t stamps = o->stamps > 0 ? o->stamps : 1;
    /* One encoder may have two decoders: the family names the default, the option the other. */
    const char *decoded = o->decoder == DPMF_DECODER_RESTART   ? family->shown.restart
                          : o->decoder == DPMF_DECODER_OPTIMAL ? family->shown.optimal
                                                               : NULL;
    if (decoded != NULL) family = strategy_family_find(decoded, strlen(decoded));
    dpmf_workload *block = NULL;
    dpmf_strategy *plain = NULL, *repeated = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(workload_head(workload, workload->steps / stamps, &block));
    TRY_DONE((o->matrix != NULL ? family->create_given : family->create)(block, o, &plain));
    TRY_DONE(families_table.repeat(plain, stamps, &repeated));
    if (o->column_normalize)
        TRY_DONE(families_table.normalize(repeated, out));
    else
        *out = strategy_retain(repeated);
done:
    dpmf_workload_free(block);
    dpmf_strategy_free(plain);
    dpmf_strategy_free(repeated);
    return status;
}

dpmf_status dpmf_strategy_create(const char *family, const dpmf_workload *workload,
                                 const dpmf_strategy_options *options, dpmf_strategy **out) {
    dpmf_strategy_options o = options == NULL ? dpmf_strategy_options_defaults() : *options;
    char shown[64], list[STRATEGY_FAMILY_LIST];
    if (family == NULL || workload == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "strategy: the family or the workload is NULL");
    const strategy_family *known = strategy_family_find(family, strlen(family));
    if (known != NULL) TRY(check_given(known, &o));
    if (known == NULL || (known->create == NULL && o.matrix == NULL))
        return base_fail(DPMF_ERROR_ARGUMENT, "family '%s', accepted without parameters: %s",
                         base_show(family, strlen(family), shown), strategy_family_list(is_closed_form, ", ", list));
    TRY(check_options(&known->shown, workload->steps, &o));
    return create_checked(known, workload, &o, out);
}

/* Strategies in a mechanism file: {"class": how it is held, "family": its name, ...} and arrays, by class. */

void strategy_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    if (!strategy_can(s, STRATEGY_CAN_SAVE)) {
        w->status = base_fail(DPMF_ERROR_UNSUPPORTED, "family %s: it cannot be saved in a file", s->family);
        return;
    }
    base_json_text(w, "class", s->ops->class_name);
    base_json_text(w, "family", s->family);
    s->ops->write(s, w, tensors);
}

dpmf_status strategy_array(const strategy_source *source, const char *name, int64_t rows, int64_t columns,
                           const base_tensor **out) {
    const base_tensor *t = base_tensors_find(source->tensors, name);
    if (t == NULL) return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the array %s is missing", name);
    int fits = t->dimensions == (columns == 0 ? 1 : 2) && (rows < 0 || t->shape[0] == rows) &&
               (columns <= 0 || t->shape[1] == columns);
    if (!fits) return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the array %s has the wrong shape", name);
    *out = t;
    return DPMF_OK;
}

dpmf_status strategy_read(const cJSON *object, int64_t steps, const dpmf_workload *workload,
                          const base_tensors *tensors, dpmf_strategy **out) {
    const char *class_name = NULL, *family = NULL;
    strategy_source source = {.object = object, .tensors = tensors, .workload = workload, .steps = steps};
    TRY(base_json_get_text(object, "class", "strategy", &class_name));
    TRY(base_json_get_text(object, "family", "strategy", &family));
    const strategy_family *known = strategy_family_find(family, strlen(family));
    if (known == NULL) return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the strategy's family is not known");
    source.family = known->shown.name;
    for (int64_t i = 0; i < families_table.classes; i++)
        if (strcmp(class_name, families_table.class[i].name) == 0) return families_table.class[i].read(&source, out);
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the strategy's class is not known");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy of the recursive tree over a BLT (families/blttree/blttree.h). The noise of step t, whose item is of level c, is
 *
 *     y = z / w_c - scale'm_c,   m_c <- (m_c - gap m_c) + y,   S_c <- S_c + y,      row = y - sum_{l<c} S_l,
 *
 * and then the levels below c begin again from zero: their items are part of the one that c has just got. One seed for
 * each step; the buffers are those of all levels, and a running sum for each but the highest.
 *
 * The weights and numbers of buffers: each level's BLT is the explicit one (families/blt/rational.c) for its items, with the
 * fewest buffers whose max loss is within BLT_RATIONAL_SLACK / levels of the best Toeplitz mechanism's.
 */
#include "families/blttree/blttree.h"

#include "base/memory.h"
#include "base/sum.h"
#include "sensitivity/sensitivity.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

STRATEGY_CAST(blttree_strategy)

typedef blttree_level level;

static void release(dpmf_strategy *s) {
    blttree_strategy *self = (blttree_strategy *)s;
    base_free(self->numbers);
    base_free(self->shape);
}

/* The item of the level that step t belongs to, within its run. */
static int64_t item_at(const level *l, int64_t t) {
    return t / l->span % l->branching;
}

/* The items of the level that are finished within the steps, from the start of the run that step t belongs to. */
static int64_t items_after(const blttree_strategy *s, const level *l, int64_t t) {
    const int64_t start = t / l->span / l->branching * l->branching;
    const int64_t finished = s->base.steps / l->span - start;
    return finished < l->branching - 1 ? finished : l->branching - 1;
}

static int64_t buffers(const dpmf_strategy *s) {
    const level *top = &cast(s)->level[cast(s)->levels - 1];
    return top->first + top->c.count;
}

/* ---- products ---- */

/* The buffers of every level for one number, and what its items add up to. */
typedef struct walk {
    double m[BLTTREE_LEVELS_MAX][BLT_MAX], sum[BLTTREE_LEVELS_MAX];
} walk;

static double read_buffers(const level *l, const double *m) {
    double sum = 0;
    for (int i = 0; i < l->c.count; i++)
        sum += l->c.scale[i] * m[i];
    return sum;
}

static void feed_level(const level *l, double x, double *m, double *sum) {
    for (int i = 0; i < l->c.count; i++)
        m[i] = (m[i] - l->c.gap[i] * m[i]) + x;
    *sum += x;
}

/* The sums of the levels below c, which begin again. */
static double take_below(int c, walk *w) {
    double sum = 0;
    for (int l = 0; l < c; l++)
        sum += w->sum[l];
    memset(w->m, 0, (size_t)c * sizeof w->m[0]);
    memset(w->sum, 0, (size_t)c * sizeof w->sum[0]);
    return sum;
}

static dpmf_status apply(const dpmf_strategy *s, const double *x, double *y) {
    const blttree_strategy *self = cast(s);
    walk *w = NULL;
    TRY(base_alloc(1, sizeof *w, "the buffers of a product", (void **)&w));
    for (int64_t t = 0; t < s->steps; t++) {
        const int c = blttree_level_at(self, t);
        const level *l = &self->level[c];
        const double item = x[t] + take_below(c, w);
        y[t] = l->weight * (item + read_buffers(l, w->m[c]));
        feed_level(l, item, w->m[c], &w->sum[c]);
    }
    base_free(w);
    return DPMF_OK;
}

static dpmf_status solve(const dpmf_strategy *s, const double *y, double *x) {
    const blttree_strategy *self = cast(s);
    walk *w = NULL;
    TRY(base_alloc(1, sizeof *w, "the buffers of a product", (void **)&w));
    for (int64_t t = 0; t < s->steps; t++) {
        const int c = blttree_level_at(self, t);
        const level *l = &self->level[c];
        const double item = y[t] / l->weight - read_buffers(l, w->m[c]);
        x[t] = item - take_below(c, w);
        feed_level(l, item, w->m[c], &w->sum[c]);
    }
    base_free(w);
    return DPMF_OK;
}

static void step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row) {
    const blttree_strategy *self = cast(s);
    const int c = blttree_level_at(self, t);
    const level *l = &self->level[c];
    double *own = state + l->first * count;
    for (int64_t i = 0; i < count; i++)
        row[i] = seed[i] / l->weight;
    for (int j = 0; j < l->c.count; j++)
        for (int64_t i = 0; i < count; i++)
            row[i] -= l->c.scale[j] * own[j * count + i];
    for (int j = 0; j < l->c.count; j++)
        for (int64_t i = 0; i < count; i++)
            own[j * count + i] = (own[j * count + i] - l->c.gap[j] * own[j * count + i]) + row[i];
    if (c + 1 < self->levels)
        for (int64_t i = 0; i < count; i++)
            own[l->c.count * count + i] += row[i];
    for (int k = 0; k < c; k++) {
        const double *sum = state + (self->level[k].first + self->level[k].c.count) * count;
        for (int64_t i = 0; i < count; i++)
            row[i] -= sum[i];
    }
    memset(state, 0, (size_t)(l->first * count) * sizeof *state); /* all levels below */
}

/* ---- columns ---- */

static dpmf_status column(const dpmf_strategy *s, int64_t j, double *out) {
    const blttree_strategy *self = cast(s);
    memset(out, 0, (size_t)s->steps * sizeof *out);
    for (int k = 0; k < self->levels; k++) {
        const level *l = &self->level[k];
        const int64_t start = j / l->span / l->branching * l->branching, first = item_at(l, j);
        const int64_t items = items_after(self, l, j);
        for (int64_t i = first; i < items; i++)
            out[(start + i + 1) * l->span - 1] = l->weight * l->column[i - first];
    }
    return DPMF_OK;
}

static dpmf_status column_norms(const dpmf_strategy *s, double *norms) {
    const blttree_strategy *self = cast(s);
    for (int64_t j = 0; j < s->steps; j++) {
        double sum = 0;
        for (int k = 0; k < self->levels; k++) {
            const level *l = &self->level[k];
            const int64_t rows = items_after(self, l, j) - item_at(l, j);
            if (rows > 0) sum += l->weight * l->weight * l->squares[rows];
        }
        norms[j] = sqrt(sum);
    }
    return DPMF_OK;
}

/* Running sums of c_i c_{i+apart}: products[i] is that of the first i. */
static void fill_products(const level *l, int64_t apart, double *products) {
    products[0] = 0;
    for (int64_t i = 0; i + apart < l->items; i++)
        products[i + 1] = products[i] + l->column[i] * l->column[i + apart];
}

/* (C'C)[t, t+lag]: in a level the items of the two steps are floor(lag/M) apart, or one more; both sums are made once. */
static dpmf_status gram(const dpmf_strategy *s, int64_t lag, double *values) {
    const blttree_strategy *self = cast(s);
    double *products[2] = {NULL, NULL};
    int64_t most = 0;
    dpmf_status status = DPMF_OK;
    for (int k = 0; k < self->levels; k++)
        if (self->level[k].items > most) most = self->level[k].items;
    TRY_DONE(base_alloc_doubles(most + 1, "products of coefficients", &products[0]));
    TRY_DONE(base_alloc_doubles(most + 1, "products of coefficients", &products[1]));
    memset(values, 0, (size_t)(s->steps - lag) * sizeof *values);
    for (int k = 0; k < self->levels; k++) {
        const level *l = &self->level[k];
        const int64_t apart = lag / l->span, run = l->span * l->branching;
        for (int more = 0; more < 2; more++)
            fill_products(l, apart + more, products[more]);
        for (int64_t t = 0; t + lag < s->steps; t++) {
            const int64_t u = t + lag, rows = items_after(self, l, u) - item_at(l, u);
            if (t / run != u / run || rows <= 0) continue;
            values[t] += l->weight * l->weight * products[item_at(l, u) - item_at(l, t) - apart][rows];
        }
    }
done:
    base_free(products[0]);
    base_free(products[1]);
    return status;
}

/* Columns are sums over levels of columns of Toeplitz matrices cut off, and the first has the first of each, whole. */
static int longest_column(const dpmf_strategy *s, dpmf_sensitivity *out) {
    const blttree_strategy *self = cast(s);
    double sum = 0;
    for (int k = 0; k < self->levels; k++)
        sum += self->level[k].weight * self->level[k].weight * self->level[k].squares[self->level[k].items];
    *out = (dpmf_sensitivity){
        .value = sqrt(sum), .kind = DPMF_EXACT, .method = sensitivity_method_text(SENSITIVITY_METHOD_COLUMN)};
    return 1;
}

/* sum_k c_k c_{k+apart} over the items of a run, in closed form; 0 < apart < items. */
static double product_of(const level *l, int64_t apart) {
    const blt_parameters *c = &l->c;
    const double rows = (double)(l->items - apart - 1); /* those below the first */
    double sum = 0;
    for (int i = 0; i < c->count; i++) {
        double after = 0;
        for (int j = 0; j < c->count; j++)
            after += c->scale[j] * blt_geometric(rows, c->gap[i] + c->gap[j] * (1 - c->gap[i])).value;
        sum += c->scale[i] * exp((double)(apart - 1) * log1p(-c->gap[i])) * (1 + (1 - c->gap[i]) * after);
    }
    return sum;
}

/*
 * No entry of C'C is negative, and two steps that are at least `lag` apart and in one run of a level are at least lag/M of its
 * items apart. Where the coefficients of every level fall, so do their products with the distance: the sum over levels bounds
 * (C'C)[t, u] for all of u - t >= lag, in O(buffers^2).
 */
static double largest_beyond(const blttree_strategy *s, int64_t lag) {
    double sum = 0;
    for (int k = 0; k < s->levels; k++) {
        const level *l = &s->level[k];
        const int64_t apart = lag / l->span;
        if (apart < l->items) sum += l->weight * l->weight * (apart == 0 ? l->squares[l->items] : product_of(l, apart));
    }
    return sum;
}

static int coefficients_fall(const blttree_strategy *s) {
    for (int k = 0; k < s->levels; k++) {
        double sum = 0;
        for (int i = 0; i < s->level[k].c.count; i++)
            sum += s->level[k].c.scale[i];
        if (!(sum <= 1)) return 0;
    }
    return 1;
}

static const double ROUNDING = 1e-11; /* of the exponential of a large number, and of sums of positive ones */

/* Up to here the general routes are as good or better, and take seconds. */
enum { GENERAL_MAX = 16384 };

/*
 * Steps in any place that keep their distance: the sum over all pairs of participations, d = 1, 2, ... of them apart. In
 * shuffled epochs those are at least (d-1)b + 1 steps apart, and 2d of them (2d-1)b + 1: of two pairs that share their middle one
 * is at least half of that apart. The k - d pairs of a d make d chains of such pairs, i, i + d, i + 2d, ...
 */
static double pairs_beyond(const blttree_strategy *s, const sensitivity_task *task, int64_t d) {
    const int64_t k = task->k, b = task->b;
    if (sensitivity_task_pattern(task) == WORKLOAD_APART) return (double)(k - d) * largest_beyond(s, d * b);
    const int64_t whole = (k - d) / d, longer = (k - d) % d;
    const int64_t halves = longer * ((whole + 1) / 2) + (d - longer) * (whole / 2);
    return (double)(k - d - halves) * largest_beyond(s, (d - 1) * b + 1) +
           (double)halves * largest_beyond(s, ((2 * d - 1) * b + 2) / 2);
}

static dpmf_status sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done,
                               sensitivity_found *out) {
    const blttree_strategy *self = cast(s);
    const workload_pattern pattern = sensitivity_task_pattern(task);
    *done = task->strategy == s && task->bound == DPMF_BOUND_AUTO && s->steps > GENERAL_MAX &&
            (pattern == WORKLOAD_APART || pattern == WORKLOAD_EPOCHS) && coefficients_fall(self);
    if (!*done) return DPMF_OK;
    TRY(sensitivity_check_visits((double)task->k));
    double sum = (double)task->k * largest_beyond(self, 0);
    for (int64_t d = 1; d < task->k; d++)
        sum += 2 * pairs_beyond(self, task, d);
    *out = (sensitivity_found){sum * (1 + ROUNDING), DPMF_UPPER_BOUND, SENSITIVITY_METHOD_DISTANCE};
    return DPMF_OK;
}

static void write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const blttree_strategy *self = cast(s);
    (void)w;
    base_tensors_add(tensors, "strategy.levels", self->levels, 3, self->shape);
    if (self->parameters == 0) return; /* every level is a single item */
    base_tensors_add(tensors, "strategy.scale", self->parameters, 0, self->scale);
    base_tensors_add(tensors, "strategy.gap", self->parameters, 0, self->gap);
}

static dpmf_status leading(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out);

static const strategy_ops BLTTREE = {.class_name = "blt-tree",
                                     .release = release,
                                     .apply = apply,
                                     .solve = solve,
                                     .step = step,
                                     .buffers = buffers,
                                     .column = column,
                                     .column_norms = column_norms,
                                     .gram = gram,
                                     .leading = leading,
                                     .squared_errors = blttree_squared_errors,
                                     .squared_error_range = blttree_error_range,
                                     .squared_error_sums = blttree_error_sums,
                                     .longest_column = longest_column,
                                     .sensitivity = sensitivity,
                                     .write = write};

/* ---- made ---- */

/* Branching, weight and BLT of each level are set; all that follows from them, and the numbers, are made here. */
static dpmf_status complete(blttree_strategy *s) {
    int64_t span = 1, first = 0, numbers = 0, parameters = 0;
    for (int k = 0; k < s->levels; k++) {
        level *l = &s->level[k];
        l->span = span;
        l->first = first;
        if (l->branching > s->base.steps / span + 1) l->branching = s->base.steps / span + 1; /* at the top */
        l->items = l->branching - 1;
        l->inverse = l->c.count == 0 ? (blt_parameters){.total = 1} : blt_invert(&l->c);
        span *= l->branching; /* at most twice the steps */
        first += l->c.count + 1;
        numbers += 2 * l->items + 1;
        parameters += l->c.count;
    }
    TRY(base_alloc_doubles(numbers, "the coefficients", &s->numbers));
    TRY(base_alloc_doubles(3 * s->levels + 2 * parameters, "the parameters", &s->shape));
    s->parameters = parameters;
    s->scale = s->shape + 3 * s->levels;
    s->gap = s->scale + parameters;
    double *at = s->numbers;
    for (int64_t k = 0, from = 0; k < s->levels; k++) {
        level *l = &s->level[k];
        l->column = at;
        l->squares = at + l->items;
        at += 2 * l->items + 1;
        blt_coefficients(&l->c, l->items, l->column);
        base_running sum = {0};
        for (int64_t i = 0; i < l->items; i++) {
            base_running_add(&sum, l->column[i] * l->column[i]);
            l->squares[i + 1] = base_running_value(&sum);
        }
        s->shape[3 * k] = (double)l->branching;
        s->shape[3 * k + 1] = l->c.count;
        s->shape[3 * k + 2] = l->weight;
        for (int i = 0; i < l->c.count; i++, from++) {
            s->scale[from] = l->c.scale[i];
            s->gap[from] = l->c.gap[i];
        }
    }
    return DPMF_OK;
}

/* The first levels whose items the steps can finish. */
static dpmf_status leading(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out) {
    const blttree_strategy *whole = cast(s);
    blttree_strategy *part = NULL;
    dpmf_status status = DPMF_OK;
    TRY(strategy_new(&BLTTREE, sizeof *part, DPMF_FAMILY_BLT_TREE, steps, (dpmf_strategy **)&part));
    while (part->levels < whole->levels && whole->level[part->levels].span <= steps) {
        const level *l = &whole->level[part->levels];
        part->level[part->levels++] = (level){.branching = l->branching, .weight = l->weight, .c = l->c};
    }
    TRY_DONE(complete(part));
    *out = &part->base;
    part = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)part);
    return status;
}

/* The least factor whose `levels`-th power is above the steps. */
static int64_t branching_of(int64_t steps, int levels) {
    int64_t m = (int64_t)floor(pow((double)steps, 1.0 / levels));
    for (m = m > 2 ? m - 1 : 2;; m++) {
        int64_t power = 1;
        for (int l = 0; l < levels && power <= steps; l++)
            power = power > steps / m ? steps + 1 : power * m;
        if (power > steps) return m;
    }
}

enum { LEVELS = 2 }; /* where they are not given */

dpmf_status blttree_create(const dpmf_workload *workload, const dpmf_strategy_options *o, dpmf_strategy **out) {
    const int64_t n = workload->steps;
    const int wanted = o->levels > 0 ? (int)o->levels : LEVELS;
    const int64_t branching = branching_of(n, wanted);
    blttree_strategy *s = NULL;
    dpmf_status status = DPMF_OK;
    if (branching > BLTTREE_BRANCHING_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "family " DPMF_FAMILY_BLT_TREE
                         ": %lld steps in %d levels have %lld items in a level, accepted up "
                         "to 2^24: more levels",
                         (long long)n, wanted, (long long)branching);
    TRY(strategy_new(&BLTTREE, sizeof *s, DPMF_FAMILY_BLT_TREE, n, (dpmf_strategy **)&s));
    for (int64_t left = n; left > 0;
         left /= branching) { /* the items of this level that are finished within the steps */
        level *l = &s->level[s->levels++];
        l->branching = left < branching ? left + 1 : branching;
        const int64_t items = l->branching - 1;
        if (items > 1 && o->buffers > 0)
            l->c = blt_rational_of((int)(o->buffers < items ? o->buffers : items), items);
        else if (items > 1)
            l->c = blt_rational_fewest(items, BLT_RATIONAL_SLACK / wanted);
        else
            l->c = (blt_parameters){.total = 1};
        const blt_parameters inverse = items > 1 ? blt_invert(&l->c) : l->c;
        const double column = blt_pattern_square(&l->c, items, 1, items), row = blt_last_row_square(&inverse, items);
        l->weight = sqrt(sqrt(row / column));
    }
    TRY_DONE(complete(s));
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

/* ---- read ---- */

/* One line of the file's array; `from` counts the scales and gaps that are used. */
static dpmf_status read_level(const double *line, const base_tensor *scale, const base_tensor *gap, int64_t *from,
                              level *out) {
    const int64_t given = scale == NULL ? 0 : scale->shape[0];
    const int sound = line[0] == rint(line[0]) && line[0] >= 2 && line[0] <= (double)BLTTREE_BRANCHING_MAX &&
                      line[1] == rint(line[1]) && line[1] >= 0 && line[1] <= BLT_MAX && line[2] >= 1e-100 &&
                      line[2] <= 1e100;
    if (!sound || *from + (int64_t)line[1] > given)
        return base_fail(
            DPMF_ERROR_FORMAT,
            "mechanism file: a level of %g items, %g buffers and weight %g, accepted 2 to 2^24, 0 to %d (as "
            "many as there are scales) and a positive number",
            line[0], line[1], line[2], BLT_MAX);
    const int count = (int)line[1];
    for (int i = 0; i < count; i++) {
        const double alpha = scale->values[*from + i], g = gap->values[*from + i];
        if (!(alpha > 0 && alpha <= 1e100 && g >= 1e-300 && g <= 1))
            return base_fail(DPMF_ERROR_FORMAT,
                             "mechanism file: a buffer of scale %g and gap %g, accepted above 0 and 1e-300 to 1", alpha,
                             g);
    }
    out->branching = (int64_t)line[0];
    out->weight = line[2];
    out->c = count == 0 ? (blt_parameters){.total = 1} : blt_make(count, scale->values + *from, gap->values + *from);
    *from += count;
    if (blt_is_positive(&out->c)) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: two buffers of a level have the same gap");
}

dpmf_status blttree_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *levels = NULL, *scale = NULL, *gap = NULL;
    blttree_strategy *s = NULL;
    int64_t from = 0, left = source->steps;
    dpmf_status status = DPMF_OK;
    if (strcmp(source->family, DPMF_FAMILY_BLT_TREE) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the class blt-tree in the family %s", source->family);
    TRY(strategy_array(source, "strategy.levels", -1, 3, &levels));
    if (levels->shape[0] < 1 || levels->shape[0] > BLTTREE_LEVELS_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: a tree of %lld levels, accepted 1 to %d",
                         (long long)levels->shape[0], BLTTREE_LEVELS_MAX);
    if (base_tensors_find(source->tensors, "strategy.scale") != NULL) {
        TRY(strategy_array(source, "strategy.scale", -1, 0, &scale));
        TRY(strategy_array(source, "strategy.gap", scale->shape[0], 0, &gap));
    }
    TRY(strategy_new(&BLTTREE, sizeof *s, DPMF_FAMILY_BLT_TREE, source->steps, (dpmf_strategy **)&s));
    for (int64_t k = 0; k < levels->shape[0]; k++) {
        if (left == 0)
            TRY_DONE(base_fail(DPMF_ERROR_FORMAT, "mechanism file: level %lld of a tree has no item", (long long)k));
        TRY_DONE(read_level(levels->values + 3 * k, scale, gap, &from, &s->level[k]));
        s->levels++;
        left /= s->level[k].branching;
    }
    if (left > 0 || from != (scale == NULL ? 0 : scale->shape[0]))
        TRY_DONE(base_fail(DPMF_ERROR_FORMAT,
                           "mechanism file: a tree whose levels do not reach its steps, or scales that no level has"));
    TRY_DONE(complete(s));
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

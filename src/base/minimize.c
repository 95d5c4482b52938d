/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limited-memory BFGS with a line search that brackets: the walk, the directions, the search along one.
 *
 * A search that ends without meeting its conditions (against a wall beyond which everything is infinite, f still
 * falling) has often seen lower points: the run restarts from the lowest one, with an empty memory. Where trials differ
 * by rounding only, the run has come to its normal end at full precision, and counts as converged if |gradient| is
 * small enough for the remaining decrease to be invisible.
 */
#include "base/minimize.h"
#include "base/linalg.h"
#include "base/memory.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LEVEL_TRIALS = 4, /* in one line search; after that, only rounding changes f */
    RUNS = 100,       /* from new starts, each of which must have gained something */
    PAIRS = 10,       /* of the memory, and */
    PAST = 5,         /* steps of the decrease rule, where the caller names none */
    PAST_MAX = 32
};
static const double LEVEL = 32 * DBL_EPSILON; /* part of f that rounding may be */

typedef struct place {
    double *x, *gradient, f;
} place;

typedef enum ending { MET, LIMIT, STUCK } ending; /* one of the two rules, the iterations, or the line search */

typedef struct walk {
    const base_objective *objective;
    const base_minimize_options *options;
    minimize_lbfgs own, *memory; /* the memory is the caller's or our own */
    base_minimum last;
    place at, trial; /* the point that the last step ended on, and the last one tried */
    double *direction;
    int level;    /* trials since then whose f equals its f up to rounding */
    double low_f; /* the lowest trial since then that was not accepted */
    double *low;
    double past[PAST_MAX]; /* f after the last steps of this run, step k in place k modulo the rule's number */
} walk;

static double level_of(double f) {
    return LEVEL * fmax(1, fabs(f));
}

static dpmf_status evaluate_at(walk *w, place *p) {
    p->f = INFINITY;
    TRY(w->objective->value(w->objective->context, p->x, &p->f, p->gradient));
    w->last.evaluations++;
    return DPMF_OK;
}

/* Forgets the trials of the last point, since w->at is a new one. */
static dpmf_status arrive(walk *w) {
    char what[160];
    w->last.f = w->low_f = w->at.f;
    w->last.gradient = base_norm(w->objective->count, w->at.gradient);
    w->level = 0;
    if (w->options->what == NULL) return DPMF_OK;
    snprintf(what, sizeof what, "%.100s, step %d, %.9g", w->options->what, w->last.iterations, w->last.f);
    return base_progress(w->options->run, what, -1);
}

/* Starts from the point in w->at.x. */
static dpmf_status start_walk(walk *w) {
    TRY(evaluate_at(w, &w->at));
    if (!isfinite(w->at.f))
        return base_fail(DPMF_ERROR_NUMERICAL, "the optimization starts at a point of infinite loss");
    return arrive(w);
}

static dpmf_status try_step(walk *w, minimize_line_search *line, minimize_line_end *end) {
    const int64_t n = w->objective->count;
    const double *restrict x = w->at.x, *restrict d = w->direction, step = line->next;
    double *restrict to = w->trial.x;
    for (int64_t i = 0; i < n; i++)
        to[i] = x[i] + step * d[i];
    TRY(evaluate_at(w, &w->trial));
    if (!isfinite(w->trial.f)) {
        *end = minimize_line_take_wall(line);
        return DPMF_OK;
    }
    *end = minimize_line_take(line, w->trial.f, base_dot(n, w->trial.gradient, d));
    w->level = fabs(w->trial.f - w->at.f) <= level_of(w->trial.f) ? w->level + 1 : 0;
    if (*end != MINIMIZE_LINE_FOUND && w->trial.f < w->low_f) {
        w->low_f = w->trial.f;
        memcpy(w->low, w->trial.x, (size_t)n * sizeof *w->low);
    }
    return DPMF_OK;
}

/* Searches from w->at along the direction; *found: w->trial is the next point. */
static dpmf_status search_line(walk *w, int *found) {
    const int64_t n = w->objective->count;
    const double slope = base_dot(n, w->at.gradient, w->direction);
    /* without a memory the length of the direction has no meaning: the first trial has length 1 */
    const double first = w->memory->used > 0 ? 1 : 1 / base_norm(n, w->direction);
    minimize_line_search line;
    minimize_line_end end = MINIMIZE_LINE_GOES_ON;
    *found = 0;
    if (!(slope < 0 && first > 0)) return DPMF_OK; /* by rounding, the direction does not descend */
    minimize_line_start(&line, w->at.f, slope, first);
    while (end == MINIMIZE_LINE_GOES_ON && w->level < LEVEL_TRIALS)
        TRY(try_step(w, &line, &end));
    *found = end == MINIMIZE_LINE_FOUND;
    return DPMF_OK;
}

static int is_flat(const walk *w) {
    return w->last.gradient <= w->options->gradient * fmax(1, base_norm(w->objective->count, w->at.x));
}

/* f after `step` steps of this run: has it fallen too little since `past` steps before? */
static int falls_too_little(walk *w, int step) {
    const int past = w->options->past > 0 ? w->options->past : PAST;
    double *before = &w->past[step % past], f = w->at.f;
    const int end = step >= past && fabs(*before - f) < w->options->decrease * fabs(f);
    assert(past <= PAST_MAX);
    *before = f;
    return end;
}

static dpmf_status run_once(walk *w, ending *end) {
    int found = 1;
    *end = is_flat(w) ? MET : STUCK;
    (void)falls_too_little(w, 0);
    for (int step = 1; *end == STUCK; step++) {
        minimize_lbfgs_direction(w->memory, w->at.gradient, w->direction);
        TRY(search_line(w, &found));
        if (!found) break;
        const place last = w->at;
        minimize_lbfgs_remember(w->memory, last.x, last.gradient, w->trial.x, w->trial.gradient);
        w->at = w->trial;
        w->trial = last;
        w->last.iterations++;
        TRY(arrive(w));
        int enough = 0;
        if (w->options->enough != NULL)
            TRY(w->options->enough(w->objective->context, w->at.x, w->last.gradient, &enough));
        if (enough || is_flat(w) || falls_too_little(w, step))
            *end = MET;
        else if (w->last.iterations >= w->options->iterations)
            *end = LIMIT;
    }
    return DPMF_OK;
}

static dpmf_status run_all(walk *w) {
    for (int run = 0; run < RUNS && w->last.iterations < w->options->iterations; run++) {
        const int before = w->last.iterations, kept = run == 0 && w->memory->used > 0;
        ending end = STUCK;
        if (run > 0) minimize_lbfgs_forget(w->memory);
        TRY(run_once(w, &end));
        const int gained = w->low_f<w->at.f - level_of(w->at.f), moved = w->last.iterations> before;
        w->last.converged = end == MET || (end == STUCK && w->last.gradient <= 1e-5 * fmax(1, fabs(w->at.f)));
        if (w->last.converged || end == LIMIT || !(gained || moved || kept)) break;
        if (gained) {
            memcpy(w->at.x, w->low, (size_t)w->objective->count * sizeof *w->low);
            TRY(start_walk(w));
            w->last.iterations++;
        }
    }
    return DPMF_OK;
}

static dpmf_status create_walk(walk *w) {
    const int64_t n = w->objective->count;
    TRY(base_alloc_doubles(n, "the point", &w->at.x));
    TRY(base_alloc_doubles(n, "the gradient", &w->at.gradient));
    TRY(base_alloc_doubles(n, "the next point", &w->trial.x));
    TRY(base_alloc_doubles(n, "the next gradient", &w->trial.gradient));
    TRY(base_alloc_doubles(n, "the direction", &w->direction));
    TRY(base_alloc_doubles(n, "the lowest point", &w->low));
    w->memory = w->options->memory != NULL ? w->options->memory : &w->own;
    if (w->options->memory != NULL) return DPMF_OK;
    return minimize_lbfgs_create(n, w->options->pairs > 0 ? w->options->pairs : PAIRS, &w->own);
}

dpmf_status base_minimize(const base_objective *objective, const base_minimize_options *options, double *x,
                          base_minimum *out) {
    const size_t size = (size_t)objective->count * sizeof *x;
    walk w = {.objective = objective, .options = options};
    assert(options->memory == NULL || options->memory->n == objective->count);
    dpmf_status status = DPMF_OK;
    if (objective->count < 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " unknowns, accepted 1 and more", objective->count);
    TRY_DONE(create_walk(&w));
    memcpy(w.at.x, x, size);
    TRY_DONE(start_walk(&w));
    TRY_DONE(run_all(&w));
    memcpy(x, w.at.x, size);
    *out = w.last;
done:
    base_free(w.at.x);
    base_free(w.at.gradient);
    base_free(w.trial.x);
    base_free(w.trial.gradient);
    base_free(w.direction);
    base_free(w.low);
    minimize_lbfgs_free(&w.own);
    return status;
}

/*
 * The two loops of limited-memory BFGS (Nocedal 1980; Nocedal and Wright 2006, Algorithm 7.4), with the usual scaling
 * s.y / y.y of the first guess. We wrote our own because the optimum changes its objective on the way, bounds the
 * change of each unknown and stops on a certificate, because memory must come from our allocator, and because sums must
 * not depend on a library's threads.
 *
 * Both loops are bound by memory. A multiple of one vector is added and the product with the next one taken in the same
 * pass (add_and_dot), so that each pass reads three vectors where two would read four. Vectors lie at a distance that
 * is no multiple of a page: loads behind stores with the same last twelve bits of the address would wait for them.
 */
enum {
    BLOCK = 1024, /* unknowns per running sum of add_and_dot, a multiple of LANES */
    LANES = 8     /* doubles of a cache line, and running sums side by side */
};

dpmf_status minimize_lbfgs_create(int64_t n, int pairs, minimize_lbfgs *out) {
    minimize_lbfgs m = {.n = n, .pairs = pairs};
    assert(n >= 1 && pairs >= 1 && pairs <= MINIMIZE_LBFGS_PAIRS_MAX);
    m.stride = (n + LANES - 1) / LANES * LANES + LANES;
    if (m.stride % 512 == 0) m.stride += LANES;
    TRY(base_alloc_doubles(2 * pairs * m.stride, "the optimizer's memory", &m.vectors));
    *out = m;
    return DPMF_OK;
}

void minimize_lbfgs_free(minimize_lbfgs *m) {
    base_free(m->vectors);
    *m = (minimize_lbfgs){0};
}

void minimize_lbfgs_forget(minimize_lbfgs *m) {
    m->used = 0;
}

static double *step_of(const minimize_lbfgs *m, int64_t i) {
    return m->vectors + i * m->stride;
}

static double *change_of(const minimize_lbfgs *m, int64_t i) {
    return m->vectors + (m->pairs + i) * m->stride;
}

/* y = scale (y + factor x), block by block, and y . z. z may be y. */
static double add_and_dot(int64_t n, double factor, const double *x, double scale, double *y, const double *z) {
    double sums[LANES] = {0}, rest = 0;
    for (int64_t from = 0; from < n; from += BLOCK) {
        double s[LANES] = {0};
        int64_t to = from + BLOCK < n ? from + BLOCK : n, i = from;
        for (; i + LANES <= to; i += LANES) {
            double now[LANES];
            for (int64_t j = 0; j < LANES; j++)
                now[j] = scale * (y[i + j] + factor * x[i + j]);
            for (int64_t j = 0; j < LANES; j++)
                y[i + j] = now[j];
            for (int64_t j = 0; j < LANES; j++)
                s[j] += now[j] * z[i + j];
        }
        for (; i < to; i++) {
            y[i] = scale * (y[i] + factor * x[i]);
            rest += y[i] * z[i];
        }
        for (int64_t j = 0; j < LANES; j++)
            sums[j] += s[j];
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7])) + rest;
}

void minimize_lbfgs_direction(const minimize_lbfgs *m, const double *gradient, double *d) {
    double along[MINIMIZE_LBFGS_PAIRS_MAX], last = 0;
    for (int64_t i = 0; i < m->n; i++)
        d[i] = -gradient[i];
    if (m->used == 0) return;
    const int64_t newest = (m->turn - 1) % m->pairs, oldest = (m->turn - m->used) % m->pairs;
    const double scale = m->product[newest] / (m->length * m->length);
    last = base_dot(m->n, step_of(m, newest), d);
    for (int k = 1; k <= m->used; k++) { /* the newest first */
        const int64_t i = (m->turn - k) % m->pairs;
        const int end = k == m->used;
        const double *with = end ? change_of(m, oldest) : step_of(m, (m->turn - k - 1) % m->pairs);
        along[i] = last / m->product[i];
        last = add_and_dot(m->n, -along[i], change_of(m, i), end ? scale : 1, d, with);
    }
    for (int k = m->used; k >= 1; k--) {
        const int64_t i = (m->turn - k) % m->pairs;
        const double *with = k > 1 ? change_of(m, (m->turn - k + 1) % m->pairs) : d;
        last = add_and_dot(m->n, along[i] - last / m->product[i], step_of(m, i), 1, d, with);
    }
}

void minimize_lbfgs_remember(minimize_lbfgs *m, const double *x, const double *gradient, const double *next,
                             const double *next_gradient) {
    const int64_t i = m->turn % m->pairs;
    double *restrict step = step_of(m, i), *restrict change = change_of(m, i);
    for (int64_t j = 0; j < m->n; j++) {
        step[j] = next[j] - x[j];
        change[j] = next_gradient[j] - gradient[j];
    }
    const double product = base_dot(m->n, step, change), length = base_norm(m->n, change);
    /* curvature below rounding would spoil the estimate; the next pair overwrites the slot */
    if (!(product > 1e-10 * base_norm(m->n, step) * length)) {
        if (m->used == m->pairs) m->used--; /* the slot held the oldest pair */
        return;
    }
    m->product[i] = product;
    m->length = length;
    m->turn++;
    if (m->used < m->pairs) m->used++;
}

/*
 * The line search of More and Thuente (1994), which brackets: ACM Transactions on Mathematical Software 20, Sections 2
 * to 4. It looks for a step t with
 *
 *     phi(t) <= phi(0) + MU phi'(0) t     and     |phi'(t)| <= ETA |phi'(0)|,
 *
 * the strong conditions of Wolfe, under which the next pair of BFGS has positive curvature. It keeps an interval
 * between the best step so far and another end, such that the slope at the best one points into it, and interpolates:
 * by a cubic through both values and slopes, a parabola, or the secant of the slopes, always the safer one of two
 * (Section 4). Until a trial meets the first condition with a slope that is not too steep, the interval is one for
 * psi(t) = phi(t) - MU phi'(0) t, whose minimum has steps that meet both conditions around it (Section 2).
 *
 * We use this search because L-BFGS accepts its first trial nearly always, and where it does not, against walls of infinite
 * loss and in narrow valleys, interpolation with both slopes takes the fewest evaluations, which are expensive here.
 */
typedef minimize_line_point point;
typedef minimize_line_search search;

enum { TRIALS = 40 };
static const double MU = 1e-4;     /* of the decrease that the first slope promises */
static const double ETA = 0.9;     /* this part of the first slope may be left; BFGS needs no more exact a search */
static const double STRETCH = 4;   /* a step beyond all trials is this many times as long as the last one */
static const double SHRINK = 0.66; /* the interval must shrink to this part in two trials, or is halved */
static const double LEAST = 1e-20; /* a step outside of these bounds */
static const double MOST = 1e20;   /* means that the function cannot be minimized */

void minimize_line_start(search *s, double value, double slope, double step) {
    const point start = {0, value, slope};
    assert(slope < 0 && step > 0);
    *s = (search){.start = start, .best = start, .other = start, .next = step, .early = 1};
    s->width = MOST - LEAST;
    s->width_before = 2 * s->width;
}

/* The minimum of the cubic through a and b, values and slopes, possibly beyond them; NAN if there is none. */
static double cubic(const point *a, const point *b) {
    const double length = b->step - a->step;
    const double mean = 3 * (a->value - b->value) / length + a->slope + b->slope;
    const double scale = fmax(fabs(mean), fmax(fabs(a->slope), fabs(b->slope))); /* squares stay in range */
    if (!(scale > 0)) return NAN;
    const double inside = (mean / scale) * (mean / scale) - (a->slope / scale) * (b->slope / scale);
    const double root = copysign(scale * sqrt(fmax(0, inside)), length);
    return b->step - length * ((b->slope + root - mean) / (b->slope - a->slope + 2 * root));
}

/* The minimum of the parabola through both values and the slope at a. */
static double parabola(const point *a, const point *b) {
    const double length = b->step - a->step;
    return a->step + length * (a->slope / ((a->value - b->value) / length + a->slope) / 2);
}

/* The zero of the line through both slopes. */
static double secant(const point *a, const point *b) {
    return b->step + (a->step - b->step) * (b->slope / (b->slope - a->slope));
}

static double nearer(double to, double a, double b) {
    return fabs(a - to) < fabs(b - to) ? a : b;
}

static double farther(double from, double a, double b) {
    return fabs(a - from) > fabs(b - from) ? a : b;
}

/* The slope has the same sign and is flatter: the cubic may have no minimum beyond t, or one at infinity. */
static double beyond(const search *s, const point *best, const point *t, double least, double most) {
    const double end = t->step > best->step ? most : least, line = secant(best, t);
    double curve = cubic(best, t);
    if (!isfinite(curve) || (curve - t->step) * (t->step - best->step) <= 0) curve = end;
    if (!s->bracketed) return fmin(fmax(farther(t->step, curve, line), least), most);
    const double limit = t->step + SHRINK * (s->other.step - t->step), next = nearer(t->step, curve, line);
    return t->step > best->step ? fmin(next, limit) : fmax(next, limit);
}

/* Puts t into the interval of best and other, and gives the next step (Section 4, cases 1 to 4); the points hold phi or psi. */
static double divide(search *s, point *best, point *other, const point *t, double least, double most) {
    const int turned = t->slope * copysign(1, best->slope) < 0;
    double next;
    if (t->value > best->value) { /* a minimum lies between */
        const double curve = cubic(best, t), low = parabola(best, t);
        next = nearer(best->step, curve, low);
        if (next != curve) next = curve + (low - curve) / 2;
        s->bracketed = 1;
    } else if (turned) {
        next = farther(t->step, cubic(best, t), secant(best, t));
        s->bracketed = 1;
    } else if (fabs(t->slope) < fabs(best->slope)) {
        next = beyond(s, best, t, least, most);
    } else if (s->bracketed) {
        next = cubic(t, other);
    } else {
        next = t->step > best->step ? most : least;
    }
    if (t->value > best->value) {
        *other = *t;
    } else {
        if (turned) *other = *best;
        *best = *t;
    }
    return next;
}

/* psi and its slope in place of phi's, or back with the sign turned. */
static point tilt(point p, double by) {
    return (point){p.step, p.value - by * p.step, p.slope - by};
}

static double divide_interval(search *s, const point *t, double promised, double least, double most) {
    const double by = MU * s->start.slope;
    if (!(s->early && t->value <= s->best.value && t->value > promised))
        return divide(s, &s->best, &s->other, t, least, most);
    point best = tilt(s->best, by), other = tilt(s->other, by), now = tilt(*t, by);
    const double next = divide(s, &best, &other, &now, least, most);
    s->best = tilt(best, -by);
    s->other = tilt(other, -by);
    return next;
}

/* The next trial: `next`, or the middle where that is outside of the interval or the interval shrinks too slowly. */
static void aim(search *s, double next) {
    if (s->bracketed) {
        const double a = s->best.step, b = s->other.step, width = fabs(b - a);
        const int inside = next > fmin(a, b) && next < fmax(a, b);
        if (!inside || width >= SHRINK * s->width_before) next = a + (b - a) / 2;
        s->width_before = s->width;
        s->width = width;
    }
    s->next = fmin(fmax(next, LEAST), MOST);
}

minimize_line_end minimize_line_take(search *s, double value, double slope) {
    const point t = {s->next, value, slope};
    const double promised = s->start.value + MU * s->start.slope * t.step;
    double least = s->best.step, most = t.step + STRETCH * (t.step - s->best.step);
    if (s->bracketed) {
        least = fmin(s->best.step, s->other.step);
        most = fmax(s->best.step, s->other.step);
    }
    s->trials++;
    if (value <= promised && fabs(slope) <= -ETA * s->start.slope) return MINIMIZE_LINE_FOUND;
    if (s->trials >= TRIALS || t.step <= LEAST || t.step >= MOST) return MINIMIZE_LINE_STUCK;
    if (s->bracketed && (t.step <= least || t.step >= most || most - least <= DBL_EPSILON * most))
        return MINIMIZE_LINE_STUCK;
    if (value <= promised && slope >= MU * s->start.slope) s->early = 0;
    aim(s, divide_interval(s, &t, promised, least, most));
    return MINIMIZE_LINE_GOES_ON;
}

minimize_line_end minimize_line_take_wall(search *s) {
    const point mirror = {s->next, s->start.value, -s->start.slope};
    if (++s->trials >= TRIALS || s->next == s->best.step) return MINIMIZE_LINE_STUCK;
    s->other = mirror;
    s->bracketed = 1;
    aim(s, NAN);
    return MINIMIZE_LINE_GOES_ON;
}

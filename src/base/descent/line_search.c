/* SPDX-License-Identifier: Apache-2.0 */
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
 * We use this search because L-BFGS accepts its first trial nearly always, and where it does not, against walls of
 * infinite loss and in narrow valleys, interpolation with both slopes takes the fewest evaluations, which are expensive
 * here.
 */
#include "base/descent/line_search.h"

#include <assert.h>
#include <float.h>
#include <math.h>

typedef descent_line_point point;
typedef descent_line_search search;

enum { TRIALS = 40 };
static const double MU = 1e-4;     /* of the decrease that the first slope promises */
static const double ETA = 0.9;     /* this part of the first slope may be left; BFGS needs no more exact a search */
static const double STRETCH = 4;   /* a step beyond all trials is this many times as long as the last one */
static const double SHRINK = 0.66; /* the interval must shrink to this part in two trials, or is halved */
static const double LEAST = 1e-20; /* a step outside of these bounds */
static const double MOST = 1e20;   /* means that the function cannot be minimized */

void descent_line_start(search *s, double value, double slope, double step) {
    const point start = {0, value, slope};
    assert(slope < 0 && step > 0);
    *s = (search){.start = start, .best = start, .other = start, .next = step, .early = 1};
    s->width = MOST - LEAST;
    s->width_before = 2 * s->width;
}

/* ---- interpolation ---- */

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

/*
 * Puts t into the interval of best and other, and gives the next step (Section 4, cases 1 to 4). The three points hold
 * phi or, in the early stage, psi.
 */
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

/* ---- one trial ---- */

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

descent_line_end descent_line_take(search *s, double value, double slope) {
    const point t = {s->next, value, slope};
    const double promised = s->start.value + MU * s->start.slope * t.step;
    double least = s->best.step, most = t.step + STRETCH * (t.step - s->best.step);
    if (s->bracketed) {
        least = fmin(s->best.step, s->other.step);
        most = fmax(s->best.step, s->other.step);
    }
    s->trials++;
    if (value <= promised && fabs(slope) <= -ETA * s->start.slope) return DESCENT_LINE_FOUND;
    if (s->trials >= TRIALS || t.step <= LEAST || t.step >= MOST) return DESCENT_LINE_STUCK;
    if (s->bracketed && (t.step <= least || t.step >= most || most - least <= DBL_EPSILON * most))
        return DESCENT_LINE_STUCK;
    if (value <= promised && slope >= MU * s->start.slope) s->early = 0;
    aim(s, divide_interval(s, &t, promised, least, most));
    return DESCENT_LINE_GOES_ON;
}

descent_line_end descent_line_take_wall(search *s) {
    const point mirror = {s->next, s->start.value, -s->start.slope};
    if (++s->trials >= TRIALS || s->next == s->best.step) return DESCENT_LINE_STUCK;
    s->other = mirror;
    s->bracketed = 1;
    aim(s, NAN);
    return DESCENT_LINE_GOES_ON;
}

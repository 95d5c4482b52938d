/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tiles make rows ahead at which step. A tile that makes `ahead` rows at a time is read and written once in as many
 * steps; but if all tiles did so at the same step, that step would take as long as `ahead` of them, and the first one
 * would also wait for all memory of the stream. So the tiles are cut into `turns`, runs of neighbours, and turn c is
 * due at the steps t with
 *
 *     t mod ahead = floor(c ahead / turns),
 *
 * one after the other: every step then takes about the same time. A turn that has no row left before it is due (at
 * the start, after a seek or a saved state) makes few: as many as pay for reading the rows that they depend on, none of
 * which exist at the start. Who makes a row when never changes what it is.
 *
 * A state that is saved has the same rows of every tile, and how many does not depend on tiles or threads, since the
 * states of shards are put together: those of a turn that was due at the step before.
 */
#include "noise/plan.h"

#include <assert.h>

/* Sizes between a row and `ahead`: a group of the kernels, and a few of them. */
static const int64_t FEW[] = {16, KERNELS_COMBINE_ROWS, 1};
enum { PAYS = 3 }; /* making a row takes about as long as reading so many */

int64_t noise_turns_of(const noise_plan *plan) {
    const int64_t share = plan->threads > 1 ? 4 * plan->threads : 1; /* tiles that keep every thread busy */
    if (!plan->route->holds || plan->elsewhere || plan->tiles < share) return 1;
    return noise_at_most(plan->tiles / share, plan->ahead);
}

/* How many rows turn c makes at step t, of which it has none. */
static int64_t rows_due(const noise_plan *plan, int64_t c, int64_t t) {
    const int64_t due = c * plan->ahead / plan->turns;
    const int64_t left = plan->turns == 1 ? 0 : (due - t % plan->ahead + plan->ahead) % plan->ahead;
    const int64_t past = noise_at_most(t % plan->length, plan->lags);
    if (left == 0) return plan->ahead;
    int k = 0;
    while (FEW[k] > 1 && (FEW[k] > left || PAYS * FEW[k] > past))
        k++;
    return FEW[k];
}

/* As many rows as a turn may have made, and no more than one has; each row ahead takes the place of an old one. */
static int64_t most_made(const noise_stream *s) {
    if (s->reached <= s->level) return s->level;
    return noise_at_most(s->reached - 1 + s->plan.ahead, s->plan.strategy->steps);
}

static void forget_old_rows(noise_stream *s) {
    const int64_t oldest = most_made(s) - s->plan.slots;
    if (s->kept < oldest) s->kept = oldest;
}

void noise_turns_begin(noise_stream *s) {
    const int64_t left = s->plan.strategy->steps - s->step;
    for (int64_t c = 0; c < s->plan.turns; c++) {
        assert(s->turn[c].made >= s->step);
        s->turn[c].rows = s->turn[c].made > s->step ? 0 : noise_at_most(rows_due(&s->plan, c, s->step), left);
    }
}

int64_t noise_turns_next(const noise_stream *s, int64_t below) {
    int64_t rows = 0;
    for (int64_t c = 0; c < s->plan.turns; c++)
        if (s->turn[c].rows < below && s->turn[c].rows > rows) rows = s->turn[c].rows;
    return rows;
}

void noise_turns_end(noise_stream *s) {
    int64_t least = INT64_MAX;
    for (int64_t c = 0; c < s->plan.turns; c++) {
        noise_turn *turn = &s->turn[c];
        turn->made += turn->rows;
        turn->rows = 0;
        if (turn->made < least) least = turn->made;
    }
    s->made = least;
}

void noise_turns_step(noise_stream *s) {
    s->step++;
    if (s->reached < s->step) s->reached = s->step;
    forget_old_rows(s);
}

void noise_turns_set(noise_stream *s, int64_t made) {
    for (int64_t c = 0; c < s->plan.turns; c++)
        s->turn[c] = (noise_turn){.made = made};
    s->made = s->level = made;
}

void noise_turns_make(noise_stream *s, int64_t rows) {
    noise_task job = {.stream = s, .rows = rows};
    assert(s->made == s->level);
    for (int64_t c = 0; c < s->plan.turns; c++)
        s->turn[c].rows = rows;
    s->plan.route->prepare(s, s->made, rows);
    noise_tiles_run(&job);
    noise_turns_end(s);
    s->level = s->made;
    forget_old_rows(s);
}

void noise_turns_level(noise_stream *s) {
    const noise_plan *plan = &s->plan;
    const int64_t made = most_made(s);
    for (int64_t c = 0; c < plan->turns && plan->route->holds; c++) {
        noise_turn *turn = &s->turn[c];
        noise_task job = {.stream = s, .rows = made - turn->made};
        assert(job.rows >= 0 && job.rows <= plan->ahead);
        if (job.rows == 0) continue;
        turn->rows = job.rows;
        plan->route->prepare(s, turn->made, job.rows);
        noise_tiles_run(&job);
        noise_turns_end(s);
    }
    s->level = s->made;
}

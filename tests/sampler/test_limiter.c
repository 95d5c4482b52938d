/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on the rows of users: each user is counted within the limit in any window, over all calls; every choice of a user's
 * rows is equally likely and does not depend on others; lines that were counted come again only with the same rows.
 */
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES = 12, USERS = 40, ROWS = 3000 };

static uint8_t key[DPMF_KEY_SIZE];
static char state_path[] = "test_limiter.state";

static void windows_of(int64_t length, int64_t first, int64_t lines, int64_t *window) {
    for (int64_t i = 0; i <= lines; i++)
        window[i] = length == 0 ? 0 : (first + i) / length;
}

typedef struct event {
    int user, line, column; /* the line of the whole stream */
} event;

/* The counts of the events of some users in lines [first, first + lines), by one call. */
static dpmf_status limit_status(dpmf_limiter_options o, int64_t length, int64_t count, const event *events,
                                int64_t *counts, int *is_first) {
    int64_t window[LINES + 1];
    dpmf_limiter *l = NULL;
    char name[16];
    windows_of(length, o.first, o.lines, window);
    o.window = window;
    o.state = state_path;
    if (o.binding == NULL) o.binding = "test";
    dpmf_status status = dpmf_limiter_create(key, &o, &l);
    for (int64_t i = 0; i < count && status == DPMF_OK; i++) {
        if (events[i].line < o.first || events[i].line >= o.first + o.lines) continue;
        const int size = snprintf(name, sizeof name, "u%d", events[i].user);
        status = dpmf_limiter_add(l, name, size, events[i].line - o.first, events[i].column);
    }
    if (status == DPMF_OK) status = dpmf_limiter_finish(l, counts, is_first);
    dpmf_limiter_free(l);
    return status;
}

static void limit(dpmf_limiter_options o, int64_t length, int64_t count, const event *events, int64_t *counts) {
    int is_first = -1;
    check_ok(limit_status(o, length, count, events, counts, &is_first));
    assert_int_equal(is_first, o.first == 0);
}

static void fresh(int number) {
    check_ok(dpmf_key_testing((uint64_t)number, key));
    unlink(state_path);
}

static void make_events(event *events) {
    uint64_t seed = 9;
    for (int i = 0; i < ROWS; i++) {
        const double u = (check_random(&seed) + 1) / 2;
        events[i] =
            (event){(int)(USERS * u * u), (int)(LINES * (check_random(&seed) + 1) / 2), check_random(&seed) > 0};
    }
}

enum { WIDE = 2 * USERS };

/* Each user has two columns, so that its own counts can be seen; in calls of several sizes. */
static void limit_in_parts(dpmf_limiter_options o, int64_t length, int64_t count, const event *events, int part,
                           int64_t *counts) {
    static const int64_t steps[] = {5, 2, 1, LINES};
    unlink(state_path);
    for (int64_t at = 0, k = part; at < LINES; at += o.lines, k++) {
        o.first = at;
        o.lines = at + steps[k % 4] < LINES ? steps[k % 4] : LINES - at;
        o.begin = at == 0;
        limit(o, length, count, events, counts + at * WIDE);
    }
}

static void check_user(const event *events, int u, const int64_t *counts, int64_t length, int64_t most, int once) {
    int64_t in_window = 0, possible = 0;
    for (int64_t t = 0; t < LINES; t++) {
        const int64_t here = counts[t * WIDE + 2 * u] + counts[t * WIDE + 2 * u + 1];
        int64_t there = 0;
        for (int64_t i = 0; i < ROWS; i++)
            there += events[i].user == u && events[i].line == t;
        in_window += here;
        possible += once ? there > 0 : there;
        assert_true(here <= (once ? 1 : most) && here <= there);
        if (t + 1 < LINES && (length == 0 || (t + 1) % length != 0)) continue;
        assert_int_equal(in_window, possible < most ? possible : most);
        in_window = possible = 0;
    }
}

static void test_nobody_is_counted_beyond_the_limit(void **state) {
    (void)state;
    static event events[ROWS], own[ROWS];
    static int64_t counts[LINES * WIDE], alone[LINES * WIDE];
    static const int64_t lengths[] = {1, 4, 0};
    make_events(events);
    for (int i = 0; i < ROWS; i++)
        events[i].column += 2 * events[i].user;
    for (int n = 0; n < 12; n++) {
        const int64_t length = lengths[n % 3], most = 1 + n / 3 % 2 * 6;
        dpmf_limiter_options o = {.at_most = most, .once = n / 6, .columns = WIDE};
        fresh(n);
        limit_in_parts(o, length, ROWS, events, n, counts);
        for (int u = 0; u < USERS; u++)
            check_user(events, u, counts, length, most, o.once);
        const int chosen = 3 * n % USERS; /* alone: the others change nothing */
        int64_t rows = 0;
        for (int i = 0; i < ROWS; i++)
            if (events[i].user == chosen) own[rows++] = events[i];
        limit_in_parts(o, length, rows, own, n, alone);
        for (int i = 0; i < LINES * WIDE; i++)
            assert_int_equal(alone[i], i % WIDE / 2 == chosen ? counts[i] : 0);
    }
    unlink(state_path);
}

/*
 * 3000 users with 6 rows on 6 lines, of which 2 are kept: 15 pairs. Chi-squared of 14 degrees exceeds 46 with probability
 * 3e-5. With a second row on each line and once, the same for lines, and each row of a line is taken in half the cases
 * (binomial of 6000: beyond 4.2 deviations with probability 3e-5). The key is fixed: no run fails by chance.
 */
static void test_every_choice_is_equally_likely(void **state) {
    (void)state;
    enum { MANY = 3000 };
    static event events[12 * MANY];
    static int64_t counts[6 * 2 * MANY];
    for (int i = 0; i < 12 * MANY; i++) /* all first rows before all second ones */
        events[i] = (event){i % (6 * MANY) / 6, i % 6, 2 * (i % (6 * MANY) / 6) + i / (6 * MANY)};
    for (int once = 0; once < 2; once++) {
        double pairs[64] = {0}, chi = 0;
        int64_t second = 0;
        fresh(1000 + once);
        limit((dpmf_limiter_options){.at_most = 2, .once = once, .lines = 6, .columns = 2 * MANY, .begin = 1}, 0,
              (once ? 12 : 6) * MANY, events, counts);
        for (int u = 0; u < MANY; u++) {
            int mask = 0;
            for (int t = 0; t < 6; t++) {
                const int64_t *at = counts + t * 2 * MANY + 2 * u;
                mask |= (at[0] + at[1] > 0) << t;
                second += at[1];
            }
            pairs[mask]++;
        }
        for (int a = 0; a < 6; a++)
            for (int b = 0; b < a; b++) {
                const double off = pairs[1 << a | 1 << b] - MANY / 15;
                chi += off * off / (MANY / 15);
            }
        assert_true(chi < 46);
        assert_true(!once || fabs((double)second - MANY) < 4.2 * 38.73);
    }
    unlink(state_path);
}

static void test_lines_come_again_only_with_the_same_rows(void **state) {
    (void)state;
    static event events[ROWS];
    int64_t first[2 * LINES], again[2 * LINES];
    int is_first = 0;
    struct stat info;
    make_events(events);
    fresh(7);
    dpmf_limiter_options o = {.at_most = 3, .lines = 4, .columns = 2, .begin = 1};
    limit(o, 0, ROWS, events, first);
    assert_int_equal(stat(state_path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    o.begin = 0;
    limit(o, 0, ROWS, events, again);
    assert_memory_equal(first, again, 8 * sizeof *first);
    check_fails(DPMF_ERROR_ARGUMENT, limit_status(o, 0, ROWS - 10, events, again, &is_first));
    check_message("from other rows");
    limit(o, 0, ROWS, events, again); /* a refusal changes nothing */
    o.first = 2;
    check_fails(DPMF_ERROR_ARGUMENT, limit_status(o, 0, ROWS, events, again, &is_first));
    check_message("already");
    o.first = 5;
    check_fails(DPMF_ERROR_ARGUMENT, limit_status(o, 0, ROWS, events, again, &is_first));
    check_message("no gap");
    o.first = 4;
    limit(o, 0, ROWS, events, first);
    limit(o, 0, ROWS, events, again); /* with the counts of before, not of after */
    assert_memory_equal(first, again, 8 * sizeof *first);
    o.first = 8;
    for (int k = 0; k < 3; k++) {
        dpmf_limiter_options other = o;
        other.at_most += k == 0;
        other.once = k == 1;
        if (k == 2) other.binding = "another";
        check_fails(DPMF_ERROR_ARGUMENT, limit_status(other, 0, ROWS, events, again, &is_first));
        check_message("another limit");
    }
    FILE *file = fopen(state_path, "r+b");
    assert_non_null(file);
    fseek(file, 130, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, 130, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
    check_fails(DPMF_ERROR_FORMAT, limit_status(o, 0, ROWS, events, again, &is_first));
    check_message("changed");
    unlink(state_path);
    check_fails(DPMF_ERROR_ARGUMENT, limit_status(o, 0, ROWS, events, again, &is_first));
    check_message("missing");
}

static void test_two_programs_and_bad_questions_are_refused(void **state) {
    (void)state;
    const int64_t window[] = {0, 0}, falling[] = {1, 0};
    int64_t count = 0;
    int is_first = 0;
    dpmf_limiter *l = NULL, *other = NULL;
    fresh(8);
    dpmf_limiter_options o = {
        .at_most = 1, .lines = 1, .columns = 1, .window = window, .state = state_path, .binding = "", .begin = 1};
    check_ok(dpmf_limiter_create(key, &o, &l));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_limiter_create(key, &o, &other));
    check_message("in use");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_limiter_add(l, "a", 1, 1, 0));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_limiter_add(l, "a", 0, 0, 0));
    check_ok(dpmf_limiter_finish(l, &count, &is_first));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_limiter_finish(l, &count, &is_first));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_limiter_add(l, "a", 1, 0, 0));
    dpmf_limiter_free(l);
    dpmf_limiter_free(NULL);
    for (int k = 0; k < 5; k++) {
        dpmf_limiter_options bad = o;
        if (k == 0) bad.at_most = 0;
        if (k == 1) bad.lines = 0;
        if (k == 2) bad.window = falling;
        if (k == 3) bad.columns = (int64_t)1 << 40;
        if (k == 4) bad.binding = NULL;
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_limiter_create(key, &bad, &other));
    }
    unlink(state_path);
}

static void test_any_allocation_of_a_limit_may_fail(void **state) {
    (void)state;
    static event events[ROWS];
    int64_t counts[2 * LINES];
    int is_first = 0;
    make_events(events);
    fresh(9);
    const dpmf_limiter_options o = {.at_most = 3, .lines = LINES, .columns = 2, .begin = 1};
    FAIL_EACH((unlink(state_path), limit_status(o, 0, 400, events, counts, &is_first)));
    unlink(state_path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_is_counted_beyond_the_limit),
        cmocka_unit_test(test_every_choice_is_equally_likely),
        cmocka_unit_test(test_lines_come_again_only_with_the_same_rows),
        cmocka_unit_test(test_two_programs_and_bad_questions_are_refused),
        cmocka_unit_test(test_any_allocation_of_a_limit_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

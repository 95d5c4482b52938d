/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "options/numbers.h"
#include "output.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop_asked, ends_at_once, line_shown;
static const char *volatile left_behind; /* NULL, or a file to remove when the program ends at once */
static double last_shown = -1.0;

static void ask_stop(int number) {
    static const char CLEAR[] = "\r\033[K", MESSAGE[] = "dpmf: cancelled\n";
    (void)number;
    stop_asked = 1;
    if (!ends_at_once) return;
    if (left_behind != NULL) unlink(left_behind);
    if (line_shown && write(STDERR_FILENO, CLEAR, sizeof CLEAR - 1) < 0) {}
    if (write(STDERR_FILENO, MESSAGE, sizeof MESSAGE - 1) < 0) {} /* stderr has no reader: the exit code must suffice */
    _exit(EXIT_CANCELLED);
}

bool end_at_once(const char *leaving) {
    left_behind = leaving;
    ends_at_once = 1;
    return !interrupted();
}

void end_later(void) {
    ends_at_once = 0;
}

void watch_signals(void) {
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    /* Not SA_RESTART: a read that waits must end. A second signal finds the default handler, and kills. */
    action.sa_handler = ask_stop;
    action.sa_flags = (int)SA_RESETHAND;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        struct sigaction before;
        if (sigaction(stops[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(stops[i], &action, NULL); /* one that the shell ignores for us (nohup, &) stays ignored */
    }
}

bool interrupted(void) {
    return stop_asked != 0;
}

bool wait_readable(int file) {
    struct pollfd wanted = {.fd = file, .events = POLLIN};
    /* A signal may come just before the wait and not end it, so no wait is long. */
    while (!interrupted()) {
        int ready = poll(&wanted, 1, 100);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return true; /* the read will report the failure */
    }
    return false;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/*
 * Seconds between lines in a log: DPMF_PROGRESS, 0 for no lines, 10 without it. It is read once, since every call needs
 * it.
 */
static double seconds_between_lines(void) {
    static double found = -1.0;
    if (found < 0.0) {
        const char *text = getenv("DPMF_PROGRESS");
        if (text == NULL || !read_number(text, &found) || !(found >= 0.0)) found = 10.0;
    }
    return found;
}

/* On a terminal a bar that is drawn over, else a line: standard error may be a log. */
static bool is_time(bool terminal) {
    const double now = seconds(), between = terminal ? 0.2 : seconds_between_lines();
    if (last_shown < 0.0) last_shown = now; /* nothing is shown for work that ends at once */
    if (between == 0.0 || now - last_shown < between) return false;
    last_shown = now;
    return true;
}

void progress_show(const char *what, double done) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (!is_time(terminal)) return;
    if (!terminal) {
        if (done >= 0.0)
            fprintf(stderr, "dpmf: %3d.%d%% %.70s\n", (int)(100.0 * done), (int)(1000.0 * done) % 10, what);
        else
            fprintf(stderr, "dpmf: %.70s\n", what);
        return;
    }
    line_shown = 1;
    if (done >= 0.0) {
        static const char full[] = "##############################", empty[] = "..............................";
        int filled = done >= 1.0 ? 30 : (int)(30.0 * done);
        fprintf(stderr, "\r\033[K%.*s%.*s %3d%% %.40s", filled, full, 30 - filled, empty, (int)(100.0 * done), what);
    } else {
        fprintf(stderr, "\r\033[K%.70s", what);
    }
    fflush(stderr);
}

static int report_progress(void *context, const char *what, double done) {
    (void)context;
    if (interrupted()) return 1;
    progress_show(what, done);
    return 0;
}

dpmf_run run_with(int threads) {
    dpmf_run run = dpmf_run_defaults();
    run.threads = threads;
    run.progress = report_progress;
    return run;
}

void progress_clear(void) {
    if (!line_shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    line_shown = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf VERB [OPTION]... [FILE]: finds the verb and runs it. */
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A program may be started with stdin, stdout or stderr closed; the next file opened would then take that number and
 * receive what is meant for the stream. A /dev/null that is open for the wrong direction fills each gap, so that using
 * the stream still fails.
 */
static void fill_closed_streams(void) {
    for (int file = 0; file <= 2; file++)
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", file == 0 ? O_WRONLY : O_RDONLY) < 0) return;
}

/* Fail before long work if an output path is not writable. */
static int try_output_paths(const arguments *given) {
    static const option_id written[] = {OPTION_OUT, OPTION_CHECKPOINT, OPTION_PUBLIC_TEST_CURVE};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        const char *path = given->text[written[i]];
        char directory[PATH_MAX], shown[SHOWN];
        struct stat info;
        if (path == NULL || path[0] == '\0' || strlen(path) >= sizeof directory) continue; /* the verb refuses these */
        strcpy(directory, path);
        char *slash = strrchr(directory, '/');
        if (slash != NULL) slash[slash == directory ? 1 : 0] = '\0';
        if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
            errno = EISDIR;
        else if (access(slash != NULL ? directory : ".", W_OK | X_OK) == 0)
            continue;
        return fail(EXIT_UNABLE, "--%s: cannot write '%s': %s", options[written[i]].name, show(path, shown),
                    strerror(errno));
    }
    return 0;
}

/* Figures that are computed as asked, and protect hardly anybody. */
static void warn(const arguments *given) {
    const double epsilon = given->number[OPTION_EPSILON], delta = given->number[OPTION_DELTA];
    char shown[SHOWN];
    if (option_given(given, OPTION_EPSILON) && epsilon >= 100.0)
        fail(0, "--epsilon %s protects nothing in practice: values from 0.1 to 10 are common",
             show(given->text[OPTION_EPSILON], shown));
    if (option_given(given, OPTION_DELTA) && delta >= 0.1)
        fail(
            0,
            "--delta %s allows publishing all data of a unit with that probability: use far less than 1 divided by the "
            "number of units",
            show(given->text[OPTION_DELTA], shown));
}

static int print_version(void) {
    text_buffer t = {0};
    text_add(&t, "dpmf %s\n", dpmf_version());
    return text_finish(&t);
}

int main(int argc, char **argv) {
    fill_closed_streams();
    watch_signals();
    if (argc < 2) return print_tour();
    bool help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    bool version = strcmp(argv[1], "--version") == 0;
    char shown[SHOWN];
    if ((help || version) && argc > 2)
        return fail(EXIT_USAGE, "unexpected argument %s: %s stands alone", show(argv[2], shown), argv[1]);
    if (help) return print_general_help();
    if (version) return print_version();

    verb_id found;
    const char *closest;
    if (!find_verb(argv[1], &found, &closest)) {
        if (closest != NULL)
            return fail(EXIT_USAGE, "unknown verb %s: did you mean '%s'?", show(argv[1], shown), closest);
        return fail(EXIT_USAGE, "unknown verb %s: 'dpmf help' lists the verbs", show(argv[1], shown));
    }
    arguments given;
    int code = parse_arguments(argc, argv, 2, found, &given);
    if (code != 0) return code;
    if (option_given(&given, OPTION_HELP)) return print_verb_help(found);
    code = try_output_paths(&given);
    if (code == 0) code = verbs[found].run(&given);
    if (code == 0) warn(&given);
    return code;
}

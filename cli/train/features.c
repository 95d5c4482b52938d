/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf train and predict: features of images in place of their pixels, and where they are kept. */
#include "options/options.h"
#include "train/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, FILE_NAME = 64 }; /* and room for the name of a file */

/* The directories that may keep the features, in the order in which they are tried. */
typedef struct cache_places {
    char beside[PATH_ROOM], home[PATH_ROOM];
} cache_places;

/* The directory and those above it, as far as they are missing; what cannot be made is found out when it is written. */
static void make_directories(char *path) {
    for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    mkdir(path, 0700);
}

/* $XDG_CACHE_HOME/dpmf, which has to be absolute, or ~/.cache/dpmf; empty: there is neither. */
static void find_home(char out[PATH_ROOM]) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    out[0] = '\0';
    if (base != NULL && base[0] == '/')
        length = snprintf(out, PATH_ROOM, "%s/dpmf", base);
    else if (home != NULL && home[0] == '/')
        length = snprintf(out, PATH_ROOM, "%s/.cache/dpmf", home);
    if (length >= PATH_ROOM) out[0] = '\0';
}

/* The directory of the data. */
static void find_beside(const arguments *given, char out[PATH_ROOM]) {
    const char *data = given->text[OPTION_DATA], *last = strrchr(data, '/');
    int length = 0;
    if (training_has_directory(given))
        length = snprintf(out, PATH_ROOM, "%s", data);
    else if (last == NULL)
        length = snprintf(out, PATH_ROOM, ".");
    else
        length = snprintf(out, PATH_ROOM, "%.*s", (int)(last - data) + 1, data);
    if (length >= PATH_ROOM) out[0] = '\0';
}

static int find_places(const arguments *given, const char *out[2], cache_places *room) {
    const char *wanted = given->text[OPTION_CACHE];
    char shown[SHOWN];
    struct stat info;
    int count = 0;
    if (wanted != NULL && strcmp(wanted, "none") == 0) return 0;
    if (wanted != NULL) {
        if (stat(wanted, &info) != 0) return fail(EXIT_UNABLE, "--cache %s: %s", show(wanted, shown), strerror(errno));
        if (!S_ISDIR(info.st_mode))
            return fail(EXIT_USAGE, "--cache %s: it is no directory; a directory and none are accepted",
                        show(wanted, shown));
        out[0] = wanted;
        return 0;
    }
    find_beside(given, room->beside);
    find_home(room->home);
    /* Nothing is made in the user's home as long as it is not needed. */
    const bool fits = room->beside[0] != '\0' && strlen(room->beside) + FILE_NAME < PATH_ROOM;
    if (room->home[0] != '\0' && (!fits || access(room->beside, W_OK) != 0)) make_directories(room->home);
    if (room->beside[0] != '\0') out[count++] = room->beside;
    if (room->home[0] != '\0') out[count++] = room->home;
    return 0;
}

/* J,L or J,L,pink after "scattering:". */
static bool read_scattering(const char *text, dpmf_scattering_options *how) {
    char parts[64], *angles = NULL, *last = NULL;
    if (strlen(text) >= sizeof parts) return false;
    memcpy(parts, text, strlen(text) + 1);
    if ((angles = strchr(parts, ',')) == NULL) return false;
    *angles++ = '\0';
    if ((last = strchr(angles, ',')) != NULL) {
        *last++ = '\0';
        if (strcmp(last, "pink") != 0) return false;
        how->pink = 1;
    }
    return read_count(parts, &how->scales) && read_count(angles, &how->angles);
}

int training_features(const training *t, dpmf_dataset *data) {
    const char *text = option_text(t->given, OPTION_FEATURES);
    dpmf_scattering_options how = dpmf_scattering_options_defaults();
    dpmf_scattering_result result = {0};
    cache_places room = {0};
    char shown[SHOWN];
    if (strcmp(text, "none") == 0) {
        if (option_given(t->given, OPTION_CACHE))
            return fail(EXIT_USAGE, "--cache belongs to --features scattering: nothing else is kept");
        return 0;
    }
    const bool given = strncmp(text, "scattering:", 11) == 0;
    if (!given && strcmp(text, "scattering") != 0)
        return fail(EXIT_USAGE, "--features %s: none, scattering, scattering:J,L and scattering:J,L,pink are accepted",
                    show(text, shown));
    if (given && !read_scattering(text + 11, &how))
        return fail(EXIT_USAGE,
                    "--features %s: J,L are two whole numbers, for example scattering:2,8 or scattering:2,8,pink",
                    show(text, shown));
    int code = find_places(t->given, how.cache, &room);
    if (code != 0) return code;
    how.run = run_with((int)t->given->count[OPTION_THREADS]);
    dpmf_status status = dpmf_dataset_scatter(data, &how, &result);
    progress_clear();
    if (status != DPMF_OK) return fail_status(status, "--features");
    if (result.note[0] != '\0') fail(0, "%s", result.note);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A locale with a decimal comma, for tests that results do not depend on it: an installed one, or one compiled by
 * localedef into a separate directory. Without either the test is skipped.
 */
#ifndef DPMF_TESTS_OTHER_LOCALE_H
#define DPMF_TESTS_OTHER_LOCALE_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char other_locale_directory[] = "/tmp/dpmf-locale-XXXXXX";

static int use_locale(const char *const names[], size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (setlocale(LC_ALL, names[i]) != NULL && strcmp(localeconv()->decimal_point, ",") == 0) return 1;
    }
    return 0;
}

/* 1 if the process now has such a locale. Call at most once; end with leave_other_locale. */
static int enter_other_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "it_IT.UTF-8"};
    char command[200];
    if (use_locale(names, sizeof names / sizeof names[0])) return 1;
    if (mkdtemp(other_locale_directory) == NULL) return 0;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
             other_locale_directory);
    return system(command) == 0 && setenv("LOCPATH", other_locale_directory, 1) == 0 && use_locale(names, 1);
}

static void leave_other_locale(void) {
    char command[200];
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", other_locale_directory);
    const int made = strstr(other_locale_directory, "XXXXXX") == NULL;
    if (made && system(command) != 0) fprintf(stderr, "%s is left\n", other_locale_directory);
}

#endif

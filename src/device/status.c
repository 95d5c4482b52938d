/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, memory, and libraries that are opened on first use. */
#include "shared.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 1200 };
static _Thread_local char message[MESSAGE];

const char *dpmf_device_last_error(void) {
    return message;
}

dpmf_status device_fail(dpmf_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

dpmf_status device_took(dpmf_status status) {
    return status == DPMF_OK ? DPMF_OK : device_fail(status, "%s", dpmf_last_error());
}

dpmf_status device_alloc(size_t count, size_t size, const char *what, void **out) {
    void *memory = calloc(count, size);
    if (memory == NULL) return device_fail(DPMF_ERROR_MEMORY, "no memory for %s", what);
    *out = memory;
    return DPMF_OK;
}

/* Libraries stay open, since drivers keep threads and handlers whose code must not be unloaded. */
dpmf_status device_library_open(const char *what, const char *const *names, const device_symbol *symbol, void **out) {
    void *library = NULL;
    for (int i = 0; names[i] != NULL && library == NULL; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return device_fail(
            DPMF_ERROR_UNSUPPORTED,
            "no %s on this machine: %s cannot be opened. Rows made by libdpmf itself (dpmf_noise_add) are "
            "the same",
            what, names[0]);
    for (; symbol->name != NULL; symbol++) {
        void *found = dlsym(library, symbol->name);
        if (found == NULL)
            return device_fail(DPMF_ERROR_UNSUPPORTED, "the %s of this machine has no %s: it is too old", what,
                               symbol->name);
        *symbol->place = found;
    }
    *out = library;
    return DPMF_OK;
}

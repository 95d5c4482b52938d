/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a device: back end, compiled kernels, the table of AES, the known rows (device/answers.c tests every stream). */
#include "shared.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

dpmf_device_options dpmf_device_options_defaults(void) {
    return (dpmf_device_options){.fault = DPMF_DEVICE_SOUND};
}

/* "opencl", "opencl:1": the back end and the number. */
static dpmf_status read_name(const char *name, const device_backend **backend, int *index) {
    static const device_backend *const known[] = {&device_opencl, &device_cuda};
    for (size_t i = 0; name != NULL && i < sizeof known / sizeof *known; i++) {
        const size_t length = strlen(known[i]->name);
        char *end = NULL;
        if (strncmp(name, known[i]->name, length) != 0) continue;
        *backend = known[i];
        *index = 0;
        if (name[length] == '\0') return DPMF_OK;
        if (name[length] != ':' || name[length + 1] < '0' || name[length + 1] > '9') break;
        const long number = strtol(name + length + 1, &end, 10);
        if (*end != '\0' || number > 1000) break;
        *index = (int)number;
        return DPMF_OK;
    }
    return device_fail(DPMF_ERROR_ARGUMENT,
                       "device '%.100s', accepted: opencl, cuda, or one of them with a number as in cuda:1",
                       name == NULL ? "" : name);
}

static dpmf_status write_table(dpmf_device *device, int broken) {
    uint32_t table[DEVICE_TABLE_WORDS];
    device_aes_table(table);
    if (broken) table[0x53] ^= 1u << 9; /* any bit of any entry */
    return device->backend->write(device->context, device->table, 0, table, sizeof table, NULL);
}

void dpmf_device_close(dpmf_device *device) {
    if (device == NULL) return;
    if (device->pid == getpid()) { /* after fork() the driver's threads exist in the parent only */
        device_answers_free(device->answers);
        if (device->context != NULL) {
            device->backend->release(device->context, device->table, DEVICE_TABLE_WORDS * sizeof(uint32_t));
            device->backend->close(device->context);
        }
    }
    free(device);
}

dpmf_status dpmf_device_open(const char *name, const dpmf_device_options *options, dpmf_device **out) {
    const dpmf_device_options o = options == NULL ? dpmf_device_options_defaults() : *options;
    dpmf_status status = DPMF_OK;
    dpmf_device *device = NULL;
    int index = 0;
    if ((int)o.fault < DPMF_DEVICE_SOUND || o.fault > DPMF_DEVICE_TABLE_LATER)
        return device_fail(DPMF_ERROR_ARGUMENT, "fault %d, accepted 0 to %d", (int)o.fault, DPMF_DEVICE_TABLE_LATER);
    DEVICE_TRY(device_alloc(1, sizeof *device, "a device", (void **)&device));
    device->pid = getpid();
    DEVICE_TRY_DONE(read_name(name, &device->backend, &index));
    DEVICE_TRY_DONE(
        device->backend->open(index, o.fault == DPMF_DEVICE_FUSED ? "-DDPMF_BROKEN_FUSED" : "", &device->context));
    DEVICE_TRY_DONE(device->backend->allocate(device->context, DEVICE_TABLE_WORDS * sizeof(uint32_t), &device->table));
    DEVICE_TRY_DONE(write_table(device, o.fault == DPMF_DEVICE_TABLE));
    DEVICE_TRY_DONE(device_answers_create(device, &device->answers));
    DEVICE_TRY_DONE(device_answers_check(device));
    if (o.fault == DPMF_DEVICE_TABLE_LATER) DEVICE_TRY_DONE(write_table(device, 1));
    *out = device;
    device = NULL;
done:
    dpmf_device_close(device);
    return status;
}

const char *dpmf_device_name(const dpmf_device *device) {
    return device->backend->shown(device->context);
}

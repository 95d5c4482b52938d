/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of libdpmf_device, a separate library that uses dpmf.h only. */
#ifndef DPMF_DEVICE_SHARED_H
#define DPMF_DEVICE_SHARED_H

#define DPMF_EXPERIMENTAL
#include "dpmf_device.h"
#include "dpmf_experimental.h"

#include <stddef.h>
#include <sys/types.h>

#define DEVICE_TRY(call)                                                                                               \
    do {                                                                                                               \
        const dpmf_status try_status = (call);                                                                         \
        if (try_status != DPMF_OK) return try_status;                                                                  \
    } while (0)
#define DEVICE_TRY_DONE(call)                                                                                          \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != DPMF_OK) goto done;                                                                              \
    } while (0)

/* ---- messages (device/status.c) ---- */

/* Keeps the message and returns the status. */
DPMF_MUST_CHECK dpmf_status device_fail(dpmf_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The status of a call of libdpmf, its message kept. */
DPMF_MUST_CHECK dpmf_status device_took(dpmf_status status);

DPMF_MUST_CHECK dpmf_status device_alloc(size_t count, size_t size, const char *what, void **out); /* of 0s */

/* ---- libraries that are opened on first use (device/status.c) ---- */

typedef struct device_symbol {
    const char *name;
    void **place;
} device_symbol;

/* The first of `names` (NULL at the end) that can be opened, and all its symbols (name NULL at the end); `what` is for the message. */
DPMF_MUST_CHECK dpmf_status device_library_open(const char *what, const char *const *names, const device_symbol *symbol,
                                                void **out);

/* ---- AES (device/rows.c) ---- */

enum { DEVICE_KEY_WORDS = 60, DEVICE_TABLE_WORDS = 256 };
void device_aes_table(uint32_t table[DEVICE_TABLE_WORDS]);

/* ---- back ends (device/opencl.c, device/cuda.c) ---- */

typedef uint64_t device_memory; /* a cl_mem or a CUdeviceptr; 0: none */

/* The target of a row besides the three public types: nothing. */
enum { DEVICE_NOTHING = 0 };
/* A row that lies in a buffer, beside the kinds of dpmf_recipe_kind. */
enum { DEVICE_HELD = DPMF_RECIPE_REPLAY + 1 };

/* The arguments of the kernel dpmf_rows (device/kernel/rows.cl), in its order. */
typedef struct device_launch {
    device_memory table, weight, seed, state, out;
    uint64_t base, stride, from, to;
    int32_t kind, buffers, seeds, weights, fresh, slot, type, add;
    float scale;
} device_launch;

/* Context: an opened device; program: the kernel and its key. Streams keep order; `order` begins a row's calls, `mark` ends. */
typedef struct device_backend {
    const char *name;
    dpmf_status (*open)(int index, const char *flags, void **context);
    void (*close)(void *context);
    const char *(*shown)(const void *context); /* the driver's name of the device */
    dpmf_status (*create_program)(void *context, void **program);
    void (*free_program)(void *context, void *program); /* wipes its key */
    dpmf_status (*set_key)(void *context, void *program, const uint32_t words[DEVICE_KEY_WORDS]);
    dpmf_status (*allocate)(void *context, uint64_t bytes, device_memory *out); /* of 0s */
    void (*release)(void *context, device_memory memory, uint64_t bytes);       /* wipes it */
    dpmf_status (*write)(void *context, device_memory to, uint64_t place, const void *bytes, uint64_t size,
                         void *stream);
    dpmf_status (*read)(void *context, device_memory from, uint64_t place, void *bytes, uint64_t size);
    /* Maps the caller's memory for the kernel, and back: afterwards it is the caller's again. */
    dpmf_status (*lend)(void *context, void *memory, uint64_t bytes, device_memory *out);
    dpmf_status (*give_back)(void *context, device_memory memory, uint64_t bytes);
    dpmf_status (*order)(void *context, void *program, void *stream);
    dpmf_status (*launch)(void *context, void *program, const device_launch *launch, void *stream);
    dpmf_status (*mark)(void *context, void *program, void *stream);
    dpmf_status (*wait)(void *context);
} device_backend;

extern const device_backend device_opencl, device_cuda;

/* The text of the kernels, with a 0 at the end (made of device/kernel when the library is built). */
extern const char device_source[];

typedef struct device_answers device_answers;

struct dpmf_device {
    const device_backend *backend;
    void *context;
    device_memory table;
    device_answers *answers;
    pid_t pid; /* a device does not survive fork() */
};

/* ---- rows (device/rows.c) ---- */

typedef struct device_rows {
    dpmf_device *device;
    dpmf_noise *noise; /* whose rows they are: borrowed */
    void *program;
    int64_t steps, first, count; /* coordinates */
    int64_t base, padded;        /* those in memory: multiples of 32 */
    int64_t buffers;
    int64_t made;                             /* rows that the buffers include */
    int64_t kept;                             /* rows from here on are in the ring, if there is one */
    int64_t ahead_of;                         /* the row in `ahead`; -1: none */
    device_memory weight, seed, state, ahead; /* ahead: 0 if rows are not made ahead */
    uint64_t weight_bytes, seed_bytes;
    int failed; /* copying buffers failed, and left the message */
} device_rows;

typedef struct device_target {
    int32_t type, add; /* a dpmf_device_type or DEVICE_NOTHING */
    double scale;
    int64_t segments;
    const dpmf_segment *segment; /* together `count` numbers */
    device_memory memory;        /* 0, or memory of the device's for the whole row, in the place of segments */
} device_target;

/* Opens the rows for `steps` of the mechanism. The key of the seeds is taken from `noise`. */
DPMF_MUST_CHECK dpmf_status device_rows_create(dpmf_device *device, dpmf_noise *noise, int64_t steps, int64_t first,
                                               int64_t count, int ahead, device_rows *rows);
void device_rows_free(device_rows *rows);

/* Brings the buffers to row `step`, from the start of its block if they include later rows. */
DPMF_MUST_CHECK dpmf_status device_rows_seek(device_rows *rows, int64_t step, void *stream);

/* Makes row t, which the buffers must have been brought to. */
DPMF_MUST_CHECK dpmf_status device_rows_make(device_rows *rows, int64_t t, const device_target *target, void *stream);
DPMF_MUST_CHECK dpmf_status device_rows_ahead(device_rows *rows, int64_t t, void *stream);

/* The two functions of dpmf_noise_maker; `context` is a device_rows. */
dpmf_status device_rows_read(void *context, int64_t *made, void *buffers);
dpmf_status device_rows_write(void *context, int64_t step, int64_t made, const void *buffers);

/* ---- known answers (device/answers.c) ---- */

DPMF_MUST_CHECK dpmf_status device_answers_create(dpmf_device *device, device_answers **out);
void device_answers_free(device_answers *answers);

/* Does the device give libdpmf's bits? Otherwise DPMF_ERROR_UNSUPPORTED with the first that differs. */
DPMF_MUST_CHECK dpmf_status device_answers_check(dpmf_device *device);

#endif

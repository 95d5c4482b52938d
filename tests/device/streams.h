/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of devices: mechanisms by every route, and a device's rows compared with the library's. */
#ifndef DPMF_TESTS_DEVICE_STREAMS_H
#define DPMF_TESTS_DEVICE_STREAMS_H

#include "dpmf_device.h"
#include "support/check.h"

#define check_device_ok(call) check_device_((call), DPMF_OK, NULL, #call, __FILE__, __LINE__)
/* Fails unless the call gives `expected` and a message with `part`. */
#define check_device_fails(expected, part, call) check_device_((call), (expected), (part), #call, __FILE__, __LINE__)
void check_device_(dpmf_status got, dpmf_status expected, const char *part, const char *call, const char *file,
                   int line);

/* The first OpenCL device, opened once; skips the test with the reason where there is none. */
dpmf_device *the_device(void);
void close_the_device(void);

/* For the row t: NULL on OpenCL devices, streams that take turns on others. */
void *a_stream(int64_t t);

enum { CASES = 13 };
extern const char *const case_names[CASES];

/* Of as many steps, 12 or a multiple. */
dpmf_mechanism *case_mechanism(int which, int64_t steps);

/* To a type and back, by arithmetic on doubles. */
uint32_t round_to_type(double x, dpmf_device_type type);
double number_of_type(uint32_t bits, dpmf_device_type type);
size_t size_of_type(dpmf_device_type type);

typedef struct comparison {
    int which;
    dpmf_device_type type;
    int64_t steps, dim, offset, count;
    int64_t resume; /* the device's stream begins there; it is brought there by `seek` */
    int64_t cut;    /* numbers of the first segment; 0: one segment */
    int ahead;      /* rows are made ahead */
} comparison;

/* All rows from `resume` on, added to a pattern: the device's bits are those of the library. */
void compare_streams(const comparison *c);

#endif

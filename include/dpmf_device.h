/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf on a device: the rows of noise made where the gradients are (libdpmf_device, beside libdpmf).
 *
 * Every number of a row is a function of (key, mechanism, row, coordinate), made of integer operations and of IEEE additions,
 * multiplications, divisions and square roots that are each rounded on their own, so that a device can give the bits that
 * libdpmf gives (docs/noise.md). It gives them or it is refused: before every stream the device makes known rows by every route,
 * in every type and at odd offsets, which are compared with libdpmf's, bit for bit.
 *
 *     dpmf_device *device = NULL;
 *     dpmf_device_noise *noise = NULL;
 *     dpmf_device_open("cuda", NULL, &device);
 *     dpmf_device_noise_create(device, mechanism, dim, clip, key, NULL, &noise);
 *     for each step: dpmf_device_noise_add(noise, 1.0, DPMF_DEVICE_BFLOAT16, 1, &(dpmf_segment){gradients, dim}, stream);
 *
 * Back ends are opened when they are asked for, and neither library depends on them: "opencl" wants an OpenCL 1.2 driver,
 * "cuda" the driver and NVRTC. docs/device.md lists what has been tested where.
 *
 * Calls that fail return a status, and dpmf_device_last_error() gives the reason. One thread at a time may use a device and its streams.
 */
#ifndef DPMF_DEVICE_H
#define DPMF_DEVICE_H

#include "dpmf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The message of the last call of this library that failed in this thread. */
DPMF_API const char *dpmf_device_last_error(void);

typedef struct dpmf_device dpmf_device;

/* For tests: faults that must get the device refused. */
typedef enum dpmf_device_fault {
    DPMF_DEVICE_SOUND = 0,
    DPMF_DEVICE_FUSED,      /* a x b + c is rounded once where it should be twice */
    DPMF_DEVICE_TABLE,      /* one bit of one entry of the table of AES is flipped */
    DPMF_DEVICE_TABLE_LATER /* the same, after the device has been opened: streams are refused */
} dpmf_device_fault;

typedef struct dpmf_device_options {
    dpmf_device_fault fault;
} dpmf_device_options;

DPMF_API dpmf_device_options dpmf_device_options_defaults(void);

/*
 * "opencl" or "cuda": the first device of that kind; "opencl:1", "cuda:1", ...: another. Compiles the kernels and makes
 * the known rows. DPMF_ERROR_UNSUPPORTED if there is no such library or device, or if the device's rows are not those of
 * libdpmf: the message has the first number that differs. NULL options: the defaults.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_open(const char *name, const dpmf_device_options *options,
                                                      dpmf_device **out);

/* After its streams are freed. */
DPMF_API void dpmf_device_close(dpmf_device *device);
DPMF_API const char *dpmf_device_name(const dpmf_device *device); /* as the driver calls it */

/*
 * A stream of rows, as dpmf_noise_create makes one: the same options and rules, the same bits, and the same files: a state
 * file or a checkpoint of one may be resumed by the other. Buffers are in the device's memory, and so is the key of the
 * seeds, expanded, as long as the stream lives; then they are overwritten.
 *
 * precision: float32. prefetch: 1 for dpmf_device_noise_ahead; one more row of memory. lookahead, scratch and threads have no
 * meaning here. Families whose rows have no recipe (dpmf_recipe_kind of dpmf.h) are refused: trees and a user's operators.
 */
typedef struct dpmf_device_noise dpmf_device_noise;

DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_create(dpmf_device *device, const dpmf_mechanism *mechanism,
                                                              int64_t dim, double clip,
                                                              const uint8_t key[DPMF_KEY_SIZE],
                                                              const dpmf_noise_options *options,
                                                              dpmf_device_noise **out);
DPMF_API void dpmf_device_noise_free(dpmf_device_noise *noise);

/* Of the numbers that a row is added to. Sums are made in float32 and rounded once more, to the nearest, ties to even. */
typedef enum dpmf_device_type { DPMF_DEVICE_FLOAT32 = 1, DPMF_DEVICE_BFLOAT16, DPMF_DEVICE_FLOAT16 } dpmf_device_type;

/*
 * The next row: stored as numbers of a type, or factor x it added to segments that together hold `count` of them, in order.
 *
 * cuda     `memory` is in the device's memory, `stream` a CUstream (NULL: the default one). The work is put into that stream
 *          and nothing is waited for. Streams may change from call to call: rows wait for each other on the device.
 * opencl   `memory` is the program's own, and it holds the row when the call returns. `stream` is NULL.
 */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_next(dpmf_device_noise *noise, dpmf_device_type type, void *row,
                                                            void *stream);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_add(dpmf_device_noise *noise, double factor,
                                                           dpmf_device_type type, int64_t segments,
                                                           const dpmf_segment *segment, void *stream);

/* Makes the next row now, in another stream than the gradients are being computed in, say: adding it is then all that is left. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_ahead(dpmf_device_noise *noise, void *stream);

/* Until everything that was asked for is there. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_wait(dpmf_device_noise *noise);

/* As dpmf_noise_bind_sum, _seek, _save, _load and _load_parts. Saving waits for the device; a row made ahead is made again. */
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_bind_sum(dpmf_device_noise *noise,
                                                                const uint8_t digest[DPMF_DIGEST_SIZE]);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_seek(dpmf_device_noise *noise, int64_t step);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_save(dpmf_device_noise *noise, const char *path);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_load(dpmf_device_noise *noise, const char *path);
DPMF_API DPMF_MUST_CHECK dpmf_status dpmf_device_noise_load_parts(dpmf_device_noise *noise, int64_t parts,
                                                                  const char *const *path);

DPMF_API int64_t dpmf_device_noise_step(const dpmf_device_noise *noise); /* of the next row */
DPMF_API int64_t dpmf_device_noise_reserved(const dpmf_device_noise *noise);
DPMF_API int dpmf_device_noise_in_doubt(const dpmf_device_noise *noise);
DPMF_API int64_t dpmf_device_noise_count(const dpmf_device_noise *noise);
DPMF_API double dpmf_device_noise_scale(const dpmf_device_noise *noise);
DPMF_API void dpmf_device_noise_salt(const dpmf_device_noise *noise, uint8_t salt[DPMF_SALT_SIZE]);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL back end, for drivers from 1.2 on that report correctly rounded division and roots and float subnormals; others
 * are refused before compiling. The caller's memory is the processor's, lent during a call. One queue, in order.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include "shared.h"

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the driver ---- */

#define FUNCTIONS(X)                                                                                                   \
    X(clGetPlatformIDs)                                                                                                \
    X(clGetDeviceIDs)                                                                                                  \
    X(clGetDeviceInfo)                                                                                                 \
    X(clCreateContext)                                                                                                 \
    X(clReleaseContext)                                                                                                \
    X(clCreateCommandQueue)                                                                                            \
    X(clReleaseCommandQueue)                                                                                           \
    X(clCreateProgramWithSource)                                                                                       \
    X(clBuildProgram)                                                                                                  \
    X(clGetProgramBuildInfo)                                                                                           \
    X(clReleaseProgram)                                                                                                \
    X(clCreateKernel)                                                                                                  \
    X(clReleaseKernel)                                                                                                 \
    X(clSetKernelArg)                                                                                                  \
    X(clCreateBuffer)                                                                                                  \
    X(clReleaseMemObject)                                                                                              \
    X(clEnqueueWriteBuffer)                                                                                            \
    X(clEnqueueReadBuffer)                                                                                             \
    X(clEnqueueFillBuffer)                                                                                             \
    X(clEnqueueMapBuffer)                                                                                              \
    X(clEnqueueUnmapMemObject)                                                                                         \
    X(clEnqueueNDRangeKernel)                                                                                          \
    X(clFinish)

#define DECLARE(name) __typeof__(name) *name;
static struct { FUNCTIONS(DECLARE) } cl;

static dpmf_status open_driver(void) {
#define LIST(name) {#name, (void **)&cl.name},
    static const device_symbol symbols[] = {FUNCTIONS(LIST){NULL, NULL}};
    static const char *const names[] = {"libOpenCL.so.1", NULL};
    static void *library;
    if (library != NULL) return DPMF_OK;
    return device_library_open("OpenCL library", names, symbols, &library);
}

typedef struct context {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_uint units;
    size_t group;
    char name[256];
} context;

typedef struct program {
    cl_kernel kernel;
    cl_mem key;
} program;

/* The statuses that a user can act on; the others are shown as numbers of the driver's manual. */
static dpmf_status check(cl_int answer, const char *what) {
    if (answer == CL_SUCCESS) return DPMF_OK;
    if (answer == CL_MEM_OBJECT_ALLOCATION_FAILURE || answer == CL_OUT_OF_RESOURCES ||
        answer == CL_OUT_OF_HOST_MEMORY || answer == CL_INVALID_BUFFER_SIZE)
        return device_fail(DPMF_ERROR_MEMORY, "the device has no memory to %s (OpenCL error %d)", what, (int)answer);
    return device_fail(DPMF_ERROR_IO, "OpenCL could not %s: error %d", what, (int)answer);
}

/* ---- opening ---- */

enum { DEVICES = 64 };

static dpmf_status find_device(int index, cl_device_id *out) {
    cl_platform_id platform[DEVICES];
    cl_uint platforms = 0;
    int seen = 0;
    if (cl.clGetPlatformIDs(DEVICES, platform, &platforms) != CL_SUCCESS) platforms = 0;
    for (cl_uint i = 0; i < platforms && i < DEVICES; i++) {
        cl_device_id device[DEVICES];
        cl_uint devices = 0;
        if (cl.clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, DEVICES, device, &devices) != CL_SUCCESS) continue;
        for (cl_uint k = 0; k < devices && k < DEVICES; k++)
            if (seen++ == index) {
                *out = device[k];
                return DPMF_OK;
            }
    }
    return device_fail(DPMF_ERROR_UNSUPPORTED, "opencl:%d: there are %d OpenCL devices on this machine", index, seen);
}

static dpmf_status check_arithmetic(const context *c) {
    const cl_device_fp_config needed = CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT | CL_FP_DENORM | CL_FP_ROUND_TO_NEAREST;
    cl_device_fp_config has = 0;
    DEVICE_TRY(check(cl.clGetDeviceInfo(c->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof has, &has, NULL),
                     "describe the device's arithmetic"));
    if ((has & needed) == needed) return DPMF_OK;
    return device_fail(DPMF_ERROR_UNSUPPORTED, "%s cannot give the noise's bits:%s%s%s", c->name,
                       has & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? ""
                                                                 : " division and roots are not correctly rounded;",
                       has & CL_FP_DENORM ? "" : " there are no subnormal numbers;",
                       has & CL_FP_ROUND_TO_NEAREST ? "" : " it does not round to the nearest;");
}

static dpmf_status build(context *c, const char *flags) {
    const char *source = device_source;
    char options[256], log[400] = "";
    cl_device_type type = 0;
    cl_int answer = CL_SUCCESS;
    cl.clGetDeviceInfo(c->device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    const int processor = (type & CL_DEVICE_TYPE_CPU) != 0;
    c->group = processor ? 64 : 256;
    snprintf(options, sizeof options, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -DDPMF_COPIES=%d %s",
             processor ? 1 : 8, flags);
    c->program = cl.clCreateProgramWithSource(c->context, 1, &source, NULL, &answer);
    DEVICE_TRY(check(answer, "take the kernels"));
    answer = cl.clBuildProgram(c->program, 1, &c->device, options, NULL, NULL);
    if (answer == CL_SUCCESS) return DPMF_OK;
    cl.clGetProgramBuildInfo(c->program, c->device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    return device_fail(DPMF_ERROR_UNSUPPORTED, "%s: the kernels could not be compiled (OpenCL error %d): %s", c->name,
                       (int)answer, log);
}

static void close_context(void *opened) {
    context *c = opened;
    if (c == NULL) return;
    if (c->program != NULL) cl.clReleaseProgram(c->program);
    if (c->queue != NULL) cl.clReleaseCommandQueue(c->queue);
    if (c->context != NULL) cl.clReleaseContext(c->context);
    free(c);
}

static dpmf_status open_context(int index, const char *flags, void **out) {
    dpmf_status status = DPMF_OK;
    cl_int answer = CL_SUCCESS;
    context *c = NULL;
    DEVICE_TRY(open_driver());
    DEVICE_TRY(device_alloc(1, sizeof *c, "an OpenCL device", (void **)&c));
    DEVICE_TRY_DONE(find_device(index, &c->device));
    cl.clGetDeviceInfo(c->device, CL_DEVICE_NAME, sizeof c->name - 1, c->name, NULL);
    cl.clGetDeviceInfo(c->device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof c->units, &c->units, NULL);
    DEVICE_TRY_DONE(check_arithmetic(c));
    c->context = cl.clCreateContext(NULL, 1, &c->device, NULL, NULL, &answer);
    DEVICE_TRY_DONE(check(answer, "make a context"));
    c->queue = cl.clCreateCommandQueue(c->context, c->device, 0, &answer);
    DEVICE_TRY_DONE(check(answer, "make a queue"));
    DEVICE_TRY_DONE(build(c, flags));
    *out = c;
    c = NULL;
done:
    close_context(c);
    return status;
}

static const char *shown(const void *opened) {
    return ((const context *)opened)->name;
}

/* ---- memory ---- */

static cl_mem memory_of(device_memory memory) {
    return (cl_mem)(uintptr_t)memory;
}

static dpmf_status fill_zeros(context *c, cl_mem memory, uint64_t bytes) {
    const cl_uint zero = 0;
    DEVICE_TRY(check(cl.clEnqueueFillBuffer(c->queue, memory, &zero, sizeof zero, 0, (size_t)bytes, 0, NULL, NULL),
                     "clear memory"));
    return check(cl.clFinish(c->queue), "clear memory");
}

static void release(void *opened, device_memory memory, uint64_t bytes) {
    if (memory == 0) return;
    if (fill_zeros(opened, memory_of(memory), bytes) != DPMF_OK) bytes = 0; /* a lost device has nothing to wipe */
    cl.clReleaseMemObject(memory_of(memory));
}

/* Drivers may allocate only on first use; clearing is a use. */
static dpmf_status allocate(void *opened, uint64_t bytes, device_memory *out) {
    context *c = opened;
    cl_int answer = CL_SUCCESS;
    cl_ulong most = 0;
    cl.clGetDeviceInfo(c->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL);
    if (bytes > most)
        return device_fail(DPMF_ERROR_MEMORY, "the buffers take %llu bytes, and %s gives %llu at most",
                           (unsigned long long)bytes, c->name, (unsigned long long)most);
    cl_mem memory = cl.clCreateBuffer(c->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &answer);
    DEVICE_TRY(check(answer, "keep the buffers"));
    dpmf_status status = fill_zeros(c, memory, bytes);
    if (status != DPMF_OK) {
        cl.clReleaseMemObject(memory);
        return status;
    }
    *out = (device_memory)(uintptr_t)memory;
    return DPMF_OK;
}

static dpmf_status write_bytes(void *opened, device_memory to, uint64_t place, const void *bytes, uint64_t size,
                               void *stream) {
    context *c = opened;
    (void)stream;
    if (size == 0) return DPMF_OK;
    return check(
        cl.clEnqueueWriteBuffer(c->queue, memory_of(to), CL_TRUE, (size_t)place, (size_t)size, bytes, 0, NULL, NULL),
        "copy to the device");
}

static dpmf_status read_bytes(void *opened, device_memory from, uint64_t place, void *bytes, uint64_t size) {
    context *c = opened;
    if (size == 0) return DPMF_OK;
    return check(
        cl.clEnqueueReadBuffer(c->queue, memory_of(from), CL_TRUE, (size_t)place, (size_t)size, bytes, 0, NULL, NULL),
        "copy from the device");
}

static dpmf_status lend(void *opened, void *memory, uint64_t bytes, device_memory *out) {
    context *c = opened;
    cl_int answer = CL_SUCCESS;
    cl_mem lent =
        cl.clCreateBuffer(c->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, (size_t)bytes, memory, &answer);
    DEVICE_TRY(check(answer, "take the caller's memory"));
    *out = (device_memory)(uintptr_t)lent;
    return DPMF_OK;
}

/* Mapping copies the device's numbers to the caller's memory. */
static dpmf_status give_back(void *opened, device_memory memory, uint64_t bytes) {
    context *c = opened;
    cl_int answer = CL_SUCCESS;
    void *mapped = cl.clEnqueueMapBuffer(c->queue, memory_of(memory), CL_TRUE, CL_MAP_READ, 0, (size_t)bytes, 0, NULL,
                                         NULL, &answer);
    if (answer == CL_SUCCESS) answer = cl.clEnqueueUnmapMemObject(c->queue, memory_of(memory), mapped, 0, NULL, NULL);
    if (answer == CL_SUCCESS) answer = cl.clFinish(c->queue);
    cl.clReleaseMemObject(memory_of(memory));
    return check(answer, "give the caller's memory back");
}

/* ---- kernels ---- */

static void free_program(void *opened, void *made) {
    program *p = made;
    if (p == NULL) return;
    if (p->key != NULL) release(opened, (device_memory)(uintptr_t)p->key, DEVICE_KEY_WORDS * sizeof(uint32_t));
    if (p->kernel != NULL) cl.clReleaseKernel(p->kernel);
    free(p);
}

static dpmf_status create_program(void *opened, void **out) {
    context *c = opened;
    dpmf_status status = DPMF_OK;
    device_memory key = 0;
    cl_int answer = CL_SUCCESS;
    program *p = NULL;
    DEVICE_TRY(device_alloc(1, sizeof *p, "a kernel", (void **)&p));
    p->kernel = cl.clCreateKernel(c->program, "dpmf_rows", &answer);
    DEVICE_TRY_DONE(check(answer, "make a kernel"));
    DEVICE_TRY_DONE(allocate(c, DEVICE_KEY_WORDS * sizeof(uint32_t), &key));
    p->key = memory_of(key);
    *out = p;
    p = NULL;
done:
    free_program(c, p);
    return status;
}

static dpmf_status set_key(void *opened, void *made, const uint32_t words[DEVICE_KEY_WORDS]) {
    const program *p = made;
    return write_bytes(opened, (device_memory)(uintptr_t)p->key, 0, words, DEVICE_KEY_WORDS * sizeof *words, NULL);
}

static dpmf_status no_stream(void *opened, void *made, void *stream) {
    (void)opened, (void)made;
    if (stream == NULL) return DPMF_OK;
    return device_fail(DPMF_ERROR_ARGUMENT, "stream: OpenCL devices take NULL");
}

static dpmf_status launch(void *opened, void *made, const device_launch *l, void *stream) {
    context *c = opened;
    const program *p = made;
    const cl_mem memory[] = {
        p->key, memory_of(l->table), memory_of(l->weight), memory_of(l->seed), memory_of(l->state), memory_of(l->out)};
    const cl_ulong wide[] = {l->base, l->stride, l->from, l->to};
    const cl_int narrow[] = {l->kind, l->buffers, l->seeds, l->weights, l->fresh, l->slot, l->type, l->add};
    const uint64_t items = 4 * ((l->to + 31) / 32 - l->from / 32);
    const uint64_t needed = (items + c->group - 1) / c->group, most = (uint64_t)c->units * (c->group == 64 ? 4 : 16);
    const size_t global = (size_t)(needed < most ? needed : most) * c->group;
    cl_uint k = 0;
    cl_int answer = CL_SUCCESS;
    (void)stream;
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        answer |= cl.clSetKernelArg(p->kernel, k++, sizeof(cl_mem), &memory[i]);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        answer |= cl.clSetKernelArg(p->kernel, k++, sizeof(cl_ulong), &wide[i]);
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        answer |= cl.clSetKernelArg(p->kernel, k++, sizeof(cl_int), &narrow[i]);
    answer |= cl.clSetKernelArg(p->kernel, k, sizeof(cl_float), &l->scale);
    DEVICE_TRY(check(answer, "take the arguments of a kernel"));
    return check(cl.clEnqueueNDRangeKernel(c->queue, p->kernel, 1, NULL, &global, &c->group, 0, NULL, NULL),
                 "run a kernel");
}

static dpmf_status wait_for_all(void *opened) {
    return check(cl.clFinish(((context *)opened)->queue), "finish its work");
}

const device_backend device_opencl = {.name = "opencl",
                                      .open = open_context,
                                      .close = close_context,
                                      .shown = shown,
                                      .create_program = create_program,
                                      .free_program = free_program,
                                      .set_key = set_key,
                                      .allocate = allocate,
                                      .release = release,
                                      .write = write_bytes,
                                      .read = read_bytes,
                                      .lend = lend,
                                      .give_back = give_back,
                                      .order = no_stream,
                                      .launch = launch,
                                      .mark = no_stream,
                                      .wait = wait_for_all};

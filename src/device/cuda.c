/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA back end. The driver and NVRTC are opened on first use, in the device's primary context, which PyTorch and
 * the CUDA runtime use too, so that their pointers and streams are valid here. The few declarations are written here;
 * the driver's interface keeps its numbers.
 *
 * Only reading, freeing and `wait` wait for the device. Copies of weights and seeds are from ordinary memory, which the
 * driver copies before it returns. Each of our kernels waits on the device for the last one of the same program, in any
 * stream: an event is recorded after each.
 *
 * This code has been compiled and linked, but never run: docs/device.md.
 */
#include "shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the driver ---- */

typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef unsigned long long CUdeviceptr;
typedef struct _nvrtcProgram *nvrtcProgram;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };
enum { ATTRIBUTE_PROCESSORS = 16, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76, EVENT_DISABLE_TIMING = 2 };

#define DRIVER(X)                                                                                                      \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDeviceGetCount, (int *))                                                                                       \
    X(cuDeviceGet, (int *, int))                                                                                       \
    X(cuDeviceGetName, (char *, int, int))                                                                             \
    X(cuDeviceGetAttribute, (int *, int, int))                                                                         \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, int))                                                                    \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                             \
    X(cuCtxPushCurrent_v2, (CUcontext))                                                                                \
    X(cuCtxPopCurrent_v2, (CUcontext *))                                                                               \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuModuleLoadData, (CUmodule *, const void *))                                                                    \
    X(cuModuleUnload, (CUmodule))                                                                                      \
    X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                                     \
    X(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *, CUmodule, const char *))                                         \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                          \
    X(cuMemFree_v2, (CUdeviceptr))                                                                                     \
    X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                                             \
    X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                                            \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                                             \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                                  \
    X(cuEventCreate, (CUevent *, unsigned))                                                                            \
    X(cuEventDestroy_v2, (CUevent))                                                                                    \
    X(cuEventRecord, (CUevent, CUstream))                                                                              \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                                                \
    X(cuLaunchKernel,                                                                                                  \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))  \
    X(cuGetErrorString, (int, const char **))

#define COMPILER(X)                                                                                                    \
    X(nvrtcCreateProgram, (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
    X(nvrtcCompileProgram, (nvrtcProgram, int, const char *const *))                                                   \
    X(nvrtcGetCUBINSize, (nvrtcProgram, size_t *))                                                                     \
    X(nvrtcGetCUBIN, (nvrtcProgram, char *))                                                                           \
    X(nvrtcGetProgramLogSize, (nvrtcProgram, size_t *))                                                                \
    X(nvrtcGetProgramLog, (nvrtcProgram, char *))                                                                      \
    X(nvrtcDestroyProgram, (nvrtcProgram *))

#define DECLARE(name, arguments) int(*name) arguments;
static struct {
    DRIVER(DECLARE)
    COMPILER(DECLARE)
} cu;

static dpmf_status open_driver(void) {
#define LIST(name, arguments) {#name, (void **)&cu.name},
    static const device_symbol driver[] = {DRIVER(LIST){NULL, NULL}}, compiler[] = {COMPILER(LIST){NULL, NULL}};
    static const char *const drivers[] = {"libcuda.so.1", NULL};
    static const char *const compilers[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                            NULL};
    static void *with_driver, *with_compiler;
    if (with_driver == NULL) DEVICE_TRY(device_library_open("CUDA driver", drivers, driver, &with_driver));
    if (with_compiler != NULL) return DPMF_OK;
    return device_library_open("NVRTC library (CUDA's compiler)", compilers, compiler, &with_compiler);
}

static dpmf_status check(int answer, const char *what) {
    const char *words = "unknown";
    if (answer == CUDA_SUCCESS) return DPMF_OK;
    if (cu.cuGetErrorString(answer, &words) != CUDA_SUCCESS || words == NULL) words = "unknown";
    if (answer == CUDA_ERROR_OUT_OF_MEMORY)
        return device_fail(DPMF_ERROR_MEMORY, "the device has no memory to %s (%s)", what, words);
    return device_fail(DPMF_ERROR_IO, "CUDA could not %s: error %d, %s", what, answer, words);
}

typedef struct context {
    int device, processors;
    CUcontext context;
    char *image; /* the compiled kernels */
    char name[256];
} context;

typedef struct program {
    CUmodule module; /* one for each program: the key is in its constant memory */
    CUfunction function;
    CUdeviceptr key;
    CUevent last; /* recorded after the last kernel ... */
    CUstream in;  /* ... in this stream ... */
    int recorded; /* ... if there was one */
} program;

static dpmf_status enter(const context *c) {
    return check(cu.cuCtxPushCurrent_v2(c->context), "enter its context");
}

static dpmf_status leave(dpmf_status status) {
    CUcontext ours = NULL;
    dpmf_status left = check(cu.cuCtxPopCurrent_v2(&ours), "leave its context");
    return status != DPMF_OK ? status : left;
}

/* ---- opening ---- */

static dpmf_status take_image(context *c, nvrtcProgram compiled) {
    size_t size = 0;
    if (cu.nvrtcGetCUBINSize(compiled, &size) != 0 || size == 0)
        return device_fail(DPMF_ERROR_UNSUPPORTED, "%s: NVRTC gave no code", c->name);
    DEVICE_TRY(device_alloc(size, 1, "the compiled kernels", (void **)&c->image));
    if (cu.nvrtcGetCUBIN(compiled, c->image) == 0) return DPMF_OK;
    return device_fail(DPMF_ERROR_UNSUPPORTED, "%s: NVRTC gave no code", c->name);
}

static dpmf_status refuse_log(const context *c, nvrtcProgram compiled, int answer) {
    dpmf_status status = DPMF_OK;
    size_t size = 0;
    char *log = NULL;
    if (cu.nvrtcGetProgramLogSize(compiled, &size) != 0) size = 0;
    DEVICE_TRY(device_alloc(size + 1, 1, "a message", (void **)&log));
    if (size > 0 && cu.nvrtcGetProgramLog(compiled, log) != 0) log[0] = '\0';
    status = device_fail(DPMF_ERROR_UNSUPPORTED, "%s: the kernels could not be compiled (NVRTC error %d): %.700s",
                         c->name, answer, log);
    free(log);
    return status;
}

/* IEEE arithmetic with one rounding per operation: the intrinsics ask for it, the flags cover what the compiler adds. */
static dpmf_status build(context *c, const char *flags) {
    char architecture[64];
    int major = 0, minor = 0;
    nvrtcProgram compiled = NULL;
    DEVICE_TRY(check(cu.cuDeviceGetAttribute(&major, ATTRIBUTE_MAJOR, c->device), "report its attributes"));
    DEVICE_TRY(check(cu.cuDeviceGetAttribute(&minor, ATTRIBUTE_MINOR, c->device), "report its attributes"));
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%d", major, minor);
    const char *const options[] = {architecture,       "--std=c++17", "--fmad=false", "--prec-div=true",
                                   "--prec-sqrt=true", "--ftz=false", flags};
    const int count = (int)(sizeof options / sizeof *options) - (flags[0] == '\0');
    int answer = cu.nvrtcCreateProgram(&compiled, device_source, "rows.cu", 0, NULL, NULL);
    if (answer != 0) return device_fail(DPMF_ERROR_UNSUPPORTED, "NVRTC could not take the kernels: %d", answer);
    answer = cu.nvrtcCompileProgram(compiled, count, options);
    dpmf_status status = answer == 0 ? take_image(c, compiled) : refuse_log(c, compiled, answer);
    cu.nvrtcDestroyProgram(&compiled);
    return status;
}

static void close_context(void *opened) {
    context *c = opened;
    if (c == NULL) return;
    if (c->context != NULL) cu.cuDevicePrimaryCtxRelease_v2(c->device);
    free(c->image);
    free(c);
}

static dpmf_status find_device(context *c, int index) {
    int devices = 0;
    DEVICE_TRY(check(cu.cuInit(0), "start"));
    DEVICE_TRY(check(cu.cuDeviceGetCount(&devices), "count its devices"));
    if (index >= devices)
        return device_fail(DPMF_ERROR_UNSUPPORTED, "cuda:%d: there are %d CUDA devices on this machine", index,
                           devices);
    DEVICE_TRY(check(cu.cuDeviceGet(&c->device, index), "open the device"));
    DEVICE_TRY(check(cu.cuDeviceGetName(c->name, (int)sizeof c->name - 1, c->device), "name the device"));
    return check(cu.cuDeviceGetAttribute(&c->processors, ATTRIBUTE_PROCESSORS, c->device), "report its attributes");
}

static dpmf_status open_context(int index, const char *flags, void **out) {
    dpmf_status status = DPMF_OK;
    context *c = NULL;
    DEVICE_TRY(open_driver());
    DEVICE_TRY(device_alloc(1, sizeof *c, "a CUDA device", (void **)&c));
    DEVICE_TRY_DONE(find_device(c, index));
    DEVICE_TRY_DONE(check(cu.cuDevicePrimaryCtxRetain(&c->context, c->device), "take its context"));
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

static dpmf_status wait_for_all(void *opened) {
    DEVICE_TRY(enter(opened));
    return leave(check(cu.cuCtxSynchronize(), "finish its work"));
}

/* Kernels of any stream may still write to it, so all of them must end first, before and after. */
static int wipe(CUdeviceptr memory, uint64_t bytes) {
    int answer = cu.cuCtxSynchronize();
    if (answer == CUDA_SUCCESS) answer = cu.cuMemsetD8_v2(memory, 0, (size_t)bytes);
    return answer == CUDA_SUCCESS ? cu.cuCtxSynchronize() : answer;
}

static void release(void *opened, device_memory memory, uint64_t bytes) {
    if (memory == 0 || enter(opened) != DPMF_OK) return;
    int answer = wipe(memory, bytes); /* fails if the device is lost, and its memory with it */
    const int freed = cu.cuMemFree_v2(memory);
    if (leave(check(answer == CUDA_SUCCESS ? freed : answer, "free memory")) != DPMF_OK) return;
}

static dpmf_status allocate(void *opened, uint64_t bytes, device_memory *out) {
    CUdeviceptr memory = 0;
    DEVICE_TRY(enter(opened));
    dpmf_status status = check(cu.cuMemAlloc_v2(&memory, (size_t)bytes), "keep the buffers");
    if (status == DPMF_OK) status = check(wipe(memory, bytes), "clear memory");
    if (status == DPMF_OK)
        *out = memory;
    else if (memory != 0)
        cu.cuMemFree_v2(memory);
    return leave(status);
}

static dpmf_status write_bytes(void *opened, device_memory to, uint64_t place, const void *bytes, uint64_t size,
                               void *stream) {
    if (size == 0) return DPMF_OK;
    DEVICE_TRY(enter(opened));
    return leave(check(cu.cuMemcpyHtoDAsync_v2(to + place, bytes, (size_t)size, stream), "copy to the device"));
}

static dpmf_status read_bytes(void *opened, device_memory from, uint64_t place, void *bytes, uint64_t size) {
    if (size == 0) return DPMF_OK;
    DEVICE_TRY(enter(opened));
    return leave(check(cu.cuMemcpyDtoH_v2(bytes, from + place, (size_t)size), "copy from the device"));
}

/* The caller's memory is already on the device. */
static dpmf_status lend(void *opened, void *memory, uint64_t bytes, device_memory *out) {
    (void)opened, (void)bytes;
    *out = (device_memory)(uintptr_t)memory;
    return DPMF_OK;
}

static dpmf_status give_back(void *opened, device_memory memory, uint64_t bytes) {
    (void)opened, (void)memory, (void)bytes;
    return DPMF_OK;
}

/* ---- kernels ---- */

static void free_program(void *opened, void *made) {
    program *p = made;
    if (p == NULL) return;
    if (enter(opened) == DPMF_OK) {
        int answer = p->key != 0 ? wipe(p->key, DEVICE_KEY_WORDS * sizeof(uint32_t)) : CUDA_SUCCESS;
        if (p->last != NULL) cu.cuEventDestroy_v2(p->last);
        if (p->module != NULL) cu.cuModuleUnload(p->module);
        if (leave(check(answer, "wipe the key")) != DPMF_OK) p->key = 0;
    }
    free(p);
}

static dpmf_status fill_program(const context *c, program *p) {
    size_t size = 0;
    DEVICE_TRY(check(cu.cuModuleLoadData(&p->module, c->image), "load the kernels"));
    DEVICE_TRY(check(cu.cuModuleGetFunction(&p->function, p->module, "dpmf_rows"), "find the kernel"));
    DEVICE_TRY(check(cu.cuModuleGetGlobal_v2(&p->key, &size, p->module, "dpmf_key"), "find the key's memory"));
    return check(cu.cuEventCreate(&p->last, EVENT_DISABLE_TIMING), "make an event");
}

static dpmf_status create_program(void *opened, void **out) {
    program *p = NULL;
    DEVICE_TRY(device_alloc(1, sizeof *p, "a kernel", (void **)&p));
    dpmf_status status = enter(opened);
    if (status == DPMF_OK) status = leave(fill_program(opened, p));
    if (status == DPMF_OK)
        *out = p;
    else
        free_program(opened, p);
    return status;
}

static dpmf_status set_key(void *opened, void *made, const uint32_t words[DEVICE_KEY_WORDS]) {
    const program *p = made;
    DEVICE_TRY(enter(opened));
    return leave(check(cu.cuMemcpyHtoD_v2(p->key, words, DEVICE_KEY_WORDS * sizeof *words), "copy the key"));
}

static dpmf_status order(void *opened, void *made, void *stream) {
    const program *p = made;
    if (!p->recorded || p->in == stream) return DPMF_OK;
    DEVICE_TRY(enter(opened));
    return leave(check(cu.cuStreamWaitEvent(stream, p->last, 0), "let a stream wait for another"));
}

static dpmf_status mark(void *opened, void *made, void *stream) {
    program *p = made;
    DEVICE_TRY(enter(opened));
    DEVICE_TRY(leave(check(cu.cuEventRecord(p->last, stream), "record an event")));
    p->in = stream;
    p->recorded = 1;
    return DPMF_OK;
}

/* Groups work on many units each, so that filling the table of AES costs little: eight groups for each processor's threads. */
static dpmf_status launch(void *opened, void *made, const device_launch *l, void *stream) {
    enum { GROUP = 256, EACH = 8 };
    const context *c = opened;
    const program *p = made;
    device_launch a = *l;
    void *arguments[] = {&a.table, &a.weight,  &a.seed,  &a.state,   &a.out,   &a.base, &a.stride, &a.from, &a.to,
                         &a.kind,  &a.buffers, &a.seeds, &a.weights, &a.fresh, &a.slot, &a.type,   &a.add,  &a.scale};
    const uint64_t items = 4 * ((a.to + 31) / 32 - a.from / 32), needed = (items + GROUP - 1) / GROUP,
                   most = (uint64_t)c->processors * EACH;
    const unsigned groups = (unsigned)(needed < most ? needed : most);
    DEVICE_TRY(enter(c));
    return leave(
        check(cu.cuLaunchKernel(p->function, groups, 1, 1, GROUP, 1, 1, 0, stream, arguments, NULL), "run a kernel"));
}

const device_backend device_cuda = {.name = "cuda",
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
                                    .order = order,
                                    .launch = launch,
                                    .mark = mark,
                                    .wait = wait_for_all};

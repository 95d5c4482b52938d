/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver and NVRTC that run on the processor, for the back end's tests where there is no GPU. The kernel is the library's own
 * text in its CUDA form (test_cuda.py puts it into emulated.cu), compiled by g++ with the few words of CUDA defined here; a group
 * has one thread. Memory is the processor's.
 *
 * It holds the back end to its promises and aborts if one is broken: a context is current in every call and none is left behind;
 * memory is wiped before it is freed, and the key before its module is; a kernel in another stream than the last one of its module
 * has waited for that one; everything is freed at the end; NVRTC is asked for arithmetic without fusing.
 */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

/* ---- the words of CUDA ---- */

struct three { unsigned x; };
static three threadIdx, blockIdx, blockDim = {1}, gridDim = {4};
struct float4 { float x, y, z, w; };
struct ushort4 { unsigned short x, y, z, w; };
static float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
static ushort4 make_ushort4(unsigned short a, unsigned short b, unsigned short c, unsigned short d) { return {a, b, c, d}; }
template <class To, class From> static To same_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
static unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static float __int2float_rn(int x) { return (float)x; }
static int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) { return high << n | low >> (32 - n); }
static unsigned __byte_perm(unsigned a, unsigned b, unsigned how) {
    const uint64_t both = (uint64_t)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) out |= (unsigned)(both >> (8 * (how >> (4 * i) & 7)) & 255) << (8 * i);
    return out;
}
static float __fadd_rn(float a, float b) { return a + b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fsqrt_rn(float a) { return sqrtf(a); }
static void __syncthreads() {}
static const char *shared_base;
static size_t __cvta_generic_to_shared(const void *p) { shared_base = (const char *)p; return 0; }
#define __CUDACC__ 1
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static
#define __constant__ static
#define __launch_bounds__(n)
#include "emulated.cu"

/* ---- the promises ---- */

static void promise(bool kept, const char *what) {
    if (kept) return;
    fprintf(stderr, "mock CUDA driver: broken promise: %s\n", what);
    abort();
}

struct module { uint32_t key[60]; void *last; bool any, waited; };
static std::map<uint64_t, size_t> memory;
static int current, retained, modules, events;
static void in_context() { promise(current == 1, "a context is current"); }
static bool zeros(const void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((const char *)p)[i] != 0) return false;
    return true;
}
static module *launching; /* events are of the module whose back end calls come in between */
struct at_end {
    ~at_end() { promise(memory.empty() && modules == 0 && events == 0 && retained == 0 && current == 0, "all is freed at the end"); }
} at_end_;

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *name, int n, int) { snprintf(name, (size_t)n, "mock GPU"); return 0; }
int cuDeviceGetAttribute(int *v, int which, int) { *v = which == 75 ? 8 : which == 76 ? 0 : 2; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int) { retained++; *c = &retained; return 0; }
int cuDevicePrimaryCtxRelease_v2(int) { retained--; return 0; }
int cuCtxPushCurrent_v2(void *c) { promise(c == &retained && current == 0, "contexts are pushed once"); current++; return 0; }
int cuCtxPopCurrent_v2(void **) { in_context(); current--; return 0; }
int cuCtxSynchronize() { in_context(); return 0; }
int cuModuleLoadData(void **m, const void *image) {
    in_context();
    promise(strcmp((const char *)image, "image") == 0, "the image is NVRTC's");
    *m = calloc(1, sizeof(module));
    modules++;
    return 0;
}
int cuModuleUnload(void *m) {
    in_context();
    promise(zeros(((module *)m)->key, 240), "the key is wiped");
    free(m);
    modules--;
    return 0;
}
int cuModuleGetFunction(void **f, void *m, const char *name) { *f = m; return strcmp(name, "dpmf_rows"); }
int cuModuleGetGlobal_v2(uint64_t *p, size_t *n, void *m, const char *name) {
    *p = (uint64_t)((module *)m)->key;
    *n = 240;
    return strcmp(name, "dpmf_key");
}
int cuMemAlloc_v2(uint64_t *p, size_t n) {
    in_context();
    if (n > (size_t)1 << 34) return 2;
    void *m = aligned_alloc(256, (n + 255) / 256 * 256);
    memset(m, 0x5A, n); /* what others left there */
    memory[*p = (uint64_t)m] = n;
    return 0;
}
int cuMemFree_v2(uint64_t p) {
    in_context();
    promise(memory.count(p) == 1, "what is freed was allocated");
    promise(zeros((void *)p, memory[p]), "memory is wiped before it is freed");
    memory.erase(p);
    free((void *)p);
    return 0;
}
int cuMemsetD8_v2(uint64_t p, unsigned char v, size_t n) { in_context(); memset((void *)p, v, n); return 0; }
int cuMemcpyHtoD_v2(uint64_t p, const void *from, size_t n) { in_context(); memcpy((void *)p, from, n); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t p, const void *from, size_t n, void *) { return cuMemcpyHtoD_v2(p, from, n); }
int cuMemcpyDtoH_v2(void *to, uint64_t p, size_t n) { in_context(); memcpy(to, (void *)p, n); return 0; }
int cuEventCreate(void **e, unsigned flags) { in_context(); *e = calloc(1, 8); events++; return flags == 2 ? 0 : 1; }
int cuEventDestroy_v2(void *e) { in_context(); free(e); events--; return 0; }
int cuEventRecord(void *e, void *) { in_context(); *(module **)e = launching; return 0; }
int cuStreamWaitEvent(void *, void *e, unsigned) { in_context(); (*(module **)e)->waited = true; return 0; }
int cuGetErrorString(int code, const char **words) { *words = code == 2 ? "out of memory" : "an error"; return 0; }

int cuLaunchKernel(void *f, unsigned groups, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned, void *stream,
                   void **a, void **) {
    module *m = (module *)f;
    in_context();
    promise(groups >= 1 && threads == 256, "a launch has threads");
    promise(!m->any || m->last == stream || m->waited, "a kernel waits for the last one in another stream");
    if (m->any && m->last != stream) m->waited = false;
    m->last = stream, m->any = true, launching = m;
    memcpy(dpmf_key, m->key, sizeof dpmf_key);
#define ARGUMENT(type, i) (*(type *)a[i])
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        dpmf_rows(ARGUMENT(const word *, 0), ARGUMENT(const float *, 1), ARGUMENT(const wide *, 2), ARGUMENT(float *, 3),
                  ARGUMENT(float *, 4), ARGUMENT(wide, 5), ARGUMENT(wide, 6), ARGUMENT(wide, 7), ARGUMENT(wide, 8),
                  ARGUMENT(int, 9), ARGUMENT(int, 10), ARGUMENT(int, 11), ARGUMENT(int, 12), ARGUMENT(int, 13),
                  ARGUMENT(int, 14), ARGUMENT(int, 15), ARGUMENT(int, 16), ARGUMENT(float, 17));
    return 0;
}

int nvrtcCreateProgram(void **p, const char *source, const char *, int, const char *const *, const char *const *) {
    *p = (void *)source;
    return strstr(source, "dpmf_rows") == nullptr;
}
int nvrtcCompileProgram(void *, int n, const char *const *option) {
    std::string all;
    for (int i = 0; i < n; i++) all += std::string(option[i]) + " ";
    for (const char *flag : {"--gpu-architecture=sm_80 ", "--fmad=false ", "--prec-div=true ", "--prec-sqrt=true ", "--ftz=false "})
        promise(all.find(flag) != std::string::npos, flag);
    return 0;
}
int nvrtcGetCUBINSize(void *, size_t *n) { *n = 6; return 0; }
int nvrtcGetCUBIN(void *, char *out) { memcpy(out, "image", 6); return 0; }
int nvrtcGetProgramLogSize(void *, size_t *n) { *n = 1; return 0; }
int nvrtcGetProgramLog(void *, char *out) { *out = 0; return 0; }
int nvrtcDestroyProgram(void **p) { *p = nullptr; return 0; }
}

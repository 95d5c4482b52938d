/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few words in which OpenCL C and CUDA C differ; rows.cl is written in the common part. The library contains both
 * texts, in this order, and the driver compiles them when a device is opened.
 *
 * DPMF_COPIES: the number of copies of the table of AES in local memory, a power of two. With one copy for each memory
 * bank, 32, no two lanes of a warp ever wait for each other, and the time of a look-up does not depend on the key. A
 * processor needs 1.
 */
#ifndef DPMF_COPIES
#define DPMF_COPIES 32
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

typedef unsigned int word;
typedef unsigned long long wide;
typedef unsigned short half_word;
#define FUNCTION static __device__ __forceinline__
#define FAR_FUNCTION static __device__ __noinline__ /* seldom called: out of the way of the rest */
#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define GLOBAL
#define LOCAL __shared__
#define LOCAL_WORDS word /* their addresses in 32 bits: with a pointer's 64 every look-up would take one more instruction */
#define UNROLL _Pragma("unroll")
#define LEAVE_ROLLED _Pragma("unroll 1")
#define WAIT_FOR_GROUP() __syncthreads()
#define LOCAL_ID() threadIdx.x
#define LOCAL_SIZE() blockDim.x
#define GLOBAL_ID() ((wide)blockIdx.x * blockDim.x + threadIdx.x)
#define GLOBAL_SIZE() ((wide)gridDim.x * blockDim.x)
#define BITS(x) __float_as_uint(x)
#define OF_BITS(x) __uint_as_float(x)
#define SIGNED_TO_FLOAT(x) __int2float_rn((int)(x))
#define LEADING_ZEROS(x) ((word)__clz((int)(x)))
#define ROTATE(x, n) __funnelshift_l(x, x, n)
#define BYTE(x, k) __byte_perm(x, 0u, 0x4440u | (k)) /* one instruction */
/* These are never fused, with any flags. */
#define ADD(a, b) __fadd_rn(a, b)
#define MULTIPLY(a, b) __fmul_rn(a, b)
#define DIVIDE(a, b) __fdiv_rn(a, b)
#define ROOT(a) __fsqrt_rn(a)
#define FUSED(a, b, c) __fmaf_rn(a, b, c)
/* A module's constant memory is an operand of its instructions, so reading the key costs no instruction. */
__constant__ word dpmf_key[60];
#define KEY_PARAMETER
#define KEY_POINTER const word *
#define KEY dpmf_key
#define VECTOR_ALIGNED(pointer, bytes) (((wide)(pointer) & ((bytes) - 1)) == 0)

/* To be called after WAIT_FOR_GROUP: every look-up needs this address, so none can run earlier. */
FUNCTION LOCAL_WORDS words_at(const word *words) {
    word at = (word)__cvta_generic_to_shared(words);
    asm volatile("" : "+r"(at) : : "memory");
    return at;
}
FUNCTION word look_up(LOCAL_WORDS table, word s) {
    word found;
    asm("ld.shared.u32 %0, [%1];" : "=r"(found) : "r"(s * (4u * DPMF_COPIES) + table));
    return found;
}

FUNCTION void read_four(const float *from, float v[4]) {
    const float4 all = *(const float4 *)from;
    v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
}
FUNCTION void write_four(float *to, const float v[4]) {
    *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
}
FUNCTION void read_four_halves(const half_word *from, word v[4]) {
    const ushort4 all = *(const ushort4 *)from;
    v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
}
FUNCTION void write_four_halves(half_word *to, const word v[4]) {
    *(ushort4 *)to = make_ushort4((half_word)v[0], (half_word)v[1], (half_word)v[2], (half_word)v[3]);
}

#else

#pragma OPENCL FP_CONTRACT OFF
typedef uint word;
typedef ulong wide;
typedef ushort half_word;
/* Always in line, because PoCL 3.1 loses the local memory of a function that it calls. */
#define FUNCTION __attribute__((always_inline)) static inline
#define FAR_FUNCTION FUNCTION
#define KERNEL __kernel void
#define GLOBAL __global
#define LOCAL __local
#define LOCAL_WORDS __local const word *
#define UNROLL
#define LEAVE_ROLLED
#define WAIT_FOR_GROUP() barrier(CLK_LOCAL_MEM_FENCE)
#define LOCAL_ID() ((word)get_local_id(0))
#define LOCAL_SIZE() ((word)get_local_size(0))
#define GLOBAL_ID() ((wide)get_global_id(0))
#define GLOBAL_SIZE() ((wide)get_global_size(0))
#define BITS(x) as_uint(x)
#define OF_BITS(x) as_float(x)
#define SIGNED_TO_FLOAT(x) convert_float_rte((int)(x))
#define LEADING_ZEROS(x) clz(x)
#define ROTATE(x, n) rotate(x, (word)(n))
#define BYTE(x, k) ((x) >> (8 * (k)) & 255u)
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define DIVIDE(a, b) ((a) / (b))
#define ROOT(a) sqrt(a)
#define FUSED(a, b, c) fma(a, b, c)
#define KEY_PARAMETER __constant const word *dpmf_key,
#define KEY_POINTER __constant const word *
#define KEY dpmf_key
#define VECTOR_ALIGNED(pointer, bytes) 1 /* vload4 needs no alignment */

FUNCTION LOCAL_WORDS words_at(LOCAL_WORDS words) {
    return words;
}
FUNCTION word look_up(LOCAL_WORDS table, word s) {
    return table[s * DPMF_COPIES];
}

FUNCTION void read_four(__global const float *from, float v[4]) {
    const float4 all = vload4(0, from);
    v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
}
FUNCTION void write_four(__global float *to, const float v[4]) {
    vstore4((float4)(v[0], v[1], v[2], v[3]), 0, to);
}
FUNCTION void read_four_halves(__global const half_word *from, word v[4]) {
    const ushort4 all = vload4(0, from);
    v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
}
FUNCTION void write_four_halves(__global half_word *to, const word v[4]) {
    vstore4((ushort4)((half_word)v[0], (half_word)v[1], (half_word)v[2], (half_word)v[3]), 0, to);
}

#endif

/* a b + c, each operation rounded separately. The test hook fuses them, as a device with other arithmetic would. */
#ifdef DPMF_BROKEN_FUSED
#define MULTIPLY_ADD(a, b, c) FUSED(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ADD(MULTIPLY(a, b), c)
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the kernel by themselves, so that count.py can count their instructions: compiled, never run. Follows rows.cl. */
extern "C" __global__ void part_none(word *out, wide row) {
    __shared__ word tables[256 * DPMF_COPIES];
    out[threadIdx.x] = tables[threadIdx.x] + (word)row;
}

/* Two blocks: eight numbers. */
extern "C" __global__ void part_aes(word *out, wide row) {
    __shared__ word tables[256 * DPMF_COPIES];
    const LOCAL_WORDS table = words_at(tables + (threadIdx.x & (DPMF_COPIES - 1)));
    const wide index = 8 * (wide)blockIdx.x + threadIdx.x;
    word w[4], a[4];
    begin_block(dpmf_key, index, row, w);
    begin_block(dpmf_key, index + 4, row, a);
    UNROLL for (int r = 1; r < 14; r++) {
        one_round(table, dpmf_key + 4 * r, w);
        one_round(table, dpmf_key + 4 * r, a);
    }
    last_round(table, dpmf_key + 56, w);
    last_round(table, dpmf_key + 56, a);
    out[threadIdx.x] = w[0] ^ w[1] ^ w[2] ^ w[3] ^ a[0] ^ a[1] ^ a[2] ^ a[3];
}

/* One pair of numbers. */
extern "C" __global__ void part_normal(float *out, const word *words) {
    const word w = words[threadIdx.x], a = words[threadIdx.x + 256], n = LEADING_ZEROS(w | 1u);
    polar(SIGNED_TO_FLOAT(w << (n & 31u)), 0x1p33f, MULTIPLY(SIGNED_TO_FLOAT(n), 0x1.62e43p+0f), a, out + threadIdx.x,
          out + threadIdx.x + 256);
}

/* Eight numbers: one buffer of a TV-BLT, and the gradient in float32. */
extern "C" __global__ void part_buffer(float *state, const float *weight, float *out, wide stride, float scale) {
    const word mask[2] = {15u, 15u};
    float y[8];
    read_eight(out + 32 * threadIdx.x, mask, y);
    step_tvblt(state + 32 * threadIdx.x, stride, mask, 0, weight + 1, 1, 0, y);
    write_eight(out + 32 * threadIdx.x, mask, y);
}

extern "C" __global__ void part_emit(float *out, float *row, float scale) {
    float y[4];
    read_four(row + 4 * threadIdx.x, y);
    emit_floats(out + 32 * threadIdx.x, 15u, 1, scale, y);
}

/* torch's own normals by the same reckoning: Philox 4x32 with ten rounds, then Box and Muller with the fast functions. */
extern "C" __global__ void part_philox(float *out, wide seed) {
    word c0 = threadIdx.x, c1 = blockIdx.x, c2 = 0, c3 = 0, k0 = (word)seed, k1 = (word)(seed >> 32);
    UNROLL for (int r = 0; r < 10; r++) {
        const word h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0, h1 = __umulhi(0xCD9E8D57u, c2),
                   l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0, c1 = l1, c2 = h0 ^ c3 ^ k1, c3 = l0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    const float u = c0 * 0x1p-32f + 0x1p-33f, v = c1 * 0x1.921fb6p-30f, s = c2 * 0x1p-32f + 0x1p-33f,
                t = c3 * 0x1.921fb6p-30f;
    const float p = sqrtf(-2.0f * __logf(u)), q = sqrtf(-2.0f * __logf(s));
    float sine, cosine;
    __sincosf(v, &sine, &cosine);
    out[4 * threadIdx.x] = p * sine, out[4 * threadIdx.x + 1] = p * cosine;
    __sincosf(t, &sine, &cosine);
    out[4 * threadIdx.x + 2] = q * sine, out[4 * threadIdx.x + 3] = q * cosine;
}

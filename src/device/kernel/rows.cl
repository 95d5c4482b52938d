/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of noise, of the coordinates [from, to): seeds, recursion, and the row added into the caller's gradients, in one pass.
 *
 * docs/noise.md is the specification, src/kernels/seed/body.inc the implementation on processors. A unit is 32
 * coordinates and 8 blocks of AES, four of radius words and four of angle words. A thread takes blocks q and 4 + q of a
 * unit, q < 4, which are its coordinates 4q .. 4q+3 and 16+4q .. 16+4q+3: two blocks, eight numbers, two vector
 * accesses to every row that is touched, and no word is shared with another thread.
 *
 * AES uses one table of 256 words in local memory: T[s] = (2 S, S, S, 3 S), S the S-box at s, lowest byte first; the
 * other three columns of MixColumns are rotations of it and the S-box is its second byte. Bitslicing needs no table,
 * but 128 registers of state for 32 blocks at a time and about as many instructions (docs/device.md has the count).
 */

/* ---- AES-256 ---- */

#define LOOK_UP(s) look_up(table, s)

FUNCTION word mix_column(LOCAL_WORDS table, word a, word b, word c, word d, word key) {
    return LOOK_UP(BYTE(a, 0)) ^ ROTATE(LOOK_UP(BYTE(b, 1)), 8) ^ ROTATE(LOOK_UP(BYTE(c, 2)), 16) ^
           ROTATE(LOOK_UP(BYTE(d, 3)), 24) ^ key;
}

FUNCTION word last_column(LOCAL_WORDS table, word a, word b, word c, word d, word key) {
    return (BYTE(LOOK_UP(BYTE(a, 0)), 1) | (LOOK_UP(BYTE(b, 1)) & 0xFF00u) | (LOOK_UP(BYTE(c, 2)) & 0xFF0000u) |
            BYTE(LOOK_UP(BYTE(d, 3)), 1) << 24) ^
           key;
}

FUNCTION void one_round(LOCAL_WORDS table, KEY_POINTER key, word s[4]) {
    const word a = s[0], b = s[1], c = s[2], d = s[3];
    s[0] = mix_column(table, a, b, c, d, key[0]);
    s[1] = mix_column(table, b, c, d, a, key[1]);
    s[2] = mix_column(table, c, d, a, b, key[2]);
    s[3] = mix_column(table, d, a, b, c, key[3]);
}

FUNCTION void last_round(LOCAL_WORDS table, KEY_POINTER key, word s[4]) {
    const word a = s[0], b = s[1], c = s[2], d = s[3];
    s[0] = last_column(table, a, b, c, d, key[0]);
    s[1] = last_column(table, b, c, d, a, key[1]);
    s[2] = last_column(table, c, d, a, b, key[2]);
    s[3] = last_column(table, d, a, b, c, key[3]);
}

/* The counter of a block: index in bits 0-63, row and domain in bits 64-127. */
FUNCTION void begin_block(KEY_POINTER key, wide index, wide high, word s[4]) {
    s[0] = (word)index ^ key[0];
    s[1] = (word)(index >> 32) ^ key[1];
    s[2] = (word)high ^ key[2];
    s[3] = (word)(high >> 32) ^ key[3];
}

/* ---- normal numbers ---- */

FUNCTION void polar(float f, float two, float base, word a, float *x, float *y) {
    const float t = MULTIPLY(SIGNED_TO_FLOAT(a << 2 | 2u), 0x1p-31f), z = MULTIPLY(t, t);
    float sine = MULTIPLY_ADD(-0x1.33198ep-15f, z, 0x1.4680a4p-9f);
    float cosine = MULTIPLY_ADD(-0x1.4e99f2p-12f, z, 0x1.03b116p-6f);
    sine = MULTIPLY_ADD(sine, z, -0x1.4abc24p-4f);
    cosine = MULTIPLY_ADD(cosine, z, -0x1.3bd3ap-2f);
    sine = MULTIPLY(t, MULTIPLY_ADD(sine, z, 0x1.921fb6p-1f));
    cosine = MULTIPLY_ADD(cosine, z, 1.0f);
    const float s = DIVIDE(f, ADD(f, two)), ss = MULTIPLY(s, s);
    float log = MULTIPLY_ADD(-0x1.5c42ccp-1f, ss, -0x1.95d66ap-1f);
    log = MULTIPLY_ADD(log, ss, -0x1.555e64p+0f);
    log = MULTIPLY(s, MULTIPLY_ADD(log, ss, -4.0f));
    const float radius = ROOT(ADD(base, log));
    const word rs = BITS(MULTIPLY(radius, sine)), rc = BITS(MULTIPLY(radius, cosine)) ^ (a & 0x80000000u);
    const word change = (rs ^ rc) & (0u - (a >> 30 & 1u)); /* masks, since the timing of a branch would reveal the bits */
    *x = OF_BITS(rc ^ change);
    *y = OF_BITS(rs ^ change);
}

/* A radius word below 2^20, one of 4096, gets 48 more bits from a separate block. */
FAR_FUNCTION wide small_pair(LOCAL_WORDS table, KEY_POINTER key, wide row, wide index, word w, word a) {
    word s[4];
    float x, y;
    begin_block(key, index, row | (wide)2 << 60, s);
    LEAVE_ROLLED for (int r = 1; r < 14; r++) one_round(table, key + 4 * r, s);
    last_round(table, key + 56, s);
    const float low = ADD(SIGNED_TO_FLOAT(s[1] >> 8), 0.5f);
    const float u = MULTIPLY_ADD(MULTIPLY_ADD(SIGNED_TO_FLOAT(w), 0x1p24f, SIGNED_TO_FLOAT(s[0] >> 8)), 0x1p24f, low);
    const word bits = BITS(u), n = 127u + 79u - (bits >> 23);
    const float f = ADD(OF_BITS(bits + (n << 23) - (80u << 23)), -1.0f);
    polar(f, 2.0f, MULTIPLY(SIGNED_TO_FLOAT(n), 0x1.62e43p+0f), a, &x, &y);
    return (wide)BITS(y) << 32 | BITS(x); /* in registers, since pointers would put the caller's numbers into memory */
}

/* Z[row, .] of the thread's eight coordinates. */
FUNCTION void make_seed(LOCAL_WORDS table, KEY_POINTER key, wide row, wide unit, word q, float z[8]) {
    const wide index = 8 * unit + q;
    word w[4], a[4];
    begin_block(key, index, row, w);
    begin_block(key, index + 4, row, a);
    UNROLL for (int r = 1; r < 14; r++) {
        one_round(table, key + 4 * r, w);
        one_round(table, key + 4 * r, a);
    }
    last_round(table, key + 56, w);
    last_round(table, key + 56, a);
    UNROLL for (int i = 0; i < 4; i++) {
        const word n = LEADING_ZEROS(w[i] | 1u), shift = n & 31u; /* a word of 0 is small, and its result is not used */
        polar(SIGNED_TO_FLOAT(w[i] << shift), 0x1p33f, MULTIPLY(SIGNED_TO_FLOAT(n), 0x1.62e43p+0f), a[i], &z[i],
              &z[4 + i]);
    }
    if (((w[0] >> 20 == 0u) | (w[1] >> 20 == 0u)) | ((w[2] >> 20 == 0u) | (w[3] >> 20 == 0u)))
        UNROLL for (int i = 0; i < 4; i++) if (w[i] >> 20 == 0u) {
            const wide pair = small_pair(table, key, row, 4 * index + (wide)i, w[i], a[i]);
            z[i] = OF_BITS((word)pair);
            z[4 + i] = OF_BITS((word)(pair >> 32));
        }
}

/* ---- numbers of other types: to the nearest, ties to even ---- */

FUNCTION word to_bfloat16(float x) {
    const word b = BITS(x);
    return (b & 0x7FFFFFFFu) > 0x7F800000u ? (b >> 16 | 0x40u) : (b + 0x7FFFu + (b >> 16 & 1u)) >> 16;
}

FUNCTION word to_float16(float x) {
    const word b = BITS(x), sign = b >> 16 & 0x8000u, size = b & 0x7FFFFFFFu;
    const word normal = (size + 0xFFFu + (size >> 13 & 1u) - (112u << 23)) >> 13;
    /* Below 2^-14 the spacing is 2^-24, where adding 1/2 rounds. */
    const word small = BITS(ADD(OF_BITS(size), 0.5f)) - 0x3F000000u;
    const word large = size > 0x7F800000u ? 0x7E00u : 0x7C00u;
    return sign | (size < 0x38800000u ? small : size < 0x47800000u ? normal : large);
}

FUNCTION float of_float16(word h) {
    const word sign = h << 16 & 0x80000000u, size = h & 0x7FFFu;
    const word small = BITS(MULTIPLY(SIGNED_TO_FLOAT(size), 0x1p-24f));
    const word normal = (size << 13) + ((size < 0x7C00u ? 112u : 224u) << 23);
    return OF_BITS(sign | (size < 0x400u ? small : normal));
}

/* ---- rows ---- */

enum { KIND_SUM = 0, KIND_FEEDBACK, KIND_BLT, KIND_TVBLT, KIND_TVBLT_SECOND, KIND_REPLAY, KIND_HELD };
enum { TYPE_NONE = 0, TYPE_FLOAT32, TYPE_BFLOAT16, TYPE_FLOAT16 };

/* The mask of the four coordinates from `at` on that are in [from, to). */
FUNCTION word inside(wide at, wide from, wide to) {
    word mask = 0;
    UNROLL for (int i = 0; i < 4; i++) mask |= (word)(at + (wide)i >= from && at + (wide)i < to) << i;
    return mask;
}

/* A thread's eight numbers: four at x, four at x + 16. Those outside of the mask are neither read nor written. */
FUNCTION void read_eight(GLOBAL const float *x, const word mask[2], float v[8]) {
    UNROLL for (int h = 0; h < 2; h++) {
        if (mask[h] == 15u)
            read_four(x + 16 * h, v + 4 * h);
        else
            UNROLL for (int i = 0; i < 4; i++) v[4 * h + i] = mask[h] >> i & 1u ? x[16 * h + i] : 0.0f;
    }
}

FUNCTION void write_eight(GLOBAL float *x, const word mask[2], const float v[8]) {
    UNROLL for (int h = 0; h < 2; h++) {
        if (mask[h] == 15u)
            write_four(x + 16 * h, v + 4 * h);
        else
            UNROLL for (int i = 0; i < 4; i++) if (mask[h] >> i & 1u) x[16 * h + i] = v[4 * h + i];
    }
}

FUNCTION void read_old(GLOBAL const float *x, const word mask[2], int fresh, float v[8]) {
    if (fresh)
        UNROLL for (int i = 0; i < 8; i++) v[i] = 0.0f;
    else
        read_eight(x, mask, v);
}

/* Four numbers of the caller's, a float for each. */
FUNCTION void emit_floats(GLOBAL float *out, word mask, int add, float scale, const float y[4]) {
    float g[4];
    if (mask == 15u && VECTOR_ALIGNED(out, 16)) {
        if (add) read_four(out, g);
        UNROLL for (int i = 0; i < 4; i++) g[i] = add ? MULTIPLY_ADD(scale, y[i], g[i]) : MULTIPLY(scale, y[i]);
        write_four(out, g);
    } else {
        UNROLL for (int i = 0; i < 4; i++) if (mask >> i & 1u) out[i] =
            add ? MULTIPLY_ADD(scale, y[i], out[i]) : MULTIPLY(scale, y[i]);
    }
}

/* A sum in float32, rounded once more. */
FUNCTION word half_sum(int type, word old, int add, float scale, float y) {
    const float before = type == TYPE_FLOAT16 ? of_float16(old) : OF_BITS(old << 16);
    const float sum = add ? MULTIPLY_ADD(scale, y, before) : MULTIPLY(scale, y);
    return type == TYPE_FLOAT16 ? to_float16(sum) : to_bfloat16(sum);
}

FUNCTION void emit_halves(GLOBAL half_word *out, word mask, int type, int add, float scale, const float y[4]) {
    word g[4] = {0, 0, 0, 0};
    if (mask == 15u && VECTOR_ALIGNED(out, 8)) {
        if (add) read_four_halves(out, g);
        UNROLL for (int i = 0; i < 4; i++) g[i] = half_sum(type, g[i], add, scale, y[i]);
        write_four_halves(out, g);
    } else {
        UNROLL for (int i = 0; i < 4; i++) if (mask >> i & 1u) out[i] =
            (half_word)half_sum(type, out[i], add, scale, y[i]);
    }
}

/* u = ((0 + w_0 z_0) + w_1 z_1) + ... */
FUNCTION void mix_seeds(LOCAL_WORDS table, KEY_POINTER key, GLOBAL const wide *seed, GLOBAL const float *weight, int seeds,
                        wide unit, word q, float u[8]) {
    UNROLL for (int i = 0; i < 8; i++) u[i] = 0.0f;
    LEAVE_ROLLED for (int k = 0; k < seeds; k++) {
        const float w = weight[k];
        float z[8];
        make_seed(table, key, seed[k], unit, q, z);
        UNROLL for (int i = 0; i < 8; i++) u[i] = MULTIPLY_ADD(w, z[i], u[i]);
    }
}

/* y = ((w_0 z + w_p x_{t-p}) + ...) + w_1 x_{t-1}, the oldest row first; it takes the place of the oldest. */
FUNCTION void feed_back(GLOBAL float *x, wide stride, const word mask[2], GLOBAL const float *weight, int past,
                        int buffers, int slot, float y[8]) {
    int from = slot - past < 0 ? slot - past + buffers : slot - past;
    UNROLL for (int i = 0; i < 8; i++) y[i] = MULTIPLY(weight[0], y[i]);
    LEAVE_ROLLED for (int p = past; p > 0; p--) {
        float old[8];
        read_eight(x + (wide)from * stride, mask, old);
        UNROLL for (int i = 0; i < 8; i++) y[i] = MULTIPLY_ADD(weight[p], old[i], y[i]);
        from = from + 1 == buffers ? 0 : from + 1;
    }
    write_eight(x + (wide)slot * stride, mask, y);
}

/* Two passes over the buffers, since each needs the complete y. The second pass reads them from the cache. */
FUNCTION void step_blt(GLOBAL float *x, wide stride, const word mask[2], GLOBAL const float *weight, int buffers,
                       int fresh, float y[8]) {
    float old[8];
    LEAVE_ROLLED for (int j = 0; j < buffers; j++) {
        read_old(x + (wide)j * stride, mask, fresh, old);
        UNROLL for (int i = 0; i < 8; i++) y[i] = MULTIPLY_ADD(-weight[j], old[i], y[i]);
    }
    LEAVE_ROLLED for (int j = 0; j < buffers; j++) {
        read_old(x + (wide)j * stride, mask, fresh, old);
        UNROLL for (int i = 0; i < 8; i++)
            old[i] = ADD(MULTIPLY_ADD(-weight[buffers + j], old[i], old[i]), y[i]);
        write_eight(x + (wide)j * stride, mask, old);
    }
    UNROLL for (int i = 0; i < 8; i++) y[i] = MULTIPLY(weight[2 * buffers], y[i]);
}

/* TV-BLT, and with h (not NULL) that of mixed seeds: y = (d u + h_0 x_0) + ..., x_j <- x_j + (l_j x_j + g_j u). */
FUNCTION void step_tvblt(GLOBAL float *x, wide stride, const word mask[2], GLOBAL const float *h,
                         GLOBAL const float *less, int buffers, int fresh, float y[8]) {
    GLOBAL const float *gain = less + buffers;
    float u[8];
    UNROLL for (int i = 0; i < 8; i++) u[i] = y[i];
    if (h == 0) UNROLL for (int i = 0; i < 8; i++) y[i] = MULTIPLY(less[-1], u[i]);
    LEAVE_ROLLED for (int j = 0; j < buffers; j++) {
        float old[8];
        read_old(x + (wide)j * stride, mask, fresh, old);
        UNROLL for (int i = 0; i < 8; i++) {
            y[i] = h == 0 ? ADD(y[i], old[i]) : MULTIPLY_ADD(h[j], old[i], y[i]);
            old[i] = ADD(old[i], MULTIPLY_ADD(less[j], old[i], MULTIPLY(gain[j], u[i])));
        }
        write_eight(x + (wide)j * stride, mask, old);
    }
    UNROLL for (int i = 0; i < 8; i++) y[i] = MULTIPLY(gain[buffers], y[i]);
}

FUNCTION void step_second(GLOBAL float *x, wide stride, const word mask[2], GLOBAL const float *weight, int nodes,
                          int fresh, float y[8]) {
    GLOBAL const float *keep = weight + 1, *gain = keep + 2 * nodes;
    float z[8];
    UNROLL for (int i = 0; i < 8; i++) z[i] = y[i], y[i] = MULTIPLY(weight[0], y[i]);
    LEAVE_ROLLED for (int j = 0; j < nodes; j++) {
        float first[8], second[8];
        read_old(x + (wide)j * stride, mask, fresh, first);
        read_old(x + (wide)(nodes + j) * stride, mask, fresh, second);
        UNROLL for (int i = 0; i < 8; i++) {
            const float change = MULTIPLY_ADD(keep[j], first[i], MULTIPLY(keep[nodes + j], second[i]));
            y[i] = ADD(y[i], first[i]);
            first[i] = ADD(first[i], MULTIPLY_ADD(gain[j], z[i], change));
            second[i] = MULTIPLY_ADD(gain[nodes + j], z[i], change);
        }
        write_eight(x + (wide)j * stride, mask, first);
        write_eight(x + (wide)(nodes + j) * stride, mask, second);
    }
    UNROLL for (int i = 0; i < 8; i++) y[i] = MULTIPLY(gain[2 * nodes], y[i]);
}

#ifdef DPMF_KIND /* for counting: one route, one type */
#define kind DPMF_KIND
#define type DPMF_TYPE
#define KIND_ARGUMENT kind_
#define TYPE_ARGUMENT type_
#else
#define KIND_ARGUMENT kind
#define TYPE_ARGUMENT type
#endif

/*
 * state: buffers of `stride` numbers from coordinate `base`, a multiple of 32. out: the caller's numbers from coordinate
 * `from`. weight, seed: as in a recipe of dpmf.h. fresh: the buffers count as 0. slot: that of the row, in a ring.
 */
KERNEL dpmf_rows(KEY_PARAMETER GLOBAL const word *tables, GLOBAL const float *weight, GLOBAL const wide *seed,
                 GLOBAL float *state, GLOBAL float *out, wide base, wide stride, wide from, wide to, int KIND_ARGUMENT,
                 int buffers, int seeds, int weights, int fresh, int slot, int TYPE_ARGUMENT, int add, float scale) {
    LOCAL word tables_here[256 * DPMF_COPIES];
    for (word i = LOCAL_ID(); i < 256u * DPMF_COPIES; i += LOCAL_SIZE()) tables_here[i] = tables[i / DPMF_COPIES];
    WAIT_FOR_GROUP();
    LOCAL_WORDS table = words_at(tables_here + (LOCAL_ID() & (DPMF_COPIES - 1u)));
    const wide first = from / 32, items = 4 * ((to + 31) / 32 - first);
    LEAVE_ROLLED for (wide item = GLOBAL_ID(); item < items; item += GLOBAL_SIZE()) {
        const wide unit = first + item / 4;
        const word q = (word)item & 3u;
        const wide at = 32 * unit + 4 * q;
        const word mask[2] = {inside(at, from, to), inside(at + 16, from, to)};
        GLOBAL float *x = state + (at - base);
        float y[8];
        if ((mask[0] | mask[1]) == 0u) continue;
        if (kind == KIND_HELD)
            read_eight(x + (wide)slot * stride, mask, y);
        else if (kind == KIND_SUM || kind == KIND_REPLAY)
            mix_seeds(table, KEY, seed, weight, seeds, unit, q, y);
        else
            make_seed(table, KEY, seed[0], unit, q, y);
        if (kind == KIND_FEEDBACK) feed_back(x, stride, mask, weight, weights - 1, buffers, slot, y);
        if (kind == KIND_BLT) step_blt(x, stride, mask, weight, buffers, fresh, y);
        if (kind == KIND_TVBLT) step_tvblt(x, stride, mask, 0, weight + 1, buffers, fresh, y);
        if (kind == KIND_TVBLT_SECOND) step_second(x, stride, mask, weight, buffers / 2, fresh, y);
        if (kind == KIND_REPLAY)
            step_tvblt(x, stride, mask, weight + seeds, weight + seeds + buffers, buffers, fresh, y);
        UNROLL for (int h = 0; h < 2; h++) {
            const wide place = at + (wide)(16 * h) - from; /* wraps around where no coordinate is inside */
            if (mask[h] == 0u) continue;
            if (type == TYPE_FLOAT32) emit_floats(out + place, mask[h], add, scale, y + 4 * h);
            if (type == TYPE_BFLOAT16 || type == TYPE_FLOAT16)
                emit_halves((GLOBAL half_word *)out + place, mask[h], type, add, scale, y + 4 * h);
        }
    }
}

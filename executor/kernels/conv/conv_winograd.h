/* conv_winograd.h: tiles of F(4 x 4, 3 x 3), shared by a convolution and the gradient of its filter. */
#ifndef EXECUTOR_KERNELS_CONV_CONV_WINOGRAD_H
#define EXECUTOR_KERNELS_CONV_CONV_WINOGRAD_H

#include "executor/kernels/conv/conv.h"

enum { EDGE = 6, STEP = 4, ELEMENTS = EDGE * EDGE, MANY_TILES = 16 };

/* Polynomials are taken at 0, +-NEAR, +-FAR and infinity. The usual +-1 and +-2 have simpler factors, but errors 2.4
 * times as large. */
#define NEAR 0.625F
#define FAR 1.5F
#define NEAR_2 (NEAR * NEAR)
#define FAR_2 (FAR * FAR)
#define BY_ZERO (1 / (NEAR_2 * FAR_2)) /* over the products of a point's distances from the others */
#define BY_NEAR (1 / (2 * NEAR_2 * (NEAR_2 - FAR_2)))
#define BY_FAR (1 / (2 * FAR_2 * (FAR_2 - NEAR_2)))

/* Tiles are numbered over images, rows, columns. */
static inline int64_t tiles_across(int64_t extent) {
    return (extent + STEP - 1) / STEP;
}
static inline int64_t tiles_of_image(const conv *c) {
    return tiles_across(c->out.height) * tiles_across(c->out.width);
}
static inline int64_t winograd_tiles(const conv *c) {
    return c->in.count * tiles_of_image(c);
}
/* Windows of 3 x 3 that move by one, and tiles that lie inside the images for the most part. */
bool winograd_fits(const conv *c);

/* Where VEC tiles are: offsets of their first inputs and outputs, and which of their rows and columns exist. Lanes are
 * so assigned to tiles (winograd_tile_of) that four vectors of outputs side by side become the lanes of four columns,
 * and back, by vec_transpose_blocks. */
typedef struct places {
    int32_t in[VEC], out[VEC];                                                   /* from the first image's channel */
    uint32_t in_rows[EDGE], in_columns[EDGE], out_rows[STEP], out_columns[STEP]; /* a bit for each lane */
    bool whole;                 /* four outputs of a row exist or none */
    bool runs;                  /* each VEC / 4 tiles lie side by side, and all of their outputs exist */
    uint32_t left[4], right[4]; /* of run q: inputs that exist of the VEC from its first one on, and from the 5th on */
} places;
/* Of tiles [first, first + count); lanes of the tiles behind have none. */
void winograd_find_places(const conv *c, int64_t first, int64_t count, places *p);
static inline int winograd_tile_of(int lane) {
    return VEC / 4 * (lane % 4) + lane / 4;
}

/* Row i of the inputs of VEC tiles of one channel. */
static inline __attribute__((always_inline)) void winograd_inputs(const conv *c, const places *p, const float *x, int i,
                                                                  vec d[EDGE]) {
    x += i * c->in.row_step;
    if (!p->runs) {
        for (int k = 0; k < EDGE; k++) d[k] = vec_gather_at(x + k, p->in, p->in_rows[i] & p->in_columns[k]);
        return;
    }
    vec right[4];
    for (int q = 0; q < 4; q++) {
        const float *from = x + p->in[q];
        uint32_t exists = p->in_rows[i] >> q & 1 ? UINT32_MAX : 0;
        d[q] = vec_load_bits(from, exists & p->left[q]);
        right[q] = vec_load_bits(from + STEP, exists & p->right[q]);
    }
    vec_transpose_blocks(d);
    vec_transpose_blocks(right);
    d[4] = right[0];
    d[5] = right[1];
}

/* Row i of what belongs to the outputs: loaded, stored. */
static inline __attribute__((always_inline)) void winograd_load(const conv *c, const places *p, const float *y, int i,
                                                                vec d[STEP]) {
    y += i * c->out.row_step;
    if (p->runs) {
        for (int q = 0; q < 4; q++) d[q] = vec_load(y + p->out[q]);
        vec_transpose_blocks(d);
    } else if (p->whole) {
        float blocks[STEP * VEC] = {0};
        for (uint32_t lanes = p->out_rows[i]; lanes; lanes &= lanes - 1) {
            int lane = __builtin_ctz(lanes);
            memcpy(blocks + lane % 4 * VEC + lane / 4 * STEP, y + p->out[lane], STEP * sizeof *y);
        }
        for (int q = 0; q < 4; q++) d[q] = vec_load(blocks + q * VEC);
        vec_transpose_blocks(d);
    } else {
        for (int k = 0; k < STEP; k++) d[k] = vec_gather_at(y + k, p->out, p->out_rows[i] & p->out_columns[k]);
    }
}
static inline __attribute__((always_inline)) void winograd_store(const conv *c, const places *p, float *y, int i,
                                                                 vec d[STEP]) {
    y += i * c->out.row_step;
    if (p->runs) {
        vec_transpose_blocks(d);
        for (int q = 0; q < 4; q++) vec_store(y + p->out[q], d[q]);
    } else if (p->whole) {
        float blocks[STEP * VEC];
        vec_transpose_blocks(d);
        for (int q = 0; q < 4; q++) vec_store(blocks + q * VEC, d[q]);
        for (uint32_t lanes = p->out_rows[i]; lanes; lanes &= lanes - 1) {
            int lane = __builtin_ctz(lanes);
            memcpy(y + p->out[lane], blocks + lane % 4 * VEC + lane / 4 * STEP, STEP * sizeof *y);
        }
    } else {
        for (int k = 0; k < STEP; k++) vec_scatter_at(y + k, p->out, p->out_rows[i] & p->out_columns[k], d[k]);
    }
}

/* The taps of `count` (at most VEC) filters `step` floats apart, a lane each; and the reverse. */
static inline __attribute__((always_inline)) void winograd_take_filters(const float *from, int64_t step, int64_t count,
                                                                        vec taps[9]) {
#if defined(__AVX512F__)
    vec v[VEC];
    for (int i = 0; i < VEC; i++) v[i] = i < count ? vec_load_first(from + i * step, 9) : (vec){0};
    vec_transpose(v);
    for (int t = 0; t < 9; t++) taps[t] = v[t];
#else
    for (int t = 0; t < 9; t++)
        for (int i = 0; i < VEC; i++) taps[t][i] = i < count ? from[i * step + t] : 0;
#endif
}
static inline __attribute__((always_inline)) void winograd_put_filters(float *to, int64_t count, const vec taps[9]) {
#if defined(__AVX512F__)
    vec v[VEC] = {{0}};
    for (int t = 0; t < 9; t++) v[t] = taps[t];
    vec_transpose(v);
    for (int i = 0; i < VEC && i < count; i++) vec_store_first(to + i * 9, v[i], 9);
#else
    for (int i = 0; i < VEC && i < count; i++)
        for (int t = 0; t < 9; t++) to[i * 9 + t] = taps[t][i];
#endif
}

/* B^T d of a column of 6. */
static inline void winograd_split(const vec d[EDGE], vec out[EDGE]) {
    vec a = d[4] - FAR_2 * d[2], b = NEAR * (d[3] - FAR_2 * d[1]);
    vec e = d[4] - NEAR_2 * d[2], f = FAR * (d[3] - NEAR_2 * d[1]);
    out[0] = NEAR_2 * FAR_2 * d[0] - (NEAR_2 + FAR_2) * d[2] + d[4];
    out[1] = a + b;
    out[2] = a - b;
    out[3] = e + f;
    out[4] = e - f;
    out[5] = NEAR_2 * FAR_2 * d[1] - (NEAR_2 + FAR_2) * d[3] + d[5];
}

/* B^T d B of VEC tiles of one channel, elements `step` floats apart. */
static inline void winograd_split_tiles(const conv *c, const places *p, const float *x, float *out, int64_t step) {
    vec rows[EDGE][EDGE], result[EDGE];
    for (int i = 0; i < EDGE; i++) {
        vec d[EDGE];
        winograd_inputs(c, p, x, i, d);
        winograd_split(d, rows[i]);
    }
    for (int k = 0; k < EDGE; k++) {
        vec column[EDGE];
        for (int i = 0; i < EDGE; i++) column[i] = rows[i][k];
        winograd_split(column, result);
        for (int i = 0; i < EDGE; i++) vec_store(out + (i * EDGE + k) * step, result[i]);
    }
}

#endif

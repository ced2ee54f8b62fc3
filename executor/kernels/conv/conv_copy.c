/* conv_copy.c: images copied with zeros around them. So what a window sees of a tap lies at the window's offset plus
 * the tap's, with no border to look out for. Where windows move by s columns the copy keeps columns apart by their
 * remainder by s. So windows side by side see a tap side by side. For channels first. */
#include "executor/kernels/conv/conv.h"

static int32_t *tap_offsets(const conv *c, const conv_copy *copy, int32_t *offset) {
    const window *w = &c->w;
    for (int64_t ch = 0; ch < c->in_channels; ch++)
        for (int64_t i = 0; i < w->size[0]; i++)
            for (int64_t j = 0; j < w->size[1]; j++) {
                int64_t shift = j * w->dilation[1], row = i * w->dilation[0] * w->stride[1] + shift % w->stride[1];
                *offset++ = (int32_t)(ch * copy->channel + row * copy->row_length + shift / w->stride[1]);
            }
    return offset;
}

static int32_t *window_offsets(const conv *c, const conv_copy *copy, int32_t *offset) {
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t y = 0; y < c->out.height; y++)
            for (int64_t x = 0; x < c->out.width; x++)
                *offset++ = (int32_t)(n * copy->image + y * c->w.stride[0] * c->w.stride[1] * copy->row_length + x);
    return offset;
}

weft_status conv_copy_prepare(const kernel_prepare *p, conv *c) {
    const window *w = &c->w;
    if (c->channels_last || c->pointwise || c->positions < 1 || c->in.count < 1) return NULL;
    conv_copy copy = {.rows = (c->out.height - 1) * w->stride[0] + (w->size[0] - 1) * w->dilation[0] + 1,
                      .row_length = c->out.width + (w->size[1] - 1) * w->dilation[1] / w->stride[1]};
    copy.channel = copy.rows * w->stride[1] * copy.row_length;
    copy.image = c->in.channels * copy.channel;
    if (copy.image > INT32_MAX / c->batch || c->patch > INT32_MAX) return NULL;
    /* A vector of either may be read too far. */
    copy.taps = ARENA_ARRAY(p->arena, int32_t, c->patch + VEC);
    copy.windows = ARENA_ARRAY(p->arena, int32_t, c->batch * c->positions + VEC);
    c->copy = ARENA_NEW(p->arena, conv_copy);
    if (!c->copy || !copy.taps || !copy.windows) return base_out_of_memory();
    memset(tap_offsets(c, &copy, copy.taps), 0, VEC * sizeof *copy.taps);
    memset(window_offsets(c, &copy, copy.windows), 0, VEC * sizeof *copy.windows);
    *c->copy = copy;
    return NULL;
}

/* Behind the copy of the last image lie zeros, as far as a vector may reach. */
static int64_t slack(const conv *c) {
    return c->copy->row_length + 2 * VEC;
}

int64_t conv_copy_count(const conv *c, int64_t nimages) {
    return nimages * c->copy->image + slack(c);
}

typedef struct job {
    const conv *c;
    const float *x;
    float *to;
} job;

/* n columns of an image row, `step` apart, from `shift` on; zero outside. */
static void copy_row(const conv *c, const float *row, int64_t shift, int64_t n, float *out) {
    int64_t step = c->w.stride[1];
    span inside = span_inside(n, step, shift, c->in.width);
    for (int64_t q = 0; q < inside.first; q++) out[q] = 0;
    for (int64_t q = inside.end; q < n; q++) out[q] = 0;
    int64_t count = inside.end - inside.first;
    const float *from = row + inside.first * step + shift;
    out += inside.first;
    if (step == 1) {
        vec_copy(out, from, count);
    } else if (step == 2) {
        for (int64_t left = 2 * count - 1; left > 0; left -= 2 * VEC, from += 2 * VEC, out += VEC) {
            vec lower = vec_load_first(from, left < VEC ? left : VEC);
            vec upper = vec_load_first(from + VEC, left < VEC ? 0 : left < 2 * VEC ? left - VEC : VEC);
            vec_store_first(out, vec_even(lower, upper), left < 2 * VEC ? (left + 1) / 2 : VEC);
        }
    } else {
        for (int64_t q = 0; q < count; q++) out[q] = from[q * step];
    }
}

/* Which remainders by the stride taps have in dimension d, a bit each: others are not seen, and not copied. */
static uint64_t remainders_seen(const conv *c, int d) {
    uint64_t seen = c->w.stride[d] > 64 ? UINT64_MAX : 0;
    for (int64_t i = 0; i < c->w.size[d] && seen != UINT64_MAX; i++)
        seen |= (uint64_t)1 << i * c->w.dilation[d] % c->w.stride[d];
    return seen;
}

static void copy_channel(const conv *c, const uint64_t seen[2], const float *from, float *to) {
    int64_t length = c->copy->row_length, step = c->w.stride[1];
    for (int64_t r = 0, row = 0; r < c->copy->rows; r++, row = row + 1 < c->w.stride[0] ? row + 1 : 0) {
        int64_t y = r - c->w.before[0];
        for (int64_t q = 0; q < step; q++, to += length) {
            if (!(seen[0] >> (row & 63) & seen[1] >> (q & 63) & 1)) continue;
            if (y < 0 || y >= c->in.height)
                memset(to, 0, (size_t)length * sizeof *to);
            else
                copy_row(c, from + y * c->in.row_step, q - c->w.before[1], length, to);
        }
    }
}

/* Items are channels of images. */
static void copy_channels(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    uint64_t seen[2] = {remainders_seen(j->c, 0), remainders_seen(j->c, 1)};
    (void)part;
    for (int64_t item = first; item < end; item++)
        copy_channel(j->c, seen, j->x + item * j->c->in.channel_step, j->to + item * j->c->copy->channel);
}

void conv_copy_images(const kernel_call *call, const conv *c, int64_t nimages, const float *x, float *to) {
    job j = {c, x, to};
    parallel_for(call, nimages * c->in.channels, grain_of_bytes(c->copy->channel * (int64_t)sizeof(float)),
                 copy_channels, &j);
    memset(to + nimages * c->copy->image, 0, (size_t)slack(c) * sizeof *to);
}

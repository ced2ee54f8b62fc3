/* conv_columns.c: patches of images as the columns of a matrix (im2col), and their gradient added back (col2im).
 *
 * Row k of the matrix is one tap of the filter (channel, row, column of the window) at every position of the window. So
 * a row is filled by copying runs of an image row, with zeros where the window reaches over the border. */
#include "executor/kernels/conv/conv.h"

/* One tap: where image rows and columns of window (0, 0) are, and which windows see the image there. */
typedef struct tap {
    int64_t row, column;
    span rows, columns;
} tap;

static tap tap_of(const conv *c, int64_t i, int64_t j) {
    tap t = {.row = i * c->w.dilation[0] - c->w.before[0], .column = j * c->w.dilation[1] - c->w.before[1]};
    t.rows = span_inside(c->out.height, c->w.stride[0], t.row, c->in.height);
    t.columns = span_inside(c->out.width, c->w.stride[1], t.column, c->in.width);
    return t;
}

/* Runs are a few elements long more often than not: a call of memcpy for each would cost more than the copy. The last
 * CHUNK of a run overlaps the one before. */
enum { CHUNK = 8 };

static void copy_short(float *restrict dst, const float *restrict src, int64_t n) {
    if (n < CHUNK) {
        for (int64_t i = 0; i < n; i++) dst[i] = src[i];
        return;
    }
    for (int64_t i = 0; i + CHUNK < n; i += CHUNK) memcpy(dst + i, src + i, CHUNK * sizeof *dst);
    memcpy(dst + n - CHUNK, src + n - CHUNK, CHUNK * sizeof *dst);
}

static void gather_run(float *restrict dst, const float *restrict src, int64_t n, int64_t step) {
    if (step == 1)
        copy_short(dst, src, n);
    else if (step == 2)
        for (int64_t i = 0; i < n; i++) dst[i] = src[2 * i];
    else
        for (int64_t i = 0; i < n; i++) dst[i] = src[step * i];
}

static void scatter_run(float *restrict dst, const float *restrict src, int64_t n, int64_t step) {
    int64_t i = 0;
    if (step == 1)
        for (; i + CHUNK <= n; i += CHUNK)
            for (int64_t j = i; j < i + CHUNK; j++) dst[j] += src[j];
    for (; i < n; i++) dst[step * i] += src[i];
}

/* One channel of one image. */
static void gather_plane(const conv *c, const tap *t, const float *plane, float *dst) {
    int64_t width = c->out.width, step = c->w.stride[1] * c->in.column_step, n = t->columns.end - t->columns.first;
    for (int64_t i = 0; i < c->out.height; i++, dst += width) {
        if (i < t->rows.first || i >= t->rows.end) {
            memset(dst, 0, (size_t)width * sizeof *dst);
            continue;
        }
        const float *row = plane + (i * c->w.stride[0] + t->row) * c->in.row_step;
        for (int64_t j = 0; j < t->columns.first; j++) dst[j] = 0;
        gather_run(dst + t->columns.first, row + (t->columns.first * c->w.stride[1] + t->column) * c->in.column_step, n,
                   step);
        for (int64_t j = t->columns.end; j < width; j++) dst[j] = 0;
    }
}

static void scatter_plane(const conv *c, const tap *t, const float *src, float *plane) {
    int64_t step = c->w.stride[1] * c->in.column_step, n = t->columns.end - t->columns.first;
    for (int64_t i = t->rows.first; i < t->rows.end; i++) {
        float *row = plane + (i * c->w.stride[0] + t->row) * c->in.row_step;
        scatter_run(row + (t->columns.first * c->w.stride[1] + t->column) * c->in.column_step,
                    src + i * c->out.width + t->columns.first, n, step);
    }
}

void conv_gather(const conv *c, int64_t first, int64_t count, int64_t g, const float *x, float *columns) {
    for (int64_t ch = 0; ch < c->in_channels; ch++)
        for (int64_t i = 0; i < c->w.size[0]; i++)
            for (int64_t j = 0; j < c->w.size[1]; j++) {
                tap t = tap_of(c, i, j);
                for (int64_t n = first; n < first + count; n++, columns += c->positions)
                    gather_plane(c, &t, x + n * c->in.image + (g * c->in_channels + ch) * c->in.channel_step, columns);
            }
}

typedef struct scatter_job {
    const conv *c;
    int64_t first, count, group;
    const float *columns;
    float *x;
} scatter_job;

static void scatter_channels(void *arg, int64_t first, int64_t end, int part) {
    const scatter_job *s = arg;
    const conv *c = s->c;
    (void)part;
    const float *columns = s->columns + first * c->w.size[0] * c->w.size[1] * s->count * c->positions;
    for (int64_t ch = first; ch < end; ch++)
        for (int64_t i = 0; i < c->w.size[0]; i++)
            for (int64_t j = 0; j < c->w.size[1]; j++) {
                tap t = tap_of(c, i, j);
                for (int64_t n = s->first; n < s->first + s->count; n++, columns += c->positions)
                    scatter_plane(c, &t, columns,
                                  s->x + n * c->in.image + (s->group * c->in_channels + ch) * c->in.channel_step);
            }
}

void conv_scatter_add(const kernel_call *call, const conv *c, int64_t first, int64_t count, int64_t g,
                      const float *columns, float *x) {
    scatter_job s = {c, first, count, g, columns, x};
    int64_t per_channel = c->w.size[0] * c->w.size[1] * count * c->positions * (int64_t)sizeof(float);
    parallel_for(call, c->in_channels, grain_of_bytes(per_channel), scatter_channels, &s);
}

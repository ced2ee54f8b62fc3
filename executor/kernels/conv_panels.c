/* conv_panels.c: the column matrix of a convolution as a factor of a product, packed panel by panel from the images and
 * never stored (an implicit im2col).
 *
 * Windows side by side in a row of the output read a tap side by side in a row of the image. So what is packed is cut
 * into runs of windows of one row, a vector at most; for each tap a run is one load, masked where the window reaches
 * over the border. For channels first only. */
#include "executor/kernels/conv.h"

/* `count` windows of one row, from `at` on; the first one begins at (row, column) of `image`. */
typedef struct run {
    const float *image;
    int64_t at, count, row, column;
} run;

/* Cuts windows [first, first + count) of the patches into runs. */
static int64_t cut_runs(const conv_patches *p, int64_t first, int64_t count, run *out) {
    const conv *c = p->conv;
    int64_t nruns = 0, width = c->out.width;
    for (int64_t at = 0; at < count;) {
        int64_t position = (first + at) % c->positions, x = position % width, n = width - x;
        if (n > count - at) n = count - at;
        if (n > VEC) n = VEC;
        out[nruns++] = (run){.image = p->x + (first + at) / c->positions * c->in.image,
                             .at = at,
                             .count = n,
                             .row = position / width * c->w.stride[0] - c->w.before[0],
                             .column = x * c->w.stride[1] - c->w.before[1]};
        at += n;
    }
    return nruns;
}

/* The elements that a run's windows see of the tap at (row, column) of its channel; zero over the border, and in all
 * lanes from `count` on. */
static vec take_run(const conv *c, const run *r, int64_t channel, int64_t row, int64_t column) {
    int64_t step = c->w.stride[1];
    row += r->row;
    column += r->column;
    if (row < 0 || row >= c->in.height) return (vec){0};
    const float *from = r->image + channel + row * c->in.row_step + column;
    if (step == 1) {
        int64_t first = column < 0 ? -column : 0, end = c->in.width - column;
        return vec_load_range(from, first, end < r->count ? end : r->count);
    }
    span inside = span_inside(r->count, step, column, c->in.width);
    return vec_gather_range(from, step, inside.first, inside.end);
}

/* Tap number k of a patch: its channel's offset, its row and column in the window, in image elements. */
typedef struct tap {
    int64_t i, j, channel;
} tap;

static tap tap_of(const conv *c, int64_t k) {
    int64_t area = c->w.size[0] * c->w.size[1];
    return (tap){k % area / c->w.size[1], k % c->w.size[1], k / area * c->in.channel_step};
}

static void tap_next(const conv *c, tap *t) {
    if (++t->j < c->w.size[1]) return;
    t->j = 0;
    if (++t->i < c->w.size[0]) return;
    t->i = 0;
    t->channel += c->in.channel_step;
}

/* Rows are taps, columns windows. A vector may reach over the end of its row: the next row is written later. */
static void pack_windows(const gemm_source *s, int64_t depth, int64_t count, int64_t column, int64_t columns,
                         float *out) {
    const conv_patches *p = s->context;
    const conv *c = p->conv;
    run runs[GEMM_COLUMNS];
    for (int64_t j = 0; j < columns; j += GEMM_COLUMNS, out += count * GEMM_COLUMNS) {
        int64_t n = columns - j < GEMM_COLUMNS ? columns - j : GEMM_COLUMNS;
        int64_t nruns = cut_runs(p, column + j, n, runs);
        if (n < GEMM_COLUMNS) memset(out, 0, (size_t)(count * GEMM_COLUMNS) * sizeof *out);
        tap t = tap_of(c, depth);
        float *to = out;
        for (int64_t k = 0; k < count; k++, to += GEMM_COLUMNS, tap_next(c, &t))
            for (int64_t r = 0; r < nruns; r++)
                vec_store(to + runs[r].at,
                          take_run(c, &runs[r], t.channel, t.i * c->w.dilation[0], t.j * c->w.dilation[1]));
    }
}

/* Rows are windows, columns taps: a tap's windows are written as a row, and rows become columns. */
static void pack_taps(const gemm_source *s, int64_t depth, int64_t count, int64_t column, int64_t columns, float *out) {
    enum { STRIDE = GEMM_DEPTH + VEC };
    const conv_patches *p = s->context;
    const conv *c = p->conv;
    run runs[GEMM_DEPTH];
    float rows[GEMM_COLUMNS * STRIDE + VEC];
    int64_t nruns = cut_runs(p, depth, count, runs);
    tap t = tap_of(c, column);
    for (int64_t j = 0; j < columns; j += GEMM_COLUMNS, out += count * GEMM_COLUMNS) {
        int64_t n = columns - j < GEMM_COLUMNS ? columns - j : GEMM_COLUMNS;
        for (int64_t k = 0; k < n; k++, tap_next(c, &t))
            for (int64_t r = 0; r < nruns; r++)
                vec_store(rows + k * STRIDE + runs[r].at,
                          take_run(c, &runs[r], t.channel, t.i * c->w.dilation[0], t.j * c->w.dilation[1]));
        gemm_pack_rows(rows, STRIDE, n, count, out);
    }
}

gemm_source conv_taps_by_windows(const conv_patches *p) {
    return (gemm_source){.pack = pack_windows, .context = p};
}

gemm_source conv_windows_by_taps(const conv_patches *p) {
    return (gemm_source){.pack = pack_taps, .context = p};
}

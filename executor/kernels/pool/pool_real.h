/* pool_real.h: the loops of pool.c; a template (executor/kernels/each_real.h). */

static void NAME(max_taps)(span v, int64_t step, const REAL *restrict tap, REAL *restrict y) {
    if (step == 1) {
        for (int64_t j = v.first; j < v.end; j++) y[j] = y[j] > tap[j] ? y[j] : tap[j];
    } else if (step == 2) {
        for (int64_t j = v.first; j < v.end; j++) y[j] = y[j] > tap[2 * j] ? y[j] : tap[2 * j];
    } else {
        for (int64_t j = v.first; j < v.end; j++) y[j] = y[j] > tap[step * j] ? y[j] : tap[step * j];
    }
}

static void NAME(add_taps)(span v, int64_t step, const REAL *restrict tap, REAL *restrict y) {
    for (int64_t j = v.first; j < v.end; j++) y[j] += tap[step * j];
}

/* A row of windows at once, side by side in memory: one tap of all windows after another. */
static void NAME(pool_row)(const pool_state *s, const REAL *x, span r, int64_t rows, REAL *y) {
    int64_t n = s->out.width, step = s->w.stride[1], columns;
    REAL start = s->max ? -(REAL)FLT_MAX : 0;
    for (int64_t j = 0; j < n; j++) y[j] = start;
    for (int64_t i = r.first; i < r.end; i++)
        for (int64_t k = 0; k < s->w.size[1]; k++) {
            span v = span_inside(n, step, k - s->w.before[1], s->in.width);
            const REAL *tap = x + i * s->in.row_step + k - s->w.before[1];
            if (s->max)
                NAME(max_taps)(v, step, tap, y);
            else
                NAME(add_taps)(v, step, tap, y);
        }
    for (int64_t j = 0; !s->max && j < n; j++) {
        window_span(s, 1, j, &columns);
        y[j] /= (REAL)(rows * columns);
    }
}

static REAL NAME(reduce_window)(const pool_state *s, const REAL *x, span r, span k, int64_t count) {
    REAL result = s->max ? -(REAL)FLT_MAX : 0;
    for (int64_t i = r.first; i < r.end; i++)
        for (int64_t j = k.first; j < k.end; j++) {
            REAL e = x[i * s->in.row_step + j * s->in.column_step];
            result = s->max ? (result > e ? result : e) : result + e;
        }
    return s->max ? result : result / (REAL)count;
}

static void NAME(spread_window)(const pool_state *s, const REAL *x, REAL y, REAL dy, span r, span k, int64_t count,
                                REAL *dx) {
    REAL share = s->max ? dy : dy / (REAL)count;
    for (int64_t i = r.first; i < r.end; i++)
        for (int64_t j = k.first; j < k.end; j++) {
            int64_t at = i * s->in.row_step + j * s->in.column_step;
            if (s->max && x[at] != y) continue;
            dx[at] += share;
            if (s->max) return;
        }
}

/* One channel of one image: windows in row-major order. */
static void NAME(pool_channel)(const pool_state *s, const REAL *x, REAL *y) {
    for (int64_t i = 0; i < s->out.height; i++) {
        int64_t rows, columns;
        if (s->in_twos) {
            const REAL *row = x + 2 * i * s->in.row_step;
            NAME(pool_twos)(s->out.width, row, row + s->in.row_step, y + i * s->out.row_step);
            continue;
        }
        span r = window_span(s, 0, i, &rows);
        if (s->by_rows) {
            NAME(pool_row)(s, x, r, rows, y + i * s->out.row_step);
            continue;
        }
        for (int64_t j = 0; j < s->out.width; j++) {
            span k = window_span(s, 1, j, &columns);
            y[i * s->out.row_step + j * s->out.column_step] = NAME(reduce_window)(s, x, r, k, rows * columns);
        }
    }
}

static void NAME(spread_channel)(const pool_state *s, const REAL *x, const REAL *y, const REAL *dy, REAL *dx) {
    for (int64_t i = 0; i < s->out.height; i++) {
        int64_t rows, columns, from = 2 * i * s->in.row_step, to = i * s->out.row_step;
        if (s->in_twos) {
            NAME(spread_twos)
            (s->out.width, x + from, x + from + s->in.row_step, y + to, dy + to, dx + from, dx + from + s->in.row_step);
            continue;
        }
        span r = window_span(s, 0, i, &rows);
        for (int64_t j = 0; j < s->out.width; j++) {
            span k = window_span(s, 1, j, &columns);
            int64_t at = i * s->out.row_step + j * s->out.column_step;
            NAME(spread_window)(s, x, s->max ? y[at] : 0, dy[at], r, k, rows * columns, dx);
        }
    }
}

/* Items are channels of images. */
static void NAME(pool)(void *arg, int64_t first, int64_t end, int part) {
    const pool_job *job = arg;
    const pool_state *s = job->s;
    (void)part;
    for (int64_t item = first; item < end; item++)
        NAME(pool_channel)
        (s, (const REAL *)job->x + offset_of(s, &s->in, item), (REAL *)job->to + offset_of(s, &s->out, item));
}

static void NAME(spread)(void *arg, int64_t first, int64_t end, int part) {
    const pool_job *job = arg;
    const pool_state *s = job->s;
    (void)part;
    for (int64_t item = first; item < end; item++) {
        int64_t from = offset_of(s, &s->in, item), to = offset_of(s, &s->out, item);
        NAME(spread_channel)
        (s, (const REAL *)job->x + from, (const REAL *)job->y + to, (const REAL *)job->dy + to, (REAL *)job->to + from);
    }
}

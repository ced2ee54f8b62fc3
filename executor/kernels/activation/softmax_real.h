/* softmax_real.h: the loops of softmax.c; a template (executor/kernels/each_real.h). */

static void NAME(rows)(axis_split s, REAL least, const REAL *x, REAL *y) {
    REAL top[SIDE_BY_SIDE], scale[SIDE_BY_SIDE];
    int64_t n = s.extent, count;
    for (int64_t o = 0; o < s.outer; o += count, x += count * n, y += count * n) {
        count = rows_at_a_time(n, s.outer - o);
        for (int64_t r = 0; r < count; r++) top[r] = NAME(max)(n, x + r * n);
        NAME(exp_rows)(n, count, x, top, least, y, scale);
        for (int64_t r = 0; r < count; r++) scale[r] = 1 / scale[r];
        for (int64_t r = 0; r < count; r++)
            for (int64_t i = 0; i < n; i++) y[r * n + i] *= scale[r];
    }
}

static void NAME(columns)(axis_split s, REAL least, const REAL *x, REAL *y, REAL *top, REAL *total) {
    int64_t n = s.inner, slab = s.extent * n;
    for (int64_t o = 0; o < s.outer; o++, x += slab, y += slab) {
        memcpy(top, x, (size_t)n * sizeof *top);
        for (int64_t a = 1; a < s.extent; a++)
            for (int64_t i = 0; i < n; i++) top[i] = x[a * n + i] > top[i] ? x[a * n + i] : top[i];
        memset(total, 0, (size_t)n * sizeof *total);
        for (int64_t a = 0; a < s.extent; a++) {
            INDEPENDENT for (int64_t i = 0; i < n; i++) {
                REAL e = NAME(shifted_exp)(x[a * n + i], top[i], least);
                y[a * n + i] = e;
                total[i] += e;
            }
        }
        for (int64_t i = 0; i < n; i++) total[i] = 1 / total[i];
        for (int64_t a = 0; a < s.extent; a++) INDEPENDENT for (int64_t i = 0; i < n; i++) y[a * n + i] *= total[i];
    }
}

static void NAME(grad_rows)(axis_split s, const REAL *y, const REAL *dy, REAL *dx) {
    for (int64_t o = 0; o < s.outer; o++, y += s.extent, dy += s.extent, dx += s.extent) {
        REAL dot = NAME(dot)(s.extent, y, 0, dy);
        INDEPENDENT for (int64_t i = 0; i < s.extent; i++) dx[i] = y[i] * (dy[i] - dot);
    }
}

static void NAME(grad_columns)(axis_split s, const REAL *y, const REAL *dy, REAL *dx, REAL *dot) {
    int64_t n = s.inner, slab = s.extent * n;
    for (int64_t o = 0; o < s.outer; o++, y += slab, dy += slab, dx += slab) {
        memset(dot, 0, (size_t)n * sizeof *dot);
        for (int64_t a = 0; a < s.extent; a++)
            for (int64_t i = 0; i < n; i++) dot[i] += y[a * n + i] * dy[a * n + i];
        for (int64_t a = 0; a < s.extent; a++)
            INDEPENDENT for (int64_t i = 0; i < n; i++) dx[a * n + i] = y[a * n + i] * (dy[a * n + i] - dot[i]);
    }
}

/* gru_unit_real.h: the loops of gru_unit.c; a template (executor/kernels/each_real.h). */

static void NAME(activate)(int kind, int64_t rows, int64_t n, REAL *x, int64_t stride) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) x[i * stride + j] = (REAL)activated(kind, (double)x[i * stride + j]);
}

static void NAME(forward)(const kernel_call *c, const unit *s) {
    const REAL *input = arg_in(c, IN_INPUT)->data, *before = arg_in(c, IN_BEFORE)->data;
    const REAL *w = arg_in(c, IN_WEIGHT)->data, *bias = data_or_null(arg_in(c, IN_BIAS));
    REAL *gate = arg_out(c, OUT_GATE)->data, *reset = arg_out(c, OUT_RESET)->data,
         *hidden = arg_out(c, OUT_HIDDEN)->data;
    int64_t n = s->width, wide = 3 * n;
    for (int64_t i = 0; i < s->rows * wide; i++) gate[i] = input[i] + (bias ? bias[i % wide] : 0);
    product(c, REAL_DTYPE, s->rows, 2 * n, n, (matrix){before, n, false}, (matrix){w, 2 * n, false}, true, gate, wide);
    NAME(activate)(s->gate, s->rows, 2 * n, gate, wide);
    for (int64_t i = 0; i < s->rows * n; i++) reset[i] = gate[i / n * wide + n + i % n] * before[i];
    product(c, REAL_DTYPE, s->rows, n, n, (matrix){reset, n, false}, (matrix){w + 2 * n * n, n, false}, true,
            gate + 2 * n, wide);
    NAME(activate)(s->activation, s->rows, n, gate + 2 * n, wide);
    for (int64_t i = 0; i < s->rows * n; i++) {
        const REAL *row = gate + i / n * wide + i % n;
        REAL u = s->origin ? 1 - row[0] : row[0];
        hidden[i] = u * row[2 * n] + (1 - u) * before[i];
    }
}

/* Gradients of the activated gates: of u and c from Hidden's, then of r from that of r HiddenPrev. */
static void NAME(open_gates)(const kernel_call *c, const unit *s, REAL *down, REAL *reset, REAL *back) {
    const REAL *before = arg_in(c, IN_BEFORE)->data, *gate = arg_in(c, IN_GATE)->data, *w = arg_in(c, IN_WEIGHT)->data;
    const REAL *g = arg_in(c, IN_HIDDEN_GRAD)->data;
    int64_t n = s->width, wide = 3 * n;
    for (int64_t i = 0; i < s->rows * n; i++) {
        int64_t at = i / n * wide + i % n;
        REAL u = gate[at], candidate = gate[at + 2 * n], share = s->origin ? 1 - u : u;
        REAL lead = s->origin ? before[i] - candidate : candidate - before[i];
        down[at] = g[i] * lead * (REAL)slope(s->gate, (double)u);
        down[at + 2 * n] = g[i] * share * (REAL)slope(s->activation, (double)candidate);
        back[i] = g[i] * (1 - share);
    }
    product(c, REAL_DTYPE, s->rows, n, n, (matrix){down + 2 * n, wide, false}, (matrix){w + 2 * n * n, n, true}, false,
            reset, n);
    for (int64_t i = 0; i < s->rows * n; i++) {
        int64_t at = i / n * wide + n + i % n;
        down[at] = reset[i] * before[i] * (REAL)slope(s->gate, (double)gate[at]);
        back[i] += reset[i] * gate[at];
    }
    product(c, REAL_DTYPE, s->rows, n, 2 * n, (matrix){down, wide, false}, (matrix){w, 2 * n, true}, true, back, n);
}

static void NAME(backward)(const kernel_call *c, const unit *s) {
    int64_t n = s->width, wide = 3 * n, count = s->rows * n;
    REAL *down = c->workspace, *reset = down + 3 * count, *back = reset + count;
    REAL *dinput = data_or_null(arg_out(c, OUT_INPUT_GRAD)), *dbefore = data_or_null(arg_out(c, OUT_BEFORE_GRAD));
    REAL *dw = data_or_null(arg_out(c, OUT_WEIGHT_GRAD)), *dbias = data_or_null(arg_out(c, OUT_BIAS_GRAD));
    NAME(open_gates)(c, s, down, reset, back);
    if (dinput) copy_bytes(dinput, down, (size_t)(3 * count) * sizeof *down);
    if (dbefore) copy_bytes(dbefore, back, (size_t)count * sizeof *back);
    if (dw) {
        product(c, REAL_DTYPE, n, 2 * n, s->rows, (matrix){arg_in(c, IN_BEFORE)->data, n, true},
                (matrix){down, wide, false}, false, dw, 2 * n);
        product(c, REAL_DTYPE, n, n, s->rows, (matrix){arg_in(c, IN_RESET)->data, n, true},
                (matrix){down + 2 * n, wide, false}, false, dw + 2 * n * n, n);
    }
    for (int64_t j = 0; dbias && j < wide; j++) {
        REAL sum = 0;
        for (int64_t i = 0; i < s->rows; i++) sum += down[i * wide + j];
        dbias[j] = sum;
    }
}

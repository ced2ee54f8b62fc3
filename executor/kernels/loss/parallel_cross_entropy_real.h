/* parallel_cross_entropy_real.h: the loops of parallel_cross_entropy.c; a template (executor/kernels/each_real.h). */

static REAL NAME(shifted)(REAL x, REAL top) {
    return x - top < SMALLEST_SHIFTED_LOGIT ? SMALLEST_SHIFTED_LOGIT : x - top;
}

static void NAME(tops)(const classes *s, const REAL *x, REAL *top) {
    for (int64_t r = 0; r < s->rows; r++, x += s->extent) {
        top[r] = x[0];
        for (int64_t k = 1; k < s->extent; k++) top[r] = x[k] > top[r] ? x[k] : top[r];
    }
}

static weft_status NAME(sums)(const kernel_call *c, const classes *s, const tensor *labels, const REAL *x,
                              const REAL *top, REAL *y, REAL *total, REAL *of_label) {
    for (int64_t r = 0; r < s->rows; r++, x += s->extent, y += s->extent) {
        int64_t label = tensor_integer(labels, r), own = label - s->first;
        TRY(loss_check_label(c, s->total, s->ignore_index, label, r));
        total[r] = 0;
        for (int64_t k = 0; k < s->extent; k++) total[r] += y[k] = (REAL)exp((double)NAME(shifted)(x[k], top[r]));
        bool has = label != s->ignore_index && own >= 0 && own < s->extent;
        of_label[r] = has ? NAME(shifted)(x[own], top[r]) : 0;
    }
    return NULL;
}

static void NAME(finish)(const classes *s, const tensor *labels, const REAL *total, const REAL *of_label, REAL *y,
                         REAL *loss) {
    for (int64_t r = 0; r < s->rows; r++, y += s->extent) {
        bool ignored = tensor_integer(labels, r) == s->ignore_index;
        loss[r] = ignored ? 0 : (REAL)log((double)total[r]) - of_label[r];
        for (int64_t k = 0; k < s->extent; k++) y[k] /= total[r];
    }
}

static weft_status NAME(work)(const kernel_call *c, int round) {
    const classes *s = c->state;
    const tensor *labels = arg_in(c, IN_LABEL);
    const REAL *x = arg_in(c, IN_LOGITS)->data;
    REAL *y = arg_out(c, OUT_SOFTMAX)->data, *loss = arg_out(c, OUT_LOSS)->data, *top = c->workspace;
    REAL *total = top + s->rows, *of_label = total + s->rows;
    if (round == 0) NAME(tops)(s, x, top);
    if (round == 1) return NAME(sums)(c, s, labels, x, top, y, total, of_label);
    if (round == 2) NAME(finish)(s, labels, total, of_label, y, loss);
    return NULL;
}

static weft_status NAME(grad)(const kernel_call *c) {
    const classes *s = c->state;
    const tensor *labels = arg_in(c, GRAD_IN_LABEL);
    const REAL *y = arg_in(c, GRAD_IN_SOFTMAX)->data, *dloss = arg_in(c, GRAD_IN_LOSS_GRAD)->data;
    REAL *dx = arg_out(c, GRAD_OUT_LOGITS_GRAD)->data;
    for (int64_t r = 0; r < s->rows; r++, y += s->extent, dx += s->extent) {
        int64_t label = tensor_integer(labels, r), own = label - s->first;
        TRY(loss_check_label(c, s->total, s->ignore_index, label, r));
        bool ignored = label == s->ignore_index;
        for (int64_t k = 0; k < s->extent; k++) dx[k] = ignored ? 0 : y[k] * dloss[r];
        if (!ignored && own >= 0 && own < s->extent) dx[own] -= dloss[r];
    }
    return NULL;
}

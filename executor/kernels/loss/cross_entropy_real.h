/* cross_entropy_real.h: the loops of cross_entropy.c; a template (executor/kernels/each_real.h). */

static REAL NAME(finite_log)(REAL share) {
    REAL log_share = (REAL)log((double)share);
    return isinf(log_share) ? (log_share < 0 ? (REAL)-1e20 : (REAL)1e20) : log_share;
}

static weft_status NAME(hard)(const kernel_call *c, const loss_state *s, const tensor *labels, const REAL *y,
                              REAL *loss) {
    for (int64_t o = 0, at = 0; o < s->split.outer; o++)
        for (int64_t i = 0; i < s->split.inner; i++, at++) {
            int64_t label = tensor_integer(labels, at);
            TRY(loss_check_label(c, s->split.extent, s->ignore_index, label, at));
            loss[at] = label == s->ignore_index ? 0 : -NAME(finite_log)(y[element_at(s, o, label, i)]);
        }
    return NULL;
}

static weft_status NAME(soft)(const loss_state *s, const REAL *labels, const REAL *y, REAL *loss) {
    for (int64_t o = 0, at = 0; o < s->split.outer; o++)
        for (int64_t i = 0; i < s->split.inner; i++, at++) {
            REAL sum = 0;
            for (int64_t k = 0; k < s->split.extent; k++) {
                int64_t e = element_at(s, o, k, i);
                sum += labels[e] * NAME(finite_log)(y[e]);
            }
            loss[at] = -sum;
        }
    return NULL;
}

/* Through the softmax: softmax * dloss, minus dloss at the label. Of shares: -dloss / share at the label. */
static weft_status NAME(hard_grad)(const kernel_call *c, const loss_state *s, const tensor *labels, const REAL *y,
                                   const REAL *dloss, REAL *dx) {
    int64_t n = s->split.inner;
    for (int64_t o = 0, at = 0; o < s->split.outer; o++)
        for (int64_t i = 0; i < n; i++, at++) {
            int64_t label = tensor_integer(labels, at), first = element_at(s, o, 0, i);
            TRY(loss_check_label(c, s->split.extent, s->ignore_index, label, at));
            REAL g = label == s->ignore_index ? 0 : dloss[at];
            bool ignored = label == s->ignore_index;
            REAL share = ignored ? 1 : y[first + label * n];
            if (ignored || !s->use_softmax) {
                for (int64_t k = 0; k < s->split.extent; k++) dx[first + k * n] = 0;
            } else if (n == 1) {
                INDEPENDENT for (int64_t k = 0; k < s->split.extent; k++) dx[first + k] = y[first + k] * g;
            } else {
                for (int64_t k = 0; k < s->split.extent; k++) dx[first + k * n] = y[first + k * n] * g;
            }
            if (!ignored) dx[first + label * n] -= s->use_softmax ? g : g / share;
        }
    return NULL;
}

static weft_status NAME(soft_grad)(const loss_state *s, const REAL *labels, const REAL *y, const REAL *dloss,
                                   REAL *dx) {
    int64_t n = s->split.inner;
    for (int64_t o = 0; o < s->split.outer; o++, dloss += n)
        for (int64_t k = 0; k < s->split.extent; k++) {
            int64_t e = element_at(s, o, k, 0);
            INDEPENDENT for (int64_t i = 0; i < n; i++) {
                REAL slope = s->use_softmax ? y[e + i] - labels[e + i] : -labels[e + i] / y[e + i];
                dx[e + i] = slope * dloss[i];
            }
        }
    return NULL;
}

/* attention_real.h: the loops of attention.c; a template (executor/kernels/each_real.h). */

/* S of one head: the product, and the mask; -inf where a row does not see a key. */
static void NAME(score)(const attention_state *s, int64_t head, const REAL *q, const REAL *k, const REAL *mask,
                        REAL *scores) {
    const int64_t *stride = s->mask_stride;
    NAME(multiply)(false, true, s->rows, s->keys, s->width, s->scale, q, s->width, k, s->width, false, scores);
    if (mask) mask += head / s->heads * stride[0] + head % s->heads * stride[1];
    for (int64_t i = 0; i < s->rows; i++) {
        REAL *row = scores + i * s->keys;
        for (int64_t j = 0; mask && j < s->keys; j++) row[j] += mask[i * stride[2] + j * stride[3]];
        for (int64_t j = seen(s, i); j < s->keys; j++) row[j] = (REAL)-INFINITY;
    }
}

/* A row of scores becomes its softmax; returns the logarithm of the sum. */
static REAL NAME(normalize)(int64_t n, REAL *row) {
    REAL largest = (REAL)-INFINITY;
    double sum = 0;
    for (int64_t j = 0; j < n; j++) largest = row[j] > largest || isnan(row[j]) ? row[j] : largest;
    if (largest == (REAL)-INFINITY) {
        memset(row, 0, (size_t)n * sizeof *row);
        return largest;
    }
    for (int64_t j = 0; j < n; j++) {
        row[j] = (REAL)exp((double)(row[j] - largest));
        sum += (double)row[j];
    }
    for (int64_t j = 0; j < n; j++) row[j] = (REAL)((double)row[j] / sum);
    return (REAL)((double)largest + log(sum));
}

/* The first element of a head of the query, and of the head of key or value that it sees. */
static const REAL *NAME(head_of)(const attention_state *s, const tensor *t, int64_t head, bool shared) {
    int64_t size = t->dims[2] * t->dims[3];
    if (shared) head = head / s->heads * s->groups + head % s->heads / (s->heads / s->groups);
    return (const REAL *)t->data + head * size;
}

/* Items are heads of the query. */
static void NAME(forward)(void *arg, int64_t first, int64_t end, int part) {
    const kernel_call *c = arg;
    const attention_state *s = c->state;
    const tensor *q = arg_in(c, IN_QUERY), *k = arg_in(c, IN_KEY), *v = arg_in(c, IN_VALUE);
    REAL *scores = (REAL *)((char *)c->workspace + (size_t)part * s->part_nbytes);
    REAL *out = arg_out(c, OUT)->data, *sums = data_of(arg_out(c, OUT_LOGSUMEXP));
    for (int64_t head = first; head < end; head++) {
        NAME(score)
        (s, head, NAME(head_of)(s, q, head, false), NAME(head_of)(s, k, head, true), data_of(arg_in(c, IN_MASK)),
         scores);
        for (int64_t i = 0; i < s->rows; i++) {
            REAL sum = NAME(normalize)(s->keys, scores + i * s->keys);
            if (sums) sums[head * s->rows + i] = sum;
        }
        NAME(multiply)
        (false, false, s->rows, s->value_width, s->keys, 1, scores, s->keys, NAME(head_of)(s, v, head, true),
         s->value_width, false, out + head * s->rows * s->value_width);
    }
}

/* P of one head from its scores, and dS from dP. */
static void NAME(recompute)(const attention_state *s, const REAL *sums, REAL *scores) {
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->keys; j++) {
            REAL *p = &scores[i * s->keys + j];
            *p = sums[i] == (REAL)-INFINITY ? 0 : (REAL)exp((double)(*p - sums[i]));
        }
}

static void NAME(differentiate)(const attention_state *s, const REAL *out, const REAL *dout, const REAL *p, REAL *dp) {
    for (int64_t i = 0; i < s->rows; i++) {
        double sum = 0;
        for (int64_t d = 0; d < s->value_width; d++)
            sum += (double)out[i * s->value_width + d] * (double)dout[i * s->value_width + d];
        for (int64_t j = 0; j < s->keys; j++) {
            int64_t at = i * s->keys + j;
            dp[at] = p[at] * (dp[at] - (REAL)sum);
        }
    }
}

/* Items are heads of key and value, each with all heads of the query that see it. */
static void NAME(backward)(void *arg, int64_t first, int64_t end, int part) {
    const kernel_call *c = arg;
    const attention_state *s = c->state;
    const tensor *q = arg_in(c, GRAD_IN_QUERY), *k = arg_in(c, GRAD_IN_KEY), *v = arg_in(c, GRAD_IN_VALUE);
    REAL *p = (REAL *)((char *)c->workspace + (size_t)part * s->part_nbytes), *dp = p + s->rows * s->keys;
    int64_t each = s->heads / s->groups;
    for (int64_t item = first; item < end; item++)
        for (int64_t head = item * each; head < (item + 1) * each; head++) {
            const REAL *qs = NAME(head_of)(s, q, head, false), *ks = NAME(head_of)(s, k, head, true);
            const REAL *dout = (const REAL *)arg_in(c, GRAD_IN_GRAD)->data + head * s->rows * s->value_width;
            REAL *dq = (REAL *)arg_out(c, OUT_QUERY_GRAD)->data + head * s->rows * s->width;
            REAL *dk = (REAL *)arg_out(c, OUT_KEY_GRAD)->data + item * s->keys * s->width;
            REAL *dv = (REAL *)arg_out(c, OUT_VALUE_GRAD)->data + item * s->keys * s->value_width;
            bool add = head > item * each;
            NAME(score)(s, head, qs, ks, data_of(arg_in(c, GRAD_IN_MASK)), p);
            NAME(recompute)(s, (const REAL *)arg_in(c, GRAD_IN_LOGSUMEXP)->data + head * s->rows, p);
            NAME(multiply)(true, false, s->keys, s->value_width, s->rows, 1, p, s->keys, dout, s->value_width, add, dv);
            NAME(multiply)
            (false, true, s->rows, s->keys, s->value_width, 1, dout, s->value_width, NAME(head_of)(s, v, head, true),
             s->value_width, false, dp);
            NAME(differentiate)(s, NAME(head_of)(s, arg_in(c, GRAD_IN_OUT), head, false), dout, p, dp);
            NAME(multiply)(false, false, s->rows, s->width, s->keys, s->scale, dp, s->keys, ks, s->width, false, dq);
            NAME(multiply)(true, false, s->keys, s->width, s->rows, s->scale, dp, s->keys, qs, s->width, add, dk);
        }
}

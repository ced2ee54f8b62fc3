/* average.c: sums of a parameter's past values, for model averaging
 * (phi/kernels/impl/average_accumulates_kernel_impl.h).
 *
 * sum_1 takes each step's value and moves into sum_2 every 16384 updates, so that small values are not lost in a large
 * sum. When the window is full, both become sum_3 and a new one begins. */
#include "executor/kernels/optimizer/optimizer.h"

enum { IN_PARAM, IN_SUM, IN_COUNTS = 4, SUMS = 3, COUNTS = 3, OUT_SUM = 0, OUT_COUNTS = 3, MOVES_AFTER = 16384 };

typedef struct average_state {
    double window;
    int64_t most, least;
} average_state;

static weft_status prepare(kernel_prepare *p) {
    average_state *s = KERNEL_STATE(p, average_state);
    if (!s) return base_out_of_memory();
    const tensor *param = type_in(p, IN_PARAM);
    TRY(require_real(p, param, "param"));
    for (int k = 0; k < SUMS; k++) {
        TRY(require_numel(p, type_in(p, IN_SUM + k), param->numel, "a sum"));
        TRY(require_numel(p, type_out(p, OUT_SUM + k), param->numel, "a sum"));
        TRY(require_same_dtype(p, param, type_in(p, IN_SUM + k), "a sum"));
    }
    for (int k = 0; k < COUNTS; k++) {
        TRY(require_numel(p, type_in(p, IN_COUNTS + k), 1, "a count"));
        TRY(require_numel(p, type_out(p, OUT_COUNTS + k), 1, "a count"));
    }
    s->window = attr_float(p->op, "average_window", 0);
    s->most = attr_int(p->op, "max_average_window", INT64_MAX);
    s->least = attr_int(p->op, "min_average_window", 10000);
    return NULL;
}

/* to += from */
static void add(tensor *to, const tensor *from) {
    for (int64_t i = 0; i < to->numel; i++) tensor_set_real(to, i, tensor_real(to, i) + tensor_real(from, i));
}

static void clear(tensor *t) {
    tensor_clear(t);
}

static weft_status run(const kernel_call *c) {
    const average_state *s = c->state;
    tensor *sum[SUMS];
    for (int k = 0; k < SUMS; k++) start_from(sum[k] = arg_out(c, OUT_SUM + k), arg_in(c, IN_SUM + k));
    int64_t count = host_integer(c, arg_in(c, IN_COUNTS), 0) + 1, old = host_integer(c, arg_in(c, IN_COUNTS + 1), 0);
    int64_t updates = host_integer(c, arg_in(c, IN_COUNTS + 2), 0) + 1;
    add(sum[0], arg_in(c, IN_PARAM));
    if (updates % MOVES_AFTER == 0) {
        add(sum[1], sum[0]);
        clear(sum[0]);
    }
    double window = (double)updates * s->window;
    int64_t full = window < (double)s->most ? (int64_t)window : s->most;
    if (count >= s->least && count >= full) {
        copy_bytes(sum[2]->data, sum[0]->data, tensor_nbytes(sum[0]));
        add(sum[2], sum[1]);
        clear(sum[0]);
        clear(sum[1]);
        old = count;
        count = 0;
    }
    const int64_t counts[COUNTS] = {count, old, updates};
    for (int k = 0; k < COUNTS; k++) {
        tensor *t = arg_out(c, OUT_COUNTS + k);
        fill_elements(t->dtype, t->data, 1, (double)counts[k]);
    }
    return NULL;
}

const kernel kernel_average_accumulates = {prepare, run};

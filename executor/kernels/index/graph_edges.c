/* graph_edges.c: messages along the edges of a graph, made of the row that an edge comes from and what the edge, or the
 * row that it goes to, adds or multiplies: one a message (graph_send_uv), or gathered where edges arrive
 * (graph_send_ue_recv); and the gradients. What stands in a row broadcasts. Rows that nothing arrives at are 0.
 * Paddle: phi/kernels/cpu/{send_uv,send_ue_recv}_kernel.cc. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_Y, IN_FROM, IN_TO };
typedef enum gathering { EACH, SUM, MEAN, MIN, MAX, NKINDS } gathering;

typedef struct edges_state {
    loops message; /* operands: a row of X, what comes to it of Y, the message */
    gathering kind;
    bool multiplies, of_targets; /* Y has a row for each target, not for each edge */
    int64_t rows, others, edges, targets;
    int64_t x_width, y_width, width; /* elements of a row of X, of Y, of a message */
} edges_state;

static int64_t row_of(const tensor *t) {
    return t->ndim && t->dims[0] ? t->numel / t->dims[0] : 0;
}

static weft_status prepare_messages(kernel_prepare *p, const edges_state *s, const tensor *x, const tensor *y,
                                    const tensor *out, loops *l) {
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    tensor xs = *x, ys = *y;
    int n = out->ndim - 1;
    for (tensor *t = &xs; t; t = t == &xs ? &ys : NULL) {
        memmove(t->dims, t->dims + 1, sizeof t->dims - sizeof *t->dims);
        t->ndim--;
    }
    if (!strides_broadcast(&xs, -1, n, out->dims + 1, strides[0]) ||
        !strides_broadcast(&ys, -1, n, out->dims + 1, strides[1]))
        return kernel_unsupported(p, "expected rows that broadcast to messages");
    strides_dense(n, out->dims + 1, strides[2]);
    loops_init(l, n, out->dims + 1, 3, strides);
    return s->width == l->numel || !out->numel ? NULL : kernel_unsupported(p, "expected rows of messages");
}

static weft_status prepare_edges(kernel_prepare *p, const tensor *out, bool of_targets) {
    static const char *const kinds[NKINDS] = {"", "SUM", "MEAN", "MIN", "MAX"};
    edges_state *s = KERNEL_STATE(p, edges_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y), *from = type_in(p, IN_FROM), *to = type_in(p, IN_TO);
    const char *message = attr_string(p->op, "message_op", "ADD"), *reduce = attr_string(p->op, "reduce_op", "SUM");
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    TRY(require_same_dtype(p, x, y, "Y"));
    TRY(require_present(p, from, "the indices of sources"));
    TRY(require_numel(p, to, from->numel, "the indices of targets"));
    TRY(require_present(p, out, "Out"));
    TRY(require_same_dtype(p, x, out, "Out"));
    s->multiplies = strcmp(message, "MUL") == 0;
    if (!s->multiplies && strcmp(message, "ADD") != 0)
        return kernel_unsupported(p, "message_op: expected ADD or MUL, found %s", message);
    s->of_targets = of_targets;
    s->kind = of_targets ? EACH : SUM;
    while (!of_targets && s->kind < NKINDS && strcmp(reduce, kinds[s->kind]) != 0) s->kind++;
    if (s->kind == NKINDS) return kernel_unsupported(p, "reduce_op: found %s", reduce);
    if (!x->ndim || !y->ndim || !out->ndim) return kernel_unsupported(p, "expected rows");
    s->rows = x->dims[0], s->others = y->dims[0], s->edges = from->numel, s->targets = out->dims[0];
    s->x_width = row_of(x), s->y_width = row_of(y), s->width = row_of(out);
    if (!of_targets && s->others != s->edges) return kernel_unsupported(p, "expected a row of Y for each edge");
    if (of_targets && s->targets != s->edges) return kernel_unsupported(p, "expected a row of Out for each edge");
    return prepare_messages(p, s, x, y, out, &s->message);
}

/* Of one edge. */
typedef struct ends {
    int64_t x, y, out; /* rows */
} ends;

static weft_status find_ends(const kernel_call *c, int64_t e, ends *out) {
    const edges_state *s = c->state;
    int64_t from = tensor_integer(arg_in(c, IN_FROM), e), to = tensor_integer(arg_in(c, IN_TO), e);
    int64_t most = s->of_targets ? s->others : s->targets;
    if (from < 0 || from >= s->rows || to < 0 || to >= most)
        return kernel_failed(c, "edge %lld: expected rows below %lld and %lld, found %lld and %lld", (long long)e,
                             (long long)s->rows, (long long)most, (long long)from, (long long)to);
    *out = (ends){from, s->of_targets ? to : e, s->of_targets ? e : to};
    return NULL;
}

/* Visits every element of a message: a, b and r are its places in X, Y and Out. */
#define FOR_EACH_OF_MESSAGE(s, at, a, b, r)                                                                            \
    for (walk w_ = walk_start(&(s)->message); w_.left; walk_next(&(s)->message, &w_))                                  \
        for (int64_t i_ = 0, a = (at).x * (s)->x_width + w_.at[0], b = (at).y * (s)->y_width + w_.at[1],               \
                     r = (at).out * (s)->width + w_.at[2];                                                             \
             i_ < loops_run(&(s)->message); i_++, a += loops_stride(&(s)->message, 0),                                 \
                     b += loops_stride(&(s)->message, 1), r += loops_stride(&(s)->message, 2))

static double message_of(const edges_state *s, double x, double y) {
    return s->multiplies ? x * y : x + y;
}

static double gathered(gathering kind, bool is_first, double now, double came) {
    if (kind == EACH || (is_first && kind >= MIN)) return came;
    if (kind < MIN) return now + came;
    return (kind == MIN ? came < now : came > now) ? came : now;
}

static weft_status run(const kernel_call *c) {
    const edges_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y);
    tensor *out = arg_out(c, 0), *counts = s->of_targets ? NULL : arg_out(c, 1);
    int32_t *count = c->workspace;
    for (int64_t i = 0; i < s->targets; i++) count[i] = 0;
    tensor_clear(out);
    for (int64_t e = 0; e < s->edges; e++) {
        ends at;
        TRY(find_ends(c, e, &at));
        FOR_EACH_OF_MESSAGE(s, at, a, b, r) {
            double came = message_of(s, tensor_real(x, a), tensor_real(y, b));
            tensor_set_real(out, r, gathered(s->kind, !count[at.out], tensor_real(out, r), came));
        }
        count[at.out]++;
    }
    for (int64_t i = 0; s->kind == MEAN && i < s->targets * s->width; i++)
        if (count[i / s->width]) tensor_set_real(out, i, tensor_real(out, i) / count[i / s->width]);
    if (counts) copy_bytes(counts->data, count, (size_t)s->targets * sizeof *count);
    return NULL;
}

static weft_status prepare_gathered(kernel_prepare *p) {
    TRY(prepare_edges(p, type_out(p, 0), false));
    const edges_state *s = p->state;
    p->workspace_nbytes = (size_t)s->targets * sizeof(int32_t);
    if (!type_out(p, 1)) return NULL;
    if (type_out(p, 1)->dtype != WEFT_INT32) return kernel_unsupported(p, "expected Dst_count of int32");
    return require_numel(p, type_out(p, 1), s->targets, "Dst_count");
}

static weft_status prepare_each(kernel_prepare *p) {
    TRY(prepare_edges(p, type_out(p, 0), true));
    p->workspace_nbytes = (size_t)((const edges_state *)p->state)->targets * sizeof(int32_t);
    return NULL;
}

const kernel kernel_graph_send_ue_recv = {prepare_gathered, run};
const kernel kernel_graph_send_uv = {prepare_each, run};

/* --- gradients: of least and largest to all messages that are equal to what was gathered --------------------------- */

enum { GATHERED_OUT = 4, GATHERED_COUNT, GATHERED_DOWN, EACH_DOWN = 4 };

static weft_status prepare_slopes(kernel_prepare *p, int down, bool of_targets) {
    TRY(prepare_edges(p, type_in(p, down), of_targets));
    const edges_state *s = p->state;
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y);
    if (s->kind == MEAN) TRY(require_numel(p, type_in(p, GATHERED_COUNT), s->targets, "Dst_count"));
    if (s->kind >= MIN) {
        TRY(require_present(p, type_in(p, GATHERED_OUT), "Out"));
        TRY(require_like(p, x, type_in(p, GATHERED_OUT), s->targets * s->width, "Out"));
    }
    p->workspace_nbytes = (size_t)(x->numel + y->numel) * sizeof(double);
    TRY(require_like(p, x, type_out(p, 0), x->numel, "X@GRAD"));
    return require_like(p, x, type_out(p, 1), y->numel, "Y@GRAD");
}

static weft_status run_slopes(const kernel_call *c, const tensor *g) {
    const edges_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y), *out = s->kind >= MIN ? arg_in(c, GATHERED_OUT) : NULL;
    double *dx = c->workspace, *dy = dx + x->numel;
    for (int64_t i = 0; i < x->numel + y->numel; i++) dx[i] = 0;
    for (int64_t e = 0; e < s->edges; e++) {
        ends at;
        TRY(find_ends(c, e, &at));
        double share = s->kind == MEAN ? 1 / (double)tensor_integer(arg_in(c, GATHERED_COUNT), at.out) : 1;
        FOR_EACH_OF_MESSAGE(s, at, a, b, r) {
            double one = tensor_real(x, a), other = tensor_real(y, b), down = share * tensor_real(g, r);
            bool is_single = g->dtype == WEFT_FP32;
            double came = message_of(s, one, other);
            if (out && (is_single ? (double)(float)came : came) != tensor_real(out, r)) continue;
            dx[a] += s->multiplies ? down * other : down;
            dy[b] += s->multiplies ? down * one : down;
        }
    }
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; arg_out(c, k) && i < arg_out(c, k)->numel; i++)
            tensor_set_real(arg_out(c, k), i, (k ? dy : dx)[i]);
    return NULL;
}

static weft_status prepare_gathered_grad(kernel_prepare *p) {
    return prepare_slopes(p, GATHERED_DOWN, false);
}
static weft_status run_gathered_grad(const kernel_call *c) {
    return run_slopes(c, arg_in(c, GATHERED_DOWN));
}
static weft_status prepare_each_grad(kernel_prepare *p) {
    return prepare_slopes(p, EACH_DOWN, true);
}
static weft_status run_each_grad(const kernel_call *c) {
    return run_slopes(c, arg_in(c, EACH_DOWN));
}

const kernel kernel_graph_send_ue_recv_grad = {prepare_gathered_grad, run_gathered_grad};
const kernel kernel_graph_send_uv_grad = {prepare_each_grad, run_each_grad};

/* graph.c: rows sent along the edges of a graph and gathered where they arrive, and the gradient. Rows that nothing
 * arrives at are 0. Paddle: phi/kernels/cpu/send_u_recv_kernel.cc. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_FROM, IN_TO, IN_OUT, IN_COUNT, IN_OUT_GRAD, OUT = 0, OUT_COUNT };
typedef enum gathering { SUM, MEAN, MIN, MAX, NKINDS } gathering;

typedef struct graph_state {
    gathering kind;
    int64_t rows, width, edges, targets;
} graph_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *out) {
    static const char *const kinds[NKINDS] = {"SUM", "MEAN", "MIN", "MAX"};
    graph_state *s = KERNEL_STATE(p, graph_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *from = type_in(p, IN_FROM), *to = type_in(p, IN_TO);
    const char *kind = attr_string(p->op, "reduce_op", "SUM");
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, from, "Src_index"));
    TRY(require_numel(p, to, from->numel, "Dst_index"));
    TRY(require_present(p, out, "Out"));
    TRY(require_same_dtype(p, x, out, "Out"));
    if (!x->ndim || out->ndim != x->ndim)
        return kernel_unsupported(p, "expected X and Out of one number of dimensions");
    while (s->kind < NKINDS && strcmp(kind, kinds[s->kind]) != 0) s->kind++;
    if (s->kind == NKINDS) return kernel_unsupported(p, "reduce_op: found %s", kind);
    s->rows = x->dims[0], s->targets = out->dims[0], s->edges = from->numel;
    s->width = s->rows ? x->numel / s->rows : 0;
    return out->numel == s->targets * s->width || !s->rows ? NULL
                                                           : kernel_unsupported(p, "expected rows like X's in Out");
}

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p, type_out(p, OUT)));
    const graph_state *s = p->state;
    p->workspace_nbytes = (size_t)s->targets * sizeof(int32_t);
    if (!type_out(p, OUT_COUNT)) return NULL;
    if (type_out(p, OUT_COUNT)->dtype != WEFT_INT32) return kernel_unsupported(p, "expected Dst_count of int32");
    return require_numel(p, type_out(p, OUT_COUNT), s->targets, "Dst_count");
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, IN_OUT_GRAD)));
    const graph_state *s = p->state;
    if (s->kind == MEAN) TRY(require_numel(p, type_in(p, IN_COUNT), s->targets, "Dst_count"));
    if (s->kind >= MIN) {
        TRY(require_present(p, type_in(p, IN_OUT), "Out"));
        TRY(require_like(p, type_in(p, IN_X), type_in(p, IN_OUT), s->targets * s->width, "Out"));
    }
    TRY(require_present(p, type_out(p, OUT), "X@GRAD"));
    return require_like(p, type_in(p, IN_X), type_out(p, OUT), type_in(p, IN_X)->numel, "X@GRAD");
}

static weft_status edge(const kernel_call *c, const graph_state *s, int64_t e, int64_t *from, int64_t *to) {
    *from = tensor_integer(arg_in(c, IN_FROM), e), *to = tensor_integer(arg_in(c, IN_TO), e);
    if (*from >= 0 && *from < s->rows && *to >= 0 && *to < s->targets) return NULL;
    return kernel_failed(c, "edge %lld: expected rows below %lld and %lld, found %lld and %lld", (long long)e,
                         (long long)s->rows, (long long)s->targets, (long long)*from, (long long)*to);
}

static weft_status run(const kernel_call *c) {
    const graph_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *out = arg_out(c, OUT);
    int32_t *count = c->workspace;
    for (int64_t i = 0; i < s->targets; i++) count[i] = 0;
    tensor_clear(out);
    for (int64_t e = 0; e < s->edges; e++) {
        int64_t from, to;
        TRY(edge(c, s, e, &from, &to));
        for (int64_t k = 0; k < s->width; k++) {
            double now = tensor_real(out, to * s->width + k), came = tensor_real(x, from * s->width + k);
            double next = s->kind <= MEAN  ? now + came
                          : s->kind == MIN ? (came < now ? came : now)
                          : came > now     ? came
                                           : now;
            tensor_set_real(out, to * s->width + k, s->kind >= MIN && !count[to] ? came : next);
        }
        count[to]++;
    }
    for (int64_t i = 0; s->kind == MEAN && i < s->targets * s->width; i++)
        if (count[i / s->width]) tensor_set_real(out, i, tensor_real(out, i) / count[i / s->width]);
    if (arg_out(c, OUT_COUNT)) copy_bytes(arg_out(c, OUT_COUNT)->data, count, (size_t)s->targets * sizeof *count);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const graph_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *g = arg_in(c, IN_OUT_GRAD), *out = arg_in(c, IN_OUT);
    tensor *dx = arg_out(c, OUT);
    tensor_clear(dx);
    for (int64_t e = 0; e < s->edges; e++) {
        int64_t from, to;
        TRY(edge(c, s, e, &from, &to));
        double share = s->kind == MEAN ? 1 / (double)tensor_integer(arg_in(c, IN_COUNT), to) : 1;
        for (int64_t k = 0; k < s->width; k++) {
            int64_t a = from * s->width + k, b = to * s->width + k;
            if (s->kind >= MIN && tensor_real(x, a) != tensor_real(out, b)) continue;
            tensor_set_real(dx, a, tensor_real(dx, a) + share * tensor_real(g, b));
        }
    }
    return NULL;
}

const kernel kernel_graph_send_recv = {prepare, run};
const kernel kernel_graph_send_recv_grad = {prepare_grad, run_grad};

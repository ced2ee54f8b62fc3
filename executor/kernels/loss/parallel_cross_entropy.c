/* parallel_cross_entropy.c: softmax with cross entropy over classes of which each rank of a ring holds some, the part
 * of its number (Paddle's phi/kernels/gpu/c_softmax_with_cross_entropy_kernel.cu; there is no CPU kernel there).
 *
 * Two reduces a call: the largest logit of each row, then its sum of exp(x - largest) together with the shifted logit
 * of its label, which one rank has. The loss is the logarithm of the one less the other. Shifted logits are clamped as
 * in softmax.c, so that ranks compute what softmax_with_cross_entropy does of all classes. */
#include <math.h>

#include "executor/kernels/activation/softmax.h"
#include "executor/kernels/collective/collective.h"

enum { IN_LOGITS, IN_LABEL, OUT_SOFTMAX = 0, OUT_LOSS };
enum { GRAD_IN_LABEL, GRAD_IN_SOFTMAX, GRAD_IN_LOSS_GRAD, GRAD_OUT_LOGITS_GRAD = 0 };
enum { SMALLEST_SHIFTED_LOGIT = -64 };

typedef struct classes {
    int64_t rows, extent; /* of the rank's part */
    int64_t first, total; /* its first class, and how many there are on all ranks */
    int64_t ignore_index;
} classes;

static weft_status prepare_common(kernel_prepare *p, const tensor *x, const tensor *label, const tensor *loss) {
    classes *s = KERNEL_STATE(p, classes);
    if (!s) return base_out_of_memory();
    int64_t rank = attr_int(p->op, "rank", 0), nranks = attr_int(p->op, "nranks", 1);
    TRY(require_real(p, x, "logits"));
    TRY(require_present(p, label, "Label"));
    TRY(require_same_dtype(p, x, loss, "losses"));
    if (x->ndim == 0) return kernel_unsupported(p, "expected logits of one dimension or more, found []");
    if (dtype_is_float(label->dtype))
        return kernel_unsupported(p, "expected labels of an integer type, found %s", dtype_text(label->dtype));
    if (nranks < 1 || nranks > INT32_MAX || rank < 0 || rank >= nranks)
        return kernel_unsupported(p, "expected rank in [0, nranks), found %lld of %lld", (long long)rank,
                                  (long long)nranks);
    s->extent = x->dims[x->ndim - 1];
    s->rows = s->extent ? x->numel / s->extent : 0;
    if (__builtin_mul_overflow(s->extent, nranks, &s->total)) return kernel_unsupported(p, "too many classes");
    s->first = rank * s->extent;
    s->ignore_index = attr_int(p->op, "ignore_index", -100);
    TRY(require_numel(p, loss, s->rows, "losses"));
    return require_numel(p, label, s->rows, "Label");
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *y = type_in(p, GRAD_IN_SOFTMAX);
    TRY(prepare_common(p, y, type_in(p, GRAD_IN_LABEL), type_in(p, GRAD_IN_LOSS_GRAD)));
    return require_numel(p, type_out(p, GRAD_OUT_LOGITS_GRAD), y->numel, "Logits@GRAD");
}

#define TEMPLATE "executor/kernels/loss/parallel_cross_entropy_real.h"
#include "executor/kernels/each_real.h"

/* The workspace: the largest logit of each row, then the sums that the ring adds up. */
static weft_status work(const kernel_call *c, int round) {
    return arg_in(c, IN_LOGITS)->dtype == WEFT_FP64 ? work_fp64(c, round) : work_fp32(c, round);
}

static void ask(const kernel_call *c, int round, comm_request *out) {
    int64_t rows = ((const classes *)c->state)->rows;
    weft_dtype dtype = arg_in(c, IN_LOGITS)->dtype;
    char *data = (char *)c->workspace + (round ? (size_t)rows * weft_dtype_nbytes(dtype) : 0);
    *out = (comm_request){.kind = COMM_ALL_REDUCE,
                          .dtype = dtype,
                          .reduce = round ? WEFT_REDUCE_SUM : WEFT_REDUCE_MAX,
                          .count = round ? 2 * rows : rows,
                          .src = data,
                          .dst = data,
                          .op = c->schema->type};
}

static const kernel_rounds two_reduces = {2, ask, work};

static weft_status prepare(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_LOGITS), *softmax = type_out(p, OUT_SOFTMAX);
    TRY(prepare_common(p, x, type_in(p, IN_LABEL), type_out(p, OUT_LOSS)));
    int64_t rank = attr_int(p->op, "rank", 0), nranks = attr_int(p->op, "nranks", 1);
    if (nranks != p->ring_nranks || rank != p->ring_index)
        return kernel_unsupported(p, "expected rank %d of %d, as in its ring, found %lld of %lld", p->ring_index,
                                  p->ring_nranks, (long long)rank, (long long)nranks);
    TRY(require_numel(p, softmax, x->numel, "Softmax"));
    p->workspace_nbytes = 3 * (size_t)((const classes *)p->state)->rows * weft_dtype_nbytes(x->dtype);
    if (p->ring_nranks > 1 && ((const classes *)p->state)->rows) p->rounds = &two_reduces;
    return NULL;
}

static weft_status run(const kernel_call *c) {
    if (((const classes *)c->state)->rows == 0) return NULL;
    if (!is_alone(c)) return run_rounds(c, &two_reduces);
    for (int round = 0; round < 2; round++) TRY(work(c, round));
    return work(c, 2);
}

static weft_status run_grad(const kernel_call *c) {
    return arg_in(c, GRAD_IN_SOFTMAX)->dtype == WEFT_FP64 ? grad_fp64(c) : grad_fp32(c);
}

const kernel kernel_c_softmax_with_cross_entropy = {prepare, run};
const kernel kernel_c_softmax_with_cross_entropy_grad = {prepare_grad, run_grad};

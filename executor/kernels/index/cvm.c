/* cvm.c: rows that begin with how often something was shown and clicked: with use_cvm these two become log(show + 1) and
 * log(click + 1) less the first, else they are left out. The gradient puts the counts of CVM in their place, as Paddle
 * does: phi/kernels/impl/cvm_kernel_impl.h. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_CVM, IN_OUT_GRAD, COUNTS = 2 };

typedef struct cvm_state {
    int64_t rows, width, kept; /* kept: elements of a row of Y */
} cvm_state;

static weft_status prepare_rows(kernel_prepare *p, const tensor *y) {
    cvm_state *s = KERNEL_STATE(p, cvm_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    if (x->ndim != 2 || x->dims[1] < COUNTS)
        return kernel_unsupported(p, "expected rows of a show, a click and more in X");
    s->rows = x->dims[0], s->width = x->dims[1];
    s->kept = s->width - (attr_bool(p->op, "use_cvm", true) ? 0 : COUNTS);
    return require_like(p, x, y, s->rows * s->kept, "Y");
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_rows(p, type_out(p, 0));
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_rows(p, type_in(p, IN_OUT_GRAD)));
    const cvm_state *s = p->state;
    const tensor *x = type_in(p, IN_X);
    TRY(require_present(p, type_in(p, IN_CVM), "CVM"));
    TRY(require_like(p, x, type_in(p, IN_CVM), s->rows * COUNTS, "CVM"));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return require_like(p, x, type_out(p, 0), x->numel, "X@GRAD");
}

static weft_status run(const kernel_call *c) {
    const cvm_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *y = arg_out(c, 0);
    int64_t dropped = s->width - s->kept;
    for (int64_t i = 0; i < s->rows; i++) {
        for (int64_t k = 0; k < s->kept; k++)
            tensor_set_real(y, i * s->kept + k, tensor_real(x, i * s->width + dropped + k));
        if (dropped) continue;
        double shown = log(tensor_real(x, i * s->width) + 1);
        tensor_set_real(y, i * s->kept, shown);
        tensor_set_real(y, i * s->kept + 1, log(tensor_real(x, i * s->width + 1) + 1) - shown);
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const cvm_state *s = c->state;
    int64_t dropped = s->width - s->kept;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->width; k++) {
            double value = k < COUNTS ? tensor_real(arg_in(c, IN_CVM), i * COUNTS + k)
                                      : tensor_real(arg_in(c, IN_OUT_GRAD), i * s->kept + k - dropped);
            tensor_set_real(arg_out(c, 0), i * s->width + k, value);
        }
    return NULL;
}

const kernel kernel_cvm = {prepare, run};
const kernel kernel_cvm_grad = {prepare_grad, run_grad};

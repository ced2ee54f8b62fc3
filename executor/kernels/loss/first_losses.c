/* first_losses.c: losses of Paddle 1: of clicks with a teacher's share, and a Huber loss of classes.
 *
 * Labels of teacher_student_sigmoid_loss hold both: below -1 no click, below 0 a click, both without a teacher; of 0 to
 * 1 a share without a click, from 1 on a share above it with a click. Source:
 * fluid/operators/{teacher_student_sigmoid_loss,modified_huber_loss}_op. */
#include <math.h>

#include "executor/kernels/layout.h"

/* --- teacher_student_sigmoid_loss --------------------------------------------------------------------------------- */

enum { STUDENT_X, STUDENT_LABEL, STUDENT_Y_GRAD };

typedef struct bounds {
    double least, most;
} bounds;

static weft_status prepare_student_pair(kernel_prepare *p, const tensor *y) {
    bounds *s = KERNEL_STATE(p, bounds);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, STUDENT_X);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, type_in(p, STUDENT_LABEL), "Label"));
    TRY(require_like(p, x, type_in(p, STUDENT_LABEL), x->numel, "Label"));
    TRY(require_present(p, y, "Y"));
    TRY(require_like(p, x, y, x->numel, "Y"));
    *s = (bounds){attr_float(p->op, "soft_max_lower_bound", -15), attr_float(p->op, "soft_max_up_bound", 15)};
    return NULL;
}
static weft_status prepare_student(kernel_prepare *p) {
    return prepare_student_pair(p, type_out(p, 0));
}
static weft_status prepare_student_grad(kernel_prepare *p) {
    TRY(prepare_student_pair(p, type_in(p, STUDENT_Y_GRAD)));
    return require_like(p, type_in(p, STUDENT_X), type_out(p, 0), type_in(p, STUDENT_X)->numel, "X@GRAD");
}

/* The sigmoid loss of a share. */
static double cost_of(double x, double share) {
    return (x > 0 ? x : 0) - x * share + log1p(exp(-fabs(x)));
}

static double student_cost(double x, double label) {
    if (isnan(label)) return label;
    if (label < -1) return cost_of(x, 0);
    if (label < 0) return cost_of(x, 1);
    return label < 1 ? cost_of(x, 0) + cost_of(x, label) : cost_of(x, 1) + cost_of(x, label - 1);
}

static weft_status run_student(const kernel_call *c) {
    const tensor *x = arg_in(c, STUDENT_X), *label = arg_in(c, STUDENT_LABEL);
    for (int64_t i = 0; i < x->numel; i++)
        tensor_set_real(arg_out(c, 0), i, student_cost(tensor_real(x, i), tensor_real(label, i)));
    return NULL;
}

static double student_slope(const bounds *s, double x, double label) {
    if (x >= s->most || x <= s->least) return 0;
    double share = 1 / (1 + exp(-x));
    return label < -1 ? share : label < 0 ? share - 1 : 2 * share - label;
}

static weft_status run_student_grad(const kernel_call *c) {
    const tensor *x = arg_in(c, STUDENT_X), *label = arg_in(c, STUDENT_LABEL), *g = arg_in(c, STUDENT_Y_GRAD);
    for (int64_t i = 0; i < x->numel; i++)
        tensor_set_real(arg_out(c, 0), i,
                        student_slope(c->state, tensor_real(x, i), tensor_real(label, i)) * tensor_real(g, i));
    return NULL;
}

const kernel kernel_teacher_student_sigmoid_loss = {prepare_student, run_student};
const kernel kernel_teacher_student_sigmoid_loss_grad = {prepare_student_grad, run_student_grad};

/* --- modified_huber_loss: of how far a class of 0 or 1 is from its side ------------------------------------------- */

enum { HUBER_X, HUBER_Y, HUBER_OUT_SIDE = 0, HUBER_OUT };
enum { HUBER_GRAD_Y, HUBER_GRAD_SIDE, HUBER_GRAD_OUT_GRAD };

static weft_status require_three(const kernel_prepare *p, const tensor *x, const tensor *y, const tensor *z) {
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    TRY(require_like(p, x, y, x->numel, "Y"));
    TRY(require_present(p, z, "IntermediateVal"));
    return require_like(p, x, z, x->numel, "IntermediateVal");
}

static weft_status prepare_huber(kernel_prepare *p) {
    const tensor *x = type_in(p, HUBER_X);
    TRY(require_three(p, x, type_in(p, HUBER_Y), type_out(p, HUBER_OUT_SIDE)));
    return require_like(p, x, type_out(p, HUBER_OUT), x->numel, "Out");
}
static weft_status prepare_huber_grad(kernel_prepare *p) {
    const tensor *g = type_in(p, HUBER_GRAD_OUT_GRAD);
    TRY(require_three(p, g, type_in(p, HUBER_GRAD_Y), type_in(p, HUBER_GRAD_SIDE)));
    return require_like(p, g, type_out(p, 0), g->numel, "X@GRAD");
}

static weft_status run_huber(const kernel_call *c) {
    const tensor *x = arg_in(c, HUBER_X), *y = arg_in(c, HUBER_Y);
    for (int64_t i = 0; i < x->numel; i++) {
        double v = tensor_real(x, i) * (2 * tensor_real(y, i) - 1);
        tensor_set_real(arg_out(c, HUBER_OUT_SIDE), i, v);
        if (arg_out(c, HUBER_OUT))
            tensor_set_real(arg_out(c, HUBER_OUT), i, v < -1 ? -4 * v : v >= 1 ? 0 : (1 - v) * (1 - v));
    }
    return NULL;
}

static weft_status run_huber_grad(const kernel_call *c) {
    const tensor *y = arg_in(c, HUBER_GRAD_Y), *side = arg_in(c, HUBER_GRAD_SIDE), *g = arg_in(c, HUBER_GRAD_OUT_GRAD);
    for (int64_t i = 0; i < g->numel; i++) {
        double v = tensor_real(side, i), slope = v < -1 ? -4 : v >= 1 ? 0 : -2 * (1 - v);
        tensor_set_real(arg_out(c, 0), i, slope * (2 * tensor_real(y, i) - 1) * tensor_real(g, i));
    }
    return NULL;
}

const kernel kernel_modified_huber_loss = {prepare_huber, run_huber};
const kernel kernel_modified_huber_loss_grad = {prepare_huber_grad, run_huber_grad};

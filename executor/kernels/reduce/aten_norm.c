/* aten_norm.c: norms of vectors: over dimensions, of each tensor of a list, and distances of each row of one matrix to
 * each of another (torch: aten/src/ATen/native/cpu/{ReduceOpsKernel,DistanceOpsKernel}.cpp). */
#include <math.h>

#include "executor/kernels/layout.h"
#include "executor/kernels/reduce/reduce.h"

/* --- one more element of a norm, and the norm ----------------------------------------------------------------------
 */

static double norm_start(double order) {
    return order == -INFINITY ? INFINITY : 0;
}

static double norm_add(double order, double sum, double x) {
    double size = fabs(x);
    if (order == 2) return sum + size * size;
    if (order == 1) return sum + size;
    if (order == 0) return sum + (size != 0);
    if (order == INFINITY) return size > sum || size != size ? size : sum;
    if (order == -INFINITY) return size < sum || size != size ? size : sum;
    return sum + pow(size, order);
}

static double norm_end(double order, double sum) {
    if (order == 2) return sqrt(sum);
    return order == 0 || order == 1 || isinf(order) ? sum : pow(sum, 1 / order);
}

/* --- over dimensions -----------------------------------------------------------------------------------------------
 */

typedef struct norm_state {
    loops kept, gone; /* over self's dimensions; the operand is self */
    double order;
} norm_state;

static weft_status prepare_norm(kernel_prepare *p) {
    norm_state *s = KERNEL_STATE(p, norm_state);
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, out, "out"));
    TRY(reduce_dims(p, x, &s->kept, &s->gone));
    s->order = attr_float(p->op, "ord", 2);
    return require_like(p, x, out, s->kept.numel, "out");
}

static double norm_of(const norm_state *s, const tensor *x, int64_t at) {
    double sum = norm_start(s->order);
    int64_t stride = loops_stride(&s->gone, 0);
    for (walk w = walk_start(&s->gone); w.left; walk_next(&s->gone, &w))
        for (int64_t i = 0; i < loops_run(&s->gone); i++)
            sum = norm_add(s->order, sum, tensor_real(x, at + w.at[0] + i * stride));
    return norm_end(s->order, sum);
}

static weft_status run_norm(const kernel_call *c) {
    const norm_state *s = c->state;
    for (walk w = walk_start(&s->kept); w.left; walk_next(&s->kept, &w))
        for (int64_t i = 0; i < loops_run(&s->kept); i++)
            tensor_set_real(arg_out(c, 0), w.position + i,
                            norm_of(s, arg_in(c, 0), w.at[0] + i * loops_stride(&s->kept, 0)));
    return NULL;
}

const kernel kernel_aten_vector_norm = {prepare_norm, run_norm};

/* --- of each tensor of a list --------------------------------------------------------------------------------------
 */

static weft_status prepare_norms(kernel_prepare *p) {
    double *order = KERNEL_STATE(p, double);
    if (!order) return base_out_of_memory();
    *order = attr_float(p->op, "ord", 2);
    if (p->out_first[1] != p->in_first[1]) return kernel_unsupported(p, "expected a norm of each tensor");
    for (uint32_t k = 0; k < p->in_first[1]; k++) {
        TRY(require_real(p, &p->in[k], "self"));
        TRY(require_like(p, &p->in[k], &p->out[k], 1, "a norm"));
    }
    return NULL;
}

static weft_status run_norms(const kernel_call *c) {
    double order = *(const double *)c->state;
    for (uint32_t k = 0; k < c->in_first[1]; k++) {
        double sum = norm_start(order);
        for (int64_t i = 0; i < c->in[k].numel; i++) sum = norm_add(order, sum, tensor_real(&c->in[k], i));
        tensor_set_real(&c->out[k], 0, norm_end(order, sum));
    }
    return NULL;
}

const kernel kernel_aten_foreach_norm = {prepare_norms, run_norms};

/* --- distances: of rows i of x1 and j of x2, in every pair of matrices of two batches -------------------------------
 */

typedef struct distance_state {
    int64_t batch, rows, columns, width;
    double order;
} distance_state;

static weft_status prepare_distances(kernel_prepare *p, const tensor *x, const tensor *y, const tensor *d) {
    distance_state *s = KERNEL_STATE(p, distance_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "x1"));
    TRY(require_present(p, y, "x2"));
    TRY(require_same_dtype(p, x, y, "x2"));
    TRY(require_present(p, d, "distances"));
    if (x->ndim < 2 || y->ndim != x->ndim || x->dims[x->ndim - 1] != y->dims[y->ndim - 1])
        return kernel_unsupported(p, "expected rows of one width");
    *s = (distance_state){1, x->dims[x->ndim - 2], y->dims[y->ndim - 2], x->dims[x->ndim - 1],
                          attr_float(p->op, "p", 2)};
    for (int k = 0; k < x->ndim - 2; k++) {
        if (x->dims[k] != y->dims[k]) return kernel_unsupported(p, "expected batches of one extent");
        s->batch *= x->dims[k];
    }
    return require_like(p, x, d, s->batch * s->rows * s->columns, "distances");
}

static weft_status prepare_cdist(kernel_prepare *p) {
    return prepare_distances(p, type_in(p, 0), type_in(p, 1), type_out(p, 0));
}

static weft_status run_cdist(const kernel_call *c) {
    const distance_state *s = c->state;
    const tensor *x = arg_in(c, 0), *y = arg_in(c, 1);
    for (int64_t i = 0; i < s->batch * s->rows; i++)
        for (int64_t j = 0; j < s->columns; j++) {
            int64_t row = i * s->width, other = (i / s->rows * s->columns + j) * s->width;
            double sum = norm_start(s->order);
            for (int64_t k = 0; k < s->width; k++)
                sum = norm_add(s->order, sum, tensor_real(x, row + k) - tensor_real(y, other + k));
            tensor_set_real(arg_out(c, 0), i * s->columns + j, norm_end(s->order, sum));
        }
    return NULL;
}

static weft_status prepare_cdist_backward(kernel_prepare *p) {
    const tensor *x = type_in(p, 1), *d = type_in(p, 3);
    TRY(prepare_distances(p, x, type_in(p, 2), type_in(p, 0)));
    TRY(require_present(p, d, "cdist"));
    TRY(require_like(p, x, d, type_in(p, 0)->numel, "cdist"));
    TRY(require_present(p, type_out(p, 0), "grad_x1"));
    return require_like(p, x, type_out(p, 0), x->numel, "grad_x1");
}

static double sign_of(double x) {
    return (double)((x > 0) - (x < 0));
}

/* The slope of a distance in one difference; 0 where the distance is. */
static double distance_slope(double order, double difference, double distance) {
    if (order == 1) return sign_of(difference);
    if (distance == 0) return 0;
    if (order == 2) return difference / distance;
    if (order == INFINITY) return fabs(difference) == distance ? sign_of(difference) : 0;
    return sign_of(difference) * pow(fabs(difference) / distance, order - 1);
}

static weft_status run_cdist_backward(const kernel_call *c) {
    const distance_state *s = c->state;
    const tensor *grad = arg_in(c, 0), *x = arg_in(c, 1), *y = arg_in(c, 2), *d = arg_in(c, 3);
    for (int64_t i = 0; i < s->batch * s->rows; i++)
        for (int64_t k = 0; k < s->width; k++) {
            double sum = 0;
            for (int64_t j = 0; j < s->columns && s->order != 0; j++) {
                int64_t at = i * s->columns + j, other = (i / s->rows * s->columns + j) * s->width + k;
                double difference = tensor_real(x, i * s->width + k) - tensor_real(y, other);
                sum += tensor_real(grad, at) * distance_slope(s->order, difference, tensor_real(d, at));
            }
            tensor_set_real(arg_out(c, 0), i * s->width + k, sum);
        }
    return NULL;
}

const kernel kernel_aten_cdist = {prepare_cdist, run_cdist};
const kernel kernel_aten_cdist_backward = {prepare_cdist_backward, run_cdist_backward};

/* optimizer.c: what all optimizers share, and gradient descent.
 *
 * Every optimizer updates in place: outputs that have memory of their own are first filled from the inputs. A gradient
 * by rows is added up into a dense one, because rows that it lacks still decay their moments; plain descent touches its
 * rows alone. Source: phi/kernels/cpu/sgd_kernel.cc. */
#include "executor/kernels/optimizer/optimizer.h"
#include "executor/kernels/rows.h"

/* --- shared ------------------------------------------------------------------------------------------------------- */

weft_status update_prepare(kernel_prepare *p, const tensor *param, const tensor *grad, const tensor *master) {
    TRY(require_present(p, param, "Param"));
    TRY(require_present(p, grad, "Grad"));
    bool half = dtype_is_half(param->dtype);
    if (!half) {
        TRY(require_real(p, param, "Param"));
        TRY(require_same_dtype(p, param, grad, "Grad"));
    } else {
        TRY(require_fp32(p, master, "MasterParam"));
        TRY(require_numel(p, master, param->numel, "MasterParam"));
        if (grad->dtype != WEFT_FP32) TRY(require_same_dtype(p, param, grad, "Grad"));
    }
    if (grad->height < 0) return require_numel(p, grad, param->numel, "Grad");
    if (half) return kernel_unsupported(p, "expected a dense gradient of a half-precision Param, found rows");
    int64_t width = param->ndim && param->dims[0] ? param->numel / param->dims[0] : 0;
    if (grad->height == (param->ndim ? param->dims[0] : 0) && grad->numel == grad->dims[0] * width) return NULL;
    return kernel_unsupported(p, "expected rows of %lld elements of %lld rows in Grad", (long long)width,
                              (long long)(param->ndim ? param->dims[0] : 0));
}

size_t dense_gradient_nbytes(const tensor *param, const tensor *grad) {
    return grad->height < 0 ? 0 : tensor_nbytes(param);
}

/* Rows are within the parameter. */
static weft_status check_rows(const kernel_call *c, const tensor *param, const tensor *grad) {
    for (int64_t i = 0; i < grad->dims[0]; i++)
        if (grad->rows[i] < 0 || grad->rows[i] >= param->dims[0])
            return kernel_failed(c, "expected rows of 0 to %lld in Grad, found %lld", (long long)param->dims[0] - 1,
                                 (long long)grad->rows[i]);
    return NULL;
}

/* dst row += scale * src row, for every row of a gradient by rows. */
#define DEFINE_ADD_ROWS(dtype, suffix, real)                                                                           \
    static void add_rows_##suffix(const tensor *grad, real scale, real *dst) {                                         \
        int64_t width = grad->dims[0] ? grad->numel / grad->dims[0] : 0;                                               \
        const real *restrict src = grad->data;                                                                         \
        for (int64_t i = 0; i < grad->dims[0]; i++, src += width) {                                                    \
            real *restrict row = dst + grad->rows[i] * width;                                                          \
            for (int64_t j = 0; j < width; j++) row[j] += scale * src[j];                                              \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_ADD_ROWS)
#undef DEFINE_ADD_ROWS

static void add_rows(const tensor *grad, double scale, void *dst) {
    if (grad->dtype == WEFT_FP64)
        add_rows_fp64(grad, scale, dst);
    else
        add_rows_fp32(grad, (float)scale, dst);
}

weft_status dense_gradient(const kernel_call *c, const tensor *param, const tensor *grad, void *workspace,
                           const void **out_grad) {
    *out_grad = grad->data;
    if (!grad->rows) return NULL;
    TRY(check_rows(c, param, grad));
    memset(workspace, 0, tensor_nbytes(param));
    add_rows(grad, 1, workspace);
    *out_grad = workspace;
    return NULL;
}

static void *moved(void *p, int64_t nbytes) {
    return p ? (char *)p + nbytes : NULL;
}

/* Elements [at, at + n) of an update whose elements have `size` bytes. */
static update part_of(const update *u, int64_t at, int64_t n, int64_t size) {
    update part = {.n = n, .param = moved(u->param, at * size), .grad = (const char *)u->grad + at * size};
    for (int k = 0; k < MOMENTS; k++) part.moments[k] = moved(u->moments[k], at * size);
    return part;
}

/* Half precision, a block at a time: gradient to fp32, step on the master copy, master copy rounded into the parameter.
 */
static void update_half(const tensor *param, const tensor *grad, const void *rule, const update *u, step_fn step) {
    float g[BLOCK];
    for (int64_t i = 0; i < u->n; i += BLOCK) {
        update block = part_of(u, i, block_size(u->n - i), sizeof(float));
        if (grad->dtype != WEFT_FP32) {
            half_load(grad->dtype, block.n, (const uint16_t *)u->grad + i, 1, g);
            block.grad = g;
        }
        step(rule, &block);
        half_store(param->dtype, block.n, block.param, (uint16_t *)param->data + i);
    }
}

typedef struct update_job {
    const void *rule;
    update u;
    step_fn step;
    int64_t size;
} update_job;

/* Items of ROW_ELEMENTS elements. */
static void update_part(void *arg, int64_t first, int64_t end, int part) {
    const update_job *job = arg;
    int64_t at = first * ROW_ELEMENTS, to = end * ROW_ELEMENTS < job->u.n ? end * ROW_ELEMENTS : job->u.n;
    update u = part_of(&job->u, at, to - at, job->size);
    (void)part;
    job->step(job->rule, &u);
}

void update_apply(const kernel_call *c, const tensor *param, const tensor *grad, const tensor *master, const void *rule,
                  update u, step_fn step_fp32, step_fn step_fp64) {
    u.n = param->numel;
    if (dtype_is_half(param->dtype)) {
        u.param = master->data;
        update_half(param, grad, rule, &u, step_fp32);
        return;
    }
    u.param = param->data;
    update_job job = {rule, u, param->dtype == WEFT_FP64 ? step_fp64 : step_fp32,
                      (int64_t)weft_dtype_nbytes(param->dtype)};
    parallel_for(c, (u.n + ROW_ELEMENTS - 1) / ROW_ELEMENTS, grain_of_bytes(ROW_ELEMENTS * 4 * job.size), update_part,
                 &job);
}

void start_from(const tensor *out, const tensor *in) {
    if (out && in) copy_bytes(out->data, in->data, tensor_nbytes(in));
}

/* --- sgd ---------------------------------------------------------------------------------------------------------- */

enum { SGD_PARAM, SGD_RATE, SGD_GRAD, SGD_MASTER, SGD_OUT_PARAM = 0, SGD_OUT_MASTER };

static weft_status prepare_sgd(kernel_prepare *p) {
    TRY(update_prepare(p, type_in(p, SGD_PARAM), type_in(p, SGD_GRAD), type_in(p, SGD_MASTER)));
    TRY(require_present(p, type_out(p, SGD_OUT_PARAM), "ParamOut"));
    if (dtype_is_half(type_in(p, SGD_PARAM)->dtype))
        TRY(require_present(p, type_out(p, SGD_OUT_MASTER), "MasterParamOut"));
    return require_present(p, type_in(p, SGD_RATE), "LearningRate");
}

#define DEFINE_SGD(dtype, suffix, real)                                                                                \
    static void sgd_##suffix(const void *rule, const update *u) {                                                      \
        real rate = (real) * (const double *)rule, *restrict param = u->param;                                         \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) param[i] -= rate * grad[i];                                                 \
    }
REAL_TYPES(DEFINE_SGD)
#undef DEFINE_SGD

static weft_status run_sgd(const kernel_call *c) {
    const tensor *grad = arg_in(c, SGD_GRAD), *param = arg_out(c, SGD_OUT_PARAM), *master = arg_out(c, SGD_OUT_MASTER);
    double rate = host_scalar(c, arg_in(c, SGD_RATE));
    start_from(param, arg_in(c, SGD_PARAM));
    start_from(master, arg_in(c, SGD_MASTER));
    if (grad->rows) {
        TRY(check_rows(c, param, grad));
        add_rows(grad, -rate, param->data);
        return NULL;
    }
    update_apply(c, param, grad, master, &rate, (update){.grad = grad->data}, sgd_fp32, sgd_fp64);
    return NULL;
}

const kernel kernel_sgd = {prepare_sgd, run_sgd};

/* optimizer.h: what optimizer kernels share: gradients by rows, and half-precision parameters with a master copy. */
#ifndef EXECUTOR_KERNELS_OPTIMIZER_OPTIMIZER_H
#define EXECUTOR_KERNELS_OPTIMIZER_OPTIMIZER_H

#include "executor/kernels/layout.h"

enum { MOMENTS = 3 };

/* One parameter's update: n elements, of the parameter (or its master copy), gradient and moments. */
typedef struct update {
    int64_t n;
    void *param;
    const void *grad;
    void *moments[MOMENTS]; /* NULL where the optimizer has fewer */
} update;

/* The rule of one optimizer for an element type; `rule` is its coefficients. */
typedef void (*step_fn)(const void *rule, const update *u);

/* prepare: Param and Grad of types that can be updated: both fp32 or fp64, or fp16 or bf16 with a MasterParam of fp32.
 */
WEFT_MUST_USE weft_status update_prepare(kernel_prepare *p, const tensor *param, const tensor *grad,
                                         const tensor *master);
/* Scratch for dense_gradient: 0 for a dense gradient. */
size_t dense_gradient_nbytes(const tensor *param, const tensor *grad);
/* The gradient's elements as a tensor like `param`: its own, or rows added up in `workspace`. */
WEFT_MUST_USE weft_status dense_gradient(const kernel_call *c, const tensor *param, const tensor *grad, void *workspace,
                                         const void **out_grad);

/* Updates u in place, in fp64 or fp32; a half-precision parameter through its master copy, rounded into `param` after.
 */
void update_apply(const kernel_call *c, const tensor *param, const tensor *grad, const tensor *master, const void *rule,
                  update u, step_fn step_fp32, step_fn step_fp64);
/* Outputs that do not share their input's memory start as copies of it. */
void start_from(const tensor *out, const tensor *in);

#endif

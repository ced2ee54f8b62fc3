/* weft/op.h: ops of a host. A registered op is as good as a built-in one: passes, plans, proofs and runs treat it as
 * its definition says.
 *
 * An op type that nobody defines is legal in programs and passes too. It reads its inputs and writes its outputs, and
 * its declared types hold. Nothing of it may be split, and nothing plans or runs it. */
#ifndef WEFT_OP_H
#define WEFT_OP_H

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of an argument. ndim -1: not known; extents of -1: known only at run time. */
typedef struct weft_arg_type {
    weft_dtype dtype;
    int ndim;
    int64_t dims[WEFT_MAX_RANK];
} weft_arg_type;

/* What inference and cost functions look at, a kernel's preparation, and one call of a kernel. */
typedef struct weft_infer weft_infer;
typedef struct weft_kernel_setup weft_kernel_setup;
typedef struct weft_kernel_call weft_kernel_call;

/* A dense, row-major tensor. */
typedef struct weft_kernel_tensor {
    void *data;
    weft_dtype dtype;
    int ndim;
    int64_t dims[WEFT_MAX_RANK];
    int64_t count; /* elements */
} weft_kernel_tensor;

/* An op type. Begin with {WEFT_OP_DEF_INIT, .type = ...}: what is not set is zero. */
typedef struct weft_op_def {
    size_t struct_nbytes;
    const char *type, *summary;
    /* Written as in weft/op_table.h: "X, Y?, Rest*"; "Out=X"; "beta: float = 1.0, axes: ints = []". NULL: none. In an
     * output "Out=X" the kernel may get the memory of X for Out. */
    const char *inputs, *outputs, *attrs;
    /* Words of weft_op_effects_print, apart by ", ": random, host, optimizer, linear_grad, linear, linear_x, one_type, metric.
     * A proof takes linearity for granted. NULL: none. */
    const char *effects;
    /* How the op can be split, in the language of docs/axes.md: "X=... -> Out=...". NULL: nothing may be split. */
    const char *axes;
    /* The type whose gradient this is, known already: SLOT and SLOT@GRAD lie as its SLOT does, and `axes` holds further
     * clauses alone. NULL: it is no gradient. */
    const char *gradient_of;
    /* Types of outputs from those of inputs. Must take unknown ones, and may be called from several threads. NULL:
     * declared types hold. */
    weft_status (*infer)(weft_infer *infer, void *user);
    /* What one execution takes, asked with the types of all arguments. NULL: flops_per_element (0: 1) for each element
     * of the largest argument, and every argument's bytes once. */
    void (*cost)(const weft_infer *args, double *out_flops, double *out_bytes, void *user);
    double flops_per_element;
    /* A kernel for CPUs. `prepare` runs once for an executor: it reads attrs, refuses what it cannot compute
     * (weft_kernel_unsupported; fp16 and bf16 then come as fp32), asks for state and workspace. NULL: nothing to
     * prepare. `run` runs every step, on the stream's thread; it may not allocate. NULL: the op can be planned and
     * simulated, not run. */
    weft_status (*prepare)(weft_kernel_setup *setup, void *user);
    weft_status (*run)(const weft_kernel_call *call, void *user);
    void *user;
} weft_op_def;
#define WEFT_OP_DEF_INIT .struct_nbytes = sizeof(weft_op_def)

/* Adds an op type to the context's table, before programs of the context are used and by one thread. The strings must
 * outlive the context. Errors: a type that is known already, a slot or attr that cannot be read (with the column). */
WEFT_MUST_USE weft_status weft_op_register(weft_context *context, const weft_op_def *def);
/* Whether the context knows the type, of its own or by a host. */
bool weft_op_is_known(weft_context *context, const char *type);

/* An attr as the definition of the op's type declares it. Whole numbers are converted where reals are declared, and
 * the like. An attr that the op does not carry has the definition's default. A list has *out_count elements. 0, false,
 * "" or NULL: neither the op nor a definition has it. Borrowed. */
int64_t weft_op_declared_int(const weft_op *op, const char *name);
double weft_op_declared_float(const weft_op *op, const char *name);
bool weft_op_declared_bool(const weft_op *op, const char *name);
const char *weft_op_declared_string(const weft_op *op, const char *name);
const int64_t *weft_op_declared_ints(const weft_op *op, const char *name, size_t *out_count);
const double *weft_op_declared_floats(const weft_op *op, const char *name, size_t *out_count);

/* --- for infer and cost: slots are numbered as the definition lists them ------------------------------------------ */

const weft_op *weft_infer_op(const weft_infer *infer); /* for attrs */
size_t weft_infer_nargs(const weft_infer *infer, bool output, size_t slot);
/* False: there is no such argument, or it is empty. Outputs have a type in `cost` alone. */
bool weft_infer_arg(const weft_infer *infer, bool output, size_t slot, size_t index, weft_arg_type *out_type);
/* No matter whether the output is there. A type of unknown ndim leaves the declared one. */
void weft_infer_set_output(weft_infer *infer, size_t slot, size_t index, const weft_arg_type *type);
WEFT_MUST_USE weft_status weft_infer_error(const weft_infer *infer, const char *format, ...) WEFT_PRINTF(2, 3);

/* --- for prepare -------------------------------------------------------------------------------------------------- */

const weft_op *weft_kernel_setup_op(const weft_kernel_setup *setup);
bool weft_kernel_setup_arg(const weft_kernel_setup *setup, bool output, size_t slot, size_t index,
                           weft_arg_type *out_type);
/* Zeroed memory that lives as long as the executor; NULL: there is none left. */
void *weft_kernel_setup_state(weft_kernel_setup *setup, size_t nbytes);
void weft_kernel_setup_workspace(weft_kernel_setup *setup, size_t nbytes); /* what each call is to get */
WEFT_MUST_USE weft_status weft_kernel_unsupported(const weft_kernel_setup *setup, const char *format, ...)
    WEFT_PRINTF(2, 3);

/* --- for run ------------------------------------------------------------------------------------------------------ */

size_t weft_kernel_nargs(const weft_kernel_call *call, bool output, size_t slot);
/* False: there is no such argument, or it is empty. */
bool weft_kernel_arg(const weft_kernel_call *call, bool output, size_t slot, size_t index,
                     weft_kernel_tensor *out_tensor);
void *weft_kernel_state(const weft_kernel_call *call);
void *weft_kernel_workspace(const weft_kernel_call *call); /* of the thread's; its contents do not last */
int weft_kernel_rank(const weft_kernel_call *call);
uint64_t weft_kernel_step(const weft_kernel_call *call); /* its number */
/* Four random words for number `index` of this op in this step: the same on all ranks and in every run of one seed. */
void weft_kernel_random(const weft_kernel_call *call, uint64_t index, uint32_t out_words[4]);
/* Calls `part` for parts of 0 .. count of at least `grain` items, on as many threads as the call may use. What an item
 * computes may not depend on its part. Parts may not fail, allocate or call this. */
void weft_kernel_parallel(const weft_kernel_call *call, int64_t count, int64_t grain,
                          void (*part)(void *arg, int64_t first, int64_t end, int number), void *arg);
WEFT_MUST_USE weft_status weft_kernel_failed(const weft_kernel_call *call, const char *format, ...) WEFT_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif

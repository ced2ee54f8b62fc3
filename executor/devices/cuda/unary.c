/* unary.c: launchers of unary.def. */
#include "base/types.h"
#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/kernels/args.h"
#include "executor/devices/cuda/launch.h"

typedef struct state {
    float p, q;
    int type, dy; /* element_type; slot, 0: it is no gradient */
} state;

static weft_status prepare(kernel_prepare *p, double first, double second) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    TRY(cuda_require_real(p, &s->type));
    if (!dtype_is_float(type_in(p, 0)->dtype)) return cuda_refuse("integers");
    s->p = (float)first;
    s->q = (float)second;
    for (int k = 1; k < (int)p->schema->ninputs; k++) {
        bool is_dy = strcmp(p->schema->inputs[k].name, "Out@GRAD") == 0;
        if (is_dy) s->dy = k;
        if (!is_dy && type_in(p, k) && strcmp(p->schema->inputs[k].name, "Out") != 0)
            return cuda_refuse("a parameter that is a tensor");
    }
    return NULL;
}

static weft_status launch(const cuda_launch *l, cuda_kernel_id id) {
    const kernel_call *c = l->call;
    const state *s = c->state;
    tensor *out = arg_out(c, 0);
    const void *dy = s->dy ? arg_in(c, s->dy)->data : NULL;
    unary_args a = {out->numel, out->data, arg_in(c, 0)->data, dy, s->p, s->q, s->type};
    return cuda_start_items(l, id, out->numel, &a);
}

#define UNARY(type, first, second, value)                                                                              \
    static weft_status prepare_##type(kernel_prepare *p) {                                                             \
        const weft_op *op = p->op;                                                                                     \
        (void)op;                                                                                                      \
        return prepare(p, first, second);                                                                              \
    }                                                                                                                  \
    static weft_status launch_##type(const cuda_launch *l) {                                                           \
        return launch(l, CUDA_KERNEL_unary_##type);                                                                    \
    }                                                                                                                  \
    const cuda_op cuda_unary_##type = {.prepare = prepare_##type, .launch = launch_##type};
#include "executor/devices/cuda/kernels/unary.def"
#undef UNARY

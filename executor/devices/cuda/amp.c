/* amp.c: launchers of check_finite_and_unscale and update_loss_scaling: a launch for KERNEL_TENSORS gradients. */
#include "executor/devices/cuda/strided.h"
#include "executor/kernels/layout.h"

static weft_status require_list(const kernel_prepare *p) {
    for (uint32_t i = 0; i < p->in_first[1]; i++) {
        element_type type;
        weft_dtype dtype = p->in[i].dtype;
        if (p->in[i].height >= 0) return cuda_refuse("rows (SelectedRows)");
        if (!element_type_of(dtype, &type) || (dtype != WEFT_FP32 && !dtype_is_half(dtype)))
            return cuda_refuse("gradients of %s", weft_dtype_name(dtype));
    }
    return NULL;
}

/* One launch after another for all of the first slot. */
static weft_status start_lists(const cuda_launch *l, cuda_kernel_id id, scaling_args a) {
    const kernel_call *c = l->call;
    uint32_t n = c->in_first[1];
    for (uint32_t first = 0; first < n; first += KERNEL_TENSORS) {
        a.first = (int)first;
        a.n = n - first < KERNEL_TENSORS ? (int)(n - first) : KERNEL_TENSORS;
        a.nitems = 0;
        for (int k = 0; k < a.n; k++) {
            const tensor *t = &c->in[first + (uint32_t)k];
            element_type type = ELEMENT_FP32;
            (void)element_type_of(t->dtype, &type);
            a.in[k] = t->data;
            a.out[k] = c->out[first + (uint32_t)k].data;
            a.count[k] = t->numel;
            a.type[k] = (unsigned char)type;
            if (t->numel > a.nitems) a.nitems = t->numel;
        }
        TRY(cuda_start_items(l, id, a.nitems, &a));
    }
    return NULL;
}

static weft_status start_one(const cuda_launch *l, cuda_kernel_id id, scaling_args a) {
    a.nitems = 1;
    return cuda_start_items(l, id, 1, &a);
}

/* --- check_finite_and_unscale ------------------------------------------------------------------------------------- */

static weft_status prepare_check(kernel_prepare *p) {
    TRY(require_list(p));
    if (type_in(p, 1)->dtype != WEFT_FP32) return cuda_refuse("a scale of %s", weft_dtype_name(type_in(p, 1)->dtype));
    p->workspace_nbytes = ((size_t)p->in_first[1] + 1) * sizeof(int);
    return NULL;
}

static weft_status launch_check(const cuda_launch *l) {
    const kernel_call *c = l->call;
    scaling_args a = {.scale = arg_in(c, 1)->data,
                      .bad = c->workspace,
                      .ntensors = (int)c->in_first[1],
                      .found = arg_out(c, 1)->data};
    CUDA_TRY(MemsetAsync, a.bad, 0, ((size_t)a.ntensors + 1) * sizeof *a.bad, l->stream);
    TRY(start_lists(l, CUDA_KERNEL_scaling_find, a));
    TRY(start_one(l, CUDA_KERNEL_scaling_first, a));
    return start_lists(l, CUDA_KERNEL_scaling_divide, a);
}

const cuda_op cuda_check_finite = {.prepare = prepare_check, .launch = launch_check};

/* --- update_loss_scaling ------------------------------------------------------------------------------------------ */

enum { IN_FOUND = 1, IN_SCALE, IN_GOOD, IN_BAD, IN_STOP };
enum { OUT_SCALE = 1, OUT_GOOD, OUT_BAD };

static weft_status prepare_update(kernel_prepare *p) {
    scaling_args *a = KERNEL_STATE(p, scaling_args);
    if (!a) return base_out_of_memory();
    TRY(require_list(p));
    if (type_in(p, IN_SCALE)->dtype != WEFT_FP32 || type_in(p, IN_GOOD)->dtype != WEFT_INT32 ||
        type_in(p, IN_BAD)->dtype != WEFT_INT32)
        return cuda_refuse("a scale or counters of other types");
    a->good_steps = attr_int(p->op, "incr_every_n_steps", 1000);
    a->missed_steps = attr_int(p->op, "decr_every_n_nan_or_inf", 2);
    a->up = attr_float(p->op, "incr_ratio", 2);
    a->down = attr_float(p->op, "decr_ratio", 0.5);
    a->is_stopped = attr_bool(p->op, "stop_update", false);
    return NULL;
}

static weft_status launch_update(const cuda_launch *l) {
    const kernel_call *c = l->call;
    scaling_args a = *(const scaling_args *)c->state;
    a.was_found = arg_in(c, IN_FOUND)->data;
    a.scale = arg_in(c, IN_SCALE)->data;
    a.good = arg_in(c, IN_GOOD)->data;
    a.missed = arg_in(c, IN_BAD)->data;
    a.stop = data_or_null(arg_in(c, IN_STOP));
    a.scale_out = arg_out(c, OUT_SCALE)->data;
    a.good_out = arg_out(c, OUT_GOOD)->data;
    a.missed_out = arg_out(c, OUT_BAD)->data;
    TRY(start_lists(l, CUDA_KERNEL_scaling_clear, a));
    return start_one(l, CUDA_KERNEL_scaling_move, a);
}

const cuda_op cuda_update_loss_scaling = {.prepare = prepare_update, .launch = launch_update};

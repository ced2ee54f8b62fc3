/* table.c: launchers of lookup_table_v2. */
#include <limits.h>

#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/kernels/args.h"
#include "executor/devices/cuda/launch.h"
#include "executor/kernels/typed.h"

typedef struct table_state {
    int64_t nrows, width, nids, padding;
    bool is_wide;
    int type; /* element_type */
} table_state;

static weft_status prepare(kernel_prepare *p) {
    table_state *s = KERNEL_STATE(p, table_state);
    if (!s) return base_out_of_memory();
    const tensor *w = type_in(p, 0), *ids = type_in(p, 1);
    int64_t padding = attr_int(p->op, "padding_idx", -1);
    int type;
    TRY(cuda_require_real(p, &type));
    if (!dtype_is_float(w->dtype) || (ids->dtype != WEFT_INT64 && ids->dtype != WEFT_INT32) || ids->numel > INT_MAX)
        return cuda_refuse("a table of %s", weft_dtype_name(w->dtype));
    *s = (table_state){w->dims[0], w->dims[1], ids->numel, padding < 0 ? LLONG_MIN : padding, ids->dtype == WEFT_INT64,
                       type};
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    if (attr_bool(p->op, "is_sparse", false)) return cuda_refuse("rows (SelectedRows)");
    TRY(prepare(p));
    const table_state *s = p->state;
    p->workspace_nbytes = (size_t)s->nids * 2 * sizeof(int);
    return NULL;
}

static table_args args_of(const kernel_call *c) {
    const table_state *s = c->state;
    return (table_args){.nitems = s->nids * s->width,
                        .width = s->width,
                        .nids = s->nids,
                        .nrows = s->nrows,
                        .type = s->type,
                        .ids = arg_in(c, 1)->data,
                        .wide_ids = s->is_wide,
                        .padding = s->padding,
                        .out = arg_out(c, 0)->data};
}

static weft_status launch(const cuda_launch *l) {
    table_args a = args_of(l->call);
    a.in = arg_in(l->call, 0)->data;
    return cuda_start_items(l, CUDA_KERNEL_table_rows, a.nitems, &a);
}

static weft_status launch_grad(const cuda_launch *l) {
    table_args a = args_of(l->call);
    cuda_index nitems = a.nitems;
    a.in = arg_in(l->call, 2)->data;
    a.next = l->call->workspace;
    a.is_first = a.next + a.nids;
    CUDA_TRY(MemsetAsync, a.out, 0, tensor_nbytes(arg_out(l->call, 0)), l->stream);
    a.nitems = a.nids;
    TRY(cuda_start_items(l, CUDA_KERNEL_table_links, a.nids, &a));
    a.nitems = nitems;
    return cuda_start_items(l, CUDA_KERNEL_table_grad, nitems, &a);
}

const cuda_op cuda_table = {.prepare = prepare, .launch = launch};
const cuda_op cuda_table_grad = {.prepare = prepare_grad, .launch = launch_grad};

/* --- one_hot_v2 --------------------------------------------------------------------------------------------------- */

static weft_status prepare_one_hot(kernel_prepare *p) {
    table_state *s = KERNEL_STATE(p, table_state);
    if (!s) return base_out_of_memory();
    const tensor *ids = type_in(p, 0), *out = type_out(p, 0);
    if (!ids->numel || out->dtype != WEFT_FP32 || (ids->dtype != WEFT_INT64 && ids->dtype != WEFT_INT32))
        return cuda_refuse("ids of %s", weft_dtype_name(ids->dtype));
    *s = (table_state){.width = out->numel / ids->numel, .is_wide = ids->dtype == WEFT_INT64};
    return NULL;
}

static weft_status launch_one_hot(const cuda_launch *l) {
    const table_state *s = l->call->state;
    const tensor *out = arg_out(l->call, 0);
    table_args a = {.nitems = out->numel,
                    .width = s->width,
                    .ids = arg_in(l->call, 0)->data,
                    .wide_ids = s->is_wide,
                    .out = out->data};
    return cuda_start_items(l, CUDA_KERNEL_one_hot, a.nitems, &a);
}

const cuda_op cuda_one_hot = {.prepare = prepare_one_hot, .launch = launch_one_hot};

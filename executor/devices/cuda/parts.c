/* parts.c: ops that move boxes of a larger tensor: concat, split, slice, and gradients. */
#include "executor/devices/cuda/strided.h"
#include "executor/kernels/layout.h"

/* One box: a dense smaller tensor, and where it lies in the larger one. */
typedef struct box {
    elements_walk walk;
    int64_t offset; /* bytes */
    uint32_t small; /* argument; of the outputs where the box is taken out of the larger tensor */
} box;
typedef struct box_state {
    box *boxes;
    size_t count;
    int large;      /* slot */
    bool takes_out; /* from the larger tensor, which is an input */
    bool clears;    /* what is in no box is 0 */
} box_state;

/* `dims` are the box's, in the rank of the larger tensor. */
static weft_status init_box(box *b, const tensor *large, const int64_t *dims, const int64_t *first, bool takes_out) {
    int64_t of_large[WEFT_MAX_RANK], strides[1 + KERNEL_INPUTS][WEFT_MAX_RANK];
    strides_dense(large->ndim, large->dims, of_large);
    strides_dense(large->ndim, dims, strides[takes_out ? 0 : 1]);
    memcpy(strides[takes_out ? 1 : 0], of_large, sizeof of_large);
    b->offset = 0;
    for (int i = 0; i < large->ndim; i++) b->offset += first[i] * of_large[i];
    b->offset *= (int64_t)weft_dtype_nbytes(large->dtype);
    return move_init(&b->walk, large->dtype, large->ndim, dims, strides);
}

static weft_status require_box(const tensor *large) {
    return large->height >= 0 ? cuda_refuse("rows (SelectedRows)") : NULL;
}

static weft_status launch(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const box_state *s = c->state;
    char *large = s->takes_out ? arg_in(c, s->large)->data : arg_out(c, s->large)->data;
    if (s->clears) CUDA_TRY(MemsetAsync, large, 0, tensor_nbytes(arg_out(c, s->large)), l->stream);
    for (size_t i = 0; i < s->count; i++) {
        const box *b = &s->boxes[i];
        const tensor *small = s->takes_out ? &c->out[b->small] : &c->in[b->small];
        if (small->dtype == WEFT_DTYPE_NONE || !small->numel) continue;
        if (s->takes_out)
            TRY(elements_launch(l, &b->walk, small->data, large + b->offset, NULL, NULL));
        else
            TRY(elements_launch(l, &b->walk, large + b->offset, small->data, NULL, NULL));
    }
    return NULL;
}

/* --- one after another along an axis ------------------------------------------------------------------------------ */

/* `parts` say how large they are; `first` is the argument that is the first one's. */
static weft_status prepare_parts(kernel_prepare *p, int large_slot, bool takes_out, const tensor *parts, uint32_t n,
                                 uint32_t first_small) {
    box_state *s = KERNEL_STATE(p, box_state);
    const tensor *large = takes_out ? type_in(p, large_slot) : type_out(p, large_slot);
    int64_t first[WEFT_MAX_RANK] = {0};
    if (!s) return base_out_of_memory();
    TRY(require_box(large));
    int axis = axis_of(large, attr_int(p->op, "axis", 0));
    if (axis < 0 || !large->ndim) return cuda_refuse("a scalar's axis");
    *s = (box_state){
        .boxes = ARENA_ARRAY(p->arena, box, n + 1), .count = n, .large = large_slot, .takes_out = takes_out};
    if (!s->boxes) return base_out_of_memory();
    for (uint32_t i = 0; i < n; i++) {
        if (parts[i].ndim != large->ndim) return cuda_refuse("parts of another rank");
        TRY(init_box(&s->boxes[i], large, parts[i].dims, first, takes_out));
        s->boxes[i].small = first_small + i;
        first[axis] += parts[i].dims[axis];
    }
    return NULL;
}

static weft_status prepare_concat(kernel_prepare *p) {
    if (type_in(p, 1)) return cuda_refuse("an axis that is a tensor");
    return prepare_parts(p, 0, false, &p->in[p->in_first[0]], p->in_first[1] - p->in_first[0], p->in_first[0]);
}
static weft_status prepare_concat_grad(kernel_prepare *p) {
    if (type_in(p, 1)) return cuda_refuse("an axis that is a tensor");
    return prepare_parts(p, 2, true, &p->in[p->in_first[0]], p->in_first[1] - p->in_first[0], p->out_first[0]);
}
/* At a negative axis Paddle deals elements out in another order (executor/kernels/shape/concat.c). */
static weft_status prepare_split(kernel_prepare *p) {
    if (attr_int(p->op, "axis", 0) < 0) return cuda_refuse("a negative axis");
    if (type_in(p, 1)) return cuda_refuse("an axis that is a tensor");
    return prepare_parts(p, 0, true, &p->out[p->out_first[0]], p->out_first[1] - p->out_first[0], p->out_first[0]);
}

const cuda_op cuda_concat = {.prepare = prepare_concat, .launch = launch};
const cuda_op cuda_concat_grad = {.prepare = prepare_concat_grad, .launch = launch};
const cuda_op cuda_split = {.prepare = prepare_split, .launch = launch};

/* --- a box -------------------------------------------------------------------------------------------------------- */

static int64_t clamp(int64_t bound, int64_t extent) {
    int64_t at = bound < 0 ? bound + extent : bound;
    return at < 0 ? 0 : at > extent ? extent : at;
}

static weft_status prepare_slice(kernel_prepare *p, const tensor *large, bool takes_out, uint32_t small) {
    box_state *s = KERNEL_STATE(p, box_state);
    int64_t first[WEFT_MAX_RANK] = {0}, dims[WEFT_MAX_RANK];
    size_t n, nstarts, nends;
    const int64_t *axes = attr_ints(p->op, "axes", &n), *starts = attr_ints(p->op, "starts", &nstarts),
                  *ends = attr_ints(p->op, "ends", &nends);
    if (!s) return base_out_of_memory();
    TRY(require_box(large));
    for (int k = 1; k < 5; k++)
        if (type_in(p, k)) return cuda_refuse("bounds that are tensors");
    if (n != nstarts || n != nends) return cuda_refuse("bounds that are not all there");
    *s = (box_state){.boxes = ARENA_ARRAY(p->arena, box, 1), .count = 1, .takes_out = takes_out, .clears = !takes_out};
    if (!s->boxes) return base_out_of_memory();
    memcpy(dims, large->dims, sizeof dims);
    for (size_t i = 0; i < n; i++) {
        int axis = axis_of(large, axes[i]);
        if (axis < 0) return cuda_refuse("an axis that is not there");
        first[axis] = clamp(starts[i], large->dims[axis]);
        int64_t extent = clamp(ends[i], large->dims[axis]) - first[axis];
        dims[axis] = extent > 0 ? extent : 0;
    }
    TRY(init_box(&s->boxes[0], large, dims, first, takes_out));
    s->boxes[0].small = small;
    return NULL;
}

static weft_status prepare_slice_of(kernel_prepare *p) {
    return prepare_slice(p, type_in(p, 0), true, p->out_first[0]);
}
static weft_status prepare_slice_grad(kernel_prepare *p) {
    return prepare_slice(p, type_out(p, 0), false, p->in_first[5]);
}

const cuda_op cuda_slice = {.prepare = prepare_slice_of, .launch = launch};
const cuda_op cuda_slice_grad = {.prepare = prepare_slice_grad, .launch = launch};

/* simple.c: copies, fills, sums of terms, scale, cast, dropout. */
#include <math.h>
#include <stdlib.h>

#include "base/types.h"
#include "executor/devices/cuda/strided.h"
#include "executor/kernels/fill/random.h"
#include "executor/kernels/typed.h"

/* --- copies: reshapes, and what only renames ---------------------------------------------------------------------- */

typedef struct copy_state {
    int slot; /* input */
} copy_state;

static weft_status prepare_copy(kernel_prepare *p) {
    copy_state *s = KERNEL_STATE(p, copy_state);
    if (!s) return base_out_of_memory();
    for (size_t i = 0; i < p->schema->ninputs; i++)
        if (strcmp(p->schema->inputs[i].name, "Out@GRAD") == 0) s->slot = (int)i;
    const tensor *x = type_in(p, s->slot), *out = type_out(p, 0);
    if (!x || !out || x->dtype != out->dtype || x->numel != out->numel || x->height >= 0)
        return cuda_refuse("more than a copy");
    return NULL;
}

static weft_status launch_copy(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const tensor *x = arg_in(c, ((const copy_state *)c->state)->slot), *out = arg_out(c, 0);
    if (x->data == out->data || !x->numel) return NULL;
    CUDA_TRY(MemcpyAsync, out->data, x->data, tensor_nbytes(x), cudaMemcpyDeviceToDevice, l->stream);
    return NULL;
}

const cuda_op cuda_copy = {.prepare = prepare_copy, .launch = launch_copy};

/* --- fills -------------------------------------------------------------------------------------------------------- */

typedef struct fill_state {
    uint64_t word;
    size_t size;
} fill_state;

static weft_status prepare_value(kernel_prepare *p, double value) {
    fill_state *s = KERNEL_STATE(p, fill_state);
    if (!s) return base_out_of_memory();
    const tensor *out = type_out(p, 0);
    s->size = weft_dtype_nbytes(out->dtype);
    if (s->size != 1 && s->size != 4 && s->size != 8) return cuda_refuse("elements of %zu bytes", s->size);
    fill_elements(out->dtype, &s->word, 1, value);
    return NULL;
}

static weft_status prepare_fill_constant(kernel_prepare *p) {
    const char *exact = attr_string(p->op, "str_value", "");
    if (type_in(p, 0)) return cuda_refuse("a value that is a tensor");
    return prepare_value(p, *exact ? strtod(exact, NULL) : attr_float(p->op, "value", 0));
}
static weft_status prepare_fill_like(kernel_prepare *p) {
    return prepare_value(p, attr_float(p->op, "value", 0));
}

static weft_status launch_fill(const cuda_launch *l) {
    const fill_state *s = l->call->state;
    const tensor *out = arg_out(l->call, 0);
    fill_args a = {out->numel, out->data, s->word};
    cuda_kernel_id id = s->size == 1 ? CUDA_KERNEL_fill1 : s->size == 4 ? CUDA_KERNEL_fill4 : CUDA_KERNEL_fill8;
    return cuda_start_items(l, id, out->numel, &a);
}

const cuda_op cuda_fill_constant = {.prepare = prepare_fill_constant, .launch = launch_fill};
const cuda_op cuda_fill_like = {.prepare = prepare_fill_like, .launch = launch_fill};

/* --- sum of terms ------------------------------------------------------------------------------------------------- */

typedef struct sum_state {
    int type; /* element_type */
} sum_state;

static weft_status prepare_sum(kernel_prepare *p) {
    sum_state *s = KERNEL_STATE(p, sum_state);
    if (!s) return base_out_of_memory();
    uint32_t n = p->in_first[1] - p->in_first[0];
    TRY(cuda_require_real(p, &s->type));
    if (n < 1 || n > KERNEL_TERMS) return cuda_refuse("%u terms", n);
    for (uint32_t i = 0; i < n; i++)
        if (!dtype_is_float(p->in[i].dtype) || p->in[i].numel != type_out(p, 0)->numel) return cuda_refuse("integers");
    return NULL;
}

static weft_status launch_sum(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const tensor *out = arg_out(c, 0);
    sum_args a = {.nitems = out->numel, .out = out->data, .n = (int)(c->in_first[1] - c->in_first[0])};
    a.type = ((const sum_state *)c->state)->type;
    for (int i = 0; i < a.n; i++) a.in[i] = c->in[i].data;
    return cuda_start_items(l, CUDA_KERNEL_sum_terms, out->numel, &a);
}

const cuda_op cuda_sum = {.prepare = prepare_sum, .launch = launch_sum};

/* --- scale -------------------------------------------------------------------------------------------------------- */

typedef struct scale_state {
    float scale, bias;
    int type; /* element_type */
    bool is_integer;
    elements_walk integers;
} scale_state;

static weft_status prepare_line(kernel_prepare *p, double scale, double bias, bool after) {
    scale_state *s = KERNEL_STATE(p, scale_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(cuda_require_real(p, &s->type));
    s->scale = (float)scale;
    s->bias = (float)(after ? bias : bias * scale);
    s->is_integer = !dtype_is_float(x->dtype);
    if (!s->is_integer) return NULL;
    int64_t n = x->numel, strides[3][WEFT_MAX_RANK] = {{1}, {1}};
    TRY(elements_init(&s->integers, ELEMENTS_scaled, x->dtype, out->dtype, 1, &n, 1, strides));
    s->integers.args.p = (cuda_index)scale; /* truncated, as the CPU's are */
    s->integers.args.q = after ? (cuda_index)bias : (cuda_index)bias * (cuda_index)scale;
    return NULL;
}

static weft_status prepare_scale(kernel_prepare *p) {
    if (type_in(p, 1) || type_in(p, 2)) return cuda_refuse("a factor that is a tensor");
    return prepare_line(p, attr_float(p->op, "scale", 1), attr_float(p->op, "bias", 0),
                        attr_bool(p->op, "bias_after_scale", true));
}
static weft_status prepare_increment(kernel_prepare *p) {
    return prepare_line(p, 1, attr_float(p->op, "step", 1), true);
}

static weft_status launch_scale(const cuda_launch *l) {
    const scale_state *s = l->call->state;
    const tensor *x = arg_in(l->call, 0), *out = arg_out(l->call, 0);
    if (s->is_integer) return elements_launch(l, &s->integers, out->data, x->data, NULL, NULL);
    unary_args a = {out->numel, out->data, x->data, NULL, s->scale, s->bias, s->type};
    return cuda_start_items(l, CUDA_KERNEL_scale_elements, out->numel, &a);
}

const cuda_op cuda_scale = {.prepare = prepare_scale, .launch = launch_scale};
const cuda_op cuda_increment = {.prepare = prepare_increment, .launch = launch_scale};

/* --- assign_value ------------------------------------------------------------------------------------------------- */

typedef struct given_state {
    const void *bytes;
} given_state;

static weft_status prepare_given(kernel_prepare *p) {
    given_state *s = KERNEL_STATE(p, given_state);
    if (!s) return base_out_of_memory();
    const tensor *out = type_out(p, 0);
    size_t count = 0;
    if (tensor_nbytes(out) > KERNEL_BYTES) return cuda_refuse("%zu bytes", tensor_nbytes(out));
    return attr_elements(p, out->dtype, &s->bytes, &count);
}

static weft_status launch_given(const cuda_launch *l) {
    const tensor *out = arg_out(l->call, 0);
    given_args a = {.nitems = (cuda_index)tensor_nbytes(out), .out = out->data};
    memcpy(a.bytes, ((const given_state *)l->call->state)->bytes, tensor_nbytes(out));
    return cuda_start_items(l, CUDA_KERNEL_given_bytes, a.nitems, &a);
}

const cuda_op cuda_assign_value = {.prepare = prepare_given, .launch = launch_given};

/* --- cast --------------------------------------------------------------------------------------------------------- */

typedef struct cast_state {
    element_type from, to;
} cast_state;

static weft_status prepare_cast(kernel_prepare *p) {
    cast_state *s = KERNEL_STATE(p, cast_state);
    if (!s) return base_out_of_memory();
    if (type_in(p, 0)->height >= 0) return cuda_refuse("rows (SelectedRows)");
    if (element_type_of(type_in(p, 0)->dtype, &s->from) && element_type_of(type_out(p, 0)->dtype, &s->to)) return NULL;
    return cuda_refuse("%s to %s", weft_dtype_name(type_in(p, 0)->dtype), weft_dtype_name(type_out(p, 0)->dtype));
}

static weft_status launch_cast(const cuda_launch *l) {
    const cast_state *s = l->call->state;
    const tensor *x = arg_in(l->call, 0), *out = arg_out(l->call, 0);
    cast_args a = {out->numel, out->data, x->data, s->from, s->to};
    return cuda_start_items(l, CUDA_KERNEL_cast_elements_of, out->numel, &a);
}

const cuda_op cuda_cast = {.prepare = prepare_cast, .launch = launch_cast};

/* --- dropout ------------------------------------------------------------------------------------------------------ */

typedef struct dropout_state {
    int64_t seed;
    float factor;
    uint32_t drop_below;
    int type; /* element_type */
} dropout_state;

static weft_status prepare_drop(kernel_prepare *p) {
    dropout_state *s = KERNEL_STATE(p, dropout_state);
    if (!s) return base_out_of_memory();
    TRY(cuda_require_real(p, &s->type));
    if (attr_bool(p->op, "is_test", false)) return cuda_refuse("dropout of a test");
    double drop = attr_float(p->op, "dropout_prob", 0.5);
    bool upscale = strcmp(attr_string(p->op, "dropout_implementation", "downgrade_in_infer"), "upscale_in_train") == 0;
    s->seed = attr_bool(p->op, "fix_seed", false) ? attr_int(p->op, "seed", 0) : 0;
    s->factor = !upscale ? 1 : drop < 1 ? (float)(1 / (1 - drop)) : 0;
    s->drop_below = (uint32_t)ceil(drop * 0x1p24);
    return NULL;
}

static weft_status prepare_dropout(kernel_prepare *p) {
    return type_in(p, 1) ? cuda_refuse("a seed that is a tensor") : prepare_drop(p);
}

static weft_status launch_dropout(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const dropout_state *s = c->state;
    random_key key = random_key_of(c, s->seed);
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0), *mask = arg_out(c, 1);
    dropout_args a = {.nitems = out->numel,
                      .out = out->data,
                      .x = x->data,
                      .mask = mask ? mask->data : NULL,
                      .seed = key.seed,
                      .upper = key.op_seed * 0x9E3779B97F4A7C15ull,
                      .step = s->seed ? NULL : l->step,
                      .drop_below = s->drop_below,
                      .factor = s->factor,
                      .type = s->type};
    return cuda_start_items(l, CUDA_KERNEL_dropout_draw, out->numel, &a);
}

static weft_status launch_dropout_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const dropout_state *s = c->state;
    const tensor *mask = arg_in(c, 0), *dout = arg_in(c, 1), *dx = arg_out(c, 0);
    dropout_args a = {.nitems = dx->numel,
                      .out = dx->data,
                      .x = dout->data,
                      .mask = mask->data,
                      .factor = s->factor,
                      .type = s->type};
    return cuda_start_items(l, CUDA_KERNEL_dropout_keep, dx->numel, &a);
}

const cuda_op cuda_dropout = {.prepare = prepare_dropout, .launch = launch_dropout};
const cuda_op cuda_dropout_grad = {.prepare = prepare_drop, .launch = launch_dropout_grad};

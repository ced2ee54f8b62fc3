/* aten_where.c: elements of one tensor or another by a condition, and tensors one after another: what moves elements
 * and makes them of one type on the way. */
#include "executor/kernels/layout.h"

enum { OUT = 0 };

/* One element of any type. */
typedef struct one_element {
    uint64_t bytes;
} one_element;

/* --- where, masked_fill ------------------------------------------------------------------------------------------- */

enum { CONDITION, WHEN_TRUE, WHEN_FALSE }; /* operands of the loops */

typedef struct where_state {
    loops loops;  /* over the output, which is dense */
    int input[3]; /* input slots of the operands; -1: the number */
    one_element number;
} where_state;

/* Loops over the output; an operand without a tensor stays where it is. */
static weft_status prepare_choice(kernel_prepare *p, where_state *s) {
    const tensor *out = type_out(p, OUT);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK] = {{0}};
    TRY(require_present(p, out, "out"));
    for (int k = 0; k < 3; k++) {
        const tensor *t = s->input[k] < 0 ? NULL : type_in(p, s->input[k]);
        if (s->input[k] < 0) continue;
        TRY(require_present(p, t, "an operand"));
        if (t->ndim > out->ndim || !strides_broadcast(t, -1, out->ndim, out->dims, strides[k]))
            return kernel_unsupported(p, "expected operands that broadcast to the output");
        if (k != CONDITION && !cast_exists(t->dtype, out->dtype))
            return kernel_unsupported(p, "no choice of %s as %s", dtype_text(t->dtype), dtype_text(out->dtype));
        if (k == CONDITION && t->dtype != WEFT_BOOL && t->dtype != WEFT_UINT8)
            return kernel_unsupported(p, "expected a condition of bool, found %s", dtype_text(t->dtype));
    }
    loops_init(&s->loops, out->ndim, out->dims, 3, strides);
    return NULL;
}

static weft_status prepare_where(kernel_prepare *p) {
    where_state *s = KERNEL_STATE(p, where_state);
    if (!s) return base_out_of_memory();
    for (int k = 0; k < 3; k++) s->input[k] = k;
    return prepare_choice(p, s);
}

static weft_status prepare_masked_fill(kernel_prepare *p) {
    enum { IN_SELF, IN_MASK };
    where_state *s = KERNEL_STATE(p, where_state);
    double value = attr_float(p->op, "value", 0);
    if (!s) return base_out_of_memory();
    s->input[CONDITION] = IN_MASK;
    s->input[WHEN_TRUE] = -1;
    s->input[WHEN_FALSE] = IN_SELF;
    TRY(prepare_choice(p, s));
    if (!cast_exists(WEFT_FP64, type_out(p, OUT)->dtype))
        return kernel_unsupported(p, "no number of %s", dtype_text(type_out(p, OUT)->dtype));
    cast_elements(WEFT_FP64, type_out(p, OUT)->dtype, 1, &value, &s->number);
    return NULL;
}

/* n elements of an operand as elements of the output's type, or one where the operand does not move. */
static const void *elements_as(const kernel_call *c, const where_state *s, int operand, int64_t at, int64_t n,
                               void *room) {
    const tensor *t = s->input[operand] < 0 ? NULL : arg_in(c, s->input[operand]);
    weft_dtype wanted = arg_out(c, OUT)->dtype;
    if (!t) return &s->number;
    const char *from = (const char *)t->data + (size_t)at * weft_dtype_nbytes(t->dtype);
    if (t->dtype == wanted) return from;
    cast_elements(t->dtype, wanted, n, from, room);
    return room;
}

#define DEFINE_CHOOSE(type)                                                                                            \
    static void choose_##type(int64_t n, const uint8_t *which, int ws, const type *a, int as, const type *b, int bs,   \
                              type *out) {                                                                             \
        for (int64_t i = 0; i < n; i++) out[i] = which[i * ws] ? a[i * as] : b[i * bs];                                \
    }
DEFINE_CHOOSE(uint8_t)
DEFINE_CHOOSE(uint16_t)
DEFINE_CHOOSE(uint32_t)
DEFINE_CHOOSE(uint64_t)
#undef DEFINE_CHOOSE

static void choose_block(const kernel_call *c, const where_state *s, const int64_t *at, int64_t n, char *to) {
    one_element room_a[BLOCK], room_b[BLOCK];
    int ws = loops_stride(&s->loops, CONDITION) != 0, bs = loops_stride(&s->loops, WHEN_FALSE) != 0;
    int as = s->input[WHEN_TRUE] >= 0 && loops_stride(&s->loops, WHEN_TRUE) != 0;
    const uint8_t *which = (const uint8_t *)arg_in(c, s->input[CONDITION])->data + at[CONDITION];
    const void *a = elements_as(c, s, WHEN_TRUE, at[WHEN_TRUE], as ? n : 1, room_a);
    const void *b = elements_as(c, s, WHEN_FALSE, at[WHEN_FALSE], bs ? n : 1, room_b);
    switch (weft_dtype_nbytes(arg_out(c, OUT)->dtype)) {
    case 1: choose_uint8_t(n, which, ws, a, as, b, bs, (void *)to); break;
    case 2: choose_uint16_t(n, which, ws, a, as, b, bs, (void *)to); break;
    case 4: choose_uint32_t(n, which, ws, a, as, b, bs, (void *)to); break;
    default: choose_uint64_t(n, which, ws, a, as, b, bs, (void *)to);
    }
}

static weft_status run_where(const kernel_call *c) {
    const where_state *s = c->state;
    const tensor *out = arg_out(c, OUT);
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    int64_t n = loops_run(&s->loops);
    for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w))
        for (int64_t i = 0; i < n; i += BLOCK) {
            int64_t at[3];
            for (int k = 0; k < 3; k++) at[k] = w.at[k] + (loops_stride(&s->loops, k) ? i : 0);
            choose_block(c, s, at, block_size(n - i), (char *)out->data + (size_t)(w.position + i) * nbytes);
        }
    return NULL;
}

const kernel kernel_aten_where = {prepare_where, run_where};
const kernel kernel_aten_masked_fill = {prepare_masked_fill, run_where};

/* --- cat ---------------------------------------------------------------------------------------------------------- */

static weft_status prepare_cat(kernel_prepare *p) {
    axis_split *s = KERNEL_STATE(p, axis_split);
    const tensor *out = type_out(p, OUT);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, out, "out"));
    TRY(axis_split_prepare(p, out, attr_int(p->op, "dim", 0), s));
    int64_t sum = 0;
    for (uint32_t k = 0; k < p->in_first[1]; k++) {
        const tensor *x = &p->in[k];
        if (!cast_exists(x->dtype, out->dtype))
            return kernel_unsupported(p, "no cat of %s to %s", dtype_text(x->dtype), dtype_text(out->dtype));
        if (__builtin_add_overflow(sum, x->numel, &sum)) return kernel_unsupported(p, "expected fewer elements");
        if (x->numel % (s->outer * s->inner > 0 ? s->outer * s->inner : 1))
            return kernel_unsupported(p, "expected tensors that differ in one dimension alone");
    }
    return sum == out->numel ? NULL
                             : kernel_unsupported(p, "expected tensors of %lld elements in all, found %lld",
                                                  (long long)out->numel, (long long)sum);
}

static weft_status run_cat(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *out = arg_out(c, OUT);
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    int64_t row = s->extent * s->inner, before = 0;
    if (!out->numel) return NULL;
    for (uint32_t k = 0; k < c->in_first[1]; k++) {
        const tensor *x = &c->in[k];
        int64_t n = x->numel / s->outer;
        for (int64_t o = 0; o < s->outer && n; o++)
            cast_elements(x->dtype, out->dtype, n,
                          (const char *)x->data + (size_t)(o * n) * weft_dtype_nbytes(x->dtype),
                          (char *)out->data + (size_t)(o * row + before) * nbytes);
        before += n;
    }
    return NULL;
}

const kernel kernel_aten_cat = {prepare_cat, run_cat};

/* --- full --------------------------------------------------------------------------------------------------------- */

static weft_status prepare_full(kernel_prepare *p) {
    double *value = KERNEL_STATE(p, double);
    const tensor *out = type_out(p, OUT);
    if (!value) return base_out_of_memory();
    *value = attr_float(p->op, "fill_value", 0);
    TRY(require_present(p, out, "out"));
    if (cast_exists(WEFT_FP64, out->dtype)) return NULL;
    return kernel_unsupported(p, "no number of %s", dtype_text(out->dtype));
}

static weft_status run_full(const kernel_call *c) {
    const tensor *out = arg_out(c, OUT);
    fill_elements(out->dtype, out->data, out->numel, *(const double *)c->state);
    return NULL;
}

const kernel kernel_aten_full = {prepare_full, run_full};

/* micro_write.c: vars and ops around the steps of a chunk plan: views, casts, rows taken apart and put together. */
#include <stdio.h>

#include "passes/bucket_tensor.h"
#include "passes/micro_pipeline/micro_write.h"

/* --- names -------------------------------------------------------------------------------------------------------- */

typedef struct words {
    char *at, *end; /* the last byte is for the 0 */
} words;

static void put_text(words *w, const char *from) {
    while (*from && w->at < w->end) *w->at++ = *from++;
}

static void put_number(words *w, uint64_t number) {
    char digits[20];
    size_t n = 0;
    do digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n && w->at < w->end) *w->at++ = digits[--n];
}

void micro_name(char *to, size_t room, const char *head, uint64_t number, const char *const *middle, int64_t index) {
    words w = {to, to + room - 1};
    put_text(&w, head);
    put_number(&w, number);
    for (; *middle; middle++) put_text(&w, *middle);
    if (index < 0) put_text(&w, "-");
    put_number(&w, index < 0 ? 0 - (uint64_t)index : (uint64_t)index);
    *w.at = '\0';
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

weft_status micro_new_var(const micro_writing *w, const char *stem, int64_t index, int32_t dtype, size_t ndim,
                          const int64_t *dims, weft_var **out) {
    char full[80];
    const name *n;
    micro_name(full, sizeof full, "micro_pipeline_", w->number, (const char *[]){"_", stem, "_", NULL}, index);
    TRY(program_unique_name(w->m->program, full, &n));
    return block_add_tensor(w->m->block, n, (weft_dtype)dtype, ndim, dims, out);
}

weft_status micro_add_int(const micro_writing *w, weft_op *op, micro_word word, int64_t value) {
    weft_attr *a;
    TRY(op_add_attr(op, w->m->words[word], &a));
    a->type = ATTR_INT;
    a->u.i = value;
    return NULL;
}

weft_status micro_add_bool(const micro_writing *w, weft_op *op, micro_word word, bool value) {
    weft_attr *a;
    TRY(op_add_attr(op, w->m->words[word], &a));
    a->type = ATTR_BOOLEAN;
    a->u.b = value;
    return NULL;
}

/* Which plan and step it is of: all ops of a plan share the words. The op has no attrs yet. */
static weft_status tag(const micro_writing *w, weft_op *op) {
    weft_attr *a;
    TRY(op_add_attr(op, w->m->words[MICRO_TAG_PLAN], &a));
    a->type = ATTR_STRING;
    a->count = (uint32_t)w->plan_name_nbytes;
    a->u.s = w->plan_name;
    if (!w->step) return NULL;
    TRY(micro_add_int(w, op, MICRO_TAG_CHUNK, w->step->chunk));
    return micro_add_int(w, op, MICRO_TAG_STEP, w->step - w->plan.steps);
}

weft_status micro_new_op(const micro_writing *w, const char *type, const char *in, weft_var *x, const char *to,
                         weft_var *made, weft_op **out) {
    TRY(weft_op_create(w->m->program, type, out));
    TRY(tag(w, *out));
    if (x) TRY(weft_op_add_input(*out, in, x));
    if (made) TRY(weft_op_add_output(*out, to, made));
    return w->role ? micro_add_int(w, *out, MICRO_TAG_ROLE, w->role->u.i) : NULL;
}

static const char *const plan_names[][2] = {[MICRO_GATHER] = {"all_gather_matmul", "all_to_all_matmul"},
                                            [MICRO_SCATTER] = {"matmul_reduce_scatter", "matmul_all_to_all"},
                                            [MICRO_REDUCE] = {"matmul_all_reduce"}};

static const char *const attr_names[] = {[MICRO_TAG_PLAN] = "micro_pipeline",
                                         [MICRO_TAG_CHUNK] = "micro_pipeline_chunk",
                                         [MICRO_TAG_STEP] = "micro_pipeline_step",
                                         [MICRO_TAG_ROLE] = "op_role",
                                         [MICRO_DTYPE] = "dtype",
                                         [MICRO_DYNAMIC_SHAPE] = "dynamic_shape",
                                         [MICRO_PEER] = "peer",
                                         [MICRO_RING] = "ring_id",
                                         [MICRO_TRANS_X] = "trans_x",
                                         [MICRO_TRANS_Y] = "trans_y"};

static weft_status name_attrs(micro_pass *m) {
    if (m->words[0]) return NULL;
    for (int i = 0; i < MICRO_WORDS; i++)
        TRY(program_name(m->program, attr_names[i], strlen(attr_names[i]), &m->words[i]));
    return NULL;
}

weft_status micro_begin_writing(micro_writing *w) {
    w->plan_name =
        arena_format(&w->m->program->arena, "%s %zu", plan_names[w->pair->kind][w->pair->exchanges], w->number);
    if (!w->plan_name) return base_out_of_memory();
    w->plan_name_nbytes = strlen(w->plan_name);
    w->role = op_find_attr(w->pair->collective, "op_role");
    return name_attrs(w->m);
}

weft_status micro_put(const micro_writing *w, weft_op *op) {
    weft_block_insert_before(w->m->block, w->anchor, op);
    return NULL;
}

weft_status micro_put_view(const micro_writing *w, weft_var *x, weft_var *to) {
    weft_op *op;
    TRY(micro_new_op(w, "aten_view", "self", x, "out", to, &op));
    TRY(weft_op_set_attr_longs(op, "size", to->ndim, to->dims));
    return micro_put(w, op);
}

weft_status micro_put_split(const micro_writing *w, weft_var *x, int64_t dim, int64_t n, const int64_t *sizes,
                            const char *stem, weft_var **parts) {
    int64_t dims[WEFT_MAX_RANK], size = x->dims[dim] / n;
    weft_op *op;
    memcpy(dims, x->dims, x->ndim * sizeof *dims);
    TRY(micro_new_op(w, "aten_split", "self", x, NULL, NULL, &op));
    for (int64_t i = 0; i < n; i++) {
        dims[dim] = sizes ? sizes[i] : size;
        TRY(micro_new_var(w, stem, i, x->dtype, x->ndim, dims, &parts[i]));
        TRY(weft_op_add_output(op, "out", parts[i]));
    }
    TRY(sizes ? weft_op_set_attr_longs(op, "split_size", (size_t)n, sizes)
              : weft_op_set_attr_longs(op, "split_size", 1, &size));
    TRY(weft_op_set_attr_int(op, "dim", dim));
    return micro_put(w, op);
}

static weft_status put_concat(const micro_writing *w, weft_var **parts, int64_t n, int64_t dim, weft_var *to) {
    weft_op *op;
    TRY(micro_new_op(w, "concat", NULL, NULL, "Out", to, &op));
    for (int64_t i = 0; i < n; i++) TRY(weft_op_add_input(op, "X", parts[i]));
    TRY(weft_op_set_attr_int(op, "axis", dim));
    return micro_put(w, op);
}

weft_status micro_make_cast(const micro_writing *w, weft_var *x, weft_var *to, weft_op **out) {
    TRY(micro_new_op(w, "cast", "X", x, "Out", to, out));
    TRY(weft_op_set_attr_int(*out, "in_dtype", x->dtype));
    return weft_op_set_attr_int(*out, "out_dtype", to->dtype);
}

weft_status micro_put_cast(const micro_writing *w, weft_var *x, weft_var *to) {
    weft_op *op;
    TRY(micro_make_cast(w, x, to, &op));
    return micro_put(w, op);
}

weft_status micro_put_permute(const micro_writing *w, weft_var *x, const int64_t *perm, weft_var *to) {
    weft_op *op;
    TRY(micro_new_op(w, "aten_permute", "self", x, "out", to, &op));
    TRY(weft_op_set_attr_longs(op, "dims", x->ndim, perm));
    return micro_put(w, op);
}

weft_status micro_put_matrix(const micro_writing *w, weft_var *v, weft_var **out) {
    int64_t dims[2] = {micro_numel(v, 0, v->ndim - 1), v->dims[v->ndim - 1]};
    *out = v;
    if (v->ndim == 2) return NULL;
    TRY(micro_new_var(w, "matrix", 0, v->dtype, 2, dims, out));
    return micro_put_view(w, v, *out);
}

/* --- rows of tensors ---------------------------------------------------------------------------------------------- */

weft_status micro_cut_rows(const micro_writing *w, weft_var *x, int64_t nranks, const char *stem, weft_var **out) {
    weft_var *matrix = x;
    int64_t dims[2] = {micro_numel(x, 0, x->ndim - 1), x->dims[x->ndim - 1]}, nsub = w->plan.nsub,
            count = nranks * nsub;
    if (w->pair->is_batched) return out[0] = x, NULL;
    if (x->ndim != 2) {
        TRY(micro_new_var(w, stem, -1, x->dtype, 2, dims, &matrix));
        TRY(micro_put_view(w, x, matrix));
    }
    if (count == 1) return out[0] = matrix, NULL;
    int64_t *sizes = ARENA_ARRAY(w->m->scratch, int64_t, count);
    if (!sizes) return base_out_of_memory();
    for (int64_t i = 0; i < count; i++) sizes[i] = micro_piece_rows(w->rows, nsub, i % nsub);
    bool is_even = sizes[nsub - 1] == sizes[0];
    return micro_put_split(w, matrix, 0, count, is_even ? NULL : sizes, stem, out);
}

weft_status micro_cut_members(const micro_writing *w, weft_var *x, weft_var **out) {
    int n = w->plan.nranks, nsub = w->plan.nsub;
    if (!micro_is_inner(w->pair)) return micro_cut_rows(w, x, n, "rows", out);
    uint32_t ndim = w->pair->ndim;
    weft_var **parts = ARENA_ARRAY(w->m->scratch, weft_var *, n), *whole = x;
    if (!parts) return base_out_of_memory();
    if (x->ndim != ndim) { /* a matrix of as many rows */
        int64_t dims[WEFT_MAX_RANK];
        memcpy(dims, w->pair->dims, ndim * sizeof *dims);
        if (w->pair->kind == MICRO_GATHER) dims[w->pair->dim] *= n;
        dims[ndim - 1] = x->dims[x->ndim - 1];
        TRY(micro_new_var(w, "with_extents", 0, x->dtype, ndim, dims, &whole));
        TRY(micro_put_view(w, x, whole));
    }
    TRY(micro_put_split(w, whole, w->pair->dim, n, NULL, "part", parts));
    for (int i = 0; i < n; i++) TRY(micro_cut_rows(w, parts[i], 1, "rows", out + (size_t)i * (size_t)nsub));
    return NULL;
}

/* Who goes by names finds the buffer written behind its views. */
static weft_status put_join(const micro_writing *w, weft_var **chunks, size_t count, weft_var *whole) {
    weft_op *op;
    TRY(micro_new_op(w, "nop", NULL, NULL, "Out", whole, &op));
    for (size_t i = 0; i < count; i++) TRY(weft_op_add_input(op, "X", chunks[i]));
    return micro_put(w, op);
}

weft_status micro_put_together(const micro_writing *w, weft_var **chunks, size_t count, bool is_inner,
                               weft_var *whole) {
    int64_t n = w->plan.nranks, dim = w->pair->dim, dims[WEFT_MAX_RANK];
    bucket_tensor joined;
    char stem[64];
    snprintf(stem, sizeof stem, "micro_pipeline_%zu_buffer", w->number);
    bucket_layout layout = {.stem = stem, .inputs = chunks, .views = chunks, .count = count};
    TRY(bucket_tensor_make(w->m->program, &layout, &joined));
    TRY(weft_op_set_attr_string(joined.op, "micro_pipeline", w->plan_name));
    bool is_gathered = w->pair->is_scattered || (w->pair->kind == MICRO_GATHER && !w->pair->exchanges);
    if (is_gathered && count == w->nchunks)
        TRY(weft_op_set_attr_int(joined.op, "micro_pipeline_ring", w->pair->ring.id));
    TRY(w->role ? weft_op_set_attr_int(joined.op, "op_role", w->role->u.i) : op_remove_attr(joined.op, "op_role"));
    weft_block_insert_before(w->m->block, w->front, joined.op); /* before its views are written */
    if (w->pair->kind != MICRO_GATHER) TRY(put_join(w, chunks, count, joined.fused));
    if (!is_inner) return micro_put_view(w, joined.fused, whole);
    weft_var *stacked, **parts = ARENA_ARRAY(w->m->scratch, weft_var *, n);
    if (!parts) return base_out_of_memory();
    memcpy(dims, whole->dims, whole->ndim * sizeof *dims);
    dims[dim] /= n;
    dims[0] *= n;
    TRY(micro_new_var(w, "stacked", 0, whole->dtype, whole->ndim, dims, &stacked));
    TRY(micro_put_view(w, joined.fused, stacked));
    TRY(micro_put_split(w, stacked, 0, n, NULL, "stacked_part", parts));
    return put_concat(w, parts, n, dim, whole);
}

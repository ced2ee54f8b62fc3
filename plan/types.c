/* types.c: the type of every var: declared, fed, then inferred in program order.
 *
 * A plan gives each value one type, and kernels trust it. So after the inference every op is asked again, now with the
 * final types: a var that two ops give different shapes is refused instead of being read out of bounds. */
#include "plan/builder.h"

static weft_status take_feed_type(plan_builder *b, const weft_feed_type *f) {
    const weft_var *v = weft_block_find_var(b->program->blocks[0], f->name);
    if (!v)
        return weft_status_create(WEFT_NOT_FOUND, b->program->place, "feed \"%s\": block 0 has no such var", f->name);
    if (f->ndim > WEFT_MAX_RANK)
        return weft_status_create(WEFT_INVALID_ARGUMENT, b->program->place, "feed \"%s\": %zu axes, at most %d",
                                  f->name, f->ndim, WEFT_MAX_RANK);
    shape s = {.dtype = f->dtype, .ndim = (int32_t)f->ndim, .height = -1};
    memcpy(s.dims, f->dims, f->ndim * sizeof *f->dims);
    TRY(shape_env_set(&b->env, v, &s));
    if (f->values) shape_env_set_values(&b->env, v, f->values);
    return NULL;
}

/* Whether what was inferred says nothing else than the type that is known: an extent may depend on elements of a tensor
 * (-1). */
static bool agrees(const kept_shape *known, const kept_shape *inferred) {
    if (known->dtype != inferred->dtype || known->ndim != inferred->ndim || known->height != inferred->height)
        return false;
    for (int32_t i = 0; i < known->ndim; i++)
        if (inferred->dims[i] != known->dims[i] && inferred->dims[i] >= 0) return false;
    return true;
}

weft_status plan_check_op_types(shape_env *env, weft_op *op, arena *scratch) {
    size_t nouts = 0, i = 0;
    FOR_EACH_ARG(op, true, u) {
        nouts += u != NULL;
    }
    kept_shape few[8], *before = nouts <= 8 ? few : ARENA_ARRAY(scratch, kept_shape, nouts);
    if (!before) return base_out_of_memory();
    FOR_EACH_ARG(op, true, u) {
        before[i++] = env->kept[u->var_id];
    }
    TRY(shape_infer_op(env, op, scratch));
    i = 0;
    FOR_EACH_ARG(op, true, u) {
        const kept_shape *was = &before[i++];
        kept_shape *is = &env->kept[u->var_id];
        if (plan_is_empty_name(use_var(op->program, u))) continue;
        if (agrees(was, is)) {
            *is = *was;
            continue;
        }
        char where[160];
        return weft_status_create(WEFT_UNSUPPORTED, env->program->place,
                                  "%s: output \"%s\" has two types in one program: another op or the caller gives it "
                                  "%d axes of type %d, this op %d axes of type %d, or other extents",
                                  op_place(op, where, sizeof where), use_var(op->program, u)->name->bytes, was->ndim,
                                  was->dtype, is->ndim, is->dtype);
    }
    return NULL;
}

weft_status plan_infer_types(plan_builder *b) {
    TRY(shape_env_init(&b->env, b->program, &b->scratch));
    for (size_t i = 0; i < b->options->nfeeds; i++) TRY(take_feed_type(b, &b->options->feeds[i]));
    return shape_infer_block(&b->env, b->program->blocks[0], &b->scratch);
}

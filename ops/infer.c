/* infer.c: runs the inference functions of ops over a block.
 *
 * The environment maps var ids to types. It starts from what the program declares (a batch extent is often -1 there),
 * and the caller puts in the types of feeds. Ops in program order turn the types of their inputs into those of their
 * outputs. */
#include "ops/infer.h"

enum { FEW_ARGS = 32, FEW_SLOTS = 40 }; /* ops with at most as many need no memory */

shape shape_of_var(const weft_var *v) {
    shape s = {.dtype = v->dtype, .ndim = -1, .height = -1};
    if (!v->has_tensor || v->ndim > WEFT_MAX_RANK) return s;
    s.ndim = (int32_t)v->ndim;
    for (size_t i = 0; i < v->ndim; i++) s.dims[i] = v->dims[i] < 0 ? -1 : v->dims[i];
    if (v->kind == WEFT_SELECTED_ROWS && s.ndim > 0) { /* declared as the whole tensor; how many rows is run time's */
        s.height = s.dims[0];
        s.dims[0] = -1;
    }
    return s;
}

/* --- the environment ---------------------------------------------------------------------------------------------- */

static bool is_same(const kept_shape *a, const kept_shape *b) {
    return a->dtype == b->dtype && a->ndim == b->ndim && a->height == b->height &&
           (a->dims == b->dims || a->ndim <= 0 || memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims) == 0);
}

static weft_status keep(shape_env *env, kept_shape *kept, const shape *s) {
    const int64_t *dims = NULL;
    if (s->ndim > 0 && !(dims = arena_copy(env->memory, s->dims, (size_t)s->ndim * sizeof *dims)))
        return base_out_of_memory();
    *kept = (kept_shape){.dims = dims, .height = s->height, .dtype = s->dtype, .ndim = s->ndim};
    return NULL;
}

static bool is_declared_as_used(const weft_var *v) {
    if (!v->has_tensor || v->ndim > WEFT_MAX_RANK || v->kind == WEFT_SELECTED_ROWS) return false;
    for (size_t i = 0; i < v->ndim; i++)
        if (v->dims[i] < -1) return false;
    return true;
}

static weft_status keep_declared(shape_env *env, const weft_var *v, kept_shape *kept) {
    *kept = (kept_shape){.dims = v->dims, .height = -1, .dtype = v->dtype, .ndim = (int32_t)v->ndim};
    if (is_declared_as_used(v)) return NULL;
    shape s = shape_of_var(v);
    return keep(env, kept, &s);
}

weft_status shape_env_init(shape_env *env, weft_program *p, arena *a) {
    size_t n = p->nall_vars ? p->nall_vars : 1;
    *env = (shape_env){.program = p, .nkept = p->nall_vars, .capacity = n, .memory = a};
    env->kept = ARENA_ARRAY(a, kept_shape, n);
    env->values = ARENA_ARRAY(a, const int64_t *, n);
    if (!env->kept || !env->values) return base_out_of_memory();
    for (size_t i = 0; i < p->nall_vars; i++) TRY(keep_declared(env, program_var(p, i), &env->kept[i]));
    return NULL;
}

weft_status shape_env_grow(shape_env *env) {
    size_t n = env->program->nall_vars;
    if (n > env->capacity) {
        kept_shape *kept = ARENA_ARRAY(env->memory, kept_shape, 2 * n);
        const int64_t **values = ARENA_ARRAY(env->memory, const int64_t *, 2 * n);
        if (!kept || !values) return base_out_of_memory();
        memcpy(kept, env->kept, env->nkept * sizeof *kept);
        memcpy(values, env->values, env->nkept * sizeof *values);
        env->kept = kept;
        env->values = values;
        env->capacity = 2 * n;
    }
    for (; env->nkept < n; env->nkept++)
        TRY(keep_declared(env, program_var(env->program, env->nkept), &env->kept[env->nkept]));
    return NULL;
}

void shape_env_set_values(shape_env *env, const weft_var *v, const int64_t *values) {
    if (v->id < env->nkept) env->values[v->id] = values;
}

/* In place, and no extent beyond the last: this is done for every argument of a program. */
static void shape_take_kept(shape *s, const kept_shape *kept) {
    s->dtype = kept->dtype;
    s->ndim = kept->ndim;
    s->height = kept->height;
    for (int32_t i = 0; i < kept->ndim; i++) s->dims[i] = kept->dims[i];
}

shape shape_env_get(const shape_env *env, const weft_var *v) {
    if (v->id >= env->nkept) return shape_of_var(v);
    shape s = {.ndim = -1};
    shape_take_kept(&s, &env->kept[v->id]);
    return s;
}

weft_status shape_env_set(shape_env *env, const weft_var *v, const shape *type) {
    kept_shape *kept = &env->kept[v->id];
    kept_shape given = {.dims = type->dims, .height = type->height, .dtype = type->dtype, .ndim = type->ndim};
    return is_same(kept, &given) ? NULL : keep(env, kept, type);
}

bool shape_env_same(const shape_env *a, const shape_env *b, const weft_var *v) {
    return is_same(&a->kept[v->id], &b->kept[v->id]);
}

/* --- one op ------------------------------------------------------------------------------------------------------- */

/* The arguments of one op on one side, flattened in schema order. */
typedef struct side {
    shape *shapes;
    const int64_t **values;
    weft_var **vars;
    uint32_t *first;
    size_t count;
    shape few_shapes[FEW_ARGS];
    const int64_t *few_values[FEW_ARGS];
    weft_var *few_vars[FEW_ARGS];
    uint32_t few_first[FEW_SLOTS];
} side;

static weft_status side_init(side *s, const weft_op *op, bool output, size_t nslots, arena *scratch) {
    s->count = op_nargs(op, output);
    s->shapes = s->few_shapes;
    s->values = s->few_values;
    s->vars = s->few_vars;
    s->first = s->few_first;
    if (s->count > FEW_ARGS) {
        s->shapes = ARENA_ARRAY(scratch, shape, s->count);
        s->values = ARENA_ARRAY(scratch, const int64_t *, s->count);
        s->vars = ARENA_ARRAY(scratch, weft_var *, s->count);
    }
    if (nslots >= FEW_SLOTS) s->first = ARENA_ARRAY(scratch, uint32_t, nslots + 1);
    return s->shapes && s->values && s->vars && s->first ? NULL : base_out_of_memory();
}

static weft_status wrong_count(const weft_op *op, bool output, const slot_schema *schema, size_t nargs) {
    char place[160];
    return weft_status_create(WEFT_INVALID_PROGRAM, op->program->place, "%s: %s %s: expected %s, found %zu arguments",
                              op_place(op, place, sizeof place), output ? "output" : "input", schema->name,
                              schema->arity == SLOT_ONE ? "one argument" : "at most one argument", nargs);
}

static weft_status side_fill(side *s, const shape_env *env, const weft_op *op, bool output, const slot_schema *slots,
                             size_t nslots) {
    uint32_t n = 0;
    for (size_t i = 0; i < nslots; i++) {
        const slot *found = op_find_slot(op, output, slots[i].name);
        size_t nargs = found ? found->nargs : 0;
        /* An output may always be left out: nobody reads it. */
        if ((nargs > 1 && slots[i].arity != SLOT_LIST) || (!nargs && slots[i].arity == SLOT_ONE && !output))
            return wrong_count(op, output, &slots[i], nargs);
        s->first[i] = n;
        for (size_t k = 0; k < nargs; k++, n++) {
            const use *u = &slot_args(op, found)[k];
            bool is_kept_type = u->var_id < env->nkept;
            weft_var *v = s->vars[n] = use_var(op->program, u);
            if (output)
                shape_take_kept(&s->shapes[n], &(kept_shape){.dtype = v->dtype, .ndim = -1, .height = -1});
            else if (is_kept_type) /* by the use's own number: the var need not be fetched */
                shape_take_kept(&s->shapes[n], &env->kept[u->var_id]);
            else
                s->shapes[n] = shape_of_var(v);
            s->values[n] = output || !is_kept_type ? NULL : env->values[u->var_id];
        }
    }
    s->first[nslots] = n;
    s->count = n;
    return NULL;
}

static weft_status store_outputs(shape_env *env, const side *out) {
    for (size_t i = 0; i < out->count; i++) {
        const weft_var *v = out->vars[i];
        bool placeholder = !v->block && name_is(v->name, "@EMPTY@");
        if (out->shapes[i].ndim < 0 || v->id >= env->nkept || placeholder) continue;
        TRY(shape_env_set(env, v, &out->shapes[i]));
        env->values[v->id] = out->values[i];
    }
    return NULL;
}

static void forget_values(shape_env *env, const weft_op *op) {
    FOR_EACH_ARG(op, true, u) {
        if (u->var_id < env->nkept) env->values[u->var_id] = NULL;
    }
}

/* The same of those that no sub-block has to itself. */
static void forget_outer_values(shape_env *env, const weft_op *op) {
    FOR_EACH_ARG(op, true, u) {
        if (u->var_id < env->nkept && use_var(op->program, u)->block != op->block) env->values[u->var_id] = NULL;
    }
}

/* Half types count as fp32: what computes in fp32 takes them together. */
static int32_t type_class(int32_t dtype) {
    return dtype == WEFT_FP16 || dtype == WEFT_BF16 ? WEFT_FP32 : dtype;
}

static weft_status check_one_type(const infer *i, size_t nin) {
    size_t first = 0, at = 0;
    while (first < nin && i->in[first].dtype == WEFT_DTYPE_NONE) first++;
    for (size_t k = first + 1; k < nin; k++) {
        int32_t expected = i->in[first].dtype, found = i->in[k].dtype;
        if (found == WEFT_DTYPE_NONE || type_class(found) == type_class(expected)) continue;
        while (i->in_first[at + 1] <= k) at++;
        return infer_error(i, "expected %s of %s, found %s", i->schema->inputs[at].name,
                           weft_dtype_name((weft_dtype)expected), weft_dtype_name((weft_dtype)found));
    }
    return NULL;
}

weft_status shape_infer_op(shape_env *env, weft_op *op, arena *scratch) {
    const op_schema *schema = op_schema_of(op);
    if (!schema || schema->infer == infer_none) {
        forget_values(env, op);
        return NULL;
    }
    side in, out;
    TRY(side_init(&in, op, false, schema->ninputs, scratch));
    TRY(side_init(&out, op, true, schema->noutputs, scratch));
    TRY(side_fill(&in, env, op, false, schema->inputs, schema->ninputs));
    TRY(side_fill(&out, env, op, true, schema->outputs, schema->noutputs));
    forget_values(env, op);
    infer i = {op, schema, in.shapes, in.first, out.shapes, out.first, in.values, out.values, env->memory};
    if (schema->effects & OP_ONE_TYPE) TRY(check_one_type(&i, in.count));
    TRY(schema->infer(&i));
    TRY(infer_fold_values(&i));
    return store_outputs(env, &out);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

enum { MAX_DEPTH = 64 }; /* of blocks that run blocks */

typedef struct walk {
    shape_env *env;
    arena *scratch;
    bool *seen; /* by block: each is inferred once, however many ops run it, so that time stays linear */
    int depth;
} walk;

static weft_status infer_block(walk *w, weft_block *block);

static weft_status infer_sub_block(walk *w, weft_op *op) {
    const weft_attr *a = op_find_attr(op, "sub_block");
    if (!a || a->type != ATTR_BLOCK) return NULL;
    char place[160];
    if (a->u.i < 0 || (uint64_t)a->u.i >= op->program->nblocks)
        return weft_status_create(WEFT_INVALID_PROGRAM, op->program->place,
                                  "%s: sub_block: expected a block below %zu, found %lld",
                                  op_place(op, place, sizeof place), op->program->nblocks, (long long)a->u.i);
    if (w->depth == MAX_DEPTH)
        return weft_status_create(WEFT_LIMIT, op->program->place, "%s: expected at most %d blocks in one another",
                                  op_place(op, place, sizeof place), MAX_DEPTH);
    if (w->seen[a->u.i]) return NULL;
    forget_values(w->env, op); /* a loop's body sees what it wrote the time before */
    const weft_block *block = op->program->blocks[a->u.i];
    TRY(infer_block(w, op->program->blocks[a->u.i]));
    FOR_EACH_OP(inner, block) forget_outer_values(w->env, inner); /* whether it runs, only a run knows */
    return NULL;
}

static weft_status infer_block(walk *w, weft_block *block) {
    w->seen[block->idx] = true;
    w->depth++;
    FOR_EACH_OP(op, block) {
        TRY(infer_sub_block(w, op));
        TRY(shape_infer_op(w->env, op, w->scratch));
    }
    w->depth--;
    return NULL;
}

weft_status shape_infer_block(shape_env *env, weft_block *block, arena *scratch) {
    walk w = {.env = env, .scratch = scratch, .seen = ARENA_ARRAY(scratch, bool, block->program->nblocks)};
    return w.seen ? infer_block(&w, block) : base_out_of_memory();
}

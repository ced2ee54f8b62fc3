/* declared.c: whether declared shapes and element types agree with what ops make of their inputs as declared.
 *
 * Each op is asked alone. So one wrong declaration is told once, by the op that makes the var and perhaps by one that
 * reads it. An extent of -1 contradicts nothing, and neither does what nobody can infer.
 *
 * Paddle and PyTorch leave declarations behind that their own inference overrides: Paddle's passes halve the
 * statistics of batch norm on ranks and give buckets no extents. What they wrote is not asked. */
#include <stdio.h>

#include "dist_attr/slice.h"
#include "ops/infer.h"

typedef struct checker {
    shape_env env;
    arena arena;
    size_t nproblems;
    char first[512];
} checker;

static const char *text_of(const shape *s, char *out, size_t room) {
    return type_text((weft_dtype)s->dtype, (size_t)s->ndim, s->dims, out, room);
}

static void report(checker *c, const char *message) {
    const weft_program *p = c->env.program;
    if (c->nproblems++ == 0) snprintf(c->first, sizeof c->first, "%s", message);
    context_diagnose(p->context, WEFT_ERROR, p->place, 0, 0, "%s", message);
}

bool shape_extents_differ(const shape *a, const shape *b) {
    if (a->ndim < 0 || b->ndim < 0) return false;
    if (a->ndim != b->ndim) return true;
    for (int32_t i = 0; i < a->ndim; i++)
        if (!extent_fits(a->dims[i], b->dims[i])) return true;
    return false;
}

static bool contradicts(const shape *declared, const shape *inferred) {
    if (inferred->ndim < 0 || declared->ndim < 0) return false;
    if (declared->dtype != inferred->dtype && inferred->dtype != WEFT_DTYPE_NONE) return true;
    return shape_extents_differ(declared, inferred);
}

static weft_status check_output(checker *c, const weft_op *op, const weft_var *v) {
    char place[160], message[512], expected[128], found[128];
    if (!v->block || v->kind != WEFT_DENSE_TENSOR || !v->has_tensor) return NULL;
    shape declared = shape_of_var(v), inferred = shape_env_get(&c->env, v);
    if (contradicts(&declared, &inferred)) {
        snprintf(message, sizeof message, "%s: output \"%s\": expected %s, found %s declared",
                 op_place(op, place, sizeof place), v->name->bytes, text_of(&inferred, expected, sizeof expected),
                 text_of(&declared, found, sizeof found));
        report(c, message);
    }
    return shape_env_set(&c->env, v, &declared);
}

/* A contradiction between inputs, or with attrs, is one of the declarations too. How long a bucket is follows from its
 * members and their alignment: nobody need declare it. */
static weft_status check_op(checker *c, weft_op *op) {
    if (op_has_effect(op, OP_ALIASES)) return NULL;
    weft_status status = shape_infer_op(&c->env, op, &c->arena);
    if (status && weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    if (status) report(c, weft_status_message(status));
    weft_status_free(status);
    FOR_EACH_ARG(op, true, u) {
        TRY(check_output(c, op, use_var(op->program, u)));
    }
    return NULL;
}

static bool is_recorded(const weft_program *p) {
    return p->has_version || p->fx_json;
}

static void check_var(checker *c, const weft_var *v) {
    char message[512];
    if (v->kind != WEFT_DENSE_TENSOR || !v->has_tensor) return;
    if (!weft_dtype_name((weft_dtype)v->dtype)) {
        snprintf(message, sizeof message, "variable \"%s\": expected an element type, found number %d", v->name->bytes,
                 (int)v->dtype);
        report(c, message);
    }
    for (uint32_t i = 0; i < v->ndim; i++) {
        if (v->dims[i] >= -1) continue;
        snprintf(message, sizeof message, "variable \"%s\": expected extents of -1 or more, found %lld on axis %u",
                 v->name->bytes, (long long)v->dims[i], i);
        report(c, message);
    }
}

static bool is_written(const weft_var *v) {
    FOR_EACH_USE(u, v) {
        if (u->is_output && use_op(v->program, u)->block) return true;
    }
    return false;
}

/* What no block declares may be what an op makes, its type inferred. What none makes is a misspelt name. */
static void check_inputs(checker *c, const weft_op *op) {
    char place[160], message[512];
    FOR_EACH_ARG(op, false, u) {
        const weft_var *v = use_var(op->program, u);
        if (v->block || name_is(v->name, "@EMPTY@") || is_written(v)) continue;
        snprintf(message, sizeof message, "%s: input \"%s\" is not declared, and no op writes it",
                 op_place(op, place, sizeof place), v->name->bytes);
        report(c, message);
    }
}

static void check_names(checker *c, const weft_program *p) {
    for (size_t i = 0; i < p->nblocks; i++) {
        FOR_EACH_OP(op, p->blocks[i]) {
            check_inputs(c, op);
        }
    }
}

static weft_status check_blocks(checker *c, weft_program *p) {
    check_names(c, p);
    if (is_recorded(p) || c->nproblems) return NULL;
    for (size_t i = 0; i < p->nall_vars; i++) check_var(c, program_var(p, i));
    TRY(shape_env_init(&c->env, p, &c->arena));
    for (size_t i = 0; i < p->nblocks; i++) {
        FOR_EACH_OP(op, p->blocks[i]) {
            TRY(check_op(c, op));
        }
    }
    return NULL;
}

weft_status weft_program_check_types(const weft_program *program) {
    checker c = {.env = {.program = (weft_program *)program}};
    arena_init(&c.arena, &program->context->allocator);
    weft_status status = check_blocks(&c, (weft_program *)program); /* only cached rows of the op table change */
    arena_fini(&c.arena);
    if (status || !c.nproblems) return status;
    return weft_status_create(WEFT_INVALID_PROGRAM, program->place,
                              "%zu problem%s with declared names and types, the first: %s", c.nproblems,
                              c.nproblems == 1 ? "" : "s", c.first);
}

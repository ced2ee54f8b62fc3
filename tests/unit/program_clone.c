/* Clones are equal to their source and share nothing with it; equality sees every field; memory may run out anywhere.
 */
#include "base/context.h"
#include "program/ir.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static weft_status set_attr_of_every_type(weft_program *p, weft_op *op) {
    static const int64_t ints[] = {1, -2, 3};
    static const double floats[] = {0.5, -0.0};
    static const uint8_t bools[] = {1, 0};
    static const text texts[] = {{"a", 1}, {"b\0c", 3}};
    const name **strings = ARENA_ARRAY(&p->arena, const name *, 2);
    for (size_t i = 0; strings && i < 2; i++) strings[i] = name_create(&p->arena, texts[i].bytes, texts[i].nbytes);
    if (!strings || !strings[0] || !strings[1]) return base_out_of_memory();
    static const scalar scalars[] = {{.type = SCALAR_LONG, .i = 4},
                                     {.type = SCALAR_COMPLEX128, .r = 1, .imaginary = 2}};
    for (int type = ATTR_INT; type <= ATTR_SCALARS; type++) {
        char n[] = {'a', (char)('a' + type), 0};
        weft_attr *a;
        const name *attr_name;
        TRY(program_name(p, n, 2, &attr_name));
        TRY(op_append_attr(op, attr_name, &a));
        a->type = (attr_type)type;
        switch (a->type) {
        case ATTR_FLOAT:
        case ATTR_FLOAT64: a->u.f = 0.25; break;
        case ATTR_STRING:
        case ATTR_VAR: attr_set_text(a, texts[1]); break;
        case ATTR_INTS:
        case ATTR_LONGS:
        case ATTR_BLOCKS: a->count = 3, a->u.ints = ints; break;
        case ATTR_FLOATS:
        case ATTR_FLOAT64S: a->count = 2, a->u.floats = floats; break;
        case ATTR_BOOLEAN: a->u.b = true; break;
        case ATTR_BOOLEANS: a->count = 2, a->u.bools = bools; break;
        case ATTR_STRINGS:
        case ATTR_VARS: a->count = 2, a->u.strings = strings; break;
        case ATTR_SCALAR: a->u.scalar = scalars; break;
        case ATTR_SCALARS: a->count = 2, a->u.scalars = scalars; break;
        default: a->u.i = 7;
        }
    }
    return NULL;
}

static weft_status add_dist(weft_program *p, weft_op *op, weft_var *v) {
    mesh m = {.ndim = 1, .shape = (int64_t[]){2}, .ids = (int64_t[]){0, 1}, .names = (const char *[]){"dp"}};
    placement where = {
        .ndim = 2, .dims_mapping = (int64_t[]){0, -1}, .dynamic_dims = (uint8_t[]){0, 1}, .batch_dim = 1};
    const mesh *added;
    TRY(program_add_mesh(p, &m, &added));
    where.mesh = added;
    TRY(placement_clone(p, &where, &v->dist));
    op_dist *d;
    op_dist_rest *rest;
    TRY(op_dist_get(op, &d));
    TRY(op_dist_rest_get(p, d, &rest));
    op_placement *in = ARENA_ARRAY(&p->arena, op_placement, 1);
    op_waits *waits;
    if (!in) return base_out_of_memory();
    TRY(op_waits_create(p, 1, &waits));
    in[0] = (op_placement){.var = v->name, .placement = v->dist};
    waits->events[0] = "after_grad";
    *rest = (op_dist_rest){
        .mesh = added, .impl_type = "default", .impl_idx = 1, .inputs = in, .ninputs = 1, .extra_json = "{\"k\":1}"};
    *d = (op_dist){.execution_stream = "sync", .event_to_record = "done", .waits = waits, .rest = rest};
    TRY(weft_program_set_ring(p, 3, 2, (int64_t[]){0, 1}));
    p->params_grads = ARENA_ARRAY(&p->arena, const name *, 2);
    if (!p->params_grads) return base_out_of_memory();
    p->params_grads[0] = p->params_grads[1] = v->name;
    p->nparams_grads = 1;
    p->rank = 1;
    return NULL;
}

/* A program with one of everything. */
static weft_status build(weft_context *context, weft_program **out) {
    weft_program *p;
    TRY(weft_program_create(context, &p));
    *out = p;
    weft_var *v, *inner, *nobody;
    weft_block *sub;
    weft_op *op, *second;
    const name *n;
    TRY(weft_block_add_var(p->blocks[0], "v", WEFT_FP32, 2, (int64_t[]){4, -1}, &v));
    v->persistable = v->has_persistable = true;
    TRY(program_add_block(p, 0, &sub));
    TRY(weft_block_add_var(sub, "inner", WEFT_INT64, 0, NULL, &inner));
    TRY(program_name(p, "@EMPTY@", 7, &n));
    TRY(block_resolve(sub, n, &nobody));
    TRY(weft_op_create(p, "while", &op));
    TRY(weft_op_add_input(op, "X", v));
    TRY(weft_op_add_output(op, "Out", v));
    TRY(set_attr_of_every_type(p, op));
    TRY(add_dist(p, op, v));
    weft_block_insert_before(p->blocks[0], NULL, op);
    TRY(weft_op_create(p, "relu", &second));
    TRY(weft_op_add_input(second, "X", inner));
    TRY(weft_op_add_input(second, "X", nobody));
    weft_block_insert_before(sub, NULL, second);
    p->version = 7;
    p->has_version = true;
    return NULL;
}

static weft_context *context;
static weft_program *program, *copy;

static void set_up(void) {
    cr_assert_null(context_create_bare(NULL, &context));
    cr_assert_null(build(context, &program));
    cr_assert_null(weft_program_clone(program, &copy));
}
static void tear_down(void) {
    weft_program_destroy(program);
    weft_program_destroy(copy);
    context_destroy(context);
}
TestSuite(program_clone, .init = set_up, .fini = tear_down);

Test(program_clone, a_clone_is_equal_and_stays_when_the_source_goes) {
    cr_assert(weft_program_equal(program, copy));
    weft_program *third;
    cr_assert_null(weft_program_clone(copy, &third));
    weft_program_destroy(copy);
    cr_assert(weft_program_equal(program, third));
    copy = third;
    cr_assert_eq(weft_block_var_at(copy->blocks[0], 0)->nuses, 2);
    cr_assert_eq(slot_var(copy->blocks[1]->first, op_slot(copy->blocks[1]->first, false, 0), 1)->block, NULL);
}

/* One change to the clone, each of which makes it different. */
typedef struct change {
    const char *what;
    void (*make)(weft_program *p);
} change;

#define FIRST_OP(p) ((p)->blocks[0]->first)
#define FIRST_VAR(p) (weft_block_var_at((p)->blocks[0], 0))
static void change_version(weft_program *p) {
    p->version++;
}
static void change_rank(weft_program *p) {
    p->rank = 0;
}
static void change_dims(weft_program *p) {
    FIRST_VAR(p)->dims[1] = 5;
}
static void change_dtype(weft_program *p) {
    FIRST_VAR(p)->dtype = WEFT_FP64;
}
static void change_persistable(weft_program *p) {
    FIRST_VAR(p)->persistable = false;
}
static void change_mapping(weft_program *p) {
    ((int64_t *)FIRST_VAR(p)->dist->dims_mapping)[0] = -1;
}
static void change_stream(weft_program *p) {
    FIRST_OP(p)->dist->execution_stream = NULL;
}
static void change_event(weft_program *p) {
    FIRST_OP(p)->dist->waits = NULL;
}
static void change_op_mapping(weft_program *p) {
    FIRST_OP(p)->dist->rest->ninputs = 0;
}
static void change_extra(weft_program *p) {
    FIRST_OP(p)->dist->rest->extra_json = NULL;
}
static void change_ring(weft_program *p) {
    ((int64_t *)p->rings[0].ranks)[1] = 2;
}
static void change_pairs(weft_program *p) {
    p->nparams_grads = 0;
}
static void change_block(weft_program *p) {
    p->blocks[1]->parent_idx = -1;
}
static void change_uses(weft_program *p) {
    weft_op_rename_output(FIRST_OP(p), FIRST_VAR(p), weft_block_var_at(p->blocks[1], 0));
}
static void remove_op(weft_program *p) {
    weft_op_remove(p->blocks[1]->first);
}

Test(program_clone, equality_sees_every_change) {
    static const change changes[] = {
        {"version", change_version}, {"rank", change_rank},        {"dims", change_dims},
        {"dtype", change_dtype},     {"flag", change_persistable}, {"mapping", change_mapping},
        {"stream", change_stream},   {"event", change_event},      {"op mapping", change_op_mapping},
        {"extra", change_extra},     {"ring", change_ring},        {"pairs", change_pairs},
        {"block", change_block},     {"uses", change_uses},        {"removed op", remove_op},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        weft_program *changed;
        cr_assert_null(weft_program_clone(program, &changed));
        changes[i].make(changed);
        cr_expect_not(weft_program_equal(program, changed), "%s", changes[i].what);
        weft_program_destroy(changed);
    }
}

Test(program_clone, equality_sees_every_attr) {
    for (size_t i = 0; i < FIRST_OP(program)->nattrs; i++) {
        weft_program *changed;
        cr_assert_null(weft_program_clone(program, &changed));
        weft_attr *a = &FIRST_OP(changed)->attrs[i];
        static const scalar other = {.type = SCALAR_LONG, .i = -77};
        weft_attr was = *a;
        if (a->count)
            a->count--;
        else if (a->type == ATTR_FLOAT || a->type == ATTR_FLOAT64)
            a->u.f = -a->u.f;
        else if (a->type == ATTR_BOOLEAN)
            a->u.b = false;
        else if (a->type == ATTR_SCALAR)
            a->u.scalar = &other;
        else
            a->u.i++;
        cr_expect_not(weft_program_equal(program, changed), "attr type %d", (int)was.type);
        cr_expect_not(attr_equal(&was, a));
        weft_program_destroy(changed);
    }
}

Test(program_clone, an_op_clone_is_not_inserted) {
    weft_op *op;
    cr_assert_null(op_clone(FIRST_OP(program), &op));
    cr_assert_null(weft_op_block(op));
    cr_assert_eq(FIRST_VAR(program)->nuses, 2);
    weft_block_insert_before(program->blocks[0], NULL, op);
    cr_assert_eq(FIRST_VAR(program)->nuses, 4);
    cr_assert_str_eq(op->dist->event_to_record, "done");
}

/* --- running out of memory ---------------------------------------------------------------------------------------- */

typedef struct failing {
    long left;    /* allocations that still succeed */
    long nblocks; /* alive */
} failing;

static void *resize(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    failing *f = user;
    (void)old_nbytes;
    if (new_nbytes == 0) {
        if (ptr) f->nblocks--;
        free(ptr);
        return NULL;
    }
    if (f->left-- <= 0) return NULL;
    if (!ptr) f->nblocks++;
    return realloc(ptr, new_nbytes);
}

Test(program_clone, every_allocation_may_fail) {
    bool done = false;
    for (long n = 0; !done && n < 100000; n++) {
        failing f = {.left = n};
        weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = {resize, &f}};
        weft_context *small = NULL;
        weft_program *p = NULL, *q = NULL;
        weft_status status = context_create_bare(&options, &small);
        if (!status) status = build(small, &p);
        if (!status) status = weft_program_clone(p, &q);
        if (!status) status = weft_program_verify(q);
        done = weft_status_code(status) != WEFT_OUT_OF_MEMORY;
        weft_status_free(status);
        weft_program_destroy(p);
        weft_program_destroy(q);
        if (small) context_destroy(small);
        cr_assert_eq(f.nblocks, 0, "leak when allocation %ld fails", n);
    }
    cr_assert(done);
}

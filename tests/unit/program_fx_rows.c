/* The rows of fx.def speak of ops, slots and attrs that ops.def has: neither table sees the other. */
#include <criterion/criterion.h>

#include "base/context.h"
#include "ops/ops.h"
#include "program/fx/fx.h"

static weft_context *context;
static fx_table table;
static arena memory;

static void setup(void) {
    cr_assert_null(context_create_bare(NULL, &context));
    cr_assert_null(ops_register(context));
    arena_init(&memory, &context->allocator);
    cr_assert_null(fx_table_init(&table, &memory));
}

static void teardown(void) {
    fx_table_fini(&table);
    arena_fini(&memory);
    context_destroy(context);
}

TestSuite(program_fx_rows, .init = setup, .fini = teardown);

static const slot_schema *find_slot(const slot_schema *slots, size_t count, const char *n) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(slots[i].name, n) == 0) return &slots[i];
    return NULL;
}

static const attr_schema *find_attr(const op_schema *s, const char *n) {
    for (size_t i = 0; i < s->nattrs; i++)
        if (strcmp(s->attrs[i].name, n) == 0) return &s->attrs[i];
    return NULL;
}

/* Types as attr_int, attr_ints and their kin convert them. */
static bool attr_takes(attr_type wanted, fx_type given) {
    switch (given) {
    case FX_INT:
    case FX_DTYPE:
    case FX_RING:
    case FX_REDUCE_TYPE: return wanted == ATTR_INT || wanted == ATTR_LONG;
    case FX_FLOAT: return wanted == ATTR_FLOAT;
    case FX_FLOAT64: return wanted == ATTR_FLOAT64;
    case FX_BOOL: return wanted == ATTR_BOOLEAN;
    case FX_STRING: return wanted == ATTR_STRING;
    case FX_INTS: return wanted == ATTR_INTS || wanted == ATTR_LONGS;
    case FX_FLOATS: return wanted == ATTR_FLOATS;
    case FX_FLOAT64S: return wanted == ATTR_FLOAT64S;
    }
    return false;
}

static void check_args(const fx_row *row, const op_schema *s) {
    size_t given = 0, required = 0;
    for (uint32_t i = 0; i < row->nargs; i++) {
        const fx_arg *arg = &row->args[i];
        if (arg->kind == FX_TENSOR || arg->kind == FX_TENSORS) {
            const slot_schema *in = find_slot(s->inputs, s->ninputs, arg->to);
            cr_assert(in, "%s: %s has no input %s", row->target, row->op_type, arg->to);
            cr_expect_eq(in->arity == SLOT_LIST, arg->kind == FX_TENSORS, "%s: %s", row->target, arg->to);
            cr_expect(!arg->may_be_null || in->arity == SLOT_OPTIONAL, "%s: %s", row->target, arg->to);
            if (arg->places)
                cr_expect(find_attr(s, arg->places), "%s: %s has no attr %s", row->target, row->op_type, arg->places);
            given += in->arity == SLOT_ONE;
        } else if (arg->kind == FX_VALUE || arg->kind == FX_IMPLIED) {
            const attr_schema *attr = find_attr(s, arg->to);
            cr_assert(attr, "%s: %s has no attr %s", row->target, row->op_type, arg->to);
            cr_expect(attr_takes(attr->type, arg->type), "%s: %s is of another type", row->target, arg->to);
        }
    }
    for (size_t i = 0; i < s->ninputs; i++) required += s->inputs[i].arity == SLOT_ONE;
    cr_expect_eq(given, required, "%s: not every input of %s", row->target, row->op_type);
}

/* A view of an argument in the one table is one in the other. */
static void check_outputs(const fx_row *row, const op_schema *s) {
    for (uint32_t i = 0; i < row->nouts; i++) {
        const fx_out *out = &row->outs[i];
        const slot_schema *to = find_slot(s->outputs, s->noutputs, out->slot);
        cr_assert(to, "%s: %s has no output %s", row->target, row->op_type, out->slot);
        if (out->writes < 0) cr_expect_eq(to->arity == SLOT_LIST, out->is_list, "%s: %s", row->target, out->slot);
        cr_expect(!out->is_optional || to->arity == SLOT_OPTIONAL, "%s: %s", row->target, out->slot);
        cr_expect_eq(to->view_of >= 0, out->view_of >= 0, "%s: %s", row->target, out->slot);
        const char *of = out->view_of >= 0 ? row->args[out->view_of].to : NULL;
        if (of && to->view_of >= 0) cr_expect_str_eq(s->inputs[to->view_of].name, of, "%s", row->target);
        if (out->writes >= 0) cr_expect_geq(to->in_place_of, 0, "%s: %s", row->target, out->slot);
    }
}

Test(program_fx_rows, fit_the_op_table) {
    cr_assert_gt(table.count, 60);
    for (size_t i = 0; i < table.count; i++) {
        const fx_row *row = &table.rows[i];
        const op_schema *s = ops_find(context, row->op_type);
        cr_assert(s, "%s: no op %s", row->target, row->op_type);
        check_args(row, s);
        check_outputs(row, s);
    }
}

/* table.c: the op table of a context: ops.def, parsed once, with the rows of collectives.def, found by op type. */
#include "ops/table.h"
#include "ops/collectives.h"
#include "ops/infer.h"

#define OP(type, family, inputs, outputs, attrs, effects, infer, summary)                                              \
    {#type, #family, summary, inputs, outputs, attrs, #effects, (effects), infer_##infer},
static const op_row rows[] = {
#include "ops/ops.def"
};
#undef OP

const op_row *ops_rows(size_t *out_count) {
    *out_count = sizeof rows / sizeof *rows;
    return rows;
}

static weft_status add_rows(op_table *t, arena *a) {
    for (size_t i = 0; i < t->count; i++) {
        TRY(schema_parse(a, &rows[i], &t->rows[i]));
        t->rows[i].index = (int)i;
        table_probe at = op_table_find(t, rows[i].type);
        if (at.item != TABLE_NONE)
            return weft_status_create(WEFT_INVALID_ARGUMENT, "ops.def", "two rows for op %s", rows[i].type);
        table_put(&t->by_type, &at, (uint32_t)i);
    }
    return NULL;
}

static weft_status add_collectives(op_table *t) {
    for (size_t i = 0; i < t->ncollectives; i++) {
        const collective_schema *c = &t->collectives[i];
        table_probe at = op_table_find(t, c->type);
        op_schema *row = at.item < t->count ? &t->rows[at.item] : NULL; /* TABLE_NONE is beyond */
        if (row ? row->collective != NULL : at.item != TABLE_NONE)
            return weft_status_create(WEFT_INVALID_ARGUMENT, "collectives.def", "two rows for op %s", c->type);
        if (row)
            row->collective = c;
        else
            table_put(&t->by_type, &at, (uint32_t)(t->count + i));
    }
    return NULL;
}

weft_status op_table_add(weft_context *context, op_schema *schema) {
    op_table *t = context->slots[CONTEXT_OPS].value;
    arena *a = &context->arena;
    if (t->nadded == t->added_capacity) {
        size_t capacity = t->added_capacity ? 2 * t->added_capacity : 16;
        op_schema **more = ARENA_ARRAY(a, op_schema *, capacity);
        if (!more) return base_out_of_memory();
        if (t->nadded) memcpy(more, t->added, t->nadded * sizeof *more);
        t->added = more;
        t->added_capacity = capacity;
    }
    TRY(table_reserve(a, &t->by_type, t->count + t->ncollectives + t->nadded + 1));
    table_probe at = op_table_find(t, schema->type);
    schema->index = (int)(t->count + t->nadded);
    t->added[t->nadded] = schema;
    table_put(&t->by_type, &at, (uint32_t)(t->count + t->ncollectives + t->nadded++));
    return NULL;
}

weft_status ops_register(weft_context *context) {
    arena *a = &context->arena;
    op_table *t = ARENA_NEW(a, op_table);
    if (!t) return base_out_of_memory();
    ops_rows(&t->count);
    t->collectives = collectives_rows(&t->ncollectives);
    t->rows = ARENA_ARRAY(a, op_schema, t->count);
    if (!t->rows) return base_out_of_memory();
    TRY(table_reserve(a, &t->by_type, t->count + t->ncollectives));
    TRY(add_rows(t, a));
    TRY(add_collectives(t));
    context->slots[CONTEXT_OPS] = (context_slot){.value = t};
    context->slots[CONTEXT_ATTRS] = (context_slot){.value = (void *)attrs_rules()};
    return NULL;
}

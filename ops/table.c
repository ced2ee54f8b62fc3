/* table.c: the op table of a context: ops.def, parsed once, with the rows of collectives.def, found by op type. */
#include "ops/table.h"
#include "ops/collectives.h"
#include "ops/infer.h"

typedef struct op_table {
    op_schema *rows; /* in ops.def order */
    size_t count;
    const collective *collectives; /* in collectives.def order */
    size_t ncollectives;
    hash_table by_type; /* rows; of a type that only collectives.def knows count + that row */
} op_table;

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

static const char *type_of(const op_table *t, uint32_t row) {
    return row < t->count ? t->rows[row].type : t->collectives[row - t->count].type;
}

static table_probe find_row(const op_table *t, const char *type) {
    table_probe at = table_find(&t->by_type, base_hash(type, strlen(type)));
    while (at.item != TABLE_NONE && strcmp(type_of(t, at.item), type) != 0) table_next(&t->by_type, &at);
    return at;
}

static weft_status add_rows(op_table *t, arena *a) {
    for (size_t i = 0; i < t->count; i++) {
        TRY(schema_parse(a, &rows[i], &t->rows[i]));
        t->rows[i].index = (int)i;
        table_probe at = find_row(t, rows[i].type);
        if (at.item != TABLE_NONE)
            return weft_status_create(WEFT_INVALID_ARGUMENT, "ops.def", "two rows for op %s", rows[i].type);
        table_put(&t->by_type, &at, (uint32_t)i);
    }
    return NULL;
}

static weft_status add_collectives(op_table *t) {
    for (size_t i = 0; i < t->ncollectives; i++) {
        const collective *c = &t->collectives[i];
        table_probe at = find_row(t, c->type);
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
    return NULL;
}

static const op_table *table_of(const weft_context *context) {
    return context->slots[CONTEXT_OPS].value;
}

const op_schema *ops_find(weft_context *context, const char *type) {
    const op_table *t = table_of(context);
    uint32_t row = t ? find_row(t, type).item : TABLE_NONE;
    return t && row < t->count ? &t->rows[row] : NULL;
}

const collective *collectives_find(weft_context *context, const char *type) {
    const op_table *t = table_of(context);
    uint32_t row = t ? find_row(t, type).item : TABLE_NONE;
    if (row == TABLE_NONE) return NULL;
    return row < t->count ? t->rows[row].collective : &t->collectives[row - t->count];
}

size_t ops_count(weft_context *context) {
    return table_of(context) ? table_of(context)->count : 0;
}

const op_schema *ops_at(weft_context *context, size_t index) {
    return index < ops_count(context) ? &table_of(context)->rows[index] : NULL;
}

const op_schema *op_schema_of(weft_op *op) {
    if (!op->schema) op->schema = ops_find(op->program->context, op->type->bytes);
    return op->schema;
}

const collective *op_collective(const weft_op *op) {
    const op_schema *s = op_schema_of((weft_op *)op); /* only the cached row changes */
    return s ? s->collective : collectives_find(op->program->context, op->type->bytes);
}

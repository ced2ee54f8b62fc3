/* lookup.c: rows of the op table, found by op type. */
#include "ops/collectives.h"
#include "ops/table.h"

static const char *type_of(const op_table *t, uint32_t row) {
    if (row < t->count) return t->rows[row].type;
    size_t behind = row - t->count;
    return behind < t->ncollectives ? t->collectives[behind].type : t->added[behind - t->ncollectives]->type;
}

table_probe op_table_find(const op_table *t, const char *type) {
    table_probe at = table_find(&t->by_type, base_hash(type, strlen(type)));
    while (at.item != TABLE_NONE && strcmp(type_of(t, at.item), type) != 0) table_next(&t->by_type, &at);
    return at;
}

static const op_table *table_of(const weft_context *context) {
    return context->slots[CONTEXT_OPS].value;
}

const op_schema *ops_find(weft_context *context, const char *type) {
    const op_table *t = table_of(context);
    uint32_t row = t ? op_table_find(t, type).item : TABLE_NONE;
    if (row == TABLE_NONE) return NULL;
    if (row < t->count) return &t->rows[row];
    size_t behind = row - t->count;
    return behind < t->ncollectives ? NULL : t->added[behind - t->ncollectives];
}

const collective_schema *collectives_find(weft_context *context, const char *type) {
    const op_table *t = table_of(context);
    uint32_t row = t ? op_table_find(t, type).item : TABLE_NONE;
    if (row == TABLE_NONE) return NULL;
    if (row < t->count) return t->rows[row].collective;
    return row - t->count < t->ncollectives ? &t->collectives[row - t->count] : NULL;
}

size_t ops_count(weft_context *context) {
    const op_table *t = table_of(context);
    return t ? t->count + t->nadded : 0;
}

const op_schema *ops_at(weft_context *context, size_t index) {
    const op_table *t = table_of(context);
    if (index >= ops_count(context)) return NULL;
    return index < t->count ? &t->rows[index] : t->added[index - t->count];
}

const op_schema *op_schema_of(weft_op *op) {
    if (!op->schema) op->schema = ops_find(op->program->context, op->type->bytes);
    return op->schema;
}

const collective_schema *op_collective(const weft_op *op) {
    const op_schema *s = op_schema_of((weft_op *)op); /* only the cached row changes */
    return s ? s->collective : collectives_find(op->program->context, op->type->bytes);
}

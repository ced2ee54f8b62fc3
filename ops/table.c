/* table.c: the op table of a context: ops.def, parsed once, with the rows of collectives.def, found by op type. */
#include "ops/table.h"
#include "ops/collectives.h"
#include "ops/infer.h"

typedef struct op_table {
    op_schema *rows; /* in ops.def order */
    size_t count;
    const collective *collectives; /* in collectives.def order */
    size_t ncollectives;
    /* Open addressing on the type's hash; capacity a power of two. A row + 1; of a type that only collectives.def knows
     * count + that row + 1; or 0. */
    uint16_t *by_type;
    size_t capacity;
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

static const char *type_of(const op_table *t, uint16_t cell) {
    return cell <= t->count ? t->rows[cell - 1].type : t->collectives[cell - 1 - t->count].type;
}

/* The cell that holds `type`'s row, or the empty one where it belongs. */
static uint16_t *find_cell(const op_table *t, const char *type) {
    size_t mask = t->capacity - 1;
    for (size_t i = base_hash(type, strlen(type)) & mask;; i = (i + 1) & mask)
        if (!t->by_type[i] || strcmp(type_of(t, t->by_type[i]), type) == 0) return &t->by_type[i];
}

static weft_status add_rows(op_table *t, arena *a) {
    for (size_t i = 0; i < t->count; i++) {
        TRY(schema_parse(a, &rows[i], &t->rows[i]));
        t->rows[i].index = (int)i;
        uint16_t *cell = find_cell(t, rows[i].type);
        if (*cell) return weft_status_create(WEFT_INVALID_ARGUMENT, "ops.def", "two rows for op %s", rows[i].type);
        *cell = (uint16_t)(i + 1);
    }
    return NULL;
}

static weft_status add_collectives(op_table *t) {
    for (size_t i = 0; i < t->ncollectives; i++) {
        const collective *c = &t->collectives[i];
        uint16_t *cell = find_cell(t, c->type);
        op_schema *row = *cell && *cell <= t->count ? &t->rows[*cell - 1] : NULL;
        if (row ? row->collective != NULL : *cell != 0)
            return weft_status_create(WEFT_INVALID_ARGUMENT, "collectives.def", "two rows for op %s", c->type);
        if (row)
            row->collective = c;
        else
            *cell = (uint16_t)(t->count + i + 1);
    }
    return NULL;
}

weft_status ops_register(weft_context *context) {
    arena *a = &context->arena;
    op_table *t = ARENA_NEW(a, op_table);
    if (!t) return base_out_of_memory();
    ops_rows(&t->count);
    t->collectives = collectives_rows(&t->ncollectives);
    for (t->capacity = 64; t->capacity < 2 * (t->count + t->ncollectives);) t->capacity *= 2;
    t->rows = ARENA_ARRAY(a, op_schema, t->count);
    t->by_type = ARENA_ARRAY(a, uint16_t, t->capacity);
    if (!t->rows || !t->by_type) return base_out_of_memory();
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
    uint16_t row = t ? *find_cell(t, type) : 0;
    return row && row <= t->count ? &t->rows[row - 1] : NULL;
}

const collective *collectives_find(weft_context *context, const char *type) {
    const op_table *t = table_of(context);
    uint16_t row = t ? *find_cell(t, type) : 0;
    if (!row) return NULL;
    return row <= t->count ? t->rows[row - 1].collective : &t->collectives[row - 1 - t->count];
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

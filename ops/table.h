/* table.h: what the files of ops/ share about the rows of ops.def. */
#ifndef OPS_TABLE_H
#define OPS_TABLE_H

#include "ops/ops.h"

typedef struct collective collective;

/* Of a context. */
typedef struct op_table {
    op_schema *rows; /* in ops.def order */
    size_t count;
    const struct collective_schema *collectives; /* in collectives.def order */
    size_t ncollectives;
    op_schema **added; /* by hosts (host_op.c), after the rows */
    size_t nadded, added_capacity;
    hash_table by_type; /* rows; of a type that only collectives.def knows count + that row; behind those, of hosts */
} op_table;
/* Where the row of a type is in by_type, or belongs. */
table_probe op_table_find(const op_table *t, const char *type);

/* Puts a host's op at the end of the table. */
WEFT_MUST_USE weft_status op_table_add(weft_context *context, op_schema *schema);
/* The bit of an effect by its word; 0: there is none. */
uint32_t op_effect_of(const char *word, size_t nbytes);

/* A row as it stands in ops.def. */
typedef struct op_row {
    const char *type, *family, *summary;
    const char *inputs, *outputs, *attrs, *effects;
    uint32_t effect_bits;
    infer_fn infer;
} op_row;

/* All rows, in ops.def order. */
const op_row *ops_rows(size_t *out_count);
/* Parses the texts of a row into `out`, allocating from `a`. */
WEFT_MUST_USE weft_status schema_parse(arena *a, const op_row *row, op_schema *out);

/* weft_op_table_markdown, told by a layer above which devices run a row of ops.def. */
typedef size_t (*op_devices_fn)(int row, char *out_text, size_t nbytes);
WEFT_MUST_USE weft_status op_table_markdown(weft_context *context, op_devices_fn print_devices, char **out_bytes,
                                            size_t *out_nbytes);

#endif

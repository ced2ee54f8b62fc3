/* text.h: what the printer and the parser of the text form share. docs/plan.md gives its grammar. */
#ifndef PLAN_TEXT_H
#define PLAN_TEXT_H

#include "base/yaml.h"
#include "plan/builder.h"

enum { PLAN_TEXT_VERSION = 1 };

/* A flag of a value as it is written in its list `is`. */
typedef struct plan_flag {
    const char *word;
    size_t offset; /* of a bool in plan_value */
} plan_flag;
#define PLAN_NFLAGS 5
extern const plan_flag plan_flags[PLAN_NFLAGS];
static inline bool *plan_flag_of(plan_value *v, size_t i) {
    return (bool *)((char *)v + plan_flags[i].offset);
}

/* attrs.c. Attrs are written as values of the type that the op table gives them, whatever type the program had: that is
 * what kernels read. False if the attr has no value of that type (then it is as if it were absent). */
bool plan_print_attr(buffer *out, const weft_attr *a, attr_type type);

/* A value names another one, which may stand after it. */
typedef struct plan_reference {
    int32_t value;
    const char *view_of, *rows; /* names, or NULL */
    yaml_node place;            /* line and column only */
} plan_reference;

/* The text is read item by item, so that memory does not grow with it beyond the plan. */
typedef struct plan_reader {
    weft_context *context;
    const char *place;
    weft_plan *plan;
    weft_program *program; /* the plan's */
    yaml_stream *stream;
    arena item;     /* the tree at hand */
    arena scratch;  /* until the end of the reading */
    interner names; /* of values: the id is the index */
    plan_value *values;
    size_t nvalues, value_capacity;
    plan_instr *instrs;
    size_t ninstrs, instr_capacity;
    weft_var **vars; /* of the plan's program, by value */
    size_t var_capacity;
    plan_reference *references;
    size_t nreferences, reference_capacity;
    const mesh **meshes;
    size_t nmeshes, mesh_capacity;
    shape_env env;
    int32_t stream_length[PLAN_MAX_STREAMS];
} plan_reader;

typedef weft_status (*plan_item_fn)(plan_reader *, const yaml_node *);

/* An attr of `op`, which has none of that name yet. */
WEFT_MUST_USE weft_status plan_parse_attr(plan_reader *r, weft_op *op, const attr_schema *schema,
                                          const yaml_node *node);

/* parse_scalars.c. What to do with the value of each key of a mapping: unknown keys, and absent ones that are required,
 * are errors. */
typedef struct plan_key {
    const char *key;
    bool required;
    const yaml_node *node; /* set by plan_read_keys; NULL if absent */
} plan_key;
WEFT_MUST_USE weft_status plan_read_keys(plan_reader *r, const yaml_node *mapping, plan_key *keys, size_t nkeys);
WEFT_MUST_USE weft_status plan_read_int(plan_reader *r, const yaml_node *node, const char *what, int64_t low,
                                        int64_t high, int64_t *out);
/* A string without NUL; memory is the plan's. */
WEFT_MUST_USE weft_status plan_read_string(plan_reader *r, const yaml_node *node, const char *what, const char **out);
/* A list of numbers from `low` to `high`; memory is the plan's program's. */
WEFT_MUST_USE weft_status plan_read_ints(plan_reader *r, const yaml_node *node, const char *what, int64_t low,
                                         int64_t high, size_t *out_count, int64_t **out);
WEFT_MUST_USE weft_status plan_read_sequence(plan_reader *r, const yaml_node *node, const char *what);
/* The value of that name; -1 for null where `optional`. */
WEFT_MUST_USE weft_status plan_read_value_name(plan_reader *r, const yaml_node *node, bool optional,
                                               int32_t *out_value);
WEFT_MUST_USE weft_status plan_read_stream(plan_reader *r, const yaml_node *node, int32_t *out_stream);

/* parse_values.c: one value; and once all are read, what they name and the types of the program's vars. */
WEFT_MUST_USE weft_status plan_parse_value(plan_reader *r, const yaml_node *node);
WEFT_MUST_USE weft_status plan_end_values(plan_reader *r);
WEFT_MUST_USE weft_status plan_parse_instr(plan_reader *r, const yaml_node *node); /* parse_instrs.c */

#endif

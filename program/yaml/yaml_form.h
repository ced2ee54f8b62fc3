/* yaml_form.h: between the files that print and parse the YAML form. Grammar: docs/yaml-form.md. */
#ifndef PROGRAM_YAML_YAML_FORM_H
#define PROGRAM_YAML_YAML_FORM_H

#include "base/yaml.h"
#include "program/form.h"

enum { YAML_FORM_VERSION = 1 };

/* --- printing ----------------------------------------------------------------------------------------------------- */

typedef struct yaml_writer {
    const weft_program *program;
    buffer *out;
    arena scratch;
    const mesh_index *meshes;
    uint32_t *stamps; /* by name id: the list in which the name was seen last */
    uint32_t stamp;
    uint32_t *callstacks; /* of each abbreviated attr, in the order in which they are printed */
    size_t ncallstacks_printed;
} yaml_writer;

void yaml_put_ints(buffer *out, const int64_t *values, size_t count);
/* A name as a key of a flow mapping, with its colon; a long one in YAML's explicit form. */
void yaml_put_key(buffer *out, const name *n);
bool yaml_is_long_key(const name *n);
void yaml_put_attrs(yaml_writer *w, const weft_attr *attrs, size_t count);
/* Whether the attr is printed as an index into the list of call stacks. */
bool yaml_is_callstack(const weft_attr *a);
void yaml_put_strings(buffer *out, const name *const *strings, size_t count);
/* Starts a list of names in which yaml_seen finds repetitions. */
void yaml_new_list(yaml_writer *w);
bool yaml_seen(yaml_writer *w, const name *n);
void yaml_put_var(yaml_writer *w, const weft_var *v);
void yaml_put_op(yaml_writer *w, const weft_op *op);
void yaml_put_var_dist(yaml_writer *w, const weft_var *v);

/* "!long", "!strings", ... */
const char *yaml_type_tag(attr_type type);
/* Words for roles and kinds of vars; NULL where there is none. */
bool yaml_role_parse(const char *word, int64_t *out);
const char *yaml_kind_word(int32_t kind);
bool yaml_kind_parse(const char *word, int32_t *out);

/* The op version map as text, `op: version` pairs in flow style; false if its bytes are not exactly such pairs. */
bool op_versions_print(text map, buffer *out);
/* The bytes of one pair, appended. */
void op_versions_put(buffer *out, const char *op, size_t nbytes, int64_t version);

/* --- parsing ------------------------------------------------------------------------------------------------------ */

/* An attr that named a call stack before the list of them was read. */
typedef struct callstack_use {
    weft_attr *attr;
    int64_t index;
    int line, column;
} callstack_use;

typedef struct callstack {
    const name *const *lines;
    uint32_t count;
} callstack;

/* An argument that no block had declared when its op was read. */
typedef struct undeclared_use {
    const weft_block *block;
    const name *name;
    int line, column;
} undeclared_use;

/* An attr that was warned of. */
typedef struct warned_attr {
    const name *op_type, *attr;
} warned_attr;

enum { MOST_UNDECLARED = 100, MOST_WARNED = 100 };

typedef struct yaml_reader {
    weft_program *program;
    weft_context *context;
    const char *place;
    yaml_stream *stream;
    arena item; /* the tree that is being read */
    size_t budget;
    callstack_use *uses;
    size_t nuses, use_capacity;
    callstack *callstacks;
    size_t ncallstacks;
    size_t nproblems;
    weft_status first_problem;
    undeclared_use undeclared[MOST_UNDECLARED];
    size_t nundeclared;
    warned_attr warned[MOST_WARNED]; /* of each op type and attr once */
    size_t nwarned;
} yaml_reader;

/* yaml_error in this file. */
#define YAML_FAIL(r, node, ...) return yaml_error((r)->context, (node), (r)->place, __VA_ARGS__)

/* Key and value nodes of a mapping, or of a list of mappings with one pair each, which may repeat keys. */
WEFT_MUST_USE weft_status yaml_pairs(yaml_reader *r, const yaml_node *node, const char *what, yaml_node ***out_items,
                                     size_t *out_count);
/* Whether a key is the plain word. */
bool yaml_is(const yaml_node *key, const char *word);
WEFT_MUST_USE weft_status yaml_get_int(yaml_reader *r, const yaml_node *node, const char *what, int64_t min,
                                       int64_t max, int64_t *out);
WEFT_MUST_USE weft_status yaml_get_bool(yaml_reader *r, const yaml_node *node, const char *what, bool *out);
WEFT_MUST_USE weft_status yaml_get_ints(yaml_reader *r, const yaml_node *node, const char *what, const int64_t **out,
                                        size_t *out_count);
WEFT_MUST_USE weft_status yaml_get_name(yaml_reader *r, const yaml_node *node, const name **out);
/* Bytes in the program's arena. */
WEFT_MUST_USE weft_status yaml_get_text(yaml_reader *r, const yaml_node *node, text *out);
WEFT_MUST_USE weft_status yaml_get_string(yaml_reader *r, const yaml_node *node, const char **out);
WEFT_MUST_USE weft_status yaml_get_strings(yaml_reader *r, const yaml_node *node, const char *what,
                                           const name *const **out, uint32_t *out_count);
/* Memory in the program's arena, charged to the budget. */
WEFT_MUST_USE weft_status yaml_array(yaml_reader *r, size_t count, size_t size, void *out_array);

/* `op_type`: whose attrs they are, for what the op table says of them; NULL: a var's. */
WEFT_MUST_USE weft_status yaml_get_attrs(yaml_reader *r, const name *op_type, const yaml_node *node, weft_attr **out,
                                         size_t *out_count);
WEFT_MUST_USE weft_status yaml_get_var(yaml_reader *r, weft_block *b, const yaml_node *key, const yaml_node *value);
WEFT_MUST_USE weft_status yaml_get_op(yaml_reader *r, weft_block *b, const yaml_node *node);
WEFT_MUST_USE weft_status yaml_get_var_dist(yaml_reader *r, weft_var *v, const yaml_node *node);
WEFT_MUST_USE weft_status yaml_get_op_dist(yaml_reader *r, weft_op *op, const yaml_node *node);
WEFT_MUST_USE weft_status yaml_get_rings(yaml_reader *r, const yaml_node *node);
WEFT_MUST_USE weft_status yaml_get_meshes(yaml_reader *r, const yaml_node *node);
WEFT_MUST_USE weft_status yaml_get_params_grads(yaml_reader *r, const yaml_node *node);

#endif

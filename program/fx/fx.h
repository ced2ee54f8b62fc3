/* fx.h: between the files that read and write FX graphs (.fx.json). The form: docs/fx-form.md; targets: fx.def. */
#ifndef PROGRAM_FX_FX_H
#define PROGRAM_FX_FX_H

#include "base/json.h"
#include "program/form.h"

/* --- the table of targets ----------------------------------------------------------------------------------------- */

typedef enum fx_type {
    FX_INT,
    FX_FLOAT,
    FX_FLOAT64,
    FX_BOOL,
    FX_STRING,
    FX_INTS,
    FX_FLOATS,
    FX_FLOAT64S,
    FX_DTYPE,
    FX_RING,
    FX_REDUCE_TYPE
} fx_type;

typedef enum fx_arg_kind {
    FX_TENSOR,  /* name>Slot */
    FX_TENSORS, /* name>Slot* */
    FX_VALUE,   /* name:attr:type */
    FX_LITERAL, /* name=literal, name==literal */
    FX_ANY,     /* name */
    FX_IMPLIED  /* +attr:type=value */
} fx_arg_kind;

typedef struct fx_arg {
    fx_arg_kind kind;
    const char *name; /* NULL: FX_IMPLIED */
    const char *to;   /* slot or attr */
    fx_type type;
    bool may_be_null;    /* or omitted */
    bool one_dtype;      /* tensors: fits where all tensors of the row up to these are of one element type */
    bool may_be_omitted; /* FX_LITERAL with one '=' */
    const char *places;  /* FX_TENSORS: nulls may stand among them; the attr that says where tensors stand */
    json_t *literal;     /* of FX_LITERAL and FX_IMPLIED; the default of FX_VALUE; else NULL */
} fx_arg;

typedef struct fx_out {
    const char *slot;
    bool is_list, is_optional;
    bool is_nested; /* a list that is one item of the value */
    int writes;     /* the argument whose tensors this output is, in place; -1: the value of the node */
    int view_of;    /* the argument of which the value is a view, or -1 */
} fx_out;

typedef struct fx_row {
    const char *target, *op_type;
    bool is_collective; /* the node's text follows from the op: FX_COLLECTIVE */
    fx_arg *args;
    fx_out *outs;
    uint32_t nargs, nnamed, nouts; /* nnamed: without the implied ones, which stand last */
    struct fx_row *next;           /* of the same target */
} fx_row;

/* fx.def, parsed; in the arena that it was made with, but for its JSON values. */
typedef struct fx_table {
    fx_row *rows;
    size_t count;
    hash_table by_target; /* the first row of each */
} fx_table;

WEFT_MUST_USE weft_status fx_table_init(fx_table *t, arena *a);
void fx_table_fini(fx_table *t);
/* The first row of a target; NULL: none. */
const fx_row *fx_table_find(const fx_table *t, const char *target, size_t nbytes);
/* The number of a reduce kind by its name in graphs ("product" for prod) and the name by number; -1 and NULL: none. */
int fx_reduce_parse(const char *word, size_t nbytes);
const char *fx_reduce_name(int64_t reduce);

/* --- what both sides know of a graph ------------------------------------------------------------------------------ */

/* Attrs that keep what nothing else of an op holds (docs/fx-form.md). */
#define FX_NODE "fx_node"
#define FX_NAME "fx_name"
#define FX_CONSTANT "fx_constant"
/* What a target starts with where its op type, slots and attrs stand for themselves. */
#define FX_OWN "weft."

/* The value of a node: a tensor, or a list of values. */
typedef struct fx_value {
    const name *name; /* of a node: in the file; NULL inside lists */
    weft_var *var;    /* NULL: a list, or a null in one that is no argument of the op */
    struct fx_value *items;
    uint32_t count;
    bool is_list;
    bool is_null;   /* not a list, and of no known type */
    bool is_broken; /* what should be here has been reported: nothing more is said of it */
} fx_value;

uint32_t fx_ntensors(const fx_value *value);

/* {"ref": name}: the name; NULL for anything else. */
const json_t *fx_ref(const json_t *value);

/* --- reading
 * ----------------------------------------------------------------------------------------------------------- */

typedef struct fx_var_facts {
    uint32_t root; /* 1 + the id of the var that it is a view of; 0: of none */
    bool is_input;
} fx_var_facts;

typedef struct fx_reader {
    weft_program *program;
    weft_block *block;
    weft_context *context;
    json_cursor text;
    size_t budget;
    arena scratch; /* as long as the reading */
    fx_table table;
    fx_value **values; /* by name id: what was defined under that name in the file; NULL: nothing yet */
    size_t value_capacity;
    fx_var_facts *facts; /* by var id */
    size_t facts_capacity;
    int64_t *group_rings; /* by name id: 1 + the ring of the group of that name; 0: none */
    size_t group_capacity;
    int64_t world_size; /* 0: the graph does not say */
    const mesh *mesh;   /* NULL: the graph names none */
    buffer kept;        /* what fx_json keeps of the sections that were read */
    buffer made;        /* text in the making */
    size_t at;          /* where the entry begins that is being read */
    int64_t noutputs;   /* read so far */
    size_t nproblems;
    weft_status first_problem;
} fx_reader;

/* A problem with the entry that is being read. */
#define FX_FAIL(r, ...) return json_error(&(r)->text, (r)->at, __VA_ARGS__)

/* fx/read_parts.c */
WEFT_MUST_USE weft_status fx_name_of(fx_reader *r, const json_t *entry, const char *what, const name **out);
/* The value that was defined under a name; NULL: none. */
fx_value *fx_find(const fx_reader *r, const json_t *ref);
/* Defines a name, or fails if it is taken. */
WEFT_MUST_USE weft_status fx_define(fx_reader *r, const name *n, const fx_value *value);
/* A new var of the block, under `wanted` or a name like it that is free. */
WEFT_MUST_USE weft_status fx_add_var(fx_reader *r, const char *wanted, size_t nbytes, weft_var **out);
/* Gives `v` the type that an entry's `shape` and `dtype` give; null for both: none. */
WEFT_MUST_USE weft_status fx_set_type(fx_reader *r, const char *who, const json_t *shape, const json_t *dtype,
                                      weft_var *v);
/* Says that `v` is a view of `of`; that `v` is written, and so what it is a view of. */
WEFT_MUST_USE weft_status fx_set_view(fx_reader *r, const weft_var *v, const weft_var *of);
WEFT_MUST_USE weft_status fx_set_written(fx_reader *r, const weft_var *v);
WEFT_MUST_USE weft_status fx_set_input(fx_reader *r, const weft_var *v);
/* The ring of a group, or fails. */
WEFT_MUST_USE weft_status fx_ring_of(fx_reader *r, const char *who, const json_t *group, int64_t *out);
/* Keeps a problem and goes on; other failures end the reading. */
WEFT_MUST_USE weft_status fx_keep_problem(fx_reader *r, weft_status found);

/* fx/read_heads.c: what is not nodes. Each stands before its section's value, and keeps its text. */
WEFT_MUST_USE weft_status fx_read_groups(fx_reader *r);
WEFT_MUST_USE weft_status fx_read_inputs(fx_reader *r);
WEFT_MUST_USE weft_status fx_read_outputs(fx_reader *r);
/* fx/read_placed.c: the mesh, and how values lie on it. */
WEFT_MUST_USE weft_status fx_read_world_size(fx_reader *r);
WEFT_MUST_USE weft_status fx_read_mesh(fx_reader *r);
WEFT_MUST_USE weft_status fx_read_placements_in(fx_reader *r);
WEFT_MUST_USE weft_status fx_read_placements_out(fx_reader *r);
WEFT_MUST_USE weft_status fx_read_placements(fx_reader *r);
/* fx/read_constants.c */
WEFT_MUST_USE weft_status fx_read_constants(fx_reader *r);

/* A node as it stands in the file. */
typedef struct fx_node {
    const json_t *entry, *args, *kwargs, *shape, *dtype;
    const name *name;
    text target;
    const json_t *out, *slots, *attrs, *dist; /* weft.out, weft.slots, ...; NULL: not there */
    size_t nkwargs;                           /* beside these */
    bool has_extra;                           /* members that are not of the form */
} fx_node;

/* The value that a node names, which is an error where none was defined before the node. */
WEFT_MUST_USE weft_status fx_find_before(fx_reader *r, const fx_node *n, const json_t *ref, const fx_value **out);

static inline bool fx_is_own_key(const char *key) {
    return strncmp(key, FX_OWN, sizeof FX_OWN - 1) == 0;
}

/* fx/read_nodes.c */
WEFT_MUST_USE weft_status fx_read_nodes(fx_reader *r);
bool fx_is_node_key(const char *key);
/* fx/read_args.c: the op of a node by the first row that fits, without outputs; *out_op NULL: none does.
 * *out_first: by argument of the row, how many input arguments of the op stand before its own. */
WEFT_MUST_USE weft_status fx_read_args(fx_reader *r, const fx_node *n, const fx_value *value, const fx_row **out_row,
                                       weft_op **out_op, uint32_t **out_first);
/* The tensors of a value, appended to a slot. */
WEFT_MUST_USE weft_status fx_append_tensors(weft_op *op, bool output, uint32_t s, const fx_value *value);
/* The tensors that an argument names: one, a list's, or those of a list of arguments; appended to a slot. */
WEFT_MUST_USE weft_status fx_append_refs(fx_reader *r, const fx_node *n, weft_op *op, bool output, uint32_t s,
                                         const json_t *arg);
/* fx/read_text.c: appends the attr fx_node. `first` as from fx_read_args; NULL: arguments are numbered as they come. */
WEFT_MUST_USE weft_status fx_append_node(fx_reader *r, const fx_node *n, const fx_row *row, const uint32_t *first,
                                         const fx_value *value, weft_op *op);
WEFT_MUST_USE weft_status fx_append_string(weft_op *op, const char *attr, const char *bytes, size_t nbytes);
/* fx/read_own.c: the op of a node that Weft wrote: inputs and attrs by name, without outputs, which are in `value`. */
WEFT_MUST_USE weft_status fx_read_own(fx_reader *r, const fx_node *n, const fx_value *value, weft_op **out_op);
/* weft.attrs: attrs that a target's row does not have. */
WEFT_MUST_USE weft_status fx_read_attrs(fx_reader *r, const fx_node *n, weft_op *op, const json_t *attrs);
WEFT_MUST_USE weft_status fx_read_dist(fx_reader *r, const fx_node *n, weft_op *op);
/* The word for an attr's type where JSON does not show it; NULL: none is needed or possible. */
const char *fx_type_word(attr_type type);

/* Integers, reals and {"f": ..}. */
bool fx_number(const json_t *value, double *out);

/* --- writing
 * ----------------------------------------------------------------------------------------------------------- */

/* A list value in the file. */
typedef struct fx_list {
    const name *name;
    fx_value value;
} fx_list;

/* How a var is named at the op that is being written: by a node of its own, or as a member of a list. */
typedef struct fx_current {
    const name *name;
    const fx_list *list;
    uint32_t item; /* of the list's value */
} fx_current;

/* Which output of the op at hand a var is. */
typedef struct fx_own {
    uint32_t stamp, index;
} fx_own;

typedef struct fx_writer {
    const weft_program *program;
    const weft_block *block;
    arena scratch;
    fx_table table;
    json_t *document;   /* fx_json, or an empty one */
    interner names;     /* taken in the file */
    uint32_t *suffixes; /* by id in `names`: the last one tried behind it */
    size_t suffix_capacity;
    fx_current *current;   /* by var id */
    uint32_t *last_writes; /* by var id: 1 + the number of the last op that writes it */
    fx_own *own;           /* by var id; of the op at hand where its stamp is the writer's */
    uint32_t stamp;
    const name **groups; /* by index of the program's ring */
    weft_var **fetched;  /* by column; NULL: none */
    size_t nfetched;
    const name **outputs; /* by column: the name that was fetched */
    buffer inputs, nodes; /* sections, an entry a line */
    buffer placements;    /* empty: none is known */
    buffer line;          /* the node in the making */
} fx_writer;

/* fx/write_parts.c */
/* A name that is free in the file, now taken: `stem`, or with a number behind it. */
WEFT_MUST_USE weft_status fx_take_name(fx_writer *w, const char *stem, size_t nbytes, bool may_be_stem,
                                       const name **out);
/* `{"ref":name}` of a var; a list's member gets a getitem node before the node in the making. */
WEFT_MUST_USE weft_status fx_put_ref(fx_writer *w, buffer *out, const weft_op *op, const weft_var *v);
void fx_put_name(buffer *out, const name *n);
/* Whether `v` is an output of the op that was stamped last. */
void fx_stamp_outputs(fx_writer *w, const weft_op *op);
static inline bool fx_is_output(const fx_writer *w, const weft_var *v) {
    return w->own[v->id].stamp == w->stamp;
}
WEFT_MUST_USE weft_status fx_put_shape(buffer *out, const weft_program *p, const weft_var *v);
void fx_put_dtype(buffer *out, const weft_var *v);
/* Ends an entry of a section: a comma and a new line before each but the first. */
void fx_put_entry(buffer *section, const buffer *entry);
WEFT_MUST_USE weft_status fx_op_error(const weft_op *op, const char *format, ...) WEFT_PRINTF(2, 3);

/* fx/write_own.c: kwargs of a weft.<op type> node; the value of an attr; weft.dist. */
WEFT_MUST_USE weft_status fx_put_own_args(fx_writer *w, const weft_op *op);
WEFT_MUST_USE weft_status fx_put_attr(buffer *out, const weft_op *op, const weft_attr *a);
void fx_put_dist(buffer *out, const op_dist *d);
bool fx_has_dist(const weft_op *op);

/* fx/write_placed.c: how values that are no inputs and no outputs lie on the mesh, into `placements`. */
WEFT_MUST_USE weft_status fx_list_placements(fx_writer *w);

/* fx/write_nodes.c */
WEFT_MUST_USE weft_status fx_write_op(fx_writer *w, const weft_op *op);
/* fx/write_fused.c: ops from `op` on as one fused node; *out_last NULL: it begins none, and nothing is written. */
WEFT_MUST_USE weft_status fx_write_fused(fx_writer *w, const weft_op *op, const weft_op **out_last);
/* fx/write_known.c: the row by which an op without fx_node is a collective's node; NULL: none. */
const fx_row *fx_find_collective(const fx_writer *w, const weft_op *op);
/* Whether the outputs of `op` are those of a row. */
bool fx_outputs_agree(const weft_op *op, const fx_row *row);
WEFT_MUST_USE weft_status fx_put_collective_args(fx_writer *w, const weft_op *op, const fx_row *row);
/* Attrs that the row does not have, as weft.attrs; nothing if there are none. */
WEFT_MUST_USE weft_status fx_put_other_attrs(fx_writer *w, const weft_op *op, const fx_row *row, const char *before);

#endif

/* ir.h: the structs behind weft/program.h. Other folders read the fields and change them only through the functions
 * here and in weft/program.h, which keep order numbers and uses. */
#ifndef PROGRAM_IR_H
#define PROGRAM_IR_H

#include "base/base.h"
#include "dist_attr/dist_attr.h"
#include "program/pool.h"
#include "weft/attr.h"
#include "weft/program.h"

/* AttrType of framework.proto: weft/attr.h has the numbers. */
typedef enum attr_type {
    ATTR_INT = WEFT_ATTR_INT,
    ATTR_FLOAT = WEFT_ATTR_FLOAT,
    ATTR_STRING = WEFT_ATTR_STRING,
    ATTR_INTS = WEFT_ATTR_INTS,
    ATTR_FLOATS = WEFT_ATTR_FLOATS,
    ATTR_STRINGS = WEFT_ATTR_STRINGS,
    ATTR_BOOLEAN = WEFT_ATTR_BOOLEAN,
    ATTR_BOOLEANS = WEFT_ATTR_BOOLEANS,
    ATTR_BLOCK = WEFT_ATTR_BLOCK,
    ATTR_LONG = WEFT_ATTR_LONG,
    ATTR_BLOCKS = WEFT_ATTR_BLOCKS,
    ATTR_LONGS = WEFT_ATTR_LONGS,
    ATTR_FLOAT64S = WEFT_ATTR_FLOAT64S,
    ATTR_VAR = WEFT_ATTR_VAR,
    ATTR_VARS = WEFT_ATTR_VARS,
    ATTR_FLOAT64 = WEFT_ATTR_FLOAT64,
    ATTR_SCALAR = WEFT_ATTR_SCALAR,
    ATTR_SCALARS = WEFT_ATTR_SCALARS
} attr_type;

typedef enum scalar_type { SCALAR_BOOLEAN = 1, SCALAR_LONG = 2, SCALAR_FLOAT64 = 3, SCALAR_COMPLEX128 = 4 } scalar_type;
typedef struct scalar {
    scalar_type type;
    bool b;
    int64_t i;
    double r, imaginary; /* r is also a complex number's real part */
} scalar;

/* Bytes that need not be text. A NUL follows them (arena_string). */
typedef struct text {
    const char *bytes;
    size_t nbytes;
} text;

/* One attr of an op. Exactly the member of `type` is meaningful. INT, LONG and BLOCK use i; FLOAT uses f (a float's
 * value exactly); FLOAT64 uses f; lists use count and the matching pointer (BLOCKS and INTS and LONGS: ints; FLOATS and
 * FLOAT64S: floats). STRING and VAR: attr_text, attr_set_text. */
struct weft_attr {
    const name *name;
    attr_type type;
    uint32_t count;
    union {
        int64_t i;
        double f;
        bool b;
        const char *s; /* STRING, VAR: count bytes, and a NUL; NULL: there are none */
        const int64_t *ints;
        const double *floats;
        const uint8_t *bools;
        const name *const *strings; /* STRINGS, VARS: of any interner or none, so that only bytes distinguish them */
        const scalar *scalar;
        const scalar *scalars;
    } u;
};

/* What the op table says of an attr that a file holds: the readers of files stand below the table and ask through the
 * context. */
typedef enum attr_advice {
    ATTR_FITS,   /* or nobody knows the op */
    ATTR_MISFIT, /* its type cannot become the declared one */
    ATTR_UNKNOWN /* neither the op's row has it nor does Paddle write it */
} attr_advice;
/* ATTR_MISFIT sets *out_expected to what was declared, in words; static. */
typedef attr_advice (*attr_adviser)(weft_context *context, const char *op_type, const weft_attr *a,
                                    const char **out_expected);
typedef struct attr_rules {
    attr_adviser advise;
} attr_rules;

static inline text attr_text(const weft_attr *a) {
    return (text){a->u.s ? a->u.s : "", a->count};
}
static inline void attr_set_text(weft_attr *a, text t) {
    a->u.s = t.bytes;
    a->count = (uint32_t)t.nbytes;
}
static inline text text_of_name(const name *n) {
    return (text){n->bytes, n->nbytes};
}

/* One argument: the node that links an op and a var. Programs hold several for each op, so it names both by ids. */
typedef struct use {
    uint32_t var_id : 31, is_output : 1; /* use_var */
    uint32_t op;                         /* use_op */
    uint32_t prev, next;                 /* among the var's uses: ids in the program's pool, 0 at the ends */
} use;

/* Some of an op's arguments, under a name: op->args[first .. first + nargs), which slot_var and slot_args reach. */
typedef struct slot {
    const name *name;
    uint32_t first, nargs;
} slot;

/* The slots of an op. Most ops have what another of their type has, and then share it: ops change theirs through the
 * functions below alone. */
typedef struct slot_table {
    uint32_t ninputs, noutputs;  /* slots */
    uint32_t ninput_args, nargs; /* of all inputs; of all slots */
    slot slots[];                /* inputs, then outputs, each in file order; passes insert sorted by name */
} slot_table;

static inline uint32_t slot_table_count(const slot_table *t) {
    return t->ninputs + t->noutputs;
}
static inline size_t slot_table_nbytes(size_t nslots) {
    return sizeof(slot_table) + nslots * sizeof(slot);
}

/* How one op sees one of its arguments (the sidecar's per-op entries, keyed by var name). */
typedef struct op_placement {
    const name *var;
    const placement *placement; /* of the program, and may be a var's or another op's: never changed */
} op_placement;

/* What few ops with a distributed attribute have. */
typedef struct op_dist_rest {
    const mesh *mesh;
    const char *impl_type; /* NULL: "default" */
    int64_t impl_idx;
    bool is_recompute, has_recompute;
    op_placement *inputs, *outputs;
    size_t ninputs, noutputs;
    const char *extra_json; /* members of the sidecar's entry that Weft does not know, as JSON object text; or NULL */
} op_dist_rest;

/* Names of events that an op waits for. */
typedef struct op_waits {
    size_t count;
    const char *events[];
} op_waits;

/* An op's distributed attribute; NULL fields where the sidecar says nothing. Passes give streams and events to half of
 * all ops, so that it is small. */
typedef struct op_dist {
    const char *execution_stream; /* NULL: the default (compute) stream */
    const char *event_to_record;  /* an event that this op records when it completes; NULL: none */
    const op_waits *waits; /* events to wait for. To read: op_dist_nwaits, ..; to be written: op_dist_set_waits */
    op_dist_rest *rest;    /* NULL: none. To read: op_dist_rest_of; to be written: op_dist_rest_get */
} op_dist;

/* What a sweep looks at comes first. Nothing of an op is so large that 32 bits do not count it: files are smaller than
 * 4 GiB. */
struct weft_op {
    weft_block *block; /* NULL: created but not inserted, or removed */
    weft_program *program;
    weft_op *prev, *next;
    uint64_t order; /* within the block; larger is later */
    const name *type;
    const void *schema;                   /* ops/ caches its row here */
    uint32_t mark;                        /* scratch; in a pass the position in block 0 (access.h). Not serialized */
    uint32_t generation;                  /* the program's when it was changed last */
    const slot_table *slots;              /* never NULL */
    use *args;                            /* in the order of slots; they move when there is no room for another */
    uint32_t id, args_id;                 /* in the pools: the op's, and that of the first argument */
    uint32_t slot_capacity, arg_capacity; /* slot_capacity 0: other ops may share the table */
    weft_attr *attrs;                     /* in file order */
    uint32_t nattrs;
    uint32_t attr_capacity : 30, has_is_target : 1, is_target : 1; /* attr_capacity 0: other ops share the list */
    op_dist *dist;                                                 /* NULL: none */
    const text *unknown_fields;                                    /* wire bytes to keep; NULL: none */
};

/* What few vars have. */
typedef struct var_rest {
    weft_attr *attrs;
    size_t nattrs;
    text type_bytes; /* the VarType message as read, when Weft does not model its kind; else empty */
    text unknown_fields;
    const char *dist_extra_json; /* members of the sidecar's entry that Weft does not model ("annotated"), or NULL */
} var_rest;

/* Vars are looked at in any order: what most looks want is in the first 64 bytes. */
struct weft_var {
    weft_block *block; /* NULL for a name that no block declares (an op mentions it only) */
    const name *name;
    weft_program *program;
    uint32_t first_use, last_use; /* ids, in no particular order; 0: none */
    uint32_t nuses;
    uint32_t generation; /* the program's when it was changed last */
    uint32_t id;         /* dense over the program: index for side tables */
    int32_t kind;        /* weft_var_kind, or any VarType.Type */
    int32_t dtype;       /* WEFT_DTYPE_NONE if the kind has no tensor */
    uint32_t ndim;
    int32_t lod_level;
    bool has_tensor : 1;  /* a TensorDesc is present */
    bool shares_name : 1; /* the first of its name, and another block declares that name too */
    bool has_lod_level : 1;
    bool persistable : 1, has_persistable : 1;
    bool need_check_feed : 1, has_need_check_feed : 1;
    bool is_parameter : 1, has_is_parameter : 1;
    bool stop_gradient : 1, has_stop_gradient : 1;
    bool dist_is_null : 1; /* the sidecar says null for it */
    int64_t *dims;         /* other vars may have the same array: replaced, never changed */
    placement *dist;       /* NULL: none */
    const var_rest *rest;  /* never NULL; to change it: var_rest_get */
};

struct weft_block {
    weft_program *program;
    int32_t idx, parent_idx, forward_block_idx;
    bool has_forward_block_idx;
    uint32_t *vars; /* ids of those declared here, in file order: block_var */
    size_t nvars, var_capacity;
    weft_op *first, *last;
    size_t nops;
    hash_table shared; /* by name: ids of those whose name an earlier block declares too */
    text unknown_fields;
};

/* Extents that some var has. */
typedef struct known_dims {
    int64_t *dims;
    size_t ndim;
} known_dims;
enum { PROGRAM_KNOWN_DIMS = 64, PROGRAM_KNOWN_SLOTS = 256 };

struct weft_program {
    weft_context *context;
    arena arena;
    id_pool ops, vars, uses; /* each of one struct alone: a sweep over ops reads memory in order */
    interner names;          /* a name's value: program_declared */
    weft_block **blocks;
    size_t nblocks, block_capacity;
    size_t nall_vars;                          /* declared or only mentioned: program_var */
    hash_table undeclared;                     /* by name: ids of vars that no block declares: program_placeholder */
    known_dims known_dims[PROGRAM_KNOWN_DIMS]; /* by hash, the latest of each: program_dims */
    const slot_table *known_slots[PROGRAM_KNOWN_SLOTS]; /* the same: op_set_slots */
    int64_t version;
    bool has_version;
    text op_version_map; /* the OpVersionMap message as read; kept, not modelled */
    bool has_op_version_map;
    text unknown_fields;
    const char *place;   /* file name for messages; never NULL */
    uint32_t generation; /* grows with every look of the verifier: program_verify_changed */
    uint64_t edits;      /* grows with every new var and with every change of an op, its place and its attrs */

    /* From the sidecar. */
    bool has_dist;
    int64_t rank;        /* -1: every rank */
    const mesh **meshes; /* in order of first use: the sidecar's indices */
    size_t nmeshes, mesh_capacity;
    hash_table mesh_table; /* by all that meshes hold: indices of them */
    ring *rings;           /* sorted by id */
    size_t nrings, ring_capacity;
    const name **params_grads;   /* pairs: param, grad */
    size_t nparams_grads;        /* pairs */
    const char *dist_extra_json; /* other top members of the sidecar as JSON object text, or NULL */

    const char *fx_json; /* of an FX graph, what is not in its ops: the document without nodes, JSON text; or NULL */
};

enum { OP_MAX_ATTRS = (1 << 30) - 1, PROGRAM_MAX_VARS = INT32_MAX };
#define ATTR_MAX_COUNT UINT32_MAX

/* --- building: used by readers and passes; all memory is the program's -------------------------------------------- */

WEFT_MUST_USE weft_status program_name(weft_program *p, const char *bytes, size_t nbytes, const name **out);
/* The same where base_hash of the bytes is known. */
WEFT_MUST_USE weft_status program_name_hashed(weft_program *p, const char *bytes, size_t nbytes, uint32_t hash,
                                              const name **out);
WEFT_MUST_USE weft_status program_add_block(weft_program *p, int32_t parent_idx, weft_block **out);
WEFT_MUST_USE weft_status block_add_var(weft_block *b, const name *n, weft_var **out); /* zeroed dense tensor fields */
WEFT_MUST_USE weft_status block_reserve_vars(weft_block *b, size_t count);             /* room for so many more */
/* A var by that name as block_add_var makes it, but in no block. */
weft_var program_blank_var(const weft_program *p, const name *n);
/* The program's next var, which holds what `like` does. The caller has a block list it, and the name lead to it. */
WEFT_MUST_USE weft_status program_take_var(weft_program *p, const weft_var *like, weft_var **out);
WEFT_MUST_USE weft_status block_add_tensor(weft_block *b, const name *n, weft_dtype dtype, size_t ndim,
                                           const int64_t *dims, weft_var **out);
/* Finds by block, forward block, parents; NULL if undeclared. */
weft_var *block_find(const weft_block *b, const name *n);
/* The same for the bytes of a name, which need not be interned. */
weft_var *block_find_text(const weft_block *b, const char *bytes, size_t nbytes);
/* The same, or else the placeholder of a name that nobody declares and some op uses; NULL if there is neither. */
weft_var *block_find_used(const weft_block *b, const char *name_text);
/* The var that `b` itself declares under that name; NULL if there is none. */
weft_var *block_find_own(const weft_block *b, const name *n);
/* An array of these extents, to be a var's: most have what another had shortly before, and then it is that one's. NULL
 * if there are none. */
WEFT_MUST_USE weft_status program_dims(weft_program *p, size_t ndim, const int64_t *dims, int64_t **out);
/* The var that stands for a name that nobody declares, found or made. */
weft_var *program_find_placeholder(const weft_program *p, const name *n);
WEFT_MUST_USE weft_status program_placeholder(weft_program *p, const name *n, weft_var **out);
/* block_find, or else the program's placeholder for a name that nobody declares ("@EMPTY@" among them). */
WEFT_MUST_USE weft_status block_resolve(weft_block *b, const name *n, weft_var **out);
WEFT_MUST_USE weft_status op_create(weft_program *p, const name *type, weft_op **out);
/* Appends a slot at the end of its side (file order), even an empty one; *out is its index there. */
WEFT_MUST_USE weft_status op_append_slot(weft_op *op, bool output, const name *slot_name, uint32_t *out);
/* Appends an argument to the slot of that index. Inputs that come after outputs move these. */
WEFT_MUST_USE weft_status op_append_arg(weft_op *op, bool output, uint32_t slot_index, weft_var *v);
/* Room for so many more arguments. */
WEFT_MUST_USE weft_status op_reserve_args(weft_op *op, size_t more);
/* A slot that `op` does not have yet, behind those that it has, and room for so many arguments. */
WEFT_MUST_USE weft_status op_append_room(weft_op *op, bool output, const char *slot_name, size_t nargs, uint32_t *out);
/* Gives an op that has none these slots, in memory that it may share with other ops of its type. It has room for their
 * arguments, which the caller makes (use_make). */
WEFT_MUST_USE weft_status op_set_slots(weft_op *op, const slot_table *slots);
/* One argument becomes another var. Where uses of a var are renamed one by one, look up the next before. */
void use_rename(use *u, weft_var *to);
/* And what the op's distributed attribute says of its placement. */
void use_rename_placed(use *u, weft_var *to);
/* Appends a zeroed attr at the end (file order). The caller fills type and value with program memory. */
WEFT_MUST_USE weft_status op_append_attr(weft_op *op, const name *n, weft_attr **out);
/* The same at its sorted place. The op has no such attr, nor a fx_node. */
WEFT_MUST_USE weft_status op_add_attr(weft_op *op, const name *n, weft_attr **out);
/* The attr to set: the existing one, or a new one at its sorted place among attrs. Attrs are changed through these
 * functions alone: ops with equal lists share them, and the attr fx_node goes with a change of another. */
WEFT_MUST_USE weft_status op_set_attr(weft_op *op, const char *n, weft_attr **out);
/* The same for one of that type and count, a list or a text. */
WEFT_MUST_USE weft_status op_set_counted(weft_op *op, const char *n, attr_type type, size_t count, weft_attr **out);
WEFT_MUST_USE weft_status op_remove_attr(weft_op *op, const char *n);     /* no matter whether it is there */
WEFT_MUST_USE weft_status op_set_unknown_fields(weft_op *op, text bytes); /* of the program; none if empty */
WEFT_MUST_USE weft_status var_rest_get(weft_program *p, weft_var *v, var_rest **out); /* to be written */
WEFT_MUST_USE weft_status op_dist_get(weft_op *op, op_dist **out); /* makes an empty one if there is none */
WEFT_MUST_USE weft_status op_dist_rest_get(weft_program *p, op_dist *d, op_dist_rest **out); /* the same */
static inline const op_dist_rest *op_dist_rest_of(const op_dist *d) {
    static const op_dist_rest none;
    return d->rest ? d->rest : &none;
}
WEFT_MUST_USE weft_status op_dist_set_mesh(weft_program *p, op_dist *d, const mesh *m);
/* With that count, and NULL for each event; to be written before it is an op's. */
WEFT_MUST_USE weft_status op_waits_create(weft_program *p, size_t count, op_waits **out);
/* The array is copied, the texts are not. */
WEFT_MUST_USE weft_status op_dist_set_waits(weft_program *p, op_dist *d, const char *const *events, size_t count);
static inline bool op_dist_rest_is_empty(const op_dist_rest *rest) {
    return !rest->mesh && !rest->impl_type && !rest->impl_idx && !rest->is_recompute && !rest->has_recompute &&
           !rest->ninputs && !rest->noutputs && !rest->extra_json;
}
static inline const mesh *op_dist_mesh(const op_dist *d) {
    return op_dist_rest_of(d)->mesh;
}
static inline size_t op_dist_nwaits(const op_dist *d) {
    return d->waits ? d->waits->count : 0;
}
/* An op like `pattern` that has `var` for each of its arguments; both share the list of attrs. Not inserted. */
WEFT_MUST_USE weft_status op_like(weft_op *pattern, weft_var *var, weft_op **out);
/* Lets `op` have the list of attrs of `from`, of the same program, until one of them changes it. */
void op_share_attrs(weft_op *op, weft_op *from);
static inline bool op_shares_attrs(const weft_op *op) {
    return op->nattrs && !op->attr_capacity;
}
WEFT_MUST_USE weft_status op_clone(const weft_op *op, weft_op **out); /* same program, not inserted, dist included */
WEFT_MUST_USE weft_status program_add_mesh(weft_program *p, const mesh *m, const mesh **out); /* deduplicates, copies */
/* Makes `fine` the only mesh of the program, whose meshes it divides: all placements are then on it. */
WEFT_MUST_USE weft_status program_divide_meshes(weft_program *p, const mesh *fine, const mesh **out);
WEFT_MUST_USE weft_status placement_clone(weft_program *p, const placement *from, placement **out);
WEFT_MUST_USE weft_status program_put_ring(weft_program *p, const ring *r); /* copies; replaces the one of that id */

/* Whoever changes an op or a declared var says so. The functions above and those of weft/program.h do it themselves. */
static inline void op_changed(weft_op *op) {
    op->generation = op->program->generation;
    op->program->edits++;
}
static inline void var_changed(weft_var *var) {
    if (var->block) var->generation = var->block->program->generation;
}
/* weft_program_verify for a program that was sound at the last call that found no problem (if `all` is false): looks
 * only at what was changed since. */
WEFT_MUST_USE weft_status program_verify_changed(weft_program *p, bool all);

/* Memory that a program holds. */
static inline size_t program_nbytes(const weft_program *p) {
    return p->arena.total_nbytes + p->ops.total_nbytes + p->vars.total_nbytes + p->uses.total_nbytes;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The var that the name means at `op`: its argument of that name, if it has one, which costs no look-up. NULL: none. */
weft_var *op_find_var(const weft_op *op, text name_text);
const slot *op_find_slot(const weft_op *op, bool output, const char *slot_name); /* NULL if absent */
const weft_attr *op_find_attr(const weft_op *op, const char *n);                 /* NULL if absent */
const ring *program_find_ring(const weft_program *p, int64_t id);
/* "matmul_v2 #41" where 41 counts from the block's first op: O(n), for messages only. Program memory is not used; the
 * text is in `out`, cut to its size. */
const char *op_place(const weft_op *op, char *out, size_t out_nbytes);
bool attr_equal(const weft_attr *a, const weft_attr *b);
bool op_equal(const weft_op *a, const weft_op *b); /* all that is serialized, names for vars */
bool var_equal(const weft_var *a, const weft_var *b);
/* Whether an attr says what node of an .fx.json file the op was read as ("fx_name", ...), and nothing of the op. */
bool attr_is_of_node(const weft_attr *a);
static inline bool op_is(const weft_op *op, const char *type) {
    return name_is(op->type, type);
}
static inline text op_unknown_fields(const weft_op *op) {
    return op->unknown_fields ? *op->unknown_fields : (text){"", 0};
}
/* Whether the op_namescope contains `part`. */
bool op_in_namescope(const weft_op *op, const char *part);
/* A name that no var of the program has: `stem`, else stem_1, stem_2, ... */
WEFT_MUST_USE weft_status program_unique_name(weft_program *p, const char *stem, const name **out);

static inline use *use_at(const weft_program *p, uint32_t id) {
    return (use *)pool_at(&p->uses, id, sizeof(use));
}
static inline weft_op *use_op(const weft_program *p, const use *u) {
    return (weft_op *)pool_at(&p->ops, u->op, sizeof(weft_op));
}
/* The var of that id, which is below nall_vars. */
static inline weft_var *program_var(const weft_program *p, size_t id) {
    return (weft_var *)pool_at(&p->vars, (uint32_t)id + POOL_FIRST, sizeof(weft_var));
}
static inline weft_var *use_var(const weft_program *p, const use *u) {
    return program_var(p, u->var_id);
}

/* The var at an index below nvars. */
static inline weft_var *block_var(const weft_block *b, size_t index) {
    return program_var(b->program, b->vars[index]);
}
/* The var that was declared first under that name, in any block; NULL if none was. */
static inline weft_var *program_declared(const weft_program *p, const name *n) {
    return n->value ? program_var(p, n->value - 1) : NULL;
}

/* Slots and arguments of one side of an op. */
static inline uint32_t op_nslots(const weft_op *op, bool output) {
    return output ? op->slots->noutputs : op->slots->ninputs;
}
static inline const slot *op_slot(const weft_op *op, bool output, size_t index) {
    return &op->slots->slots[output ? op->slots->ninputs + index : index];
}
static inline uint32_t op_nargs(const weft_op *op, bool output) {
    return output ? op->slots->nargs - op->slots->ninput_args : op->slots->ninput_args;
}
static inline use *op_args(const weft_op *op, bool output) {
    return output ? op->args + op->slots->ninput_args : op->args;
}
static inline use *slot_args(const weft_op *op, const slot *s) {
    return op->args + s->first;
}
static inline weft_var *slot_var(const weft_op *op, const slot *s, size_t index) {
    return use_var(op->program, &op->args[s->first + index]);
}

#define FOR_EACH_OP(op, block) for (weft_op *op = (block)->first; op; op = op->next)
#define FOR_EACH_USE(u, of) for (use *u = use_at((of)->program, (of)->first_use); u; u = use_at((of)->program, u->next))
/* Every argument of `op`: inputs where `out` is false. */
#define FOR_EACH_ARG(op, out, u) for (use *u = op_args(op, out), *u##_end = u + op_nargs(op, out); u < u##_end; u++)

/* Asks for the vars of an op's arguments ahead of a sweep that looks at them. They are all over the memory of a large
 * program. `op` may be NULL. */
static inline void op_ask_for_vars(const weft_op *op) {
    for (int output = 0; op && output < 2; output++) {
        FOR_EACH_ARG(op, output, u) base_prefetch(use_var(op->program, u));
    }
}

/* Forms, one file each. */
WEFT_MUST_USE weft_status pdmodel_parse(weft_program *p, const void *bytes, size_t nbytes);
WEFT_MUST_USE weft_status pdmodel_print(const weft_program *p, buffer *out);
WEFT_MUST_USE weft_status yaml_parse(weft_program *p, const void *bytes, size_t nbytes);
WEFT_MUST_USE weft_status yaml_print(const weft_program *p, buffer *out);
WEFT_MUST_USE weft_status fx_parse(weft_program *p, const void *bytes, size_t nbytes);
WEFT_MUST_USE weft_status fx_print(const weft_program *p, buffer *out);
/* The dimension of "S(2)", "S2", "Shard(2)" or "Shard(dim=2)", as graphs tell placements along a mesh axis. */
enum { FX_REPLICATED = -1, FX_NO_PLACEMENT = -2 };
int fx_placement_dim(const char *said);
WEFT_MUST_USE weft_status sidecar_parse(weft_program *p, const char *json, size_t nbytes, const char *place,
                                        bool with_ops); /* with_ops false: only meshes, rings and vars hold */
WEFT_MUST_USE weft_status sidecar_print(const weft_program *p, buffer *out);

#endif

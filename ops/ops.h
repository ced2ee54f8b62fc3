/* ops.h: the op table: schema, shape inference and effects of every op type that Weft knows.
 *
 * ops.def is the list; each layer expands it into its own table. Slot and attr lists are written as text in
 * ops.def and parsed once when a context is created:
 *
 *   slots   "X, Y?, ShapeTensorList*"    ? may be absent or empty, * any number of arguments
 *           "X!", "LearningRate^"        (inputs) of X only the type is looked at; LearningRate is read on the host
 *           "ParamOut=Param"             (outputs) may share the memory of that input: the kernel reads an element
 *                                        before it writes it, or handles equal pointers
 *           "Out&X"                      (outputs) is a view of that input's bytes: the op touches none through
 *                                        this pair
 *           "BatchSize~"                 (outputs) is only named: the op leaves its bytes alone
 *   attrs   "axis: int = -1, trans_x: bool = false, shape: ints = [], scale: float = 1.0, str_value: string = ''"
 *
 * An op type that is not in the table is legal everywhere except in execution: it reads its inputs and writes its
 * outputs. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "program/ir.h"

/* What an op does beside computing outputs from inputs. */
enum {
    OP_COLLECTIVE = 1 << 0,  /* communicates on the ring of its ring_id attr */
    OP_RANDOM = 1 << 1,      /* draws random numbers: thread their state in program order */
    OP_HOST = 1 << 2,        /* blocks the host (fetch, stream syncs) */
    OP_NO_BYTES = 1 << 3,    /* touches no bytes: an edge in Paddle's executor only (nop, depend, c_wait_*) */
    OP_ALIASES = 1 << 4,     /* outputs become views of one buffer (coalesce_tensor) */
    OP_CONTROL = 1 << 5,     /* runs a sub-block */
    OP_OPTIMIZER = 1 << 6,   /* updates parameters from gradients: op_param_slot */
    OP_LINEAR_GRAD = 1 << 7, /* outputs are homogeneous linear, jointly, in all inputs of slots named *@GRAD */
    OP_LINEAR = 1 << 8,      /* the same, in all inputs (sum, reshape, cast, concat, ...) */
    OP_LINEAR_X = 1 << 9,    /* the same, in its first input slot (scale without bias; other inputs are fixed) */
    OP_PADDLE_GPU = 1 << 10, /* Paddle's CPU executor cannot run it (c_wait_compute) */
    OP_ROWS = 1 << 11,  /* splits arguments as large as its largest output evenly, and may run a few rows at a time */
    OP_VIEWS = 1 << 12, /* some outputs are views of inputs ("Out&X"); the table sets it itself */
    OP_ONLY_VIEWS = 1 << 13, /* all are: it touches no bytes, and only names them; the table sets it itself */
    OP_ONE_TYPE = 1 << 14,   /* all inputs are of one element type */
    OP_NAMES = 1 << 16,      /* some outputs are only named ("BatchSize~"); the table sets it itself */
    OP_METRIC = 1 << 15      /* counts the rows of its inputs into its state; nothing is trained by what it makes */
};

typedef enum slot_arity { SLOT_ONE, SLOT_OPTIONAL, SLOT_LIST } slot_arity;

typedef struct slot_schema {
    const char *name;
    slot_arity arity;
    bool only_type;  /* inputs: the kernel looks at types and extents alone, the bytes may be gone */
    bool host_read;  /* inputs: the kernel needs its values on the host before it computes (a rate, an axis, a bound) */
    bool untouched;  /* outputs: the op names it and leaves its bytes alone */
    int in_place_of; /* outputs: index of the input slot whose memory it may share, or -1 */
    int view_of;     /* outputs: index of the input slot whose bytes it is a view of, argument by argument, or -1 */
} slot_schema;

typedef struct attr_schema {
    const char *name;
    attr_type type;
    weft_attr default_value; /* the default; name not set */
} attr_schema;

/* A tensor's type during inference. ndim -1: not known. Extents of -1: known only at run time. */
typedef struct shape {
    int32_t dtype;
    int32_t ndim;
    int64_t dims[WEFT_MAX_RANK];
    /* SELECTED_ROWS: dims are those of the values [nrows, ...]; the whole tensor has `height` rows. Else -1. */
    int64_t height;
} shape;

/* What an inference function sees: inputs and outputs flattened in schema slot order. in_first[i] .. in_first[i + 1]
 * are the arguments of input slot i. Functions read `in`, write `out`; outputs start as ndim -1, dtype of the declared
 * var. */
typedef struct infer {
    const weft_op *op;
    const struct op_schema *schema;
    const shape *in;
    const uint32_t *in_first;
    shape *out;
    const uint32_t *out_first;
    /* Elements of small integer tensors that are known before the run (shapes, axes), beside `in` and `out`; NULL: not
     * known. Functions that write no values make their outputs unknown. */
    const int64_t *const *in_values;
    const int64_t **out_values;
    arena *memory; /* for values */
} infer;

typedef weft_status (*infer_fn)(infer *);

typedef struct op_schema {
    const char *type;
    const char *family; /* the .c file of ops/ and executor/kernels/ that owns it */
    const char *summary;
    const slot_schema *inputs, *outputs; /* in ops.def order: the order of kernels' arguments */
    size_t ninputs, noutputs;
    const attr_schema *attrs;
    size_t nattrs;
    uint32_t effects;
    const struct collective_schema *collective; /* what it does on a ring (collectives.h); NULL: no row */
    infer_fn infer;
    const struct host_op *host; /* NULL: a row of ops.def; else a host's op (host_op.h) */
    int index; /* row in ops.def: index into other layers' tables (ops/rows.h); of hosts' ops, behind the last */
} op_schema;

/* The row of `op`'s type, cached on the op; NULL for a type that is not in the table. */
const op_schema *op_schema_of(weft_op *op);
/* Whether the op's program is of a version of Paddle that defined the op otherwise (versions.def, CHANGED). */
bool op_follows_older(const weft_op *op);
const op_schema *ops_find(weft_context *context, const char *type);
/* The number of a type's row; -1: there is none. */
int ops_row_of(const char *type);
size_t ops_count(weft_context *context);
const op_schema *ops_at(weft_context *context, size_t index);
WEFT_MUST_USE weft_status ops_register(weft_context *context); /* builds the table; called by weft_context_create */

static inline bool op_has_effect(weft_op *op, uint32_t effect) {
    const op_schema *s = op_schema_of(op);
    return s && (s->effects & effect) != 0;
}

/* What readers of files ask of attrs (program/ir.h). */
const attr_rules *attrs_rules(void);

/* Attrs with the schema's default. `type` mismatches that lose nothing convert (INT/LONG/BOOLEAN, FLOAT/FLOAT64). */
int64_t attr_int(const weft_op *op, const char *n, int64_t fallback);
double attr_float(const weft_op *op, const char *n, double fallback);
bool attr_bool(const weft_op *op, const char *n, bool fallback);
/* INTS or LONGS; *out_count 0 and NULL when absent. Values are the program's. */
const int64_t *attr_ints(const weft_op *op, const char *n, size_t *out_count);
const double *attr_floats(const weft_op *op, const char *n, size_t *out_count);
const char *attr_string(const weft_op *op, const char *n, const char *fallback);

/* --- shape inference ---------------------------------------------------------------------------------------------- */

/* A type as the environment keeps it: a quarter of a shape, since there is one for every var. */
typedef struct kept_shape {
    const int64_t *dims; /* the var's declared extents, or the environment's memory; never changed in place */
    int64_t height;
    int32_t dtype, ndim;
} kept_shape;

/* Types of every var, by var id; start from declared types or from feeds. While it is in use, a var's declared extents
 * may be replaced, not overwritten. */
typedef struct shape_env {
    weft_program *program;
    kept_shape *kept;       /* by var id */
    size_t nkept;           /* vars made after shape_env_init have larger ids: their declared types hold */
    size_t capacity;        /* of both arrays */
    const int64_t **values; /* by var id: elements of small integer tensors, NULL: not known */
    arena *memory;          /* of types and values */
} shape_env;

/* Fills `env` with declared types. All its memory is the caller's arena's. */
WEFT_MUST_USE weft_status shape_env_init(shape_env *env, weft_program *p, arena *a);
/* Takes in the vars that were made since. */
WEFT_MUST_USE weft_status shape_env_grow(shape_env *env);
/* The type of a var: env's, or the declared one. */
shape shape_env_get(const shape_env *env, const weft_var *v);
/* Gives a var that env knows another type. */
WEFT_MUST_USE weft_status shape_env_set(shape_env *env, const weft_var *v, const shape *type);
/* Whether both environments, of one program, have the same type for a var that they know. */
bool shape_env_same(const shape_env *a, const shape_env *b, const weft_var *v);
/* Says that an integer var (a shape, an axis, a count) holds these elements, as many as its type in `env` says. They
 * are the caller's and must outlive env. */
void shape_env_set_values(shape_env *env, const weft_var *v, const int64_t *values);
/* The declared type of a var. */
shape shape_of_var(const weft_var *v);
/* Infers one op's outputs into env. An unknown type, or one without an infer function, keeps declared types. A
 * contradiction between attrs and inputs is an error that names the op. */
WEFT_MUST_USE weft_status shape_infer_op(shape_env *env, weft_op *op, arena *scratch);
/* Infers a block and the sub-blocks its ops run, in program order. */
WEFT_MUST_USE weft_status shape_infer_block(shape_env *env, weft_block *block, arena *scratch);

/* For inference functions. infer_in(i, s): first argument of input slot s, NULL if there is none. */
static inline const shape *infer_in(const infer *i, int s) {
    return i->in_first[s] < i->in_first[s + 1] ? &i->in[i->in_first[s]] : NULL;
}
static inline shape *infer_out(const infer *i, int s) {
    return i->out_first[s] < i->out_first[s + 1] ? &i->out[i->out_first[s]] : NULL;
}
WEFT_MUST_USE weft_status infer_error(const infer *i, const char *format, ...) WEFT_PRINTF(2, 3);
int64_t shape_numel(const shape *s); /* -1 if any extent is unknown */

/* --- reading effects ---------------------------------------------------------------------------------------------- */

/* The ring of a collective. */
int64_t op_ring(const weft_op *op);
static inline int op_role(const weft_op *op) {
    return (int)attr_int(op, "op_role", WEFT_ROLE_NOT_SPECIFIED);
}
/* Whether an op communicates: collectives.def says so, or it has a ring_id and neither table knows its type. */
bool op_communicates(const weft_op *op);
/* A collective that only begins (async_op): its outputs are pending, and hold nothing before the wait_tensor for
 * them, and until then its inputs may not be written either. All-reduces that leave the compute stream because they do
 * not use_calc_stream are none: what orders them are streams, op_stream. */
bool op_is_async(const weft_op *op);
/* An op that reduces one tensor over a ring to all its ranks, whatever its era's name (collectives.h has more). */
bool op_is_all_reduce(const weft_op *op, weft_reduce *out_reduce);
/* The stream that a pass or Paddle named for an op; NULL: none, or the compute stream under one of its names. */
const char *op_named_stream(const weft_op *op);
/* The own stream of an op's ring: "ring_ID", in `buffer_of_ring`. */
enum { RING_STREAM_NBYTES = 32 };
const char *op_ring_stream(const weft_op *op, char *buffer_of_ring);
/* The stream that an op runs on in a plan: the one that a pass or Paddle named; without a name its ring's own for a
 * collective that leaves the compute stream (async_op, or not use_calc_stream); NULL: the compute stream. Names mean
 * nothing beyond being equal or not. */
const char *op_stream(const weft_op *op, char *buffer_of_ring);
/* coalesce_tensor: each output starts at a multiple of so many bytes in the fused buffer. */
int64_t coalesce_alignment(const weft_op *op);
/* The first tensor argument of the slot "X" or "x", "Out" or "out": collectives changed case between eras. */
weft_var *op_x(const weft_op *op);
weft_var *op_out(const weft_op *op);
/* Of an op that updates parameters from gradients: the slot of what it updates ("Param" or "param"), or NULL; and the
 * first parameter that it writes, or NULL. */
const slot *op_param_slot(const weft_op *op);
weft_var *op_updated_param(const weft_op *op);
/* The input slot whose bytes the arguments of an output slot show ("Out&X"), or NULL: the op writes none through them.
 */
const slot *op_viewed_slot(weft_op *op, const slot *output);
/* Whether an output argument is only named: it is what the op shows of it ("W_Out&W"), or the op leaves it alone
 * ("BatchSize~"). */
bool op_shows_own_input(weft_op *op, const use *output);

#endif

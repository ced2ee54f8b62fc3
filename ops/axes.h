/* axes.h: how an op can be split: a factor table, from its row in axes.def, its attrs and the extents of its arguments.
 *
 * A factor is a letter of an einsum: matmul is X[m k], Y[k n], Out[m n]. A dimension of an argument has one factor, or
 * several, major first (a reshape of [4, 6] to [24] has factors 4 and 6), or none (nothing may shard it).
 *
 * Along a mesh axis, inputs that have a factor are all sharded by it or none is. An output that has it is sharded then.
 * One that lacks it is partial: ranks hold addends of a sum, or of what `reduce` says. A gradient is no exception:
 * where an operand is sharded by a factor, the gradient of an operand that lacks the factor is partial.
 *
 * Along a mesh axis that shards nothing, inputs may be partial: `groups` say through which of them that passes.
 *
 * Knows programs and extents, no passes. */
#ifndef OPS_AXES_H
#define OPS_AXES_H

#include "ops/ops.h"

enum { AXES_NONE = -1 }; /* in axes_arg: no reduce, the output does not depend on the factors that it lacks */

typedef struct axes_factor {
    int64_t size;    /* -1: known only at run time */
    const char *why; /* NULL: it may be sharded; else why it must be whole */
} axes_factor;

typedef struct axes_dim {
    uint8_t nfactors;
    uint16_t factors[WEFT_MAX_RANK]; /* major first */
} axes_dim;

typedef struct axes_arg {
    int slot; /* of the schema's inputs or outputs */
    int32_t ndim;
    int64_t extents[WEFT_MAX_RANK]; /* SELECTED_ROWS: of the whole tensor */
    axes_dim dims[WEFT_MAX_RANK];
    bool any;          /* inputs: nothing of it is read; it may lie as it likes */
    int reduce;        /* outputs: a weft_reduce over factors that it lacks; AXES_NONE: there is nothing to reduce */
    uint64_t mean;     /* outputs: it is divided by the extents of these factors (bits): each rank divides by fewer */
    uint64_t unread;   /* outputs: input slots (bits) whose elements it does not depend on */
    uint32_t in_group; /* inputs: groups (bits) */
} axes_arg;

/* Inputs through which a partial value passes to the outputs, with the same reduce. */
typedef struct axes_group {
    uint32_t all; /* weft_reduces (bits) that pass if all inputs of the group are partial: sum and product */
    uint32_t any; /* those that pass if some are: maximum, minimum and mean */
} axes_group;

/* An attr that an op on a rank's part must have otherwise than the op on the whole. */
typedef enum axes_change_kind {
    AXES_EXTENTS, /* element d is the extent of dimension d of output `arg`, where it is positive */
    AXES_EXTENT,  /* it is the extent of the factor */
    AXES_ELEMENT, /* its element `arg` is */
    AXES_OFFSET   /* it grows by where the rank's part of the factor begins */
} axes_change_kind;

typedef struct axes_change {
    axes_change_kind kind;
    const char *attr; /* the schema's */
    size_t arg, factor;
} axes_change;

enum { AXES_GROUPS = 6, AXES_CHANGES = 9 };

typedef struct axes_rule {
    const char *why_none; /* NULL: there is a rule; else why not, and nothing may be sharded or partial */
    axes_factor *factors;
    size_t nfactors;
    axes_arg *in, *out; /* flattened in schema slot order, as for inference */
    size_t nin, nout;
    axes_group groups[AXES_GROUPS];
    size_t ngroups;
    axes_change changes[AXES_CHANGES];
    size_t nchanges;
} axes_rule;

/* An op with the types of its arguments, as in an op_cost_call: extents of the whole tensors. */
typedef struct axes_call {
    const weft_op *op; /* asked for attrs only */
    const op_schema *schema;
    const shape *in, *out;
    const uint32_t *in_first, *out_first;
} axes_call;

/* The arguments of one side of an op, as in an op_cost_call. */
typedef struct axes_side {
    shape *types;
    uint32_t *first; /* by slot of the schema, and one more */
    use **uses;
    size_t count;
} axes_side;
/* Of an op with a schema; types of `env`, or NULL: the declared ones. All is of the arena. */
WEFT_MUST_USE weft_status axes_read_side(weft_op *op, bool output, const shape_env *env, arena *a, axes_side *out);

/* The rule of an op. What it holds is of the arena and of the schema. A row that does not fit the arguments gives a
 * rule with why_none. Cost: O(arguments x dimensions). */
WEFT_MUST_USE weft_status axes_of_op(const axes_call *call, arena *a, axes_rule *out);

/* How axes.def tells of a type. */
typedef enum axes_row_kind { AXES_ROW_RULE, AXES_ROW_GRAD, AXES_ROW_NONE } axes_row_kind;
typedef struct axes_row {
    const char *type;
    axes_row_kind kind;
    int of;           /* AXES_ROW_GRAD: the row of the op that it is the gradient of; else -1 */
    const char *text; /* the rule, or why there is none */
} axes_row;
/* All rows, in the order of ops.def; type NULL where axes.def has none. */
const axes_row *axes_rows(size_t *out_count);
/* The row of a type; NULL: it has none. */
const axes_row *axes_row_of(const op_schema *schema);

/* Whether a host's row can be read. */
WEFT_MUST_USE weft_status axes_check_row(const op_schema *schema);

/* What a row says of a type, whatever its arguments. Whether an output may depend on the elements of an input's slot;
 * whether the op keeps all elements of its first input in order, under other extents. */
bool axes_reads(const op_schema *schema, const char *out_slot, const char *in_slot);
bool axes_only_reshapes(const op_schema *schema);

/* --- placements --------------------------------------------------------------------------------------------------- */

enum { AXES_MESH = 4 };

typedef struct axes_mesh {
    int naxes;
    int64_t extent[AXES_MESH];
    bool uneven; /* a factor alone in its dimensions may be cut into parts that differ: ceil(size / n) each,
                  * the last fewer, none of them empty */
    bool shares; /* a mean over such parts is a sum of shares: who asks multiplies by axes_share */
} axes_mesh;

/* How one argument lies on a mesh: along axes that are named nowhere it is replicated. */
typedef struct axes_placed {
    uint8_t naxes[WEFT_MAX_RANK];           /* by dimension */
    uint8_t axes[WEFT_MAX_RANK][AXES_MESH]; /* mesh axes that shard it, major first */
    uint8_t partial[AXES_MESH];             /* by mesh axis: 1 + weft_reduce; 0: it is not partial along it */
    uint32_t times;                         /* of an output: mesh axes (bits) by whose extents it is too large */
} axes_placed;

/* What mesh axes, major first, make of an extent: each cuts what the ones before have made. */
typedef enum axes_cuts {
    AXES_CUT_EMPTY, /* some rank would get nothing */
    AXES_CUT_UNEVEN,
    AXES_CUT_EVEN /* all parts are equal; so they are of an extent that is known only at run time */
} axes_cuts;
axes_cuts axes_cut(const axes_mesh *on, int64_t extent, const uint8_t *axes, int naxes);
/* The factors that the mesh axes of dimension `d` of an argument shard, which lies so: one for each axis of its list.
 * Returns for how many; the list says more than there are factors where it is fewer. */
int axes_factors(const axes_rule *r, const axes_mesh *on, const axes_arg *x, int d, const axes_placed *p,
                 uint16_t *out_factors);
/* How the outputs lie where the inputs lie so. NULL, or why they may not lie so: static text. */
const char *axes_follow(const axes_rule *r, const axes_mesh *on, const axes_placed *in, axes_placed *out);
/* What output `o` must be multiplied by where `shares` is set: the rank's share of the elements that a mean is over. */
double axes_share(const axes_rule *r, const axes_mesh *on, const axes_placed *in, size_t o, const int64_t *at);
/* The part of an argument of these extents that the rank at `at` holds. */
void axes_part(const axes_mesh *on, const axes_placed *p, int32_t ndim, const int64_t *extents, const int64_t *at,
               int64_t *out_offset, int64_t *out_extent);
/* Where the part of a factor begins that the rank at `at` holds of inputs that lie so; *out_axes: the mesh axes that
 * shard it (bits). */
int64_t axes_offset(const axes_rule *r, const axes_mesh *on, const axes_placed *in, size_t factor, const int64_t *at,
                    uint32_t *out_axes);
/* Gives `op`, which computes one rank's part, the attrs that it must have for it. */
WEFT_MUST_USE weft_status axes_localize(const axes_rule *r, const axes_mesh *on, const axes_placed *in,
                                        const axes_placed *out, const int64_t *at, weft_op *op);

#endif

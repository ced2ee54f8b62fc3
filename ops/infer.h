/* infer.h: for the inference functions of ops/: their declarations, expanded from ops.def, and what they share.
 *
 * An inference function reads types of inputs, checks them against each other and the attrs, and writes types of
 * outputs. It may be given unknown inputs (ndim -1) and extents (-1): then it writes what it can infer, and reports no
 * contradiction that a run might not have. An output that it leaves at ndim -1 keeps its declared type. */
#ifndef OPS_INFER_H
#define OPS_INFER_H

#include "ops/ops.h"

#define OP(type, family, inputs, outputs, attrs, effects, infer_name, summary) weft_status infer_##infer_name(infer *);
#include "ops/ops.def"
#undef OP

typedef struct shape_text {
    char bytes[160];
} shape_text;

/* "[2, 3]", "[]", "?" where the rank is unknown. */
const char *shape_print(const shape *s, shape_text *out);

static inline bool shape_known(const shape *s) {
    return s && s->ndim >= 0;
}
/* Equal, or one of them unknown. */
static inline bool extent_fits(int64_t a, int64_t b) {
    return a == b || a < 0 || b < 0;
}
/* Whether known extents of two types, or how many there are, differ. */
bool shape_extents_differ(const shape *a, const shape *b);
/* a + b, a * b where either may be unknown (-1); so is what does not fit. */
int64_t extent_add(int64_t a, int64_t b);
int64_t extent_mul(int64_t a, int64_t b);

/* The extents of `from` with dtype; from may be of unknown rank. `to` NULL is fine: the output is absent. */
void shape_set(shape *to, int32_t dtype, size_t ndim, const int64_t *dims);
void shape_copy_dims(shape *to, const shape *from, int32_t dtype);
WEFT_MUST_USE weft_status shape_append(infer *i, shape *s, int64_t extent); /* refuses more than WEFT_MAX_RANK */

/* A dimension of `ndim` ones, counted from the end where negative; an error that names `what` if out of range. */
WEFT_MUST_USE weft_status infer_axis(const infer *i, const char *what, int64_t axis, int32_t ndim, int32_t *out);
/* XShape outputs, where the row has them: [0, dims of x ...]. */
void infer_xshape(infer *i, int output_slot, const shape *x);
/* The two operands' common shape, Y placed from `axis` on in X (-1: at the end). */
WEFT_MUST_USE weft_status shape_broadcast(const infer *i, const shape *x, const shape *y, int64_t axis, shape *out);

/* Numbers that an op takes from a tensor, or a list of tensors of one element, or an attr: the first that is there. */
typedef struct numbers {
    size_t count;
    int64_t values[WEFT_MAX_RANK];
    bool known; /* else values are those of the attr, or -1 where it has none */
} numbers;
/* `list_slot` and `attr` may be NULL. Refuses more than WEFT_MAX_RANK numbers. A tensor whose extent is not known
 * counts as many as the attr has. */
WEFT_MUST_USE weft_status infer_numbers(const infer *i, const char *tensor_slot, const char *list_slot,
                                        const char *attr, numbers *out);
/* Keeps the elements of output `index` (flattened), an integer tensor. */
WEFT_MUST_USE weft_status infer_keep_values(infer *i, size_t index, size_t count, const int64_t *values);
/* The same from reals, rounded to the output's type; keeps nothing that this type cannot hold. */
WEFT_MUST_USE weft_status infer_keep_reals(infer *i, size_t index, size_t count, const double *values);
/* A kept element as a real. Those of float tensors are kept as the bits of a double. */
double value_real(int32_t dtype, int64_t kept);
/* Keeps the elements of the outputs, where they follow from known ones of the inputs (fold.c). */
WEFT_MUST_USE weft_status infer_fold_values(infer *i);
/* Input `index` (flattened) as one known real. */
bool infer_one_real(const infer *i, uint32_t index, double *out);

/* Schema indices of slots; -1 if the row has none of that name. */
int schema_input(const op_schema *s, const char *slot_name);
int schema_output(const op_schema *s, const char *slot_name);
static inline size_t infer_nin(const infer *i, int s) {
    return i->in_first[s + 1] - i->in_first[s];
}
bool infer_has(const infer *i, const char *input_slot); /* whether the op has arguments there */
static inline size_t infer_nout(const infer *i, int s) {
    return i->out_first[s + 1] - i->out_first[s];
}

#endif

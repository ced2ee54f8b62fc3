/* term.h: what a program computes, as hash-consed terms: two terms of one table are equal iff their numbers are.
 *
 * A term is a head (what is done, with everything that is known before the run) over arguments that are terms with
 * rational factors. Terms as read from a program have no factors; normal forms (normal.c) do. A table only grows, and
 * the arguments of a term have smaller numbers than the term. */
#ifndef PROOF_EQUIVALENCE_TERM_H
#define PROOF_EQUIVALENCE_TERM_H

#include "base/types.h"
#include "ops/collectives.h"
#include "proof/equivalence/factor.h"

typedef enum head_kind {
    HEAD_INPUT,     /* a persistable or feed at the start of the step; names a var */
    HEAD_UNDEFINED, /* bytes that nothing wrote: padding, a member without a producer */
    HEAD_UNKNOWN,   /* equal to nothing else: what cannot be modelled */
    HEAD_OUTER,     /* a var outside of a block, as that block sees it */
    HEAD_RANDOM,    /* the random numbers of one op: its type, output and turn, as the executor seeds it */
    HEAD_BODY,      /* what a block leaves in the vars around it */
    HEAD_OPENED,    /* what a collective gives, while ranks are read apart: which one, and which output */
    HEAD_TOGETHER,  /* the same as a function of what the members of its ring have */
    HEAD_OP,        /* an op's inputs, slot by slot; its outputs are HEAD_OUT of it */
    HEAD_OUT,
    HEAD_FLAT,    /* arguments one after another, as elements: at these offsets, with undefined gaps */
    HEAD_PART,    /* a range of elements */
    HEAD_BOX,     /* a box of the argument, of what ranks hold */
    HEAD_PADDED,  /* the argument with zeros behind it along one dimension, of what ranks hold */
    HEAD_FILLED,  /* the same with something else behind it */
    HEAD_STRIDED, /* elements of the argument, in strides: of what ranks hold, moved */
    HEAD_RESHAPE, /* the same elements under other extents */
    HEAD_SELECT,  /* args: condition, value where it holds, value where not */
    HEAD_CAST,
    HEAD_SCALE,     /* times number, no bias */
    HEAD_FILL,      /* every element is number */
    HEAD_REDUCE,    /* all-reduce over a ring */
    HEAD_SUM,       /* in order */
    HEAD_ADD,       /* of normal forms: in no order, equal terms merged */
    HEAD_VIEW_WRITE /* a base after a write through a view of it */
} head_kind;

/* Of an argument in its op. A factor is what the gradient of a product, or of a quotient, multiplies or divides by. */
enum { ROLE_FIXED, ROLE_LINEAR, ROLE_TYPE_ONLY, ROLE_FACTOR };

typedef struct head {
    head_kind kind;
    const name *key;
    const char *label;       /* for people */
    const op_schema *schema; /* HEAD_OP: NULL if not known */
    weft_op *op;             /* HEAD_OP: the first of its kind, for attrs and slots, while that program lives */
    const uint8_t *roles;    /* HEAD_OP: an argument's */
    uint32_t nargs;          /* HEAD_OP */
    bool pulls;              /* HEAD_OP: factors of linear arguments come out; HEAD_TOGETHER: of each */
    int32_t dtype;           /* of the value: HEAD_INPUT, HEAD_OUT, HEAD_CAST, ... ; else WEFT_DTYPE_NONE */
    double number;           /* HEAD_SCALE, HEAD_FILL; HEAD_OP of scale: its factor */
    double bias;             /* HEAD_OP of scale: what is added behind the factor */
    bool divides;            /* HEAD_SCALE: by number */
    uint32_t unit;           /* HEAD_FILL: the head that fills with 1 */
    weft_reduce reduce;      /* HEAD_REDUCE */
    const int64_t *ints;     /* HEAD_REDUCE: ranks. HEAD_FLAT: offset, numel of each. HEAD_PART: offset, numel.
                                HEAD_BOX: offset, extent of each dimension. HEAD_STRIDED: offset; extent, stride
                                of each level. HEAD_PADDED: dimension, extent. HEAD_FILLED: with what too.
                                HEAD_RESHAPE: dims. HEAD_OUT: slot, index. HEAD_OPENED: collective, output */
    uint32_t nints;
    int64_t total; /* HEAD_FLAT: elements, -1: not known. HEAD_REDUCE: ranks in the ring, 0: not known */
} head;

typedef struct value {
    uint32_t term, factor; /* factor: number in the table's list; FACTOR_ONE */
} value;
enum { FACTOR_ONE = 0, TERM_NONE = UINT32_MAX };

typedef struct term {
    uint32_t head, first, nargs;
    uint32_t height; /* of the term as a tree */
    int32_t dtype;
    int32_t ndim;  /* -1: not known */
    uint32_t dims; /* into table->dims: ndim, extents; 0: some are not known */
} term;

typedef struct terms {
    weft_context *context;
    arena arena;
    interner keys, symbols; /* symbols: names of what leaves programs */
    head *heads;            /* by key->id */
    size_t nheads, heads_capacity;
    term *items;
    size_t count, capacity;
    value *args;
    size_t nargs, args_capacity;
    hash_table table; /* of terms, by head and arguments */
    factor *factors;  /* few: a linear search */
    size_t nfactors, factors_capacity;
    int64_t *dims;
    size_t ndims, dims_capacity;
    buffer key;          /* of the head that is being made */
    const mesh **meshes; /* of the programs: which rings make a grid */
    size_t nmeshes, meshes_capacity;
    int64_t odd; /* product of ring sizes without powers of two */
    uint64_t nunknown;
} terms;

WEFT_MUST_USE weft_status terms_init(terms *t, weft_context *context);
void terms_fini(terms *t);

static inline const head *term_head(const terms *t, uint32_t id) {
    return &t->heads[t->items[id].head];
}
static inline const value *term_args(const terms *t, uint32_t id) {
    return &t->args[t->items[id].first];
}
static inline bool term_is(const terms *t, uint32_t id, head_kind kind) {
    return term_head(t, id)->kind == kind;
}
/* Until the table has another one. */
static inline const factor *value_factor(const terms *t, value v) {
    return &t->factors[v.factor];
}
static inline value value_of(uint32_t id) {
    return (value){id, FACTOR_ONE};
}
/* The extents of a term's value, *out_ndim of them; NULL: not known, or some are -1. */
const int64_t *term_dims(const terms *t, uint32_t id, size_t *out_ndim);
int64_t term_numel(const terms *t, uint32_t id); /* -1: not known */
/* What a reshape is of; anything else is itself. */
static inline uint32_t term_without_shape(const terms *t, uint32_t id) {
    return term_is(t, id, HEAD_RESHAPE) ? term_args(t, id)[0].term : id;
}

/* --- heads: fill in the struct but for `key`, write what tells it apart to t->key, finish ------------------------- */
buffer *head_begin(terms *t, head_kind kind);
void head_put_int(buffer *b, int64_t i);
void head_put_text(buffer *b, const char *bytes, size_t nbytes);
/* Copies what `h` points to when the head is new. */
WEFT_MUST_USE weft_status head_finish(terms *t, const head *h, uint32_t *out);

/* --- terms as they are written ------------------------------------------------------------------------------------ */
WEFT_MUST_USE weft_status term_make(terms *t, uint32_t head_id, const value *args, size_t nargs, int32_t dtype,
                                    size_t ndim, const int64_t *dims, uint32_t *out);
WEFT_MUST_USE weft_status factor_id(terms *t, const factor *f, uint32_t *out);

/* --- terms with what holds bit for bit (simple.c) ----------------------------------------------------------------- */
/* Of the label's name and whatever else, with nothing below. */
WEFT_MUST_USE weft_status term_leaf(terms *t, head_kind kind, const char *label, const shape *type, uint32_t *out);
WEFT_MUST_USE weft_status term_unknown(terms *t, const char *label, uint32_t *out);
WEFT_MUST_USE weft_status term_reshape(terms *t, value x, size_t ndim, const int64_t *dims, value *out);
/* `ranges`: offset and numel of each; joins neighbouring parts of one term. */
WEFT_MUST_USE weft_status term_flat(terms *t, const value *args, const int64_t *ranges, size_t nargs, int64_t total,
                                    value *out);
WEFT_MUST_USE weft_status term_part(terms *t, value x, int64_t offset, int64_t numel, value *out);
WEFT_MUST_USE weft_status term_select(terms *t, value condition, value a, value b, value *out);
WEFT_MUST_USE weft_status term_cast(terms *t, value x, int32_t dtype, value *out);
WEFT_MUST_USE weft_status term_scale(terms *t, value x, double number, bool divides, value *out);
WEFT_MUST_USE weft_status term_fill(terms *t, double number, const shape *type, value *out); /* of known extents */
/* The sum of constants, each repeated to the extents of `type`, where nothing is rounded. */
WEFT_MUST_USE weft_status term_fills_sum(terms *t, const value *args, size_t nargs, const shape *type, value *out,
                                         bool *out_is);
WEFT_MUST_USE weft_status term_reduce(terms *t, value x, weft_reduce reduce, const char *label, const int64_t *ranks,
                                      size_t nranks, value *out);
WEFT_MUST_USE weft_status term_sum(terms *t, const value *args, size_t nargs, int32_t dtype, value *out);
/* A term like `id` over other arguments (as many), with the rules of its kind. */
WEFT_MUST_USE weft_status term_again(terms *t, uint32_t id, const value *args, value *out);

/* --- normal forms (normal.c) -------------------------------------------------------------------------------------- */

/* REALS: equal over the real numbers, the same ranges met on the way. RANGE: factors move also past sums in fp16 and
 * past checks for infinities. */
typedef enum normal_mode { NORMAL_REALS, NORMAL_RANGE, NORMAL_MODES } normal_mode;

typedef struct normal {
    terms *terms;
    normal_mode mode;
    value *forms; /* by term; term TERM_NONE: not known yet */
    size_t nforms, capacity;
} normal;
void normal_init(normal *n, terms *t, normal_mode mode);
void normal_fini(normal *n);
/* The normal forms of all of `ids` and of what is below them become known. Linear in the terms made since. */
WEFT_MUST_USE weft_status normal_find(normal *n, const uint32_t *ids, size_t count);
static inline value normal_of(const normal *n, uint32_t id) {
    return n->forms[id];
}

/* --- printing (print.c) ------------------------------------------------------------------------------------------- */

/* The term as text, cut to a few levels and a few hundred bytes. */
void value_print(const terms *t, value v, buffer *out);
/* Walks down two different values to where they begin to differ. */
void value_difference(const terms *t, value a, value b, value *out_a, value *out_b);

#endif

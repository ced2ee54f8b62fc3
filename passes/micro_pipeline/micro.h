/* micro.h: what the files of micro_pipeline_tp share.
 *
 * A pair is a collective and the matrix products that it can be cut up with. A gather's: rows of `x` from all ranks,
 * one after another along `dim`, are the left operand of each product. A scatter's: the one product's rows are summed
 * over the ranks, of which each keeps its part of `dim`. Both are what torch's fused ops are defined to be. An
 * all-reduce's: of some of the one product's rows after others, each of the same collective. */
#ifndef PASSES_MICRO_PIPELINE_MICRO_H
#define PASSES_MICRO_PIPELINE_MICRO_H

#include "passes/access.h"
#include "passes/pass_manager.h"
#include "weft/cluster.h"

typedef enum micro_kind { MICRO_GATHER, MICRO_SCATTER, MICRO_REDUCE, MICRO_KINDS } micro_kind;

/* A matrix product that an op makes. */
typedef struct micro_term {
    weft_var *left, *right, *out;
    weft_var *bias; /* a row that is added to each row; NULL: none */
    bool trans_left, trans_right;
} micro_term;

/* How a product of all rows comes of products of chunks. */
typedef enum micro_role {
    MICRO_ROWS,    /* rows of it, each of the same right operand */
    MICRO_INNER,   /* their sum, each of some rows of the right operand: chunks are columns of the left one */
    MICRO_COLUMNS, /* scatter: columns of it, each of all rows and some columns of the right operand */
    MICRO_OUTER    /* their sum, each of two operands' rows, of which one is transposed: a weight's gradient */
} micro_role;

typedef struct micro_product {
    micro_role role;
    weft_op *op;       /* makes it, alone or with others */
    weft_op *before;   /* makes a matrix of its left operand; NULL: none */
    weft_op *after;    /* gives the product the left operand's leading extents again; NULL: none */
    const weft_var *a; /* gather: the operand that has all rows, behind `before` */
    weft_var *b;       /* the other operand, a matrix or a batch of them; of an outer product as many rows */
    bool trans;        /* it is transposed: not of an outer product */
    weft_var *bias;    /* added to each row, by the same op; NULL: none */
    weft_op *adds;     /* adds it behind the product instead, and rounds again; NULL: the product's op does */
    bool is_left;      /* outer product: the gathered operand is the transposed one */
    weft_var *out;     /* what others read */
} micro_product;

/* Dimensions in another order, and another type: done with the rank's own rows, or its sums, instead of with all. */
typedef struct micro_path {
    bool is_transposed, is_cast;
    int64_t perm[WEFT_MAX_RANK]; /* behind the path the i-th dimension is what was the perm[i]-th before it */
} micro_path;

enum { MICRO_RAISED = 32 };
typedef struct micro_pair {
    micro_kind kind;
    ring ring;                  /* a copy: its ranks are the program's */
    weft_op *collective, *wait; /* wait NULL: none */
    int64_t dim;
    bool is_scattered; /* reduce: each rank forms the sums of its part of the rows, which then go to all */
    bool exchanges; /* an all-to-all: a gather of what each rank has for this one, or a scatter that adds up nothing */
    weft_reduce reduce;
    weft_var *x;                 /* gather: the rank's rows. scatter: the left operand, of which `dim` counts */
    micro_path path;             /* between the collective and the products */
    bool is_merged;              /* the last two dimensions of `x` are one to the products: heads and their width */
    bool is_turned;              /* scatter: the left operand is the matrix `x` transposed */
    bool is_batched;             /* operands are batches of matrices, along the first of three dimensions */
    uint32_t ndim;               /* of `dims` */
    int64_t dims[WEFT_MAX_RANK]; /* of a product's left operand, a gather's of the rank's rows */
    int32_t dtype, sent;         /* of the products' operands; of what ranks send each other */
    int32_t summed;              /* of what is added up: wider where sums of 16-bit floats are rounded once */
    weft_var *whole;             /* gather: all rows. scatter: NULL */
    weft_var *result;            /* scatter: what others read */
    bool keeps_whole;            /* others read that */
    micro_product *products;
    size_t nproducts;
    micro_term *rest; /* what else their ops make: stays as it is */
    size_t nrest;
    weft_op **ops; /* that it is made of, in program order; a `before` is not, if others read what it makes */
    size_t nops, ops_capacity;
    int pieces;                    /* of the rows of a rank, or of an all-reduce of all rows */
    weft_op *raised[MICRO_RAISED]; /* what makes its operands too late, in program order: goes to its place first */
    size_t nraised;
    uint32_t place;                      /* the position before which it can stand */
    double serial_seconds, pair_seconds; /* predicted */
} micro_pair;

typedef enum micro_form { MICRO_CHUNKS, MICRO_FUSED } micro_form;

/* The rings on which messages between the ranks of a ring go, as micro_plan.h says. */
enum { MICRO_WAY_LANES = 3, MICRO_LANES = 2 * MICRO_WAY_LANES, MICRO_RANKS = 64, MICRO_TURNS = 4 };
typedef struct micro_lanes {
    int64_t ring, lanes[MICRO_LANES];
    uint64_t members[MICRO_LANES]; /* bits: those of the ring that use the lane, whose ring it is */
} micro_lanes;

/* Attrs of the ops that chunk plans are written as: what all have, or those of steps; then those of messages and
 * products. */
typedef enum micro_word {
    MICRO_TAG_PLAN,
    MICRO_TAG_CHUNK,
    MICRO_TAG_STEP,
    MICRO_TAG_ROLE,
    MICRO_DTYPE,
    MICRO_DYNAMIC_SHAPE,
    MICRO_PEER,
    MICRO_RING,
    MICRO_TRANS_X,
    MICRO_TRANS_Y,
    MICRO_WORDS
} micro_word;

typedef struct micro_pass {
    weft_pass_context *pass;
    weft_program *program;
    weft_block *block;
    arena *scratch;
    micro_form form;
    bool guards, strict_bits, fp32_sums;
    bool both_ways;        /* messages go both ways round a ring at once */
    bool scatters_reduces; /* all-reduces as a reduce-scatter and an all-gather */
    int64_t nsub;          /* chunks per shard */
    weft_cluster cluster;
    double least_gain; /* of the time as it is */
    double *seconds;   /* by position: what the ops before it compute */
    access_index index;
    weft_op **pair_of;   /* by position: the collective whose pair has that op; NULL: none */
    uint32_t *place_of;  /* by position of a collective that has a pair */
    uint32_t *raised_to; /* by position: 1 + the place to which the op goes for a pair; 0: it stays */
    uint32_t *seen;      /* by position: the last search that came by */
    uint32_t nsearches;
    micro_pair *pairs;
    size_t npairs, capacity;
    const name *words[MICRO_WORDS]; /* names of attrs; NULL: nothing was written */
    micro_lanes *lanes;
    size_t nlanes, lane_capacity;
    struct chunk_plan *made; /* one of each kind and member: pairs of a kind share its steps */
    size_t nmade, made_capacity;
} micro_pass;

/* Why a collective is left alone. */
typedef struct micro_refusal {
    weft_reason reason;
    const char *words; /* NULL: it is not */
} micro_refusal;

/* micro_match.c: the pair of a collective, or why there is none; *out_is_one false: not a candidate. */
WEFT_MUST_USE weft_status micro_match(micro_pass *m, weft_op *collective, micro_pair *out, micro_refusal *why,
                                      bool *out_is_one);
/* micro_place.c: where all of a pair can stand. */
WEFT_MUST_USE weft_status micro_place(micro_pass *m, micro_pair *pair, micro_refusal *why);
/* The op before which it is put: ops of pairs move or go. NULL: at the end. */
void micro_raise(micro_pass *m, const micro_pair *pair);
weft_op *micro_anchor(const micro_pass *m, const micro_pair *pair);
/* Whether what `reader` finds in the var depends on what `of` writes, through ops of block 0; true where that takes
 * long to tell. */
bool micro_depends(micro_pass *m, const weft_var *v, const weft_op *reader, const weft_op *of);
/* micro_fused.c: its ops stand together from then on, and say what they are. */
WEFT_MUST_USE weft_status micro_fuse(micro_pass *m, micro_pair *pair, size_t number);
/* micro_chunks.c: in their place, the ops of a chunk plan for one rank. */
WEFT_MUST_USE weft_status micro_write_chunks(micro_pass *m, micro_pair *pair, size_t number);

/* micro_guard.c: what a pair takes as it is and in chunks; `why` where it gains too little and the guard is on. */
WEFT_MUST_USE weft_status micro_guard_begin(micro_pass *m);
WEFT_MUST_USE weft_status micro_guard(micro_pass *m, micro_pair *pair, micro_refusal *why);

/* Rows in pieces of equal extent, the last of which may have fewer: how many, if so many are asked for. */
static inline int micro_pieces(int64_t asked, int64_t rows) {
    int64_t size = (rows + asked - 1) / asked;
    return (int)((rows + size - 1) / size);
}
static inline int64_t micro_piece_rows(int64_t rows, int64_t pieces, int64_t index) {
    int64_t size = (rows + pieces - 1) / pieces;
    return index + 1 < pieces ? size : rows - size * (pieces - 1);
}
/* The extents of a product are those of one operand but for the last: this one. */
static inline int64_t micro_columns(const micro_product *x) {
    return x->b->dims[x->b->ndim - (x->trans ? 2 : 1)];
}
/* Whether it is formed by adding up what chunks give. */
static inline bool micro_is_sum(const micro_product *x) {
    return x->role == MICRO_INNER || x->role == MICRO_OUTER;
}
static inline bool micro_has_role(const micro_pair *p, bool sums) {
    for (size_t k = 0; k < p->nproducts; k++)
        if (micro_is_sum(&p->products[k]) == sums) return true;
    return false;
}
static inline bool micro_is_dense(const weft_var *v) {
    if (!v || !v->block || v->kind != WEFT_DENSE_TENSOR || !v->has_tensor) return false;
    for (uint32_t i = 0; i < v->ndim; i++)
        if (v->dims[i] <= 0) return false;
    return true;
}
static inline bool micro_is_columns(const micro_pair *p) {
    return p->nproducts && p->products[0].role == MICRO_COLUMNS;
}
/* Whether the ranks' rows do not lie one after another in the left operand of a product. */
static inline bool micro_is_inner(const micro_pair *p) {
    for (int64_t i = 0; i < p->dim; i++)
        if (p->dims[i] > 1) return !micro_is_columns(p);
    return false;
}
/* The rows that a rank has as its part. */
static inline int64_t micro_rows(const micro_pair *p) {
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < p->ndim; i++) rows *= p->dims[i];
    bool is_part = p->is_scattered || (p->kind == MICRO_SCATTER && !micro_is_columns(p));
    return is_part ? rows / p->ring.nranks : rows;
}
/* Whether ranks send each other chunks, and so differ. */
static inline bool micro_sends(const micro_pair *p) {
    return p->kind != MICRO_REDUCE || p->is_scattered;
}
/* A chunk is cast beside its product, so that ranks send the smaller type. */
static inline bool micro_casts_chunks(const micro_pair *p) {
    return p->sent != p->dtype;
}
static inline bool micro_widens(const micro_pair *p) {
    return p->summed != (p->kind == MICRO_GATHER ? p->dtype : p->sent);
}
static inline bool micro_same_dims(const weft_var *a, const weft_var *b) {
    return a->ndim == b->ndim && (a->ndim == 0 || memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) == 0);
}
static inline int64_t micro_numel(const weft_var *v, uint32_t first, uint32_t end) {
    int64_t n = 1;
    for (uint32_t i = first; i < end; i++) n *= v->dims[i];
    return n;
}

#endif

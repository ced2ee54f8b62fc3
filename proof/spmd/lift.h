/* lift.h: what the values of ranks are to the values of the serial program. */
#ifndef PROOF_SPMD_LIFT_H
#define PROOF_SPMD_LIFT_H

#include "proof/equivalence/read.h"
#include "proof/spmd/placed.h"

enum { LIFT_AXES = 4 }; /* of the ranks' grid */

/* How axes of the grid, the major one first, cut a dimension into parts that differ. */
typedef struct partition {
    int axes[LIFT_AXES], naxes;
    int64_t extent[LIFT_RANKS], total; /* by the coordinates along these axes */
} partition;

/* Ways to split a dimension that are no even parts. */
typedef struct partitions {
    size_t count;
    partition items[LIFT_PARTITIONS];
    int64_t run[LIFT_RUNS]; /* 0: none */
} partitions;

typedef enum lift_state {
    LIFT_PENDING, /* waits for what another rank sends */
    LIFT_KNOWN,
    LIFT_UNKNOWN
} lift_state;

typedef struct lifted {
    lift_state state;
    uint32_t term; /* the serial value; LIFT_UNKNOWN: where it began */
    union {
        const char *reason; /* LIFT_UNKNOWN */
        uint64_t family;    /* of partial values: how they were made; only those of one family add up */
    };
    axis_placement placed[LIFT_AXES];
} lifted;

/* The ranks as a row-major array: the mesh of all of them with the most axes, or a line. */
typedef struct grid {
    size_t naxes;
    int64_t extent[LIFT_AXES];
    int64_t (*at)[LIFT_AXES]; /* by rank */
} grid;

/* An op's term that is a strided view of another. */
typedef struct named_view {
    uint32_t key, term; /* key: the view's own term */
} named_view;

/* A value, and a concatenation of the serial program that it is in: elements of it are. */
typedef struct flat_member {
    uint32_t member, flat;
} flat_member;

/* What becomes of a rank's value that by itself is no serial value: of a mean over its part of the elements once it is
 * multiplied by own / total; of a maximum, minimum or product of its part once ranks along the axes reduce it. */
typedef struct kept_share {
    size_t rank;
    uint32_t id;
    lifted all;
    int64_t own, total; /* 0: no mean */
    uint32_t axes;
    int reduce;
} kept_share;

#define LIFT_MANY UINT32_MAX
typedef struct lifter {
    terms *t;
    normal *reals;
    weft_program *serial;
    const weft_program *const *programs; /* by rank */
    const outputs *outputs;              /* by rank */
    const outputs *serial_outputs;
    uint32_t *first_written, *next_written; /* by serial var, by place in what is written: 1 + the place; 0: none */
    size_t nranks;
    grid grid;
    partitions *uneven;
    lifted **known;    /* by rank and term */
    uint8_t **wanted;  /* by rank and term: some output or collective needs it */
    uint32_t **record; /* by rank and term: 1 + its collective; 0: none */
    uint32_t **rows;   /* by rank and term: 1 + the one slice of it that is needed; LIFT_MANY: several are */
    uint32_t **told;   /* by rank and term: 1 + the var with a placement that holds it; 0: none does */
    uint32_t **turn;   /* by rank and collective: how many of its ring come before */
    size_t nserial;    /* terms of the serial program: the first ones */
    size_t nterms;     /* of the programs; lifted terms are more */
    named_view *views; /* by key */
    size_t nviews, views_capacity;
    flat_member *flats; /* by member */
    size_t nflats;
    kept_share *shares; /* rank by rank, in each round */
    size_t nshares, shares_capacity;
    hash_table shapes;     /* a serial term of each shape */
    int64_t elements_left; /* that may still be listed one by one: time stays linear */
    bool uniform;          /* all ranks have the same collectives of the same values */
    bool pending;          /* some value waits */
    bool moved;            /* some value became known in this round */
    int64_t rows_of_rank;  /* a multiple of it is an extent that comes from a rank's rows; 0: nothing says so */
    bool reorders;         /* some var lists axes in another order than the grid has them */
    bool random_rows; /* some op drew random numbers for its part: the serial masks, if the ranks draw their parts */
} lifter;

/* Finds out about all that `rank` computes; to be repeated while values are pending and there is progress. */
WEFT_MUST_USE weft_status lift_rank(lifter *l, size_t rank);

static inline lifted lift_unknown(uint32_t where, const char *reason) {
    return (lifted){.state = LIFT_UNKNOWN, .term = where, .reason = reason};
}
static inline lifted lift_replicated(uint32_t term_id) {
    return (lifted){.state = LIFT_KNOWN, .term = term_id}; /* zeroed placements are replicated */
}
/* Of extents that a program declares; -1: too large. */
static inline int64_t lift_product(int64_t a, int64_t b) {
    int64_t n;
    return __builtin_mul_overflow(a, b, &n) ? -1 : n;
}
static inline bool lift_is_open(const lifted *x) {
    return x->state != LIFT_KNOWN;
}

/* lift_nest.c. The axes that shard dimension `d`, the major ones first; returns how many, -1: into unequal parts. */
int lift_nest(const lifter *l, const lifted *x, int d, int *out_axes);
void lift_put_nest(lifted *x, int d, const int *axes, int n);
/* Shards what the rank has of it by more axes. False: it is in unequal parts. */
bool lift_nest_deeper(const lifter *l, uint32_t axes, int d, lifted *x);
/* Whether the parts along `axes` are the innermost ones, in the grid's order: they lie next to one another. */
bool lift_is_innermost(const lifter *l, const lifted *x, uint32_t axes, int d);
/* The next order of n axes, by number; false: it was the last. */
bool lift_next_order(int *axes, int n);

/* lift_parts.c */
bool lift_is_sharded_at(const lifter *l, const lifted *x, int d); /* along some axis, evenly or not */
bool lift_is_uneven(const lifter *l, const lifted *x);            /* along some axis */
/* Of something that has one. */
const partition *lift_partition(const lifter *l, axis_placement placed);
/* Whether the axis is the major one of its partition: what is done once for all of them is done there. */
bool lift_leads(const lifter *l, axis_placement placed, size_t axis);
/* Which part the rank has along these axes, the major one first. */
int64_t lift_part_of_axes(const lifter *l, size_t rank, const int *axes, int n);
/* The split into these extents along the axes; 0: there are too many. */
int lift_find_partition(const lifter *l, const int *axes, int naxes, const int64_t *extent);
/* Parts of parts, each divided and rounded up: the last ones may be empty. At most LIFT_RANKS. */
void lift_ceil_parts(const lifter *l, const int *axes, int naxes, int64_t total, int64_t *out);
/* Shards dimension `d` along the axes into these extents. False: there are too many partitions. */
bool lift_put_parts(const lifter *l, int d, const int *axes, int naxes, const int64_t *extent, lifted *out);
/* Extents that the vars of that name have at dimension `d`, by place along the axes; returns their sum, -1: ranks that
 * stand at one place along these differ. */
int64_t lift_declared_parts(const lifter *l, const char *var, size_t d, const int *axes, int naxes, int64_t *out);
/* The split into runs of that length; 0: there are too many. */
int lift_find_run(const lifter *l, int64_t run);
/* The length of those runs. */
int64_t lift_run(const lifter *l, axis_placement placed);
/* Where the rank's part of a partition begins, and its extent. */
int64_t lift_partition_part(const lifter *l, axis_placement placed, size_t rank, int64_t *out_extent);

/* lift_grid.c */
WEFT_MUST_USE weft_status lift_grid_init(lifter *l, arena *memory);
int64_t lift_extent(const lifter *l, uint32_t axes);       /* ranks along these axes */
bool lift_is_replicated(const lifter *l, const lifted *x); /* along all axes: the serial value itself */
bool lift_is_partial(const lifter *l, const lifted *x);    /* along some axis */
uint32_t lift_axes_with(const lifter *l, const lifted *x, axis_placement placed);
bool lift_placed_alike(const lifted *a, const lifted *b); /* along all axes */
/* Which part along `axes` the rank holds. */
int64_t lift_part(const lifter *l, size_t rank, uint32_t axes);
/* The axes that the placement of a var says shard dimension `d` of it, major first; returns how many. */
int lift_placed_axes(const lifter *l, const weft_var *v, size_t d, int *out_axes);
/* Those along which it says that the var is partial. */
uint32_t lift_axes_of_sums(const lifter *l, const weft_var *v);
/* How a rank holds a var from outside; NULL, or the reason why that is not known. */
const char *lift_declared(const lifter *l, const weft_var *serial, const weft_var *own, lifted *out);
/* The axes along which the ring of `rank` for that op lies, which must be all ranks along these; false: it does not. */
bool lift_ring_axes(const lifter *l, size_t rank, const weft_op *op, uint32_t *out_axes);
/* Whether that ring lists its ranks in the order of the parts that they hold. */
bool lift_ring_in_order(const lifter *l, size_t rank, const weft_op *op, uint32_t axes);
/* Extents of the serial value of something of which the rank's are `own`. */
void lift_extents(const lifter *l, const lifted *x, size_t ndim, const int64_t *own, int64_t *out);
/* The parts of `x` along its dimensions, as those of the same elements under other extents; false: no such. */
bool lift_reshape(const lifter *l, const lifted *x, size_t ndim, const int64_t *dims, size_t new_ndim,
                  const int64_t *new_dims, lifted *out);

/* A part along one axis is that along another too where the rank has the same of both: makes `x` lie so along `axis`,
 * if it does along such an axis behind it, and along that as it did here. */
void lift_swap_axes(const lifter *l, size_t rank, size_t axis, axis_placement wanted, lifted *x);

/* lift_family.c */
WEFT_MUST_USE weft_status lift_times(lifter *l, uint32_t x, int64_t number, bool divide, uint32_t *out);
/* Names the family of what is made of these: equal ones were made alike. */
void lift_name_family(const lifter *l, const lifted *args, size_t n, lifted *made);

/* lift_members.c. Finds out which terms come from which collectives. */
WEFT_MUST_USE weft_status lift_record(lifter *l, size_t rank, arena *memory);
/* What a rank gives alike to several collectives is one term. Behind lift_record of all ranks: it is not known where
 * others give to one of them other things. */
void lift_drop_repeats(lifter *l, size_t rank);
/* The collective of `rank` that belongs to number `at` of `self` on the same ring; NULL: there is none. */
const collective *lift_partner(const lifter *l, size_t self, size_t at, size_t rank);
/* What member `rank` gives to the collective that made `id` on `self`, on a ring that lies along the same axes;
 * TERM_NONE: nothing that goes with it. */
uint32_t lift_members_argument(const lifter *l, size_t self, uint32_t id, uint32_t axes, size_t rank);
/* That collective of `rank`; NULL: there is none. */
const collective *lift_members_collective(const lifter *l, size_t self, uint32_t id, uint32_t axes, size_t rank);
/* The first result of that collective of `rank`; TERM_NONE: there is none. */
uint32_t lift_members_result(const lifter *l, size_t self, uint32_t id, uint32_t axes, size_t rank);
/* The first output of the collective that has output `id`, by which ranks find what belongs together; TERM_NONE: it is
 * not recorded. */
uint32_t lift_recorded_output(const lifter *l, size_t rank, uint32_t id);
bool lift_is_member(const lifter *l, size_t self, size_t rank, uint32_t axes); /* they differ along `axes` only */
typedef enum lift_agreement { MEMBERS_WAIT, MEMBERS_AGREE, MEMBERS_DIFFER } lift_agreement;
/* Whether all ranks that differ from `self` along `axes` only give the like of `x`, over rings along the same axes. */
lift_agreement lift_members_agree(const lifter *l, size_t self, uint32_t id, uint32_t axes, const lifted *x);

/* lift_flat.c: a HEAD_FLAT of values of which ranks have parts; *out stays where these do not go together. `scratch`:
 * room for the values. */
WEFT_MUST_USE weft_status lift_flat_of_parts(lifter *l, uint32_t id, const lifted *args, size_t n, value *scratch,
                                             lifted *out);

/* A reshape of such to rows behind one another, of which ranks have columns along any axes. */
WEFT_MUST_USE weft_status lift_rows_of_parts(lifter *l, size_t rank, uint32_t id, bool *out_is, lifted *out);

/* lift_collectives.c */
WEFT_MUST_USE weft_status lift_reduce(lifter *l, size_t rank, uint32_t id, lifted *out);
/* An op that the schema calls a collective; false: it is not followed. */
WEFT_MUST_USE weft_status lift_collective(lifter *l, size_t rank, uint32_t id, weft_op *op, lifted *out);
/* lift_sums.c: a sum over the ranks along `axes` of what is not the like of one another. */
WEFT_MUST_USE weft_status lift_sum_of_different(lifter *l, size_t rank, uint32_t id, uint32_t axes, lifted *out);

/* lift_boxes.c. A box of `of`, whose extents are known: offset and extent of each dimension. */
typedef struct box {
    uint32_t of;
    size_t ndim;
    int64_t whole[WEFT_MAX_RANK], offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
} box;
WEFT_MUST_USE weft_status lift_make_box(terms *t, const box *b, value *out);
/* The term as a box of another, of which it may be a slice, rows, or one of the equal parts of a split. */
bool lift_as_box(const terms *t, uint32_t id, box *out);
/* Boxes that lie one after another along `axis`, as one; false: they do not. */
bool lift_join(const box *boxes, size_t n, size_t axis, box *out);
/* An all-gather of parts along any dimensions; a slice that is the rank's part of what all have. */
WEFT_MUST_USE weft_status lift_gather_boxes(lifter *l, size_t rank, uint32_t id, const weft_op *op, const lifted *x,
                                            bool *out_is, lifted *out);
/* Whether the rank's part of an extent along the axes is this one; *out: how they cut dimension `d` then. */
bool lift_is_part_along(const lifter *l, size_t rank, uint32_t axes, int64_t extent, int64_t offset, int64_t own, int d,
                        axis_placement *out);
/* What all ranks know to be a slice of a value, as the rank's part of it along dimension `d` and the axis. That is as
 * true where the bounds are those of the part; false: they are not. */
WEFT_MUST_USE weft_status lift_box_as_part(lifter *l, size_t rank, size_t axis, size_t d, lifted *x, bool *out_is);
bool lift_takes_part(const lifter *l, size_t rank, uint32_t id, const weft_op *op, const lifted *x, lifted *out);
/* Rows that are the rank's part of what ranks along some axes all have. */
WEFT_MUST_USE weft_status lift_own_rows(lifter *l, size_t rank, uint32_t id, bool *out_is, lifted *out);

/* The bounds of a slice of `b->whole`, clamped; false: they are not known. */
bool lift_slice_bounds(const weft_op *op, box *b);

/* lift_rows.c. Finds out what the serial program puts one behind another. */
WEFT_MUST_USE weft_status lift_list_flats(lifter *l, arena *memory);
/* Rows of such, as the rank's part of it along the axis, where the serial program reads it as argument `arg` of what
 * `op` is of the rank; *out_is false: they are none. */
WEFT_MUST_USE weft_status lift_rows_as_part(lifter *l, size_t rank, size_t axis, uint32_t op, size_t arg, lifted *x,
                                            bool *out_is);

/* lift_views.c. Finds out which views the serial program makes. */
WEFT_MUST_USE weft_status lift_name_views(lifter *l, arena *memory);
/* Tells what the rank holds as `id` as part of the value that is nearest to what was moved. */
WEFT_MUST_USE weft_status lift_settle(lifter *l, uint32_t id, lifted *x);
/* What a move, or a concatenation, makes of what the rank holds, where no other rule says; *out stays where it does
 * not fall into levels. */
WEFT_MUST_USE weft_status lift_move(lifter *l, size_t rank, uint32_t id, lifted *out);

/* lift_told.c. Which vars with a placement hold which terms of the rank. */
void lift_note_told(const lifter *l, size_t rank);
/* Takes what is moved for the part that its var's placement says, if it is that. */
WEFT_MUST_USE weft_status lift_told(lifter *l, size_t rank, uint32_t id, lifted *x);
/* What values the vars of the serial program get. */
WEFT_MUST_USE weft_status lift_note_serial(lifter *l, const outputs *o, arena *memory);
/* Argument `at` of the op that makes `id`, by the placement of the var that the op reads, and as part of what the like
 * of it in the serial program reads; *out_is: it is that, and was known as something else or not at all. */
WEFT_MUST_USE weft_status lift_as_read(lifter *l, size_t rank, uint32_t id, size_t at, bool *out_is, lifted *x);

/* lift_lists.c: an output of an all-to-all, an all-gather or a scatter of lists. */
WEFT_MUST_USE weft_status lift_lists(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out);

/* lift_padded.c: parts that are filled up with zeros, so that all are as long. What a border of zeros makes of what the
 * rank has; *out stays where that is neither such a part nor a part among zeros. */
WEFT_MUST_USE weft_status lift_pad(lifter *l, size_t rank, uint32_t id, lifted *out);
/* A part that was filled up, cut; *out stays where it is none. */
WEFT_MUST_USE weft_status lift_cut(lifter *l, size_t rank, uint32_t id, lifted *out);
/* A term like `id`, of one argument, over another one. Multiples and casts of what is filled up are filled up. */
WEFT_MUST_USE weft_status lift_below_padding(lifter *l, uint32_t id, uint32_t argument, uint32_t *out);
/* What a rank gives to an op that works on equal parts of dimension `d`: its part of a value that is cut unevenly along
 * one axis, which is full, or filled up. Then *x is the part of the value, and the extent of all parts is returned;
 * else 0. `least`: it must be filled up with what counts for nothing beside any number, in a maximum or in a sum of
 * powers. */
int64_t lift_filled_part(lifter *l, size_t rank, uint32_t id, size_t d, bool least, lifted *x);
/* What such an op leaves where the rank's part is shorter: nothing is known of what stands behind it. */
WEFT_MUST_USE weft_status lift_fill_part(lifter *l, size_t rank, size_t d, lifted *x);
/* Tells a part of what is filled up that has none of the zeros as part of the value; the other way round. */
WEFT_MUST_USE weft_status lift_settle_full(lifter *l, size_t rank, uint32_t id, lifted *x);
WEFT_MUST_USE weft_status lift_full_parts(lifter *l, size_t rank, uint32_t id, bool *out_are, lifted *x);

/* lift_pieces.c: an all-to-all or an all-gather of pieces of any size; *out stays where they are not followed. */
WEFT_MUST_USE weft_status lift_pieces(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out);

/* Rows that the op gives to member `place` of `n`, of so many, and where they begin; -1: that is not known. */
int64_t lift_rows_given(const weft_op *op, int64_t all, size_t n, size_t place, int64_t *out_first);

/* lift_exchange.c: an all-to-all; a slice of rows of what is sharded at dimension 0. */
WEFT_MUST_USE weft_status lift_all_to_all(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out);
WEFT_MUST_USE weft_status lift_slice(lifter *l, uint32_t id, const lifted *x, lifted *out);
/* The same under other extents, where these make the slices of ranks those of one value along any dimension. */
WEFT_MUST_USE weft_status lift_shaped_slice(lifter *l, size_t rank, uint32_t id, bool *out_is, lifted *out);

/* lift_table.c. The value of a slot's argument; NULL: it has none. */
const lifted *lift_argument(const weft_op *op, const lifted *args, const char *slot_text);
/* The output `id` of an op over these values. The serial program's op computes it that does the same with all of what
 * ranks have parts of; of *made the term, TERM_NONE: there is none. */
typedef struct serial_op {
    const char *type;
    /* whether its attrs are those that belong to `own` */
    bool (*fits)(const struct serial_op *like, const weft_op *serial, const weft_op *own);
    const char *attr; /* of `fits`: the attr that is so many times that of `own`, */
    int element;      /* or this element of it; -1: it is no list */
    int64_t times;
} serial_op;
WEFT_MUST_USE weft_status lift_as_serial(lifter *l, uint32_t id, const weft_op *op, const lifted *args,
                                         const serial_op *like, lifted *made);
/* For `fits`: all attrs that the serial op can have are the same, but for like->attr. */
bool lift_has_like_attrs(const serial_op *like, const weft_op *serial, const weft_op *own);
/* All but that one; NULL: all. */
bool lift_has_attrs_but(const char *but, const weft_op *serial, const weft_op *own);
/* c_embedding and its gradient. */
WEFT_MUST_USE weft_status lift_table(lifter *l, size_t rank, uint32_t id, const weft_op *op, const lifted *args,
                                     size_t n, lifted *out);

/* lift_classes.c: c_softmax_with_cross_entropy, which communicates, and its gradient. */
WEFT_MUST_USE weft_status lift_classes(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out);
WEFT_MUST_USE weft_status lift_classes_grad(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *args,
                                            size_t n, lifted *out);

/* lift_batch.c: c_batch_norm, c_aten_batch_norm and their gradients, which communicate. */
WEFT_MUST_USE weft_status lift_batch(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out);

/* lift_shares.c: means over parts that differ. `all` is what becomes of it. */
WEFT_MUST_USE weft_status lift_note_share(lifter *l, size_t rank, uint32_t id, const lifted *all, int64_t own,
                                          int64_t total);
/* A multiple of what is not known; *out stays where it is no mean times its share. */
WEFT_MUST_USE weft_status lift_take_share(lifter *l, size_t rank, uint32_t id, lifted *out);
/* What a loss of the ranks adds up, divided by the weights that it adds up: the serial program's mean, if it has one;
 * these weights are those of the mean, too. *made stays where it is neither. */
WEFT_MUST_USE weft_status lift_mean_of_losses(lifter *l, uint32_t id, const weft_op *op, const lifted *args,
                                              lifted *made);
/* Maxima, minima and products of parts. What a reduce along the axes makes of them; *out stays where `own` is no such
 * of all members. */
WEFT_MUST_USE weft_status lift_note_fold(lifter *l, size_t rank, uint32_t id, const lifted *all, uint32_t axes,
                                         int reduce);
void lift_take_fold(const lifter *l, size_t rank, uint32_t id, uint32_t axes, int reduce, lifted *out);

/* lift_fills.c. A constant: every part of it is a smaller one, so that it may be taken for a part along any dimension.
 */
WEFT_MUST_USE weft_status lift_fill(lifter *l, uint32_t id, lifted *out);
/* Of a constant what is moved, or has more of its number around it, is one. */
WEFT_MUST_USE weft_status lift_settle_fill(lifter *l, lifted *x);
/* The constant `x` as part along dimension `d` and `axis`; false: it is none, or sharded already. */
WEFT_MUST_USE weft_status lift_fill_as_part(lifter *l, size_t axis, size_t d, lifted *x, bool *out_is);
/* The same as the rank's part where parts differ as `like` says. */
WEFT_MUST_USE weft_status lift_fill_as_unequal_part(lifter *l, size_t rank, axis_placement like, size_t d, lifted *x,
                                                    bool *out_is);

/* lift_ops.c: the op behind output `id`. */
WEFT_MUST_USE weft_status lift_function(lifter *l, size_t rank, uint32_t id, lifted *out);

/* lift_dims.c. An op of whose inputs some are sharded along an axis. */
typedef struct sharded_inputs {
    weft_op *op; /* or one with the same attrs and slots, over other values */
    const terms *t;
    const lifted *args; /* in the order of FOR_EACH_ARG */
    const value *own;   /* the rank's terms of them */
    size_t nargs;
    size_t axis;
    size_t out_index; /* of the output among the arguments of its slot */
    arena *memory;    /* for the call */
} sharded_inputs;
/* How output `id` of the op is placed along the axis, by the op's factor table. */
enum { MEAN_EVEN = -1 };
typedef struct sharded_result {
    bool is_known;
    axis_placement placed;
    int64_t mean; /* 0, or a mean over fewer elements than the serial program's is in it: MEAN_EVEN by the axis's
                     extent, else over so many of the dimension that is split by `split` */
    int split;
    const char *attr; /* NULL, or that which counts parts: the serial op's is larger by the axis's extent; */
    int element;      /* of it, where it is a list; else -1 */
    bool folds;       /* each rank has the `reduce` of its part, that of all is the serial value */
    int reduce;
} sharded_result;
WEFT_MUST_USE weft_status sharded_output(const sharded_inputs *in, uint32_t id, sharded_result *out);

#endif

/* builder.h: a plan in the making. Each step of weft_plan_create fills its part; what steps share is declared here. */
#ifndef PLAN_BUILDER_H
#define PLAN_BUILDER_H

#include "ops/view.h"
#include "plan/plan.h"

enum {
    PLAN_ALIGNMENT = 64,   /* of buffers, in bytes: a cache line, and the widest vector */
    PLAN_MAX_STREAMS = 32, /* each is a thread of every rank */
    PLAN_MAX_GUARDS = 2    /* conditional blocks within each other: what an instruction has room for */
};
#define PLAN_MAX_NBYTES (INT64_C(1) << 46) /* of a space: more is taken for a mistake */

/* A conditional_block that is being flattened. */
typedef struct plan_frame {
    const weft_block *block; /* the one that it runs */
    int32_t parent;          /* the enclosing frame, or -1 */
    int32_t guard;           /* value of its condition; set when the planner reaches the op */
} plan_frame;

/* An op in the order in which it would run. */
typedef struct plan_step {
    weft_op *op;
    int32_t op_index; /* of the op, or of the conditional_block around it, in block 0 */
    int32_t frame;    /* the innermost conditional around it, or -1 */
    int32_t opens;    /* conditional_block: the frame that it opens; else -1 */
} plan_step;

/* One instruction touches one value. */
typedef struct plan_access {
    int32_t value;
    bool is_write;
} plan_access;

/* A buffer of its own: a value that is no view. Values in place of one another share a root. */
typedef struct plan_root {
    bool persistent;
    bool has_views;
    bool has_members; /* slices that no view op made: a bucket */
    int64_t nbytes;
    uint32_t first_leaf, nleaves; /* ranges.c: its cuts */
    uint32_t nodes;               /* ranges.c: its first node */
} plan_root;

typedef struct given_order given_order; /* given.c */

typedef struct plan_builder {
    weft_plan *plan;
    weft_context *context;
    weft_program *program; /* the plan's own */
    const weft_plan_options *options;
    arena scratch;
    interner names; /* of values */
    shape_env env;

    plan_step *steps; /* flatten.c */
    size_t nsteps, step_capacity;
    plan_frame *frames;
    size_t nframes, frame_capacity;

    int32_t *value_of_var; /* by var id; -1: none yet */
    plan_value *values;    /* while planning, a view's offset is relative to its parent */
    size_t nvalues, value_capacity;
    weft_op **view_ops; /* by value: the op that makes it a byte range of its input; NULL: none */
    size_t view_op_capacity;
    uint64_t *last_write; /* by root among the first nviewed values: the mark of the last op that writes any of it */
    size_t nviewed;
    bool *is_kept; /* by root among these: a bucket that is kept because it is fetched */
    plan_instr *instrs;
    size_t ninstrs, instr_capacity;
    const char **streams;
    size_t nstreams, stream_capacity;
    int32_t *stream_length; /* instructions on each stream so far; PLAN_MAX_STREAMS of them */

    int32_t *root_of;  /* by value: the value whose buffer holds it (roots.c) */
    int64_t *begin_of; /* by value: its first byte in that buffer */
    plan_root *roots;  /* by value; meaningful where root_of[v] == v */

    plan_access *accesses;  /* accesses.c */
    uint32_t *first_access; /* ninstrs + 1 */

    given_order *given; /* the order that options ask for; NULL: waits are derived from accesses */

    int32_t *clocks; /* hazards.c: ninstrs x nstreams: instructions of each stream completed before this one starts */
} plan_builder;

/* The steps of weft_plan_create, in order; one file each. */
WEFT_MUST_USE weft_status plan_unroll(plan_builder *b);        /* unroll.c: loops, tensor arrays */
WEFT_MUST_USE weft_status plan_infer_types(plan_builder *b);   /* types.c */
WEFT_MUST_USE weft_status plan_flatten(plan_builder *b);       /* flatten.c */
WEFT_MUST_USE weft_status plan_take_order(plan_builder *b);    /* given.c: steps as a given order has them */
WEFT_MUST_USE weft_status plan_make_views(plan_builder *b);    /* views.c: slices of buckets and of inputs */
WEFT_MUST_USE weft_status plan_make_instrs(plan_builder *b);   /* instrs.c */
WEFT_MUST_USE weft_status plan_keep_values(plan_builder *b);   /* values.c: persistables, feeds and fetches asked for */
WEFT_MUST_USE weft_status plan_find_roots(plan_builder *b);    /* roots.c */
WEFT_MUST_USE weft_status plan_list_accesses(plan_builder *b); /* accesses.c */
WEFT_MUST_USE weft_status plan_advance_updates(plan_builder *b); /* updates.c: behind their gradients */
WEFT_MUST_USE weft_status plan_order_accesses(plan_builder *b);  /* hazards.c: clocks and waits */
WEFT_MUST_USE weft_status plan_lay_out(plan_builder *b);         /* memory.c */

/* types.c: every op infers, from the final types of its inputs, the final types of its outputs. */
WEFT_MUST_USE weft_status plan_check_op_types(shape_env *env, weft_op *op, arena *scratch);

/* values.c. The value of a var, made if it is new; an error in terms of `op` if its type is not known. */
WEFT_MUST_USE weft_status plan_value_of(plan_builder *b, const weft_op *op, const weft_var *v, int32_t *out_value);
/* A value that is no var, typed like `like`, named STEM or, where that is taken, STEM_n. */
WEFT_MUST_USE weft_status plan_new_value(plan_builder *b, const char *stem, const shape *like, int32_t *out_value);
/* fetches.c: the value "fetch.COL" of a fetch op; before the first, which buckets are kept whole for them. */
WEFT_MUST_USE weft_status plan_find_kept_buckets(plan_builder *b);
WEFT_MUST_USE weft_status plan_take_fetch(plan_builder *b, const plan_step *step);

/* The name that a view or extra value must have: an error if it is taken. */
WEFT_MUST_USE weft_status plan_name_taken(plan_builder *b, const weft_op *op, const char *stem);
/* Bytes of a tensor; false if an extent is unknown or the product overflows. */
bool plan_nbytes(const shape *s, int64_t *out_nbytes);
static inline bool plan_is_empty_name(const weft_var *v) {
    return name_is(v->name, "@EMPTY@");
}

/* roots.c. Where a value is found, following its parents. */
int32_t plan_find_root(const plan_builder *b, int32_t value, int64_t *out_begin);

/* The arguments of one side of an instruction: values in slot order. */
typedef struct plan_args {
    int32_t *values;
    uint32_t *first; /* nslots + 1 */
} plan_args;

/* op_views.c: outputs that are views of inputs. */
typedef struct plan_view {
    int32_t value, parent; /* value -1: the argument is empty */
    bool is_range;         /* it is a byte range of the parent; else the op's kernel materialises it */
    int64_t offset;        /* of that range, in bytes */
} plan_view;
/* Argument `index` of an output slot of which the schema says that it is a view. */
WEFT_MUST_USE weft_status plan_find_view(plan_builder *b, weft_op *op, const op_schema *schema, size_t output,
                                         size_t index, plan_view *out);
WEFT_MUST_USE weft_status plan_make_op_views(plan_builder *b, bool *out_any_copies);
/* parts.c: tensors that are stacked or taken apart along the outermost axis, as parts of one buffer where nobody can
 * tell; and whether those of `op` are, so that it is no instruction. */
WEFT_MUST_USE weft_status plan_place_parts(plan_builder *b);
bool plan_parts_are_placed(const plan_builder *b, const weft_op *op);
/* What a value is a view of by view ops, or itself. */
int32_t plan_base_of(const plan_builder *b, int32_t value);
/* Takes views that are byte ranges out of an instruction's outputs: kernels write the others. */
WEFT_MUST_USE weft_status plan_prune_views(plan_builder *b, weft_op *op, const op_schema *schema, plan_args *out);
/* Fills last_write, once all views have their places. */
WEFT_MUST_USE weft_status plan_note_last_writes(plan_builder *b);
/* copied_views.c: an error where something could distinguish a materialised view from a view. */
WEFT_MUST_USE weft_status plan_check_copied_views(plan_builder *b);

/* append.c, copies.c. Appends an instruction; arguments are copied. */
WEFT_MUST_USE weft_status plan_add_instr(plan_builder *b, const plan_step *step, weft_op *op, const op_schema *schema,
                                         int32_t stream, const plan_args *in, const plan_args *out);
/* An instruction `to` = `from`, beside `step`'s op. */
WEFT_MUST_USE weft_status plan_add_copy(plan_builder *b, const plan_step *step, int32_t stream, int32_t from,
                                        int32_t to);
/* Kernels may write in place only where the schema says so. Outputs of an op that overlap other inputs are replaced by
 * new values; `copies` gets pairs (new value, output) to be copied after the op. */
WEFT_MUST_USE weft_status plan_split_overlaps(plan_builder *b, const plan_step *step, const op_schema *schema,
                                              const plan_args *in, plan_args *out, int32_t **out_copies,
                                              size_t *out_ncopies);

/* streams.c: the stream of an op, found or made. */
WEFT_MUST_USE weft_status plan_stream_of(plan_builder *b, const weft_op *op, int32_t *out_stream);

/* stream_names.c: the stream of that name, found or made. `op` is for messages. */
WEFT_MUST_USE weft_status plan_find_stream(plan_builder *b, const weft_op *op, const char *stream, int32_t *out_stream);

/* given.c: a given order: it is to be notified of each step before and after it becomes instructions. */
WEFT_MUST_USE weft_status plan_given_before(plan_builder *b, const plan_step *step);
WEFT_MUST_USE weft_status plan_given_after(plan_builder *b, const plan_step *step);
int32_t plan_given_stream(const plan_builder *b, const weft_op *op);
/* need[s] = what instruction i must wait for. */
void plan_given_needs(const plan_builder *b, size_t i, int32_t *need);

/* ranges.c: the last accesses to each byte range of each root, by stream. */
typedef struct plan_ranges plan_ranges;
WEFT_MUST_USE weft_status plan_ranges_create(plan_builder *b, plan_ranges **out_ranges);
/* need[s] becomes the number of instructions of stream s after which all accesses that conflict with this one are done.
 * It never becomes less than it was. */
void plan_ranges_conflicts(const plan_ranges *r, plan_access access, int32_t *need);
void plan_ranges_record(plan_ranges *r, plan_access access, int32_t stream, int32_t count);

/* place_orders.c: the multiple that a temporary of so many bytes begins at: a cache line, or a part of one for up to
 * 128 bytes, so that small programs are not all padding. */
int64_t plan_alignment(int64_t nbytes);

/* free_ranges.c: the free parts of an address space, by address. */
typedef struct free_node {
    int64_t offset, nbytes;
    int64_t largest; /* nbytes of the largest range of the subtree */
    uint32_t priority;
    int32_t left, right;
} free_node;
typedef struct free_ranges {
    const weft_allocator *allocator;
    free_node *nodes;
    size_t nnodes, capacity;
    int32_t root, unused; /* head of the list of unused nodes */
    uint32_t seed;
    int64_t top; /* the end of what was ever taken */
} free_ranges;
void free_ranges_init(free_ranges *f, const weft_allocator *allocator);
void free_ranges_fini(free_ranges *f);
/* The lowest range of `nbytes`; grows the space where there is none. */
int64_t free_ranges_take(free_ranges *f, int64_t nbytes);
/* The same beyond everything ever taken. */
int64_t free_ranges_take_new(free_ranges *f, int64_t nbytes);
WEFT_MUST_USE weft_status free_ranges_give(free_ranges *f, int64_t offset, int64_t nbytes);

/* "type #index: " with words; without the op where it is NULL. */
WEFT_MUST_USE weft_status plan_error(const plan_builder *b, weft_code code, const weft_op *op, const char *format, ...)
    WEFT_PRINTF(4, 5);

#endif

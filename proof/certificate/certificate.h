/* certificate.h: what the files of the certificate checker share. They include base/, dist_attr/ and program/ alone:
 * what they know of ops they know by themselves (rules.c). */
#ifndef PROOF_CERTIFICATE_CERTIFICATE_H
#define PROOF_CERTIFICATE_CERTIFICATE_H

#include "base/json.h"
#include "program/ir.h"
#include "weft/certificate.h"

#define CERT_NONE UINT32_MAX

/* --- the document (read.c) ---------------------------------------------------------------------------------------- */

typedef enum cert_kind {
    CERT_RANKS,
    CERT_FEED,
    CERT_REDUCE,
    CERT_DENSE,
    CERT_SEED,
    CERT_FACTOR,
    CERT_SLICE,
    CERT_MEMBER,
    CERT_STREAM,
    CERT_WAIT,
    CERT_SAME,
    CERT_GATHER,
    CERT_FILL,
    CERT_WEIGHT,
    CERT_WEIGH,
    CERT_KIND_COUNT
} cert_kind;

/* Members as in the document; those that a kind does not have are 0 or NULL. Texts are the document's. */
typedef struct cert_claim {
    cert_kind kind;
    size_t pass;
    int64_t op, other, offset, nbytes, ring, count;
    const char *var, *to, *buffer, *text;
    double factor;
} cert_claim;

typedef struct cert_numbers {
    int64_t *items;
    size_t count;
} cert_numbers;

typedef struct cert_pass {
    const char *name, *before, *after;
    cert_numbers inserted, removed, moved;
    const char **types; /* of the inserted */
    bool claims_all;    /* false: the pass gives no certificate */
    json_t *plan;       /* of buckets; NULL: none */
} cert_pass;

typedef struct cert_document {
    json_t *root;
    const char *before, *after;
    cert_numbers order; /* numbers of the last program's ops */
    cert_pass *passes;
    size_t npasses;
    cert_claim *claims; /* of all passes */
    size_t nclaims, claim_capacity;
} cert_document;

/* The caller frees root with json_decref, also where this fails. */
WEFT_MUST_USE weft_status cert_read(weft_context *context, const char *bytes, size_t nbytes, const char *place,
                                    arena *a, cert_document *out);

/* --- rules of ops (rules.c) --------------------------------------------------------------------------------------- */

typedef enum cert_rule {
    CERT_OPAQUE,  /* a function of its inputs and attrs: must be there before and after */
    CERT_COPY,    /* out holds what x held */
    CERT_NAME,    /* out is another name of x */
    CERT_SCALE,   /* out is x times a number */
    CERT_JOIN,    /* out is the all-reduce of x, argument by argument */
    CERT_BUCKET,  /* coalesce_tensor */
    CERT_NOTHING, /* touches no bytes */
    CERT_VIEW     /* opaque, and the outputs share their bytes with the input */
} cert_rule;

cert_rule cert_rule_of(const weft_op *op);
cert_rule cert_rule_of_type(const char *type); /* whatever its arguments and attrs */
bool cert_is_join_type(const char *type);
bool cert_is_gather_type(const char *type); /* makes X of all ranks, one after another */
double cert_scale_of(const weft_op *op);    /* CERT_SCALE: the number */
/* CERT_JOIN: its ring, and how it joins. */
int64_t cert_ring_of(const weft_op *op);
weft_reduce cert_reduce_of(const weft_op *op);
/* Whether the outputs are linear, jointly, in all inputs of such slots, the others held fixed. */
bool cert_is_linear(const weft_op *op, const name *slot_name);
/* Draws random numbers, or acts on the host: such ops keep their order. */
bool cert_keeps_order(const weft_op *op);
/* An output that the op names and leaves as it is. */
bool cert_leaves_alone(const weft_op *op, const weft_var *output);
/* Slot X or x or self; Out or out. NULL: none. */
const slot *cert_x(const weft_op *op);
const slot *cert_out(const weft_op *op);
/* Bytes of the next output of a coalesce_tensor; goes on behind it and its padding. False: not known. */
typedef struct cert_cursor {
    size_t k, extent;
    int64_t at;
} cert_cursor;
bool cert_slice(const weft_op *op, cert_cursor *at, int64_t *out_offset, int64_t *out_nbytes);
bool cert_is_float(int32_t dtype);
bool cert_runs_block(const weft_op *op);

/* --- values (values.c) ----------------------------------------------------------------------------------
 *
 * A value is factor * joins(base): base is what an opaque op of the program before made (or a feed, or state), joins
 * the collectives that it went through. Buckets are lists of such parts.
 */

typedef struct cert_part {
    uint32_t base, chain;
    double factor;
    int64_t offset, nbytes; /* in a bucket */
} cert_part;

typedef struct cert_value {
    const cert_part *parts;
    size_t count;
} cert_value;

typedef struct cert_base {
    uint32_t op;      /* position in the program before; CERT_NONE: nobody made it */
    const char *name; /* of the var */
    bool varies;      /* ranks hold different values: it comes from their rows */
} cert_base;

enum {                        /* beside weft_reduce */
       CERT_ROWS_OF_ALL = 64, /* a join that puts the rows of all ranks one after another */
       CERT_BY_ROWS           /* no join: each rank's, times the weight of its rows */
};

typedef struct cert_join {
    uint32_t parent;
    int64_t ring;
    int reduce;
} cert_join;

typedef struct cert_bucket {
    weft_var *fused;
    weft_var **members; /* NULL: bound to other bytes since */
    cert_part *places;  /* offset and nbytes of each */
    size_t count;
    uint32_t maker; /* position in the program before of its op; CERT_NONE: inserted */
} cert_bucket;

typedef struct cert_place {
    uint64_t op, where;
    uint32_t base;
} cert_place;

struct cert_checker;

/* One of the two programs while its ops are followed. Arrays by var id. */
typedef struct cert_world {
    struct cert_checker *c;
    weft_program *p;
    bool is_after;
    cert_value *values; /* count 0: nothing touched it yet */
    uint32_t *name_of;  /* the var that it is another name of, or itself */
    bool *has_names;    /* others may be names of it */
    uint32_t *root;     /* the var whose bytes it is a view of, or itself */
    uint64_t *view;     /* which view of it: op and output; 0: all */
    uint32_t *next_view;
    cert_bucket **bucket;    /* of the whole */
    cert_bucket **member_of; /* of a member */
    uint32_t *member_index;
    uint32_t *pending; /* by root: 1 + position of the collective that still fills it */
    uint32_t position; /* of the op at hand */
    const char *early; /* what was touched before its wait first; NULL: nothing */
} cert_world;

typedef struct cert_checker {
    weft_context *context;
    arena *arena;
    const char *message; /* the first thing that does not hold */
    cert_document doc;
    cert_world before, after;

    cert_base *bases;
    size_t nbases, base_capacity;
    cert_join *joins; /* from 1 */
    size_t njoins, join_capacity;
    cert_place *places; /* bytes that an op wrote through another view */
    size_t nplaces, places_capacity;
    hash_table place_table; /* of places, by op and view */

    weft_op **old_ops, **new_ops; /* by position */
    size_t nold, nnew;
    cert_value **old_inputs, **new_inputs; /* by position: what each op read, argument by argument */
    uint32_t *first_base;                  /* by old position: of its outputs */
    uint32_t *new_position;                /* by number: position after, or CERT_NONE */
    uint32_t *removed_by, *inserted_by;    /* by number: index of the pass, or CERT_NONE */
    const char **inserted_type;            /* by number */
    double *seed;                          /* by old position: product of claimed factors; 0: none */
    bool *dense;                           /* by old position */
    uint8_t *of_rows;                   /* by old position: fills in a rank's rows, of dimension 0 (1), another (2) */
    uint32_t *same_as;                  /* by old position: the op before that is claimed to give the same */
    cert_value *joined;                 /* by number: what a reduce of data parallelism joins */
    uint32_t *wait_of;                  /* by position after: the collective that is waited for, or CERT_NONE */
    size_t *gather_of;                  /* by number: 1 + index of its claim that it gathers; 0: none */
    size_t *first_gather, *next_gather; /* by old position, by claim: 1 + index of what the op gets gathered */
    size_t nnumbers;
    const cert_claim *ranks; /* NULL: none */
    bool *is_split_feed;     /* by var id of the program before */
    bool *is_feed;
    const cert_claim *weight;  /* NULL: none */
    bool *of_weight;           /* by number: it makes the weight */
    bool *is_weight;           /* by var id of the program after: it holds the weight by now */
    bool *is_weighed_loss;     /* by var id of the program before */
    size_t nchecked;           /* values that were held against each other */
    int64_t step_ns, bound_ns; /* of the last bucket plan; 0: none */
    const char *gap;           /* of that, what the bound leaves out; NULL: it is within 1 % */
    size_t nlanes;             /* of that */
    const char *underived;   /* a loss of which it is only claimed how ranks' combine, and since which op; NULL: none */
    const char *unseen_rows; /* what is gathered, and only claimed to be a rank's rows; NULL: nothing */
} cert_checker;

/* Keeps the first message; always NULL or out of memory. */
WEFT_MUST_USE weft_status cert_refuse(cert_checker *c, const char *format, ...) WEFT_PRINTF(2, 3);
/* "adam #41 (41 before)" and the like; in the arena, "" when out of memory. */
const char *cert_op_text(cert_checker *c, const weft_op *op, uint32_t position);
const char *cert_value_text(cert_checker *c, cert_value v);

/* The nearest fraction where one is within the rounding of a float, so that equal factors have equal bits. */
double cert_snap(double factor);
/* To the precision of floats that went through a few products. */
bool cert_same_factor(double a, double b);
WEFT_MUST_USE weft_status cert_world_begin(cert_checker *c, const weft_program *p, bool is_after, cert_world *out);
WEFT_MUST_USE weft_status cert_read_var(cert_world *w, weft_var *v, cert_value *out);
/* What an op writes that may leave it as it was. */
WEFT_MUST_USE weft_status cert_read_target(cert_world *w, weft_var *v, cert_value *out);
/* Writes through op (`old` its position in the program before, or CERT_NONE). */
WEFT_MUST_USE weft_status cert_write_var(cert_world *w, weft_var *v, cert_value value, uint32_t old);
/* Follows an op that is not opaque. */
WEFT_MUST_USE weft_status cert_follow(cert_world *w, weft_op *op, cert_rule rule, uint32_t old);
/* Joins and scales in place, as data parallelism does. */
WEFT_MUST_USE weft_status cert_join_value(cert_checker *c, cert_value v, int64_t ring, int reduce, double factor,
                                          cert_value *out);
WEFT_MUST_USE weft_status cert_new_base(cert_checker *c, uint32_t op, const char *var, uint32_t *out);
WEFT_MUST_USE weft_status cert_simple(cert_checker *c, uint32_t base, double factor, cert_value *out);
void cert_touch(cert_world *w, const weft_var *v);
/* Outputs are views of what the input's bytes are. */
/* `v` becomes another name of `of`. */
WEFT_MUST_USE weft_status cert_name(cert_world *w, const weft_var *v, const weft_var *of);
WEFT_MUST_USE weft_status cert_bind_view(cert_world *w, weft_var *x, weft_var *out, uint32_t old, size_t index);

/* --- comparing (compare.c) ---------------------------------------------------------------------------------------- */

/* The op at `at` has the attrs, or the slots, of op k before; but for attrs that a claim allows to change. */
WEFT_MUST_USE weft_status cert_check_attrs(cert_checker *c, const weft_op *op, uint32_t at, uint32_t k);
WEFT_MUST_USE weft_status cert_check_slots(cert_checker *c, const weft_op *op, uint32_t at, uint32_t k);
/* Ops `k` and `other` of the program before have one type, and equal attrs but for their place in the text. They read
 * equal values, which are known: then they give the same. */
bool cert_gives_same(const cert_checker *c, uint32_t k, uint32_t other);
/* The slot of op that is named like s and has as many arguments; NULL: none. */
const slot *cert_same_slot(const weft_op *op, bool output, const slot *s);
/* Blocks below block 0 are as they were. */
WEFT_MUST_USE weft_status cert_check_blocks(cert_checker *c);
/* now / before; 0: they differ by more than a factor. */
double cert_ratio(cert_value before, cert_value now);

/* --- walking (walk.c), claims (claims_before.c, claims.c) --------------------------------------------------------- */

WEFT_MUST_USE weft_status cert_walk_before(cert_checker *c);
WEFT_MUST_USE weft_status cert_walk_after(cert_checker *c);
/* The lists of ops add up (numbers.c). */
WEFT_MUST_USE weft_status cert_number_ops(cert_checker *c);
bool cert_is_number(const cert_checker *c, int64_t number);
const char *cert_type_of(const cert_checker *c,
                         int64_t number); /* before, or as a pass inserted it; "": no op has it */
/* What must be known of claims before the programs are followed. */
WEFT_MUST_USE weft_status cert_prepare_claims(cert_checker *c);
WEFT_MUST_USE weft_status cert_check_claims(cert_checker *c);
/* Ops that get the rows of all ranks (gathers.c): what is claimed of one; its inputs in the program before; the op that
 * gathers, after; and that ranks differ in what it gathers. */
WEFT_MUST_USE weft_status cert_prepare_gather(cert_checker *c, size_t index);
WEFT_MUST_USE weft_status cert_apply_gathers(cert_checker *c, const weft_op *op, uint32_t k, cert_value *inputs);
WEFT_MUST_USE weft_status cert_follow_gather(cert_checker *c, weft_op *op, uint32_t at);
WEFT_MUST_USE weft_status cert_check_gather(cert_checker *c, const cert_claim *claim);
/* The var whose rows say that `claim` gathers rows: what it gathers, or the ids of a look-up's gradients. */
const weft_var *cert_rows_of_gather(const cert_checker *c, const cert_claim *claim);
bool cert_gathers(const cert_checker *c,
                  const cert_claim *claim); /* else it sums: the rows are the same on all ranks */
/* Means of ranks that have different numbers of rows (weights.c): what is claimed; whether a claimed reduce is of what
 * is weighed; the link in the program before; an inserted op of the program after. */
WEFT_MUST_USE weft_status cert_prepare_weight(cert_checker *c, const cert_claim *claim);
WEFT_MUST_USE weft_status cert_prepare_weigh(cert_checker *c, const cert_claim *claim);
bool cert_is_weighed(const cert_checker *c, const cert_claim *reduce);
WEFT_MUST_USE weft_status cert_apply_weigh(cert_checker *c, const cert_claim *claim);
WEFT_MUST_USE weft_status cert_follow_weight(cert_checker *c, weft_op *op, uint32_t at, bool *out_is);
/* The bucket plan of a pass that has one (buckets.c). */
WEFT_MUST_USE weft_status cert_check_buckets(cert_checker *c, size_t pass);

/* --- prices.c: what a bucket plan says that its collectives take, one after another ------------------------------- */

enum { CERT_PAIRS = 32, CERT_FACTORS = 32 };

typedef struct cert_way {
    double latency_us, bandwidth, parts, plateau, plateau_latency_us, factors[CERT_FACTORS];
    size_t nfactors;
} cert_way;

typedef struct cert_price {
    double times, parts, op_seconds, pairs[CERT_PAIRS][2]; /* of a link: seconds a message, bytes a second */
    size_t npairs, nways;
    bool measured;  /* pairs are bytes and seconds, and say all */
    cert_way *ways; /* they say all */
} cert_price;

WEFT_MUST_USE weft_status cert_prices_read(cert_checker *c, const json_t *list, const cert_price **out, size_t *out_n);
json_int_t cert_prices_ns(const cert_price *prices, size_t n, json_int_t nbytes);
json_int_t cert_price_ns(const cert_price *prices, size_t index, json_int_t nbytes); /* of one of them */

/* --- plan_read.c: a bucket plan as it is written ------------------------------------------------------------------ */

enum { CERT_LANES = 8 }; /* streams of reduces */

/* Said to be below a cost. */
typedef struct cert_line {
    json_int_t latency; /* in 1 / CERT_PARTS of a nanosecond */
    double slope;       /* nanoseconds for a byte */
} cert_line;

/* Gradients of a kind may go together; no costs: each is reduced alone. */
typedef struct cert_bucket_kind {
    size_t lane, ncollectives; /* of the costs, the first ones; scales follow */
    const cert_price *costs;
    size_t ncosts;
    bool counts; /* in the bound, which has a line for each cost; none where what gradients take alone says all */
    const cert_line *lines;
    size_t nlines;
} cert_bucket_kind;

/* after, needed: so many instructions of compute come before it is ready, and before the first one that needs its sum.
 */
typedef struct cert_gradient {
    const char *var;
    json_int_t kind, nbytes, padded, alone, after, ready, needed, tail;
    json_int_t op; /* by a claim, what reduces it with others; -1: none */
} cert_gradient;

typedef struct cert_bucket_said {
    json_int_t kind, count, nbytes, start, end;
    json_int_t after, needed; /* in the program that was made, where that is told */
} cert_bucket_said;

/* What a bound follows from (buckets.c). */
typedef enum cert_bound_by { CERT_BY_COMPUTE, CERT_BY_SLOWED, CERT_BY_LINES, CERT_BY_SETS } cert_bound_by;

typedef struct cert_plan {
    json_int_t step, compute_ns, exposed, bound, gap, alignment; /* alignment: of members in a bucket */
    cert_bucket_kind *kinds;
    cert_gradient *gradients;
    cert_bucket_said *buckets;
    size_t nkinds, ngradients, nbuckets;
    json_int_t *compute,
        *played; /* of the program before, and of the one that is played: the same but where it was made */
    size_t ncompute, nplayed;
    bool made;
    double compute_factor, collective_factor; /* so many times as long beside the other; 1 or more */
    cert_bound_by bound_by;
    size_t bound_lane;
    json_int_t bound_tail; /* by lines: gradients with such a tail or a longer one count */
    bool bound_as_one;     /* by lines: kinds may share buckets */
} cert_plan;

WEFT_MUST_USE weft_status cert_plan_read(cert_checker *c, size_t pass, cert_plan *to);

/* --- clock.c: compute and buckets side by side -------------------------------------------------------------------- */

enum { CERT_FULL_SPEED = 1 << 16 };
json_int_t cert_clock_speed(double factor); /* of what takes so many times as long */

/* It runs its parts one after another: a cost each, or what it takes alone. */
typedef struct cert_clock_bucket {
    const cert_bucket_kind *kind;
    json_int_t nbytes, alone, after;
    json_int_t start, end; /* filled in */
} cert_clock_bucket;

typedef struct cert_clock {
    cert_clock_bucket *buckets;
    json_int_t *needs; /* by instruction, CERT_LANES each: the last bucket that it needs, and those before; 0: none */
    json_int_t step, compute; /* filled in: when all has ended, and what compute takes alone */
} cert_clock;
void cert_clock_play(cert_clock *clock, const cert_plan *plan);

/* plan_members.c. The plan is of the program, and gradients take the times that are said; what the clock plays. */
WEFT_MUST_USE weft_status cert_plan_bind(cert_checker *c, size_t pass, cert_plan *plan, cert_clock *to);

/* --- lines.c: lines below what buckets cost ----------------------------------------------------------------------- */

enum { CERT_PARTS = 1024 };
#define CERT_MOST_NS (INT64_C(1) << 42) /* an hour: what takes longer has no bound but compute */

/* What a bucket of a kind takes beside what its gradients weigh, at least, by the first nprices of its costs; weights
 * are by gradient, all in 1 / CERT_PARTS of a nanosecond. */
WEFT_MUST_USE weft_status cert_weigh(cert_checker *c, const cert_plan *plan, size_t kind, size_t nprices,
                                     json_int_t *latency, json_int_t *weights);

/* Of a plan that holds: why it is more than 1 % above its bound. It plays the clock again (gap.c). */
WEFT_MUST_USE weft_status cert_tell_gap(cert_checker *c, const cert_plan *plan, cert_clock *clock);

/* How losses of ranks combine, from the program before (losses.c). */
WEFT_MUST_USE weft_status cert_check_losses(cert_checker *c);

#endif

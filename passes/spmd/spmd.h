/* spmd.h: what the files of spmd_propagate, spmd_partition and spmd_expand share.
 *
 * A placement (axes_placed of ops/axes.h) says which mesh axis shards a dimension, and along which a value is partial.
 * spmd_propagate finds one for every var; spmd_partition finds one for every argument of every op, and the steps
 * between them. All is decided before the first edit. */
#ifndef PASSES_SPMD_SPMD_H
#define PASSES_SPMD_SPMD_H

#include "ops/axes.h"
#include "passes/pass_manager.h"

/* --- placements --------------------------------------------------------------------------------------------------- */

/* The mesh of a program. Axes of extent 1 shard nothing, and keep their numbers. */
typedef struct spmd_paths spmd_paths;
typedef struct spmd_written spmd_written;
typedef struct spmd_mesh {
    const mesh *mesh;
    axes_mesh axes;
    int64_t at[AXES_MESH]; /* coordinates of the rank that is made */
    int64_t rows;          /* that an open extent is priced as */
    spmd_paths *paths;     /* those that were found */
    spmd_written *written; /* placements, as programs have them: those that were written last */
} spmd_mesh;

int64_t spmd_extent(const spmd_mesh *m, uint32_t axes);
bool placed_same(const axes_placed *a, const axes_placed *b, int32_t ndim, int naxes);
bool placed_same_dims(const axes_placed *a, const axes_placed *b, int32_t ndim);
bool placed_is_partial(const axes_placed *p, int naxes);
uint32_t placed_partial(const axes_placed *p, int naxes);        /* axes, as bits */
int placed_dim_of(const axes_placed *p, int32_t ndim, int axis); /* that the axis shards; -1: none */
uint32_t placed_dim_axes(const axes_placed *p, int dim);         /* that shard the dimension, as bits */
/* What is left where nothing is partial. */
axes_placed placed_whole_sums(const axes_placed *p);
void placed_shard(axes_placed *p, int dim, int axis);
/* Extents of the rank's part. */
void placed_extents(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole, int64_t *out);
/* Extents of the largest part: the same for all ranks. Bytes are of that. */
void placed_largest(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole, int64_t *out);
/* The same, open ones as they are priced. */
void placed_priced(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole, int64_t *out);
int64_t placed_nbytes(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole);
/* How many of the axes that shard dimension `d`, from the major one on, leave each rank some of an extent. */
int placed_fitting(const spmd_mesh *m, const axes_placed *p, int d, int64_t extent);
void spmd_axis_text(const spmd_mesh *m, int axis, char *out, size_t room);
/* "[dp, (tp, mp), -], partial sum over pp". */
const char *placed_text(const spmd_mesh *m, const axes_placed *p, int32_t ndim, char *out, size_t room);
/* Between those and the placements of programs. Equal ones are written once, as a rule. */
WEFT_MUST_USE weft_status spmd_written_init(spmd_mesh *m, arena *memory);
axes_placed placed_of(const spmd_mesh *m, const placement *p);
WEFT_MUST_USE weft_status placed_write(const spmd_mesh *m, const axes_placed *p, int32_t ndim, weft_var *var);
/* The same, with extents; those that are declared open stay so. */
WEFT_MUST_USE weft_status placed_declare(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole,
                                         const int64_t *extents, weft_var *var);

/* --- steps between placements ------------------------------------------------------------------------------------- */

typedef enum spmd_step_kind {
    STEP_SLICE,          /* keep the rank's part of `dim` */
    STEP_ALL_TO_ALL,     /* parts of `from` become parts of `dim` */
    STEP_REDUCE_SCATTER, /* the sum, of which the rank keeps its part of `dim` */
    STEP_ALL_REDUCE,
    STEP_ALL_GATHER, /* all parts of `dim`; -1: of several dimensions */
    STEP_PERMUTE,    /* each rank's part goes as it is to one other rank */
    STEP_SHARE,      /* what all have becomes a sum: each rank's share of it */
    STEP_PAD         /* parts of `dim` become a sum: each rank's part among zeros */
} spmd_step_kind;

typedef struct spmd_step {
    spmd_step_kind kind;
    uint32_t axes; /* that it runs along */
    int dim, from;
    int reduce;       /* a weft_reduce */
    int64_t divide;   /* of a mean: what the sum is divided by; else 1 */
    double sent;      /* bytes that a rank sends, and receives, with ring algorithms */
    axes_placed made; /* the placement behind it */
} spmd_step;

enum { SPMD_STEPS = 16 };
typedef struct spmd_path {
    axes_placed start;
    spmd_step steps[SPMD_STEPS];
    int count;
    int nopen;   /* steps that send parts of an open extent: it may be of any size, and parts may differ */
    double sent; /* bytes that a rank sends, with ring algorithms */
} spmd_path;

/* Paths that are found are kept in the arena. */
WEFT_MUST_USE weft_status spmd_paths_init(spmd_mesh *m, arena *memory);
/* The cheapest steps from one placement of a value to another. False: there are none (only sums come from what is no
 * sum). */
bool spmd_find_path(const spmd_mesh *m, const kept_shape *whole, const axes_placed *from, const axes_placed *to,
                    spmd_path *out);

/* spmd_permute.c. The axes along which each rank's part under `from` is that of one rank under `to`; 0: there are
 * copies of it, parts differ, or all is as it was. */
uint32_t spmd_permuted(const spmd_mesh *m, const kept_shape *whole, const axes_placed *from, const axes_placed *to);
/* By member of the ring along these axes: the one whose part it gets. */
WEFT_MUST_USE weft_status spmd_permute_sources(const spmd_mesh *m, int32_t ndim, const axes_placed *from,
                                               const axes_placed *to, uint32_t axes, arena *memory, int64_t *out);

/* --- the program -------------------------------------------------------------------------------------------------- */

/* What an op can become besides itself. */
typedef enum spmd_form {
    FORM_OWN,
    FORM_CLASSES, /* a softmax with cross entropy over sharded classes */
    FORM_ROWS,    /* a lookup in a table whose rows are sharded */
    FORM_MEAN,    /* a mean over rows that count, as two sums */
    FORM_BATCH,   /* a normalisation over the batch, of which each rank has some rows */
    FORM_SHARES   /* a product to which something is added, of which each rank adds its share */
} spmd_form;

/* What a mesh axis may do in an op where its arguments ask for different things. */
enum { SPMD_NOTHING = -1, SPMD_PASS_ON = -2, SPMD_SIDES = 8 };
typedef struct spmd_side {
    int item; /* the factor that it shards; or nothing, or a sum that passes on */
    bool is_output, is_taken;
    size_t arg;           /* that asks for it first: */
    int dim;              /* by how this dimension lies */
    double sent, seconds; /* of the cheapest way of the op that has it; sent negative: there is none */
} spmd_side;

typedef struct spmd_conflict {
    int axis, nsides;
    spmd_side sides[SPMD_SIDES];
    uint32_t nops; /* that have it */
    struct spmd_conflict *next;
} spmd_conflict;

/* What tells ranks' programs apart. */
typedef struct spmd_apart {
    const char *differs;          /* NULL, or why they differ, besides in rings: along these mesh axes */
    uint32_t told, ended, placed; /* by where a rank stands; by whether it is the last; in attrs that say where */
} spmd_apart;

/* How an op reads and leaves its arguments: the same for all ops that ask alike. */
typedef struct spmd_choice {
    axes_placed *in, *out;    /* by argument, in the order of its rule */
    bool is_special;          /* in its other form */
    double sent;              /* what that sends itself */
    bool is_disputed;         /* arguments disagree; */
    spmd_conflict *conflicts; /* about what, by mesh axis, where that is asked for */
    bool is_noted;            /* it is known what that tells apart: */
    spmd_apart apart;
} spmd_choice;

/* What ops share that have one type, attrs and types of arguments. */
typedef struct spmd_kind {
    axes_rule rule;
    bool *reads;       /* by input: outputs depend on its elements; */
    bool *passes_sums; /* a sum may pass through it */
    spmd_form form;
    size_t special;        /* the factor that only its other form may shard */
    bool passes;           /* it treats each element for itself, or moves them: its placements are followed first */
    bool is_own;           /* it normalises a rank's rows of the batch by themselves */
    uint32_t *at;          /* by argument: its place among all those of the op */
    const char *why_whole; /* NULL, or why its arguments must be whole */
} spmd_kind;

typedef struct spmd_op {
    weft_op *op;
    const spmd_kind *kind;
    struct spmd_var **in, **out; /* by argument of the rule; NULL: no var that a placement concerns */
    const uint32_t *at;          /* of its kind, or of the op in its other form */
    spmd_choice *choice;         /* as decided last */
} spmd_op;

/* Where a placement of a dimension comes from. */
typedef struct spmd_origin {
    uint32_t op;  /* 1 + the number of the op that carried it; 0: the user's annotation */
    uint32_t var; /* from whose placement */
} spmd_origin;

typedef struct spmd_var { /* what is looked at most comes first: there are many */
    weft_var *var;
    bool counts;      /* it is a tensor of known rank */
    bool is_fixed;    /* annotated: it is as it is */
    bool is_kept;     /* it lies so before the step and after it: state, and feeds */
    bool is_pinned;   /* whole: another block uses it */
    uint8_t priority; /* of its annotation: placements of the first spread first */
    axes_placed want;
    kept_shape whole;
    spmd_origin origin[AXES_MESH]; /* by mesh axis */
    uint32_t nnames;               /* that were made of its own */
    uint32_t nreaders, ngiven;     /* arguments that read it; those through which a partial value may pass */
} spmd_var;

/* How far placements spread: through all ops, through those that treat each element for itself, or not. */
typedef enum spmd_spread { SPREAD_ALL, SPREAD_ELEMENTWISE, SPREAD_NONE } spmd_spread;

typedef struct spmd_policy {
    spmd_spread spread;
    bool gathers_state; /* ops other than updates get parameters whole */
} spmd_policy;

typedef struct spmd_plan {
    weft_pass_context *pass;
    bool is_fx; /* a traced graph: each var is written once, collectives are waited for */
    weft_program *program;
    weft_block *block;
    arena *scratch;
    arena memory; /* of types and rules */
    spmd_mesh mesh;
    const mesh *given_mesh; /* of a program that has none; or NULL */
    int64_t rank;           /* -1: all ranks, which must be equal */
    shape_env types;
    struct spmd_kinds *kinds;
    struct spmd_known *known; /* of `decided` */
    spmd_var *vars;           /* by var id */
    size_t nvars;
    spmd_op *ops;
    size_t nops;
    spmd_choice undecided;      /* that of ops before */
    spmd_choice tried, chosen;  /* room for the arguments of any op, while it is decided */
    arena decided;              /* of choices, and what is known of them */
    arena walked;               /* of versions; made anew by each walk */
    bool asks_conflicts;        /* what arguments disagree about is kept with the ops that are decided */
    struct spmd_prices *prices; /* in seconds; NULL: bytes are enough */
    spmd_policy policy;
    bool own_statistics;             /* each rank normalises its rows of a batch by themselves */
    bool partial_outputs;            /* outputs of a traced graph may be partial */
    bool is_strict;                  /* an op without a rule that meets a sharded input is refused */
    bool propagates;                 /* placements are this pass's own */
    bool fits;                       /* what is made now, some ranks fit to a collective and others have */
    bool is_told;                    /* what is wrong with annotations has been told */
    int64_t batch;                   /* the rows that open extents are priced as */
    int64_t nopen;                   /* steps that send parts of open extents, as decided */
    double sent;                     /* bytes that a rank sends in a step, as decided */
    double cheapest;                 /* those of the plan that spmd_plan_cheapest has found */
    int64_t ring_of[1 << AXES_MESH]; /* by set of axes: 1 + the ring; 0: not asked for yet */
    spmd_apart apart;
    struct spmd_row *rows; /* of the report */
    size_t nrows, row_capacity;
} spmd_plan;

/* spmd_read.c: mesh, annotations, types, rules. */
WEFT_MUST_USE weft_status spmd_read(spmd_plan *plan);
void spmd_plan_fini(spmd_plan *plan);
/* Begins again on another mesh, which divides that of the program or is it. */
WEFT_MUST_USE weft_status spmd_use_mesh(spmd_plan *plan, const mesh *m);
/* spmd_kinds.c: the rule of an op, and its arguments in the rule's order. */
WEFT_MUST_USE weft_status spmd_kinds_init(spmd_plan *plan);
WEFT_MUST_USE weft_status spmd_read_op(spmd_plan *plan, weft_op *op, spmd_op *out);
/* The factor that decides how a dimension may be sharded: the first that is not of extent 1; -1: none. */
int spmd_lead(const axes_rule *r, const axes_arg *x, int d);
/* Shards dimension `d` of an argument by the axes whose chosen factor it has; `order`: all axes, the major ones first.
 * A factor is cut only where those before it are in parts of one element. */
void spmd_place_dim(const axes_rule *r, const axes_mesh *on, const axes_arg *x, int d, const int *chosen,
                    const uint8_t *order, axes_placed *need);
static inline spmd_var *spmd_var_of(const spmd_plan *plan, const weft_var *v) {
    return v && v->id < plan->nvars && plan->vars[v->id].counts ? &plan->vars[v->id] : NULL;
}
/* spmd_fx.c: what traced graphs say of inputs, and what a rank's graph says of outputs. */
WEFT_MUST_USE weft_status spmd_fx_mesh(spmd_plan *plan, mesh *out);
WEFT_MUST_USE weft_status spmd_fx_read(spmd_plan *plan);
WEFT_MUST_USE weft_status spmd_fx_write(spmd_plan *plan);
/* spmd_forms.c: other forms of an op. */
/* `own_statistics`: each rank normalises its rows of a batch by themselves. */
void spmd_find_form(const weft_op *op, bool own_statistics, spmd_kind *kind);
/* Whether input `i` is added to what the op's special form makes: it is a sum as that is. */
bool spmd_form_adds(const spmd_op *op, size_t i);
bool spmd_form_fits(const spmd_plan *plan, const spmd_op *op, const axes_placed *in, const axes_placed *out);
/* The mesh axes along which a normalisation over the batch is of all rows; 0: it is none in that form. */
uint32_t spmd_form_ring(const spmd_op *op);
double spmd_form_sent(const spmd_plan *plan, const spmd_op *op, const axes_placed *in, const axes_placed *out);

/* spmd_follow.c: placements for all vars, to a fixpoint, as far as the policy spreads them. */
WEFT_MUST_USE weft_status spmd_follow(spmd_plan *plan);
WEFT_MUST_USE weft_status spmd_write_wanted(spmd_plan *plan);
/* Writes down where each came from. */
WEFT_MUST_USE weft_status spmd_write_origins(spmd_plan *plan);

/* spmd_choose.c: how an op's arguments lie. A version: a value under one placement. */
typedef struct spmd_version {
    const axes_placed *placed;
    weft_var *var; /* that holds it; while deciding, NULL */
    struct spmd_version *next;
} spmd_version;

typedef struct spmd_state {
    spmd_version *versions;  /* by var id: the first is the var's own */
    const axes_placed *home; /* how the var's own name lies; NULL: that is not settled */
} spmd_state;

WEFT_MUST_USE weft_status spmd_choose(spmd_plan *plan, const spmd_state *states, spmd_op *op);
/* spmd_known.c: what was chosen for an op of that kind whose arguments lie so; if nothing was, it is added then. What
 * is known holds for decisions to come on the same mesh, but where they ask for conflicts that nobody asked for. */
WEFT_MUST_USE weft_status spmd_known_begin(spmd_plan *plan);
WEFT_MUST_USE weft_status spmd_known_find(spmd_plan *plan, const spmd_state *states, spmd_op *op, bool *out_found);
/* `plan->chosen`, for the op that was asked for last. */
WEFT_MUST_USE weft_status spmd_known_add(spmd_plan *plan, spmd_op *op);
bool spmd_is_single(const spmd_var *v); /* it has one element */
/* The version from which `to` is reached with the fewest bytes. */
spmd_version *spmd_nearest(const spmd_plan *plan, const spmd_var *v, const spmd_state *s, const axes_placed *to,
                           spmd_path *out);
/* spmd_sums.c: how input `i` lies where it is partial along the axis and the op reads it; NULL: it is not. */
const axes_placed *spmd_sum_of(const spmd_state *states, const spmd_op *op, size_t i, int axis);
/* The first group (bit) that takes all inputs that are sums along the axis; 0: none does. Its others may be shares. */
uint32_t spmd_adding_group(const spmd_state *states, const spmd_op *op, int axis);
/* Whether several inputs are partial along the axis, all of them sums whose parts along the factor can be read. */
bool spmd_sums_share(const spmd_state *states, const spmd_op *op, int axis, size_t factor);
/* spmd_conflicts.c: where arguments of an op disagree, and what a rank receives by each side. Asked for before the
 * decision that is told; `cluster` empty: no times. Writes the member "conflicts" of a var's entry in the sidecar. */
WEFT_MUST_USE weft_status spmd_conflicts_ask(spmd_plan *plan, const char *cluster);
WEFT_MUST_USE weft_status spmd_conflicts_report(const spmd_plan *plan);
typedef struct spmd_told spmd_told;
WEFT_MUST_USE weft_status spmd_conflicts_by_var(const spmd_plan *plan, spmd_told **out);
void spmd_conflicts_put(const spmd_plan *plan, const spmd_told *told, const spmd_var *v, const char *before,
                        buffer *json);
/* How a value that lies so is to lie from then on: as it is, or summed up. */
axes_placed spmd_settled(const spmd_plan *plan, const spmd_op *op, const spmd_var *v, const axes_placed *made);

/* spmd_made.c: rings and vars. The ring of the rank along these axes. */
WEFT_MUST_USE weft_status spmd_ring(spmd_plan *plan, uint32_t axes, int64_t *out_id);
/* Where the rank stands among those along the axes. */
int64_t spmd_part(const spmd_mesh *m, uint32_t axes);
/* A var with a name of its own, for a value of `v` that lies so; or for a part of it, of those extents. */
WEFT_MUST_USE weft_status spmd_new_var(spmd_plan *plan, const spmd_var *v, const axes_placed *placed, weft_var **out);
WEFT_MUST_USE weft_status spmd_add_var(spmd_plan *plan, const spmd_var *v, const int64_t *extents, weft_var **out);
void spmd_set_arg(const spmd_op *op, size_t arg, weft_var *to); /* inputs first, then outputs */

/* spmd_emit.c: edits. Puts the steps of a path before `before`; the last makes `into`, if that is not NULL. */
typedef struct spmd_emitter {
    spmd_plan *plan;
    weft_op *before; /* NULL: at the end */
    int role;
    int64_t ncollectives, nbytes;
    struct spmd_places *places; /* NULL: nobody asks what ops differ in by place */
} spmd_emitter;
/* spmd_forms.c: the op in its other form. */
WEFT_MUST_USE weft_status spmd_take_form(spmd_emitter *e, spmd_op *op);
/* Gives it as many classes on all ranks, where parts differ. */
WEFT_MUST_USE weft_status spmd_form_fit(spmd_emitter *e, spmd_op *op);
/* Sets the attrs of such an op that say where the rank stands. */
WEFT_MUST_USE weft_status spmd_form_place(spmd_emitter *e, const spmd_op *op, weft_op *made);
/* The axes along which that is. */
uint32_t spmd_form_axes(const spmd_op *op);
WEFT_MUST_USE weft_status spmd_emit_path(spmd_emitter *e, const spmd_var *v, weft_var *from, const spmd_path *path,
                                         weft_var *into, weft_var **out);
/* `into` may be `x` itself. */
WEFT_MUST_USE weft_status spmd_emit_scale(spmd_emitter *e, weft_var *x, weft_var *into, double factor);
WEFT_MUST_USE weft_status spmd_emit_copy(spmd_emitter *e, weft_var *x, weft_var *into);
/* The op works on the largest part of dimension `d`: a rank that has less fills it up with `number` before it, and cuts
 * behind it what it leaves. */
WEFT_MUST_USE weft_status spmd_emit_fitted_input(spmd_emitter *e, spmd_op *op, size_t i, int d, double number);
WEFT_MUST_USE weft_status spmd_emit_fitted_output(spmd_emitter *e, spmd_op *op, size_t o, int d);
/* Sets an attr that is a whole number, or a list of them; where a path is followed again for another place
 * (spmd_places.c), notes what it is there. */
WEFT_MUST_USE weft_status spmd_put(spmd_emitter *e, weft_op *op, const char *attr, attr_type type, size_t count,
                                   const int64_t *values);

/* spmd_places.c: programs of ranks that differ only in attrs that say where a rank stands. What has such attrs is noted
 * while it is made, and then done again for each other place: attrs are compared, and nothing is made. */
typedef struct spmd_places spmd_places;
WEFT_MUST_USE weft_status spmd_places_create(spmd_plan *plan, rank_edits *edits, spmd_places **out);
/* The steps of a path that are being made; the attrs of an op. */
WEFT_MUST_USE weft_status spmd_places_begin(spmd_places *places, uint32_t axes, const spmd_var *v, weft_var *from,
                                            const spmd_path *path, weft_var *into);
void spmd_places_end(spmd_places *places);
WEFT_MUST_USE weft_status spmd_places_add_op(spmd_places *places, uint32_t axes, spmd_op *op);
/* Of the emitter's places, NULL too: an op that was made; the op made before in the place of the next one (NULL: ops
 * are being made); an attr of it. */
WEFT_MUST_USE weft_status spmd_places_made(spmd_places *places, weft_op *op);
weft_op *spmd_places_next(spmd_places *places);
bool spmd_places_again(const spmd_places *places);
WEFT_MUST_USE weft_status spmd_places_note(spmd_places *places, const weft_op *op, const char *attr, size_t count,
                                           const int64_t *values);
/* spmd_again.c: all other places. */
WEFT_MUST_USE weft_status spmd_places_tell(spmd_places *places);

/* spmd_plans.c: placements of all vars under the policy that sends least. */
WEFT_MUST_USE weft_status spmd_plan_cheapest(spmd_plan *plan);
enum { SPMD_MOST_OPS = 20000 }; /* of a program that is decided more than once: larger ones take the first plan */
/* spmd_divide.c: the same, with axes divided where that sends less. */
WEFT_MUST_USE weft_status spmd_plan_divided(spmd_plan *plan);
/* spmd_state.c: state that is whole, and of which every op uses the same part, lies so where that sends less. */
WEFT_MUST_USE weft_status spmd_place_state(spmd_plan *plan);

/* spmd_report.c: a step that is made, for an op of that type (NULL: for all). */
WEFT_MUST_USE weft_status spmd_note_step(spmd_plan *plan, const spmd_var *v, const spmd_step *step, const char *reader);
WEFT_MUST_USE weft_status spmd_report_rows(spmd_plan *plan);

/* spmd_walk.c */
WEFT_MUST_USE weft_status spmd_decide(spmd_plan *plan);
/* The same, given up where it sends no less than this: parts of open extents, then bytes. */
WEFT_MUST_USE weft_status spmd_decide_below(spmd_plan *plan, int64_t nopen, double sent, bool *out_below);
/* `edits`: of attrs that say where ranks stand; or NULL. */
WEFT_MUST_USE weft_status spmd_rewrite(spmd_plan *plan, rank_edits *edits);

#endif

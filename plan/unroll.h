/* unroll.h: what the files share that make a program without loops, tensor arrays and gradients of conditionals. */
#ifndef PLAN_UNROLL_H
#define PLAN_UNROLL_H

#include "plan/builder.h"

/* One run of a block: the vars that it declares are other ones in every run. A gradient's block runs in the scope of
 * the run that it is the gradient of. */
typedef struct unroll_scope {
    struct unroll_scope *parent; /* NULL: block 0 */
    const weft_block *block, *grad_block;
    weft_var *condition; /* of a run that only a run knows: what it was when the run began; NULL: it is made */
    weft_block *guarded; /* then the block that its ops are in */
    uint32_t id;
    const weft_op *op; /* that runs now */
} unroll_scope;

/* One of the values that a var has one after another. Listed. */
typedef struct unroll_version {
    struct unroll_version *next;
    weft_var *var;
    size_t version; /* how many ops of the block have written it */
} unroll_version;

/* Of which op another is made. */
typedef struct unroll_origin {
    const weft_op *op;
    uint32_t scope;
} unroll_origin;

typedef struct unroll_map {
    struct unroll_pair {
        uint64_t key;
        void *value;
    } * pairs;
    size_t npairs, capacity;
    hash_table table;
} unroll_map;

/* Elements of a tensor array by index; NULL: nothing was written there. Each write makes a var of its own; one that a
 * condition guards goes to the var that is there, or to one that is zero before. */
typedef struct unroll_array {
    weft_var **elements;
    size_t count, capacity;
    weft_var *length; /* of guarded writes: how many elements there are; NULL: nobody asks, or `count` */
    bool is_guarded;  /* only a run knows how many there are */
} unroll_array;

/* The runs that an op made, for its gradient. */
typedef struct unroll_runs {
    unroll_scope **scopes;
    size_t count, capacity;
} unroll_runs;

typedef struct unroll unroll;
struct unroll {
    plan_builder *b;
    weft_status (*run_op)(unroll *u, unroll_scope *s, weft_op *op); /* unroll.c: an op of a body */
    weft_program *program;
    weft_block *root;
    shape_env env;
    unroll_scope root_scope;
    uint32_t nscopes;
    size_t nmade;         /* names are numbered */
    size_t nemitted;      /* ops */
    weft_op *before;      /* the op of block 0 in whose place others stand */
    size_t index;         /* its number in the program that was given */
    weft_block *into;     /* of a condition that only a run knows: where its ops go; NULL: to `before` */
    weft_block *supposed; /* the same, where what is known holds if the block is run; else nothing is known in it */
    weft_op *guard;       /* that condition's op in block 0 */
    bool is_length_asked; /* of an array */
    unroll_map vars;      /* scope and var: the one of block 0 that it is */
    unroll_map kept;      /* the same: unroll_version, the copies of it */
    unroll_map arrays;    /* scope and array var: unroll_array */
    unroll_map runs;      /* scope and var of step scopes: unroll_runs */
    unroll_map written;   /* vars of block 0 that have been written */
    unroll_map own;       /* vars of block 0 that are one scope's: the scope */

    /* unroll_versions.c: what is found before the first op runs. */
    const weft_op **owners; /* by block: the op that has it; NULL: none */
    unroll_map writers;     /* block and var: those of its ops that write it */
    unroll_map forward;     /* op: the one that it is the gradient of */
    unroll_map versions;    /* op and var: 1 + the version that it reads; none: what is there */
    unroll_map kept_before; /* op: unroll_version, what is kept before it runs */
    unroll_map kept_at_end; /* block: the same behind its last op */
    unroll_map taken;       /* op: the same, gradients of which it takes all */

    /* adjoint.c */
    size_t nnamed;      /* vars that the program has; 0: gradients are not checked */
    unroll_map places;  /* block of a control op: that op, in words */
    unroll_map origins; /* op that stands in another's place: unroll_origin */
    unroll_map told;    /* vars of whose gradients something was told */
};

/* unroll_ops.c */
void *unroll_get(const unroll_map *m, uint64_t key);
WEFT_MUST_USE weft_status unroll_put(unroll *u, unroll_map *m, uint64_t key, void *value);
void unroll_free(const unroll *u, unroll_map *m);
void unroll_clear(unroll_map *m); /* keeps the room */
void unroll_fini(unroll *u);

/* The key of a var, and of an array, as an op in that scope sees it. */
uint64_t unroll_key(const unroll_scope *s, const weft_var *v);
/* The var of block 0 that it is; to a gradient, the copy of what it was to the op that it is the gradient of. */
WEFT_MUST_USE weft_status unroll_var(unroll *u, unroll_scope *s, weft_var *v, weft_var **out);
/* A new var of block 0, named after a stem. */
WEFT_MUST_USE weft_status unroll_new_var(unroll *u, const weft_var *stem, const shape *type, weft_var **out);
/* The one integer or boolean that a var holds; false: only a run knows. */
bool unroll_value(const unroll *u, const weft_var *v, int64_t *out);
/* Forgets what is known of vars that ops of a block write and that are not that run's own. */
void unroll_forget(unroll *u, const weft_block *block, const unroll_scope *run);
/* Whether an op so far, or a feed, wrote that var of block 0. */
bool unroll_is_written(const unroll *u, const weft_var *v);
WEFT_MUST_USE weft_status unroll_set_written(unroll *u, const weft_var *v);

/* An op of that type like `from` in its role, to be given arguments and then to unroll_emit. */
WEFT_MUST_USE weft_status unroll_make(unroll *u, const weft_op *from, const char *type, weft_op **out);
WEFT_MUST_USE weft_status unroll_emit(unroll *u, weft_op *op);
/* The same, ahead of the condition that only a run knows; without one it is the same. */
WEFT_MUST_USE weft_status unroll_emit_ahead(unroll *u, weft_op *op);
/* A copy of an op of a body, with the vars that its arguments are there. */
WEFT_MUST_USE weft_status unroll_emit_clone(unroll *u, unroll_scope *s, weft_op *op);
/* A select_input or select_output whose choice is known is a copy: branches that are left out make nothing; *out_done:
 * it was one. */
WEFT_MUST_USE weft_status unroll_select(unroll *u, unroll_scope *s, weft_op *op, bool *out_done);
/* Notes what is known after an op of block 0 that stays where it is; unroll_emit does so for new ones. */
WEFT_MUST_USE weft_status unroll_infer(unroll *u, weft_op *op);
/* Begins a conditional_block of its own behind what is there; *out_outer: where `into` goes back to. */
WEFT_MUST_USE weft_status unroll_begin_condition(unroll *u, const weft_op *by, weft_var *condition,
                                                 weft_block **out_outer);
/* `to` = type(`from`): assign, fill_zeros_like. */
WEFT_MUST_USE weft_status unroll_copy(unroll *u, const weft_op *by, const char *type, weft_var *from, weft_var *to);

/* Of an op that stands in block 0, or where a condition guards it. */
WEFT_MUST_USE weft_status unroll_keep_origin(unroll *u, const unroll_scope *s, const weft_op *made, const weft_op *op);
/* `to` = `from`, in the place of the op. */
WEFT_MUST_USE weft_status unroll_assign(unroll *u, const unroll_scope *s, const weft_op *op, weft_var *from,
                                        weft_var *to);

/* adjoint.c: tells of what stands there for a gradient and is none. */
WEFT_MUST_USE weft_status unroll_check_gradients(unroll *u);

/* unroll_runs.c */
/* What a condition that only a run knows guards, if one does. */
typedef struct unroll_guarded {
    bool is_so;
    weft_block *outer, *supposed; /* where `into` and `supposed` go back to */
} unroll_guarded;
WEFT_MUST_USE weft_status unroll_new_scope(unroll *u, unroll_scope *parent, const weft_block *block,
                                           unroll_scope **out);
WEFT_MUST_USE weft_status unroll_add_run(unroll *u, unroll_runs *r, unroll_scope *s);
/* The runs that an op made, by its var of scopes; none where it is NULL. */
unroll_runs unroll_runs_of(const unroll *u, const unroll_scope *s, const weft_var *v);
WEFT_MUST_USE weft_status unroll_put_runs(unroll *u, const unroll_scope *s, const weft_var *v, const unroll_runs *r);
/* The body of a control op, and the condition of a conditional_block or its gradient. */
WEFT_MUST_USE weft_status unroll_block_of(const unroll *u, const weft_op *op, weft_block **out);
WEFT_MUST_USE weft_status unroll_condition_of(unroll *u, unroll_scope *s, const weft_op *op, weft_var **out);
WEFT_MUST_USE weft_status unroll_run_block(unroll *u, unroll_scope *s, const weft_block *block);
/* Where `condition` is not NULL, what follows goes into a conditional_block of its own, until it is left. */
WEFT_MUST_USE weft_status unroll_enter(unroll *u, const weft_op *by, weft_var *condition, unroll_guarded *out);
void unroll_leave(unroll *u, const unroll_guarded *g);
/* Behind it nothing is known of what it writes, but for the run's own. */
void unroll_leave_and_forget(unroll *u, const unroll_guarded *g, const unroll_scope *run);

/* unroll_control.c, unroll_grads.c */
WEFT_MUST_USE weft_status unroll_loop(unroll *u, unroll_scope *s, weft_op *op);
WEFT_MUST_USE weft_status unroll_condition(unroll *u, unroll_scope *s, weft_op *op);
WEFT_MUST_USE weft_status unroll_loop_grad(unroll *u, unroll_scope *s, weft_op *op);
WEFT_MUST_USE weft_status unroll_condition_grad(unroll *u, unroll_scope *s, weft_op *op);

/* unroll_versions.c */
static inline bool unroll_has_arg(const weft_op *op, bool output, const weft_var *v) {
    FOR_EACH_ARG(op, output, use_of) {
        if (use_of->var_id == v->id) return true;
    }
    return false;
}
WEFT_MUST_USE weft_status unroll_find_versions(unroll *u);
/* Keeps what gradients need, before the op writes over it and behind the block's last op. */
WEFT_MUST_USE weft_status unroll_keep_before(unroll *u, unroll_scope *s, const weft_op *op);
WEFT_MUST_USE weft_status unroll_keep_at_end(unroll *u, unroll_scope *s, const weft_block *block);
/* Behind the gradient of a writer: what it read of the var's gradient is zero to those before. */
WEFT_MUST_USE weft_status unroll_zero_taken(unroll *u, unroll_scope *s, const weft_op *op);

/* unroll_arrays.c */
static inline bool unroll_is_array(const weft_var *v) {
    return v->kind == WEFT_DENSE_TENSOR_ARRAY;
}
WEFT_MUST_USE weft_status unroll_array_copy(unroll *u, uint64_t from, uint64_t to);
/* to = from behind a run: where a condition guards it, into the vars that `to` has. */
WEFT_MUST_USE weft_status unroll_array_carry(unroll *u, const weft_op *by, uint64_t from, uint64_t to);
/* to[i] = to[i] + from[i]. */
WEFT_MUST_USE weft_status unroll_array_add(unroll *u, const weft_op *by, uint64_t from, uint64_t to);
/* An op that reads or writes tensor arrays; *out_done: it was one. */
WEFT_MUST_USE weft_status unroll_array_op(unroll *u, unroll_scope *s, weft_op *op, bool *out_done);

/* rewrite.c: ops that come to others. */
bool unroll_rewrites(const char *type);
WEFT_MUST_USE weft_status unroll_rewrite(unroll *u, unroll_scope *s, weft_op *op);
/* rewrite_fused.c: the same for a collective with products. */
bool unroll_is_fused(const char *type);
WEFT_MUST_USE weft_status unroll_fused(unroll *u, unroll_scope *s, weft_op *op);

#endif

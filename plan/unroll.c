/* unroll.c: a program without loops, tensor arrays, gradients of conditionals and the ops of rewrite.c, which computes
 * the same.
 *
 * A plan is made for one set of extents. How often a loop runs follows from these, or from integers that are known when
 * planning. So the ops of a body stand in the loop's place as often as it runs. A tensor array is the list of its
 * elements. Every run of a body has vars of its own. A gradient's body runs once for each run, the last one first, and
 * sees that run's vars. Of what several ops write it sees the value that it is the gradient of (unroll_versions.c).
 * Those that one op reads and writes (a counter) count back: so has Paddle it (while_op.cc, conditional_block_op.cc). A
 * condition that only a run knows stays a conditional_block, whose vars become block 0's, so that its gradient's block
 * finds them.
 *
 * Where only a run knows how often a loop runs, each run of its body is such a block, and is left out where the
 * condition before it does not hold. What is known of numbers in the k-th is what holds if k are made: a counter beside
 * a condition on data says where the loop ends at the latest. Where nothing does, a step that needs more runs than are
 * planned fails. Behind the loop nothing is known of what it writes. */
#include <stdio.h>

#include "plan/feeds.h"
#include "plan/unroll.h"

/* --- scopes ------------------------------------------------------------------------------------------------------- */

enum { /* runs planned of a loop that data end */
       UNCOUNTED_MAX = 64,
       COUNTED_MAX = 4096 /* where a counter ends it too */
};

static weft_status new_scope(unroll *u, unroll_scope *parent, const weft_block *block, unroll_scope **out) {
    *out = ARENA_NEW(&u->b->scratch, unroll_scope);
    if (!*out) return base_out_of_memory();
    **out = (unroll_scope){.parent = parent, .block = block, .id = ++u->nscopes};
    return NULL;
}

static weft_status add_run(unroll *u, unroll_runs *r, unroll_scope *s) {
    if (r->count == r->capacity) {
        size_t capacity = 2 * r->capacity + 4;
        unroll_scope **more = ARENA_ARRAY(&u->b->scratch, unroll_scope *, capacity);
        if (!more) return base_out_of_memory();
        if (r->count) memcpy(more, r->scopes, r->count * sizeof(unroll_scope *));
        r->scopes = more;
        r->capacity = capacity;
    }
    r->scopes[r->count++] = s;
    return NULL;
}

static weft_status run_op(unroll *u, unroll_scope *s, weft_op *op);

static weft_status run_block(unroll *u, unroll_scope *s, const weft_block *block) {
    FOR_EACH_OP(op, block) TRY(run_op(u, s, op));
    return unroll_keep_at_end(u, s, block);
}

static weft_status block_of(const unroll *u, const weft_op *op, weft_block **out) {
    const weft_attr *a = op_find_attr(op, "sub_block");
    if (!a || a->type != ATTR_BLOCK || a->u.i <= 0 || (uint64_t)a->u.i >= u->program->nblocks)
        return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "expected attr sub_block to be a block of the program");
    *out = u->program->blocks[a->u.i];
    return NULL;
}

static unroll_runs runs_of(const unroll *u, const unroll_scope *s, const weft_var *v) {
    const unroll_runs *kept = v ? unroll_get(&u->runs, unroll_key(s, v)) : NULL;
    return kept ? *kept : (unroll_runs){0};
}

static weft_status put_runs(unroll *u, const unroll_scope *s, const weft_var *v, const unroll_runs *r) {
    if (!v) return NULL;
    unroll_runs *kept = ARENA_NEW(&u->b->scratch, unroll_runs);
    if (!kept) return base_out_of_memory();
    *kept = *r;
    return unroll_put(u, &u->runs, unroll_key(s, v), kept);
}

/* --- loops -------------------------------------------------------------------------------------------------------- */

/* What a condition that only a run knows guards, if one does. */
typedef struct guarded {
    bool is_so;
    weft_block *outer, *supposed; /* where `into` and `supposed` go back to */
} guarded;

static weft_status enter(unroll *u, const weft_op *by, weft_var *condition, guarded *out) {
    *out = (guarded){condition != NULL, u->into, u->supposed};
    if (!condition) return NULL;
    TRY(unroll_begin_condition(u, by, condition, &out->outer));
    u->supposed = u->into;
    return NULL;
}

static void leave(unroll *u, const guarded *g) {
    u->into = g->outer;
    u->supposed = g->supposed;
}

/* Behind it nothing is known of what it writes, but for the run's own. */
static void leave_and_forget(unroll *u, const guarded *g, const unroll_scope *run) {
    if (g->is_so) unroll_forget(u, u->into, run);
    leave(u, g);
}

/* One more run, which its condition guards where it has one. */
static weft_status run_once(unroll *u, const weft_op *op, unroll_scope *run) {
    guarded g;
    TRY(enter(u, op, run->condition, &g));
    if (g.is_so) run->guarded = u->into;
    TRY(run_block(u, run, run->block));
    leave(u, &g);
    return NULL;
}

/* A copy of the condition as it is now: the body writes another. */
static weft_status guard_of(unroll *u, const weft_op *op, weft_var *condition, weft_var **out) {
    shape type = shape_env_get(&u->env, condition);
    TRY(unroll_new_var(u, condition, &type, out));
    TRY(unroll_copy(u, op, "assign", condition, *out));
    u->env.values[(*out)->id] = NULL;
    return NULL;
}

/* Whether the condition is of something that is known, and of what is not: it ends with what is known at the latest. */
static bool is_counted(const unroll *u, const weft_var *condition) {
    int64_t known;
    for (;;) {
        const weft_op *by = NULL;
        FOR_EACH_USE(use_of, condition) {
            const weft_op *op = use_op(u->program, use_of);
            if (use_of->is_output && op->block && (!by || op->id > by->id)) by = op;
        }
        if (!by) return false;
        if (op_is(by, "logical_and"))
            return unroll_value(u, weft_op_input(by, "X", 0), &known) ||
                   unroll_value(u, weft_op_input(by, "Y", 0), &known);
        if (!op_is(by, "assign") && !op_is(by, "cast")) return false;
        condition = weft_op_input(by, "X", 0);
    }
}

/* The step fails where the loop would go on. */
static weft_status end_loop(unroll *u, const weft_op *op, weft_var *condition, size_t nruns) {
    shape type = shape_env_get(&u->env, condition);
    char words[160];
    weft_var *ended;
    weft_op * not, *check;
    size_t index = op->block == u->root ? u->index : weft_op_index(op);
    snprintf(words, sizeof words,
             "while #%zu: data end this loop, and it needs more than the %zu runs that are planned", index, nruns);
    TRY(unroll_new_var(u, condition, &type, &ended));
    TRY(unroll_make(u, op, "logical_not", &not ));
    TRY(weft_op_add_input(not, "X", condition));
    TRY(weft_op_add_output(not, "Out", ended));
    TRY(unroll_emit(u, not ));
    TRY(unroll_make(u, op, "assert", &check));
    TRY(weft_op_add_input(check, "Cond", ended));
    TRY(weft_op_set_attr_string(check, "message", words));
    return unroll_emit(u, check);
}

/* Whether there is another run: the loop ends where the condition is known not to hold, or else after so many. */
static weft_status next_run(unroll *u, unroll_scope *s, const weft_op *op, weft_var *condition, unroll_runs *runs,
                            unroll_scope **out_run) {
    const unroll_scope *last = runs->count ? runs->scopes[runs->count - 1] : NULL;
    bool is_guarded = last && last->condition;
    int64_t again;
    *out_run = NULL;
    bool is_known = unroll_value(u, condition, &again);
    if (is_known && !again) return NULL;
    if (!is_known && runs->count >= (is_counted(u, condition) ? COUNTED_MAX : UNCOUNTED_MAX))
        return end_loop(u, op, condition, runs->count);
    unroll_scope *run;
    weft_block *body;
    TRY(block_of(u, op, &body));
    TRY(new_scope(u, s, body, &run));
    if (is_guarded || !is_known) TRY(guard_of(u, op, condition, &run->condition));
    TRY(add_run(u, runs, run));
    *out_run = run;
    return NULL;
}

static weft_status run_loop(unroll *u, unroll_scope *s, weft_op *op) {
    weft_var *condition = weft_op_input(op, "Condition", 0);
    unroll_scope *run;
    unroll_runs runs = {0};
    if (!condition) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "slot Condition is empty");
    TRY(unroll_var(u, s, condition, &condition));
    for (;;) {
        TRY(next_run(u, s, op, condition, &runs, &run));
        if (!run) break;
        TRY(run_once(u, op, run));
    }
    for (size_t k = 0; k < runs.count; k++)
        if (runs.scopes[k]->guarded) unroll_forget(u, runs.scopes[k]->guarded, runs.scopes[k]);
    return put_runs(u, s, weft_op_output(op, "StepScopes", 0), &runs);
}

/* The gradient that the body makes of an outer var, and where the op wants it. */
typedef struct grad_pair {
    weft_var *inside, *outside, *of;
    bool is_carried; /* it goes from run to run, and is not added up */
} grad_pair;

static weft_var *inside_grad(unroll *u, const weft_block *body, const weft_var *of) {
    const char *text_of = arena_format(&u->b->scratch, "%s@GRAD", of->name->bytes);
    return text_of ? block_find_text(body, text_of, strlen(text_of)) : NULL;
}

static weft_status find_pairs(unroll *u, const weft_op *op, const weft_block *body, const char *slot_name,
                              size_t *out_count, grad_pair **out) {
    char grad[32];
    snprintf(grad, sizeof grad, "%s@GRAD", slot_name);
    size_t n = weft_op_noutputs(op, grad), count = 0;
    *out = ARENA_ARRAY(&u->b->scratch, grad_pair, n ? n : 1);
    if (!*out) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) {
        weft_var *to = weft_op_output(op, grad, i), *of = weft_op_input(op, slot_name, i);
        if (plan_is_empty_name(to) || !of) continue;
        grad_pair p = {.inside = inside_grad(u, body, of), .outside = to, .of = of};
        for (size_t k = 0; k < weft_op_ninputs(op, "Out@GRAD"); k++)
            p.is_carried = p.is_carried || weft_op_input(op, "Out@GRAD", k)->name == to->name;
        (*out)[count++] = p;
    }
    *out_count = count;
    return NULL;
}

/* The var of the gradient's body that an output's gradient is to it; NULL: it reads none. */
static weft_var *inner_grad(const weft_op *op, const weft_block *body, size_t i) {
    const weft_attr *names = op_find_attr(op, "original_output_grad");
    if (!names || names->type != ATTR_STRINGS || i >= names->count) return NULL;
    return block_find_text(body, names->u.strings[i]->bytes, names->u.strings[i]->nbytes);
}

/* Where nobody reads an output, its gradient is zero. */
static weft_status zero_unread(unroll *u, unroll_scope *s, weft_op *op, const weft_block *body) {
    for (size_t i = 0; i < weft_op_ninputs(op, "Out@GRAD"); i++) {
        weft_var *outer = weft_op_input(op, "Out@GRAD", i), *to;
        size_t n = outer->name->nbytes;
        if (!inner_grad(op, body, i) || unroll_is_array(outer)) continue;
        TRY(unroll_var(u, s, outer, &to));
        weft_var *of = n > 5 ? block_find_text(op->block, outer->name->bytes, n - 5) : NULL;
        if (unroll_is_written(u, to) || !of) continue;
        TRY(unroll_var(u, s, of, &of));
        TRY(unroll_copy(u, op, "fill_zeros_like", of, to));
    }
    return NULL;
}

/* What the outputs' gradients are to a run. */
static weft_status link_grads(unroll *u, unroll_scope *s, unroll_scope *run, weft_op *op) {
    for (size_t i = 0; i < weft_op_ninputs(op, "Out@GRAD"); i++) {
        weft_var *outer = weft_op_input(op, "Out@GRAD", i), *inner = inner_grad(op, run->grad_block, i), *from, *to;
        if (!inner) continue;
        if (unroll_is_array(outer)) {
            TRY(unroll_array_copy(u, unroll_key(s, outer), unroll_key(run, inner)));
            continue;
        }
        TRY(unroll_var(u, s, outer, &from));
        if (!unroll_is_written(u, from)) continue;
        TRY(unroll_var(u, run, inner, &to));
        if (to != from) TRY(unroll_copy(u, op, "assign", from, to));
    }
    return NULL;
}

static weft_status take_grad(unroll *u, unroll_scope *s, unroll_scope *run, weft_op *op, const grad_pair *p,
                             bool is_first) {
    weft_var *from, *to;
    weft_op *add;
    if (!p->inside) return NULL;
    if (unroll_is_array(p->inside)) {
        uint64_t inner = unroll_key(run, p->inside), outer = unroll_key(s, p->outside);
        return p->is_carried ? unroll_array_carry(u, op, inner, outer) : unroll_array_add(u, op, inner, outer);
    }
    TRY(unroll_var(u, run, p->inside, &from));
    TRY(unroll_var(u, s, p->outside, &to));
    if (from == to || !unroll_is_written(u, from)) return NULL;
    if (is_first || p->is_carried) return unroll_copy(u, op, "assign", from, to);
    TRY(unroll_make(u, op, "sum", &add));
    TRY(weft_op_add_input(add, "X", to));
    TRY(weft_op_add_input(add, "X", from));
    TRY(weft_op_add_output(add, "Out", to));
    return unroll_emit(u, add);
}

static weft_status zero_grads(unroll *u, unroll_scope *s, weft_op *op, size_t count, const grad_pair *pairs) {
    for (size_t i = 0; i < count; i++) {
        weft_var *of, *to;
        if (unroll_is_array(pairs[i].of) || pairs[i].is_carried) continue;
        TRY(unroll_var(u, s, pairs[i].of, &of));
        TRY(unroll_var(u, s, pairs[i].outside, &to));
        TRY(unroll_copy(u, op, "fill_zeros_like", of, to));
    }
    return NULL;
}

static weft_status run_grad_once(unroll *u, unroll_scope *s, weft_op *op, unroll_scope *run, size_t npairs,
                                 const grad_pair *pairs, bool is_first) {
    guarded g;
    TRY(enter(u, op, run->condition, &g));
    TRY(link_grads(u, s, run, op));
    TRY(run_block(u, run, run->grad_block));
    for (size_t i = 0; i < npairs; i++) TRY(take_grad(u, s, run, op, &pairs[i], is_first));
    leave_and_forget(u, &g, run);
    return NULL;
}

/* Which run was the last one, only a run knows where they are guarded: then all gradients begin with zero. */
static weft_status run_loop_grad(unroll *u, unroll_scope *s, weft_op *op) {
    weft_block *body;
    grad_pair *pairs;
    size_t npairs;
    TRY(block_of(u, op, &body));
    unroll_runs runs = runs_of(u, s, weft_op_input(op, "StepScopes", 0));
    TRY(find_pairs(u, op, body, "X", &npairs, &pairs));
    bool begins_with_zero = !runs.count || runs.scopes[runs.count - 1]->condition;
    if (begins_with_zero) TRY(zero_grads(u, s, op, npairs, pairs));
    TRY(zero_unread(u, s, op, body));
    for (size_t k = runs.count; k-- > 0;) {
        runs.scopes[k]->grad_block = body;
        bool is_first = !begins_with_zero && k + 1 == runs.count;
        TRY(run_grad_once(u, s, op, runs.scopes[k], npairs, pairs, is_first));
    }
    return NULL;
}

/* --- conditionals ------------------------------------------------------------------------------------------------- */

static weft_status condition_of(unroll *u, unroll_scope *s, const weft_op *op, weft_var **out) {
    *out = weft_op_input(op, "Cond", 0);
    if (!*out || !attr_bool(op, "is_scalar_condition", false))
        return plan_error(u->b, WEFT_UNSUPPORTED, op, "expected one Cond and is_scalar_condition = true");
    return unroll_var(u, s, *out, out);
}

static weft_status run_condition(unroll *u, unroll_scope *s, weft_op *op) {
    weft_var *condition;
    weft_block *body;
    guarded g;
    unroll_scope *run;
    unroll_runs runs = {0};
    int64_t known;
    TRY(block_of(u, op, &body));
    TRY(condition_of(u, s, op, &condition));
    bool is_known = unroll_value(u, condition, &known);
    if (!is_known || known) {
        TRY(new_scope(u, s, body, &run));
        TRY(enter(u, op, is_known ? NULL : condition, &g));
        TRY(run_block(u, run, body));
        leave_and_forget(u, &g, run);
        TRY(add_run(u, &runs, run));
    }
    return put_runs(u, s, weft_op_output(op, "Scope", 0), &runs);
}

/* Where the block does not run the gradients are zero; so they are first, and it replaces them. */
static weft_status run_condition_grad(unroll *u, unroll_scope *s, weft_op *op) {
    weft_var *condition;
    weft_block *body;
    guarded g;
    grad_pair *pairs;
    size_t npairs;
    int64_t known;
    TRY(block_of(u, op, &body));
    TRY(condition_of(u, s, op, &condition));
    unroll_runs runs = runs_of(u, s, weft_op_input(op, "Scope", 0));
    TRY(find_pairs(u, op, body, "Input", &npairs, &pairs));
    for (size_t i = 0; i < npairs; i++) pairs[i].is_carried = false;
    bool is_known = unroll_value(u, condition, &known);
    if (!is_known || !runs.count) TRY(zero_grads(u, s, op, npairs, pairs));
    if (!runs.count) return NULL;
    unroll_scope *run = runs.scopes[0];
    run->grad_block = body;
    TRY(enter(u, op, is_known ? NULL : condition, &g));
    TRY(run_block(u, run, body));
    for (size_t i = 0; i < npairs; i++) TRY(take_grad(u, s, run, op, &pairs[i], true));
    leave_and_forget(u, &g, run);
    return NULL;
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *type;
    weft_status (*run)(unroll *, unroll_scope *, weft_op *);
} control_ops[] = {{"while", run_loop},
                   {"while_grad", run_loop_grad},
                   {"conditional_block", run_condition},
                   {"conditional_block_grad", run_condition_grad}};

/* *out_done: others stand in its place. */
static weft_status run_rewritten(unroll *u, unroll_scope *s, weft_op *op, bool *out_done) {
    *out_done = true;
    for (size_t i = 0; i < sizeof control_ops / sizeof *control_ops; i++)
        if (op_is(op, control_ops[i].type)) return control_ops[i].run(u, s, op);
    TRY(unroll_array_op(u, s, op, out_done));
    if (!*out_done) TRY(unroll_select(u, s, op, out_done));
    if (*out_done || !unroll_rewrites(weft_op_type(op))) return NULL;
    *out_done = true;
    return unroll_rewrite(u, s, op);
}

static weft_status run_op(unroll *u, unroll_scope *s, weft_op *op) {
    bool done;
    s->op = op;
    TRY(unroll_keep_before(u, s, op));
    TRY(run_rewritten(u, s, op, &done));
    if (!done) TRY(s->parent ? unroll_emit_clone(u, s, op) : unroll_infer(u, op));
    if (!done && !s->parent) u->before = op->next;
    TRY(unroll_zero_taken(u, s, op));
    if (done && !s->parent) weft_op_remove(op);
    s->op = NULL;
    return NULL;
}

static weft_status take_feed(unroll *u, const weft_feed_type *f) {
    const weft_var *v = weft_block_find_var(u->root, f->name);
    if (!v || f->ndim > WEFT_MAX_RANK) return NULL; /* plan_infer_types says so */
    shape type = {.dtype = f->dtype, .ndim = (int32_t)f->ndim, .height = -1};
    memcpy(type.dims, f->dims, f->ndim * sizeof *f->dims);
    TRY(shape_env_set(&u->env, v, &type));
    if (f->values) shape_env_set_values(&u->env, v, f->values);
    return unroll_set_written(u, v);
}

static bool has_op(const weft_program *p, const char *type) {
    for (size_t i = 0; i < p->nblocks; i++) FOR_EACH_OP(op, p->blocks[i]) {
            if (op_is(op, type)) return true;
        }
    return false;
}

static bool needs_unrolling(const weft_program *p) {
    static const char *const types[] = {"while", "while_grad", "conditional_block_grad"};
    for (size_t i = 0; i < p->nblocks; i++) FOR_EACH_OP(op, p->blocks[i]) {
            for (size_t k = 0; k < sizeof types / sizeof *types; k++)
                if (op_is(op, types[k])) return true;
            if (unroll_rewrites(weft_op_type(op))) return true;
            FOR_EACH_ARG(op, true, use_of) {
                if (unroll_is_array(use_var(p, use_of))) return true;
            }
        }
    return false;
}

static weft_status run_program(unroll *u) {
    TRY(shape_env_init(&u->env, u->program, &u->b->scratch));
    for (size_t i = 0; i < u->b->options->nfeeds; i++) TRY(take_feed(u, &u->b->options->feeds[i]));
    TRY(unroll_find_versions(u));
    u->is_length_asked = has_op(u->program, "lod_array_length");
    size_t nblocks = u->program->nblocks;
    for (weft_op *op = u->root->first, *next; op; op = next) {
        next = op->next;
        u->before = op;
        TRY(run_op(u, &u->root_scope, op));
        u->index++;
    }
    for (size_t i = 1; i < nblocks; i++) /* the bodies: their ops stand in block 0 */
        while (u->program->blocks[i]->first) weft_op_remove(u->program->blocks[i]->first);
    return NULL;
}

weft_status plan_unroll(plan_builder *b) {
    if (!needs_unrolling(b->program)) return NULL;
    unroll u = {.b = b, .program = b->program, .root = b->program->blocks[0]};
    u.root_scope.block = u.root;
    weft_status status = run_program(&u);
    unroll_fini(&u);
    return status;
}

weft_status plan_unroll_program(weft_program *p) {
    static const weft_plan_options none = {.order = NULL};
    plan_builder b = {.context = p->context, .program = p, .options = &none};
    arena_init(&b.scratch, &p->context->allocator);
    weft_status status = plan_require_undecided(p, &b.scratch);
    if (!status) status = plan_unroll(&b);
    arena_fini(&b.scratch);
    return status;
}

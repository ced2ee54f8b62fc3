/* wait_views.c: readers of a pending result get it through the wait as data, not by order alone.
 *
 * In a graph of values a wait whose result nobody reads is dead: a consumer of the graph may drop it. So readers of the
 * pending result read the wait's result, and readers of a view read a view of that. Names of the result are what the
 * collective wrote, its alias, and getitems of these. Views of a name that a later op reads go behind the wait, those
 * of views too; where an op before the wait reads one as well, a copy of the view op goes there. Two views that show
 * the same bytes by way of a wider buffer stay as they are: no view leads from the result to them. */
#include <stdlib.h>

#include "passes/certificate.h"
#include "passes/wait_views.h"
#include "program/grow.h"

/* A view op before the wait, of a name of the pending result or of another such view. */
typedef struct moved_view {
    weft_op *op;
    bool is_needed; /* an op behind the wait reads what it makes, or a needed view does */
    bool stays;     /* so does an op before the wait */
} moved_view;

/* `from` is called `to` behind the wait. */
typedef struct new_name {
    weft_var *from, *to;
} new_name;

typedef struct router {
    weft_pass_context *pass;
    weft_program *program;
    arena *arena;
    weft_op *wait, *last; /* last: the op behind which the next view goes */
    new_name *names;
    size_t nnames, name_capacity;
    moved_view *views;
    size_t nviews, view_capacity;
} router;

/* --- names -------------------------------------------------------------------------------------------------------- */

static weft_status add_name(router *r, weft_var *from, weft_var *to) {
    for (size_t i = 0; i < r->nnames; i++)
        if (r->names[i].from == from) return NULL;
    TRY(grow(r->arena, &r->names, &r->name_capacity, r->nnames + 1, sizeof *r->names));
    r->names[r->nnames++] = (new_name){from, to};
    return NULL;
}

/* The whole pending result under each of its names. */
static weft_status find_names(router *r, const pending *p, weft_var *to) {
    const use *alias = pending_alias(p);
    TRY(add_name(r, op_x(r->wait), to));
    TRY(add_name(r, use_var(r->program, p->out), to));
    if (alias) TRY(add_name(r, use_var(r->program, alias), to));
    for (size_t i = 0; i < r->nnames; i++) {
        FOR_EACH_USE(u, r->names[i].from) {
            weft_op *op = use_op(r->program, u);
            bool names_it = !u->is_output && op_is(op, "getitem") && op_out(op) && weft_op_is_before(p->op, op);
            if (names_it) TRY(add_name(r, op_out(op), to));
        }
    }
    return NULL;
}

/* --- readers ------------------------------------------------------------------------------------------------------ */

static bool reads(const weft_op *op, const weft_var *v) {
    FOR_EACH_ARG(op, false, u) {
        if (u->var_id == v->id) return true;
    }
    return false;
}

static bool writes(const weft_op *op, const weft_var *v) {
    FOR_EACH_ARG(op, true, u) {
        if (u->var_id == v->id) return true;
    }
    return false;
}

/* The first op behind `wait` that makes `v` anew, NULL if none does. What reads it too writes in place. */
static const weft_op *next_maker(const weft_op *wait, const weft_var *v) {
    const weft_op *first = NULL;
    FOR_EACH_USE(u, v) {
        const weft_op *op = use_op(v->program, u);
        bool makes = u->is_output && op->block == wait->block && op->order > wait->order && !reads(op, v);
        if (makes && (!first || op->order < first->order)) first = op;
    }
    return first;
}

static bool is_name(const router *r, const weft_var *v) {
    for (size_t i = 0; i < r->nnames; i++)
        if (r->names[i].from == v) return true;
    return false;
}

/* A getitem of the collective names its result, and takes no other list. */
static bool gives_a_name(const router *r, const weft_op *op) {
    return op_is(op, "getitem") && op_out(op) && is_name(r, op_out(op));
}

/* Readers of `from` behind the last view that was put behind the wait. State that the wait does not take itself is
 * still written under its own name. */
static weft_status rename_later(router *r, weft_var *from, weft_var *to) {
    const weft_op *end = next_maker(r->wait, from);
    weft_op **users = ARENA_ARRAY(r->arena, weft_op *, from->nuses + 1);
    bool in_place = from == op_x(r->wait) || !from->persistable;
    size_t nusers = 0;
    if (!users) return base_out_of_memory();
    FOR_EACH_USE(u, from) {
        weft_op *op = use_op(from->program, u);
        bool is_later = op->block == r->wait->block && op->order > r->last->order && (!end || op->order < end->order);
        if (is_later && (in_place || !writes(op, from)) && !gives_a_name(r, op)) users[nusers++] = op;
    }
    for (size_t i = 0; i < nusers; i++) {
        weft_op_rename_input(users[i], from, to);
        if (in_place) weft_op_rename_output(users[i], from, to);
    }
    return NULL;
}

/* --- views -------------------------------------------------------------------------------------------------------- */

static bool may_follow(const router *r, weft_op *op) {
    if (op->block != r->wait->block || op == r->wait || !weft_op_is_before(op, r->wait)) return false;
    if (!op_makes_views_only(op) || op_is_wait(op) || op_has_effect(op, OP_COLLECTIVE)) return false;
    return !gives_a_name(r, op);
}

static weft_status add_views_of(router *r, const weft_var *v) {
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(r->program, u);
        bool known = u->is_output || !may_follow(r, op);
        for (size_t i = 0; i < r->nviews && !known && op_nargs(op, false) > 1; i++) known = r->views[i].op == op;
        if (known) continue;
        TRY(grow(r->arena, &r->views, &r->view_capacity, r->nviews + 1, sizeof *r->views));
        r->views[r->nviews++] = (moved_view){.op = op};
    }
    return NULL;
}

static int by_order(const void *a, const void *b) {
    const weft_op *x = ((const moved_view *)a)->op, *y = ((const moved_view *)b)->op;
    return weft_op_is_before(x, y) ? -1 : weft_op_is_before(y, x);
}

static weft_status find_views(router *r) {
    for (size_t i = 0; i < r->nnames; i++) TRY(add_views_of(r, r->names[i].from));
    for (size_t i = 0; i < r->nviews; i++) {
        const weft_op *op = r->views[i].op;
        FOR_EACH_ARG(op, true, u) TRY(add_views_of(r, use_var(r->program, u)));
    }
    if (r->nviews > 1) qsort(r->views, r->nviews, sizeof *r->views, by_order);
    return NULL;
}

static const moved_view *find_view(const router *r, const weft_op *op) {
    const moved_view key = {.op = (weft_op *)op};
    return bsearch(&key, r->views, r->nviews, sizeof *r->views, by_order);
}

/* `end`: the op behind the wait that makes anew what is read; NULL: none. */
static void judge_reader(const router *r, moved_view *view, const weft_op *reader, const weft_op *end) {
    if (reader == view->op) return;
    const moved_view *other = reader->block == r->wait->block ? find_view(r, reader) : NULL;
    if (reader->block == r->wait->block && weft_op_is_before(r->wait, reader)) {
        view->is_needed = view->is_needed || !end || weft_op_is_before(reader, end);
    } else if (other) {
        view->is_needed = view->is_needed || other->is_needed;
        view->stays = view->stays || other->stays || !other->is_needed;
    } else {
        view->stays = true;
    }
}

/* From the last, so that views of a view are judged before it. */
static void judge_views(router *r) {
    for (size_t i = r->nviews; i-- > 0;) {
        moved_view *view = &r->views[i];
        FOR_EACH_ARG(view->op, true, made) {
            const weft_var *v = use_var(r->program, made);
            const weft_op *end = next_maker(r->wait, v);
            FOR_EACH_USE(u, v) judge_reader(r, view, use_op(r->program, u), end);
        }
    }
}

static weft_status new_like(router *r, weft_var *like, weft_var **out) {
    const name *n;
    TRY(program_unique_name(r->program, like->name->bytes, &n));
    TRY(weft_block_add_var(r->program->blocks[0], n->bytes, (weft_dtype)like->dtype, like->ndim, like->dims, out));
    (*out)->kind = like->kind;
    (*out)->dist = like->dist;
    return NULL;
}

/* An op like `view` that makes vars of its own. The pass's claims do not cover it: no rule of a certificate says what
 * an inserted view shows. */
static weft_status copy_view(router *r, weft_op *view, weft_op **out) {
    weft_op *copy;
    TRY(op_clone(view, &copy));
    FOR_EACH_ARG(view, true, u) {
        weft_var *made = use_var(r->program, u), *again;
        TRY(new_like(r, made, &again));
        weft_op_rename_output(copy, made, again);
        TRY(add_name(r, made, again));
    }
    if (r->pass->certificate) r->pass->certificate->claims_all = false;
    *out = copy;
    return NULL;
}

static weft_status take_view(router *r, const moved_view *view) {
    weft_op *op = view->op;
    size_t nnames = r->nnames;
    if (view->stays) TRY(copy_view(r, op, &op));
    for (size_t i = 0; i < nnames; i++) weft_op_rename_input(op, r->names[i].from, r->names[i].to);
    if (view->stays)
        weft_block_insert_after(r->program->blocks[0], r->last, op);
    else
        weft_op_move_after(op, r->last);
    r->last = op;
    for (size_t i = nnames; i < r->nnames; i++) TRY(rename_later(r, r->names[i].from, r->names[i].to));
    return NULL;
}

/* Most pending results are read by their wait and by nobody else, under one name or as a list's member. */
static bool is_read_by_wait_alone(const pending *p, const weft_op *wait) {
    const weft_var *x = op_x(wait), *out = use_var(wait->program, p->out);
    if (pending_alias(p) || out->nuses != 2 || x->nuses != 2) return false;
    const weft_op *maker = use_op(wait->program, use_at(wait->program, x->first_use));
    return x == out || (op_is(maker, "getitem") && op_x(maker) == out);
}

weft_status wait_take_readers(weft_pass_context *pass, const pending *p, weft_op *wait, size_t *out_nmoved) {
    router r = {.pass = pass, .program = wait->program, .arena = pass_scratch(pass), .wait = wait, .last = wait};
    *out_nmoved = 0;
    if (!op_out(wait) || !op_x(wait) || is_read_by_wait_alone(p, wait)) return NULL;
    TRY(find_names(&r, p, op_out(wait)));
    TRY(find_views(&r));
    judge_views(&r);
    for (size_t i = 0, n = r.nnames; i < n; i++) TRY(rename_later(&r, r.names[i].from, r.names[i].to));
    for (size_t i = 0; i < r.nviews; i++) {
        if (!r.views[i].is_needed) continue;
        TRY(take_view(&r, &r.views[i]));
        ++*out_nmoved;
    }
    return NULL;
}

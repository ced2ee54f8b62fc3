/* walk.c: both programs are followed op by op, first the one before.
 *
 * There, what an opaque op makes is a new value; copies, scales, all-reduces and buckets are followed. After, an opaque
 * op must be the one before of the same number, with equal attrs and equal inputs; then it makes the same values. Where
 * inputs differ by a factor alone the outputs differ by it, if the op is linear in exactly those. So a factor may be
 * elsewhere, a reduce may be of a bucket, a value may be in another var: as long as what opaque ops read, what state
 * holds at the end, and what is fetched is the same. */
#include <math.h>
#include <stdlib.h>

#include "program/grow.h"
#include "proof/certificate/certificate.h"

enum { MAX_DEPTH = 16 };

/* --- what sub-blocks touch ---------------------------------------------------------------------------------------- */

typedef struct nested_use {
    weft_var *var;
    bool is_output;
} nested_use;

typedef struct nested_uses {
    arena *arena;
    nested_use *items;
    size_t count, capacity;
} nested_uses;

static weft_status add_block(nested_uses *n, const weft_program *p, int64_t index, int32_t above, int depth);

static weft_status add_blocks_of(nested_uses *n, const weft_op *op, int depth) {
    for (size_t i = 0; i < op->nattrs; i++) {
        const weft_attr *a = &op->attrs[i];
        if (a->type == ATTR_BLOCK) TRY(add_block(n, op->program, a->u.i, op->block->idx, depth));
        for (size_t k = 0; a->type == ATTR_BLOCKS && k < a->count; k++)
            TRY(add_block(n, op->program, a->u.ints[k], op->block->idx, depth));
    }
    return NULL;
}

static weft_status add_block(nested_uses *n, const weft_program *p, int64_t index, int32_t above, int depth) {
    if (index <= above || (uint64_t)index >= p->nblocks || depth >= MAX_DEPTH) return NULL;
    FOR_EACH_OP(op, p->blocks[index]) {
        for (int output = 0; output < 2; output++) {
            FOR_EACH_ARG(op, output, u) {
                TRY(grow(n->arena, &n->items, &n->capacity, n->count + 1, sizeof *n->items));
                n->items[n->count++] = (nested_use){use_var(p, u), output};
            }
        }
        TRY(add_blocks_of(n, op, depth + 1));
    }
    return NULL;
}

static weft_status nested_of(cert_checker *c, const weft_op *op, nested_uses *out) {
    *out = (nested_uses){.arena = c->arena};
    return op->program->nblocks > 1 ? add_blocks_of(out, op, 0) : NULL;
}

/* --- the program before ------------------------------------------------------------------------------------------- */

/* What op reads, in the order of its slots, then of its sub-blocks. */
static weft_status read_inputs(cert_world *w, weft_op *op, const nested_uses *nested, cert_value **out) {
    cert_value *values = ARENA_ARRAY(w->c->arena, cert_value, op_nargs(op, false) + nested->count + 1);
    size_t n = 0;
    if (!values) return base_out_of_memory();
    FOR_EACH_ARG(op, false, u) TRY(cert_read_var(w, use_var(op->program, u), &values[n++]));
    for (size_t i = 0; i < nested->count; i++) TRY(cert_read_var(w, nested->items[i].var, &values[n++]));
    *out = values;
    return NULL;
}

static void touch_all(cert_world *w, const weft_op *op, cert_rule rule, const nested_uses *nested) {
    for (int output = 0; output < 2 && rule != CERT_VIEW; output++) {
        FOR_EACH_ARG(op, output, u) cert_touch(w, use_var(op->program, u));
    }
    for (size_t i = 0; i < nested->count; i++) cert_touch(w, nested->items[i].var);
}

/* Views share their bytes with the input; so does what copy_ gives. */
static weft_status bind_outputs(cert_world *w, const weft_op *op, cert_rule rule, uint32_t old) {
    const slot *x = cert_x(op), *out = cert_out(op);
    if (!x || !x->nargs || !out) return NULL;
    for (size_t i = 0; i < out->nargs && rule == CERT_VIEW; i++)
        TRY(cert_bind_view(w, slot_var(op, x, 0), slot_var(op, out, i), old, i));
    bool copies = op_is(op, "aten_copy_") && out->nargs == 1;
    return copies ? cert_name(w, slot_var(op, out, 0), slot_var(op, x, 0)) : NULL;
}

/* Another collective whose outputs are pending. */
static weft_status pending_outputs(cert_world *w, const weft_op *op) {
    const slot *out = cert_out(op), *alias = op_find_slot(op, true, "alias");
    for (size_t i = 0; out && alias && i < alias->nargs && i < out->nargs; i++)
        TRY(cert_name(w, slot_var(op, alias, i), slot_var(op, out, i)));
    if (!weft_op_attr_bool(op, "async_op", false)) return NULL;
    FOR_EACH_ARG(op, true, u) w->pending[w->root[w->name_of[u->var_id]]] = w->position + 1;
    return NULL;
}

/* The i-th output gets base first + i, times factor. Making a view writes nothing. */
static weft_status write_output(cert_world *w, weft_var *v, uint32_t base, double factor, uint32_t old, bool is_view) {
    cert_value value;
    TRY(cert_simple(w->c, base, factor, &value));
    if (is_view) {
        w->values[v->id] = value;
        return NULL;
    }
    return cert_write_var(w, v, value, old);
}

static weft_status opaque_before(cert_checker *c, weft_op *op, uint32_t k, cert_rule rule) {
    cert_world *w = &c->before;
    nested_uses nested;
    TRY(nested_of(c, op, &nested));
    TRY(read_inputs(w, op, &nested, &c->old_inputs[k]));
    TRY(cert_apply_gathers(c, op, k, c->old_inputs[k]));
    touch_all(w, op, rule, &nested);
    c->first_base[k] = (uint32_t)c->nbases;
    uint32_t base, other = c->same_as[k];
    if (other != CERT_NONE && cert_gives_same(c, k, other)) c->first_base[k] = c->first_base[other];
    FOR_EACH_ARG(op, true, u) TRY(cert_new_base(c, k, use_var(op->program, u)->name->bytes, &base));
    for (size_t i = 0; i < nested.count; i++) TRY(cert_new_base(c, k, nested.items[i].var->name->bytes, &base));
    TRY(bind_outputs(w, op, rule, k));
    base = c->first_base[k];
    FOR_EACH_ARG(op, true, u) {
        weft_var *v = use_var(op->program, u);
        if (!cert_leaves_alone(op, v)) TRY(write_output(w, v, base, 1, k, rule == CERT_VIEW));
        base++;
    }
    for (size_t i = 0; i < nested.count; i++, base++)
        if (nested.items[i].is_output) TRY(write_output(w, nested.items[i].var, base, 1, k, false));
    return pending_outputs(w, op);
}

/* The reduces, and weights, that data parallelism is claimed to put behind an op, as 1 + index of a claim. */
typedef struct reduce_lists {
    size_t *first; /* by op */
    size_t *next;  /* by claim */
} reduce_lists;

static weft_status list_reduces(cert_checker *c, reduce_lists *out) {
    out->first = ARENA_ARRAY(c->arena, size_t, c->nold + 1);
    out->next = ARENA_ARRAY(c->arena, size_t, c->doc.nclaims + 1);
    if (!out->first || !out->next) return base_out_of_memory();
    for (size_t i = c->doc.nclaims; i-- > 0;) {
        if (c->doc.claims[i].kind != CERT_REDUCE && c->doc.claims[i].kind != CERT_WEIGH) continue;
        size_t *first = &out->first[c->doc.claims[i].other];
        out->next[i] = *first;
        *first = i + 1;
    }
    return NULL;
}

/* They happen here. */
static weft_status claimed_reduces(cert_checker *c, uint32_t k, const reduce_lists *lists) {
    for (size_t i = lists->first[k]; i; i = lists->next[i - 1]) {
        const cert_claim *claim = &c->doc.claims[i - 1];
        if (claim->kind == CERT_WEIGH) {
            TRY(cert_apply_weigh(c, claim));
            continue;
        }
        weft_var *v = block_find_text(c->before.p->blocks[0], claim->var, strlen(claim->var));
        cert_value value;
        TRY(cert_read_var(&c->before, v, &c->joined[claim->op]));
        TRY(cert_join_value(c, c->joined[claim->op], c->ranks->ring, WEFT_REDUCE_SUM, claim->factor, &value));
        TRY(cert_write_var(&c->before, v, value, CERT_NONE));
    }
    return NULL;
}

weft_status cert_walk_before(cert_checker *c) {
    reduce_lists lists;
    TRY(list_reduces(c, &lists));
    for (uint32_t k = 0; k < c->nold; k++) {
        weft_op *op = c->old_ops[k];
        cert_rule rule = cert_rule_of(op);
        nested_uses none = {.count = 0};
        c->before.position = k;
        if (rule == CERT_OPAQUE || rule == CERT_VIEW) {
            TRY(opaque_before(c, op, k, rule));
        } else {
            if (rule == CERT_JOIN) TRY(read_inputs(&c->before, op, &none, &c->old_inputs[k]));
            TRY(cert_follow(&c->before, op, rule, k));
        }
        TRY(claimed_reduces(c, k, &lists));
        if (c->message) return NULL;
    }
    return NULL;
}

/* --- the program after: one op against the one before ------------------------------------------------------------- */

typedef struct comparison {
    cert_checker *c;
    const weft_op *op;
    uint32_t at, k;
    double ratio; /* of the inputs that differ; 1: none so far */
    bool varies;  /* an input is another on each rank */
} comparison;

static void note_varies(comparison *m, cert_value v) {
    for (size_t i = 0; i < v.count && m->c->ranks; i++)
        m->varies = m->varies || (!v.parts[i].chain && m->c->bases[v.parts[i].base].varies);
}

static weft_status compare_input(comparison *m, const name *slot_name, cert_value before, cert_value now) {
    cert_checker *c = m->c;
    double ratio = cert_ratio(before, now);
    bool fits = ratio == 1 || (ratio != 0 && slot_name && cert_is_linear(m->op, slot_name) &&
                               (m->ratio == 1 || cert_same_factor(ratio, m->ratio)));
    c->nchecked++;
    note_varies(m, now);
    if (m->ratio == 1 && fits) m->ratio = ratio;
    if (fits) return NULL;
    return cert_refuse(c, "%s: input \"%s\": expected %s, found %s%s", cert_op_text(c, m->op, m->at),
                       slot_name ? slot_name->bytes : "of its block", cert_value_text(c, before),
                       cert_value_text(c, now), ratio ? ", and the op is not linear in it" : "");
}

/* Where some inputs differ by a factor all must in which the op is linear, but for those that hold no numbers. */
static weft_status check_all_scaled(comparison *m, const cert_value *now) {
    const weft_op *old = m->c->old_ops[m->k];
    size_t n = 0;
    for (size_t i = 0; i < op_nslots(old, false) && m->ratio != 1; i++) {
        const slot *s = op_slot(old, false, i);
        for (size_t j = 0; j < s->nargs; j++, n++) {
            bool counts =
                cert_is_linear(old, s->name) && slot_var(old, s, j)->block && cert_is_float(slot_var(old, s, j)->dtype);
            if (counts && !cert_same_factor(cert_ratio(m->c->old_inputs[m->k][n], now[n]), m->ratio))
                return cert_refuse(m->c, "%s: input \"%s\" has not the factor %g that its other inputs have",
                                   cert_op_text(m->c, m->op, m->at), s->name->bytes, m->ratio);
        }
    }
    return NULL;
}

/* A body writes what its op names as an output, or leaves it as it was. */
static bool is_target(const weft_op *op, const nested_use *nested) {
    bool found = false;
    FOR_EACH_ARG(op, true, u) found |= use_var(op->program, u) == nested->var;
    return found && nested->is_output;
}

static weft_status compare_inputs(comparison *m, const nested_uses *nested) {
    cert_checker *c = m->c;
    const weft_op *old = c->old_ops[m->k];
    cert_value *now = ARENA_ARRAY(c->arena, cert_value, op_nargs(old, false) + 1);
    size_t n = 0;
    if (!now) return base_out_of_memory();
    for (size_t i = 0; i < op_nslots(old, false); i++) {
        const slot *s = op_slot(old, false, i), *there = cert_same_slot(m->op, false, s);
        for (size_t j = 0; j < s->nargs && there; j++, n++) {
            TRY(cert_read_var(&c->after, slot_var(m->op, there, j), &now[n]));
            TRY(compare_input(m, s->name, c->old_inputs[m->k][n], now[n]));
        }
    }
    for (size_t i = 0; i < nested->count; i++, n++) {
        cert_value v;
        bool writes = is_target(m->op, &nested->items[i]);
        TRY((writes ? cert_read_target : cert_read_var)(&c->after, nested->items[i].var, &v));
        TRY(compare_input(m, NULL, c->old_inputs[m->k][n], v));
    }
    return check_all_scaled(m, now);
}

/* A seed holds its number times what was claimed. */
static double seed_number(const weft_op *op) {
    const char *digits = weft_op_attr_string(op, "str_value", "");
    return *digits ? strtod(digits, NULL) : weft_op_attr_float(op, "value", 0.0);
}

static weft_status compare_seed(comparison *m) {
    cert_checker *c = m->c;
    if (c->seed[m->k] == 0) return NULL;
    double before = seed_number(c->old_ops[m->k]), now = seed_number(m->op);
    double found = before != 0 ? cert_snap(now / before) : 0;
    if (found == cert_snap(c->seed[m->k])) {
        m->ratio = found;
        return NULL;
    }
    return cert_refuse(c, "%s: claimed to be %g times what it was, found %g and %g before",
                       cert_op_text(c, m->op, m->at), c->seed[m->k], now, before);
}

static weft_status check_type(comparison *m, const weft_var *before, const weft_var *now) {
    cert_checker *c = m->c;
    bool same = before->dtype == now->dtype;
    for (size_t i = 0; same && !c->ranks && before->has_tensor && now->has_tensor && i < now->ndim; i++)
        same = before->ndim == now->ndim && before->dims[i] == now->dims[i];
    if (same || !before->block) return NULL;
    return cert_refuse(c, "%s makes \"%s\", which is no tensor of the kind that \"%s\" was",
                       cert_op_text(c, m->op, m->at), now->name->bytes, before->name->bytes);
}

/* An optimizer may not update state from what differs between ranks. */
static weft_status check_update(comparison *m, const weft_var *v) {
    bool optimizes = (weft_op_role(m->op) & WEFT_ROLE_OPTIMIZE) ||
                     (op_find_slot(m->op, false, "Param") && op_find_slot(m->op, false, "Grad")) ||
                     (op_find_slot(m->op, false, "param") && op_find_slot(m->op, false, "grad"));
    if (!m->c->ranks || !m->varies || !optimizes || !v->persistable) return NULL;
    return cert_refuse(m->c, "%s updates \"%s\" from a value that differs between ranks: no claimed reduce joins it",
                       cert_op_text(m->c, m->op, m->at), v->name->bytes);
}

/* The same bytes are written, as far as views know them. */
static weft_status check_place(comparison *m, const weft_var *before, const weft_var *now) {
    const cert_world *b = &m->c->before, *a = &m->c->after;
    if (b->view[b->name_of[before->id]] == a->view[a->name_of[now->id]]) return NULL;
    return cert_refuse(m->c, "%s writes \"%s\", which shows other bytes than \"%s\" did",
                       cert_op_text(m->c, m->op, m->at), now->name->bytes, before->name->bytes);
}

static weft_status write_matched(comparison *m, const nested_uses *nested, cert_rule rule) {
    cert_checker *c = m->c;
    const weft_op *old = c->old_ops[m->k];
    uint32_t base = c->first_base[m->k];
    TRY(bind_outputs(&c->after, m->op, rule, m->k));
    for (size_t i = 0; i < op_nslots(old, true); i++) {
        const slot *s = op_slot(old, true, i), *there = cert_same_slot(m->op, true, s);
        for (size_t j = 0; j < s->nargs && there; j++, base++) {
            weft_var *v = slot_var(m->op, there, j);
            bool number = cert_is_float(v->dtype);
            if (cert_leaves_alone(m->op, v)) continue;
            c->bases[base].varies = m->varies;
            TRY(check_type(m, slot_var(old, s, j), v));
            TRY(check_update(m, v));
            if (rule != CERT_VIEW) TRY(check_place(m, slot_var(old, s, j), v));
            TRY(write_output(&c->after, v, base, number ? m->ratio : 1, m->k, rule == CERT_VIEW));
        }
    }
    for (size_t i = 0; i < nested->count; i++, base++) {
        c->bases[base].varies = m->varies;
        if (nested->items[i].is_output) TRY(write_output(&c->after, nested->items[i].var, base, 1, m->k, false));
    }
    return pending_outputs(&c->after, m->op);
}

/* What a feed op hands over is a rank's own if it is claimed to be split. */
static bool is_split_feed(const cert_checker *c, const weft_op *op) {
    if (!op_is(op, "feed") && !op_is(op, "feed_v2")) return false;
    const weft_var *v = weft_op_output(op, "Out", 0);
    return v && c->is_split_feed[v->id];
}

static weft_status opaque_after(cert_checker *c, weft_op *op, uint32_t at, uint32_t k, cert_rule rule) {
    comparison m = {.c = c, .op = op, .at = at, .k = k, .ratio = 1, .varies = is_split_feed(c, c->old_ops[k])};
    nested_uses nested;
    TRY(nested_of(c, op, &nested));
    TRY(cert_check_attrs(c, op, at, k));
    TRY(cert_check_slots(c, op, at, k));
    if (c->message) return NULL;
    touch_all(&c->after, op, rule, &nested);
    TRY(compare_inputs(&m, &nested));
    TRY(compare_seed(&m));
    return c->message ? NULL : write_matched(&m, &nested, rule);
}

static weft_status step_after(cert_checker *c, weft_op *op, uint32_t at, uint32_t k, uint32_t *last_kept) {
    cert_rule rule = cert_rule_of(op);
    nested_uses none = {.count = 0};
    bool is_weight = false;
    if (k == CERT_NONE) TRY(cert_follow_weight(c, op, at, &is_weight));
    if (is_weight) return NULL;
    if (k != CERT_NONE && !op_is(op, c->old_ops[k]->type->bytes))
        return cert_refuse(c, "%s has the number of %s before", cert_op_text(c, op, at),
                           cert_op_text(c, c->old_ops[k], k));
    if (rule != CERT_OPAQUE && rule != CERT_VIEW) {
        if (rule == CERT_JOIN) TRY(read_inputs(&c->after, op, &none, &c->new_inputs[at]));
        return cert_follow(&c->after, op, rule, k);
    }
    if (k == CERT_NONE && c->gather_of[c->doc.order.items[at]]) return cert_follow_gather(c, op, at);
    if (k == CERT_NONE)
        return cert_refuse(c, "%s was inserted, and no rule says what such an op computes", cert_op_text(c, op, at));
    if (cert_keeps_order(op) && *last_kept != CERT_NONE && *last_kept > k)
        return cert_refuse(
            c, "%s comes behind #%u of before: ops that draw random numbers or act on the host keep their order",
            cert_op_text(c, op, at), *last_kept);
    if (cert_keeps_order(op)) *last_kept = k;
    return opaque_after(c, op, at, k, rule);
}

/* --- what leaves a step ------------------------------------------------------------------------------------------- */

static weft_status compare_end(cert_checker *c, weft_var *old, const char *what) {
    weft_var *now = block_find_text(c->after.p->blocks[0], old->name->bytes, old->name->nbytes);
    cert_value a, b;
    if (!now) return cert_refuse(c, "%s \"%s\" is gone", what, old->name->bytes);
    TRY(cert_read_var(&c->before, old, &a));
    TRY(cert_read_var(&c->after, now, &b));
    c->nchecked++;
    if (cert_ratio(a, b) == 1) return NULL;
    return cert_refuse(c, "%s \"%s\" at the end of a step: expected %s, found %s", what, old->name->bytes,
                       cert_value_text(c, a), cert_value_text(c, b));
}

static weft_status check_end(cert_checker *c) {
    const weft_program *p = c->before.p;
    for (size_t k = 0; k < p->blocks[0]->nvars && !c->message; k++) {
        weft_var *v = block_var(p->blocks[0], k);
        if (v->persistable) TRY(compare_end(c, v, "state"));
    }
    for (size_t i = 0; i < c->nold && !c->message; i++) {
        int role = weft_op_role(c->old_ops[i]);
        if (!(role & WEFT_ROLE_LOSS) || (role & WEFT_ROLE_BACKWARD) || (role & WEFT_ROLE_NOT_SPECIFIED)) continue;
        FOR_EACH_ARG(c->old_ops[i], true, u) {
            weft_var *v = use_var(p, u);
            if (v->block && !v->persistable) TRY(compare_end(c, v, "the loss"));
        }
    }
    if (!c->message && c->after.early && !c->before.early) return cert_refuse(c, "%s", c->after.early);
    return NULL;
}

weft_status cert_walk_after(cert_checker *c) {
    bool *seen = ARENA_ARRAY(c->arena, bool, c->nold + 1);
    uint32_t last_kept = CERT_NONE;
    if (!seen) return base_out_of_memory();
    TRY(cert_check_blocks(c));
    for (uint32_t at = 0; at < c->nnew && !c->message; at++) {
        int64_t number = c->doc.order.items[at];
        uint32_t k = (size_t)number < c->nold ? (uint32_t)number : CERT_NONE;
        if (k != CERT_NONE) seen[k] = true;
        c->after.position = at;
        TRY(step_after(c, c->new_ops[at], at, k, &last_kept));
    }
    for (uint32_t k = 0; k < c->nold && !c->message; k++) {
        cert_rule rule = cert_rule_of(c->old_ops[k]);
        if (!seen[k] && (rule == CERT_OPAQUE || rule == CERT_VIEW) && c->same_as[k] == CERT_NONE)
            TRY(cert_refuse(c, "%s before is gone, and what it made with it", cert_op_text(c, c->old_ops[k], k)));
    }
    return c->message ? NULL : check_end(c);
}

/* values.c: what vars hold while a program is followed: factors, joins, bytes that several vars share.
 *
 * Sharing is followed by name and by view: another name of a var is that var; a view has a value of its own. A write to
 * the same bytes through another var changes it into one that only the same op with the same views gives. Members of a
 * bucket hold their own values, and the bucket is the list of them. What cannot be followed becomes a value that equals
 * nothing: the check then refuses, it does not guess. */
#include <math.h>

#include "program/grow.h"
#include "proof/certificate/certificate.h"

/* --- factors ------------------------------------------------------------------------------------------------------ */

enum { MAX_DENOMINATOR = 65536, MAX_OF_FRACTIONS = 512, FEW = 16 };
#define FLOAT_ROUNDING 1.2e-7

/* By continued fractions: the first convergent that is as near as a float can tell, if it is one that counts of ranks
 * make. Nearly any number has one with a large denominator: those stay as they are, so that their quotients are exact.
 */
bool cert_same_factor(double a, double b) {
    return a == b || fabs(a - b) <= 4 * FLOAT_ROUNDING * fabs(b);
}

double cert_snap(double factor) {
    double value = fabs(factor), rest = value, p0 = 1, q0 = 0, p1 = floor(value), q1 = 1;
    if (!(value > 0) || value > 1e9) return factor;
    for (int i = 0; i < 24 && q1 <= MAX_DENOMINATOR; i++) {
        bool counts = q1 <= MAX_OF_FRACTIONS || p1 <= FEW;
        if (fabs(p1 / q1 - value) <= FLOAT_ROUNDING * value) return !counts ? factor : factor < 0 ? -p1 / q1 : p1 / q1;
        double fraction = rest - floor(rest);
        if (fraction <= 0) break;
        rest = 1 / fraction;
        double a = floor(rest), p2 = a * p1 + p0, q2 = a * q1 + q0;
        p0 = p1, q0 = q1, p1 = p2, q1 = q2;
    }
    return factor;
}

/* --- bases and joins ---------------------------------------------------------------------------------------------- */

weft_status cert_new_base(cert_checker *c, uint32_t op, const char *var, uint32_t *out) {
    TRY(grow(c->arena, &c->bases, &c->base_capacity, c->nbases + 1, sizeof *c->bases));
    *out = (uint32_t)c->nbases;
    c->bases[c->nbases++] = (cert_base){.op = op, .name = var};
    return NULL;
}

weft_status cert_simple(cert_checker *c, uint32_t base, double factor, cert_value *out) {
    cert_part *part = ARENA_NEW(c->arena, cert_part);
    if (!part) return base_out_of_memory();
    *part = (cert_part){.base = base, .factor = factor};
    *out = (cert_value){part, 1};
    return NULL;
}

/* A value that equals nothing. */
static weft_status unknown_value(cert_checker *c, const char *var, cert_value *out) {
    uint32_t base;
    TRY(cert_new_base(c, CERT_NONE, var, &base));
    return cert_simple(c, base, 1, out);
}

static weft_status chain_of(cert_checker *c, uint32_t parent, int64_t ring_id, int reduce, uint32_t *out) {
    for (size_t i = 0; i < c->njoins; i++) {
        const cert_join *j = &c->joins[i];
        if (j->parent != parent || j->ring != ring_id || j->reduce != reduce) continue;
        *out = (uint32_t)i + 1;
        return NULL;
    }
    TRY(grow(c->arena, &c->joins, &c->join_capacity, c->njoins + 1, sizeof *c->joins));
    c->joins[c->njoins++] = (cert_join){parent, ring_id, reduce};
    *out = (uint32_t)c->njoins;
    return NULL;
}

static weft_status scale_value(cert_checker *c, cert_value v, double factor, cert_value *out) {
    cert_part *parts = arena_copy(c->arena, v.parts, v.count * sizeof *parts);
    if (!parts) return base_out_of_memory();
    for (size_t i = 0; i < v.count; i++) parts[i].factor = cert_snap(parts[i].factor * factor);
    *out = (cert_value){parts, v.count};
    return NULL;
}

/* A sum takes any factor outside, and so do rows; a maximum a positive one, a product none. */
weft_status cert_join_value(cert_checker *c, cert_value v, int64_t ring_id, int reduce, double factor,
                            cert_value *out) {
    TRY(scale_value(c, v, factor, out));
    cert_part *parts = (cert_part *)out->parts;
    for (size_t i = 0; i < out->count; i++) {
        bool sums = reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG || reduce == CERT_ROWS_OF_ALL ||
                    reduce == CERT_BY_ROWS;
        bool orders = reduce == WEFT_REDUCE_MAX || reduce == WEFT_REDUCE_MIN;
        if (!sums && parts[i].factor != 1 && !(orders && parts[i].factor > 0)) {
            TRY(cert_new_base(c, CERT_NONE, "a factor within a collective that is no sum", &parts[i].base));
            parts[i].factor = 1;
        }
        TRY(chain_of(c, parts[i].chain, ring_id, reduce, &parts[i].chain));
    }
    return NULL;
}

/* --- bytes that are written through another view ------------------------------------------------------------------ */

/* The value of bytes `where` after op `old` wrote what they share; the same for the same two. */
static weft_status shared_value(cert_checker *c, uint32_t old, uint64_t where, const char *var, cert_value *out) {
    if (old == CERT_NONE) return unknown_value(c, var, out);
    TRY(table_reserve(c->arena, &c->place_table, c->nplaces + 1));
    TRY(grow(c->arena, &c->places, &c->places_capacity, c->nplaces + 1, sizeof *c->places));
    table_probe at = table_find(&c->place_table, table_hash(old ^ where * UINT64_C(0xBF58476D1CE4E5B9)));
    while (at.item != TABLE_NONE && (c->places[at.item].op != old || c->places[at.item].where != where))
        table_next(&c->place_table, &at);
    if (at.item == TABLE_NONE) {
        uint32_t base;
        TRY(cert_new_base(c, old, var, &base));
        c->places[c->nplaces] = (cert_place){old, where, base};
        table_put(&c->place_table, &at, (uint32_t)c->nplaces++);
    }
    return cert_simple(c, c->places[at.item].base, 1, out);
}

/* --- worlds ------------------------------------------------------------------------------------------------------- */

weft_status cert_world_begin(cert_checker *c, const weft_program *p, bool is_after, cert_world *w) {
    size_t n = p->nall_vars + 1;
    *w = (cert_world){.c = c, .p = (weft_program *)(uintptr_t)p, .is_after = is_after};
    w->values = ARENA_ARRAY(c->arena, cert_value, n);
    w->name_of = ARENA_ARRAY(c->arena, uint32_t, n);
    w->has_names = ARENA_ARRAY(c->arena, bool, n);
    w->root = ARENA_ARRAY(c->arena, uint32_t, n);
    w->view = ARENA_ARRAY(c->arena, uint64_t, n);
    w->next_view = ARENA_ARRAY(c->arena, uint32_t, n);
    w->bucket = ARENA_ARRAY(c->arena, cert_bucket *, n);
    w->member_of = ARENA_ARRAY(c->arena, cert_bucket *, n);
    w->member_index = ARENA_ARRAY(c->arena, uint32_t, n);
    w->pending = ARENA_ARRAY(c->arena, uint32_t, n);
    if (!w->values || !w->has_names || !w->name_of || !w->root || !w->view || !w->next_view || !w->bucket ||
        !w->member_of || !w->member_index || !w->pending)
        return base_out_of_memory();
    for (uint32_t i = 0; i < p->nall_vars; i++) {
        w->name_of[i] = w->root[i] = i;
        w->next_view[i] = CERT_NONE;
    }
    return NULL;
}

static weft_var *named(const cert_world *w, const weft_var *v) {
    return program_var(w->p, w->name_of[v->id]);
}

/* The var of the program before that this one is by name, NULL if there is none. */
static const weft_var *old_var(const cert_world *w, const weft_var *v) {
    const weft_program *before = w->c->before.p;
    if (!w->is_after) return v;
    const name *n = interner_find(&before->names, v->name->bytes, v->name->nbytes);
    if (!n) return NULL;
    if (v->block && (size_t)v->block->idx < before->nblocks) return block_find_own(before->blocks[v->block->idx], n);
    return program_find_placeholder(before, n);
}

/* What a var holds before anything touched it: base number id of the program before's var. What an op is about to write
 * is no feed. */
static weft_status first_value(cert_world *w, const weft_var *v, bool is_written, cert_value *out) {
    const weft_var *old = old_var(w, v);
    const cert_checker *c = w->c;
    if (!old) return unknown_value(w->c, v->name->bytes, out);
    if (!is_written && w->is_after && c->ranks && v->block && v->block->idx == 0 && !v->persistable &&
        v->kind == WEFT_DENSE_TENSOR && v->has_tensor && !c->is_feed[old->id])
        TRY(cert_refuse(w->c, "\"%s\" is read before it is written, but no claim says what each rank is fed",
                        v->name->bytes));
    return cert_simple(w->c, old->id, 1, out);
}

static weft_status bucket_value(cert_world *w, const cert_bucket *b, cert_value *out) {
    cert_part *parts = ARENA_ARRAY(w->c->arena, cert_part, b->count);
    if (!parts) return base_out_of_memory();
    for (size_t i = 0; i < b->count; i++) {
        cert_value v;
        if (b->members[i]) TRY(cert_read_var(w, b->members[i], &v));
        if (!b->members[i] || v.count != 1) TRY(unknown_value(w->c, b->fused->name->bytes, &v));
        parts[i] = v.parts[0];
        parts[i].offset = b->places[i].offset;
        parts[i].nbytes = b->places[i].nbytes;
    }
    *out = (cert_value){parts, b->count};
    return NULL;
}

static weft_status read_var(cert_world *w, weft_var *v, bool is_written, cert_value *out) {
    v = named(w, v);
    if (w->bucket[v->id]) return bucket_value(w, w->bucket[v->id], out);
    if (!w->values[v->id].count) TRY(first_value(w, v, is_written, &w->values[v->id]));
    *out = w->values[v->id];
    return NULL;
}

weft_status cert_read_var(cert_world *w, weft_var *v, cert_value *out) {
    return read_var(w, v, false, out);
}

weft_status cert_read_target(cert_world *w, weft_var *v, cert_value *out) {
    return read_var(w, v, true, out);
}

void cert_touch(cert_world *w, const weft_var *v) {
    v = named(w, v);
    const cert_bucket *b = w->member_of[v->id];
    uint32_t by = w->pending[w->root[v->id]];
    if (!by && b) by = w->pending[b->fused->id];
    if (by && !w->early)
        w->early = arena_format(w->c->arena, "op %u touches \"%s\" before the wait for the collective %u", w->position,
                                v->name->bytes, by - 1);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* What else knows the bytes of `v`. */
static weft_status write_shared(cert_world *w, const weft_var *v, uint32_t old) {
    uint32_t root = w->root[v->id];
    for (uint32_t i = root; i != CERT_NONE; i = w->next_view[i]) {
        const weft_var *other = program_var(w->p, i);
        if (other == v || w->bucket[i]) continue;
        TRY(shared_value(w->c, old, w->view[i], other->name->bytes, &w->values[i]));
    }
    const cert_bucket *b = w->member_of[root];
    for (uint32_t i = b ? w->next_view[b->fused->id] : CERT_NONE; i != CERT_NONE; i = w->next_view[i])
        TRY(unknown_value(w->c, program_var(w->p, i)->name->bytes, &w->values[i]));
    return NULL;
}

static bool same_layout(const cert_bucket *b, cert_value v) {
    if (v.count != b->count) return false;
    for (size_t i = 0; i < v.count; i++)
        if (v.parts[i].nbytes != b->places[i].nbytes || v.parts[i].offset != b->places[i].offset) return false;
    return true;
}

/* A bucket is written member by member. */
static weft_status write_bucket(cert_world *w, const cert_bucket *b, cert_value value, uint32_t old) {
    bool fits = same_layout(b, value);
    for (size_t i = 0; i < b->count; i++) {
        if (!b->members[i]) continue;
        cert_value v;
        const char *message = b->members[i]->name->bytes;
        uint32_t maker = b->maker == CERT_NONE ? CERT_NONE : old;
        if (fits)
            TRY(cert_simple(w->c, value.parts[i].base, value.parts[i].factor, &v));
        else
            TRY(shared_value(w->c, maker, UINT64_C(1) << 63 | (uint64_t)b->maker << 31 | i, message, &v));
        if (fits) ((cert_part *)v.parts)->chain = value.parts[i].chain;
        TRY(cert_write_var(w, b->members[i], v, old));
    }
    return NULL;
}

weft_status cert_write_var(cert_world *w, weft_var *v, cert_value value, uint32_t old) {
    v = named(w, v);
    if (!v->block) return NULL; /* nobody declares it: it holds nothing */
    if (w->bucket[v->id]) return write_bucket(w, w->bucket[v->id], value, old);
    w->values[v->id] = value;
    return write_shared(w, v, old);
}

/* Element by element the same is done to what is seen through views of all of `v`. */
static weft_status write_elementwise(cert_world *w, weft_var *v, cert_value value, bool in_place, double factor,
                                     int64_t ring_id, weft_reduce reduce, bool joins, uint32_t old) {
    v = named(w, v);
    if (!in_place || w->bucket[v->id] || w->root[v->id] != v->id) return cert_write_var(w, v, value, old);
    w->values[v->id] = value;
    for (uint32_t i = w->next_view[v->id]; i != CERT_NONE; i = w->next_view[i]) {
        cert_value seen;
        TRY(cert_read_var(w, program_var(w->p, i), &seen));
        TRY(joins ? cert_join_value(w->c, seen, ring_id, reduce, factor, &w->values[i])
                  : scale_value(w->c, seen, factor, &w->values[i]));
    }
    return NULL;
}

/* --- binding names ------------------------------------------------------------------------------------------------ */

/* What else named the bytes that `id` leaves goes on naming them, under the first such name. */
static weft_status hand_over(cert_world *w, uint32_t id) {
    bool alone = w->root[id] == id && w->next_view[id] == CERT_NONE && !w->bucket[id];
    uint32_t first = CERT_NONE;
    for (uint32_t i = 0; i < w->p->nall_vars; i++) {
        if (i == id || w->name_of[i] != id) continue;
        if (first == CERT_NONE) first = i;
        w->name_of[i] = first;
    }
    w->has_names[id] = false;
    if (first == CERT_NONE) return NULL;
    w->has_names[first] = true;
    w->root[first] = first;
    w->pending[first] = w->pending[w->root[id]];
    if (alone) return cert_read_var(w, program_var(w->p, id), &w->values[first]);
    return unknown_value(w->c, program_var(w->p, first)->name->bytes, &w->values[first]);
}

/* A var that is bound anew leaves the bytes that it named: a bucket's slice, what it was a view of. */
static weft_status unbind(cert_world *w, uint32_t id) {
    if (w->has_names[id] && w->name_of[id] == id) TRY(hand_over(w, id));
    cert_bucket *b = w->member_of[id];
    if (b) b->members[w->member_index[id]] = NULL;
    w->member_of[id] = NULL;
    w->bucket[id] = NULL;
    uint32_t root = w->root[id], at = root;
    while (root != id && at != CERT_NONE && w->next_view[at] != id) at = w->next_view[at];
    if (root != id && at != CERT_NONE) w->next_view[at] = w->next_view[id];
    w->name_of[id] = w->root[id] = id;
    w->view[id] = 0;
    w->next_view[id] = CERT_NONE;
    return NULL;
}

weft_status cert_name(cert_world *w, const weft_var *v, const weft_var *of) {
    uint32_t id = w->name_of[of->id];
    if (id == v->id) return NULL;
    TRY(unbind(w, v->id));
    w->name_of[v->id] = id;
    w->has_names[id] = true;
    return NULL;
}

/* --- ops that are followed ---------------------------------------------------------------------------------------- */

static weft_status follow_scale(cert_world *w, weft_op *op, uint32_t old) {
    weft_var *x = slot_var(op, cert_x(op), 0), *out = slot_var(op, cert_out(op), 0);
    cert_value v;
    cert_touch(w, x);
    TRY(cert_read_var(w, x, &v));
    TRY(scale_value(w->c, v, cert_scale_of(op), &v));
    return write_elementwise(w, out, v, named(w, x) == named(w, out), cert_scale_of(op), 0, WEFT_REDUCE_SUM, false,
                             old);
}

/* A mean is a sum by the ring's size, where that is known. */
static weft_reduce reduce_and_factor(const cert_world *w, const weft_op *op, double *out_factor) {
    weft_reduce reduce = cert_reduce_of(op);
    const ring *r = program_find_ring(w->p, cert_ring_of(op));
    *out_factor = 1;
    if (reduce != WEFT_REDUCE_AVG || !r || r->nranks < 1) return reduce;
    *out_factor = 1.0 / r->nranks;
    return WEFT_REDUCE_SUM;
}

static weft_status follow_join(cert_world *w, weft_op *op, uint32_t old) {
    const slot *x = cert_x(op), *out = cert_out(op), *alias = op_find_slot(op, true, "alias");
    double factor;
    weft_reduce reduce = reduce_and_factor(w, op, &factor);
    int64_t ring_id = cert_ring_of(op);
    cert_value *joined = ARENA_ARRAY(w->c->arena, cert_value, x->nargs);
    if (!joined) return base_out_of_memory();
    for (size_t i = 0; i < x->nargs; i++) {
        cert_value v;
        cert_touch(w, slot_var(op, x, i));
        TRY(cert_read_var(w, slot_var(op, x, i), &v));
        TRY(cert_join_value(w->c, v, ring_id, reduce, factor, &joined[i]));
    }
    for (size_t i = 0; i < x->nargs; i++) {
        weft_var *to = slot_var(op, out, i);
        bool in_place = named(w, slot_var(op, x, i)) == named(w, to);
        TRY(write_elementwise(w, to, joined[i], in_place, factor, ring_id, reduce, true, old));
        if (alias && i < alias->nargs) TRY(cert_name(w, slot_var(op, alias, i), to));
        if (weft_op_attr_bool(op, "async_op", false)) w->pending[w->root[w->name_of[to->id]]] = w->position + 1;
    }
    return NULL;
}

static weft_status follow_name(cert_world *w, weft_op *op) {
    weft_var *x = slot_var(op, cert_x(op), 0), *out = slot_var(op, cert_out(op), 0);
    cert_value v;
    TRY(cert_read_var(w, x, &v)); /* a name of what is not there yet is a name of what was there first */
    TRY(cert_name(w, out, x));
    if (!op_is(op, "wait_tensor")) return NULL;
    uint32_t root = w->root[w->name_of[x->id]];
    if (w->is_after) w->c->wait_of[w->position] = w->pending[root] - 1;
    w->pending[root] = 0;
    return NULL;
}

static weft_status undefined_member(cert_world *w, const cert_bucket *b, size_t i, cert_value *out) {
    uint64_t where = UINT64_C(3) << 62 | i;
    return shared_value(w->c, b->maker, where, b->members[i]->name->bytes, out);
}

static weft_status bind_bucket(cert_world *w, weft_op *op, uint32_t old, cert_bucket **out) {
    const slot *members = op_find_slot(op, true, "Output"), *fused = op_find_slot(op, true, "FusedOutput");
    cert_bucket *b = ARENA_NEW(w->c->arena, cert_bucket);
    cert_cursor at = {.at = 0};
    *out = NULL;
    if (!members || !fused || fused->nargs != 1) return NULL;
    if (!b || !(b->members = ARENA_ARRAY(w->c->arena, weft_var *, members->nargs + 1)) ||
        !(b->places = ARENA_ARRAY(w->c->arena, cert_part, members->nargs + 1)))
        return base_out_of_memory();
    b->fused = slot_var(op, fused, 0);
    b->maker = old;
    for (; b->count < members->nargs; b->count++) {
        cert_part *place = &b->places[b->count];
        b->members[b->count] = slot_var(op, members, b->count);
        if (!cert_slice(op, &at, &place->offset, &place->nbytes)) return NULL;
    }
    *out = b;
    return NULL;
}

static weft_status follow_bucket(cert_world *w, weft_op *op, uint32_t old) {
    const slot *in = op_find_slot(op, false, "Input");
    bool copies = weft_op_attr_bool(op, "copy_data", false);
    cert_bucket *b;
    TRY(bind_bucket(w, op, old, &b));
    if (!b || !in || in->nargs != b->count || weft_op_attr_bool(op, "set_constant", false))
        return cert_refuse(w->c, "%s: its buffer cannot be followed", cert_op_text(w->c, op, w->position));
    cert_value *values = ARENA_ARRAY(w->c->arena, cert_value, b->count + 1);
    if (!values) return base_out_of_memory();
    for (size_t i = 0; i < b->count; i++) {
        if (copies) cert_touch(w, slot_var(op, in, i));
        TRY(copies ? cert_read_var(w, slot_var(op, in, i), &values[i]) : undefined_member(w, b, i, &values[i]));
    }
    for (size_t i = 0; i < b->count; i++) {
        uint32_t id = b->members[i]->id;
        TRY(unbind(w, id));
        w->values[id] = values[i];
        w->member_of[id] = b;
        w->member_index[id] = (uint32_t)i;
    }
    TRY(unbind(w, b->fused->id));
    w->bucket[b->fused->id] = b;
    return NULL;
}

weft_status cert_follow(cert_world *w, weft_op *op, cert_rule rule, uint32_t old) {
    cert_value v;
    switch (rule) {
    case CERT_COPY:
        cert_touch(w, slot_var(op, cert_x(op), 0));
        cert_touch(w, slot_var(op, cert_out(op), 0));
        TRY(cert_read_var(w, slot_var(op, cert_x(op), 0), &v));
        return cert_write_var(w, slot_var(op, cert_out(op), 0), v, old);
    case CERT_NAME: return follow_name(w, op);
    case CERT_SCALE: return follow_scale(w, op, old);
    case CERT_JOIN: return follow_join(w, op, old);
    case CERT_BUCKET: return follow_bucket(w, op, old);
    default: return NULL;
    }
}

weft_status cert_bind_view(cert_world *w, weft_var *x, weft_var *out, uint32_t old, size_t index) {
    uint32_t root = w->root[w->name_of[x->id]], id = out->id;
    if (id == root) return NULL;
    TRY(unbind(w, id));
    w->root[id] = root;
    w->view[id] = ((uint64_t)old << 20 | index) + 1;
    w->next_view[id] = w->next_view[root];
    w->next_view[root] = id;
    return NULL;
}

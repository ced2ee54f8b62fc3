/* lift_told.c: what placements and names of vars say of values that are moved, or that an op reads.
 *
 * A var that some ranks hold a part of has a placement, and extents on each rank. So it is told which part of a value
 * of which extents it ought to be. That is no proof: whether its elements are those of that part is looked at
 * (elements.c). Where other rules know the value already, and otherwise, both are true, but ranks must agree.
 *
 * Of which value is guessed too: of what the serial program's var of that name is given, or of what its op reads there,
 * if both are elements of one value; else of that one. */
#include "proof/spmd/elements.h"

/* The axes that shard dimension `d`, the major one first; returns how many, -1: they deal it out in runs. */
static int sharding_axes(const lifter *l, const lifted *x, size_t d, int *out) {
    for (size_t k = 0; k < l->grid.naxes; k++) {
        if (sharded_dim(x->placed[k]) != (int)d || !has_partition(x->placed[k])) continue;
        const partition *p = lift_partition(l, x->placed[k]);
        memcpy(out, p->axes, (size_t)p->naxes * sizeof *out);
        return p->naxes;
    }
    return lift_nest(l, x, (int)d, out);
}

/* Whether the axes shard what is known as they are told to. */
static bool is_as_told(const lifter *l, const lifted *x, const weft_var *v) {
    for (size_t d = 0; d < v->ndim; d++) {
        int told[LIFT_AXES], own[LIFT_AXES], n = lift_placed_axes(l, v, d, told);
        if (sharding_axes(l, x, d, own) != n || memcmp(told, own, (size_t)n * sizeof *own) != 0) return false;
    }
    return true;
}

/* The extents of the parts of dimension `d` along the axes, as all ranks' vars of that name have them, or as they are
 * of a value of that extent; 0 or -1: neither. */
static int64_t told_parts(const lifter *l, const weft_var *v, size_t d, const int *axes, int naxes, int64_t extent,
                          int64_t *out) {
    int64_t total = lift_declared_parts(l, v->name->bytes, d, axes, naxes, out);
    if (extent <= 0) return total;
    lift_ceil_parts(l, axes, naxes, extent, out);
    return extent;
}

static bool read_told(const lifter *l, size_t rank, const weft_var *v, const int64_t *own, const int64_t *of,
                      lifted *part, int64_t *whole) {
    *part = lift_replicated(TERM_NONE);
    for (size_t d = 0; d < v->ndim; d++) {
        int list[LIFT_AXES], n = lift_placed_axes(l, v, d, list);
        int64_t parts[LIFT_RANKS];
        whole[d] = own[d];
        if (v->dist->dims_mapping[d] < 0) continue;
        if (!n || (whole[d] = told_parts(l, v, d, list, n, of ? of[d] : 0, parts)) <= 0) return false;
        for (int i = 0; i < n; i++)
            if (!is_replicated(part->placed[list[i]])) return false;
        if (parts[lift_part_of_axes(l, rank, list, n)] != own[d]) return false;
        if (!lift_put_parts(l, (int)d, list, n, parts, part)) return false;
    }
    return true;
}

/* Whether the elements are those of the rank's part of a value, along dimensions of these extents, or of a stretch of
 * one that begins at most `most` elements behind its first: *out_first. */
static bool are_part(walk *w, const elements *e, const lifted *part, size_t rank, const int64_t *whole, int64_t most,
                     int64_t *out_first) {
    int64_t *places = ARENA_ARRAY(&w->memory, int64_t, (size_t)e->count);
    if (!places) return w->failed = true, false;
    if (!e->count || !elements_list_part(w, part, rank, e->ndim, e->dims, whole, places)) return false;
    int64_t first = *out_first = e->at[0] - places[0];
    bool good = first >= 0 && first <= most;
    for (int64_t i = 0; i < e->count && good; i++) good = e->at[i] - places[i] == first;
    return good;
}

/* The rank's part among zeros: as `part` says, and along `axis` besides, which cuts dimension `d` of it once more. Then
 * *cut is the part without the zeros. */
static bool are_part_among_zeros(walk *w, const elements *e, const lifted *part, size_t rank, const int64_t *whole,
                                 size_t axis, size_t d, lifted *cut) {
    const lifter *l = w->l;
    int list[LIFT_AXES], n = sharding_axes(l, part, d, list);
    int64_t parts[LIFT_RANKS], first = 0, all = 0, inner = elements_stride(e->ndim, e->dims, d);
    int64_t *places = ARENA_ARRAY(&w->memory, int64_t, (size_t)e->count);
    if (!places) return w->failed = true, false;
    if (n < 0 || !elements_list_part(w, part, rank, e->ndim, e->dims, whole, places)) return false;
    int64_t begin = l->grid.extent[axis] * lift_part_of_axes(l, rank, list, n);
    list[n++] = (int)axis;
    if (lift_extent(l, UINT32_C(1) << axis) < 2) return false;
    lift_ceil_parts(l, list, n, whole[d], parts);
    int64_t own = lift_part_of_axes(l, rank, list, n);
    for (int64_t i = 0; i < l->grid.extent[axis]; i++) all += parts[begin + i];
    for (int64_t i = begin; i < own; i++) first += parts[i];
    if (all != e->dims[d]) return false;
    for (int64_t i = 0; i < e->count; i++) {
        int64_t at = i / inner % e->dims[d];
        if (at < first || at >= first + parts[own]) places[i] = ELEMENT_ZERO;
    }
    *cut = *part;
    return memcmp(places, e->at, (size_t)e->count * sizeof *places) == 0 &&
           lift_put_parts(l, (int)d, list, n, parts, cut);
}

static bool has_zeros(const elements *e) {
    for (int64_t i = 0; i < e->count; i++)
        if (e->at[i] == ELEMENT_ZERO) return true;
    return false;
}

/* What the elements of a rank are the part of: a stretch of the value that they are of. */
typedef struct stretch {
    bool is_asked; /* else it must be all of the value */
    int64_t first, numel;
} stretch;

/* Whether they are the rank's part of a value of these extents; *part gets the axes along which it is partial, *of what
 * is held so that it makes that. Ranks whose zeros are elsewhere have no addends of one sum. */
static bool fits(walk *w, const elements *e, size_t rank, const int64_t *whole, uint32_t sums, stretch *s, lifted *part,
                 lifted *of) {
    const lifter *l = w->l;
    int64_t all = term_numel(l->t, e->base);
    s->numel = 1, s->first = 0;
    for (size_t d = 0; d < e->ndim; d++) s->numel = lift_product(s->numel, whole[d]);
    if (s->numel <= 0 || (s->is_asked ? all < s->numel : all != s->numel)) return false;
    for (size_t k = 0; k < l->grid.naxes; k++)
        if ((e->partial >> k & 1) && !is_replicated(part->placed[k])) return false;
    bool found = !has_zeros(e) && are_part(w, e, part, rank, whole, all - s->numel, &s->first);
    *of = *part;
    for (size_t k = 0; k < l->grid.naxes && !found && all == s->numel; k++) {
        if (!(sums >> k & 1) || (e->partial >> k & 1) || !is_replicated(part->placed[k])) continue;
        for (size_t d = 0; d < e->ndim && !found; d++) found = are_part_among_zeros(w, e, part, rank, whole, k, d, of);
        if (found) part->placed[k] = PARTIAL;
    }
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (e->partial >> k & 1) part->placed[k] = of->placed[k] = PARTIAL;
    of->family = e->family;
    return found;
}

/* The part of what they are elements of, or of that under the extents that vars say. */
static bool find_part(walk *w, const elements *e, size_t rank, const weft_var *v, int64_t *whole, stretch *s,
                      lifted *part, lifted *of) {
    const lifter *l = w->l;
    uint32_t sums = lift_axes_of_sums(l, v);
    size_t ndim;
    if (e->base == TERM_NONE || e->ndim != v->ndim) return false;
    const int64_t *dims = term_dims(l->t, e->base, &ndim);
    if (dims && ndim == e->ndim && read_told(l, rank, v, e->dims, dims, part, whole) &&
        fits(w, e, rank, whole, sums, s, part, of))
        return true;
    return read_told(l, rank, v, e->dims, NULL, part, whole) && fits(w, e, rank, whole, sums, s, part, of);
}

/* Whether both are one value of the reals: factors may stand elsewhere. */
static bool is_same_value(walk *w, uint32_t a, uint32_t b) {
    normal *n = w->l->reals;
    uint32_t both[2] = {a, b};
    if (a == b) return true;
    if (a == TERM_NONE || b == TERM_NONE || term_numel(w->l->t, a) != term_numel(w->l->t, b)) return false;
    weft_status status = normal_find(n, both, 2);
    if (status) return weft_status_free(status), w->failed = true, false;
    value x = normal_of(n, a), y = normal_of(n, b);
    return x.term == y.term && x.factor == y.factor;
}

/* Whether they are the rank's part of that serial value, which they and it are elements of another one of. */
static bool is_part_of(walk *w, const elements *e, size_t rank, const weft_var *v, uint32_t serial, lifted *part) {
    const lifter *l = w->l;
    elements all;
    size_t ndim;
    const int64_t *dims = term_dims(l->t, serial, &ndim);
    int64_t whole[WEFT_MAX_RANK], *places;
    if (!dims || e->base == TERM_NONE || ndim != e->ndim || ndim != v->ndim) return false;
    if (!read_told(l, rank, v, e->dims, dims, part, whole) || memcmp(whole, dims, ndim * sizeof *dims) != 0)
        return false;
    for (size_t k = 0; k < l->grid.naxes; k++)
        if ((e->partial >> k & 1) && !is_replicated(part->placed[k])) return false;
    if (!w->find(w, LIFT_ALL, serial, &all) || !is_same_value(w, all.base, e->base)) return false;
    if (!(places = ARENA_ARRAY(&w->memory, int64_t, (size_t)e->count))) return w->failed = true, false;
    if (!elements_list_part(w, part, rank, ndim, e->dims, whole, places)) return false;
    for (int64_t i = 0; i < e->count; i++)
        if (e->at[i] != all.at[places[i]]) return false;
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (e->partial >> k & 1) part->placed[k] = PARTIAL;
    part->term = serial;
    return true;
}

/* How a rank's value is asked for: as the var's placement says, as part of one of some serial values, or of what it is
 * moved from. */
typedef struct question {
    const weft_var *v;
    bool moves; /* it is looked at from what it is made of, whatever is known of it */
    const uint32_t *serial;
    size_t nserial;
} question;

/* As part of serial values, or else of the value that they are elements of. */
static weft_status answer(walk *w, const elements *e, size_t rank, const question *q, bool of_serial, bool *out_is,
                          lifted *out) {
    lifter *l = w->l;
    lifted part, of;
    stretch s = {.is_asked = out->state == LIFT_UNKNOWN};
    int64_t whole[WEFT_MAX_RANK];
    *out_is = false;
    for (size_t i = 0; of_serial && i < q->nserial && !*out_is; i++)
        *out_is = is_part_of(w, e, rank, q->v, q->serial[i], &part);
    if (*out_is) {
        of = part, of.family = e->family;
    } else if (!of_serial && find_part(w, e, rank, q->v, whole, &s, &part, &of)) {
        value all = value_of(e->base);
        if (s.numel != term_numel(l->t, e->base)) TRY(term_part(l->t, all, s.first, s.numel, &all));
        TRY(term_reshape(l->t, all, e->ndim, whole, &all));
        part.term = all.term;
        *out_is = true;
    }
    if (!*out_is) return NULL;
    part.state = LIFT_KNOWN;
    of.term = e->base;
    lift_name_family(l, &of, 1, &part);
    *out = part;
    return NULL;
}

static weft_status take_told(lifter *l, size_t rank, uint32_t id, const question *q, lifted *out) {
    weft_status status = NULL;
    bool ends = false;
    for (int i = q->nserial ? 0 : ELEMENTS_DEPTHS; i < 2 * ELEMENTS_DEPTHS && !ends && !status; i++) {
        walk w;
        elements e;
        elements_begin(&w, l, (elements_depth)(i % ELEMENTS_DEPTHS));
        bool known = q->moves ? elements_make(&w, rank, id, &e) : w.find(&w, rank, id, &e);
        if (known) status = answer(&w, &e, rank, q, i < ELEMENTS_DEPTHS, &ends, out);
        weft_status ended = elements_end(&w);
        if (status)
            weft_status_free(ended);
        else
            status = ended;
        if (w.waits) *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE};
        ends |= w.waits;
    }
    return status;
}

enum { MOST_NAMED = 4 };

/* The serial program's var of that name; what is moved is named for it, as NAME@RESHARD_3. NULL: it has none. */
static const weft_var *find_serial_var(const lifter *l, const weft_var *v) {
    const weft_block *b = l->serial->blocks[0];
    const weft_var *found = weft_block_find_var(b, v->name->bytes);
    static const char *const moved[] = {"@RESHARD", "@FIT_"};
    char name_text[256];
    for (size_t i = 0; i < sizeof moved / sizeof *moved && !found; i++) {
        const char *end = strstr(v->name->bytes, moved[i]);
        size_t nbytes = end ? (size_t)(end - v->name->bytes) : sizeof name_text;
        if (nbytes >= sizeof name_text) continue;
        memcpy(name_text, v->name->bytes, nbytes);
        name_text[nbytes] = 0;
        found = weft_block_find_var(b, name_text);
    }
    return found;
}

/* What it is given there: some of it. */
static size_t list_named(const lifter *l, const weft_var *v, uint32_t *out) {
    const weft_var *serial = find_serial_var(l, v);
    size_t n = 0;
    for (uint32_t at = serial ? l->first_written[serial->id] : 0; at && n < MOST_NAMED; at = l->next_written[at - 1])
        out[n++] = l->serial_outputs->written[at - 1].term;
    return n;
}

/* --- as rows of what others have ---------------------------------------------------------------------------------- */

/* The value that the rank's var of that name was given the `nth` time; TERM_NONE: there is none. */
static uint32_t find_written(const lifter *l, size_t rank, const char *var, size_t nth) {
    const outputs *o = &l->outputs[rank];
    const weft_var *v = weft_block_find_var(l->programs[rank]->blocks[0], var);
    for (size_t i = 0; v && i < o->nwritten; i++)
        if (o->written[i].var == v->id && nth-- == 0) return o->written[i].term;
    return TERM_NONE;
}

/* Which time the var was given it. */
static size_t count_written(const lifter *l, size_t rank, const weft_var *v, uint32_t id) {
    const outputs *o = &l->outputs[rank];
    size_t n = 0;
    for (size_t i = 0; i < o->nwritten && (o->written[i].var != v->id || o->written[i].term != id); i++)
        n += o->written[i].var == v->id;
    return n;
}

/* What the rank moved, where it is a stretch of a serial value; *out stays where it is none. */
static weft_status find_stretch(lifter *l, size_t rank, uint32_t id, bool *out_waits, value *out) {
    walk w;
    elements e;
    weft_status status = NULL;
    elements_begin(&w, l, SEES_PARTS);
    bool good = elements_are_moved(l, rank, id) && elements_make(&w, rank, id, &e) && e.base != TERM_NONE && !e.partial;
    for (int64_t i = 0; good && i < e.count; i++) good = e.at[i] == e.at[0] + i && e.at[0] != ELEMENT_ZERO;
    if (good) status = term_part(l->t, value_of(e.base), e.at[0], e.count, out);
    *out_waits |= w.waits;
    weft_status ended = elements_end(&w);
    if (!status) return ended;
    weft_status_free(ended);
    return status;
}

/* By part, what the ranks have that stand there, `rank` as `id`; *out_all: all have a stretch of as many elements as
 * they should. */
static weft_status find_stretches(lifter *l, size_t rank, uint32_t id, const weft_var *v, const int *axes, int naxes,
                                  const int64_t *numels, size_t count, bool *out_all, bool *out_waits, value *out) {
    size_t nth = count_written(l, rank, v, id);
    for (size_t i = 0; i < count; i++) out[i] = value_of(TERM_NONE);
    value *own = &out[lift_part_of_axes(l, rank, axes, naxes)];
    TRY(find_stretch(l, rank, id, out_waits, own));
    *out_all = own->term != TERM_NONE; /* else what another rank has there says nothing of this one */
    for (size_t i = 0; i < l->nranks && *out_all; i++) {
        value *part = &out[lift_part_of_axes(l, i, axes, naxes)];
        uint32_t other = part->term == TERM_NONE ? find_written(l, i, v->name->bytes, nth) : TERM_NONE;
        if (other != TERM_NONE) TRY(find_stretch(l, i, other, out_waits, part));
        *out_all = part->term != TERM_NONE && part->factor == FACTOR_ONE;
    }
    for (size_t i = 0; i < count && *out_all; i++) *out_all = term_numel(l->t, out[i].term) == numels[i];
    return NULL;
}

/* Rows that are told to be parts along axes: of what all these ranks have, one behind another. That is true of whatever
 * each has, so long as it is of a serial value. */
static weft_status take_rows(lifter *l, size_t rank, uint32_t id, const weft_var *v, lifted *x) {
    int list[LIFT_AXES], n = v->ndim ? lift_placed_axes(l, v, 0, list) : 0;
    int64_t parts[LIFT_RANKS], numels[LIFT_RANKS], ranges[2 * LIFT_RANKS], whole[WEFT_MAX_RANK], at = 0;
    value values[LIFT_RANKS], all;
    size_t count = 1, ndim;
    bool have_all, waits = false;
    const int64_t *dims = term_dims(l->t, id, &ndim);
    if (!dims || ndim != v->ndim || n < 1) return NULL;
    int64_t row = elements_stride(ndim, dims, 0), own = dims[0];
    memcpy(whole, dims, ndim * sizeof *dims);
    whole[0] = lift_declared_parts(l, v->name->bytes, 0, list, n, parts);
    if (whole[0] <= 0 || parts[lift_part_of_axes(l, rank, list, n)] != own) return NULL;
    for (size_t d = 1; d < ndim; d++)
        if (v->dist->dims_mapping[d] >= 0) return NULL;
    for (int i = 0; i < n; i++) count *= (size_t)l->grid.extent[list[i]];
    for (size_t i = 0; i < count; at += numels[i++])
        numels[i] = parts[i] * row, ranges[2 * i] = at, ranges[2 * i + 1] = numels[i];
    TRY(find_stretches(l, rank, id, v, list, n, numels, count, &have_all, &waits, values));
    if (waits) *x = (lifted){.state = LIFT_PENDING, .term = TERM_NONE};
    if (waits || !have_all) return NULL;
    TRY(term_flat(l->t, values, ranges, count, at, &all));
    TRY(term_reshape(l->t, all, ndim, whole, &all));
    lifted made = lift_replicated(all.term);
    if (all.factor == FACTOR_ONE && lift_put_parts(l, 0, list, n, parts, &made)) *x = made;
    return NULL;
}

weft_status lift_told(lifter *l, size_t rank, uint32_t id, lifted *x) {
    if (!l->told[rank][id]) return NULL;
    const weft_var *v = program_var(l->programs[rank], l->told[rank][id] - 1);
    bool is_serial = x->state == LIFT_KNOWN && x->term < l->nserial;
    if ((is_serial && is_as_told(l, x, v)) || !elements_are_moved(l, rank, id)) return NULL;
    uint32_t named[MOST_NAMED];
    const question q = {.v = v, .moves = true, .serial = named, .nserial = list_named(l, v, named)};
    TRY(take_told(l, rank, id, &q, x));
    return x->state == LIFT_KNOWN && !is_as_told(l, x, v) ? take_rows(l, rank, id, v, x) : NULL;
}

static bool has_placement(const weft_var *v) {
    const placement *at = v->dist;
    return at && at->mesh && at->dims_mapping && at->ndim == (int)v->ndim;
}

/* The rank's op that makes the term; NULL: its var has no placement. A term's own op may be another rank's. */
static const weft_op *own_op(const lifter *l, size_t rank, uint32_t id) {
    const weft_program *p = l->programs[rank];
    const head *h = term_head(l->t, term_args(l->t, id)[0].term);
    if (!l->told[rank][id] || !h->op) return NULL;
    FOR_EACH_USE(u, program_var(p, l->told[rank][id] - 1)) {
        const weft_op *op = use_op(p, u);
        if (u->is_output && op_nargs(op, false) == h->nargs && strcmp(op->type->bytes, h->op->type->bytes) == 0)
            return op;
    }
    return NULL;
}

/* The arguments of the serial program's op whose output has the name of the term's var; NULL: it has no such op. */
static const value *serial_arguments(const lifter *l, size_t rank, uint32_t id) {
    const terms *t = l->t;
    uint32_t named[MOST_NAMED], of = term_args(t, id)[0].term;
    size_t n = list_named(l, program_var(l->programs[rank], l->told[rank][id] - 1), named);
    for (size_t i = 0; i < n; i++) {
        uint32_t like = term_is(t, named[i], HEAD_OUT) ? term_args(t, named[i])[0].term : TERM_NONE;
        if (like == TERM_NONE || !term_is(t, like, HEAD_OP) || t->items[like].nargs != t->items[of].nargs) continue;
        const weft_op *own = term_head(t, of)->op, *serial = term_head(t, like)->op;
        if (own && serial && strcmp(own->type->bytes, serial->type->bytes) == 0) return term_args(t, like);
    }
    return NULL;
}

weft_status lift_as_read(lifter *l, size_t rank, uint32_t id, size_t at, bool *out_is, lifted *x) {
    uint32_t own = term_args(l->t, term_args(l->t, id)[0].term)[at].term, serial = TERM_NONE;
    const weft_op *op = own_op(l, rank, id);
    *out_is = false;
    if (!op || x->state == LIFT_PENDING) return NULL;
    const value *like = serial_arguments(l, rank, id);
    const weft_var *v = use_var(op->program, op_args(op, false) + at);
    size_t ndim;
    if (like && like[at].factor == FACTOR_ONE) serial = like[at].term;
    if (!has_placement(v) || !term_dims(l->t, own, &ndim) || v->ndim != ndim) return NULL;
    if (x->state == LIFT_KNOWN && is_as_told(l, x, v) && (serial == TERM_NONE || serial == x->term)) return NULL;
    const question q = {.v = v, .serial = &serial, .nserial = serial != TERM_NONE};
    lifted told = *x;
    TRY(take_told(l, rank, own, &q, &told));
    *out_is = told.state == LIFT_KNOWN &&
              (x->state != LIFT_KNOWN || told.term != x->term || !lift_placed_alike(&told, x));
    if (*out_is) *x = told;
    return NULL;
}

void lift_note_told(const lifter *l, size_t rank) {
    const outputs *o = &l->outputs[rank];
    for (size_t i = o->nwritten; i-- > 0;) /* of several vars the first */
        if (has_placement(program_var(l->programs[rank], o->written[i].var)))
            l->told[rank][o->written[i].term] = o->written[i].var + 1;
}

weft_status lift_note_serial(lifter *l, const outputs *o, arena *memory) {
    l->serial_outputs = o;
    l->first_written = ARENA_ARRAY(memory, uint32_t, l->serial->nall_vars + 1);
    l->next_written = ARENA_ARRAY(memory, uint32_t, o->nwritten + 1);
    if (!l->first_written || !l->next_written) return base_out_of_memory();
    for (size_t i = o->nwritten; i-- > 0;) {
        uint32_t *first = &l->first_written[o->written[i].var];
        l->next_written[i] = *first;
        *first = (uint32_t)i + 1;
    }
    return NULL;
}

/* classes.c: programs are equal to a proof if their ops, vars, streams and events are: rank numbers, rings and meshes
 * may differ. Equality is that of 128 bits of hash; two programs that differ and have one hash are not to be expected.
 */
#include "proof/classes.h"
#include "ops/collectives.h"
#include "program/grow.h"

/* --- content ------------------------------------------------------------------------------------------------------ */

static void mix_attr(mixture *d, const weft_attr *a) {
    mix_bytes(d, a->name->bytes, a->name->nbytes);
    mix(d, (uint64_t)a->type << 32 | a->count);
    switch (a->type) {
    case ATTR_FLOAT:
    case ATTR_FLOAT64: mix_bytes(d, &a->u.f, sizeof a->u.f); return;
    case ATTR_STRING:
    case ATTR_VAR: mix_bytes(d, attr_text(a).bytes, a->count); return;
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_BLOCKS: mix_bytes(d, a->u.ints, a->count * sizeof *a->u.ints); return;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: mix_bytes(d, a->u.floats, a->count * sizeof *a->u.floats); return;
    case ATTR_BOOLEAN: mix(d, a->u.b); return;
    case ATTR_BOOLEANS: mix_bytes(d, a->u.bools, a->count); return;
    case ATTR_STRINGS:
    case ATTR_VARS:
        for (size_t i = 0; i < a->count; i++) mix_bytes(d, a->u.strings[i]->bytes, a->u.strings[i]->nbytes);
        return;
    case ATTR_INT:
    case ATTR_LONG:
    case ATTR_BLOCK: mix(d, (uint64_t)a->u.i); return;
    case ATTR_SCALAR:
    case ATTR_SCALARS: return; /* no proof looks at them */
    }
}

/* Of a program: all that proofs look at, and of that what says how values flow: no names, extents or streams. Also
 * where a rank stands in its world. */
typedef struct contents {
    mixture all, flow, standing;
} contents;

/* Whether replicas.c looks at an attr. */
static bool steers_flow(const weft_attr *a) {
    static const char *const names[] = {"ring_id", "root_id", "root", "reduce_type", "sub_block"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name_is(a->name, names[i])) return true;
    return false;
}

/* Whether the rank is the root of a reduce. */
static bool is_root(const weft_program *p, const weft_op *op, int64_t rank) {
    const ring *r = program_find_ring(p, op_ring(op));
    return r && ring_index(r, rank) == op_collective_root(op);
}

static void mix_op(contents *d, const weft_op *op) {
    mix_bytes(&d->flow, op->type->bytes, op->type->nbytes);
    for (int side = 0; side < 2; side++) {
        mix(&d->flow, op_nslots(op, side));
        for (uint32_t i = 0; i < op_nslots(op, side); i++) {
            const slot *s = op_slot(op, side, i);
            mix_bytes(&d->flow, s->name->bytes, s->name->nbytes);
            mix(&d->flow, s->nargs);
            for (uint32_t k = 0; k < s->nargs; k++) mix(&d->flow, slot_args(op, s)[k].var_id);
        }
    }
    for (uint32_t i = 0; i < op->nattrs; i++)
        if (!name_is(op->attrs[i].name, "op_callstack"))
            mix_attr(steers_flow(&op->attrs[i]) ? &d->flow : &d->all, &op->attrs[i]);
    if (!op->dist) return;
    mix_text(&d->all, op->dist->execution_stream);
    mix_text(&d->all, op->dist->event_to_record);
    for (size_t i = 0; i < op_dist_nwaits(op->dist); i++) mix_text(&d->all, op->dist->waits->events[i]);
}

static void mix_placement(mixture *d, const placement *p) {
    mix(d, p ? 1 + (uint64_t)p->ndim : 0);
    if (!p) return;
    mix_bytes(d, p->dims_mapping, (size_t)p->ndim * sizeof *p->dims_mapping);
    mix(d, p->partial_axes);
    mix(d, p->mesh ? (uint64_t)p->mesh->ndim : 0);
    if (p->mesh) mix_bytes(d, p->mesh->shape, (size_t)p->mesh->ndim * sizeof *p->mesh->shape);
}

/* Where a rank stands in the rings and meshes of its program: of its place in a ring only roots know. */
static void mix_world(mixture *d, const weft_program *p, int64_t rank) {
    mix(d, (uint64_t)p->has_dist << 1 | (p->rank < 0));
    for (size_t i = 0; i < p->nrings; i++) {
        mix(d, (uint64_t)p->rings[i].id);
        mix(d, (uint64_t)p->rings[i].nranks << 1 | (ring_index(&p->rings[i], rank) >= 0));
    }
    for (size_t i = 0; i < p->nmeshes; i++)
        mix_bytes(d, p->meshes[i]->shape, (size_t)p->meshes[i]->ndim * sizeof *p->meshes[i]->shape);
}

/* `names`: by var id; filled in. */
static contents contents_of(const weft_program *p, int64_t rank, mixture *names) {
    contents d = {{1, 2}, {1, 2}, {1, 2}};
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        mixture of_name = mixture_of_text(v->name->bytes, v->name->nbytes);
        if (names) names[i] = of_name;
        mix_three(&d.all, of_name.a, of_name.b, (uint64_t)(uint32_t)v->kind << 32 | (uint32_t)v->dtype);
        mix(&d.flow, (uint64_t)v->persistable << 1 | v->need_check_feed);
        mix_bytes(&d.all, v->dims, v->ndim * sizeof *v->dims);
        mix_placement(&d.flow, v->dist);
    }
    for (size_t i = 0; i < p->nblocks; i++) {
        mix(&d.flow, p->blocks[i]->nops);
        FOR_EACH_OP(op, p->blocks[i]) {
            mix_op(&d, op);
            if (op_is_collective(op, COLLECTIVE_REDUCE)) mix(&d.standing, is_root(p, op, rank));
        }
    }
    mix_world(&d.standing, p, rank);
    mix(&d.all, d.flow.a);
    mix(&d.all, d.flow.b);
    return d;
}

/* --- ranks -------------------------------------------------------------------------------------------------------- */

int64_t program_last_rank(const weft_program *p) {
    int64_t own = p->rank > 0 ? p->rank : 0, named = weft_program_nranks(p) - 1;
    return named > own ? named : own;
}

/* Whether the programs name their ranks, each another one. */
static bool name_ranks(const weft_program *const *programs, size_t n, int64_t nranks, arena *a, bool *out_failed) {
    uint8_t *seen = ARENA_ARRAY(a, uint8_t, nranks);
    *out_failed = !seen;
    for (size_t i = 0; seen && i < n; i++) {
        int64_t rank = programs[i]->has_dist ? programs[i]->rank : -1;
        if (rank < 0 || rank >= nranks || seen[rank]++) return false;
    }
    return seen != NULL;
}

static weft_status place_programs(const weft_program *const *programs, size_t n, int64_t nranks, arena *a,
                                  rank_classes *out) {
    bool one_for_all = n == 1 && (nranks > 0 || !programs[0]->has_dist || programs[0]->rank < 0), failed;
    if (!nranks) {
        nranks = (int64_t)n;
        if (n == 1 && program_last_rank(programs[0]) + 1 > nranks) nranks = program_last_rank(programs[0]) + 1;
    }
    if (nranks < 1 || nranks > MAX_RANKS || (!one_for_all && (int64_t)n > nranks))
        return weft_status_create(WEFT_INVALID_ARGUMENT, "verify",
                                  "expected one program, or one for each of %lld ranks, found %zu", (long long)nranks,
                                  n);
    out->nranks = nranks;
    out->by_rank = ARENA_ARRAY(a, const weft_program *, nranks);
    if (!out->by_rank) return base_out_of_memory();
    bool named = !one_for_all && name_ranks(programs, n, nranks, a, &failed);
    if (!one_for_all && !named && n > 1 && (int64_t)n != nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, "verify",
                                  "expected one program, or one for each of %lld ranks, found %zu", (long long)nranks,
                                  n);
    for (int64_t r = 0; one_for_all && r < nranks; r++) out->by_rank[r] = programs[0];
    for (size_t i = 0; !one_for_all && i < n; i++) out->by_rank[named ? programs[i]->rank : (int64_t)i] = programs[i];
    return NULL;
}

/* Which class a program's was and what its rings are, by its address: ranks may share it. */
typedef struct known {
    const weft_program *program;
    uint32_t class;
    program_rings rings;
} known;

typedef struct finder {
    arena *arena;
    rank_classes *classes;
    mixture *contents; /* by class */
    known *known;
    size_t nknown, known_capacity;
    hash_table table; /* of `known`, by address */
    mixture *names; /* of a program of a class that was known: for the next one */
    size_t nnames;
    bool are_several; /* programs */
} finder;

static weft_status begin(finder *f, rank_classes *out, arena *a) {
    size_t n = (size_t)out->nranks;
    *f = (finder){.arena = a, .classes = out};
    out->class_of = ARENA_ARRAY(a, uint32_t, n);
    out->programs = ARENA_ARRAY(a, const weft_program *, n);
    out->first_rank = ARENA_ARRAY(a, int64_t, n);
    out->rings_of = ARENA_ARRAY(a, program_rings, n);
    out->flows = ARENA_ARRAY(a, mixture, n);
    out->names = ARENA_ARRAY(a, const mixture *, n);
    f->contents = ARENA_ARRAY(a, mixture, n);
    if (!out->class_of || !out->programs || !out->first_rank || !out->rings_of || !out->flows || !out->names ||
        !f->contents)
        return base_out_of_memory();
    member_lists_init(&out->lists, a);
    for (size_t r = 1; r < n; r++) f->are_several |= out->by_rank[r] && out->by_rank[r] != out->by_rank[0];
    return NULL;
}

static weft_status make_room_for_names(finder *f, const weft_program *p) {
    if (!f->are_several || p->nall_vars < f->nnames) return NULL;
    f->nnames = p->nall_vars + 1;
    return (f->names = ARENA_ARRAY(f->arena, mixture, f->nnames)) ? NULL : base_out_of_memory();
}

/* The class of a rank's program. Few distinct contents are expected: a list is enough. */
static weft_status find_class(finder *f, size_t rank, uint32_t *out_class) {
    rank_classes *of = f->classes;
    uint32_t c = 0;
    TRY(make_room_for_names(f, of->by_rank[rank]));
    contents d = contents_of(of->by_rank[rank], (int64_t)rank, f->names);
    while (c < of->count && !mixture_equal(&f->contents[c], &d.all)) c++;
    *out_class = c;
    if (c < of->count) return NULL;
    f->contents[c] = d.all;
    of->flows[c] = d.flow;
    mix(&of->flows[c], d.standing.a);
    mix(&of->flows[c], d.standing.b);
    of->programs[c] = of->by_rank[rank];
    of->first_rank[c] = (int64_t)rank;
    of->names[c] = f->names;
    of->count++;
    f->names = NULL;
    f->nnames = 0;
    return NULL;
}

/* What is known of the program of a rank; it may be met for the first time. */
static weft_status know_program(finder *f, size_t rank, const known **out) {
    const weft_program *p = f->classes->by_rank[rank];
    TRY(table_reserve(f->arena, &f->table, f->nknown + 1));
    TRY(grow(f->arena, &f->known, &f->known_capacity, f->nknown + 1, sizeof *f->known));
    table_probe at = table_find(&f->table, table_hash((uintptr_t)p));
    while (at.item != TABLE_NONE && f->known[at.item].program != p) table_next(&f->table, &at);
    if (at.item == TABLE_NONE) {
        known *k = &f->known[f->nknown];
        *k = (known){.program = p};
        TRY(find_class(f, rank, &k->class));
        TRY(member_lists_add(&f->classes->lists, p, &k->rings));
        table_put(&f->table, &at, (uint32_t)f->nknown++);
    }
    *out = &f->known[at.item];
    return NULL;
}

weft_status classes_find(const weft_program *const *programs, size_t nprograms, int64_t nranks, arena *a,
                         rank_classes *out) {
    finder f;
    *out = (rank_classes){0};
    TRY(place_programs(programs, nprograms, nranks, a, out));
    TRY(begin(&f, out, a));
    for (size_t r = 0; r < (size_t)out->nranks; r++) {
        out->class_of[r] = UINT32_MAX;
        if (!out->by_rank[r]) continue;
        const known *k;
        TRY(know_program(&f, r, &k));
        out->class_of[r] = k->class;
        out->rings_of[r] = k->rings;
    }
    return NULL;
}

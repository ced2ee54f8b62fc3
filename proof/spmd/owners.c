/* owners.c: parameters that some ranks update and others only read.
 *
 * An optimizer's work may be divided: a rank updates some parameters and sends them to the others. A rank that neither
 * updates a parameter nor is sent it keeps the old values. Ranks of one class have one program, so classes are
 * compared: what one updates, another that reads the same part of it must write too. */
#include "dist_attr/dims.h"
#include "program/grow.h"
#include "proof/checks/checks.h"

typedef struct owner {
    uint32_t class; /* the first that updates it */
    const weft_op *op;
} owner;

typedef struct ownership {
    const proof_schedule *programs; /* by class */
    const int64_t *first_rank;
    interner names; /* of updated parameters */
    owner *owners;  /* by name id */
    size_t capacity;
    weft_findings *findings;
} ownership;

static bool moves_bytes(const weft_op *op) {
    return op->block && !op_has_effect((weft_op *)op, OP_NO_BYTES | OP_ALIASES);
}

static const weft_op *first_use(const weft_var *v, bool is_output) {
    FOR_EACH_USE(u, v)
    if (u->is_output == is_output && moves_bytes(use_op(v->program, u))) return use_op(v->program, u);
    return NULL;
}

/* Whether two ranks hold the same part of a value. */
static bool same_part(const weft_var *v, int64_t x, int64_t y) {
    int64_t at_x[MESH_MAX_NDIM], at_y[MESH_MAX_NDIM];
    const placement *p = v->dist;
    if (!p || !p->mesh) return true;
    if (!mesh_coordinates(p->mesh, x, at_x) || !mesh_coordinates(p->mesh, y, at_y)) return false;
    for (int i = 0; i < p->ndim; i++)
        for (int k = 0; k < dim_naxes(p->dims_mapping[i]); k++) {
            int axis = dim_axis(p->dims_mapping[i], k);
            if (axis >= 0 && axis < p->mesh->ndim && at_x[axis] != at_y[axis]) return false;
        }
    return true;
}

static weft_status note_updates(ownership *o, uint32_t class, arena *a) {
    const proof_schedule *s = &o->programs[class];
    for (size_t i = 0; i < s->nupdates; i++) {
        const weft_op *op = s->events[s->updates[i]].op;
        bool counts = op->block == s->program->blocks[0] && op_has_effect((weft_op *)op, OP_OPTIMIZER);
        weft_var *param = counts ? op_updated_param(op) : NULL;
        if (!param || !param->persistable) continue;
        const name *n = interner_get(&o->names, param->name->bytes, param->name->nbytes);
        if (!n) return base_out_of_memory();
        TRY(grow(a, &o->owners, &o->capacity, (size_t)n->id + 1, sizeof *o->owners));
        if (!o->owners[n->id].op) o->owners[n->id] = (owner){class, op};
    }
    return NULL;
}

static size_t event_of(const proof_schedule *s, const weft_op *op) {
    for (size_t i = 0; i < s->nevents; i++)
        if (s->events[i].op == op) return i;
    return 0;
}

static weft_status report(ownership *o, uint32_t class, const weft_var *v, const weft_op *reader, const owner *by) {
    weft_finding *found;
    char read[256], update[256];
    const proof_schedule *here = &o->programs[class], *there = &o->programs[by->class];
    int64_t rank = o->first_rank[class], owner_rank = o->first_rank[by->class];
    TRY(finding_add(o->findings, WEFT_VERDICT_MISSING_REDUCE, &found));
    if (!found) return NULL;
    TRY(finding_op(o->findings, found, here, event_of(here, reader), rank, "reads"));
    TRY(finding_op(o->findings, found, there, event_of(there, by->op), owner_rank, "updates"));
    TRY(finding_says(o->findings, &found->value, "%s", v->name->bytes));
    found->state = found->value;
    finding_op_text(&found->ops[0], read, sizeof read);
    finding_op_text(&found->ops[1], update, sizeof update);
    TRY(finding_says(
        o->findings, &found->message,
        "%s reads \"%s\" on rank %lld, which neither updates it nor is sent it: %s updates it on rank %lld", read,
        found->value, (long long)rank, update, (long long)owner_rank));
    return finding_says(o->findings, &found->remedy, "a broadcast of \"%s\" after %s", found->value, update);
}

static weft_status check_class(ownership *o, uint32_t class) {
    const weft_program *p = o->programs[class].program;
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        if (!v->persistable || first_use(v, true)) continue;
        const name *n = interner_find(&o->names, v->name->bytes, v->name->nbytes);
        const weft_op *reader = n ? first_use(v, false) : NULL;
        const owner *by = n ? &o->owners[n->id] : NULL;
        if (reader && by->class != class && same_part(v, o->first_rank[class], o->first_rank[by->class]))
            TRY(report(o, class, v, reader, by));
    }
    return NULL;
}

/* Whether each class updates what every other does. A name that only a sub-block declares is another var. */
static bool update_the_same(const proof_schedule *programs, size_t nclasses) {
    for (size_t c = 0; c < nclasses; c++)
        if (programs[c].program->nblocks > 1 || !mixture_equal(&programs[c].updated, &programs[0].updated))
            return false;
    return true;
}

static weft_status compare(ownership *o, size_t nclasses, arena *a) {
    interner_init(&o->names, a);
    for (uint32_t c = 0; c < nclasses; c++) TRY(note_updates(o, c, a));
    if (!o->capacity) return NULL; /* nobody updates anything */
    for (uint32_t c = 0; c < nclasses; c++) TRY(check_class(o, c));
    return NULL;
}

weft_status check_owners(const proof_schedule *programs, size_t nclasses, const int64_t *first_rank, weft_findings *f) {
    arena scratch;
    arena_init(&scratch, &f->context->allocator);
    ownership o = {.programs = programs, .first_rank = first_rank, .findings = f};
    weft_status status = update_the_same(programs, nclasses) ? NULL : compare(&o, nclasses, &scratch);
    arena_fini(&scratch);
    return status;
}

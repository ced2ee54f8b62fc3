/* overwritten.c: whether the values of a plan that share memory leave one another alone: a read of temporary memory
 * finds what was last written to its own value, not to another that was laid over it. In program order, which accesses
 * to the same bytes keep where nothing races.
 *
 * A segment tree over the end points of accesses knows the value that wrote each part last; where a whole subtree
 * agrees, its root says so. */
#include "proof/checks/checks.h"
#include "proof/schedule/ranges.h"

enum { TEMPORARY = 1 }; /* the buffer of temporary memory: schedule_from_plan */
static const uint32_t UNWRITTEN = PROOF_NONE, MIXED = (uint32_t)PROOF_NONE - 1;

typedef struct layer {
    const proof_schedule *s;
    int64_t *points;
    size_t npoints, nleaves; /* a power of two */
    uint32_t *owner;         /* by node, from 1: UNWRITTEN, MIXED or a value */
    int64_t rank;
    weft_findings *findings;
} layer;

static weft_status build(layer *l, arena *a) {
    size_t n = 0;
    l->points = ARENA_ARRAY(a, int64_t, 2 * l->s->naccesses + 1);
    if (!l->points) return base_out_of_memory();
    for (size_t k = 0; k < l->s->naccesses; k++) {
        if (l->s->accesses[k].buffer != TEMPORARY) continue;
        l->points[n++] = l->s->accesses[k].begin;
        l->points[n++] = l->s->accesses[k].end;
    }
    l->npoints = points_sort(l->points, n);
    for (l->nleaves = 1; l->nleaves < l->npoints;) l->nleaves *= 2;
    if (!(l->owner = ARENA_ARRAY(a, uint32_t, 2 * l->nleaves))) return base_out_of_memory();
    for (size_t i = 0; i < 2 * l->nleaves; i++) l->owner[i] = UNWRITTEN;
    return NULL;
}

/* Node `node` has the parts [begin, begin + size). */
static void put(layer *l, size_t node, size_t begin, size_t size, size_t low, size_t high, uint32_t value) {
    if (low >= begin + size || high <= begin) return;
    if (low <= begin && begin + size <= high) {
        l->owner[node] = value;
        return;
    }
    if (l->owner[node] != MIXED) l->owner[2 * node] = l->owner[2 * node + 1] = l->owner[node];
    put(l, 2 * node, begin, size / 2, low, high, value);
    put(l, 2 * node + 1, begin + size / 2, size / 2, low, high, value);
    l->owner[node] = l->owner[2 * node] == l->owner[2 * node + 1] ? l->owner[2 * node] : MIXED;
}

/* A value other than `value` that wrote one of the parts last; UNWRITTEN if there is none. */
static uint32_t find_other(const layer *l, size_t node, size_t begin, size_t size, size_t low, size_t high,
                           uint32_t value) {
    uint32_t at = l->owner[node];
    if (low >= begin + size || high <= begin || at == value || at == UNWRITTEN) return UNWRITTEN;
    if (at != MIXED) return at;
    uint32_t found = find_other(l, 2 * node, begin, size / 2, low, high, value);
    return found != UNWRITTEN ? found : find_other(l, 2 * node + 1, begin + size / 2, size / 2, low, high, value);
}

/* The last launch before `event` that wrote to `value`. */
static size_t last_writer(const proof_schedule *s, size_t event, uint32_t value) {
    for (size_t i = event; i-- > 0;)
        for (size_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++)
            if (s->accesses[k].is_write && s->accesses[k].owner == value) return i;
    return event;
}

static weft_status report(layer *l, size_t event, const proof_access *x, uint32_t by) {
    weft_finding *found;
    char reader[256], writer[256];
    TRY(finding_add(l->findings, WEFT_VERDICT_WRONG_VALUE, &found));
    if (!found) return NULL;
    TRY(finding_op(l->findings, found, l->s, event, l->rank, "reads"));
    TRY(finding_op(l->findings, found, l->s, last_writer(l->s, event, by), l->rank, "writes"));
    TRY(finding_says(l->findings, &found->value, "%s", x->name));
    found->begin = x->begin;
    found->end = x->end;
    return finding_says(l->findings, &found->message,
                        "%s reads \"%s\", but %s wrote another value over it in temporary memory (rank %lld)",
                        finding_op_text(&found->ops[0], reader, sizeof reader), x->name,
                        finding_op_text(&found->ops[1], writer, sizeof writer), (long long)l->rank);
}

static uint32_t other_in(const layer *l, int64_t begin, int64_t end, uint32_t value) {
    return find_other(l, 1, 0, l->nleaves, points_find(l->points, l->npoints, begin),
                      points_find(l->points, l->npoints, end), value);
}

/* Of a bucket that is reduced or scaled as a whole the members count: what becomes of padding is nobody's business. */
static uint32_t read_value(const layer *l, const proof_event *e, const proof_access *x) {
    if (e->op && op_is(e->op, "scale")) return UNWRITTEN;
    const proof_collective *c = e->collective == PROOF_NONE ? NULL : &l->s->collectives[e->collective];
    bool has_parts = c && c->nmembers && l->s->members[c->first_member].nbytes > 0;
    if (!has_parts) return other_in(l, x->begin, x->end, x->owner);
    uint32_t found = UNWRITTEN;
    for (uint32_t i = 0; i < c->nmembers && found == UNWRITTEN; i++) {
        const proof_member *m = &l->s->members[c->first_member + i];
        found = other_in(l, x->begin + m->offset, x->begin + m->offset + m->nbytes, x->owner);
    }
    return found;
}

static weft_status sweep_event(layer *l, size_t event) {
    const proof_schedule *s = l->s;
    const proof_event *e = &s->events[event];
    for (size_t k = e->first_access; k < s->events[event + 1].first_access; k++) {
        const proof_access *x = &s->accesses[k];
        uint32_t other = x->buffer == TEMPORARY && !x->is_write ? read_value(l, e, x) : UNWRITTEN;
        if (other != UNWRITTEN) return report(l, event, x, other);
    }
    for (size_t k = e->first_access; k < s->events[event + 1].first_access; k++) {
        const proof_access *x = &s->accesses[k];
        if (x->buffer == TEMPORARY && x->is_write)
            put(l, 1, 0, l->nleaves, points_find(l->points, l->npoints, x->begin),
                points_find(l->points, l->npoints, x->end), x->owner);
    }
    return NULL;
}

weft_status check_overwritten(const proof_schedule *s, int64_t rank, weft_findings *f) {
    arena scratch;
    arena_init(&scratch, &s->context->allocator);
    layer l = {.s = s, .rank = rank, .findings = f};
    weft_status status = build(&l, &scratch);
    for (size_t i = 0; i < s->nevents && !status; i++) status = sweep_event(&l, i);
    arena_fini(&scratch);
    return status;
}

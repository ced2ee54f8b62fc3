/* stale.c: state that is gathered from other state, as parameters are from the shards that ranks update. It is read
 * after the shards were updated but before they were gathered again: the values are those of the step before.
 *
 * Two steps in program order, which every order of execution has to keep. Gathered state is behind from the moment that
 * its source is written until it is gathered. A source is state that reaches the collective directly or through ops
 * that only pass one value on (a cast, a copy). */
#include "proof/checks/checks.h"

typedef struct freshness {
    const proof_schedule *s;
    uint32_t *origin;      /* by buffer: the state whose value it passes on; PROOF_NONE */
    uint32_t *gathered_by; /* by buffer: the launch that fills it from other state; PROOF_NONE */
    uint32_t *next;        /* by buffer: another one gathered from the same state */
    uint32_t *first;       /* by buffer: what is gathered from it; PROOF_NONE */
    uint32_t *behind;      /* by buffer: the launch that updated its source since it was gathered; PROOF_NONE */
    bool *reported;        /* by buffer */
    int64_t rank;
    weft_findings *findings;
} freshness;

/* The one access of an event of that direction, or NULL. */
static const proof_access *only_access(const proof_schedule *s, size_t event, bool is_write) {
    const proof_access *found = NULL, *x = s->accesses + s->events[event].first_access;
    for (size_t k = 0, n = proof_naccesses(s, event); k < n; k++) {
        if (x[k].is_write != is_write) continue;
        if (found) return NULL;
        found = &x[k];
    }
    return found;
}

static bool passes_on(const proof_event *e) {
    return e->op && op_has_effect((weft_op *)e->op, OP_LINEAR) && e->collective == PROOF_NONE;
}

static bool gathers(const proof_schedule *s, const proof_event *e) {
    if (e->collective == PROOF_NONE) return false;
    collective_kind kind = s->collectives[e->collective].kind;
    return kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_BROADCAST;
}

static uint32_t state_behind(const freshness *f, const proof_access *x) {
    return f->s->buffers[x->buffer].is_given ? x->buffer : f->origin[x->buffer];
}

static void find_gathers(freshness *f) {
    for (uint32_t i = 0; i < f->s->nevents; i++) {
        const proof_access *in = only_access(f->s, i, false), *out = only_access(f->s, i, true);
        const proof_event *e = &f->s->events[i];
        uint32_t source = in ? state_behind(f, in) : PROOF_NONE;
        for (size_t k = e->first_access; k < f->s->events[i + 1].first_access; k++)
            if (f->s->accesses[k].is_write) f->origin[f->s->accesses[k].buffer] = PROOF_NONE;
        if (!out || source == PROOF_NONE || source == out->buffer) continue;
        if (passes_on(e)) f->origin[out->buffer] = source;
        if (!gathers(f->s, e) || !f->s->buffers[out->buffer].is_given || f->gathered_by[out->buffer] != PROOF_NONE)
            continue;
        f->gathered_by[out->buffer] = i;
        f->next[out->buffer] = f->first[source];
        f->first[source] = out->buffer;
    }
}

static weft_status report(freshness *f, size_t event, const proof_access *x) {
    weft_finding *found;
    char reader[256], update[256], gather[256];
    f->reported[x->buffer] = true;
    TRY(finding_add(f->findings, WEFT_VERDICT_STALE_READ, &found));
    if (!found) return NULL;
    TRY(finding_op(f->findings, found, f->s, event, f->rank, "reads"));
    TRY(finding_op(f->findings, found, f->s, f->behind[x->buffer], f->rank, "updates"));
    TRY(finding_op(f->findings, found, f->s, f->gathered_by[x->buffer], f->rank, "gathers"));
    TRY(finding_says(f->findings, &found->value, "%s", f->s->buffers[x->buffer].name));
    finding_op_text(&found->ops[0], reader, sizeof reader);
    finding_op_text(&found->ops[1], update, sizeof update);
    finding_op_text(&found->ops[2], gather, sizeof gather);
    found->begin = x->begin;
    found->end = x->end;
    TRY(finding_says(f->findings, &found->message,
                     "%s reads \"%s\" as it was before %s updated what it is gathered from: %s runs later (rank %lld)",
                     reader, found->value, update, gather, (long long)f->rank));
    return finding_says(f->findings, &found->remedy, "%s before %s", gather, reader);
}

static weft_status step(freshness *f) {
    for (uint32_t i = 0; i < f->s->nevents; i++) {
        const proof_access *x = f->s->accesses + f->s->events[i].first_access;
        size_t n = proof_naccesses(f->s, i);
        for (size_t k = 0; k < n; k++) {
            uint32_t b = x[k].buffer;
            if (!x[k].is_write && f->behind[b] != PROOF_NONE && !f->reported[b]) TRY(report(f, i, &x[k]));
        }
        for (size_t k = 0; k < n; k++) {
            if (!x[k].is_write) continue;
            f->behind[x[k].buffer] = PROOF_NONE;
            for (uint32_t d = f->first[x[k].buffer]; d != PROOF_NONE; d = f->next[d])
                if (f->gathered_by[d] != i) f->behind[d] = i;
        }
    }
    return NULL;
}

static weft_status sweep(freshness *f, arena *a) {
    uint32_t **lists[] = {&f->origin, &f->gathered_by, &f->next, &f->first, &f->behind};
    size_t n = f->s->nbuffers + 1;
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        *lists[k] = ARENA_ARRAY(a, uint32_t, n);
        if (!*lists[k]) return base_out_of_memory();
        for (size_t i = 0; i < n; i++) (*lists[k])[i] = PROOF_NONE;
    }
    f->reported = ARENA_ARRAY(a, bool, n);
    if (!f->reported) return base_out_of_memory();
    find_gathers(f);
    TRY(step(f));
    return step(f);
}

weft_status check_stale(const proof_schedule *s, int64_t rank, weft_findings *findings) {
    arena scratch;
    bool any = false;
    for (size_t i = 0; i < s->ncollectives && !any; i++) any = gathers(s, &s->events[s->collectives[i].event]);
    if (!any) return NULL;
    arena_init(&scratch, &s->context->allocator);
    freshness f = {.s = s, .rank = rank, .findings = findings};
    weft_status status = sweep(&f, &scratch);
    arena_fini(&scratch);
    return status;
}

/* reused.c: memory that Paddle's executor lets be written again while a stream still uses it, in none of the program's
 * own ops.
 *
 * Its garbage collector hands memory on to the next that allocates on the same stream, once what it has noted is
 * complete (by_name_memory.c). A use on another stream may come behind the note, or nobody noted it. It has to be
 * complete before the first launch there that may be given the memory.
 *
 * A feed is filled again when the compute stream is through with the step (operators/reader/buffered_reader.cc: the
 * copy waits for an event of that stream alone). A use on another stream has to be complete by then. What the host
 * reads between steps (fetches, state that is saved) is copied with all streams idle: they are streams that a
 * synchronous copy waits for (phi/backends/gpu/gpu_resources.cc, InitStream). */
#include "program/grow.h"
#include "proof/checks/across.h"
#include "proof/checks/checks.h"
#include "proof/schedule/order.h"

/* The last use of a buffer on a stream. */
typedef struct last_use {
    uint32_t stream, event, access;
    struct last_use *next; /* of the buffer */
} last_use;

/* Memory that is noted at a launch, or free behind it. */
typedef struct freed {
    uint32_t buffer;
    struct freed *next; /* of the stream that owns it */
} freed;

typedef struct reuse {
    const proof_schedule *s;
    arena *arena;
    across *others;
    uint32_t class;
    int64_t rank;
    weft_findings *findings;
    order_walk walk;
    last_use **uses;  /* by buffer: of memory that is freed, those that no note met so far covers; of feeds, all */
    freed **noted_by; /* by event: what is noted there */
    freed **freed_by; /* by event */
    freed **waiting;  /* by stream: freed, and not handed on yet */
} reuse;

/* --- uses --------------------------------------------------------------------------------------------------------- */

/* The buffer among those of a launch. */
static weft_status note_at(const reuse *r, uint32_t event, uint32_t buffer_id, freed **lists) {
    freed *f = ARENA_NEW(r->arena, freed);
    if (!f) return base_out_of_memory();
    *f = (freed){buffer_id, lists[event]};
    lists[event] = f;
    return NULL;
}

static bool is_freed(const proof_schedule *s, uint32_t buffer_id) {
    return s->memory[buffer_id].freed_by != PROOF_NONE && s->memory[buffer_id].owner != PROOF_NONE;
}

static weft_status find_uses(reuse *r) {
    const proof_schedule *s = r->s;
    for (uint32_t i = 0; i < s->nevents; i++) {
        const proof_event *e = &s->events[i];
        for (uint32_t k = e->first_access; k < s->events[i + 1].first_access; k++) {
            uint32_t of = s->accesses[k].buffer;
            uint32_t master = s->buffers[of].is_fed ? 0 : s->memory[of].owner;
            if (e->stream == master || !(s->buffers[of].is_fed || is_freed(s, of))) continue;
            last_use *u = r->uses[of];
            while (u && u->stream != e->stream) u = u->next;
            if (!u) {
                if (!(u = ARENA_NEW(r->arena, last_use))) return base_out_of_memory();
                *u = (last_use){.stream = e->stream, .next = r->uses[of]};
                r->uses[of] = u;
            }
            u->event = i;
            u->access = k;
        }
    }
    return NULL;
}

/* Takes off the uses that are complete when a launch is: memory that has it noted is handed on behind it alone. A note
 * of the stream that owns the memory is none: the allocator asks for no event there. */
static void take_off(reuse *r, uint32_t buffer_id, uint32_t noted) {
    const proof_schedule *s = r->s;
    uint32_t stream = s->events[noted].stream;
    if (stream == s->memory[buffer_id].owner) return;
    for (last_use **u = &r->uses[buffer_id]; *u;)
        if (r->walk.clock[(*u)->stream] >= r->walk.position[(*u)->event])
            *u = (*u)->next;
        else
            u = &(*u)->next;
}

static weft_status list_freed(reuse *r) {
    const proof_schedule *s = r->s;
    for (uint32_t i = 0; i < s->nbuffers; i++) {
        if (s->buffers[i].is_fed || !is_freed(s, i) || !r->uses[i]) continue;
        for (uint32_t k = s->memory[i].notes; k != PROOF_NONE; k = s->notes[k].next)
            TRY(note_at(r, s->notes[k].event, i, r->noted_by));
        TRY(note_at(r, s->memory[i].freed_by, i, r->freed_by));
    }
    return NULL;
}

/* --- memory handed on --------------------------------------------------------------------------------------------- */

/* `x` is used by u, let go of by `last`, and may be what `taker` writes. */
static weft_status report_handed_on(reuse *r, uint32_t buffer_id, const last_use *u, uint32_t taker,
                                    bool of_next_step) {
    const proof_schedule *s = r->s;
    const proof_access *x = &s->accesses[u->access];
    weft_finding *found;
    char user[256], last[256], gets[256];
    TRY(finding_add(r->findings, WEFT_VERDICT_RACE, &found));
    if (!found) return NULL;
    TRY(finding_op(r->findings, found, s, u->event, r->rank, x->is_write ? "writes" : "reads"));
    TRY(finding_op(r->findings, found, s, s->memory[buffer_id].last, r->rank, "lets go"));
    TRY(finding_op(r->findings, found, s, taker, r->rank, "may get the memory"));
    found->begin = x->begin;
    found->end = x->end;
    TRY(finding_says(r->findings, &found->value, "%s", s->buffers[buffer_id].name));
    finding_op_text(&found->ops[0], user, sizeof user);
    finding_op_text(&found->ops[1], last, sizeof last);
    finding_op_text(&found->ops[2], gets, sizeof gets);
    const char *own = found->ops[0].stream, *owner = s->streams[s->memory[buffer_id].owner];
    TRY(finding_says(
        r->findings, &found->message,
        "%s on stream %s %s \"%s\"; %s on stream %s lets go of the memory of \"%s\" last, and nothing notes "
        "stream %s behind the use: %s on stream %s%s may be given the memory before the use is complete "
        "(rank %lld)",
        user, own, found->ops[0].role, x->name, last, found->ops[1].stream, found->value, own, gets, owner,
        of_next_step ? " in the next step" : "", (long long)r->rank));
    return finding_says(r->findings, &found->remedy, "the last use of \"%s\" is on stream %s, or %s waits for %s",
                        x->name, own, gets, user);
}

/* Whether all the ranks make `later` start behind `earlier`. */
static weft_status is_ordered(reuse *r, uint32_t earlier, uint32_t later, bool *out) {
    *out = r->walk.clock[r->s->events[earlier].stream] >= r->walk.position[earlier];
    if (*out || r->walk.step || !r->others) return NULL;
    return across_orders(r->others, r->class, earlier, later, out);
}

/* What an event writes of memory that was allocated on its stream: the one allocated last. PROOF_NONE: nothing. */
static uint32_t taken_by(const proof_schedule *s, size_t event) {
    uint32_t taken = PROOF_NONE;
    for (size_t k = s->events[event].first_access; k < s->events[event + 1].first_access; k++) {
        const proof_access *x = &s->accesses[k];
        const proof_memory *m = &s->memory[x->buffer];
        if (!x->is_write || s->buffers[x->buffer].is_given || m->owner != s->events[event].stream) continue;
        if (taken == PROOF_NONE || m->made_by > s->memory[taken].made_by) taken = x->buffer;
    }
    return taken;
}

/* The first that may get memory that is free: if uses are complete for it, they are for all behind it. What stands
 * under a condition may not run, and leaves it to the next. */
static weft_status hand_on(reuse *r, uint32_t event) {
    const proof_schedule *s = r->s;
    freed **f = &r->waiting[s->events[event].stream];
    uint32_t taken = *f ? taken_by(s, event) : PROOF_NONE;
    if (taken == PROOF_NONE) return NULL;
    while (*f) {
        uint32_t of = (*f)->buffer;
        if (!r->walk.step && s->memory[taken].made_by <= s->memory[of].freed_by) {
            f = &(*f)->next;
            continue;
        }
        for (const last_use *u = r->uses[of]; u; u = u->next) {
            bool ordered;
            TRY(is_ordered(r, u->event, event, &ordered));
            if (!ordered) TRY(report_handed_on(r, of, u, event, r->walk.step > 0));
        }
        *f = (*f)->next;
    }
    return NULL;
}

static void let_go(reuse *r, uint32_t event) {
    for (const freed *f = r->noted_by[event]; f; f = f->next) take_off(r, f->buffer, event);
    for (freed *f = r->freed_by[event], *next; f; f = next) {
        next = f->next;
        if (!r->uses[f->buffer]) continue;
        freed **waiting = &r->waiting[r->s->memory[f->buffer].owner];
        f->next = *waiting;
        *waiting = f;
    }
}

/* --- feeds -------------------------------------------------------------------------------------------------------- */

static weft_status report_refilled(reuse *r, uint32_t buffer_id, const last_use *u) {
    const proof_schedule *s = r->s;
    const proof_access *x = &s->accesses[u->access];
    weft_finding *found;
    char user[256];
    TRY(finding_add(r->findings, WEFT_VERDICT_RACE, &found));
    if (!found) return NULL;
    TRY(finding_op(r->findings, found, s, u->event, r->rank, x->is_write ? "writes" : "reads"));
    found->begin = x->begin;
    found->end = x->end;
    TRY(finding_says(r->findings, &found->value, "%s", s->buffers[buffer_id].name));
    finding_op_text(&found->ops[0], user, sizeof user);
    TRY(finding_says(r->findings, &found->message,
                     "%s on stream %s %s \"%s\"; the feed \"%s\" is filled again when stream %s is through with the "
                     "step, and nothing makes that wait for stream %s (rank %lld)",
                     user, found->ops[0].stream, found->ops[0].role, x->name, found->value, s->streams[0],
                     found->ops[0].stream, (long long)r->rank));
    return finding_says(r->findings, &found->remedy, "an op on stream %s waits for %s", s->streams[0], user);
}

/* Whether an op of the program fills it: it is then ordered as any op. */
static weft_status find_filled(reuse *r, bool **out) {
    const proof_schedule *s = r->s;
    bool *filled = *out = ARENA_ARRAY(r->arena, bool, s->nbuffers + 1);
    if (!filled) return base_out_of_memory();
    for (size_t i = 0; i < s->nevents; i++)
        for (size_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++)
            filled[s->accesses[k].buffer] |=
                s->accesses[k].is_write && s->events[i].op && op_is(s->events[i].op, "feed");
    return NULL;
}

/* Asked between the steps, when all of the first are launched. */
static weft_status refill(reuse *r) {
    const proof_schedule *s = r->s;
    const uint32_t *through = r->walk.of_stream; /* the clock of compute */
    bool *filled;
    TRY(find_filled(r, &filled));
    for (uint32_t i = 0; i < s->nbuffers; i++) {
        if (!s->buffers[i].is_fed || filled[i]) continue;
        for (const last_use *u = r->uses[i]; u; u = u->next) {
            uint32_t done = through[u->stream] > r->walk.host[u->stream] ? through[u->stream] : r->walk.host[u->stream];
            if (done < r->walk.position[u->event]) TRY(report_refilled(r, i, u));
        }
    }
    return NULL;
}

/* --- two steps ---------------------------------------------------------------------------------------------------- */

static weft_status run(reuse *r) {
    const proof_schedule *s = r->s;
    r->uses = ARENA_ARRAY(r->arena, last_use *, s->nbuffers + 1);
    r->noted_by = ARENA_ARRAY(r->arena, freed *, s->nevents + 1);
    r->freed_by = ARENA_ARRAY(r->arena, freed *, s->nevents + 1);
    r->waiting = ARENA_ARRAY(r->arena, freed *, s->nstreams + 1);
    if (!r->uses || !r->noted_by || !r->freed_by || !r->waiting) return base_out_of_memory();
    TRY(find_uses(r));
    TRY(list_freed(r));
    TRY(order_begin(&r->walk, s, r->arena));
    for (int step = 0; step < 2; step++) {
        for (uint32_t i = 0; i < s->nevents; i++) {
            order_start(&r->walk, i);
            TRY(hand_on(r, i));
            order_finish(&r->walk, i);
            if (!step) let_go(r, i);
        }
        if (!step) TRY(refill(r));
        order_next_step(&r->walk);
    }
    return NULL;
}

weft_status check_reused(across *others, uint32_t class, int64_t rank, weft_findings *f) {
    const proof_schedule *s = others->ranks->classes[class].schedule;
    if (s->nstreams < 2) return NULL; /* one stream runs in order */
    arena scratch;
    arena_init(&scratch, &s->context->allocator);
    reuse r = {.s = s, .arena = &scratch, .others = others, .class = class, .rank = rank, .findings = f};
    weft_status status = run(&r);
    arena_fini(&scratch);
    return status;
}

/* schedule_comm_wait: more work between a collective and the wait for it.
 *
 * Who reads the pending result gets it through the wait (wait_views.h). Each wait sinks, by itself, to just before the
 * first op that touches the bytes of its pending result or writes what the collective reads. Any alias counts. It takes
 * the views in between along; a copy of the pending result is no reason to wait yet, but sinks to just before the next
 * access of its target. Then collectives rise to right after their input is ready. Nothing passes a conflicting access,
 * a collective of the same ring, or an op whose effects go beyond its arguments. Source: pytorch.md 1.8; unlike there
 * members of one collective are waited for one by one. Views do not end the search, and a wait or a collective without
 * user is fine. */
#include "passes/pass_manager.h"
#include "passes/schedule.h"
#include "passes/wait_views.h"

static const weft_option options[] = {
    {"max_memory_growth_mb", WEFT_OPTION_FLOAT, "", NULL,
     "how much the peak of temporaries may grow, in MiB; not given: without bound"},
};

static weft_status set_limit(weft_pass_context *pass, schedule *s, int64_t peak) {
    if (!weft_pass_option_given(pass, "max_memory_growth_mb")) return NULL;
    double mb = weft_pass_option_float(pass, "max_memory_growth_mb");
    if (!(mb >= 0)) return weft_pass_refuse(pass, "max_memory_growth_mb: expected 0 or more, found %g", mb);
    double limit = (double)peak + mb * (1 << 20);
    s->limit = limit < 4e18 ? (int64_t)limit : INT64_MAX;
    return NULL;
}

static weft_status report(weft_pass_context *pass, const schedule *s, int64_t before, int64_t after) {
    TRY(weft_pass_count_add(pass, "waits sunk", (int64_t)s->nwaits));
    TRY(weft_pass_count_add(pass, "copies sunk", (int64_t)s->ncopies));
    TRY(weft_pass_count_add(pass, "collectives raised", (int64_t)s->nlaunches));
    TRY(weft_pass_count_add(pass, "bytes of peak memory added", after - before));
    if (s->nheld)
        TRY(weft_pass_left(pass, NULL, WEFT_REASON_LIMIT,
                           "%zu waits and collectives moved less far than they could: max_memory_growth_mb", s->nheld));
    return weft_pass_did(pass,
                         "sank %zu waits and %zu copies, raised %zu collectives; peak of temporaries %lld -> %lld",
                         s->nwaits, s->ncopies, s->nlaunches, (long long)before, (long long)after);
}

/* From the end, so that the op after each is in place; those that stay are among themselves. */
static void apply(weft_program *p, const schedule *s) {
    weft_op *after = NULL;
    for (size_t i = s->nops; i-- > 0;) {
        weft_op *op = access_op(&s->found.index, s->order[i]);
        bool moves = s->moved[op->mark] && op->next != after;
        if (moves && after)
            weft_op_move_before(op, after);
        else if (moves)
            weft_op_move_after(op, p->blocks[0]->last);
        after = op;
    }
}

/* Readers that a wait serves by order alone read its result: so the wait may sink to them, and is not dead. */
static weft_status take_readers(weft_pass_context *pass, weft_program *program, pending_list *found) {
    size_t nviews = 0;
    uint64_t edits = program->edits;
    for (size_t i = 0; i < found->count; i++) {
        const pending *p = &found->items[i];
        size_t nmoved;
        if (!p->wait || (p->consumer && p->consumer_position < p->wait_position)) continue;
        TRY(wait_take_readers(pass, p, p->wait, &nmoved));
        nviews += nmoved;
    }
    if (program->edits == edits) return NULL;
    TRY(weft_pass_count_add(pass, "views taken behind a wait", (int64_t)nviews));
    return pending_of(pass, program, found);
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    schedule s;
    int64_t before, after;
    pending_list found;
    TRY(pending_of(pass, program, &found));
    if (!found.count) return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING, "no collective is asynchronous");
    TRY(take_readers(pass, program, &found));
    TRY(schedule_begin(program, &found, pass_scratch(pass), &s));
    TRY(schedule_peak(&s, &before));
    TRY(set_limit(pass, &s, before));
    TRY(schedule_sink(&s));
    TRY(schedule_rise(&s));
    TRY(schedule_peak(&s, &after));
    TRY(report(pass, &s, before, after));
    apply(program, &s);
    return NULL;
}

const weft_pass pass_schedule_comm_wait = {
    .options = options, .noptions = sizeof options / sizeof *options, .run = run};

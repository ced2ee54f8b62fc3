/* record.c: a rank's instructions become an array of calls per stream.
 *
 * The idea: every question that a step could ask is answered here once: which kernel, what state and scratch. A step
 * then walks the calls. */
#include "executor/devices/call.h"
#include "executor/devices/cpu/cpu.h"
#include "executor/watchdog.h"

/* --- around a kernel ---------------------------------------------------------------------------------------------- */

/* A kernel whose outputs are looked at, or that of a collective that the watchdog sees, or of one that is made late. */
typedef struct wrapped_kernel {
    kernel_run_fn run;
    void *state;
    cpu_run *of;
    struct watched *watched;
    double seconds;
    const rank_state *rank;
    const plan_instr *instr;
} wrapped_kernel;

static weft_status run_checked(const kernel_call *c) {
    const wrapped_kernel *w = c->state;
    kernel_call call = *c;
    call.state = w->state;
    TRY(w->run(&call));
    bool is_due = !c->step || *c->step % w->of->head.executor->options.check_finite_every == 0;
    return is_due ? cpu_check_finite(&call, w->rank, w->instr) : NULL;
}

static weft_status run_watched(const kernel_call *c) {
    const wrapped_kernel *w = c->state;
    kernel_call call = *c;
    call.state = w->state;
    int64_t start_ns = watched_begin(w->watched);
    weft_status status = w->run(&call);
    watched_end(w->watched, start_ns);
    return status;
}

/* A delay beside compute stands for a link: who waits for others there sleeps. Where data is near yielding is faster.
 */
static weft_status run_late(const kernel_call *c) {
    const wrapped_kernel *late = c->state;
    if (late->instr->stream != 0 && late->of->shares_cores) wait_sleep_at_once(true);
    kernel_call call = *c;
    call.state = late->state;
    if (wait_until(&late->of->late, 1, late->of->head.executor->world->aborted, late->seconds) == WAIT_TIMED_OUT)
        return late->run(&call);
    return weft_status_create(WEFT_CANCELLED, NULL, "the run was stopped while it was late");
}

static weft_status wrap(cpu_run *run, const rank_state *rank, const device_instr *i, kernel_run_fn around,
                        cpu_call *out) {
    wrapped_kernel *w = ARENA_NEW(&run->head.executor->arena, wrapped_kernel);
    if (!w) return base_out_of_memory();
    *w = (wrapped_kernel){out->run, out->call.state, run, i->watched, i->delay_seconds, rank, i->instr};
    out->run = around;
    out->call.state = w;
    return NULL;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static weft_status record_instr(cpu_run *run, rank_state *rank, device_instr *i, cpu_call *out) {
    device_call made;
    TRY(device_call_make(&run->head, rank, i, run->head.executor->options.nthreads, &made));
    *out = (cpu_call){.call = made.call,
                      .run = made.run,
                      .workspace_nbytes = made.workspace_nbytes,
                      .instr = i->instr,
                      .nwaits = i->instr->nwaits,
                      .signals = i->signals,
                      .guard = i->guard,
                      .outer_guard = i->outer_guard};
    bool names_only = i->instr->schema->effects & (OP_ALIASES | OP_NO_BYTES | OP_ONLY_VIEWS);
    if (run->head.executor->options.check_finite_every && !names_only) TRY(wrap(run, rank, i, run_checked, out));
    if (i->watched) TRY(wrap(run, rank, i, run_watched, out));
    if (i->delay_seconds > 0) TRY(wrap(run, rank, i, run_late, out));
    return NULL;
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

/* Scratch that instructions of a stream share: as much as the one that needs most, or the group: its members run at the
 * same time and have a part each. The first time round finds the size, the second one the addresses. */
static size_t lay_out_workspace(cpu_stream *s, unsigned char *bytes) {
    size_t at = 0, most = 0;
    for (size_t i = 0; i < s->ncalls; i++) {
        cpu_call *b = &s->calls[i];
        if (!b->group || cpu_group_count(b)) at = 0;
        b->call.workspace = bytes ? bytes + at : NULL;
        if (!base_add(at, b->workspace_nbytes, &at) || !base_add(at, 63, &at)) return SIZE_MAX;
        at &= ~(size_t)63;
        if (at > most) most = at;
    }
    return most;
}

static weft_status make_workspace(cpu_run *run, cpu_stream *s) {
    TRY(cpu_groups_make(run->head.executor, s));
    TRY(cpu_alloc(run->head.device, s->state->rank->rank, DEVICE_OWN, lay_out_workspace(s, NULL), &s->workspace));
    lay_out_workspace(s, s->workspace.bytes);
    return NULL;
}

static weft_status make_streams(cpu_run *run, rank_state *rank) {
    arena *a = &run->head.executor->arena;
    cpu_stream *streams = ARENA_ARRAY(a, cpu_stream, rank->plan->nstreams);
    if (!streams) return base_out_of_memory();
    run->ranks[run->nranks++] = streams;
    for (int i = 0; i < rank->plan->nstreams; i++) {
        cpu_stream *s = &streams[i];
        s->run = run;
        s->state = &rank->streams[i];
        s->of_rank = streams;
        s->ncalls = s->state->ninstrs;
        s->calls = ARENA_ARRAY(a, cpu_call, s->ncalls ? s->ncalls : 1);
        if (run->head.timed) s->events = ARENA_ARRAY(a, trace_event, s->ncalls ? s->ncalls : 1);
        if (!s->calls || (run->head.timed && !s->events)) return base_out_of_memory();
    }
    return NULL;
}

/* In the order of the plan: a refusal is that of the first op that is refused. */
weft_status cpu_record(device_run *head, rank_state *rank) {
    cpu_run *run = cpu_run_of(head);
    const weft_plan *plan = rank->plan;
    TRY(make_streams(run, rank));
    cpu_stream *streams = run->ranks[run->nranks - 1];
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        TRY(record_instr(run, rank, &rank->streams[instr->stream].instrs[instr->position],
                         &streams[instr->stream].calls[instr->position]));
    }
    for (int s = 0; s < plan->nstreams; s++) TRY(make_workspace(run, &streams[s]));
    return NULL;
}

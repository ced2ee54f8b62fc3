/* trace.c: the timeline of an executor (plan/timeline/) seen from outside.
 *
 * Each process keeps the times of its own ranks, by its own clock. For a document they compare clocks once more (as
 * when the executor was made: what is in between is taken to go evenly), tell where the first event is, and each prints
 * its parts; all get the whole. */
#include "executor/gather.h"

weft_status trace_init(weft_executor *x) {
    if (!x->options.trace) return NULL;
    timeline *t = ARENA_NEW(&x->arena, timeline);
    const weft_plan **plans = ARENA_ARRAY(&x->arena, const weft_plan *, x->nplans);
    if (!t || !plans) return base_out_of_memory();
    for (size_t p = 0; p < x->nplans; p++) plans[p] = x->ranks[p].plan;
    x->timeline = t;
    return timeline_init(t, &x->arena, plans, x->nplans, x->first_rank, x->nlocal, (size_t)x->options.trace_steps);
}

static trace_event *room_for_step(const weft_executor *x, const stream_state *s) {
    if (!x->timeline) return s->last;
    return timeline_slot(x->timeline, &x->timeline->ranks[s->rank->rank - x->first_rank][s->stream]);
}

void trace_keep_step(weft_executor *x) {
    if (!x->timeline && !x->profile) return;
    for (int r = 0; r < x->nlocal; r++)
        for (int i = 0; i < x->ranks[r].plan->nstreams; i++) {
            stream_state *s = &x->ranks[r].streams[i];
            trace_event *events = room_for_step(x, s);
            profile_cell waiting;
            x->device->engine->times(x->run, s, events, &waiting);
            if (s->cells) profile_add_times(s, events, waiting);
        }
    if (x->timeline) timeline_end_step(x->timeline);
}

static timeline_overlap measure(const weft_executor *x) {
    return x->timeline ? timeline_measure(x->timeline) : (timeline_overlap){0};
}

void weft_executor_overlap(const weft_executor *x, double *out_collective_seconds, double *out_hidden_seconds) {
    timeline_overlap sum = measure(x);
    *out_collective_seconds = (double)sum.collective_ns * 1e-9;
    *out_hidden_seconds = (double)sum.hidden_ns * 1e-9;
}

void weft_executor_hidden(const weft_executor *x, size_t *out_ncollectives, size_t *out_nhidden) {
    timeline_overlap sum = measure(x);
    *out_ncollectives = sum.ncollectives;
    *out_nhidden = sum.nhidden;
}

weft_status weft_executor_rank_times(const weft_executor *x, int rank, weft_rank_times *out_times) {
    return timeline_rank_times(x->timeline, rank, out_times);
}

/* --- documents ---------------------------------------------------------------------------------------------------- */

static const char *const when = "for the timeline";

/* What processes tell before they print. Of the first rank of each; the others' have no plans and count nothing. */
typedef struct outline {
    int64_t origin_ns;
    size_t nplans;
    timeline_overlap overlap;
} outline;

static void add_outline(const outline *o, bool is_before, timeline_frame *f) {
    if (o->origin_ns < f->origin_ns) f->origin_ns = o->origin_ns;
    if (is_before) f->nplans_before += o->nplans;
    f->overlap.collective_ns += o->overlap.collective_ns;
    f->overlap.hidden_ns += o->overlap.hidden_ns;
    f->overlap.ncollectives += o->overlap.ncollectives;
    f->overlap.nhidden += o->overlap.nhidden;
}

static weft_status find_frame(const weft_executor *x, arena *scratch, timeline_frame *out) {
    timeline_clock clock;
    outline *mine = ARENA_ARRAY(scratch, outline, x->nlocal), *all = ARENA_ARRAY(scratch, outline, x->nranks);
    if (!mine || !all) return base_out_of_memory();
    TRY(world_clock_read(x, &clock));
    *out = timeline_frame_of(x->timeline, &clock);
    for (int i = 0; i < x->nlocal; i++) mine[i].origin_ns = out->origin_ns;
    mine[0].nplans = x->nplans;
    mine[0].overlap = out->overlap;
    TRY(executor_gather(x, when, mine, sizeof *mine, all));
    out->nranks = x->nranks;
    out->overlap = (timeline_overlap){0};
    for (int r = 0; r < x->nranks; r++) add_outline(&all[r], r < x->first_rank, out);
    return NULL;
}

static weft_status join_parts(const weft_executor *x, arena *scratch, const buffer *parts, timeline_text *out) {
    for (int k = 0; k < TIMELINE_PARTS; k++) {
        gathered_bytes all;
        TRY(executor_gather_bytes(x, when, scratch, &parts[k], &all));
        out[k] = (timeline_text){all.bytes, all.nbytes};
    }
    return NULL;
}

static weft_status print_joined(const weft_executor *x, timeline_form form, const char *title, buffer *out) {
    arena scratch;
    timeline_frame frame;
    buffer parts[TIMELINE_PARTS];
    timeline_text texts[TIMELINE_PARTS];
    weft_status status = NULL;
    arena_init(&scratch, &x->context->allocator);
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_init(&parts[k], &x->context->allocator);
    TRY_DONE(find_frame(x, &scratch, &frame));
    timeline_print_parts(x->timeline, &frame, form, parts);
    TRY_DONE(join_parts(x, &scratch, parts, texts));
    timeline_print_document(&frame, form, title, texts, out);
done:
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_fini(&parts[k]);
    arena_fini(&scratch);
    return status;
}

static weft_status print(const weft_executor *x, timeline_form form, const char *title, char **out_bytes,
                         size_t *out_nbytes) {
    TRY(timeline_check(x->timeline));
    if (x->nlocal == x->nranks) return timeline_print(x->timeline, form, title, out_bytes, out_nbytes);
    buffer out;
    buffer_init(&out, &x->context->allocator);
    weft_status status = print_joined(x, form, title, &out);
    if (!status) status = buffer_take(&out, out_bytes, out_nbytes);
    buffer_fini(&out);
    return status;
}

weft_status weft_executor_trace_json(const weft_executor *x, char **out_bytes, size_t *out_nbytes) {
    return print(x, TIMELINE_JSON, NULL, out_bytes, out_nbytes);
}

weft_status weft_executor_trace_html(const weft_executor *x, const char *title, char **out_bytes, size_t *out_nbytes) {
    return print(x, TIMELINE_HTML, title, out_bytes, out_nbytes);
}

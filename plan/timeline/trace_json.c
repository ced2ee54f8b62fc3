/* trace_json.c: the timeline as Chrome trace JSON, which Perfetto and chrome://tracing open: a process per rank, a
 * thread per stream, an X event per instruction, a flow where one waits for another stream. Times are microseconds from
 * the first event of the timeline. */
#include <stdio.h>

#include "base/json.h"
#include "plan/timeline/trace.h"

static void put_string(buffer *out, const char *s) {
    json_put_string(out, s, strlen(s));
}

static void put_names(buffer *out, const timeline_frame *f, int rank, const weft_plan *plan) {
    char number[32];
    snprintf(number, sizeof number, "rank %d", rank);
    buffer_format(out, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":", rank);
    put_string(out, f->label ? f->label : number);
    buffer_text(out, "}},\n");
    for (int s = 0; s < plan->nstreams; s++) {
        buffer_format(out, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":", rank, s);
        put_string(out, plan->stream_names[s]);
        buffer_format(out, "}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",", rank, s);
        buffer_format(out, "\"args\":{\"sort_index\":%d}},\n", s);
    }
}

/* Microseconds with nanoseconds behind the point; doubles would lose them in long traces. */
static void put_microseconds(buffer *out, int64_t ns) {
    buffer_format(out, "%lld.%03d", (long long)(ns / 1000), (int)(ns % 1000));
}

static void put_event(buffer *out, const timeline *t, const timeline_frame *f, const timeline_lane *l,
                      const plan_instr *instr, trace_event e, uint64_t step) {
    int64_t start_ns = trace_ns(f, e.start_ns);
    const weft_plan *plan = timeline_plan(t, l->rank);
    buffer_format(out, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":", t->first_rank + l->rank, l->stream);
    put_string(out, instr->schema->type);
    buffer_format(out, ",\"cat\":\"%s\",\"ts\":", trace_class_name(trace_class_of(instr)));
    put_microseconds(out, start_ns);
    buffer_text(out, ",\"dur\":");
    put_microseconds(out, trace_ns(f, e.end_ns) - start_ns);
    buffer_format(out, ",\"args\":{\"op\":%d,\"step\":%llu,\"writes\":", instr->op_index, (unsigned long long)step);
    put_string(out, trace_value_name(plan, instr));
    if (instr->ring_id >= 0) {
        buffer_format(out, ",\"ring\":%lld,\"bytes\":%lld", (long long)instr->ring_id,
                      (long long)trace_nbytes(plan, instr));
    }
    buffer_text(out, "}},\n");
}

/* One end of an arrow; `kind` is "s", or "f" with what it binds to. */
static void put_flow(buffer *out, const char *kind, int rank, int stream, unsigned long long number, int64_t ns) {
    buffer_format(out, "{\"ph\":%s,\"pid\":%d,\"tid\":%d,\"name\":\"wait\",\"cat\":\"wait\",\"id\":%llu,\"ts\":", kind,
                  rank, stream, number);
    put_microseconds(out, ns);
    buffer_text(out, "},\n");
}

/* What an instruction waited for. A flow begins within its event: a nanosecond before the end. */
static void put_flows(buffer *out, const timeline *t, const timeline_frame *f, const timeline_lane *l, size_t position,
                      uint64_t step) {
    enum { MOST = 8 };
    const plan_instr *instr = l->instrs->instrs[position], *all = timeline_plan(t, l->rank)->instrs;
    int rank = t->first_rank + l->rank;
    size_t waits[MOST], n = trace_waits(t, l->rank, instr, MOST, waits);
    int64_t start_ns = trace_ns(f, timeline_events(t, l, step)[position].start_ns);
    for (size_t i = 0; i < n; i++) {
        const plan_instr *awaited = &all[waits[i]];
        const timeline_lane *from = &t->ranks[l->rank][awaited->stream];
        trace_event e = timeline_events(t, from, step)[awaited->position];
        unsigned long long number = ((unsigned long long)rank << 39) | (step % 4096) << 27 |
                                    ((size_t)(instr - all) % (1 << 24)) << 3 | i; /* a double holds it */
        if (e.start_ns < 0 || from == l) continue;
        int64_t end_ns = trace_ns(f, e.end_ns > e.start_ns ? e.end_ns - 1 : e.end_ns);
        put_flow(out, "\"s\"", rank, from->stream, number, end_ns);
        put_flow(out, "\"f\",\"bp\":\"e\"", rank, l->stream, number, start_ns);
    }
}

static void put_lane(buffer *out, const timeline *t, const timeline_frame *f, const timeline_lane *l, uint64_t step) {
    const trace_event *events = timeline_events(t, l, step);
    for (size_t i = 0; i < l->instrs->ninstrs; i++) {
        if (events[i].start_ns < 0) continue;
        put_event(out, t, f, l, l->instrs->instrs[i], events[i], step);
        put_flows(out, t, f, l, i, step);
    }
}

/* Names of ranks and streams, then events; each entry ends in a comma. */
void trace_json_parts(const timeline *t, const timeline_frame *f, buffer parts[TIMELINE_PARTS]) {
    uint64_t first;
    size_t n = timeline_steps(t, &first);
    for (int r = 0; r < t->nranks; r++) put_names(&parts[0], f, t->first_rank + r, timeline_plan(t, r));
    for (uint64_t step = first; step < first + n; step++) {
        for (int r = 0; r < t->nranks; r++) {
            for (int s = 0; s < timeline_plan(t, r)->nstreams; s++) put_lane(&parts[1], t, f, &t->ranks[r][s], step);
        }
    }
}

void trace_json_document(const timeline_frame *f, const char *title, const timeline_text *parts, buffer *out) {
    (void)f, (void)title;
    buffer_text(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_append(out, parts[k].bytes, parts[k].nbytes);
    /* Every entry ends in a comma; the last one is this. */
    buffer_format(out, "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_labels\",\"args\":{\"labels\":\"weft %s\"}}\n]}\n",
                  WEFT_VERSION);
}

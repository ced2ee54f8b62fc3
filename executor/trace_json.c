/* trace_json.c: the timeline as Chrome trace JSON, which Perfetto and chrome://tracing open: a process per rank, a
 * thread per stream, an X event per instruction. Times are microseconds from the first event of the timeline. */
#include "base/json.h"
#include "executor/trace.h"

int64_t trace_origin(const weft_executor *x) {
    int64_t origin = INT64_MAX;
    uint64_t first;
    size_t n = timeline_steps(x, &first);
    for (uint64_t step = first; step < first + n; step++) {
        for (int r = 0; r < x->nlocal; r++) {
            const rank_state *rank = &x->ranks[r];
            for (int s = 0; s < rank->plan->nstreams; s++) {
                const stream_state *stream = &rank->streams[s];
                const trace_event *events = timeline_events(x, stream, step);
                for (size_t i = 0; i < stream->ninstrs; i++) {
                    if (events[i].start_ns >= 0 && events[i].start_ns < origin) origin = events[i].start_ns;
                }
            }
        }
    }
    return origin == INT64_MAX ? 0 : origin;
}

const char *trace_value_name(const rank_state *rank, const plan_instr *instr) {
    size_t nout = instr->out_first[instr->schema->noutputs];
    for (size_t i = 0; i < nout; i++) {
        if (instr->out[i] >= 0) return rank->plan->values[instr->out[i]].name;
    }
    return "";
}

static void put_string(buffer *out, const char *s) {
    json_put_string(out, s, strlen(s));
}

static void put_names(buffer *out, const rank_state *rank) {
    buffer_format(out, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d\"}},\n",
                  rank->rank, rank->rank);
    for (int s = 0; s < rank->plan->nstreams; s++) {
        buffer_format(
            out, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":", rank->rank, s);
        put_string(out, rank->plan->stream_names[s]);
        buffer_format(out, "}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",", rank->rank, s);
        buffer_format(out, "\"args\":{\"sort_index\":%d}},\n", s);
    }
}

/* Microseconds with nanoseconds behind the point; doubles would lose them in long traces. */
static void put_microseconds(buffer *out, int64_t ns) {
    buffer_format(out, "%lld.%03d", (long long)(ns / 1000), (int)(ns % 1000));
}

static void put_event(buffer *out, const stream_state *s, const plan_instr *instr, trace_event e, uint64_t step,
                      int64_t origin) {
    buffer_format(out, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":", s->rank->rank, s->stream);
    put_string(out, instr->schema->type);
    buffer_format(out, ",\"cat\":\"%s\",\"ts\":", trace_class_name(trace_class_of(instr)));
    put_microseconds(out, e.start_ns - origin);
    buffer_text(out, ",\"dur\":");
    put_microseconds(out, e.end_ns - e.start_ns);
    buffer_format(out, ",\"args\":{\"op\":%d,\"step\":%llu,\"writes\":", instr->op_index, (unsigned long long)step);
    put_string(out, trace_value_name(s->rank, instr));
    if (instr->ring_id >= 0) {
        buffer_format(out, ",\"ring\":%lld,\"bytes\":%lld", (long long)instr->ring_id,
                      (long long)trace_nbytes(s->rank, instr));
    }
    buffer_text(out, "}},\n");
}

static void put_stream(buffer *out, const weft_executor *x, const stream_state *s, uint64_t step, int64_t origin) {
    const trace_event *events = timeline_events(x, s, step);
    for (size_t i = 0; i < s->ninstrs; i++) {
        if (events[i].start_ns >= 0) put_event(out, s, s->instrs[i].instr, events[i], step, origin);
    }
}

weft_status weft_executor_trace_json(const weft_executor *x, char **out_bytes, size_t *out_nbytes) {
    TRY(trace_check(x));
    buffer out;
    buffer_init(&out, &x->context->allocator);
    int64_t origin = trace_origin(x);
    uint64_t first;
    size_t n = timeline_steps(x, &first);
    buffer_text(&out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (int r = 0; r < x->nlocal; r++) put_names(&out, &x->ranks[r]);
    for (uint64_t step = first; step < first + n; step++) {
        for (int r = 0; r < x->nlocal; r++) {
            const rank_state *rank = &x->ranks[r];
            for (int s = 0; s < rank->plan->nstreams; s++) put_stream(&out, x, &rank->streams[s], step, origin);
        }
    }
    /* Every entry ends in a comma; the last one is this. */
    buffer_format(&out, "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_labels\",\"args\":{\"labels\":\"weft %s\"}}\n]}\n",
                  WEFT_VERSION);
    weft_status status = buffer_take(&out, out_bytes, out_nbytes);
    buffer_fini(&out);
    return status;
}

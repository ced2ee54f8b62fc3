/* trace_html.c: the timeline as one HTML page that needs no network: the page (trace_page.c) and, in it, the data.
 *
 * The data is a JSON object in a script. '<' is written as \u003c, so that no name can end the script; the title is
 * escaped for HTML. Lanes hold flat arrays [instruction, step, start, duration] in nanoseconds, because a page may show
 * 100,000 of them. */
#include "base/json.h"
#include "plan/timeline/trace.h"

static void put_lines(buffer *out, const char *const *lines) {
    for (; *lines; lines++) {
        buffer_text(out, *lines);
        buffer_text(out, "\n");
    }
}

static void put_html(buffer *out, const char *s) {
    for (; *s; s++) {
        switch (*s) {
        case '&': buffer_text(out, "&amp;"); break;
        case '<': buffer_text(out, "&lt;"); break;
        case '>': buffer_text(out, "&gt;"); break;
        case '"': buffer_text(out, "&quot;"); break;
        default: buffer_append(out, s, 1);
        }
    }
}

/* A JSON string that is also safe inside a script element. */
static void put_script_string(buffer *out, const char *s) {
    buffer quoted;
    buffer_init(&quoted, out->allocator);
    json_put_string(&quoted, s, strlen(s));
    for (size_t i = 0; i < quoted.nbytes; i++) {
        if (quoted.bytes[i] == '<') {
            buffer_text(out, "\\u003c");
        } else {
            buffer_append(out, &quoted.bytes[i], 1);
        }
    }
    out->failed = out->failed || quoted.failed;
    buffer_fini(&quoted);
}

/* [type, class, op index, value, ring or -1, bytes] of every instruction of a plan. */
static void put_plan(buffer *out, const weft_plan *plan) {
    buffer_text(out, "[");
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        buffer_text(out, i ? ",\n[" : "[");
        put_script_string(out, instr->schema->type);
        buffer_format(out, ",%d,%d,", (int)trace_class_of(instr), instr->op_index);
        put_script_string(out, trace_value_name(plan, instr));
        buffer_format(out, ",%lld,%lld]", (long long)instr->ring_id,
                      (long long)(instr->ring_id >= 0 ? trace_nbytes(plan, instr) : 0));
    }
    buffer_text(out, "]");
}

static void put_events(buffer *out, const timeline *t, const timeline_lane *l, int64_t origin) {
    const plan_instr *instrs = timeline_plan(t, l->rank)->instrs;
    uint64_t first;
    size_t n = timeline_steps(t, &first);
    const char *comma = "";
    buffer_text(out, "[");
    for (uint64_t step = first; step < first + n; step++) {
        const trace_event *events = timeline_events(t, l, step);
        for (size_t i = 0; i < l->instrs->ninstrs; i++) {
            if (events[i].start_ns < 0) continue;
            buffer_format(out, "%s%zu,%llu,%lld,%lld", comma, (size_t)(l->instrs->instrs[i] - instrs),
                          (unsigned long long)step, (long long)(events[i].start_ns - origin),
                          (long long)(events[i].end_ns - events[i].start_ns));
            comma = ",";
        }
    }
    buffer_text(out, "]");
}

static void put_lanes(buffer *out, const timeline *t) {
    int64_t origin = trace_origin(t);
    const char *comma = "";
    buffer_text(out, "\"lanes\":[");
    for (int r = 0; r < t->nranks; r++) {
        const weft_plan *plan = timeline_plan(t, r);
        for (int s = 0; s < plan->nstreams; s++) {
            buffer_format(out, "%s\n{\"rank\":%d,\"plan\":%d,\"stream\":", comma, t->first_rank + r,
                          t->nplans == 1 ? 0 : r);
            put_script_string(out, plan->stream_names[s]);
            buffer_text(out, ",\"events\":");
            put_events(out, t, &t->ranks[r][s], origin);
            buffer_text(out, "}");
            comma = ",";
        }
    }
    buffer_text(out, "]");
}

static void put_data(buffer *out, const timeline *t) {
    uint64_t first;
    size_t nsteps = timeline_steps(t, &first);
    timeline_overlap o = timeline_measure(t);
    buffer_format(out, "const trace = {\"ranks\":%d,\"steps\":%zu,\"collectives\":%zu,\"hidden\":%zu,", t->nranks,
                  nsteps, o.ncollectives, o.nhidden);
    buffer_format(out, "\"collectiveSeconds\":%.9f,\"hiddenSeconds\":%.9f,\n\"classes\":[",
                  (double)o.collective_ns * 1e-9, (double)o.hidden_ns * 1e-9);
    for (int c = 0; c < TRACE_CLASSES; c++) {
        buffer_format(out, "%s\"%s\"", c ? "," : "", trace_class_name((trace_class)c));
    }
    buffer_text(out, "],\n\"plans\":[");
    for (size_t p = 0; p < t->nplans; p++) {
        if (p) buffer_text(out, ",\n");
        put_plan(out, t->plans[p]);
    }
    buffer_text(out, "],\n");
    put_lanes(out, t);
    buffer_text(out, "};\n");
}

weft_status timeline_html(const timeline *t, const char *title, char **out_bytes, size_t *out_nbytes) {
    TRY(timeline_check(t));
    buffer out;
    buffer_init(&out, t->allocator);
    put_lines(&out, trace_page_head);
    put_html(&out, title ? title : "timeline");
    put_lines(&out, trace_page_body);
    put_data(&out, t);
    put_lines(&out, trace_page_script);
    weft_status status = buffer_take(&out, out_bytes, out_nbytes);
    buffer_fini(&out);
    return status;
}

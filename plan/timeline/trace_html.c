/* trace_html.c: the timeline as one HTML page that needs no network: the page (trace_page.c, and its script in
 * trace_script.c and trace_view.c) and, in it, the data.
 *
 * The data is a JSON object in a script. '<' is written as \u003c, so that no name can end the script; the title is
 * escaped for HTML. Lanes hold flat arrays [instruction, step, start, duration] in nanoseconds, because a page may show
 * 100,000 of them. */
#include "base/json.h"
#include "plan/rings.h"
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

/* The instructions that one of a rank waits for. */
static void put_waits(buffer *out, const timeline *t, int rank, const plan_instr *instr) {
    size_t waits[64], n = trace_waits(t, rank, instr, sizeof waits / sizeof *waits, waits);
    if (!n) return;
    for (size_t i = 0; i < n; i++) buffer_format(out, "%s%zu", i ? "," : ",[", waits[i]);
    buffer_text(out, "]");
}

/* The members of a plan's rings that are not all ranks. A ring may be written twice, as the same. */
static void put_rings(buffer *out, const weft_plan *plan) {
    int64_t last = -1;
    const char *comma = "";
    for (size_t i = 0; i < plan->ninstrs; i++) {
        size_t nranks;
        const int64_t *ranks;
        int64_t id = plan->instrs[i].ring_id;
        if (id < 0 || id == last || !weft_program_ring(plan->program, id, &nranks, &ranks)) continue;
        buffer_format(out, "%s\"%lld\":[", comma, (long long)id);
        for (size_t k = 0; k < nranks; k++) buffer_format(out, "%s%lld", k ? "," : "", (long long)ranks[k]);
        buffer_text(out, "]");
        comma = ",";
        last = id;
    }
}

/* Of every instruction of a plan [type, class, op index, value, ring or -1, bytes, 1 for a send or receive]; where it
 * waits for other streams, also [instructions]. */
static void put_plan(buffer *out, const timeline *t, int rank) {
    const weft_plan *plan = timeline_plan(t, rank);
    buffer_text(out, "{\"instrs\":[");
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        buffer_text(out, i ? ",\n[" : "[");
        put_script_string(out, instr->schema->type);
        buffer_format(out, ",%d,%d,", (int)trace_class_of(instr), instr->op_index);
        put_script_string(out, trace_value_name(plan, instr));
        bool is_send;
        buffer_format(out, ",%lld,%lld,%d", (long long)instr->ring_id,
                      (long long)(instr->ring_id >= 0 ? trace_nbytes(plan, instr) : 0),
                      instr->ring_id >= 0 && plan_is_pair(instr, &is_send));
        put_waits(out, t, rank, instr);
        buffer_text(out, "]");
    }
    buffer_text(out, "],\"rings\":{");
    put_rings(out, plan);
    buffer_text(out, "}}");
}

static void put_events(buffer *out, const timeline *t, const timeline_frame *f, const timeline_lane *l) {
    const plan_instr *instrs = timeline_plan(t, l->rank)->instrs;
    uint64_t first;
    size_t n = timeline_steps(t, &first);
    const char *comma = "";
    buffer_text(out, "[");
    for (uint64_t step = first; step < first + n; step++) {
        const trace_event *events = timeline_events(t, l, step);
        for (size_t i = 0; i < l->instrs->ninstrs; i++) {
            if (events[i].start_ns < 0) continue;
            int64_t start_ns = trace_ns(f, events[i].start_ns);
            buffer_format(out, "%s%zu,%llu,%lld,%lld", comma, (size_t)(l->instrs->instrs[i] - instrs),
                          (unsigned long long)step, (long long)start_ns,
                          (long long)(trace_ns(f, events[i].end_ns) - start_ns));
            comma = ",";
        }
    }
    buffer_text(out, "]");
}

static void put_lanes(buffer *out, const timeline *t, const timeline_frame *f) {
    for (int r = 0; r < t->nranks; r++) {
        const weft_plan *plan = timeline_plan(t, r);
        for (int s = 0; s < plan->nstreams; s++) {
            buffer_format(out, "%s\n{\"rank\":%d,\"plan\":%zu,\"stream\":", t->first_rank + r || s ? "," : "",
                          t->first_rank + r, f->nplans_before + (t->nplans == 1 ? 0 : (size_t)r));
            put_script_string(out, plan->stream_names[s]);
            if (f->label) buffer_text(out, ",\"label\":");
            if (f->label) put_script_string(out, f->label);
            buffer_text(out, ",\"events\":");
            put_events(out, t, f, &t->ranks[r][s]);
            buffer_text(out, "}");
        }
    }
}

/* Plans, then lanes; each but the first of all with a comma before it. */
void trace_html_parts(const timeline *t, const timeline_frame *f, buffer parts[TIMELINE_PARTS]) {
    for (size_t p = 0; p < t->nplans; p++) {
        if (p || f->nplans_before) buffer_text(&parts[0], ",\n");
        put_plan(&parts[0], t, (int)p);
    }
    put_lanes(&parts[1], t, f);
}

static void put_data(buffer *out, const timeline_frame *f, const timeline_text *parts) {
    const timeline_overlap *o = &f->overlap;
    buffer_format(out, "const trace = {\"ranks\":%d,\"steps\":%zu,\"collectives\":%zu,\"hidden\":%zu,", f->nranks,
                  f->nsteps, o->ncollectives, o->nhidden);
    buffer_format(out, "\"collectiveSeconds\":%.9f,\"hiddenSeconds\":%.9f,\n\"classes\":[",
                  (double)o->collective_ns * 1e-9, (double)o->hidden_ns * 1e-9);
    for (int c = 0; c < TRACE_CLASSES; c++) {
        buffer_format(out, "%s\"%s\"", c ? "," : "", trace_class_name((trace_class)c));
    }
    buffer_text(out, "],\n\"plans\":[");
    buffer_append(out, parts[0].bytes, parts[0].nbytes);
    buffer_text(out, "],\n\"lanes\":[");
    buffer_append(out, parts[1].bytes, parts[1].nbytes);
    buffer_text(out, "]};\n");
}

void trace_html_document(const timeline_frame *f, const char *title, const timeline_text *parts, buffer *out) {
    put_lines(out, trace_page_head);
    put_html(out, title ? title : "timeline");
    put_lines(out, trace_page_body);
    put_data(out, f, parts);
    put_lines(out, trace_page_script);
    put_lines(out, trace_page_view);
}

/* trace_print.c: a timeline as a document: what its parts share, and how parts become one. */
#include "plan/timeline/trace.h"

static const struct {
    void (*parts)(const timeline *t, const timeline_frame *f, buffer parts[TIMELINE_PARTS]);
    void (*document)(const timeline_frame *f, const char *title, const timeline_text *parts, buffer *out);
} forms[] = {[TIMELINE_JSON] = {trace_json_parts, trace_json_document},
             [TIMELINE_HTML] = {trace_html_parts, trace_html_document}};

int64_t timeline_common_ns(const timeline_clock *c, int64_t own_ns) {
    double lasted = (double)(c->at_ns[1] - c->at_ns[0]), gained = (double)(c->ahead_ns[1] - c->ahead_ns[0]);
    double part = lasted > 0 ? (double)(own_ns - c->at_ns[0]) / lasted : 0;
    return own_ns - c->ahead_ns[0] - (int64_t)(gained * part);
}

/* Start of the first event, by the clock of this process. */
static int64_t first_start(const timeline *t) {
    int64_t found = INT64_MAX;
    uint64_t first;
    size_t n = timeline_steps(t, &first);
    for (uint64_t step = first; step < first + n; step++) {
        for (int r = 0; r < t->nranks; r++) {
            for (int s = 0; s < timeline_plan(t, r)->nstreams; s++) {
                const timeline_lane *l = &t->ranks[r][s];
                const trace_event *events = timeline_events(t, l, step);
                for (size_t i = 0; i < l->instrs->ninstrs; i++) {
                    if (events[i].start_ns >= 0 && events[i].start_ns < found) found = events[i].start_ns;
                }
            }
        }
    }
    return found == INT64_MAX ? 0 : found;
}

timeline_frame timeline_frame_of(const timeline *t, const timeline_clock *clock) {
    uint64_t first;
    return (timeline_frame){.nranks = t->nranks,
                            .nsteps = timeline_steps(t, &first),
                            .clock = *clock,
                            .origin_ns = timeline_common_ns(clock, first_start(t)),
                            .overlap = timeline_measure(t)};
}

void timeline_print_parts(const timeline *t, const timeline_frame *f, timeline_form form,
                          buffer parts[TIMELINE_PARTS]) {
    forms[form].parts(t, f, parts);
}

void timeline_print_document(const timeline_frame *f, timeline_form form, const char *title,
                             const timeline_text parts[TIMELINE_PARTS], buffer *out) {
    forms[form].document(f, title, parts, out);
}

weft_status timeline_print(const timeline *t, timeline_form form, const char *title, char **out_bytes,
                           size_t *out_nbytes) {
    TRY(timeline_check(t));
    timeline_frame f = timeline_frame_of(t, &(timeline_clock){.at_ns = {0}});
    buffer parts[TIMELINE_PARTS], out;
    timeline_text texts[TIMELINE_PARTS];
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_init(&parts[k], t->allocator);
    buffer_init(&out, t->allocator);
    timeline_print_parts(t, &f, form, parts);
    for (int k = 0; k < TIMELINE_PARTS; k++) {
        texts[k] = (timeline_text){parts[k].bytes, parts[k].nbytes};
        out.failed = out.failed || parts[k].failed;
    }
    timeline_print_document(&f, form, title, texts, &out);
    weft_status status = buffer_take(&out, out_bytes, out_nbytes);
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_fini(&parts[k]);
    buffer_fini(&out);
    return status;
}

/* trace_print.c: a timeline as a document: what its parts share, and how parts become one. */
#include "plan/timeline/trace.h"

static const struct {
    void (*parts)(const timeline *t, const timeline_frame *f, buffer parts[TIMELINE_PARTS]);
    void (*document)(const timeline_frame *f, const char *title, const timeline_text *parts, buffer *out);
} forms[] = {[TIMELINE_JSON] = {trace_json_parts, trace_json_document},
             [TIMELINE_HTML] = {trace_html_parts, trace_html_document}};

void timeline_print_parts(const timeline *t, const timeline_frame *f, timeline_form form,
                          buffer parts[TIMELINE_PARTS]) {
    forms[form].parts(t, f, parts);
}

void timeline_print_document(const timeline_frame *f, timeline_form form, const char *title,
                             const timeline_text parts[TIMELINE_PARTS], buffer *out) {
    forms[form].document(f, title, parts, out);
}

static weft_status print_document(const timeline_frame *f, timeline_form form, const char *title,
                                  const buffer parts[TIMELINE_PARTS], char **out_bytes, size_t *out_nbytes) {
    timeline_text texts[TIMELINE_PARTS];
    buffer out;
    buffer_init(&out, parts[0].allocator);
    for (int k = 0; k < TIMELINE_PARTS; k++) {
        texts[k] = (timeline_text){parts[k].bytes, parts[k].nbytes};
        out.failed = out.failed || parts[k].failed;
    }
    timeline_print_document(f, form, title, texts, &out);
    weft_status status = buffer_take(&out, out_bytes, out_nbytes);
    buffer_fini(&out);
    return status;
}

weft_status timeline_print(const timeline *t, timeline_form form, const char *title, char **out_bytes,
                           size_t *out_nbytes) {
    TRY(timeline_check(t));
    timeline_frame f = timeline_frame_of(t, &(timeline_clock){.at_ns = {0}});
    buffer parts[TIMELINE_PARTS];
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_init(&parts[k], t->allocator);
    timeline_print_parts(t, &f, form, parts);
    weft_status status = print_document(&f, form, title, parts, out_bytes, out_nbytes);
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_fini(&parts[k]);
    return status;
}

weft_status timeline_print_beside(const timeline *const *timelines, const char *const *labels, size_t count,
                                  timeline_form form, const char *title, char **out_bytes, size_t *out_nbytes) {
    timeline_frame all = {.nranks = (int)count};
    buffer parts[TIMELINE_PARTS];
    for (size_t i = 0; i < count; i++) TRY(timeline_check(timelines[i]));
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_init(&parts[k], timelines[0]->allocator);
    for (size_t i = 0; i < count; i++) {
        timeline first = *timelines[i];
        first.first_rank = (int)i;
        first.nranks = 1;
        first.nplans = 1;
        timeline_frame f = timeline_frame_of(&first, &(timeline_clock){.at_ns = {0}});
        f.nplans_before = i;
        f.label = labels[i];
        timeline_print_parts(&first, &f, form, parts);
        all.nsteps = f.nsteps;
        all.overlap.collective_ns += f.overlap.collective_ns;
        all.overlap.hidden_ns += f.overlap.hidden_ns;
        all.overlap.ncollectives += f.overlap.ncollectives;
        all.overlap.nhidden += f.overlap.nhidden;
    }
    weft_status status = print_document(&all, form, title, parts, out_bytes, out_nbytes);
    for (int k = 0; k < TIMELINE_PARTS; k++) buffer_fini(&parts[k]);
    return status;
}

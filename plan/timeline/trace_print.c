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

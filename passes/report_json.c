/* report_json.c: a report as JSON: the same as its text has, a list with an object a pass. */
#include "base/json.h"
#include "passes/pass_manager.h"

static void put_text(buffer *out, const char *key, const char *value) {
    buffer_format(out, ",\"%s\":", key);
    if (value)
        json_put_string(out, value, strlen(value));
    else
        buffer_text(out, "null");
}

static void put_counts(buffer *out, const pass_report *of) {
    buffer_text(out, ",\"counts\":{");
    for (size_t i = 0; i < of->ncounts; i++) {
        if (i) buffer_text(out, ",");
        json_put_string(out, of->counts[i].what, strlen(of->counts[i].what));
        buffer_format(out, ":%lld", (long long)of->counts[i].amount);
    }
    buffer_text(out, "}");
}

static void put_lines(buffer *out, const pass_report *of) {
    buffer_text(out, ",\"did\":[");
    for (size_t i = 0; i < of->ndid; i++) {
        if (i) buffer_text(out, ",");
        json_put_string(out, of->did[i], strlen(of->did[i]));
    }
    buffer_text(out, "],\"left\":[");
    for (size_t i = 0; i < of->nleft; i++) {
        buffer_format(out, "%s{\"reason\":\"%s\"", i ? "," : "", weft_reason_name(of->left[i].reason));
        put_text(out, "message", of->left[i].message);
        buffer_text(out, "}");
    }
    buffer_text(out, "]");
}

static void put_proof(buffer *out, const pass_report *of) {
    put_text(out, "not_checked", of->not_proved);
    buffer_text(out, ",\"proof\":");
    if (!of->proof) {
        buffer_text(out, "null");
        return;
    }
    buffer_format(out, "{\"grade\":\"%s\",\"seconds\":%.9f,\"values\":%zu,\"findings\":[",
                  weft_grade_name(weft_equivalence_grade(of->proof)), of->proof_seconds,
                  weft_equivalence_nvalues(of->proof));
    for (size_t i = 0; i < weft_equivalence_nfindings(of->proof); i++) {
        weft_grade grade;
        const char *message, *var = weft_equivalence_finding(of->proof, i, &grade, &message);
        buffer_format(out, "%s{\"grade\":\"%s\"", i ? "," : "", weft_grade_name(grade));
        put_text(out, "value", var);
        put_text(out, "message", message);
        buffer_text(out, "}");
    }
    buffer_text(out, "]}");
}

weft_status weft_report_json(const weft_report *report, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    buffer_init(&out, &report->context->allocator);
    buffer_text(&out, "[");
    for (size_t i = 0; i < report->npasses; i++) {
        const pass_report *of = &report->passes[i];
        buffer_text(&out, i ? ",\n{\"pass\":" : "\n{\"pass\":");
        json_put_string(&out, of->name, strlen(of->name));
        buffer_format(&out, ",\"seconds\":%.9f,\"ops_before\":%zu,\"ops_after\":%zu", of->seconds, of->nops_before,
                      of->nops_after);
        put_counts(&out, of);
        put_lines(&out, of);
        put_proof(&out, of);
        put_text(&out, "failure", of->failure);
        buffer_text(&out, "}");
    }
    buffer_text(&out, "]\n");
    return buffer_take(&out, out_bytes, out_nbytes);
}

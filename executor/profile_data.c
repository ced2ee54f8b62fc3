/* profile_data.c: the profile for programs to read: CSV, a line an op; JSON, everything. */
#include "base/json.h"
#include "executor/profile.h"

static double per_second(double amount, const profile_row *row) {
    return row->seconds > 0 ? amount / row->seconds : 0;
}

/* --- CSV ---------------------------------------------------------------------------------------------------------- */

/* Quoted where a comma or a quote asks for it. */
static void put_field(buffer *out, const char *s) {
    if (!strpbrk(s, ",\"\n")) {
        buffer_text(out, s);
        return;
    }
    buffer_text(out, "\"");
    for (; *s; s++) buffer_format(out, *s == '"' ? "\"\"" : "%c", *s);
    buffer_text(out, "\"");
}

static void print_csv_head(const profile_report *r, buffer *out) {
    (void)r;
    buffer_text(out, "rank,nranks,position,index,op,stream,output,count,seconds,share,flops,bytes,flops_per_second,"
                     "bytes_per_second,roofline,live_bytes\n");
}

static void print_csv_group(const profile_report *r, const profile_group *group, size_t most_ops, buffer *out) {
    (void)r, (void)most_ops;
    for (size_t i = 0; i < group->nops; i++) {
        const profile_row *row = &group->ops[i];
        buffer_format(out, "%d,%d,%zu,%d,", group->first_rank, group->nranks, i, row->instr->op_index);
        put_field(out, row->type);
        buffer_text(out, ",");
        put_field(out, row->stream);
        buffer_text(out, ",");
        put_field(out, row->output);
        buffer_format(out, ",%.6g,%.6g,%.6g,%.10g,%.10g,%.6g,%.6g,%.6g,%lld\n", row->calls, row->seconds, row->share,
                      row->flops, row->nbytes, per_second(row->flops, row), per_second(row->nbytes, row), row->roofline,
                      (long long)row->live_nbytes);
    }
}

const profile_printer profile_csv = {print_csv_head, print_csv_group, ""};

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void put_string(buffer *out, const char *key, const char *s) {
    buffer_format(out, "\"%s\":", key);
    json_put_string(out, s, strlen(s));
    buffer_text(out, ",");
}

static void put_rates(buffer *out, const profile_row *row) {
    buffer_format(out,
                  "\"count\":%.6g,\"seconds\":%.6g,\"share\":%.6g,\"flops\":%.10g,\"bytes\":%.10g,"
                  "\"flops_per_second\":%.6g,\"bytes_per_second\":%.6g,\"roofline\":%.6g",
                  row->calls, row->seconds, row->share, row->flops, row->nbytes, per_second(row->flops, row),
                  per_second(row->nbytes, row), row->roofline);
}

static void put_group(buffer *out, const profile_group *g) {
    const weft_plan *plan = g->plan;
    buffer_format(out,
                  "{\"rank\":%d,\"nranks\":%d,\"persistent_bytes\":%lld,\"temporary_bytes\":%lld,\"live_bytes\":%lld",
                  g->first_rank, g->nranks, (long long)plan->persistent_nbytes, (long long)plan->temporary_nbytes,
                  (long long)plan->live_nbytes);
    if (g->rest_seconds >= 0) buffer_format(out, ",\"rest_seconds\":%.6g", g->rest_seconds);
    if (g->peak) buffer_format(out, ",\"peak_position\":%td", g->peak - plan->instrs);
    buffer_text(out, ",\n\"types\":[");
    for (size_t i = 0; i < g->ntypes; i++) {
        buffer_text(out, i ? ",\n{" : "\n{");
        put_string(out, "op", g->types[i].type);
        if (g->types[i].stream) put_string(out, "stream", g->types[i].stream);
        put_rates(out, &g->types[i]);
        buffer_text(out, "}");
    }
    buffer_text(out, "],\n\"ops\":[");
    for (size_t i = 0; i < g->nops; i++) {
        buffer_format(out, "%s\n{\"index\":%d,", i ? "," : "", g->ops[i].instr->op_index);
        put_string(out, "op", g->ops[i].type);
        put_string(out, "stream", g->ops[i].stream);
        put_string(out, "output", g->ops[i].output);
        buffer_format(out, "\"median_seconds\":%.6g,", g->ops[i].median_seconds);
        put_rates(out, &g->ops[i]);
        buffer_format(out, ",\"live_bytes\":%lld}", (long long)g->ops[i].live_nbytes);
    }
    buffer_text(out, "]}");
}

static void print_json_head(const profile_report *r, buffer *out) {
    const roofline *c = &r->profile.roofline;
    buffer_format(out,
                  "{\"steps\":%lld,\"step_seconds\":%.6g,\"median_step_seconds\":%.6g,\n\"machine\":{\"threads\":%d,"
                  "\"flops_per_second\":%.6g,"
                  "\"bytes\":[%zu,%zu,%zu],\"bytes_per_second\":[%.6g,%.6g,%.6g]},\n\"ranks\":[",
                  (long long)r->profile.nsteps, r->step_seconds, r->median_step_seconds, c->nthreads, c->flops,
                  c->nbytes[0], c->nbytes[1], c->nbytes[2], c->bandwidth[0], c->bandwidth[1], c->bandwidth[2]);
}

static void print_json_group(const profile_report *r, const profile_group *g, size_t most_ops, buffer *out) {
    (void)most_ops;
    buffer_text(out, g > r->groups ? ",\n" : "\n");
    put_group(out, g);
}

const profile_printer profile_json = {print_json_head, print_json_group, "]}\n"};

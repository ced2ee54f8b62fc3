/* plan_json.c: a plan as JSON: counts and sizes, values with their places, instructions with what they wait for. */
#include "cli/plan_json.h"

#include "weft/plan_instr.h"

static json_t *name_of(const weft_plan *plan, int64_t value) {
    weft_plan_value v;
    if (value < 0) return json_null();
    weft_plan_value_at(plan, (size_t)value, &v);
    return cli_json_text(v.name);
}

static json_t *value_json(const weft_plan *plan, size_t index) {
    weft_plan_value v;
    weft_plan_value_at(plan, index, &v);
    weft_plan_buffer where = weft_plan_buffer_at(plan, index);
    const char *dtype = weft_dtype_name(v.dtype);
    json_t *shape = json_array(), *made = json_object();
    for (size_t i = 0; i < v.ndim; i++) cli_json_put(&shape, NULL, json_integer(v.dims[i]));
    cli_json_put(&made, "name", cli_json_text(v.name));
    cli_json_put(&made, "dtype", dtype ? json_string(dtype) : json_null());
    cli_json_put(&made, "shape", shape);
    cli_json_put(&made, "persistable", json_boolean(v.persistable));
    cli_json_put(&made, "feed", json_boolean(v.is_feed));
    cli_json_put(&made, "fetch", json_boolean(v.is_fetch));
    cli_json_put(&made, "written", json_boolean(v.is_written));
    cli_json_put(&made, "read_first", json_boolean(v.is_read_first));
    cli_json_put(&made, "space", json_string(where.is_persistent ? "persistent" : "temporary"));
    cli_json_put(&made, "offset", json_integer(where.offset));
    cli_json_put(&made, "nbytes", json_integer(where.nbytes));
    cli_json_put(&made, "view_of", name_of(plan, where.view_of));
    cli_json_put(&made, "rows", name_of(plan, where.rows));
    return made;
}

static json_t *slots_json(const weft_plan *plan, size_t instr, bool output) {
    json_t *slots = json_object();
    for (size_t s = 0; s < weft_plan_instr_nslots(plan, instr, output); s++) {
        size_t nargs;
        const char *slot = weft_plan_instr_slot(plan, instr, output, s, &nargs);
        json_t *names = json_array();
        for (size_t i = 0; i < nargs; i++)
            cli_json_put(&names, NULL, name_of(plan, weft_plan_instr_arg(plan, instr, output, s, i)));
        cli_json_put(&slots, slot, names);
    }
    return slots;
}

static json_t *instr_json(const weft_plan *plan, size_t index) {
    weft_plan_instr instr = weft_plan_instr_at(plan, index);
    json_t *waits = json_object(), *made = json_object();
    for (size_t i = 0; i < instr.nwaits; i++) {
        weft_plan_wait w = weft_plan_instr_wait(plan, index, i);
        cli_json_put(&waits, weft_plan_stream_name(plan, w.stream), json_integer((json_int_t)w.count));
    }
    cli_json_put(&made, "op", cli_json_text(weft_op_type(instr.op)));
    cli_json_put(&made, "index", json_integer((json_int_t)instr.op_index));
    cli_json_put(&made, "stream", cli_json_text(weft_plan_stream_name(plan, instr.stream)));
    cli_json_put(&made, "position", json_integer((json_int_t)instr.position));
    cli_json_put(&made, "after", waits);
    cli_json_put(&made, "in", slots_json(plan, index, false));
    cli_json_put(&made, "out", slots_json(plan, index, true));
    cli_json_put(&made, "ring", instr.ring_id >= 0 ? json_integer(instr.ring_id) : json_null());
    cli_json_put(&made, "guard", name_of(plan, instr.guard));
    cli_json_put(&made, "outer_guard", name_of(plan, instr.outer_guard));
    return made;
}

static json_t *counts_json(const weft_plan_summary *s) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "instructions", (json_int_t)s->ninstructions, "streams",
                     (json_int_t)s->nstreams, "removed_ops", (json_int_t)s->nremoved_ops, "collectives",
                     (json_int_t)s->ncollectives, "events", (json_int_t)s->nevents, "buckets", (json_int_t)s->nbuckets);
}

static json_t *memory_json(const weft_plan_summary *s) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "persistent_nbytes", (json_int_t)s->persistent_nbytes,
                     "temporary_nbytes", (json_int_t)s->temporary_nbytes, "live_nbytes", (json_int_t)s->live_nbytes,
                     "bucket_nbytes", (json_int_t)s->bucket_nbytes, "largest_bucket_nbytes",
                     (json_int_t)s->largest_bucket_nbytes, "ahead_nbytes", (json_int_t)s->ahead_nbytes,
                     "written_nbytes", (json_int_t)s->written_nbytes);
}

weft_status plan_json(const cli_args *args, const weft_plan *plan) {
    weft_plan_summary s;
    weft_plan_summarize(plan, &s);
    json_t *root = counts_json(&s), *streams = json_array(), *values = json_array(), *schedule = json_array();
    for (size_t i = 0; i < weft_plan_nstreams(plan); i++)
        cli_json_put(&streams, NULL, cli_json_text(weft_plan_stream_name(plan, i)));
    for (size_t i = 0; i < weft_plan_nvalues(plan); i++) cli_json_put(&values, NULL, value_json(plan, i));
    for (size_t i = 0; i < weft_plan_ninstrs(plan); i++) cli_json_put(&schedule, NULL, instr_json(plan, i));
    cli_json_put(&root, "memory", memory_json(&s));
    cli_json_put(&root, "stream_names", streams);
    cli_json_put(&root, "values", values);
    cli_json_put(&root, "schedule", schedule);
    return cli_json_print(args, root, stdout);
}

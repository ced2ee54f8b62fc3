/* plan_chunks.c: the chunk plans that micro_pipeline_tp wrote into a program, as tables (docs/micro-pipeline.md). */
#include "cli/plan_chunks.h"

#include <string.h>

#include "weft/program.h"

static void print_vars(const weft_op *op, bool output, const char *key) {
    const char *before = "";
    for (size_t s = 0; s < weft_op_nslots(op, output); s++) {
        size_t nargs;
        weft_op_slot(op, output, s, &nargs);
        for (size_t i = 0; i < nargs; i++) {
            if (!*before) printf(", %s: [", key);
            printf("%s%s", before, weft_var_name(weft_op_arg(op, output, s, i)));
            before = ", ";
        }
    }
    printf("%s", *before ? "]" : "");
}

/* An event is named for the step that records it. */
static const char *step_of(const char *event) {
    const char *slash = strrchr(event, '/');
    return slash ? slash + 1 : event;
}

static void print_step(const weft_op *op) {
    const char *stream = weft_op_stream(op), *event;
    long long peer = weft_op_attr_int(op, "peer", -1);
    printf("  - {step: %lld, do: %s, stream: %s, chunk: %lld", (long long)weft_op_attr_int(op, "micro_pipeline_step", 0),
           weft_op_type(op), *stream ? stream : "compute", (long long)weft_op_attr_int(op, "micro_pipeline_chunk", 0));
    if (peer >= 0) printf(", peer: %lld, ring: %lld", peer, (long long)weft_op_attr_int(op, "ring_id", 0));
    print_vars(op, false, "reads");
    print_vars(op, true, "writes");
    for (size_t i = 0; (event = weft_op_event_awaited(op, i)); i++) printf("%s%s", i ? ", " : ", waits: [", step_of(event));
    printf("%s%s}\n", weft_op_event_awaited(op, 0) ? "]" : "", *weft_op_event_recorded(op) ? ", signals: true" : "");
}

weft_status plan_chunks(const cli_args *args, const char *path) {
    weft_program *program;
    const char *plan = "";
    weft_status status = weft_program_load(args->context, path, cli_value(args, "--dist"), &program);
    if (status) return status;
    for (const weft_op *op = weft_block_first_op(weft_program_block(program, 0)); op; op = weft_op_next(op)) {
        const char *own = weft_op_attr_string(op, "micro_pipeline", "");
        if (weft_op_attr_int(op, "micro_pipeline_step", -1) < 0) continue;
        if (strcmp(own, plan) != 0) printf("%s:\n", own);
        plan = own;
        print_step(op);
    }
    if (!*plan) printf("no chunk plan is in this program\n");
    weft_program_destroy(program);
    return NULL;
}

/* cluster_print.c: a cluster as the file that reads back as it. */
#include "base/base.h"
#include "plan/cluster.h"

const char *const plan_topology_names[WEFT_TOPOLOGY_COUNT] = {
    [WEFT_TOPOLOGY_DIRECT] = "direct", [WEFT_TOPOLOGY_RING] = "ring", [WEFT_TOPOLOGY_SWITCH] = "switch"};

/* Nothing where a key has its default. `before` stands before the key, `behind` behind the number. */
static void put_number(buffer *out, const char *before, double number, const char *behind) {
    if (number <= 0) return;
    buffer_text(out, before);
    buffer_double(out, number);
    buffer_text(out, behind);
}

static void put_link(buffer *out, const weft_link *l) {
    buffer_text(out, "- {topology: ");
    buffer_text(out, plan_topology_names[l->topology]);
    if (l->nranks) buffer_format(out, ", ranks: %d", l->nranks);
    put_number(out, ", bytes_per_second: ", l->bytes, "");
    put_number(out, ", seconds_per_message: ", l->seconds, "");
    if (l->splits) buffer_format(out, ", splits: %d", l->splits);
    put_number(out, ", seconds_per_endpoint: ", l->endpoint_seconds, "");
    put_number(out, ", memory_bytes_per_second: ", l->memory_bytes, "");
    buffer_text(out, "}\n");
}

static void put_list(buffer *out, const char *key, const double *numbers, size_t count) {
    buffer_format(out, "  %s: [", key);
    for (size_t i = 0; i < count; i++) {
        if (i) buffer_text(out, i % 8 ? ", " : ",\n    ");
        buffer_double(out, numbers[i]);
    }
    buffer_text(out, "]\n");
}

static void put_table(buffer *out, const weft_cluster_table *t) {
    buffer_format(out, "- op: %s\n  ranks: %d\n", t->kind, t->nranks);
    if (t->nnodes) buffer_format(out, "  nodes: %d\n", t->nnodes);
    put_list(out, "bytes", t->nbytes, t->npoints);
    put_list(out, "seconds", t->seconds, t->npoints);
}

weft_status weft_cluster_print(weft_context *context, const weft_cluster *c, char **out_bytes, size_t *out_nbytes) {
    buffer out;
    buffer_init(&out, &context->allocator);
    put_number(&out, "flops_per_second: ", c->flops, "\n");
    put_number(&out, "bytes_per_second: ", c->bytes, "\n");
    put_number(&out, "seconds_per_op: ", c->op_seconds, "\n");
    put_number(&out, "compute_beside_collective: ", c->compute_beside_collective, "\n");
    put_number(&out, "collective_beside_compute: ", c->collective_beside_compute, "\n");
    if (*c->machine) buffer_format(&out, "machine: %s\n", c->machine);
    if (c->nlinks) buffer_text(&out, "links:\n");
    for (size_t i = 0; i < c->nlinks; i++) put_link(&out, &c->links[i]);
    if (c->ntables) buffer_text(&out, "collectives:\n");
    for (size_t i = 0; i < c->ntables; i++) put_table(&out, &c->tables[i]);
    if (c->products.npoints) {
        buffer_text(&out, "products:\n");
        put_list(&out, "rows", c->products.rows, c->products.npoints);
        put_list(&out, "flops_per_second", c->products.flops, c->products.npoints);
    }
    if (!out.nbytes) buffer_text(&out, "{}\n");
    weft_status status = buffer_take(&out, out_bytes, out_nbytes);
    return status;
}

/* cluster.c: reads cluster files (docs/clusters.md): how fast ranks compute, how they are linked. */
#include "weft/cluster.h"

#include <stdio.h>

#include "base/yaml.h"
#include "ops/collectives.h"
#include "plan/cluster.h"
#include "plan/nccl.h"

enum { MOST_NBYTES = 1 << 20 };

typedef struct reader {
    weft_context *context;
    const char *place;
    weft_status first; /* of all problems */
} reader;

#define PROBLEM(r, node, ...) note((r), yaml_error((r)->context, (node), (r)->place, __VA_ARGS__))

/* Every problem goes to the sink; the first one is kept. */
static void note(reader *r, weft_status status) {
    if (r->first)
        weft_status_free(status);
    else
        r->first = status;
}

/* What a key of a mapping holds. */
typedef enum field_type {
    FIELD_NUMBER,
    FIELD_FACTOR,
    FIELD_WHOLE,
    FIELD_TOPOLOGY,
    FIELD_KIND,
    FIELD_MACHINE,
    FIELD_LIST
} field_type;

typedef struct field {
    const char *name;
    field_type type;
    void *to; /* a double, an int, a weft_topology, characters; of a list: const yaml_node * */
} field;

static bool is_word(const yaml_node *value, const char *word) {
    return value->kind == NODE_SCALAR && strcmp(value->bytes, word) == 0;
}

static void read_topology(reader *r, const yaml_node *value, weft_topology *out) {
    int i = 0;
    while (i < WEFT_TOPOLOGY_COUNT && !is_word(value, plan_topology_names[i])) i++;
    if (i < WEFT_TOPOLOGY_COUNT)
        *out = (weft_topology)i;
    else
        PROBLEM(r, value, "topology: expected direct, ring or switch");
}

static void read_kind(reader *r, const yaml_node *value, char *out) {
    int k = COLLECTIVE_ALL_REDUCE;
    while (k <= COLLECTIVE_SCATTER && !is_word(value, collective_kind_name((collective_kind)k))) k++;
    if (k <= COLLECTIVE_SCATTER)
        snprintf(out, sizeof((weft_cluster_table *)0)->kind, "%s", value->bytes);
    else
        PROBLEM(r, value,
                "op: expected all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all or scatter");
}

static void read_machine(reader *r, const yaml_node *value, char *out) {
    if (value->kind == NODE_SCALAR && plan_nccl_machine_find(value->bytes))
        snprintf(out, sizeof((weft_cluster *)0)->machine, "%s", value->bytes);
    else
        PROBLEM(r, value, "machine: expected %s", plan_nccl_machine_names);
}

static void read_number(reader *r, const yaml_node *value, const char *what, double least, double *out) {
    double number;
    bool is_number = yaml_as_double(value, &number) && number < 1e300;
    if (is_number && (least > 0 ? number >= least : number > 0))
        *out = number;
    else if (least > 0)
        PROBLEM(r, value, "%s: expected a number from %g on", what, least);
    else
        PROBLEM(r, value, "%s: expected a number greater than 0", what);
}

static void read_whole(reader *r, const yaml_node *value, const char *what, int *out) {
    int64_t whole;
    if (yaml_as_int(value, &whole) && whole > 0 && whole <= INT32_MAX)
        *out = (int)whole;
    else
        PROBLEM(r, value, "%s: expected a whole number from 1 to %d", what, INT32_MAX);
}

static void read_field(reader *r, const yaml_node *value, const field *f) {
    switch (f->type) {
    case FIELD_NUMBER: read_number(r, value, f->name, 0, f->to); break;
    case FIELD_FACTOR: read_number(r, value, f->name, 1, f->to); break;
    case FIELD_WHOLE: read_whole(r, value, f->name, f->to); break;
    case FIELD_TOPOLOGY: read_topology(r, value, f->to); break;
    case FIELD_KIND: read_kind(r, value, f->to); break;
    case FIELD_MACHINE: read_machine(r, value, f->to); break;
    case FIELD_LIST: *(const yaml_node **)f->to = value; break;
    }
}

static void read_fields(reader *r, const yaml_node *mapping, const field *fields) {
    for (size_t i = 0; i < mapping->count; i++) {
        const yaml_node *key = mapping->items[2 * i];
        const field *f = fields;
        if (key->kind != NODE_SCALAR) {
            PROBLEM(r, key, "expected a name");
            continue;
        }
        while (f->name && strcmp(f->name, key->bytes) != 0) f++;
        if (f->name)
            read_field(r, mapping->items[2 * i + 1], f);
        else
            PROBLEM(r, key, "\"%s\" is not known here", key->bytes);
    }
}

/* --- links -------------------------------------------------------------------------------------------------------- */

static void read_link(reader *r, const yaml_node *node, weft_link *out, const weft_link *within) {
    *out = (weft_link){0};
    const field fields[] = {{"ranks", FIELD_WHOLE, &out->nranks},
                            {"bytes_per_second", FIELD_NUMBER, &out->bytes},
                            {"seconds_per_message", FIELD_NUMBER, &out->seconds},
                            {"topology", FIELD_TOPOLOGY, &out->topology},
                            {"splits", FIELD_WHOLE, &out->splits},
                            {"seconds_per_endpoint", FIELD_NUMBER, &out->endpoint_seconds},
                            {"memory_bytes_per_second", FIELD_NUMBER, &out->memory_bytes},
                            {NULL, FIELD_LIST, NULL}};
    if (node->kind != NODE_MAPPING) {
        PROBLEM(r, node, "expected a link: {ranks, bytes_per_second, seconds_per_message, topology}");
        return;
    }
    read_fields(r, node, fields);
    if (!out->splits && (out->endpoint_seconds > 0 || out->memory_bytes > 0))
        PROBLEM(r, node,
                "seconds_per_endpoint and memory_bytes_per_second are of messages that are split: expected splits");
    if (!within) return;
    if (!within->nranks)
        PROBLEM(r, node, "a link behind one without ranks, which joins all");
    else if (out->nranks && (out->nranks <= within->nranks || out->nranks % within->nranks != 0))
        PROBLEM(r, node, "ranks: expected a multiple of the %d of the link before, found %d", within->nranks,
                out->nranks);
}

static void read_links(reader *r, const yaml_node *node, weft_cluster *out) {
    if (node->kind != NODE_SEQUENCE || !node->count || node->count > WEFT_CLUSTER_LINKS) {
        PROBLEM(r, node, "links: expected a list of 1 to %d links", WEFT_CLUSTER_LINKS);
        return;
    }
    for (size_t i = 0; i < node->count; i++)
        read_link(r, node->items[i], &out->links[i], i ? &out->links[i - 1] : NULL);
    out->nlinks = node->count;
}

/* --- measured collectives ----------------------------------------------------------------------------------------- */

/* A number of a table, larger than the one before; or as large, if it may be. */
static void read_point(reader *r, const yaml_node *list, size_t i, const char *what, bool may_stay, double *out) {
    read_number(r, list->items[i], what, 0, &out[i]);
    if (i && (may_stay ? out[i] < out[i - 1] : out[i] <= out[i - 1]))
        PROBLEM(r, list->items[i], "%s: expected %s than the %g before", what, may_stay ? "no less" : "more",
                out[i - 1]);
}

static bool is_list(const yaml_node *node, size_t count) {
    return node->kind == NODE_SEQUENCE && node->count == count;
}

static void read_points(reader *r, const yaml_node *node, const yaml_node *nbytes, const yaml_node *seconds,
                        weft_cluster_table *out) {
    size_t n = nbytes->count;
    if (!is_list(nbytes, n) || !is_list(seconds, n) || !n || n > WEFT_TABLE_POINTS) {
        PROBLEM(r, node, "bytes, seconds: expected two lists of as many numbers, 1 to %d", WEFT_TABLE_POINTS);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        read_point(r, nbytes, i, "bytes", false, out->nbytes);
        read_point(r, seconds, i, "seconds", true, out->seconds);
    }
    out->npoints = n;
}

static bool is_there(const weft_cluster *c, const weft_cluster_table *like) {
    for (const weft_cluster_table *t = c->tables; t < like; t++)
        if (strcmp(t->kind, like->kind) == 0 && t->nranks == like->nranks && t->nnodes == like->nnodes) return true;
    return false;
}

static void read_table(reader *r, const yaml_node *node, const weft_cluster *c, weft_cluster_table *out) {
    const yaml_node *nbytes = NULL, *seconds = NULL;
    *out = (weft_cluster_table){.kind = ""};
    const field fields[] = {{"op", FIELD_KIND, out->kind},        {"ranks", FIELD_WHOLE, &out->nranks},
                            {"nodes", FIELD_WHOLE, &out->nnodes}, {"bytes", FIELD_LIST, &nbytes},
                            {"seconds", FIELD_LIST, &seconds},    {NULL, FIELD_LIST, NULL}};
    if (node->kind == NODE_MAPPING) read_fields(r, node, fields);
    if (r->first) return;
    if (!out->kind[0] || !out->nranks || !nbytes || !seconds)
        PROBLEM(r, node, "expected a table: {op, ranks, bytes, seconds}");
    else if (out->nranks < 2)
        PROBLEM(r, node, "ranks: expected 2 or more");
    else if (is_there(c, out))
        PROBLEM(r, node, "there is another table of %s of %d ranks", out->kind, out->nranks);
    else
        read_points(r, node, nbytes, seconds, out);
}

static void read_tables(reader *r, const yaml_node *node, weft_cluster *out) {
    if (node->kind != NODE_SEQUENCE || node->count > WEFT_CLUSTER_TABLES) {
        PROBLEM(r, node, "collectives: expected a list of at most %d tables", WEFT_CLUSTER_TABLES);
        return;
    }
    for (size_t i = 0; i < node->count; i++) read_table(r, node->items[i], out, &out->tables[i]);
    out->ntables = node->count;
}

static void read_products(reader *r, const yaml_node *node, weft_cluster_products *out) {
    const yaml_node *rows = NULL, *flops = NULL;
    const field fields[] = {
        {"rows", FIELD_LIST, &rows}, {"flops_per_second", FIELD_LIST, &flops}, {NULL, FIELD_LIST, NULL}};
    if (node->kind == NODE_MAPPING) read_fields(r, node, fields);
    size_t n = rows ? rows->count : 0;
    if (!rows || !flops || !is_list(rows, n) || !is_list(flops, n) || !n || n > WEFT_TABLE_POINTS) {
        PROBLEM(r, node, "products: expected rows and flops_per_second, two lists of as many numbers, 1 to %d",
                WEFT_TABLE_POINTS);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        read_point(r, rows, i, "rows", false, out->rows);
        read_number(r, flops->items[i], "flops_per_second", 0, &out->flops[i]);
    }
    out->npoints = n;
}

/* --- all together ------------------------------------------------------------------------------------------------- */

static void read_cluster(reader *r, const yaml_node *root, weft_cluster *out) {
    const yaml_node *links = NULL, *tables = NULL, *products = NULL;
    const field fields[] = {{"flops_per_second", FIELD_NUMBER, &out->flops},
                            {"bytes_per_second", FIELD_NUMBER, &out->bytes},
                            {"seconds_per_op", FIELD_NUMBER, &out->op_seconds},
                            {"links", FIELD_LIST, &links},
                            {"machine", FIELD_MACHINE, out->machine},
                            {"collectives", FIELD_LIST, &tables},
                            {"products", FIELD_LIST, &products},
                            {"compute_beside_collective", FIELD_FACTOR, &out->compute_beside_collective},
                            {"collective_beside_compute", FIELD_FACTOR, &out->collective_beside_compute},
                            {NULL, FIELD_LIST, NULL}};
    if (root->kind != NODE_MAPPING) {
        PROBLEM(r, root, "expected a cluster: flops_per_second, bytes_per_second, seconds_per_op, links, ...");
        return;
    }
    read_fields(r, root, fields);
    if (links) read_links(r, links, out);
    if (tables) read_tables(r, tables, out);
    if (products) read_products(r, products, &out->products);
    if (*out->machine && (!out->nlinks || !out->links[0].nranks))
        PROBLEM(r, root, "machine: expected a first link that says how many ranks a node has");
}

weft_status weft_cluster_parse(weft_context *context, const void *bytes, size_t nbytes, const char *place,
                               weft_cluster *out_cluster) {
    static const yaml_limits limits = {.max_depth = 8, .max_nodes = 4096, .max_nbytes = MOST_NBYTES};
    reader r = {.context = context, .place = place ? place : ""};
    weft_cluster cluster = {0};
    yaml_node *root;
    arena a;
    arena_init(&a, &context->allocator);
    weft_status status = yaml_read(context, bytes, nbytes, r.place, &limits, &a, &root);
    if (!status) {
        read_cluster(&r, root, &cluster);
        status = r.first;
    }
    arena_fini(&a);
    if (!status) *out_cluster = cluster;
    return status;
}

weft_status weft_cluster_load(weft_context *context, const char *path, weft_cluster *out_cluster) {
    char *bytes;
    size_t nbytes;
    TRY(file_read(&context->allocator, path, MOST_NBYTES, &bytes, &nbytes));
    weft_status status = weft_cluster_parse(context, bytes, nbytes, path, out_cluster);
    weft_bytes_free(context, bytes, nbytes);
    return status;
}

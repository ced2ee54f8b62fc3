/* cluster.c: reads cluster files (docs/clusters.md): how fast ranks compute, how they are linked. */
#include "weft/cluster.h"
#include "base/yaml.h"

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

/* A field of a mapping. */
typedef struct field {
    const char *name;
    double *number; /* NULL: it is whole */
    int *whole;     /* NULL: it is a topology */
    weft_topology *topology;
} field;

static const char *const topologies[WEFT_TOPOLOGY_COUNT] = {
    [WEFT_TOPOLOGY_DIRECT] = "direct", [WEFT_TOPOLOGY_RING] = "ring", [WEFT_TOPOLOGY_SWITCH] = "switch"};

static void read_topology(reader *r, const yaml_node *value, weft_topology *out) {
    for (int i = 0; value->kind == NODE_SCALAR && i < WEFT_TOPOLOGY_COUNT; i++) {
        if (strcmp(value->bytes, topologies[i]) != 0) continue;
        *out = (weft_topology)i;
        return;
    }
    PROBLEM(r, value, "topology: expected direct, ring or switch");
}

static void read_field(reader *r, const yaml_node *value, const field *f) {
    int64_t whole;
    double number;
    if (f->topology) {
        read_topology(r, value, f->topology);
    } else if (f->number) {
        bool good = yaml_as_double(value, &number) && number > 0 && number < 1e300;
        if (good)
            *f->number = number;
        else
            PROBLEM(r, value, "%s: expected a number greater than 0", f->name);
    } else if (yaml_as_int(value, &whole) && whole > 0 && whole <= INT32_MAX) {
        *f->whole = (int)whole;
    } else {
        PROBLEM(r, value, "%s: expected a whole number from 1 to %d", f->name, INT32_MAX);
    }
}

/* The fields of a mapping but for the key `other`, whose value is returned. */
static const yaml_node *read_fields(reader *r, const yaml_node *mapping, const field *fields, const char *other) {
    const yaml_node *found = NULL;
    for (size_t i = 0; i < mapping->count; i++) {
        const yaml_node *key = mapping->items[2 * i], *value = mapping->items[2 * i + 1];
        const field *f = fields;
        if (key->kind != NODE_SCALAR) {
            PROBLEM(r, key, "expected a name");
            continue;
        }
        while (f->name && strcmp(f->name, key->bytes) != 0) f++;
        if (f->name)
            read_field(r, value, f);
        else if (other && strcmp(other, key->bytes) == 0)
            found = value;
        else
            PROBLEM(r, key, "\"%s\" is not known here", key->bytes);
    }
    return found;
}

static void read_link(reader *r, const yaml_node *node, weft_link *out, const weft_link *within) {
    const field fields[] = {{"ranks", NULL, &out->nranks, NULL},
                            {"bytes_per_second", &out->bytes, NULL, NULL},
                            {"seconds_per_message", &out->seconds, NULL, NULL},
                            {"topology", NULL, NULL, &out->topology},
                            {NULL, NULL, NULL, NULL}};
    *out = (weft_link){0};
    if (node->kind != NODE_MAPPING) {
        PROBLEM(r, node, "expected a link: {ranks, bytes_per_second, seconds_per_message, topology}");
        return;
    }
    read_fields(r, node, fields, NULL);
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

static void read_cluster(reader *r, const yaml_node *root, weft_cluster *out) {
    const field fields[] = {{"flops_per_second", &out->flops, NULL, NULL},
                            {"bytes_per_second", &out->bytes, NULL, NULL},
                            {"seconds_per_op", &out->op_seconds, NULL, NULL},
                            {NULL, NULL, NULL, NULL}};
    if (root->kind != NODE_MAPPING) {
        PROBLEM(r, root, "expected a cluster: flops_per_second, bytes_per_second, seconds_per_op, links");
        return;
    }
    const yaml_node *links = read_fields(r, root, fields, "links");
    if (links) read_links(r, links, out);
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

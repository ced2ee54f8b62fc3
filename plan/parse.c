/* parse.c: a plan from its text form: the header, and the readers of small things that values and instructions share.
 *
 * Nothing is believed: names resolve, offsets lie within their space, waits refer to earlier instructions, and the types of
 * outputs are inferred again from those of inputs, so that a plan that parses can be executed without touching a byte
 * outside of its memory. Every error has line and column. */
#include "plan/text.h"

weft_status plan_read_keys(plan_reader *r, const yaml_node *mapping, plan_key *keys, size_t nkeys) {
    if (mapping->kind != NODE_MAPPING) return yaml_error(r->context, mapping, r->place, "expected a mapping");
    for (size_t i = 0; i < mapping->count; i++) {
        const yaml_node *key = mapping->items[2 * i];
        size_t k = 0;
        while (k < nkeys && (key->kind != NODE_SCALAR || strcmp(keys[k].key, key->bytes) != 0)) k++;
        if (k == nkeys)
            return yaml_error(r->context, key, r->place, "unknown key \"%s\"",
                              key->kind == NODE_SCALAR ? key->bytes : "(a collection)");
        keys[k].node = mapping->items[2 * i + 1];
    }
    for (size_t k = 0; k < nkeys; k++)
        if (keys[k].required && !keys[k].node)
            return yaml_error(r->context, mapping, r->place, "the key \"%s\" is missing", keys[k].key);
    return NULL;
}

weft_status plan_read_int(plan_reader *r, const yaml_node *node, const char *what, int64_t low, int64_t high, int64_t *out) {
    int64_t value;
    if (!yaml_as_int(node, &value) || value < low || value > high)
        return yaml_error(r->context, node, r->place, "%s: expected an integer from %lld to %lld", what, (long long)low,
                          (long long)high);
    *out = value;
    return NULL;
}

weft_status plan_read_string(plan_reader *r, const yaml_node *node, const char *what, const char **out) {
    size_t nbytes;
    const char *bytes;
    if (node->kind != NODE_SCALAR) return yaml_error(r->context, node, r->place, "%s: expected a string", what);
    TRY(yaml_as_bytes(r->context, node, r->place, &r->scratch, &bytes, &nbytes));
    if (memchr(bytes, 0, nbytes)) return yaml_error(r->context, node, r->place, "%s: the string holds a NUL", what);
    return (*out = arena_string(&r->plan->arena, bytes, nbytes)) ? NULL : base_out_of_memory();
}

weft_status plan_read_sequence(plan_reader *r, const yaml_node *node, const char *what) {
    if (node->kind == NODE_SEQUENCE) return NULL;
    return yaml_error(r->context, node, r->place, "%s: expected a list", what);
}

weft_status plan_read_ints(plan_reader *r, const yaml_node *node, const char *what, int64_t low, int64_t high,
                           size_t *out_count, int64_t **out) {
    TRY(plan_read_sequence(r, node, what));
    int64_t *values = ARENA_ARRAY(&r->program->arena, int64_t, node->count + 1);
    if (!values) return base_out_of_memory();
    for (size_t i = 0; i < node->count; i++) TRY(plan_read_int(r, node->items[i], what, low, high, &values[i]));
    *out_count = node->count;
    *out = values;
    return NULL;
}

weft_status plan_read_value_name(plan_reader *r, const yaml_node *node, bool optional, int32_t *out_value) {
    const char *bytes;
    size_t nbytes;
    if (optional && yaml_is_null(node)) {
        *out_value = -1;
        return NULL;
    }
    if (node->kind != NODE_SCALAR) return yaml_error(r->context, node, r->place, "expected the name of a value");
    TRY(yaml_as_bytes(r->context, node, r->place, &r->scratch, &bytes, &nbytes));
    const name *n = interner_find(&r->names, bytes, nbytes);
    if (!n) return yaml_error(r->context, node, r->place, "no value is named \"%s\"", bytes);
    *out_value = (int32_t)n->id;
    return NULL;
}

weft_status plan_read_stream(plan_reader *r, const yaml_node *node, int32_t *out_stream) {
    const char *bytes;
    size_t nbytes;
    if (node->kind != NODE_SCALAR) return yaml_error(r->context, node, r->place, "expected the name of a stream");
    TRY(yaml_as_bytes(r->context, node, r->place, &r->scratch, &bytes, &nbytes));
    for (int32_t s = 0; s < r->plan->nstreams; s++)
        if (strcmp(r->plan->stream_names[s], bytes) == 0) return *out_stream = s, NULL;
    return yaml_error(r->context, node, r->place, "no stream is named \"%s\"", bytes);
}

/* --- header --- */

static weft_status parse_streams(plan_reader *r, const yaml_node *node) {
    TRY(plan_read_sequence(r, node, "streams"));
    if (!node->count || node->count > PLAN_MAX_STREAMS)
        return yaml_error(r->context, node, r->place, "streams: expected 1 to %d", PLAN_MAX_STREAMS);
    const char **streams = ARENA_ARRAY(&r->plan->arena, const char *, node->count);
    if (!streams) return base_out_of_memory();
    r->plan->stream_names = streams;
    for (size_t i = 0; i < node->count; i++) {
        int32_t same = -1;
        TRY(plan_read_string(r, node->items[i], "streams", &streams[i]));
        for (size_t k = 0; k < i; k++)
            if (strcmp(streams[k], streams[i]) == 0) same = (int32_t)k;
        if (same >= 0) return yaml_error(r->context, node->items[i], r->place, "stream \"%s\" is listed twice", streams[i]);
        r->plan->nstreams++;
    }
    return NULL;
}

/* A status of another folder, told as an error of this text. */
static weft_status at_node(plan_reader *r, const yaml_node *node, weft_status status) {
    if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    weft_status told = yaml_error(r->context, node, r->place, "%s", weft_status_message(status));
    weft_status_free(status);
    return told;
}

static weft_status parse_ring(plan_reader *r, const yaml_node *node) {
    plan_key keys[] = {{"id", true, NULL}, {"ranks", true, NULL}, {"type", false, NULL}};
    ring parsed = {0};
    size_t nranks;
    int64_t *ranks;
    TRY(plan_read_keys(r, node, keys, 3));
    TRY(plan_read_int(r, keys[0].node, "id", 0, INT64_MAX, &parsed.id));
    TRY(plan_read_ints(r, keys[1].node, "ranks", 0, INT32_MAX, &nranks, &ranks));
    if (keys[2].node) TRY(plan_read_string(r, keys[2].node, "type", &parsed.type));
    if (nranks > INT32_MAX) return yaml_error(r->context, node, r->place, "ranks: too many");
    if (program_find_ring(r->program, parsed.id))
        return yaml_error(r->context, node, r->place, "ring %lld is listed twice", (long long)parsed.id);
    parsed.nranks = (int)nranks;
    parsed.ranks = ranks;
    TRY(at_node(r, node, ring_check(&parsed, "ring")));
    return program_put_ring(r->program, &parsed);
}

static weft_status parse_mesh_names(plan_reader *r, const yaml_node *node, mesh *m) {
    TRY(plan_read_sequence(r, node, "names"));
    if (node->count != (size_t)m->ndim) return yaml_error(r->context, node, r->place, "expected %d names", m->ndim);
    const char **names = ARENA_ARRAY(&r->program->arena, const char *, node->count + 1);
    if (!names) return base_out_of_memory();
    for (size_t i = 0; i < node->count; i++) TRY(plan_read_string(r, node->items[i], "names", &names[i]));
    m->names = names;
    return NULL;
}

static weft_status parse_mesh(plan_reader *r, const yaml_node *node) {
    plan_key keys[] = {{"shape", true, NULL}, {"ids", true, NULL}, {"names", false, NULL}};
    mesh m = {0};
    size_t ndim, nids, size = 1;
    int64_t *extents, *ids;
    TRY(plan_read_keys(r, node, keys, 3));
    TRY(plan_read_ints(r, keys[0].node, "shape", 1, INT32_MAX, &ndim, &extents));
    TRY(plan_read_ints(r, keys[1].node, "ids", 0, INT32_MAX, &nids, &ids));
    for (size_t i = 0; i < ndim; i++)
        if (ndim > 32 || !base_mul(size, (size_t)extents[i], &size) || size > nids)
            return yaml_error(r->context, node, r->place, "shape does not fit %zu ids (and at most 32 axes)", nids);
    if (size != nids) return yaml_error(r->context, node, r->place, "shape has %zu places, found %zu ids", size, nids);
    m.ndim = (int)ndim;
    m.shape = extents;
    m.ids = ids;
    if (keys[2].node) TRY(parse_mesh_names(r, keys[2].node, &m));
    TRY(at_node(r, node, mesh_check(&m, "mesh")));
    size_t before = r->program->nmeshes;
    TRY(program_add_mesh(r->program, &m, &r->meshes[r->nmeshes++]));
    if (r->program->nmeshes == before) return yaml_error(r->context, node, r->place, "this mesh is listed twice");
    return NULL;
}

typedef weft_status (*item_fn)(plan_reader *, const yaml_node *);

static weft_status parse_items(plan_reader *r, const yaml_node *node, const char *what, item_fn parse) {
    if (!node) return NULL;
    TRY(plan_read_sequence(r, node, what));
    for (size_t i = 0; i < node->count; i++) TRY(parse(r, node->items[i]));
    return NULL;
}

static weft_status parse_header(plan_reader *r, const plan_key *keys) {
    int64_t version, removed;
    TRY(plan_read_int(r, keys[0].node, "weft_plan", PLAN_TEXT_VERSION, PLAN_TEXT_VERSION, &version));
    TRY(plan_read_int(r, keys[1].node, "rank", -1, INT32_MAX, &r->program->rank));
    TRY(parse_streams(r, keys[2].node));
    TRY(plan_read_int(r, keys[3].node, "persistent_nbytes", 0, PLAN_MAX_NBYTES, &r->plan->persistent_nbytes));
    TRY(plan_read_int(r, keys[4].node, "temporary_nbytes", 0, PLAN_MAX_NBYTES, &r->plan->temporary_nbytes));
    TRY(plan_read_int(r, keys[5].node, "removed_ops", 0, INT32_MAX, &removed));
    r->plan->nremoved = (size_t)removed;
    TRY(parse_items(r, keys[6].node, "rings", parse_ring));
    if (keys[7].node) TRY(plan_read_sequence(r, keys[7].node, "meshes"));
    r->meshes = ARENA_ARRAY(&r->scratch, const mesh *, (keys[7].node ? keys[7].node->count : 0) + 1);
    if (!r->meshes) return base_out_of_memory();
    return parse_items(r, keys[7].node, "meshes", parse_mesh);
}

static weft_status parse_plan(plan_reader *r, const void *bytes, size_t nbytes) {
    plan_key keys[] = {{"weft_plan", true, NULL},        {"rank", true, NULL},
                       {"streams", true, NULL},          {"persistent_nbytes", true, NULL},
                       {"temporary_nbytes", true, NULL}, {"removed_ops", true, NULL},
                       {"rings", false, NULL},           {"meshes", false, NULL},
                       {"values", true, NULL},           {"instructions", true, NULL}};
    yaml_node *root;
    TRY(yaml_read(r->context, bytes, nbytes, r->place, NULL, &r->scratch, &root));
    TRY(plan_read_keys(r, root, keys, sizeof keys / sizeof *keys));
    TRY(parse_header(r, keys));
    TRY(plan_parse_values(r, keys[8].node));
    return plan_parse_instrs(r, keys[9].node);
}

weft_status weft_plan_parse(weft_context *context, const void *bytes, size_t nbytes, const char *place,
                            weft_plan **out_plan) {
    plan_reader r = {.context = context, .place = place};
    weft_status status = NULL;
    arena_init(&r.scratch, &context->allocator);
    interner_init(&r.names, &r.scratch);
    r.plan = base_alloc(&context->allocator, sizeof *r.plan);
    if (!r.plan) return base_out_of_memory();
    *r.plan = (weft_plan){.context = context};
    arena_init(&r.plan->arena, &context->allocator);
    TRY_DONE(weft_program_create(context, &r.program));
    r.plan->program = r.program;
    if (!(r.program->place = arena_string(&r.program->arena, place, strlen(place)))) {
        r.program->place = "";
        TRY_DONE(base_out_of_memory());
    }
    TRY_DONE(parse_plan(&r, bytes, nbytes));
    *out_plan = r.plan;
    r.plan = NULL;
done:
    arena_fini(&r.scratch);
    weft_plan_destroy(r.plan);
    return status;
}

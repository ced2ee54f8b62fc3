/* parse.c: a plan from its text form: the header, then values and instructions.
 *
 * The text is read piece by piece, one value or instruction a tree, in the order in which it is printed. Nothing is
 * believed: names resolve, offsets lie within their space, and waits refer to earlier instructions. The types of
 * outputs are inferred again from those of inputs. So a plan that parses can be executed without touching a byte
 * outside of its memory. Every error has line and column. */
#include "plan/fuse.h"
#include "plan/text.h"

/* --- header ------------------------------------------------------------------------------------------------------- */

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
        if (same >= 0)
            return yaml_error(r->context, node->items[i], r->place, "stream \"%s\" is listed twice", streams[i]);
        r->plan->nstreams++;
    }
    return NULL;
}

/* A status of another folder, reported as an error of this text. */
static weft_status at_node(plan_reader *r, const yaml_node *node, weft_status status) {
    if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    weft_status reported = yaml_error(r->context, node, r->place, "%s", weft_status_message(status));
    weft_status_free(status);
    return reported;
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
    TRY(vector_reserve(&r->context->allocator, &r->meshes, &r->mesh_capacity, r->nmeshes + 1, sizeof *r->meshes));
    TRY(program_add_mesh(r->program, &m, &r->meshes[r->nmeshes++]));
    if (r->program->nmeshes == before) return yaml_error(r->context, node, r->place, "this mesh is listed twice");
    return NULL;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Takes what is next as a tree, in place of the one before. */
static weft_status take(plan_reader *r, yaml_node **out) {
    arena_fini(&r->item);
    return yaml_stream_take(r->stream, &r->item, out);
}

static weft_status parse_items(plan_reader *r, const char *what, plan_item_fn parse) {
    yaml_node *item;
    TRY(yaml_stream_enter(r->stream, NODE_SEQUENCE, what));
    for (bool more;;) {
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) return NULL;
        TRY(take(r, &item));
        TRY(parse(r, item));
    }
}

static weft_status parse_number(plan_reader *r, const char *what, int64_t low, int64_t high, int64_t *out) {
    yaml_node *node;
    TRY(take(r, &node));
    return plan_read_int(r, node, what, low, high, out);
}

enum {
    VERSION,
    RANK,
    STREAMS,
    PERSISTENT,
    TEMPORARY,
    REMOVED,
    GIVEN_WAITS,
    PROGRAM_OF_VERSION,
    RINGS,
    MESHES,
    VALUES,
    INSTRUCTIONS,
    NPARTS
};

static const plan_key parts[NPARTS] = {
    [VERSION] = {"weft_plan", true, NULL},
    [RANK] = {"rank", true, NULL},
    [STREAMS] = {"streams", true, NULL},
    [PERSISTENT] = {"persistent_nbytes", true, NULL},
    [TEMPORARY] = {"temporary_nbytes", true, NULL},
    [REMOVED] = {"removed_ops", true, NULL},
    [GIVEN_WAITS] = {"given_waits", false, NULL},
    [PROGRAM_OF_VERSION] = {"program_version", false, NULL},
    [RINGS] = {"rings", false, NULL},
    [MESHES] = {"meshes", false, NULL},
    [VALUES] = {"values", true, NULL},
    [INSTRUCTIONS] = {"instructions", true, NULL},
};

static weft_status parse_part(plan_reader *r, int part) {
    yaml_node *node;
    int64_t number = 0;
    switch (part) {
    case VERSION: return parse_number(r, "weft_plan", PLAN_TEXT_VERSION, PLAN_TEXT_VERSION, &number);
    case RANK: return parse_number(r, "rank", -1, INT32_MAX, &r->program->rank);
    case STREAMS: TRY(take(r, &node)); return parse_streams(r, node);
    case PERSISTENT: return parse_number(r, "persistent_nbytes", 0, PLAN_MAX_NBYTES, &r->plan->persistent_nbytes);
    case TEMPORARY: return parse_number(r, "temporary_nbytes", 0, PLAN_MAX_NBYTES, &r->plan->temporary_nbytes);
    case REMOVED:
        TRY(parse_number(r, "removed_ops", 0, INT32_MAX, &number));
        r->plan->nremoved = (size_t)number;
        return NULL;
    case GIVEN_WAITS:
        TRY(take(r, &node));
        if (node->kind != NODE_SCALAR || strcmp(node->bytes, "true") != 0)
            return yaml_error(r->context, node, r->place, "given_waits: expected true");
        r->plan->given_waits = true;
        return NULL;
    case PROGRAM_OF_VERSION:
        TRY(parse_number(r, "program_version", 1, INT64_MAX, &number));
        weft_program_set_version(r->program, number);
        return NULL;
    case RINGS: return parse_items(r, "a list of rings", parse_ring);
    case MESHES: return parse_items(r, "a list of meshes", parse_mesh);
    case VALUES: TRY(parse_items(r, "a list of values", plan_parse_value)); return plan_end_values(r);
    default: return parse_items(r, "a list of instructions", plan_parse_instr);
    }
}

/* The part that a key names: the parts stand in order, and only optional ones may be left out. */
static weft_status find_part(plan_reader *r, const yaml_node *key, int next, int *out_part) {
    int part = 0;
    while (part < NPARTS && (key->kind != NODE_SCALAR || strcmp(parts[part].key, key->bytes) != 0)) part++;
    if (part == NPARTS)
        return yaml_error(r->context, key, r->place, "unknown key \"%s\"",
                          key->kind == NODE_SCALAR ? key->bytes : "(a collection)");
    if (part < next) return yaml_error(r->context, key, r->place, "\"%s\" is repeated, or stands too late", key->bytes);
    for (int k = next; k < part; k++)
        if (parts[k].required)
            return yaml_error(r->context, key, r->place, "the key \"%s\" is missing before \"%s\"", parts[k].key,
                              key->bytes);
    *out_part = part;
    return NULL;
}

static weft_status parse_document(plan_reader *r) {
    yaml_node start, *key;
    int next = 0;
    TRY(yaml_stream_peek(r->stream, &start));
    TRY(yaml_stream_enter(r->stream, NODE_MAPPING, "a plan: a mapping with weft_plan: 1"));
    for (bool more;;) {
        int part = 0;
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) break;
        TRY(take(r, &key));
        TRY(find_part(r, key, next, &part));
        TRY(parse_part(r, part));
        next = part + 1;
    }
    for (int k = next; k < NPARTS; k++)
        if (parts[k].required)
            return yaml_error(r->context, &start, r->place, "the key \"%s\" is missing", parts[k].key);
    return yaml_stream_end(r->stream);
}

/* Moves what was gathered into the plan. */
static weft_status finish(plan_reader *r) {
    weft_plan *p = r->plan;
    p->nvalues = r->nvalues;
    p->ninstrs = r->ninstrs;
    p->values = arena_copy(&p->arena, r->values, r->nvalues * sizeof *r->values);
    p->instrs = arena_copy(&p->arena, r->instrs, r->ninstrs * sizeof *r->instrs);
    return p->values && p->instrs ? NULL : base_out_of_memory();
}

static void end(plan_reader *r) {
    const weft_allocator *a = &r->context->allocator;
    yaml_stream_close(r->stream);
    base_free(a, r->values, r->value_capacity * sizeof *r->values);
    base_free(a, r->instrs, r->instr_capacity * sizeof *r->instrs);
    base_free(a, r->vars, r->var_capacity * sizeof *r->vars);
    base_free(a, r->references, r->reference_capacity * sizeof *r->references);
    base_free(a, r->meshes, r->mesh_capacity * sizeof *r->meshes);
    arena_fini(&r->item);
    arena_fini(&r->scratch);
    weft_plan_destroy(r->plan);
}

static weft_status begin(plan_reader *r, const void *bytes, size_t nbytes) {
    arena_init(&r->item, &r->context->allocator);
    arena_init(&r->scratch, &r->context->allocator);
    interner_init(&r->names, &r->scratch);
    r->plan = base_alloc(&r->context->allocator, sizeof *r->plan);
    if (!r->plan) return base_out_of_memory();
    *r->plan = (weft_plan){.context = r->context};
    arena_init(&r->plan->arena, &r->context->allocator);
    TRY(weft_program_create(r->context, &r->program));
    r->plan->program = r->program;
    const char *place = arena_string(&r->program->arena, r->place, strlen(r->place));
    if (!place) return base_out_of_memory();
    r->program->place = place;
    return yaml_stream_open(r->context, bytes, nbytes, r->place, NULL, &r->stream);
}

weft_status weft_plan_parse(weft_context *context, const void *bytes, size_t nbytes, const char *place,
                            weft_plan **out_plan) {
    plan_reader r = {.context = context, .place = place};
    weft_status status = NULL;
    TRY_DONE(begin(&r, bytes, nbytes));
    TRY_DONE(parse_document(&r));
    TRY_DONE(finish(&r));
    TRY_DONE(plan_find_peak(r.plan));
    TRY_DONE(plan_check_fused(r.plan));
    *out_plan = r.plan;
    r.plan = NULL;
done:
    end(&r);
    return status;
}

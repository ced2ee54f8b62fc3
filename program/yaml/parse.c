/* parse.c: a program from YAML. The document is read piece by piece, one var or op a tree, so that memory does not
 * grow with the text; hence what is named must stand before what names it: meshes before blocks, a block's vars before
 * its ops. A var or op that is wrong is reported and reading goes on with the next. */
#include <inttypes.h>

#include "program/grow.h"
#include "program/yaml/yaml_form.h"

enum { MOST_PROBLEMS = 100 };

/* Keeps a problem and goes on; other failures end the reading. */
static weft_status keep_problem(yaml_reader *r, weft_status found) {
    if (!found || weft_status_code(found) != WEFT_PARSE || r->nproblems >= MOST_PROBLEMS) return found;
    if (r->nproblems++ == 0)
        r->first_problem = found;
    else
        weft_status_free(found);
    return NULL;
}

/* Takes what is next as a tree, in place of the one before. */
static weft_status take(yaml_reader *r, yaml_node **out) {
    arena_fini(&r->item);
    return yaml_stream_take(r->stream, &r->item, out);
}

/* The key of a mapping that was entered, against a table of words; each may come once, none before `first`. */
typedef struct key_list {
    const char *const *words;
    const char *expected;
    uint32_t seen; /* by index of word */
} key_list;

static weft_status next_key(yaml_reader *r, key_list *keys, int *out_index, yaml_node *out_place) {
    yaml_node *key;
    TRY(take(r, &key));
    if (key->kind != NODE_SCALAR) YAML_FAIL(r, key, "expected %s", keys->expected);
    *out_place = (yaml_node){.kind = NODE_SCALAR, .line = key->line, .column = key->column};
    for (int i = 0; keys->words[i]; i++) {
        if (!yaml_is(key, keys->words[i])) continue;
        if (keys->seen >> i & 1) YAML_FAIL(r, key, "key \"%s\" is given twice", key->bytes);
        keys->seen |= (uint32_t)1 << i;
        *out_index = i;
        return NULL;
    }
    YAML_FAIL(r, key, "expected %s, found \"%s\"", keys->expected, key->bytes);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static weft_status get_index(yaml_reader *r, const char *what, int32_t *out) {
    yaml_node *node;
    int64_t value;
    TRY(take(r, &node));
    TRY(yaml_get_int(r, node, what, -1, INT32_MAX, &value));
    *out = (int32_t)value;
    return NULL;
}

static weft_status get_declared_var(yaml_reader *r, weft_block *b, const yaml_node *key, const yaml_node *value,
                                    bool may_repeat) {
    const name *n;
    TRY(yaml_get_name(r, key, &n));
    const weft_var *declared = may_repeat ? NULL : block_find(b, n);
    if (declared && declared->block == b) YAML_FAIL(r, key, "variable \"%s\" is declared twice", n->bytes);
    return yaml_get_var(r, b, key, value);
}

/* vars: {name: {...}}, the mapping entered pair by pair. */
static weft_status get_var_mapping(yaml_reader *r, weft_block *b) {
    yaml_node *key, *value;
    for (bool more;;) {
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) return NULL;
        TRY(take(r, &key));
        TRY(yaml_stream_take(r->stream, &r->item, &value)); /* beside its key */
        if (key->kind != NODE_SCALAR) YAML_FAIL(r, key, "expected the name of a variable");
        TRY(keep_problem(r, get_declared_var(r, b, key, value, false)));
    }
}

/* vars: [{name: {...}}], which may declare a name twice, for the verifier to report. */
static weft_status get_var_list(yaml_reader *r, weft_block *b) {
    yaml_node *pair;
    for (bool more;;) {
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) return NULL;
        TRY(take(r, &pair));
        if (pair->kind != NODE_MAPPING || pair->count != 1)
            YAML_FAIL(r, pair, "expected a mapping with one variable in this list");
        TRY(keep_problem(r, get_declared_var(r, b, pair->items[0], pair->items[1], true)));
    }
}

static weft_status get_vars(yaml_reader *r, weft_block *b) {
    yaml_node next;
    TRY(yaml_stream_peek(r->stream, &next));
    bool is_list = next.kind == NODE_SEQUENCE;
    TRY(yaml_stream_enter(r->stream, is_list ? NODE_SEQUENCE : NODE_MAPPING, "vars as a mapping by name"));
    return is_list ? get_var_list(r, b) : get_var_mapping(r, b);
}

static weft_status get_ops(yaml_reader *r, weft_block *b) {
    yaml_node *op;
    TRY(yaml_stream_enter(r->stream, NODE_SEQUENCE, "a list of ops"));
    for (bool more;;) {
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) return NULL;
        TRY(take(r, &op));
        TRY(keep_problem(r, yaml_get_op(r, b, op)));
    }
}

enum { BLOCK_IDX, BLOCK_PARENT, BLOCK_FORWARD, BLOCK_UNKNOWN, BLOCK_VARS, BLOCK_OPS };

static weft_status get_block_member(yaml_reader *r, weft_block *b, int key) {
    yaml_node *node;
    switch (key) {
    case BLOCK_IDX: return get_index(r, "idx", &b->idx);
    case BLOCK_PARENT: return get_index(r, "parent", &b->parent_idx);
    case BLOCK_FORWARD: b->has_forward_block_idx = true; return get_index(r, "forward", &b->forward_block_idx);
    case BLOCK_VARS: return get_vars(r, b);
    case BLOCK_OPS: return get_ops(r, b);
    default: TRY(take(r, &node)); return yaml_get_text(r, node, &b->unknown_fields);
    }
}

static weft_status get_block(yaml_reader *r, weft_block *b) {
    static const char *const words[] = {"idx", "parent", "forward", "unknown", "vars", "ops", NULL};
    key_list keys = {words, "idx, parent, forward, unknown, vars or ops", 0};
    yaml_node place;
    int key;
    TRY(yaml_stream_enter(r->stream, NODE_MAPPING, "a block as a mapping"));
    for (bool more;;) {
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) return NULL;
        TRY(next_key(r, &keys, &key, &place));
        if (key < BLOCK_OPS && keys.seen >> BLOCK_OPS & 1) YAML_FAIL(r, &place, "expected %s before ops", words[key]);
        TRY(get_block_member(r, b, key));
    }
}

static weft_status get_blocks(yaml_reader *r) {
    weft_program *p = r->program;
    TRY(yaml_stream_enter(r->stream, NODE_SEQUENCE, "a list of blocks"));
    for (size_t n = 0;; n++) {
        bool more;
        weft_block *b = p->blocks[0];
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) return NULL;
        TRY(form_charge(p, r->budget, sizeof *b));
        if (n > 0) TRY(program_add_block(p, 0, &b));
        TRY(get_block(r, b));
    }
}

/* --- the document ------------------------------------------------------------------------------------------------- */

static weft_status get_callstacks(yaml_reader *r) {
    size_t capacity = 0;
    TRY(yaml_stream_enter(r->stream, NODE_SEQUENCE, "a list of call stacks"));
    for (bool more;;) {
        yaml_node *node;
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) return NULL;
        TRY(take(r, &node));
        TRY(form_charge(r->program, r->budget, r->item.total_nbytes));
        TRY(grow(&r->program->arena, &r->callstacks, &capacity, r->ncallstacks + 1, sizeof *r->callstacks));
        callstack *c = &r->callstacks[r->ncallstacks];
        TRY(yaml_get_strings(r, node, "call stack", &c->lines, &c->count));
        r->ncallstacks++;
    }
}

static weft_status complete_callstacks(yaml_reader *r) {
    for (size_t i = 0; i < r->nuses; i++) {
        const callstack_use *u = &r->uses[i];
        if ((size_t)u->index >= r->ncallstacks) {
            yaml_node place = {.line = u->line, .column = u->column};
            TRY(keep_problem(r, yaml_error(r->context, &place, r->place,
                                           ".callstack: expected the index of one of %zu call stacks, found %" PRId64,
                                           r->ncallstacks, u->index)));
            continue;
        }
        u->attr->u.strings = r->callstacks[u->index].lines;
        u->attr->count = r->callstacks[u->index].count;
    }
    return NULL;
}

static weft_status get_op_versions(yaml_reader *r, const yaml_node *node, text *out) {
    buffer map;
    buffer_init(&map, &r->context->allocator);
    weft_status status = NULL;
    if (node->kind != NODE_SEQUENCE)
        TRY_DONE(yaml_error(r->context, node, r->place, "expected op_versions as a list of pairs [op, version]"));
    for (size_t i = 0; i < node->count; i++) {
        const yaml_node *pair = node->items[i];
        text op;
        int64_t version;
        if (pair->kind != NODE_SEQUENCE || pair->count != 2)
            TRY_DONE(yaml_error(r->context, pair, r->place, "expected a pair [op, version]"));
        TRY_DONE(yaml_get_text(r, pair->items[0], &op));
        TRY_DONE(yaml_get_int(r, pair->items[1], "version", INT64_MIN, INT64_MAX, &version));
        op_versions_put(&map, op.bytes, op.nbytes, version);
    }
    TRY_DONE(buffer_status(&map));
    out->bytes = arena_string(&r->program->arena, map.bytes, map.nbytes);
    out->nbytes = map.nbytes;
    if (!out->bytes) TRY_DONE(base_out_of_memory());
done:
    buffer_fini(&map);
    return status;
}

enum {
    KEY_WEFT,
    KEY_VERSION,
    KEY_OP_VERSIONS,
    KEY_OP_VERSION_MAP,
    KEY_UNKNOWN,
    KEY_RANK,
    KEY_RINGS,
    KEY_MESHES,
    KEY_PARAMS_GRADS,
    KEY_DIST_EXTRA,
    KEY_FX,
    KEY_BLOCKS,
    KEY_CALLSTACKS
};

static weft_status get_form_version(yaml_reader *r, const yaml_node *node) {
    int64_t version;
    TRY(yaml_get_int(r, node, "weft (the version of this form)", 1, INT32_MAX, &version));
    if (version == YAML_FORM_VERSION) return NULL;
    return weft_status_create(WEFT_UNSUPPORTED, r->place, "the form has version %" PRId64 ", this reader knows %d",
                              version, YAML_FORM_VERSION);
}

static weft_status get_small_member(yaml_reader *r, int key, const yaml_node *node) {
    weft_program *p = r->program;
    switch (key) {
    case KEY_WEFT: return get_form_version(r, node);
    case KEY_VERSION: p->has_version = true; return yaml_get_int(r, node, "version", INT64_MIN, INT64_MAX, &p->version);
    case KEY_OP_VERSIONS: p->has_op_version_map = true; return get_op_versions(r, node, &p->op_version_map);
    case KEY_OP_VERSION_MAP: p->has_op_version_map = true; return yaml_get_text(r, node, &p->op_version_map);
    case KEY_UNKNOWN: return yaml_get_text(r, node, &p->unknown_fields);
    case KEY_RANK: p->has_dist = true; return yaml_get_int(r, node, "rank", -1, INT32_MAX, &p->rank);
    case KEY_RINGS: return yaml_get_rings(r, node);
    case KEY_MESHES: return yaml_get_meshes(r, node);
    case KEY_PARAMS_GRADS: return yaml_get_params_grads(r, node);
    case KEY_FX: return yaml_get_string(r, node, &p->fx_json);
    default: return yaml_get_string(r, node, &p->dist_extra_json);
    }
}

static weft_status get_member(yaml_reader *r, int key) {
    yaml_node *node;
    if (key == KEY_BLOCKS) return get_blocks(r);
    if (key == KEY_CALLSTACKS) return get_callstacks(r);
    TRY(take(r, &node));
    TRY(form_charge(r->program, r->budget, r->item.total_nbytes));
    return keep_problem(r, get_small_member(r, key, node));
}

static weft_status get_document(yaml_reader *r) {
    static const char *const words[] = {"weft",       "version", "op_versions",  "op_version_map", "unknown", "rank",
                                        "rings",      "meshes",  "params_grads", "dist_extra",     "fx",      "blocks",
                                        "callstacks", NULL};
    key_list keys = {words,
                    "weft, version, op_versions, op_version_map, unknown, rank, rings, meshes, params_grads, "
                    "dist_extra, fx, blocks or callstacks",
                    0};
    yaml_node start, place;
    int key;
    TRY(yaml_stream_peek(r->stream, &start));
    TRY(yaml_stream_enter(r->stream, NODE_MAPPING, "a program: a mapping with weft: 1 and blocks"));
    for (bool more;;) {
        TRY(yaml_stream_more(r->stream, &more));
        if (!more) break;
        TRY(next_key(r, &keys, &key, &place));
        if (key == KEY_MESHES && keys.seen >> KEY_BLOCKS & 1) YAML_FAIL(r, &place, "expected meshes before blocks");
        TRY(get_member(r, key));
    }
    if (!(keys.seen >> KEY_WEFT & 1))
        YAML_FAIL(r, &start, "expected weft: %d, the version of this form", YAML_FORM_VERSION);
    if (!(keys.seen >> KEY_BLOCKS & 1)) YAML_FAIL(r, &start, "expected blocks");
    return yaml_stream_end(r->stream);
}

/* An op may name a var of a block that stands after its own: such uses found no var yet. */
static weft_status resolve_late_names(weft_program *p) {
    for (size_t i = 0; i < p->nblocks; i++) {
        weft_block *b = p->blocks[i];
        if (b->parent_idx <= b->idx && b->forward_block_idx <= b->idx) continue;
        FOR_EACH_OP(op, b) {
            for (int output = 0; output < 2; output++) {
                FOR_EACH_ARG(op, output, u) {
                    const weft_var *from = use_var(p, u);
                    weft_var *v = from->block ? NULL : block_find(b, from->name);
                    if (v) (output ? weft_op_rename_output : weft_op_rename_input)(op, from, v);
                }
            }
        }
    }
    return NULL;
}

/* A name that no block declares is most often a misspelt one. Programs may hold it, but no pass or run takes it. */
static void warn_undeclared(const yaml_reader *r) {
    for (size_t i = 0; i < r->nundeclared; i++) {
        const undeclared_use *u = &r->undeclared[i];
        if (!block_find(u->block, u->name))
            context_diagnose(r->context, WEFT_WARNING, r->place, u->line, u->column,
                             "variable \"%s\" is not declared", u->name->bytes);
    }
}

static weft_status read_program(yaml_reader *r) {
    TRY(get_document(r));
    TRY(complete_callstacks(r));
    TRY(keep_problem(r, form_check_blocks(r->program)));
    TRY(resolve_late_names(r->program));
    warn_undeclared(r);
    return NULL;
}

/* The first problem, and how many there were. */
static weft_status summary(yaml_reader *r, weft_status last) {
    size_t count = r->nproblems + (last != NULL);
    weft_status first = r->first_problem ? r->first_problem : last;
    if (last && last != first) weft_status_free(last);
    r->first_problem = NULL;
    if (count < 2 || weft_status_code(first) != WEFT_PARSE) return first;
    weft_status all = weft_status_create(WEFT_PARSE, weft_status_place(first), "%s (and %zu more)",
                                         weft_status_message(first), count - 1);
    weft_status_free(first);
    return all;
}

weft_status yaml_parse(weft_program *p, const void *bytes, size_t nbytes) {
    yaml_reader r = {.program = p, .context = p->context, .place = p->place, .budget = form_budget(nbytes)};
    const size_t nbytes_of_node = 116; /* with its text and its place in lists */
    yaml_limits limits = {.max_nodes = r.budget / nbytes_of_node, .max_nbytes = SIZE_MAX};
    arena_init(&r.item, &p->context->allocator);
    weft_status status = yaml_stream_open(p->context, bytes, nbytes, p->place, &limits, &r.stream);
    if (!status) status = read_program(&r);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY)
        weft_status_free(r.first_problem);
    else
        status = summary(&r, status);
    yaml_stream_close(r.stream);
    base_free(&p->context->allocator, r.uses, r.use_capacity * sizeof *r.uses);
    arena_fini(&r.item);
    return base_status_at(status, p->place);
}

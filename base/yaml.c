/* yaml.c: libyaml's events to a tree. Open collections are frames on a stack, and the nodes that they have so far lie
 * on a second one; when a collection ends its nodes are copied out to the arena. So the work is linear, nothing
 * recurses, and what a hostile text can claim is capped: bytes, nodes, depth (checked as collections open, long before
 * libyaml's own cost per level shows), no aliases. */
#include <yaml.h>

#include "base/yaml.h"

enum { DEFAULT_DEPTH = 64, DEFAULT_NODES = 20000000, DEFAULT_GIB = 1, FEW_KEYS = 8 };

typedef struct frame {
    yaml_node *node;
    size_t first; /* of its nodes on the node stack */
} frame;

typedef struct reader {
    weft_context *context;
    const char *place;
    arena *arena;
    yaml_parser_t parser;
    frame *frames;
    size_t nframes, frame_capacity;
    yaml_node **nodes;
    size_t nnodes, node_capacity;
    size_t nall_nodes, max_nodes;
    int max_depth, line_offset;
    hash_table seen; /* keys of a large mapping */
    yaml_node *root;
    weft_status first_problem;
} reader;

static weft_status problem_at(weft_context *context, const char *place, weft_code code, int line, int column,
                              const char *message) {
    context_diagnose(context, WEFT_ERROR, place, line, column, "%s", message);
    size_t room = strlen(place) + 32;
    char *where = base_alloc(&context->allocator, room);
    if (!where) return base_out_of_memory();
    snprintf(where, room, "%s:%d:%d", place, line, column);
    weft_status status = weft_status_create(code, where, "%s", message);
    base_free(&context->allocator, where, room);
    return status;
}

weft_status yaml_error(weft_context *context, const yaml_node *node, const char *place, const char *format, ...) {
    buffer message;
    buffer_init(&message, &context->allocator);
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int nbytes = vsnprintf(NULL, 0, format, args);
    weft_status status = vector_reserve(&context->allocator, &message.bytes, &message.capacity, (size_t)nbytes + 1, 1);
    if (!status) {
        vsnprintf(message.bytes, (size_t)nbytes + 1, format, again);
        status = problem_at(context, place, WEFT_PARSE, node->line, node->column, message.bytes);
    }
    va_end(again);
    va_end(args);
    buffer_fini(&message);
    return status;
}

static weft_status error_at_mark(reader *r, weft_code code, yaml_mark_t mark, const char *message) {
    return problem_at(r->context, r->place, code, (int)mark.line + 1 + r->line_offset, (int)mark.column + 1, message);
}

/* Keeps the first of several problems: reading goes on. */
static weft_status keep_problem(reader *r, weft_status problem) {
    if (weft_status_code(problem) == WEFT_OUT_OF_MEMORY) return problem;
    if (r->first_problem)
        weft_status_free(problem);
    else
        r->first_problem = problem;
    return NULL;
}

static weft_status syntax_error(reader *r) {
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return base_out_of_memory();
    char message[256];
    const char *problem = p->problem ? p->problem : "malformed text";
    if (p->error == YAML_READER_ERROR) {
        snprintf(message, sizeof message, "expected YAML text: %s (byte %zu)", problem, p->problem_offset);
        return error_at_mark(r, WEFT_PARSE, p->mark, message);
    }
    snprintf(message, sizeof message, "expected YAML: %s%s%s", p->context ? p->context : "", p->context ? ", " : "",
             problem);
    return error_at_mark(r, WEFT_PARSE, p->problem_mark, message);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static weft_status add_node(reader *r, const yaml_event_t *event, node_kind kind, const yaml_char_t *anchor,
                            const yaml_char_t *tag, yaml_node **out) {
    if (anchor) return error_at_mark(r, WEFT_PARSE, event->start_mark, "expected no anchors: aliases are not read");
    if (++r->nall_nodes > r->max_nodes)
        return error_at_mark(r, WEFT_LIMIT, event->start_mark, "the document has more nodes than the limit");
    yaml_node *node = ARENA_NEW(r->arena, yaml_node);
    if (!node) return base_out_of_memory();
    node->kind = kind;
    node->line = (int)event->start_mark.line + 1 + r->line_offset;
    node->column = (int)event->start_mark.column + 1;
    if (tag && !(node->tag = arena_string(r->arena, (const char *)tag, strlen((const char *)tag))))
        return base_out_of_memory();
    if (r->nframes == 0) {
        r->root = node;
    } else {
        TRY(vector_reserve(&r->context->allocator, &r->nodes, &r->node_capacity, r->nnodes + 1, sizeof *r->nodes));
        r->nodes[r->nnodes++] = node;
    }
    *out = node;
    return NULL;
}

static weft_status add_scalar(reader *r, const yaml_event_t *event) {
    yaml_node *node = NULL;
    TRY(add_node(r, event, NODE_SCALAR, event->data.scalar.anchor, event->data.scalar.tag, &node));
    node->nbytes = event->data.scalar.length;
    node->bytes = arena_string(r->arena, (const char *)event->data.scalar.value, node->nbytes);
    if (!node->bytes) return base_out_of_memory();
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return NULL;
}

static weft_status open_collection(reader *r, const yaml_event_t *event, node_kind kind, const yaml_char_t *anchor,
                                   const yaml_char_t *tag) {
    yaml_node *node = NULL;
    TRY(add_node(r, event, kind, anchor, tag, &node));
    if (r->nframes >= (size_t)r->max_depth)
        return error_at_mark(r, WEFT_LIMIT, event->start_mark, "nested deeper than the limit");
    TRY(vector_reserve(&r->context->allocator, &r->frames, &r->frame_capacity, r->nframes + 1, sizeof *r->frames));
    r->frames[r->nframes++] = (frame){node, r->nnodes};
    return NULL;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static bool same_key(const yaml_node *a, const yaml_node *b) {
    return a->nbytes == b->nbytes && memcmp(a->bytes, b->bytes, a->nbytes) == 0;
}

static weft_status report_duplicate(reader *r, const yaml_node *key, const yaml_node *earlier) {
    return keep_problem(r, yaml_error(r->context, key, r->place, "key \"%s\" is given twice: first in line %d",
                                      key->bytes, earlier->line));
}

static weft_status check_few_keys(reader *r, yaml_node *const *items, size_t npairs) {
    for (size_t i = 1; i < npairs; i++) {
        for (size_t j = 0; j < i; j++) {
            if (!same_key(items[2 * i], items[2 * j])) continue;
            TRY(report_duplicate(r, items[2 * i], items[2 * j]));
            break;
        }
    }
    return NULL;
}

static weft_status check_many_keys(reader *r, yaml_node *const *items, size_t npairs) {
    table_clear(&r->seen);
    TRY(table_reserve_on(&r->context->allocator, &r->seen, npairs));
    for (size_t i = 0; i < npairs; i++) {
        const yaml_node *key = items[2 * i];
        table_probe at = table_find(&r->seen, base_hash(key->bytes, key->nbytes));
        while (at.item != TABLE_NONE && !same_key(items[2 * (size_t)at.item], key)) table_next(&r->seen, &at);
        if (at.item != TABLE_NONE)
            TRY(report_duplicate(r, key, items[2 * (size_t)at.item]));
        else
            table_put(&r->seen, &at, (uint32_t)i);
    }
    return NULL;
}

static weft_status check_keys(reader *r, yaml_node *const *items, size_t npairs) {
    for (size_t i = 0; i < npairs; i++) {
        const yaml_node *key = items[2 * i];
        if (key->kind != NODE_SCALAR)
            return yaml_error(r->context, key, r->place, "expected a scalar as key, found a %s",
                              key->kind == NODE_SEQUENCE ? "sequence" : "mapping");
        if (key->plain && strcmp(key->bytes, "<<") == 0)
            TRY(keep_problem(r, yaml_error(r->context, key, r->place, "merge keys (<<) are not read")));
    }
    return npairs <= FEW_KEYS ? check_few_keys(r, items, npairs) : check_many_keys(r, items, npairs);
}

static weft_status close_collection(reader *r) {
    frame f = r->frames[--r->nframes];
    size_t count = r->nnodes - f.first;
    f.node->items = count ? arena_copy(r->arena, r->nodes + f.first, count * sizeof *r->nodes) : NULL;
    if (count && !f.node->items) return base_out_of_memory();
    r->nnodes = f.first;
    f.node->count = count;
    if (f.node->kind == NODE_SEQUENCE) return NULL;
    f.node->count = count / 2;
    return check_keys(r, f.node->items, f.node->count);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static weft_status take_event(reader *r, const yaml_event_t *event) {
    switch (event->type) {
    case YAML_SCALAR_EVENT: return add_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_collection(r, event, NODE_SEQUENCE, event->data.sequence_start.anchor,
                               event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return open_collection(r, event, NODE_MAPPING, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return close_collection(r);
    case YAML_ALIAS_EVENT: return error_at_mark(r, WEFT_PARSE, event->start_mark, "aliases are not read");
    case YAML_DOCUMENT_START_EVENT:
        if (r->root) return error_at_mark(r, WEFT_PARSE, event->start_mark, "expected one document, found another");
        return NULL;
    default: return NULL;
    }
}

static weft_status read_events(reader *r) {
    for (bool at_end = false; !at_end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event)) return syntax_error(r);
        at_end = event.type == YAML_STREAM_END_EVENT;
        weft_status status = take_event(r, &event);
        yaml_event_delete(&event);
        if (status) return status;
    }
    if (r->root) return NULL;
    return error_at_mark(r, WEFT_PARSE, (yaml_mark_t){0}, "expected a document, found nothing");
}

static weft_status reader_init(reader *r, weft_context *context, const char *bytes, size_t nbytes, const char *place,
                               const yaml_limits *limits) {
    yaml_limits caps = limits ? *limits : (yaml_limits){0};
    *r = (reader){.context = context, .place = place, .line_offset = caps.line_offset};
    r->max_depth = caps.max_depth ? caps.max_depth : DEFAULT_DEPTH;
    r->max_nodes = caps.max_nodes ? caps.max_nodes : DEFAULT_NODES;
    size_t max_nbytes = caps.max_nbytes ? caps.max_nbytes : (size_t)DEFAULT_GIB << 30;
    if (nbytes > max_nbytes)
        return weft_status_create(WEFT_LIMIT, place, "the text has %zu bytes, more than %zu", nbytes, max_nbytes);
    if (!yaml_parser_initialize(&r->parser)) return base_out_of_memory();
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)(bytes ? bytes : ""), nbytes);
    return NULL;
}

/* After a reader_init that succeeded. */
static void reader_fini(reader *r) {
    const weft_allocator *allocator = &r->context->allocator;
    yaml_parser_delete(&r->parser);
    base_free(allocator, r->frames, r->frame_capacity * sizeof *r->frames);
    base_free(allocator, r->nodes, r->node_capacity * sizeof *r->nodes);
    table_free(allocator, &r->seen);
}

/* What went wrong first is what to mend first. */
static weft_status take_first_problem(reader *r, weft_status status) {
    if (!r->first_problem) return status;
    weft_status_free(status);
    status = r->first_problem;
    r->first_problem = NULL;
    return status;
}

weft_status yaml_read(weft_context *context, const char *bytes, size_t nbytes, const char *place,
                      const yaml_limits *limits, arena *a, yaml_node **out_root) {
    reader r;
    TRY(reader_init(&r, context, bytes, nbytes, place, limits));
    r.arena = a;
    weft_status status = take_first_problem(&r, read_events(&r));
    reader_fini(&r);
    if (!status) *out_root = r.root;
    return status;
}

/* --- piece by piece ----------------------------------------------------------------------------------------------- */

struct yaml_stream {
    reader reader;
    yaml_event_t event; /* the next one, where has_event */
    bool has_event;
    int depth; /* collections entered */
};

static void drop_event(yaml_stream *s) {
    if (s->has_event) yaml_event_delete(&s->event);
    s->has_event = false;
}

/* Makes s->event the next event that is not a mere start of stream or document. */
static weft_status next_event(yaml_stream *s) {
    while (!s->has_event) {
        if (!yaml_parser_parse(&s->reader.parser, &s->event)) return syntax_error(&s->reader);
        s->has_event = true;
        if (s->event.type == YAML_STREAM_START_EVENT || s->event.type == YAML_DOCUMENT_START_EVENT) drop_event(s);
    }
    if (s->event.type != YAML_STREAM_END_EVENT || s->depth) return NULL;
    return error_at_mark(&s->reader, WEFT_PARSE, s->event.start_mark, "expected a document, found nothing");
}

weft_status yaml_stream_open(weft_context *context, const char *bytes, size_t nbytes, const char *place,
                             const yaml_limits *limits, yaml_stream **out_stream) {
    yaml_stream *s = base_alloc(&context->allocator, sizeof *s);
    if (!s) return base_out_of_memory();
    *s = (yaml_stream){0};
    weft_status status = reader_init(&s->reader, context, bytes, nbytes, place, limits);
    if (status)
        base_free(&context->allocator, s, sizeof *s);
    else
        *out_stream = s;
    return status;
}

void yaml_stream_close(yaml_stream *s) {
    if (!s) return;
    weft_context *context = s->reader.context;
    drop_event(s);
    weft_status_free(s->reader.first_problem);
    reader_fini(&s->reader);
    base_free(&context->allocator, s, sizeof *s);
}

weft_status yaml_stream_peek(yaml_stream *s, yaml_node *out) {
    TRY(next_event(s));
    yaml_event_type_t type = s->event.type;
    node_kind kind = type == YAML_MAPPING_START_EVENT    ? NODE_MAPPING
                     : type == YAML_SEQUENCE_START_EVENT ? NODE_SEQUENCE
                                                         : NODE_SCALAR;
    *out = (yaml_node){.kind = kind,
                       .line = (int)s->event.start_mark.line + 1 + s->reader.line_offset,
                       .column = (int)s->event.start_mark.column + 1};
    return NULL;
}

weft_status yaml_stream_enter(yaml_stream *s, node_kind kind, const char *what) {
    yaml_node next;
    TRY(yaml_stream_peek(s, &next));
    const yaml_event_t *e = &s->event;
    if (e->type == YAML_ALIAS_EVENT) return take_event(&s->reader, e); /* an error */
    if (next.kind != kind || kind == NODE_SCALAR)
        return yaml_error(s->reader.context, &next, s->reader.place, "expected %s", what);
    bool anchored = kind == NODE_MAPPING ? e->data.mapping_start.anchor != NULL : e->data.sequence_start.anchor != NULL;
    if (anchored)
        return error_at_mark(&s->reader, WEFT_PARSE, e->start_mark, "expected no anchors: aliases are not read");
    if (kind == NODE_MAPPING ? e->data.mapping_start.tag != NULL : e->data.sequence_start.tag != NULL)
        return yaml_error(s->reader.context, &next, s->reader.place, "expected %s without a tag", what);
    s->depth++;
    drop_event(s);
    return NULL;
}

weft_status yaml_stream_more(yaml_stream *s, bool *out_more) {
    TRY(next_event(s));
    *out_more = s->event.type != YAML_SEQUENCE_END_EVENT && s->event.type != YAML_MAPPING_END_EVENT;
    if (*out_more) return NULL;
    drop_event(s);
    s->depth--;
    return NULL;
}

weft_status yaml_stream_take(yaml_stream *s, arena *a, yaml_node **out) {
    reader *r = &s->reader;
    r->arena = a;
    r->root = NULL;
    r->nframes = r->nnodes = r->nall_nodes = 0;
    while (!r->root || r->nframes) {
        weft_status status = next_event(s);
        if (!status) status = take_event(r, &s->event);
        drop_event(s);
        if (status) return take_first_problem(r, status);
    }
    TRY(take_first_problem(r, NULL));
    *out = r->root;
    return NULL;
}

weft_status yaml_stream_end(yaml_stream *s) {
    for (s->depth = 1;; drop_event(s)) {
        if (!s->has_event && !yaml_parser_parse(&s->reader.parser, &s->event)) return syntax_error(&s->reader);
        s->has_event = true;
        if (s->event.type == YAML_STREAM_END_EVENT) return NULL;
        if (s->event.type != YAML_DOCUMENT_END_EVENT)
            return error_at_mark(&s->reader, WEFT_PARSE, s->event.start_mark, "expected one document, found another");
    }
}

yaml_node *yaml_get(const yaml_node *mapping, const char *key) {
    if (mapping->kind != NODE_MAPPING) return NULL;
    size_t nbytes = strlen(key);
    for (size_t i = 0; i < mapping->count; i++) {
        const yaml_node *k = mapping->items[2 * i];
        if (k->nbytes == nbytes && memcmp(k->bytes, key, nbytes) == 0) return mapping->items[2 * i + 1];
    }
    return NULL;
}

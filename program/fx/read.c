/* read.c: a program from an FX graph (.fx.json): the document. The form: docs/fx-form.md.
 *
 * The text is walked, and only its entries become trees, one at a time, so memory does not grow with the text. Members
 * of the document may stand in any order: their places are found first, then they are read in the order in which they
 * build upon one another. Every name is defined once and before it is used, so a graph that was read has no cycle. What
 * has no place in a program is kept as text in fx_json: the document as it was, without its nodes. */
#include "program/fx/fx.h"
#include "program/grow.h"

enum { VALUE_NBYTES = 160, FREE_VALUES = 1 << 19 };

typedef struct member {
    const char *key;
    size_t nbytes;
    size_t at, end;           /* its value in the text */
    size_t kept_at, kept_end; /* in `kept`; both 0: from the text */
} member;

typedef struct document {
    member *members;
    size_t count, capacity;
    interner keys;
} document;

static weft_status find_member(fx_reader *r, document *d) {
    json_t *key;
    size_t key_at = r->text.at;
    TRY(json_take(&r->text, &key));
    weft_status status = NULL;
    if (!json_is_string(key)) TRY_DONE(json_error(&r->text, key_at, "expected a key"));
    size_t count = d->keys.count;
    const name *n = interner_get(&d->keys, json_string_value(key), json_string_length(key));
    if (!n) TRY_DONE(base_out_of_memory());
    if (d->keys.count == count) TRY_DONE(json_error(&r->text, key_at, "key \"%.100s\" is given twice", n->bytes));
    TRY_DONE(grow(&r->scratch, &d->members, &d->capacity, d->count + 1, sizeof *d->members));
    TRY_DONE(json_expect(&r->text, ':'));
    member *m = &d->members[d->count++];
    *m = (member){.key = n->bytes, .nbytes = n->nbytes, .at = r->text.at};
    TRY_DONE(json_skip(&r->text));
    m->end = r->text.at;
done:
    json_decref(key);
    return status;
}

static weft_status find_members(fx_reader *r, document *d) {
    interner_init(&d->keys, &r->scratch);
    TRY(json_expect(&r->text, '{'));
    if (!json_accept(&r->text, '}')) {
        do TRY(find_member(r, d));
        while (json_accept(&r->text, ','));
        TRY(json_expect(&r->text, '}'));
    }
    return json_at_end(&r->text) ? NULL : json_error(&r->text, r->text.at, "expected the end of the text");
}

static member *member_of(const document *d, const char *key) {
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->members[i].key, key) == 0) return &d->members[i];
    return NULL;
}

static weft_status check_schema(fx_reader *r, const document *d) {
    const member *m = member_of(d, "schema");
    json_t *schema;
    if (!m) return json_error(&r->text, 0, "expected \"schema\": \"fx.json/1\"");
    r->text.at = m->at;
    TRY(json_take(&r->text, &schema));
    bool known = json_is_string(schema) && strcmp(json_string_value(schema), "fx.json/1") == 0;
    weft_status status = NULL;
    if (!known)
        status =
            weft_status_create(WEFT_UNSUPPORTED, r->program->place, "expected schema \"fx.json/1\", found \"%.40s\"",
                               json_is_string(schema) ? json_string_value(schema) : "no string");
    json_decref(schema);
    return status;
}

/* In the order in which they build upon one another. */
static weft_status read_sections(fx_reader *r, const document *d) {
    static const struct {
        const char *key;
        weft_status (*read)(fx_reader *);
    } sections[] = {{"groups", fx_read_groups},
                    {"world_size", fx_read_world_size},
                    {"mesh", fx_read_mesh},
                    {"inputs", fx_read_inputs},
                    {"placements_in", fx_read_placements_in},
                    {"constants", fx_read_constants},
                    {"nodes", fx_read_nodes},
                    {"outputs", fx_read_outputs},
                    {"placements_out", fx_read_placements_out},
                    {"placements", fx_read_placements}};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        member *m = member_of(d, sections[i].key);
        if (!m) continue;
        r->text.at = r->at = m->at;
        m->kept_at = r->kept.nbytes;
        TRY(sections[i].read(r));
        m->kept_end = r->kept.nbytes;
        if (r->text.at != m->end) return json_error(&r->text, r->text.at, "expected the end of \"%s\"", m->key);
    }
    return NULL;
}

static weft_status keep_member(fx_reader *r, const member *m, buffer *out) {
    json_t *value;
    json_put_string(out, m->key, m->nbytes);
    buffer_text(out, ":");
    if (m->kept_end > m->kept_at) {
        buffer_append(out, r->kept.bytes + m->kept_at, m->kept_end - m->kept_at);
        return NULL;
    }
    r->text.at = m->at;
    TRY(json_take(&r->text, &value));
    json_put_value(out, value);
    json_decref(value);
    return NULL;
}

static weft_status keep_document(fx_reader *r, const document *d) {
    weft_program *p = r->program;
    buffer *out = &r->made;
    weft_status status = NULL;
    out->nbytes = 0;
    for (size_t i = 0; i < d->count && !status; i++) {
        buffer_text(out, i ? "," : "{");
        status = keep_member(r, &d->members[i], out);
    }
    if (status) return status;
    buffer_text(out, "}");
    TRY(buffer_status(&r->kept));
    TRY(buffer_status(out));
    TRY(form_charge(p, r->budget, out->nbytes));
    p->fx_json = arena_string(&p->arena, out->bytes, out->nbytes);
    return p->fx_json ? NULL : base_out_of_memory();
}

static weft_status read_document(fx_reader *r) {
    document d = {0};
    TRY(find_members(r, &d));
    TRY(check_schema(r, &d));
    TRY(read_sections(r, &d));
    return r->nproblems ? NULL : keep_document(r, &d);
}

/* The first problem, and how many there were. */
static weft_status summary(fx_reader *r, weft_status last) {
    weft_status first = r->first_problem;
    if (!first) return last;
    size_t count = r->nproblems + (last != NULL);
    weft_status_free(last);
    if (count == 1) return first;
    weft_status all = weft_status_create(WEFT_PARSE, weft_status_place(first), "%s (and %zu more)",
                                         weft_status_message(first), count - 1);
    weft_status_free(first);
    return all;
}

weft_status fx_parse(weft_program *p, const void *bytes, size_t nbytes) {
    fx_reader r = {.program = p, .block = p->blocks[0], .context = p->context, .budget = form_budget(nbytes)};
    r.text = (json_cursor){.context = p->context, .bytes = bytes, .nbytes = nbytes, .place = p->place};
    r.text.most_values = r.budget / VALUE_NBYTES + FREE_VALUES;
    arena_init(&r.scratch, &p->context->allocator);
    buffer_init(&r.kept, &p->context->allocator);
    buffer_init(&r.made, &p->context->allocator);
    weft_status status = fx_table_init(&r.table, &r.scratch);
    if (!status) status = read_document(&r);
    status = summary(&r, status);
    fx_table_fini(&r.table);
    buffer_fini(&r.made);
    buffer_fini(&r.kept);
    arena_fini(&r.scratch);
    return base_status_at(status, p->place);
}

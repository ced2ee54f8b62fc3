/* read.c: the JSON of a certificate as structs. Everything is checked for its type here; whether it is true
 * is for the others. */
#include "program/grow.h"
#include "proof/certificate/certificate.h"

typedef struct reader {
    arena *arena;
    const char *place;
    cert_document *doc;
} reader;

enum {
    HAS_OP = 1,
    HAS_OTHER = 2,
    HAS_VAR = 4,
    HAS_TO = 8,
    HAS_BYTES = 16,
    HAS_TEXT = 32,
    HAS_FACTOR = 64,
    HAS_RING = 128
};

static const struct {
    const char *word;
    unsigned has;
} kinds[CERT_KIND_COUNT] = {
    [CERT_RANKS] = {"ranks", HAS_RING | HAS_TEXT},
    [CERT_FEED] = {"feed", HAS_VAR | HAS_TEXT},
    [CERT_REDUCE] = {"reduce", HAS_OP | HAS_OTHER | HAS_VAR | HAS_FACTOR},
    [CERT_DENSE] = {"dense", HAS_OP},
    [CERT_SEED] = {"seed", HAS_OP | HAS_VAR | HAS_FACTOR},
    [CERT_FACTOR] = {"factor", HAS_OP | HAS_OTHER | HAS_VAR | HAS_FACTOR | HAS_TEXT},
    [CERT_SLICE] = {"slice", HAS_OP | HAS_VAR | HAS_BYTES},
    [CERT_MEMBER] = {"member", HAS_OP | HAS_OTHER | HAS_VAR | HAS_TO},
    [CERT_STREAM] = {"stream", HAS_OP | HAS_TEXT},
    [CERT_WAIT] = {"wait", HAS_OP | HAS_OTHER | HAS_VAR},
    [CERT_SAME] = {"same", HAS_OP | HAS_OTHER},
    [CERT_FILL] = {"fill", HAS_OP | HAS_VAR},
    [CERT_WEIGHT] = {"weight", HAS_OP | HAS_VAR},
    [CERT_WEIGH] = {"weigh", HAS_OP | HAS_OTHER | HAS_VAR},
    [CERT_GATHER] = {"gather", HAS_OP | HAS_OTHER | HAS_VAR | HAS_TEXT | HAS_FACTOR},
};

static weft_status expected(const reader *r, const char *what, const char *key) {
    return weft_status_create(WEFT_PARSE, r->place, "certificate: expected %s under \"%s\"", what, key);
}

static weft_status get_text(const reader *r, const json_t *object, const char *key, const char **out) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_string(v)) return expected(r, "a text", key);
    *out = json_string_value(v);
    return NULL;
}

static weft_status get_number(const reader *r, const json_t *object, const char *key, int64_t *out) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_integer(v)) return expected(r, "a whole number", key);
    *out = json_integer_value(v);
    return NULL;
}

static weft_status get_factor(const reader *r, const json_t *object, const char *key, double *out) {
    const json_t *v = json_object_get(object, key);
    if (!json_is_number(v)) return expected(r, "a number", key);
    *out = json_number_value(v);
    return NULL;
}

static weft_status get_list(const reader *r, const json_t *object, const char *key, const json_t **out) {
    *out = json_object_get(object, key);
    return json_is_array(*out) ? NULL : expected(r, "a list", key);
}

/* Numbers, or [number, type] where `types` is given. */
static weft_status get_numbers(const reader *r, const json_t *object, const char *key, cert_numbers *out,
                               const char ***types) {
    const json_t *list;
    TRY(get_list(r, object, key, &list));
    size_t count = json_array_size(list);
    out->items = ARENA_ARRAY(r->arena, int64_t, count + 1);
    if (types) *types = ARENA_ARRAY(r->arena, const char *, count + 1);
    if (!out->items || (types && !*types)) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i), *number = types ? json_array_get(item, 0) : item;
        if (!json_is_integer(number)) return expected(r, "numbers of ops", key);
        out->items[out->count++] = json_integer_value(number);
        if (!types) continue;
        const json_t *type = json_array_get(item, 1);
        if (!json_is_string(type)) return expected(r, "numbers and types of ops", key);
        (*types)[i] = json_string_value(type);
    }
    return NULL;
}

static weft_status read_claim(reader *r, const json_t *object, size_t pass) {
    const char *word = NULL;
    TRY(get_text(r, object, "claim", &word));
    unsigned kind = 0;
    while (kind < CERT_KIND_COUNT && strcmp(word, kinds[kind].word) != 0) kind++;
    if (kind == CERT_KIND_COUNT)
        return weft_status_create(WEFT_PARSE, r->place, "certificate: no kind of claim is called \"%s\"", word);
    unsigned has = kinds[kind].has;
    cert_claim c = {.kind = (cert_kind)kind, .pass = pass, .op = -1, .other = -1};
    if (has & HAS_OP) TRY(get_number(r, object, "op", &c.op));
    if (has & HAS_OTHER) TRY(get_number(r, object, "other", &c.other));
    if (has & HAS_VAR) TRY(get_text(r, object, "var", &c.var));
    if (has & HAS_TO) TRY(get_text(r, object, "to", &c.to));
    if (has & HAS_TEXT) TRY(get_text(r, object, "text", &c.text));
    if (has & HAS_FACTOR) TRY(get_factor(r, object, "factor", &c.factor));
    if (has & HAS_RING) TRY(get_number(r, object, "ring", &c.ring));
    if (has & HAS_RING) TRY(get_number(r, object, "count", &c.count));
    if (has & HAS_BYTES) {
        TRY(get_text(r, object, "buffer", &c.buffer));
        TRY(get_number(r, object, "offset", &c.offset));
        TRY(get_number(r, object, "nbytes", &c.nbytes));
    }
    TRY(grow(r->arena, &r->doc->claims, &r->doc->claim_capacity, r->doc->nclaims + 1, sizeof c));
    r->doc->claims[r->doc->nclaims++] = c;
    return NULL;
}

static weft_status read_pass(reader *r, const json_t *object, cert_pass *out) {
    TRY(get_text(r, object, "pass", &out->name));
    TRY(get_text(r, object, "before", &out->before));
    TRY(get_text(r, object, "after", &out->after));
    TRY(get_numbers(r, object, "inserted", &out->inserted, &out->types));
    TRY(get_numbers(r, object, "removed", &out->removed, NULL));
    TRY(get_numbers(r, object, "moved", &out->moved, NULL));
    out->plan = json_object_get(object, "plan");
    const json_t *claims = json_object_get(object, "claims");
    if (json_is_null(claims)) return NULL;
    out->claims_all = true;
    TRY(get_list(r, object, "claims", &claims));
    for (size_t i = 0; i < json_array_size(claims); i++)
        TRY(read_claim(r, json_array_get(claims, i), (size_t)(out - r->doc->passes)));
    return NULL;
}

/* Runs of [first, how many]; no more ops than a program can have. */
static weft_status read_order(reader *r, const json_t *root) {
    const json_t *runs;
    size_t capacity = 0;
    TRY(get_list(r, root, "ops", &runs));
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i), *first = json_array_get(run, 0), *many = json_array_get(run, 1);
        if (!json_is_integer(first) || !json_is_integer(many)) return expected(r, "pairs of numbers", "ops");
        int64_t start = json_integer_value(first), count = json_integer_value(many);
        if (start < 0 || count < 0 || start > INT32_MAX || count > INT32_MAX ||
            r->doc->order.count + (size_t)count > INT32_MAX)
            return weft_status_create(WEFT_LIMIT, r->place, "certificate: more ops than a program can have");
        TRY(grow(r->arena, &r->doc->order.items, &capacity, r->doc->order.count + (size_t)count, sizeof(int64_t)));
        for (int64_t k = 0; k < count; k++) r->doc->order.items[r->doc->order.count++] = start + k;
    }
    return NULL;
}

weft_status cert_read(weft_context *context, const char *bytes, size_t nbytes, const char *place, arena *a,
                      cert_document *out) {
    reader r = {a, place, out};
    int64_t version = 0;
    const json_t *passes;
    TRY(json_read(context, bytes, nbytes, place, &out->root));
    if (!json_is_object(out->root)) return expected(&r, "an object", "weft_certificate");
    TRY(get_number(&r, out->root, "weft_certificate", &version));
    if (version != 1)
        return weft_status_create(WEFT_UNSUPPORTED, place, "certificate: expected version 1, found %lld",
                                  (long long)version);
    TRY(get_text(&r, out->root, "before", &out->before));
    TRY(get_text(&r, out->root, "after", &out->after));
    TRY(read_order(&r, out->root));
    TRY(get_list(&r, out->root, "passes", &passes));
    if (!(out->passes = ARENA_ARRAY(a, cert_pass, json_array_size(passes) + 1))) return base_out_of_memory();
    for (; out->npasses < json_array_size(passes); out->npasses++)
        TRY(read_pass(&r, json_array_get(passes, out->npasses), &out->passes[out->npasses]));
    return NULL;
}

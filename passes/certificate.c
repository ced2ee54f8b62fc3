/* certificate.c: what passes claim, as JSON.
 *
 * Ops of block 0 get numbers that last: those of the first program by position, new ones in the order in which passes
 * insert them. After each pass the block is compared with what it was: numbers that are new, gone, and out of order
 * (the fewest whose removal leaves the rest in order). Claims name ops by pointer while the pass runs and by number
 * after it.
 */
#include "passes/certificate.h"

#include <inttypes.h>

#include "base/json.h"
#include "program/grow.h"
#include "weft/certificate.h"

/* --- numbers of ops ----------------------------------------------------------------------------------------------- */

static table_probe find_op(const certifier *c, const weft_op *op) {
    table_probe at = table_find(&c->table, table_hash((uintptr_t)op));
    while (at.item != TABLE_NONE && c->known[at.item] != op) table_next(&c->table, &at);
    return at;
}

static weft_status make_room(certifier *c, size_t more) {
    TRY(grow(&c->arena, &c->known, &c->known_capacity, c->nknown + more, sizeof *c->known));
    return table_reserve(&c->arena, &c->table, c->nknown + more);
}

/* -1: the op never stood in the block. */
static int64_t number_of(const certifier *c, const weft_op *op) {
    uint32_t number = op ? find_op(c, op).item : TABLE_NONE;
    return number == TABLE_NONE ? -1 : (int64_t)number;
}

static int64_t number_given(certifier *c, const weft_op *op, bool *out_is_new) {
    table_probe at = find_op(c, op);
    *out_is_new = at.item == TABLE_NONE;
    if (*out_is_new) {
        c->known[c->nknown] = op;
        table_put(&c->table, &at, (uint32_t)c->nknown++);
    }
    return at.item;
}

weft_status certifier_begin(certifier *c, const weft_pass_list *list, const weft_program *p, weft_report *report) {
    *c = (certifier){.on = list->certify};
    if (!c->on) return NULL;
    arena_init(&c->arena, &list->context->allocator);
    const weft_block *b = p->blocks[0];
    TRY(make_room(c, b->nops));
    if (!(c->order = ARENA_ARRAY(&c->arena, int64_t, b->nops + 1))) return base_out_of_memory();
    bool is_new;
    FOR_EACH_OP(op, b) c->order[c->nops++] = number_given(c, op, &is_new);
    program_digest(p, c->digest);
    report->certified = true;
    memcpy(report->digest, c->digest, sizeof report->digest);
    return NULL;
}

void certifier_end(certifier *c) {
    if (c->on) arena_fini(&c->arena);
}

/* The library's passes say all that they do; a host's cannot yet. */
static bool is_ours(const weft_pass *pass) {
#define PASS(name, summary)                                                                                            \
    if (pass->run == pass_##name.run) return true;
#include "passes/passes.def"
#undef PASS
    return false;
}

weft_status certificate_begin(const certifier *c, const weft_pass *pass, weft_report *report, pass_report *out) {
    if (!c->on) return NULL;
    out->certificate = ARENA_NEW(&report->arena, pass_certificate);
    if (!out->certificate) return base_out_of_memory();
    out->certificate->claims_all = is_ours(pass);
    memcpy(out->certificate->before, c->digest, sizeof c->digest);
    return NULL;
}

/* --- what changed ------------------------------------------------------------------------------------------------- */

/* The longest part of `items` that is in ascending order of `rank` is marked in `stays`: patience sorting. */
static weft_status longest_in_order(arena *a, const size_t *ranks, size_t count, bool *stays) {
    size_t *tails = ARENA_ARRAY(a, size_t, count + 1), *before = ARENA_ARRAY(a, size_t, count + 1), length = 0;
    if (!tails || !before) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        size_t low = 0, high = length;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (ranks[tails[middle]] < ranks[i])
                low = middle + 1;
            else
                high = middle;
        }
        before[i] = low ? tails[low - 1] : SIZE_MAX;
        tails[low] = i;
        length += low == length;
    }
    for (size_t i = length ? tails[length - 1] : SIZE_MAX; i != SIZE_MAX; i = before[i]) stays[i] = true;
    return NULL;
}

static weft_status find_moved(certifier *c, const int64_t *order, const size_t *rank_before, size_t nops, arena *to,
                              number_list *out) {
    size_t *ranks = ARENA_ARRAY(&c->arena, size_t, nops + 1), count = 0, nstay = 0;
    int64_t *kept = ARENA_ARRAY(&c->arena, int64_t, nops + 1);
    bool *stays = ARENA_ARRAY(&c->arena, bool, nops + 1);
    if (!ranks || !kept || !stays) return base_out_of_memory();
    for (size_t i = 0; i < nops; i++)
        if (rank_before[order[i]]) kept[count] = order[i], ranks[count++] = rank_before[order[i]];
    TRY(longest_in_order(&c->arena, ranks, count, stays));
    for (size_t i = 0; i < count; i++) nstay += stays[i];
    if (!(out->items = ARENA_ARRAY(to, int64_t, count - nstay + 1))) return base_out_of_memory();
    for (size_t i = 0; i < count; i++)
        if (!stays[i]) out->items[out->count++] = kept[i];
    return NULL;
}

static weft_status find_removed(const certifier *c, const bool *is_there, arena *to, number_list *out) {
    size_t count = 0;
    for (size_t i = 0; i < c->nops; i++) count += !is_there[c->order[i]];
    if (!(out->items = ARENA_ARRAY(to, int64_t, count + 1))) return base_out_of_memory();
    for (size_t i = 0; i < c->nops; i++)
        if (!is_there[c->order[i]]) out->items[out->count++] = c->order[i];
    return NULL;
}

static weft_status compare_blocks(certifier *c, const weft_block *b, arena *to, pass_certificate *out) {
    size_t nknown = c->nknown, nops = 0;
    TRY(make_room(c, b->nops));
    int64_t *order = ARENA_ARRAY(&c->arena, int64_t, b->nops + 1);
    out->inserted.items = ARENA_ARRAY(to, int64_t, b->nops + 1);
    out->types = ARENA_ARRAY(to, const char *, b->nops + 1);
    if (!order || !out->inserted.items || !out->types) return base_out_of_memory();
    FOR_EACH_OP(op, b) {
        bool is_new;
        order[nops++] = number_given(c, op, &is_new);
        if (!is_new) continue;
        out->types[out->inserted.count] = arena_string(to, op->type->bytes, op->type->nbytes);
        if (!out->types[out->inserted.count]) return base_out_of_memory();
        out->inserted.items[out->inserted.count++] = order[nops - 1];
    }
    size_t *rank_before = ARENA_ARRAY(&c->arena, size_t, c->nknown + 1);
    bool *is_there = ARENA_ARRAY(&c->arena, bool, c->nknown + 1);
    if (!rank_before || !is_there) return base_out_of_memory();
    for (size_t i = 0; i < c->nops; i++) rank_before[c->order[i]] = i + 1;
    for (size_t i = 0; i < nops; i++) is_there[order[i]] = true;
    TRY(find_moved(c, order, rank_before, nops, to, &out->moved));
    if (nknown) TRY(find_removed(c, is_there, to, &out->removed));
    c->order = order;
    c->nops = nops;
    return NULL;
}

weft_status certificate_end(certifier *c, const weft_program *p, weft_report *report, pass_report *out) {
    pass_certificate *made = out->certificate;
    if (!made) return NULL;
    TRY(compare_blocks(c, p->blocks[0], &report->arena, made));
    for (size_t i = 0; i < made->nclaims; i++) {
        kept_claim *k = &made->claims[i];
        k->op = number_of(c, k->claim.op);
        k->other = number_of(c, k->claim.other);
    }
    program_digest(p, c->digest);
    memcpy(made->after, c->digest, sizeof c->digest);
    report->order = arena_copy(&report->arena, c->order, c->nops * sizeof *c->order);
    report->norder = c->nops;
    return report->order || !c->nops ? NULL : base_out_of_memory();
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

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
} kinds[CLAIM_COUNT] = {
    [CLAIM_RANKS] = {"ranks", HAS_RING | HAS_TEXT},
    [CLAIM_FEED] = {"feed", HAS_VAR | HAS_TEXT},
    [CLAIM_REDUCE] = {"reduce", HAS_OP | HAS_OTHER | HAS_VAR | HAS_FACTOR},
    [CLAIM_DENSE] = {"dense", HAS_OP},
    [CLAIM_SEED] = {"seed", HAS_OP | HAS_VAR | HAS_FACTOR},
    [CLAIM_FACTOR] = {"factor", HAS_OP | HAS_OTHER | HAS_VAR | HAS_FACTOR | HAS_TEXT},
    [CLAIM_SLICE] = {"slice", HAS_OP | HAS_VAR | HAS_BYTES},
    [CLAIM_MEMBER] = {"member", HAS_OP | HAS_OTHER | HAS_VAR | HAS_TO},
    [CLAIM_STREAM] = {"stream", HAS_OP | HAS_TEXT},
    [CLAIM_WAIT] = {"wait", HAS_OP | HAS_OTHER | HAS_VAR},
    [CLAIM_SAME] = {"same", HAS_OP | HAS_OTHER},
    [CLAIM_FILL] = {"fill", HAS_OP | HAS_VAR},
    [CLAIM_WEIGHT] = {"weight", HAS_OP | HAS_VAR},
    [CLAIM_WEIGH] = {"weigh", HAS_OP | HAS_OTHER | HAS_VAR},
    [CLAIM_GATHER] = {"gather", HAS_OP | HAS_OTHER | HAS_VAR | HAS_TEXT | HAS_FACTOR},
};

static void put_name(buffer *out, const char *key, const char *message) {
    buffer_format(out, ", \"%s\": ", key);
    json_put_string(out, message ? message : "", message ? strlen(message) : 0);
}

static void put_number(buffer *out, const char *key, int64_t value) {
    buffer_format(out, ", \"%s\": %" PRId64, key, value);
}

static void put_claim(buffer *out, const kept_claim *k) {
    unsigned has = kinds[k->claim.kind].has;
    buffer_format(out, "{\"claim\": \"%s\"", kinds[k->claim.kind].word);
    if (has & HAS_OP) put_number(out, "op", k->op);
    if (has & HAS_OTHER) put_number(out, "other", k->other);
    if (has & HAS_VAR) put_name(out, "var", k->var);
    if (has & HAS_TO) put_name(out, "to", k->to);
    if (has & HAS_BYTES) {
        put_name(out, "buffer", k->buffer);
        put_number(out, "offset", k->claim.offset);
        put_number(out, "nbytes", k->claim.nbytes);
    }
    if (has & HAS_RING) put_number(out, "ring", k->claim.ring), put_number(out, "count", k->claim.count);
    if (has & HAS_FACTOR) {
        buffer_text(out, ", \"factor\": ");
        buffer_double(out, k->claim.factor);
    }
    if (has & HAS_TEXT) put_name(out, "text", k->claim.text);
    buffer_text(out, "}");
}

static void put_numbers(buffer *out, const char *key, const number_list *list, const char *const *types) {
    buffer_format(out, ",\n   \"%s\": [", key);
    for (size_t i = 0; i < list->count; i++) {
        buffer_format(out, types ? "%s[%" PRId64 ", " : "%s%" PRId64, i ? ", " : "", list->items[i]);
        if (types) json_put_string(out, types[i], strlen(types[i]));
        if (types) buffer_text(out, "]");
    }
    buffer_text(out, "]");
}

static void put_pass(buffer *out, const pass_report *of) {
    const pass_certificate *c = of->certificate;
    buffer_text(out, "  {\"pass\": ");
    json_put_string(out, of->name, strlen(of->name));
    buffer_format(out, ", \"before\": \"%s\", \"after\": \"%s\"", c->before, c->after);
    put_numbers(out, "inserted", &c->inserted, c->types);
    put_numbers(out, "removed", &c->removed, NULL);
    put_numbers(out, "moved", &c->moved, NULL);
    if (c->plan) {
        buffer_text(out, ",\n   \"plan\": ");
        buffer_text(out, c->plan);
    }
    buffer_text(out, c->claims_all ? ",\n   \"claims\": [" : ",\n   \"claims\": null");
    for (size_t i = 0; c->claims_all && i < c->nclaims; i++) {
        buffer_text(out, i ? ",\n    " : "\n    ");
        put_claim(out, &c->claims[i]);
    }
    buffer_text(out, c->claims_all ? "]}" : "}");
}

/* Runs of numbers that follow each other: [first, how many]. */
static void put_order(buffer *out, const int64_t *order, size_t count) {
    buffer_text(out, "\"ops\": [");
    for (size_t i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && order[i + n] == order[i] + (int64_t)n; n++) {
        }
        buffer_format(out, "%s[%" PRId64 ", %zu]", i ? ", " : "", order[i], n);
    }
    buffer_text(out, "]");
}

weft_status weft_report_certificate(const weft_report *report, char **out_bytes, size_t *out_nbytes) {
    if (!report->certified || !report->npasses || !report->passes[report->npasses - 1].certificate ||
        !report->passes[report->npasses - 1].certificate->after[0])
        return weft_status_create(WEFT_NOT_FOUND, "certificate",
                                  "the pass list was not asked for one, was empty or failed");
    buffer out;
    buffer_init(&out, &report->context->allocator);
    const pass_report *last = &report->passes[report->npasses - 1];
    buffer_format(&out, "{\"weft_certificate\": 1, \"before\": \"%s\", \"after\": \"%s\",\n ", report->digest,
                  last->certificate->after);
    put_order(&out, report->order, report->norder);
    buffer_text(&out, ",\n \"passes\": [\n");
    for (size_t i = 0; i < report->npasses; i++) {
        if (i) buffer_text(&out, ",\n");
        put_pass(&out, &report->passes[i]);
    }
    buffer_text(&out, "]}\n");
    return buffer_take(&out, out_bytes, out_nbytes);
}

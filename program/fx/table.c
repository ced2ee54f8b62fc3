/* table.c: fx.def, parsed into rows that are found by target. Its text is ours, so a mistake in it is an error that
 * names the row, which the tests find. */
#include <ctype.h>
#include <stdio.h>

#include "program/fx/fx.h"

typedef struct row_text {
    const char *target, *op_type, *args, *outs;
    bool is_collective;
} row_text;

static const row_text texts[] = {
#define FX(target, op_type, args, outs) {target, #op_type, args, outs, false},
#define FX_COLLECTIVE(target, op_type, args, outs) {target, #op_type, args, outs, true},
#include "program/fx/fx.def"
#undef FX
#undef FX_COLLECTIVE
};
enum { NROWS = sizeof texts / sizeof *texts };

/* --- words -------------------------------------------------------------------------------------------------------- */

static const char *const type_words[] = {
    [FX_INT] = "int",       [FX_FLOAT] = "float", [FX_FLOAT64] = "float64",        [FX_BOOL] = "bool",
    [FX_STRING] = "string", [FX_INTS] = "ints",   [FX_FLOATS] = "floats",          [FX_FLOAT64S] = "float64s",
    [FX_DTYPE] = "dtype",   [FX_RING] = "ring",   [FX_REDUCE_TYPE] = "reduce_type"};
enum { NTYPES = sizeof type_words / sizeof *type_words };

static const char *const reduce_words[] = {[WEFT_REDUCE_SUM] = "sum",
                                           [WEFT_REDUCE_MAX] = "max",
                                           [WEFT_REDUCE_MIN] = "min",
                                           [WEFT_REDUCE_PROD] = "product",
                                           [WEFT_REDUCE_AVG] = "avg"};
enum { NREDUCES = sizeof reduce_words / sizeof *reduce_words };

int fx_reduce_parse(const char *word, size_t nbytes) {
    for (int i = 0; i < NREDUCES; i++)
        if (strlen(reduce_words[i]) == nbytes && memcmp(reduce_words[i], word, nbytes) == 0) return i;
    return -1;
}

const char *fx_reduce_name(int64_t reduce) {
    return reduce >= 0 && reduce < NREDUCES ? reduce_words[reduce] : NULL;
}

const json_t *fx_ref(const json_t *value) {
    if (!json_is_object(value) || json_object_size(value) != 1) return NULL;
    const json_t *ref = json_object_get(value, "ref");
    return json_is_string(ref) ? ref : NULL;
}

uint32_t fx_ntensors(const fx_value *value) {
    uint32_t count = value->var != NULL;
    for (uint32_t i = 0; i < value->count; i++) count += fx_ntensors(&value->items[i]);
    return count;
}

/* --- items of a list ---------------------------------------------------------------------------------------------- */

typedef struct row_parser {
    arena *arena;
    const row_text *text;
    fx_row *row;
} row_parser;

static weft_status row_error(const row_parser *p, const char *item, const char *what) {
    return weft_status_create(WEFT_RUNTIME, "fx.def", "%s, \"%s\": %s", p->text->target, item, what);
}

/* The next item of a list that commas outside brackets part, without spaces around it; NULL at the end. */
static weft_status next_item(const row_parser *p, const char **at, char **out) {
    const char *start = *at + strspn(*at, " "), *end = start;
    int depth = 0;
    *out = NULL;
    if (!*start) return NULL;
    for (; *end && (*end != ',' || depth); end++) depth += (*end == '[') - (*end == ']');
    *at = *end ? end + 1 : end;
    while (end > start && end[-1] == ' ') end--;
    *out = arena_string(p->arena, start, (size_t)(end - start));
    return *out ? NULL : base_out_of_memory();
}

static size_t count_items(const char *list) {
    size_t count = 1;
    for (; *list; list++) count += *list == ',';
    return count;
}

/* Cuts `item` at the first `mark` and gives what is behind it; NULL: none. */
static char *cut(char *item, char mark) {
    char *at = strchr(item, mark);
    if (at) *at++ = '\0';
    return at;
}

/* Cuts off a last character. */
static bool cut_last(char *item, char mark) {
    size_t n = strlen(item);
    if (!n || item[n - 1] != mark) return false;
    item[n - 1] = '\0';
    return true;
}

static weft_status parse_literal(const char *literal, json_t **out) {
    json_error_t error;
    *out = json_loads(literal, JSON_DECODE_ANY, &error);
    if (!*out) *out = json_string(literal);
    return *out ? NULL : base_out_of_memory();
}

static weft_status parse_type(const row_parser *p, const char *item, const char *word, fx_type *out) {
    for (int i = 0; word && i < NTYPES; i++)
        if (strcmp(type_words[i], word) == 0) return *out = (fx_type)i, NULL;
    return row_error(p, item, "expected a type");
}

/* --- arguments ---------------------------------------------------------------------------------------------------- */

static weft_status parse_value(const row_parser *p, const char *item, char *attr, fx_arg *arg) {
    char *type = cut(attr, ':'), *fallback = type ? cut(type, '=') : NULL;
    arg->may_be_null = type && cut_last(type, '?');
    arg->to = attr;
    TRY(parse_type(p, item, type, &arg->type));
    return fallback ? parse_literal(fallback, &arg->literal) : NULL;
}

static weft_status parse_arg(const row_parser *p, const char *text_of, char *item, fx_arg *arg) {
    char *behind;
    if (item[0] == '+') {
        arg->kind = FX_IMPLIED;
        TRY(parse_value(p, text_of, item + 1, arg));
        return arg->literal ? NULL : row_error(p, text_of, "expected a value");
    }
    arg->name = item;
    size_t word = strcspn(item, ">:=");
    if (item[word] == '>') {
        behind = cut(item, '>');
        arg->places = cut(behind, '#');
        arg->may_be_null = cut_last(behind, '?');
        arg->one_dtype = cut_last(behind, '~');
        arg->kind = cut_last(behind, '*') ? FX_TENSORS : FX_TENSOR;
        arg->to = behind;
        return *behind ? NULL : row_error(p, text_of, "expected a slot");
    }
    if (item[word] == ':') {
        behind = cut(item, ':');
        arg->kind = FX_VALUE;
        return parse_value(p, text_of, behind, arg);
    }
    if (item[word] == '=') {
        behind = cut(item, '=');
        arg->kind = FX_LITERAL;
        arg->may_be_omitted = *behind != '=';
        return parse_literal(behind + (*behind == '='), &arg->literal);
    }
    arg->kind = FX_ANY;
    return NULL;
}

static weft_status parse_args(const row_parser *p) {
    fx_row *row = p->row;
    const char *at = p->text->args;
    row->args = ARENA_ARRAY(p->arena, fx_arg, count_items(at));
    if (!row->args) return base_out_of_memory();
    for (char *item;;) {
        TRY(next_item(p, &at, &item));
        if (!item) return NULL;
        const char *whole = arena_string(p->arena, item, strlen(item));
        if (!whole) return base_out_of_memory();
        fx_arg *arg = &row->args[row->nargs++];
        TRY(parse_arg(p, whole, item, arg));
        if (arg->kind != FX_IMPLIED && row->nnamed + 1 != row->nargs)
            return row_error(p, whole, "expected arguments before implied attrs");
        row->nnamed += arg->kind != FX_IMPLIED;
        for (const fx_arg *other = row->args; other < arg; other++)
            if (arg->to && other->to && strcmp(arg->to, other->to) == 0)
                return row_error(p, whole, "its slot or attr is there twice");
    }
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

static weft_status find_arg(const row_parser *p, const char *item, const char *n, int *out) {
    *out = -1;
    if (!n) return NULL;
    for (uint32_t i = 0; i < p->row->nnamed; i++)
        if (strcmp(p->row->args[i].name, n) == 0 && p->row->args[i].kind <= FX_TENSORS) *out = (int)i;
    return *out >= 0 ? NULL : row_error(p, item, "expected the name of an argument that is a tensor");
}

static weft_status parse_outs(const row_parser *p) {
    fx_row *row = p->row;
    const char *at = p->text->outs;
    row->outs = ARENA_ARRAY(p->arena, fx_out, count_items(at));
    if (!row->outs) return base_out_of_memory();
    for (char *item;;) {
        TRY(next_item(p, &at, &item));
        if (!item) return NULL;
        const char *whole = arena_string(p->arena, item, strlen(item));
        if (!whole) return base_out_of_memory();
        fx_out *out = &row->outs[row->nouts++];
        const char *writes = cut(item, '='), *view = cut(item, '&');
        *out = (fx_out){.slot = item, .is_optional = cut_last(item, '?'), .is_list = cut_last(item, '*')};
        out->is_nested = out->is_list && cut_last(item, '*');
        TRY(find_arg(p, whole, writes, &out->writes));
        TRY(find_arg(p, whole, view, &out->view_of));
        if (!isalpha((unsigned char)*item)) return row_error(p, whole, "expected a slot");
    }
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static table_probe find_place(const fx_table *t, const char *target, size_t nbytes) {
    table_probe at = table_find(&t->by_target, base_hash(target, nbytes));
    while (at.item != TABLE_NONE &&
           (strlen(t->rows[at.item].target) != nbytes || memcmp(t->rows[at.item].target, target, nbytes) != 0))
        table_next(&t->by_target, &at);
    return at;
}

static weft_status parse_row(fx_table *t, arena *a, const row_text *from) {
    uint32_t number = (uint32_t)t->count++;
    fx_row *row = &t->rows[number];
    *row = (fx_row){.target = from->target, .op_type = from->op_type, .is_collective = from->is_collective};
    row_parser p = {.arena = a, .text = from, .row = row};
    TRY(parse_args(&p));
    TRY(parse_outs(&p));
    table_probe at = find_place(t, row->target, strlen(row->target));
    if (at.item == TABLE_NONE) {
        table_put(&t->by_target, &at, number);
    } else {
        fx_row *last = &t->rows[at.item];
        while (last->next) last = last->next;
        last->next = row;
    }
    return NULL;
}

weft_status fx_table_init(fx_table *t, arena *a) {
    *t = (fx_table){.rows = NULL};
    t->rows = ARENA_ARRAY(a, fx_row, NROWS);
    if (!t->rows) return base_out_of_memory();
    TRY(table_reserve(a, &t->by_target, NROWS));
    for (size_t i = 0; i < NROWS; i++) TRY(parse_row(t, a, &texts[i]));
    return NULL;
}

void fx_table_fini(fx_table *t) {
    for (size_t i = 0; i < t->count; i++)
        for (uint32_t k = 0; k < t->rows[i].nargs; k++) json_decref(t->rows[i].args[k].literal);
    *t = (fx_table){0};
}

const fx_row *fx_table_find(const fx_table *t, const char *target, size_t nbytes) {
    table_probe at = find_place(t, target, nbytes);
    return at.item == TABLE_NONE ? NULL : &t->rows[at.item];
}

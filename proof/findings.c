/* findings.c: findings as a list, as text, as JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "program/grow.h"
#include "proof/findings.h"

weft_status finding_add(weft_findings *f, weft_verdict verdict, weft_finding **out) {
    *out = NULL;
    if (f->count >= f->max) {
        f->nleft_out++;
        return NULL;
    }
    TRY(grow(&f->arena, &f->items, &f->capacity, f->count + 1, sizeof *f->items));
    *out = &f->items[f->count++];
    **out = (weft_finding){.verdict = verdict, .message = "", .value = "", .state = "", .ring = -1, .remedy = ""};
    return NULL;
}

weft_status finding_says(weft_findings *f, const char **out, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int nbytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *kept = nbytes < 0 ? NULL : arena_alloc(&f->arena, (size_t)nbytes + 1);
    if (kept) vsnprintf(kept, (size_t)nbytes + 1, format, again);
    va_end(again);
    if (!kept) return base_out_of_memory();
    *out = kept;
    return NULL;
}

weft_status findings_add_note(weft_findings *f, const char *format, ...) {
    char note[512];
    va_list args;
    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
    for (size_t i = 0; i < f->nnotes; i++)
        if (strcmp(f->notes[i], note) == 0) return NULL;
    TRY(grow(&f->arena, &f->notes, &f->note_capacity, f->nnotes + 1, sizeof *f->notes));
    f->notes[f->nnotes] = arena_string(&f->arena, note, strlen(note));
    return f->notes[f->nnotes++] ? NULL : base_out_of_memory();
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

/* The innermost frame of the call stack that is not within a framework: "train.py:30"; NULL: out of memory. */
static const char *model_line(weft_findings *f, const weft_op *op) {
    const weft_attr *stack = op ? op_find_attr(op, "op_callstack") : NULL;
    if (!stack || stack->type != ATTR_STRINGS) return "";
    for (size_t i = stack->count; i-- > 0;) {
        const char *frame = stack->u.strings[i]->bytes, *file = strstr(frame, "File \""), *end, *line;
        if (!file || strstr(frame, "site-packages") || strstr(frame, "/paddle/")) continue;
        file += strlen("File \"");
        if (!(end = strchr(file, '"')) || !(line = strstr(end, "line "))) continue;
        for (const char *slash = file; (slash = memchr(slash, '/', (size_t)(end - slash)));) file = ++slash;
        return arena_format(&f->arena, "%.*s:%d", (int)(end - file), file, atoi(line + strlen("line ")));
    }
    return "";
}

static const char *kept(weft_findings *f, const char *bytes) {
    return arena_string(&f->arena, bytes, strlen(bytes));
}

weft_status finding_op(weft_findings *f, weft_finding *to, const proof_schedule *s, size_t event, int64_t rank,
                       const char *role) {
    weft_finding_op *ops = ARENA_ARRAY(&f->arena, weft_finding_op, to->nops + 1);
    if (!ops) return base_out_of_memory();
    if (to->nops) memcpy(ops, to->ops, to->nops * sizeof *ops);
    const proof_event *e = &s->events[event];
    weft_finding_op *o = &ops[to->nops++];
    *o = (weft_finding_op){.index = e->op_index, .rank = rank, .line = model_line(f, e->op)};
    o->type = kept(f, e->op ? e->op->type->bytes : "op");
    o->stream = kept(f, s->streams[e->stream]);
    o->role = kept(f, role);
    to->ops = ops;
    return o->line && o->type && o->stream && o->role ? NULL : base_out_of_memory();
}

const char *finding_op_text(const weft_finding_op *op, char *out, size_t room) {
    if (op->line[0])
        snprintf(out, room, "%s #%lld (%s)", op->type, (long long)op->index, op->line);
    else
        snprintf(out, room, "%s #%lld", op->type, (long long)op->index);
    return out;
}

/* --- public ------------------------------------------------------------------------------------------------------- */

void weft_findings_destroy(weft_findings *f) {
    if (!f) return;
    weft_context *context = f->context;
    arena_fini(&f->arena);
    base_free(&context->allocator, f, sizeof *f);
}

size_t weft_findings_count(const weft_findings *f) {
    return f->count;
}
const weft_finding *weft_finding_at(const weft_findings *f, size_t index) {
    return index < f->count ? &f->items[index] : NULL;
}
size_t weft_findings_nnotes(const weft_findings *f) {
    return f->nnotes;
}
const char *weft_findings_note(const weft_findings *f, size_t index) {
    return index < f->nnotes ? f->notes[index] : NULL;
}

const char *weft_verdict_name(weft_verdict verdict) {
    static const char *const names[WEFT_VERDICT_COUNT] = {
        [WEFT_VERDICT_RACE] = "race",
        [WEFT_VERDICT_DEADLOCK] = "deadlock",
        [WEFT_VERDICT_WRONG_DATA] = "wrong_data",
        [WEFT_VERDICT_WRONG_VALUE] = "wrong_value",
        [WEFT_VERDICT_MISSING_REDUCE] = "missing_reduce",
        [WEFT_VERDICT_STALE_READ] = "stale_read",
        [WEFT_VERDICT_UNINITIALISED_READ] = "uninitialised_read",
        [WEFT_VERDICT_OUT_OF_BOUNDS] = "out_of_bounds",
        [WEFT_VERDICT_RESOURCE_DEADLOCK] = "resource_deadlock",
        [WEFT_VERDICT_INVALID_PROGRAM] = "invalid_program",
        [WEFT_VERDICT_UNWAITED_READ] = "unwaited_read",
    };
    return verdict >= 0 && verdict < WEFT_VERDICT_COUNT ? names[verdict] : "unknown";
}

static const char *const readings[] = {"in_order", "by_name", "by_bytes"};

const char *weft_reading_name(weft_reading reading) {
    return readings[reading];
}

bool weft_reading_parse(const char *text_, weft_reading *out) {
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        if (strcmp(text_, readings[i]) == 0) return *out = (weft_reading)i, true;
    return false;
}

static void add_string(buffer *b, const char *bytes) {
    json_put_string(b, bytes, strlen(bytes));
}

static void add_member(buffer *b, const char *key, const char *bytes) {
    buffer_format(b, ", \"%s\": ", key);
    add_string(b, bytes);
}

static void add_finding(buffer *b, const weft_finding *f) {
    buffer_format(b, "{\"verdict\": \"%s\"", weft_verdict_name(f->verdict));
    add_member(b, "message", f->message);
    if (f->value[0]) add_member(b, "value", f->value);
    if (f->state[0]) add_member(b, "state", f->state);
    if (f->end > f->begin) buffer_format(b, ", \"bytes\": [%lld, %lld]", (long long)f->begin, (long long)f->end);
    if (f->ring >= 0) buffer_format(b, ", \"ring\": %lld", (long long)f->ring);
    if (f->remedy[0]) add_member(b, "remedy", f->remedy);
    buffer_text(b, ", \"ops\": [");
    for (size_t i = 0; i < f->nops; i++) {
        const weft_finding_op *o = &f->ops[i];
        buffer_format(b, "%s{\"rank\": %lld, \"index\": %lld", i ? ", " : "", (long long)o->rank, (long long)o->index);
        add_member(b, "type", o->type);
        if (o->stream[0]) add_member(b, "stream", o->stream);
        if (o->line[0]) add_member(b, "line", o->line);
        if (o->role[0]) add_member(b, "role", o->role);
        buffer_text(b, "}");
    }
    buffer_text(b, "]}");
}

weft_status weft_findings_json(const weft_findings *f, char **out_bytes, size_t *out_nbytes) {
    buffer b;
    buffer_init(&b, &f->context->allocator);
    buffer_text(&b, "{\"findings\": [");
    for (size_t i = 0; i < f->count; i++) {
        buffer_text(&b, i ? ",\n " : "\n ");
        add_finding(&b, &f->items[i]);
    }
    buffer_text(&b, "],\n\"notes\": [");
    for (size_t i = 0; i < f->nnotes; i++) {
        buffer_text(&b, i ? ",\n " : "\n ");
        add_string(&b, f->notes[i]);
    }
    buffer_text(&b, "]}\n");
    weft_status status = buffer_take(&b, out_bytes, out_nbytes);
    buffer_fini(&b);
    return status;
}

/* Pending results: what an asynchronous collective will have written, found and checked in one sweep of block 0.
 *
 * All that is asked of a value is asked of its alias class. Each class holds the pending results of the last collective
 * that wrote it, and the collectives that still read it. There are several only where outputs of one collective share
 * bytes. The first op that touches the class, or writes what a collective reads before a wait, is the consumer. A wait
 * goes to the pending result of its own argument, else to any of the class that has none. A pending result that a later
 * collective on the same bytes replaces can be waited for no more: that collective was its consumer. */
#include <stdio.h>

#include "ops/collectives.h"
#include "passes/pending.h"
#include "program/grow.h"

enum { MOST_TOLD = 20 }; /* diagnostics of one check */

/* --- what ops are ------------------------------------------------------------------------------------------------- */

bool op_is_wait(const weft_op *op) {
    return op_is_collective(op, COLLECTIVE_WAIT_TENSOR);
}

const use *pending_alias(const pending *p) {
    const slot *alias = op_find_slot(p->op, true, "alias");
    for (size_t i = 0; alias && i < op_nslots(p->op, true); i++) {
        const slot *s = op_slot(p->op, true, i);
        const use *args = slot_args(p->op, s);
        if (p->out < args || p->out >= args + s->nargs) continue;
        size_t index = (size_t)(p->out - args);
        return index < alias->nargs ? &slot_args(p->op, alias)[index] : NULL;
    }
    return NULL;
}

bool output_is_view(weft_op *op, const slot *s) {
    if (!op_has_effect(op, OP_VIEWS)) return false;
    const op_schema *schema = op_schema_of(op);
    for (size_t i = 0; i < schema->noutputs; i++)
        if (name_is(s->name, schema->outputs[i].name)) return schema->outputs[i].view_of >= 0;
    return false;
}

bool op_makes_views_only(weft_op *op) {
    if (!op_has_effect(op, OP_VIEWS)) return false;
    if (op_has_effect(op, OP_ONLY_VIEWS)) return true;
    bool any = false;
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *s = op_slot(op, true, i);
        if (s->nargs && !output_is_view(op, s)) return false;
        any = any || s->nargs;
    }
    return any;
}

/* --- touches ------------------------------------------------------------------------------------------------------ */

typedef struct touches {
    visit_touch_fn visit;
    void *user;
} touches;

/* An input of an op that makes views alone, and is what they are views of. */
static bool is_viewed(weft_op *op, const slot *s) {
    const op_schema *schema = op_schema_of(op);
    for (size_t i = 0; i < schema->noutputs; i++)
        if (schema->outputs[i].view_of >= 0 && name_is(s->name, schema->inputs[schema->outputs[i].view_of].name))
            return true;
    return false;
}

/* The arguments of an op that makes views beside what else it does. */
static weft_status visit_around_views(weft_op *op, const touches *t) {
    bool views_only = op_makes_views_only(op);
    for (int output = 0; output < 2; output++) {
        for (uint32_t i = 0; i < op_nslots(op, output); i++) {
            const slot *s = op_slot(op, output, i);
            if (output ? output_is_view(op, s) : views_only && is_viewed(op, s)) continue;
            for (size_t k = 0; k < s->nargs; k++) TRY(t->visit(t->user, &slot_args(op, s)[k]));
        }
    }
    return NULL;
}

static bool only_names_views(weft_op *op) {
    return op_has_effect(op, OP_ALIASES) && !attr_bool(op, "copy_data", false) && !attr_bool(op, "set_constant", false);
}

static weft_status visit_nested(void *user, const use *u, bool nested) {
    const touches *t = user;
    (void)nested;
    return t->visit(t->user, u);
}

weft_status touches_visit(weft_op *op, arena *scratch, visit_touch_fn visit, void *user) {
    touches t = {visit, user};
    if (op_has_effect(op, OP_NO_BYTES) || only_names_views(op)) return NULL;
    if (op_has_effect(op, OP_VIEWS)) return visit_around_views(op, &t);
    return access_visit(op, scratch, visit_nested, &t);
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

enum { NONE = UINT32_MAX };

/* A collective that reads a class, by the pending result that tells when it is done. */
typedef struct reader {
    uint32_t pending, next; /* next: of its class, NONE */
} reader;

typedef struct sweep {
    pending_list *out;
    arena *arena;
    weft_op *op; /* at hand */
    uint32_t position;
    uint32_t *newest;  /* by class: the first pending result of the last collective that wrote it, NONE */
    uint32_t *reading; /* by class: index into readers, NONE */
    uint32_t *of_var;  /* by var id: the last pending result whose var it is, NONE */
    uint32_t *next;    /* by pending result: of the same collective and class, NONE */
    reader *readers;
    size_t capacity, nreaders, reader_capacity, extra_capacity;
} sweep;

static void consume(sweep *s, uint32_t k) {
    pending *p = &s->out->items[k];
    if (p->consumer) return;
    p->consumer = s->op;
    p->consumer_position = s->position;
}

/* A collective's own arguments are visited before its pending results are made. */
static weft_status touch(void *user, const use *u) {
    sweep *s = user;
    uint32_t class = access_class(&s->out->index, use_var(s->op->program, u)), k = s->newest[class];
    if (k != NONE && !s->out->items[k].consumer)
        for (; k != NONE; k = s->next[k]) consume(s, k);
    if (!u->is_output) return NULL;
    for (uint32_t r = s->reading[class]; r != NONE; r = s->readers[r].next)
        if (!s->out->items[s->readers[r].pending].wait) consume(s, s->readers[r].pending);
    s->reading[class] = NONE;
    return NULL;
}

/* The pending result that a wait for `v` is for, NONE if all of its class were waited for. */
static uint32_t pending_of_wait(const sweep *s, const weft_var *v) {
    uint32_t class = access_class(&s->out->index, v), own = s->of_var[v->id];
    if (own != NONE && !s->out->items[own].wait) return own;
    uint32_t k = s->newest[class];
    while (k != NONE && s->out->items[k].wait) k = s->next[k];
    return k;
}

static weft_status take_wait(sweep *s) {
    const weft_var *v = op_x(s->op);
    if (!v) return NULL;
    uint32_t newest = s->newest[access_class(&s->out->index, v)], k = pending_of_wait(s, v);
    if (k != NONE) {
        s->out->items[k].wait = s->op;
        s->out->items[k].wait_position = s->position;
    } else if (newest != NONE) {
        TRY(grow(s->arena, &s->out->extras, &s->extra_capacity, s->out->nextras + 1, sizeof *s->out->extras));
        s->out->extras[s->out->nextras++] = (extra_wait){s->position, newest};
    }
    return NULL;
}

static weft_status add_pending(sweep *s, const use *u, uint32_t first) {
    weft_var *v = use_var(s->op->program, u);
    pending_list *out = s->out;
    size_t had = s->capacity;
    TRY(grow(s->arena, &out->items, &s->capacity, out->count + 1, sizeof *out->items));
    TRY(grow(s->arena, &s->next, &had, out->count + 1, sizeof *s->next));
    uint32_t k = (uint32_t)out->count++, class = access_class(&out->index, v);
    out->items[k] = (pending){.op = s->op, .out = u, .var = v, .position = s->position};
    bool joins = s->newest[class] != NONE && s->newest[class] >= first;
    s->next[k] = joins ? s->newest[class] : NONE;
    s->newest[class] = s->of_var[v->id] = k;
    return NULL;
}

static weft_status add_reader(sweep *s, const weft_var *v, uint32_t k) {
    uint32_t class = access_class(&s->out->index, v);
    if (class == access_class(&s->out->index, s->out->items[k].var)) return NULL;
    TRY(grow(s->arena, &s->readers, &s->reader_capacity, s->nreaders + 1, sizeof *s->readers));
    s->readers[s->nreaders] = (reader){k, s->reading[class]};
    s->reading[class] = (uint32_t)s->nreaders++;
    return NULL;
}

/* Input k of a list is done when output k is; else any input when the first output is. */
static weft_status take_collective(sweep *s) {
    uint32_t first = (uint32_t)s->out->count;
    for (size_t i = 0; i < op_nslots(s->op, true); i++) {
        const slot *list = op_slot(s->op, true, i);
        if (output_is_view(s->op, list)) continue;
        for (size_t k = 0; k < list->nargs; k++) TRY(add_pending(s, &slot_args(s->op, list)[k], first));
    }
    uint32_t npending = (uint32_t)s->out->count - first, at = 0;
    if (!npending) return NULL;
    FOR_EACH_ARG(s->op, false, u) {
        TRY(add_reader(s, use_var(s->op->program, u), first + (at < npending ? at : 0)));
        at++;
    }
    return NULL;
}

static weft_status take_op(sweep *s, weft_op *op, uint32_t position) {
    s->op = op;
    s->position = position;
    if (op_is_wait(op)) return take_wait(s);
    TRY(touches_visit(op, s->arena, touch, s));
    return op_is_async(op) ? take_collective(s) : NULL;
}

static uint32_t *none_of_each(arena *a, size_t count) {
    uint32_t *list = ARENA_ARRAY(a, uint32_t, count + 1);
    if (list) memset(list, 0xff, (count + 1) * sizeof *list);
    return list;
}

/* Without an attr of that name no op can be asynchronous. */
static bool may_have_pending(const weft_program *p) {
    return interner_find(&p->names, "async_op", strlen("async_op")) != NULL;
}

static weft_status find_pending(weft_program *p, arena *a, pending_list *out) {
    *out = (pending_list){.count = 0};
    TRY(access_index_begin(p, a, &out->index));
    if (!may_have_pending(p)) return NULL;
    sweep s = {.out = out, .arena = a};
    s.newest = none_of_each(a, p->nall_vars);
    s.reading = none_of_each(a, p->nall_vars);
    s.of_var = none_of_each(a, p->nall_vars);
    if (!s.newest || !s.reading || !s.of_var) return base_out_of_memory();
    for (size_t i = 0; i < out->index.nops; i++) TRY(take_op(&s, access_op(&out->index, i), (uint32_t)i));
    return NULL;
}

/* Finds them, or takes what was found of the same program and puts the positions back on its ops. */
static weft_status share(pass_finding *shared, weft_program *p, pending_list *out) {
    if (!shared->value || shared->edits != p->edits) {
        arena_fini(&shared->arena);
        shared->value = NULL;
        pending_list *found = ARENA_NEW(&shared->arena, pending_list);
        if (!found) return base_out_of_memory();
        TRY(find_pending(p, &shared->arena, found));
        shared->value = found;
        shared->edits = p->edits;
    }
    *out = *(const pending_list *)shared->value;
    for (size_t i = 0; i < out->index.nops; i++) access_op(&out->index, i)->mark = (uint32_t)i;
    return NULL;
}

weft_status pending_of(weft_pass_context *pass, weft_program *p, pending_list *out) {
    return share(pass_pending_finding(pass), p, out);
}

/* --- the check ---------------------------------------------------------------------------------------------------- */

typedef struct reporter {
    const weft_program *program;
    bool tell;
    size_t nproblems;
} reporter;

WEFT_PRINTF(4, 5)
static void report(reporter *t, const weft_op *op, uint32_t position, const char *format, ...) {
    char place[256], message[512];
    if (t->nproblems++ >= MOST_TOLD || !t->tell) return;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    snprintf(place, sizeof place, "%s, block 0, %s #%u", t->program->place, op->type->bytes, position);
    context_diagnose(t->program->context, WEFT_ERROR, place, 0, 0, "%s", message);
}

static void check_one_pending(reporter *t, const pending *p) {
    if (!p->consumer) return;
    const char *n = p->var->name->bytes, *from = p->op->type->bytes;
    if (!p->wait)
        report(t, p->consumer, p->consumer_position, "needs \"%s\" of the asynchronous %s #%u, which nothing waits for",
               n, from, p->position);
    else if (p->wait_position > p->consumer_position)
        report(t, p->consumer, p->consumer_position, "needs \"%s\" of the asynchronous %s #%u before wait_tensor #%u",
               n, from, p->position, p->wait_position);
}

static size_t check_all(const pending_list *found, reporter *t) {
    for (size_t i = 0; i < found->count; i++) check_one_pending(t, &found->items[i]);
    for (size_t i = 0; i < found->nextras; i++) {
        const pending *of = &found->items[found->extras[i].pending];
        uint32_t at = found->extras[i].position;
        report(t, access_op(&found->index, at), at, "waits for what %s #%u wrote to \"%s\" once more",
               of->op->type->bytes, of->position, of->var->name->bytes);
    }
    return t->nproblems;
}

void pending_check_init(pending_check *check, weft_context *context) {
    *check = (pending_check){.sound = false};
    arena_init(&check->found.arena, &context->allocator);
}

void pending_check_fini(pending_check *check) {
    arena_fini(&check->found.arena);
}

weft_status check_pending_use(pending_check *check, weft_program *p, size_t *out_nproblems) {
    pending_list found;
    reporter t = {.program = p, .tell = check->sound};
    *out_nproblems = 0;
    check->sound = true;
    if (!may_have_pending(p)) return NULL;
    TRY(share(&check->found, p, &found));
    *out_nproblems = check_all(&found, &t);
    check->sound = *out_nproblems == 0;
    return NULL;
}

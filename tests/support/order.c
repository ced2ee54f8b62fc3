/* order.c: see order.h. */
#include "tests/support/order.h"

#include <stdio.h>
#include <stdlib.h>

/* --- launches, and what comes before them ------------------------------------------------------------------------- */

typedef struct touch {
    int64_t begin, end;
    uint32_t node, place; /* place: a buffer, or a space of a plan */
    bool is_write;
} touch;

typedef struct closure {
    uint64_t *before; /* by node: a row of bits */
    uint32_t *op;     /* by node: what it is reported as */
    size_t nnodes, most_nodes, message_nbytes;
    touch *touches;
    size_t ntouches, touch_room;
} closure;

static void closure_init(closure *c, size_t most_nodes) {
    *c = (closure){.most_nodes = most_nodes, .message_nbytes = most_nodes / 64 + 1};
    c->before = calloc(most_nodes * c->message_nbytes + 1, sizeof *c->before);
    c->op = calloc(most_nodes + 1, sizeof *c->op);
}

static void closure_fini(closure *c) {
    free(c->before);
    free(c->op);
    free(c->touches);
}

static uint32_t add_node(closure *c, size_t op) {
    if (c->nnodes == c->most_nodes) abort();
    c->op[c->nnodes] = (uint32_t)op;
    return (uint32_t)c->nnodes++;
}

/* x is complete before y starts, and with it what came before it: x is known to the end by then. */
static void put_before(closure *c, uint32_t x, uint32_t y) {
    uint64_t *row = c->before + y * c->message_nbytes;
    const uint64_t *of_x = c->before + x * c->message_nbytes;
    for (size_t w = 0; w < c->message_nbytes; w++) row[w] |= of_x[w];
    row[x / 64] |= UINT64_C(1) << x % 64;
}

static bool is_before(const closure *c, uint32_t x, uint32_t y) {
    return c->before[y * c->message_nbytes + x / 64] >> x % 64 & 1;
}

static void add_touch(closure *c, uint32_t node, uint32_t place, int64_t begin, int64_t end, bool is_write) {
    if (end <= begin) return;
    if (c->ntouches == c->touch_room)
        c->touches = realloc(c->touches, (c->touch_room = 2 * c->touch_room + 64) * sizeof *c->touches);
    c->touches[c->ntouches++] = (touch){begin, end, node, place, is_write};
}

static int compare_touches(const void *x, const void *y) {
    const touch *a = x, *b = y;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* All conflicting pairs that are not ordered. */
static void list_pairs(closure *c, order_verdict *out) {
    size_t room = 0;
    if (c->ntouches) qsort(c->touches, c->ntouches, sizeof *c->touches, compare_touches);
    for (size_t i = 0; i < c->ntouches; i++)
        for (size_t k = i + 1; k < c->ntouches; k++) {
            const touch *x = &c->touches[i], *y = &c->touches[k];
            if (x->place != y->place || y->begin >= x->end) break;
            if (x->node == y->node || (!x->is_write && !y->is_write)) continue;
            if (x->node > y->node) {
                const touch *t = x;
                x = y;
                y = t;
            }
            if (is_before(c, x->node, y->node) || c->op[x->node] == c->op[y->node]) continue;
            if (out->npairs == room) out->pairs = realloc(out->pairs, (room = 2 * room + 16) * sizeof *out->pairs);
            out->pairs[out->npairs++] = (order_pair){c->op[x->node], c->op[y->node], x->is_write && !y->is_write};
        }
}

bool order_has(const order_verdict *v, uint32_t x, uint32_t y) {
    for (size_t i = 0; i < v->npairs; i++)
        if ((v->pairs[i].earlier == x && v->pairs[i].later == y) ||
            (v->pairs[i].earlier == y && v->pairs[i].later == x))
            return true;
    return false;
}

void order_free(order_verdict *v) {
    free(v->pairs);
    *v = (order_verdict){0};
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

enum { MOST_STREAMS = 32, MOST_EVENTS = 8192 };

/* What a name means now. */
typedef struct meaning {
    uint32_t place; /* 0: nothing yet */
    int64_t begin, nbytes;
} meaning;

typedef struct reader {
    closure c;
    const weft_program *p;
    const char *streams[MOST_STREAMS];
    char ring_names[MOST_STREAMS][32];
    int64_t last[MOST_STREAMS]; /* node; -1 */
    size_t nstreams;
    int64_t host; /* the last op that blocks the host; -1 */
    struct {
        const char *event;
        uint32_t node;
    } records[MOST_EVENTS];
    size_t nrecords;
    meaning *means;     /* by var */
    int64_t *filled_by; /* by place: an asynchronous collective; -1 */
    uint32_t nplaces;
    bool *entered; /* by block */
    order_verdict *out;
} reader;

static size_t find_stream(reader *r, const char *stream) {
    for (size_t i = 0; i < r->nstreams; i++)
        if (strcmp(r->streams[i], stream) == 0) return i;
    if (r->nstreams == MOST_STREAMS) abort();
    snprintf(r->ring_names[r->nstreams], sizeof *r->ring_names, "%s", stream);
    r->streams[r->nstreams] = r->ring_names[r->nstreams];
    r->last[r->nstreams] = -1;
    return r->nstreams++;
}

static size_t ring_stream(reader *r, const weft_op *op) {
    char message[32];
    snprintf(message, sizeof message, "ring_%lld", (long long)attr_int(op, "ring_id", 0));
    return find_stream(r, message);
}

static size_t stream_of(reader *r, const weft_op *op) {
    const char *s = op->dist ? op->dist->execution_stream : NULL;
    bool is_default = !s || !*s || !strcmp(s, "default") || !strcmp(s, "DefaultStream") || !strcmp(s, "compute");
    if (!is_default) return find_stream(r, s);
    if (op_is(op, "c_allreduce_sum") && !attr_bool(op, "use_calc_stream", false)) return ring_stream(r, op);
    return 0;
}

static uint32_t launch(reader *r, size_t op, size_t stream) {
    uint32_t node = add_node(&r->c, op);
    if (r->last[stream] >= 0) put_before(&r->c, (uint32_t)r->last[stream], node);
    if (r->host >= 0) put_before(&r->c, (uint32_t)r->host, node);
    r->last[stream] = node;
    return node;
}

static int64_t nbytes_of(const weft_var *v) {
    int64_t n = (int64_t)weft_dtype_nbytes((weft_dtype)v->dtype);
    if (!v->has_tensor || v->kind != WEFT_DENSE_TENSOR || !n) return -1;
    for (uint32_t i = 0; i < v->ndim; i++) {
        if (v->dims[i] < 0) return -1;
        n *= v->dims[i];
    }
    return n;
}

static meaning *meaning_of(reader *r, const weft_var *v) {
    meaning *m = &r->means[v->id];
    if (!m->place) *m = (meaning){++r->nplaces, 0, nbytes_of(v) < 0 ? 1 : nbytes_of(v)};
    return m;
}

static bool has_bytes(const weft_var *v) {
    return strcmp(v->name->bytes, "@EMPTY@") != 0 && v->kind != WEFT_FEED_MINIBATCH && v->kind != WEFT_FETCH_LIST &&
           v->kind != WEFT_STEP_SCOPES && v->kind != WEFT_RAW && v->kind != WEFT_READER;
}

static void touch_var(reader *r, uint32_t node, const weft_var *v, bool is_write) {
    if (!has_bytes(v)) return;
    const meaning *m = meaning_of(r, v);
    add_touch(&r->c, node, m->place, m->begin, m->begin + m->nbytes, is_write);
}

/* The input slot that this output slot is another name of; NULL: none. */
static const slot *shown_by(const weft_op *op, const op_schema *s, const slot *out) {
    for (size_t k = 0; s && k < s->noutputs; k++) {
        if (strcmp(s->outputs[k].name, out->name->bytes) != 0) continue;
        int in =
            op_is(op, "share_data") || op_is(op, "share_buffer") ? s->outputs[k].in_place_of : s->outputs[k].view_of;
        return in < 0 ? NULL : op_find_slot(op, false, s->inputs[in].name);
    }
    return NULL;
}

static bool is_only_type(const op_schema *s, const slot *in) {
    for (size_t k = 0; s && k < s->ninputs; k++)
        if (strcmp(s->inputs[k].name, in->name->bytes) == 0) return s->inputs[k].only_type;
    return false;
}

static void touch_args(reader *r, uint32_t node, const weft_op *op, const op_schema *schema) {
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *in = op_slot(op, false, k);
        bool is_shown = is_only_type(schema, in);
        for (uint32_t o = 0; o < op_nslots(op, true); o++) is_shown |= shown_by(op, schema, op_slot(op, true, o)) == in;
        for (uint32_t i = 0; i < in->nargs && !is_shown; i++) touch_var(r, node, slot_var(op, in, i), false);
    }
    for (uint32_t k = 0; k < op_nslots(op, true); k++) {
        const slot *out = op_slot(op, true, k);
        for (uint32_t i = 0; i < out->nargs && !shown_by(op, schema, out); i++)
            touch_var(r, node, slot_var(op, out, i), true);
    }
}

/* The members lie one behind the other in the fused buffer, each at a multiple of the alignment. */
static void coalesce(reader *r, uint32_t node, const weft_op *op) {
    const slot *in = op_find_slot(op, false, "Input"), *members = op_find_slot(op, true, "Output");
    const weft_var *fused = weft_op_output(op, "FusedOutput", 0);
    bool copies = attr_bool(op, "copy_data", false), sets = !copies && attr_bool(op, "set_constant", false);
    for (uint32_t i = 0; copies && i < in->nargs; i++) touch_var(r, node, slot_var(op, in, i), false);
    meaning whole = *meaning_of(r, fused);
    int64_t at = 0, step = coalesce_alignment(op);
    for (uint32_t i = 0; i < members->nargs; i++) {
        int64_t n = nbytes_of(slot_var(op, members, i));
        if (n < 0) n = 1;
        r->means[slot_args(op, members)[i].var_id] = (meaning){whole.place, whole.begin + at, n};
        at += (n + step - 1) / step * step;
    }
    if (r->means[fused->id].nbytes < at) r->means[fused->id].nbytes = at;
    for (uint32_t i = 0; copies && i < members->nargs; i++) touch_var(r, node, slot_var(op, members, i), true);
    if (sets) touch_var(r, node, fused, true);
}

static void name_views(reader *r, const weft_op *op, const op_schema *schema) {
    for (uint32_t k = 0; k < op_nslots(op, true); k++) {
        const slot *out = op_slot(op, true, k), *in = shown_by(op, schema, out);
        for (uint32_t i = 0; in && i < in->nargs && i < out->nargs; i++)
            r->means[slot_args(op, out)[i].var_id] = *meaning_of(r, slot_var(op, in, i));
    }
}

/* The latest record of an event before; one of the step before is over; none at all is a mistake. */
static void wait_for_events(reader *r, const weft_op *op, uint32_t node) {
    for (size_t i = 0; op->dist && i < op_dist_nwaits(op->dist); i++) {
        bool is_found = false;
        for (size_t k = r->nrecords; k-- > 0 && !is_found;) {
            is_found = strcmp(r->records[k].event, op->dist->waits->events[i]) == 0;
            if (is_found) put_before(&r->c, r->records[k].node, node);
        }
        for (size_t b = 0; b < r->p->nblocks && !is_found; b++) FOR_EACH_OP(o, r->p->blocks[b]) {
                const char *event = o->dist ? o->dist->event_to_record : NULL;
                is_found |= event && strcmp(event, op->dist->waits->events[i]) == 0;
            }
        r->out->waits_for_nothing |= !is_found;
    }
}

static void record_event(reader *r, const weft_op *op, uint32_t node) {
    if (!op->dist || !op->dist->event_to_record) return;
    if (r->nrecords == MOST_EVENTS) abort();
    r->records[r->nrecords].event = op->dist->event_to_record;
    r->records[r->nrecords++].node = node;
}

static void join(reader *r, size_t op, size_t earlier, size_t later) {
    uint32_t mark = launch(r, op, earlier), waiter = launch(r, op, later);
    put_before(&r->c, mark, waiter);
}

static void read_wait_tensor(reader *r, weft_op *op, size_t index) {
    uint32_t node = launch(r, index, stream_of(r, op));
    wait_for_events(r, op, node);
    FOR_EACH_ARG(op, false, u) {
        int64_t by = r->filled_by[meaning_of(r, use_var(op->program, u))->place];
        if (by >= 0) put_before(&r->c, (uint32_t)by, node);
    }
    name_views(r, op, op_schema_of(op));
    record_event(r, op, node);
}

static void read_launch(reader *r, weft_op *op, size_t index) {
    const op_schema *schema = op_schema_of(op);
    uint32_t effects = schema ? schema->effects : 0, node;
    bool is_async = (effects & OP_COLLECTIVE) && attr_bool(op, "async_op", false);
    if (is_async) {
        uint32_t mark = launch(r, index, 0);
        node = launch(r, index, ring_stream(r, op));
        put_before(&r->c, mark, node);
    } else {
        node = launch(r, index, stream_of(r, op));
    }
    wait_for_events(r, op, node);
    if (effects & OP_HOST) r->host = node;
    if (effects & OP_ALIASES)
        coalesce(r, node, op);
    else if (!(effects & OP_NO_BYTES))
        touch_args(r, node, op, schema);
    name_views(r, op, schema);
    if (is_async) FOR_EACH_ARG(op, true, u) {
            r->filled_by[meaning_of(r, use_var(op->program, u))->place] = node;
        }
    record_event(r, op, node);
}

static void read_block(reader *r, const weft_block *b, bool is_outer, size_t outer);

static void read_control(reader *r, const weft_op *op, size_t index, int64_t body) {
    uint32_t node = launch(r, index, stream_of(r, op));
    wait_for_events(r, op, node);
    const slot *condition = op_find_slot(op, false, "Cond");
    if (!condition) condition = op_find_slot(op, false, "Condition");
    for (uint32_t i = 0; condition && i < condition->nargs; i++) touch_var(r, node, slot_var(op, condition, i), false);
    record_event(r, op, node);
    if (body > 0 && (size_t)body < r->p->nblocks && !r->entered[body]) {
        r->entered[body] = true;
        read_block(r, r->p->blocks[body], false, index);
    }
}

static void read_block(reader *r, const weft_block *b, bool is_outer, size_t outer) {
    size_t index = outer;
    FOR_EACH_OP(op, b) {
        const weft_attr *body = op_find_attr(op, "sub_block");
        if (op_is(op, "c_wait_compute"))
            join(r, index, 0, ring_stream(r, op));
        else if (op_is(op, "c_wait_comm"))
            join(r, index, ring_stream(r, op), 0);
        else if (op_is(op, "wait_tensor"))
            read_wait_tensor(r, op, index);
        else if (body && body->type == ATTR_BLOCK)
            read_control(r, op, index, body->u.i);
        else
            read_launch(r, op, index);
        if (is_outer) index++;
    }
}

void order_of_program(const weft_program *p, order_verdict *out) {
    reader *r = calloc(1, sizeof *r);
    size_t nops = 0;
    for (size_t b = 0; b < p->nblocks; b++) nops += p->blocks[b]->nops;
    *out = (order_verdict){0};
    r->p = p;
    r->out = out;
    r->host = -1;
    r->means = calloc(p->nall_vars + 1, sizeof *r->means);
    r->filled_by = malloc((p->nall_vars + 2) * sizeof *r->filled_by);
    r->entered = calloc(p->nblocks + 1, sizeof *r->entered);
    for (size_t i = 0; i < p->nall_vars + 2; i++) r->filled_by[i] = -1;
    closure_init(&r->c, 2 * nops);
    find_stream(r, "compute");
    read_block(r, p->blocks[0], true, 0);
    list_pairs(&r->c, out);
    closure_fini(&r->c);
    free(r->means);
    free(r->filled_by);
    free(r->entered);
    free(r);
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

static void touch_value(closure *c, const weft_plan *plan, uint32_t node, int32_t value, bool is_write) {
    if (value < 0) return;
    const plan_value *v = &plan->values[value];
    add_touch(c, node, v->space == PLAN_TEMPORARY, v->offset, v->offset + v->nbytes, is_write);
    touch_value(c, plan, node, v->rows, is_write);
}

static void touch_instr(closure *c, const weft_plan *plan, uint32_t node) {
    const plan_instr *i = &plan->instrs[node];
    bool is_bucket = strcmp(i->schema->type, "coalesce_tensor") == 0;
    touch_value(c, plan, node, i->guard, false);
    touch_value(c, plan, node, i->outer_guard, false);
    for (size_t s = 0; s < i->schema->ninputs; s++)
        for (uint32_t k = i->in_first[s]; k < i->in_first[s + 1] && !i->schema->inputs[s].only_type; k++)
            if (!is_bucket || k >= i->out_first[i->schema->noutputs] || i->in[k] != i->out[k])
                touch_value(c, plan, node, i->in[k], false);
    for (uint32_t k = 0; k < i->out_first[i->schema->noutputs]; k++) touch_value(c, plan, node, i->out[k], true);
}

static void order_instr(closure *c, const weft_plan *plan, uint32_t node) {
    const plan_instr *i = &plan->instrs[node];
    for (uint32_t x = 0; x < node; x++) {
        const plan_instr *d = &plan->instrs[x];
        bool is_waited = d->stream == i->stream;
        for (uint32_t w = 0; w < i->nwaits; w++)
            is_waited |= i->waits[w].stream == d->stream && d->position < i->waits[w].count;
        if (is_waited) put_before(c, x, node);
    }
}

void order_of_plan(const weft_plan *plan, order_verdict *out) {
    closure c;
    *out = (order_verdict){0};
    closure_init(&c, plan->ninstrs);
    for (uint32_t i = 0; i < plan->ninstrs; i++) {
        add_node(&c, i);
        order_instr(&c, plan, i);
        touch_instr(&c, plan, i);
    }
    /* Collectives of a ring are to be ordered, too: bytes that all of them write. */
    for (uint32_t i = 0; i < plan->ninstrs; i++)
        if (plan->instrs[i].ring_id >= 0) add_touch(&c, i, 2 + (uint32_t)plan->instrs[i].ring_id, 0, 1, true);
    list_pairs(&c, out);
    closure_fini(&c);
}

/* --- schedules ---------------------------------------------------------------------------------------------------- */

static void order_event(closure *c, const proof_schedule *s, uint32_t y) {
    size_t n = s->nevents;
    const proof_event *e = &s->events[y % n];
    for (uint32_t x = 0; x < y; x++) {
        const proof_event *d = &s->events[x % n];
        bool is_joined = s->joins_steps && x < n && y >= n;
        if (d->stream == e->stream || (d->blocks_host && !s->launches_freely) || is_joined) put_before(c, x, y);
    }
    for (uint32_t k = e->first_wait; k < e[1].first_wait; k++) {
        size_t x = s->waits[k];
        if (y >= n && x < y % n) x += n; /* the latest launch before this one */
        if (x < y) put_before(c, (uint32_t)x, y);
    }
}

void order_of_schedule(const proof_schedule *s, order_verdict *out) {
    closure c;
    *out = (order_verdict){0};
    closure_init(&c, 2 * s->nevents);
    for (uint32_t y = 0; y < 2 * s->nevents; y++) {
        const proof_event *e = &s->events[y % s->nevents];
        add_node(&c, e->op_index);
        order_event(&c, s, y);
        for (uint32_t k = e->first_access; k < e[1].first_access; k++) {
            const proof_access *x = &s->accesses[k];
            add_touch(&c, y, x->buffer, x->begin, x->end, x->is_write);
        }
    }
    list_pairs(&c, out);
    closure_fini(&c);
}

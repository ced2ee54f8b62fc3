/* profile.c: from the cells of streams to rows: time of each instruction and op type, what it computed and
 * moved, and what is live.
 *
 * A CPU worker reads the clock once after each instruction, so a step is divided without gaps: an instruction's
 * time holds its dispatch, and waiting for other streams is a row of its own. Ranks that run the same plan count as
 * one: rows are of the mean step of one rank. */
#include "executor/profile.h"

#include <stdlib.h>

#include "plan/cost.h"

/* --- keeping ------------------------------------------------------------------------------------------------------ */

weft_status profile_init(weft_executor *x) {
    if (!x->options.profile) return NULL;
    x->profile = ARENA_NEW(&x->arena, executor_profile);
    if (!x->profile) return base_out_of_memory();
    for (int r = 0; r < x->nlocal; r++)
        for (int i = 0; i < x->ranks[r].plan->nstreams; i++) {
            stream_state *s = &x->ranks[r].streams[i];
            s->cells = ARENA_ARRAY(&x->arena, profile_cell, s->ninstrs + 1);
            s->last = ARENA_ARRAY(&x->arena, trace_event, s->ninstrs + 1);
            if (!s->cells || !s->last) return base_out_of_memory();
        }
    return x->device->engine->measure(x->device, x->options.nthreads, &x->profile->roofline);
}

/* The first step warmed up caches and touched pages: it is forgotten. */
void profile_add_times(stream_state *s, const trace_event *events, profile_cell waiting) {
    if (s->executor->nsteps == 1) memset(s->cells, 0, (s->ninstrs + 1) * sizeof *s->cells);
    for (size_t i = 0; i < s->ninstrs; i++) {
        if (events[i].start_ns < 0) continue;
        s->cells[i].ns += events[i].end_ns - events[i].start_ns;
        s->cells[i].count++;
    }
    s->cells[s->ninstrs].ns += waiting.ns;
    s->cells[s->ninstrs].count += waiting.count;
}

void profile_add_step(weft_executor *x) {
    executor_profile *p = x->profile;
    if (!p) return;
    if (x->nsteps == 2) p->steps_ns = p->nsteps = 0;
    p->steps_ns += x->end_ns - x->start_ns;
    p->nsteps++;
}

enum { NROOFS = sizeof((roofline *)0)->nbytes / sizeof(size_t) };

double roofline_floor(const roofline *c, double flops, double nbytes) {
    int size = 0;
    while (size + 1 < NROOFS && nbytes >= (double)c->nbytes[size + 1]) size++;
    double arithmetic = c->flops > 0 ? flops / c->flops : 0;
    double moving = c->bandwidth[size] > 0 ? nbytes / c->bandwidth[size] : 0;
    return arithmetic > moving ? arithmetic : moving;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void finish_row(const profile_report *r, profile_row *row) {
    double floor = roofline_floor(&r->profile->roofline, row->flops, row->nbytes);
    row->share = r->step_seconds > 0 ? row->seconds / r->step_seconds : 0;
    row->roofline = row->seconds > 0 ? floor / row->seconds : 0;
}

/* Adds what the ranks of a group noted for their instructions, and their waiting, to the group's rows. */
static void add_cells(const profile_report *r, profile_group *g, profile_row *waiting) {
    double part = 1.0 / ((double)g->nranks * (double)(r->profile->nsteps > 0 ? r->profile->nsteps : 1));
    for (int k = 0; k < r->executor->nlocal; k++) {
        const rank_state *rank = &r->executor->ranks[k];
        if (rank->plan != g->plan) continue;
        for (int i = 0; i < g->plan->nstreams; i++) {
            const stream_state *s = &rank->streams[i];
            for (size_t j = 0; j < s->ninstrs; j++) {
                profile_row *row = &g->ops[s->instrs[j].instr - g->plan->instrs];
                row->calls += (double)s->cells[j].count * part;
                row->seconds += (double)s->cells[j].ns * 1e-9 * part;
            }
            waiting[i].calls += (double)s->cells[s->ninstrs].count * part;
            waiting[i].seconds += (double)s->cells[s->ninstrs].ns * 1e-9 * part;
        }
    }
}

static weft_status make_ops(profile_group *g, arena *scratch) {
    const weft_plan *plan = g->plan;
    int64_t *live = ARENA_ARRAY(scratch, int64_t, plan->ninstrs + 1);
    g->nops = plan->ninstrs;
    g->ops = ARENA_ARRAY(scratch, profile_row, plan->ninstrs + 1);
    if (!live || !g->ops) return base_out_of_memory();
    TRY(plan_live_bytes(plan, scratch, live));
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        op_cost cost;
        TRY(plan_cost_of(plan, instr, scratch, &cost));
        g->ops[i] = (profile_row){.type = instr->schema->type,
                                  .instr = instr,
                                  .stream = plan->stream_names[instr->stream],
                                  .output = trace_value_name(plan, instr),
                                  .flops = cost.flops,
                                  .nbytes = cost.bytes,
                                  .live_nbytes = live[i]};
        if (!g->peak && live[i] == plan->live_nbytes) g->peak = instr;
    }
    return NULL;
}

static profile_row *type_row(profile_group *g, const char *type) {
    for (size_t i = 0; i < g->ntypes; i++)
        if (strcmp(g->types[i].type, type) == 0) return &g->types[i];
    g->types[g->ntypes] = (profile_row){.type = type};
    return &g->types[g->ntypes++];
}

static int most_expensive_first(const void *a, const void *b) {
    const profile_row *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->type, y->type);
}

/* Sums of `calls` calls each; the floor of a type is the sum of its instructions' floors. */
static weft_status make_types(const profile_report *r, profile_group *g, const profile_row *waiting, arena *scratch) {
    g->types = ARENA_ARRAY(scratch, profile_row, g->nops + (size_t)g->plan->nstreams + 1);
    if (!g->types) return base_out_of_memory();
    for (size_t i = 0; i < g->nops; i++) {
        profile_row *op = &g->ops[i], *sum = type_row(g, op->type);
        op->flops *= op->calls;
        op->nbytes *= op->calls;
        finish_row(r, op);
        sum->calls += op->calls;
        sum->seconds += op->seconds;
        sum->flops += op->flops;
        sum->nbytes += op->nbytes;
        sum->roofline += op->roofline * op->seconds;
    }
    for (size_t i = 0; i < g->ntypes; i++) {
        profile_row *sum = &g->types[i];
        double floor = sum->roofline;
        finish_row(r, sum);
        sum->roofline = sum->seconds > 0 ? floor / sum->seconds : 0;
    }
    for (int i = 0; i < g->plan->nstreams; i++) {
        if (waiting[i].calls == 0) continue;
        g->types[g->ntypes] = waiting[i];
        g->types[g->ntypes].type = "(waiting)";
        g->types[g->ntypes].stream = g->plan->stream_names[i];
        finish_row(r, &g->types[g->ntypes++]);
    }
    if (g->ntypes > 1) qsort(g->types, g->ntypes, sizeof *g->types, most_expensive_first);
    return NULL;
}

static weft_status fill_group(const profile_report *r, profile_group *g, arena *scratch) {
    profile_row *waiting = ARENA_ARRAY(scratch, profile_row, (size_t)g->plan->nstreams + 1);
    if (!waiting) return base_out_of_memory();
    TRY(make_ops(g, scratch));
    add_cells(r, g, waiting);
    return make_types(r, g, waiting, scratch);
}

weft_status profile_compute(const weft_executor *x, arena *scratch, profile_report *out_report) {
    profile_report r = {.executor = x, .profile = x->profile};
    if (!x->profile || !x->profile->nsteps)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                  "no profile: run a step of an executor with options.profile");
    r.step_seconds = (double)x->profile->steps_ns * 1e-9 / (double)x->profile->nsteps;
    r.groups = ARENA_ARRAY(scratch, profile_group, (size_t)x->nlocal);
    if (!r.groups) return base_out_of_memory();
    for (int k = 0; k < x->nlocal; k++) {
        size_t g = 0;
        while (g < r.ngroups && r.groups[g].plan != x->ranks[k].plan) g++;
        if (g == r.ngroups)
            r.groups[r.ngroups++] = (profile_group){.plan = x->ranks[k].plan, .first_rank = x->first_rank + k};
        r.groups[g].nranks++;
    }
    for (size_t g = 0; g < r.ngroups; g++) TRY(fill_group(&r, &r.groups[g], scratch));
    *out_report = r;
    return NULL;
}

weft_status weft_executor_profile(const weft_executor *x, weft_profile_form form, size_t most_ops, char **out_bytes,
                                  size_t *out_nbytes) {
    arena scratch;
    buffer out;
    profile_report report;
    weft_status status = NULL;
    arena_init(&scratch, &x->context->allocator);
    buffer_init(&out, &x->context->allocator);
    TRY_DONE(profile_compute(x, &scratch, &report));
    switch (form) {
    case WEFT_PROFILE_TEXT: profile_print_text(&report, most_ops, &out); break;
    case WEFT_PROFILE_CSV: profile_print_csv(&report, &out); break;
    case WEFT_PROFILE_JSON: profile_print_json(&report, &out); break;
    }
    status = buffer_take(&out, out_bytes, out_nbytes);
done:
    buffer_fini(&out);
    arena_fini(&scratch);
    return status;
}

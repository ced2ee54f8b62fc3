/* profile.c: from the cells of streams to rows: time of each instruction and op type, what it computed and
 * moved, and what is live.
 *
 * A CPU worker reads the clock once after each instruction, so a step is divided without gaps: an instruction's
 * time holds its dispatch, and waiting for other streams is a row of its own. Ranks that run the same plan count as
 * one: rows are of the mean step of one rank.
 *
 * Ranks of several processes are joined so: all tell which plan they run, by a hash of its text, and what they noted
 * for its instructions. The process of the first rank of a plan makes its rows, of all that run it, and prints them. */
#include "executor/profile.h"

#include <stdlib.h>

#include "executor/gather.h"
#include "ops/collectives.h"
#include "plan/cost.h"
#include "plan/signature.h"

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
            s->turns = ARENA_ARRAY(&x->arena, trace_event, s->ninstrs * PROFILE_SAMPLES + 1);
            if (!s->cells || !s->last || !s->turns) return base_out_of_memory();
        }
    return NULL;
}

/* The first step warmed up caches and touched pages: it is forgotten. */
void profile_add_times(stream_state *s, const trace_event *events, profile_cell waiting) {
    if (s->executor->nsteps == 1) memset(s->cells, 0, (s->ninstrs + 1) * sizeof *s->cells);
    for (size_t i = 0; i < s->ninstrs; i++) {
        if (events[i].start_ns < 0) continue;
        s->turns[i * PROFILE_SAMPLES + (size_t)s->cells[i].count % PROFILE_SAMPLES] = events[i];
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
    p->samples[p->nsteps % PROFILE_SAMPLES] = x->end_ns - x->start_ns;
    p->steps_ns += x->end_ns - x->start_ns;
    p->nsteps++;
}

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Of the samples of so many turns, which it sorts. */
static int64_t median_of(int64_t *samples, int64_t count) {
    size_t n = count < PROFILE_SAMPLES ? (size_t)count : PROFILE_SAMPLES;
    if (!n) return 0;
    qsort(samples, n, sizeof *samples, by_time);
    return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
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
    double floor = roofline_floor(&r->profile.roofline, row->flops, row->nbytes);
    row->share = r->step_seconds > 0 ? row->seconds / r->step_seconds : 0;
    row->roofline = row->seconds > 0 ? floor / row->seconds : 0;
}

/* Adds what a rank of the group noted for its instructions, and its waiting, to the group's rows. Cells lie stream
 * after stream, each with one for waiting at its end. */
static void add_cells(const profile_report *r, profile_group *g, const plan_stream *streams, const profile_cell *cells,
                      profile_row *waiting) {
    double part = 1.0 / ((double)g->nranks * (double)(r->profile.nsteps > 0 ? r->profile.nsteps : 1));
    for (int i = 0; i < g->plan->nstreams; i++) {
        for (size_t j = 0; j < streams[i].ninstrs; j++, cells++) {
            profile_row *row = &g->ops[streams[i].instrs[j] - g->plan->instrs];
            row->calls += (double)cells->count * part;
            row->seconds += (double)cells->ns * 1e-9 * part;
            row->median_seconds += (double)cells->median_ns * 1e-9 / (double)g->nranks;
        }
        waiting[i].calls += (double)cells->count * part;
        waiting[i].seconds += (double)cells++->ns * 1e-9 * part;
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

/* --- all ranks ---------------------------------------------------------------------------------------------------- */

static const char *const when = "for the profile";

/* What a rank tells of itself. */
typedef struct rank_outline {
    uint64_t plan; /* hash of its text */
    uint64_t ncells, ncollectives;
    executor_profile profile;
    int group; /* of all alike; found by each process for itself */
} rank_outline;

typedef struct all_ranks {
    const weft_executor *executor;
    arena *scratch;
    rank_outline *outlines;
    const profile_cell **cells;
    const trace_event **turns; /* of collectives, in the order of cells: PROFILE_SAMPLES each, by one clock */
} all_ranks;

static bool is_collective(const plan_instr *instr) {
    return instr->ring_id >= 0 || op_collective_kind(instr->op) != COLLECTIVE_NONE;
}

static weft_status hash_plan(weft_context *context, const weft_plan *plan, uint64_t *out) {
    char *bytes;
    size_t nbytes;
    TRY(weft_plan_print(plan, &bytes, &nbytes));
    uint64_t hash = nbytes;
    for (size_t i = 0; i < nbytes; i++) hash = signature_mix(hash, (unsigned char)bytes[i]);
    weft_bytes_free(context, bytes, nbytes);
    *out = hash;
    return NULL;
}

static weft_status tell_outlines(all_ranks *all) {
    const weft_executor *x = all->executor;
    rank_outline *mine = ARENA_ARRAY(all->scratch, rank_outline, x->nlocal);
    all->outlines = ARENA_ARRAY(all->scratch, rank_outline, x->nranks);
    if (!mine || !all->outlines) return base_out_of_memory();
    for (int k = 0; k < x->nlocal; k++) {
        const weft_plan *plan = x->ranks[k].plan;
        if (k && plan == x->ranks[k - 1].plan)
            mine[k].plan = mine[k - 1].plan;
        else
            TRY(hash_plan(x->context, plan, &mine[k].plan));
        mine[k].ncells = plan->ninstrs + (size_t)plan->nstreams;
        for (size_t i = 0; i < plan->ninstrs; i++) mine[k].ncollectives += is_collective(&plan->instrs[i]);
        mine[k].profile = *x->profile;
    }
    return executor_gather(x, when, mine, sizeof *mine, all->outlines);
}

static weft_status tell_cells(all_ranks *all) {
    const weft_executor *x = all->executor;
    size_t *nbytes = ARENA_ARRAY(all->scratch, size_t, x->nranks), total = 0, own = 0;
    all->cells = ARENA_ARRAY(all->scratch, const profile_cell *, x->nranks);
    if (!nbytes || !all->cells) return base_out_of_memory();
    for (int r = 0; r < x->nranks; r++) {
        nbytes[r] = all->outlines[r].ncells * sizeof(profile_cell);
        total += all->outlines[r].ncells;
        if (executor_has_rank(x, r)) own += all->outlines[r].ncells;
    }
    profile_cell *mine = ARENA_ARRAY(all->scratch, profile_cell, own + 1), *at = mine;
    profile_cell *cells = ARENA_ARRAY(all->scratch, profile_cell, total + 1);
    if (!mine || !cells) return base_out_of_memory();
    for (int k = 0; k < x->nlocal; k++)
        for (int i = 0; i < x->ranks[k].plan->nstreams; i++) {
            const stream_state *s = &x->ranks[k].streams[i];
            memcpy(at, s->cells, (s->ninstrs + 1) * sizeof *at);
            for (size_t j = 0; j < s->ninstrs; j++) {
                const trace_event *turns = s->turns + j * PROFILE_SAMPLES;
                int64_t samples[PROFILE_SAMPLES];
                for (size_t n = 0; n < PROFILE_SAMPLES; n++) samples[n] = turns[n].end_ns - turns[n].start_ns;
                at[j].median_ns = median_of(samples, at[j].count);
            }
            at += s->ninstrs + 1;
        }
    TRY(executor_gather_sized(x, when, mine, nbytes, cells));
    for (int r = 0; r < x->nranks; cells += all->outlines[r++].ncells) all->cells[r] = cells;
    return NULL;
}

/* One that does not run once in each step starts at -1. */
static void note_turns(const weft_executor *x, const stream_state *s, size_t j, const timeline_clock *clock,
                       trace_event *out) {
    bool runs_each_step = s->cells[j].count == x->profile->nsteps;
    for (size_t k = 0; k < PROFILE_SAMPLES; k++) {
        const trace_event *turn = &s->turns[j * PROFILE_SAMPLES + k];
        out[k].start_ns = runs_each_step ? timeline_common_ns(clock, turn->start_ns) : -1;
        out[k].end_ns = timeline_common_ns(clock, turn->end_ns);
    }
}

/* When collectives ran in the last steps. */
static weft_status tell_turns(all_ranks *all) {
    const weft_executor *x = all->executor;
    size_t *nbytes = ARENA_ARRAY(all->scratch, size_t, x->nranks), total = 0, own = 0;
    timeline_clock clock;
    all->turns = ARENA_ARRAY(all->scratch, const trace_event *, x->nranks);
    if (!nbytes || !all->turns) return base_out_of_memory();
    TRY(world_clock_read(x, &clock));
    for (int r = 0; r < x->nranks; r++) {
        size_t n = all->outlines[r].ncollectives * PROFILE_SAMPLES;
        nbytes[r] = n * sizeof(trace_event);
        total += n;
        if (executor_has_rank(x, r)) own += n;
    }
    trace_event *mine = ARENA_ARRAY(all->scratch, trace_event, own + 1), *at = mine;
    trace_event *turns = ARENA_ARRAY(all->scratch, trace_event, total + 1);
    if (!mine || !turns) return base_out_of_memory();
    for (int k = 0; k < x->nlocal; k++)
        for (int i = 0; i < x->ranks[k].plan->nstreams; i++) {
            const stream_state *s = &x->ranks[k].streams[i];
            for (size_t j = 0; j < s->ninstrs; j++) {
                if (!is_collective(s->instrs[j].instr)) continue;
                note_turns(x, s, j, &clock, at);
                at += PROFILE_SAMPLES;
            }
        }
    TRY(executor_gather_sized(x, when, mine, nbytes, turns));
    for (int r = 0; r < x->nranks; turns += nbytes[r++] / sizeof *turns) all->turns[r] = turns;
    return NULL;
}

/* A collective lasts from when the last rank starts it until the last rank has ended it: before that, ranks wait for
 * the one that is late. By sample what all of a step's last. False: one of them does not run once in each step. */
static bool collectives_of_steps(const all_ranks *all, int group, int first_rank, int64_t *out) {
    memset(out, 0, PROFILE_SAMPLES * sizeof *out);
    for (uint64_t c = 0; c < all->outlines[first_rank].ncollectives; c++)
        for (size_t s = 0; s < PROFILE_SAMPLES; s++) {
            int64_t start = INT64_MIN, end = INT64_MIN;
            for (int k = 0; k < all->executor->nranks; k++) {
                if (all->outlines[k].group != group) continue;
                const trace_event *turn = &all->turns[k][c * PROFILE_SAMPLES + s];
                if (turn->start_ns == -1) return false;
                if (turn->start_ns > start) start = turn->start_ns;
                if (turn->end_ns > end) end = turn->end_ns;
            }
            out[s] += end - start;
        }
    return true;
}

static double seconds_of(int64_t *samples, int64_t count) {
    int64_t ns = median_of(samples, count);
    return ns > 0 ? 1e-9 * (double)ns : 0;
}

static double rest_of_steps(const all_ranks *all, const profile_report *r, const profile_group *g) {
    int64_t rest[PROFILE_SAMPLES], collectives[PROFILE_SAMPLES];
    if (!collectives_of_steps(all, (int)(g - r->groups), g->first_rank, collectives)) return -1;
    for (size_t s = 0; s < PROFILE_SAMPLES; s++) rest[s] = r->profile.samples[s] - collectives[s];
    return seconds_of(rest, r->profile.nsteps);
}

static weft_status find_groups(all_ranks *all, profile_report *r) {
    const weft_executor *x = all->executor;
    r->groups = ARENA_ARRAY(all->scratch, profile_group, (size_t)x->nranks);
    if (!r->groups) return base_out_of_memory();
    for (int k = 0; k < x->nranks; k++) {
        rank_outline *o = &all->outlines[k];
        size_t g = 0;
        while (g < r->ngroups && all->outlines[r->groups[g].first_rank].plan != o->plan) g++;
        if (g == r->ngroups)
            r->groups[r->ngroups++] =
                (profile_group){.plan = executor_has_rank(x, k) ? executor_rank(x, k)->plan : NULL, .first_rank = k};
        r->groups[g].nranks++;
        o->group = (int)g;
    }
    return NULL;
}

static weft_status fill_group(const all_ranks *all, const profile_report *r, profile_group *g) {
    profile_row *waiting = ARENA_ARRAY(all->scratch, profile_row, (size_t)g->plan->nstreams + 1);
    plan_stream *streams;
    if (!waiting) return base_out_of_memory();
    TRY(make_ops(g, all->scratch));
    TRY(plan_list_streams(g->plan, all->scratch, &streams));
    for (int k = 0; k < r->nranks; k++)
        if (all->outlines[k].group == g - r->groups) add_cells(r, g, streams, all->cells[k], waiting);
    g->rest_seconds = rest_of_steps(all, r, g);
    return make_types(r, g, waiting, all->scratch);
}

weft_status profile_compute(const weft_executor *x, arena *scratch, profile_report *out_report) {
    all_ranks all = {.executor = x, .scratch = scratch};
    if (!x->profile || !x->profile->nsteps)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                  "no profile: run a step of an executor with options.profile");
    executor_profile *p = x->profile;
    if (!p->roofline.nthreads) TRY(x->device->engine->measure(x->device, x->options.nthreads, &p->roofline));
    TRY(tell_outlines(&all));
    TRY(tell_cells(&all));
    TRY(tell_turns(&all));
    profile_report r = {.nranks = x->nranks, .profile = all.outlines[0].profile};
    r.step_seconds = (double)r.profile.steps_ns * 1e-9 / (double)r.profile.nsteps;
    r.median_step_seconds = 1e-9 * (double)median_of(r.profile.samples, r.profile.nsteps);
    TRY(find_groups(&all, &r));
    for (size_t g = 0; g < r.ngroups; g++)
        if (r.groups[g].plan) TRY(fill_group(&all, &r, &r.groups[g]));
    *out_report = r;
    return NULL;
}

weft_status profile_collective_seconds(const weft_executor *x, arena *scratch, double *out_seconds) {
    all_ranks all = {.executor = x, .scratch = scratch};
    int64_t collectives[PROFILE_SAMPLES];
    TRY(tell_outlines(&all));
    TRY(tell_turns(&all));
    *out_seconds = collectives_of_steps(&all, 0, 0, collectives) ? seconds_of(collectives, x->profile->nsteps) : 0;
    return NULL;
}

static weft_status print(const weft_executor *x, const profile_printer *p, size_t most_ops, arena *scratch,
                         buffer *mine, buffer *out) {
    profile_report r;
    gathered_bytes all;
    TRY(profile_compute(x, scratch, &r));
    p->head(&r, out);
    for (size_t g = 0; g < r.ngroups; g++)
        if (r.groups[g].plan) p->group(&r, &r.groups[g], most_ops, mine);
    TRY(executor_gather_bytes(x, when, scratch, mine, &all));
    buffer_append(out, all.bytes, all.nbytes);
    buffer_text(out, p->tail);
    return NULL;
}

weft_status weft_executor_profile(const weft_executor *x, weft_profile_form form, size_t most_ops, char **out_bytes,
                                  size_t *out_nbytes) {
    static const profile_printer *const printers[] = {
        [WEFT_PROFILE_TEXT] = &profile_text, [WEFT_PROFILE_CSV] = &profile_csv, [WEFT_PROFILE_JSON] = &profile_json};
    arena scratch;
    buffer mine, out;
    arena_init(&scratch, &x->context->allocator);
    buffer_init(&mine, &x->context->allocator);
    buffer_init(&out, &x->context->allocator);
    weft_status status = print(x, printers[form], most_ops, &scratch, &mine, &out);
    if (!status) status = buffer_take(&out, out_bytes, out_nbytes);
    buffer_fini(&mine);
    buffer_fini(&out);
    arena_fini(&scratch);
    return status;
}

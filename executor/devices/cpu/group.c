/* group.c: row-tiled fusion: instructions that run tile by tile, a few rows at a time.
 *
 * The plan says which neighbours may (plan/fuse.c); here their kernels say in how many rows they split, and a group is
 * cut where they do not fit. Its parts are as many as all members' rows can be divided into. A tile is as many parts as
 * touch TILE_NBYTES, so that a member finds in the cache what the one before it wrote.
 *
 * The invariant: every row is computed by the same code as alone, so results are the same to the bit; the first member
 * runs all, the others do nothing when they are reached. Rows that add up into an output run first to last; with
 * several threads such a kernel stays alone. */
#include "executor/devices/cpu/cpu.h"

#include <stddef.h>

#include "executor/comm/wait.h"

enum { TILE_NBYTES = 96 * 1024, PART_NBYTES_MOST = 512 * 1024 };

struct cpu_group {
    cpu_call *members;
    int64_t *part_rows; /* rows of each member in one part */
    int64_t *ns;        /* by member, in the run at hand, if it is timed */
    size_t count;
    int64_t nparts, tile; /* tile: parts at a time */
    size_t nbytes;        /* split by all members together */
};

/* --- running ------------------------------------------------------------------------------------------------------ */

static void run_tile(const cpu_group *g, int64_t first, int64_t end) {
    for (size_t k = 0; k < g->count; k++) {
        const kernel_call *c = &g->members[k].call;
        c->split.rows(c, first * g->part_rows[k], end * g->part_rows[k]);
    }
}

static void run_tile_timed(cpu_group *g, int64_t first, int64_t end) {
    int64_t now = wait_clock_ns();
    for (size_t k = 0; k < g->count; k++) {
        const kernel_call *c = &g->members[k].call;
        c->split.rows(c, first * g->part_rows[k], end * g->part_rows[k]);
        int64_t then = wait_clock_ns();
        g->ns[k] += then - now;
        now = then;
    }
}

static void run_parts(void *arg, int64_t first, int64_t end, int part) {
    const cpu_group *g = arg;
    (void)part;
    for (int64_t at = first; at < end; at += g->tile) run_tile(g, at, at + g->tile < end ? at + g->tile : end);
}

/* The call is the first member's. */
static weft_status run_group(const kernel_call *c) {
    const cpu_call *head = (const cpu_call *)(const void *)((const char *)c - offsetof(cpu_call, call));
    cpu_group *g = head->group;
    parallel_for(c, g->nparts, grain_of_bytes((int64_t)g->nbytes / g->nparts), run_parts, g);
    return NULL;
}

static weft_status run_nothing(const kernel_call *c) {
    (void)c;
    return NULL;
}

size_t cpu_group_count(const cpu_call *b) {
    return b->group && b == b->group->members ? b->group->count : 0;
}

const int64_t *cpu_group_run_timed(cpu_call *head) {
    cpu_group *g = head->group;
    for (size_t k = 0; k < g->count; k++) g->ns[k] = 0;
    if (head->call.nthreads <= 1) {
        for (int64_t at = 0; at < g->nparts; at += g->tile)
            run_tile_timed(g, at, at + g->tile < g->nparts ? at + g->tile : g->nparts);
        return g->ns;
    }
    /* Several threads: the time of all in equal shares. */
    int64_t start = wait_clock_ns();
    parallel_for(&head->call, g->nparts, grain_of_bytes((int64_t)g->nbytes / g->nparts), run_parts, g);
    int64_t each = (wait_clock_ns() - start) / (int64_t)g->count;
    for (size_t k = 0; k < g->count; k++) g->ns[k] = each;
    return g->ns;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static size_t args_nbytes(const cpu_call *b) {
    size_t nbytes = 0;
    uint32_t nin = b->instr->in_first[b->instr->schema->ninputs],
             nout = b->instr->out_first[b->instr->schema->noutputs];
    for (uint32_t i = 0; i < nin; i++)
        if (b->call.in[i].data) nbytes += (size_t)b->call.in[i].numel * weft_dtype_nbytes(b->call.in[i].dtype);
    for (uint32_t i = 0; i < nout; i++)
        if (b->call.out[i].data) nbytes += (size_t)b->call.out[i].numel * weft_dtype_nbytes(b->call.out[i].dtype);
    return nbytes;
}

static bool can_be_fused(const cpu_call *b) {
    const row_split *s = &b->call.split;
    return s->rows && !s->alone && s->nrows > 1 && (b->call.nthreads <= 1 || !s->in_order);
}

/* How many of `count` instructions from `first` on make one group; the parts that they have and the bytes they touch.
 */
static size_t extent_of(const cpu_call *first, size_t count, int64_t *out_nparts, size_t *out_nbytes) {
    int64_t nparts = 0;
    size_t n = 0, nbytes = 0;
    for (; n < count && can_be_fused(&first[n]); n++) {
        int64_t parts = base_common_divisor(first[n].call.split.nrows, nparts);
        size_t touched = nbytes + args_nbytes(&first[n]);
        if (parts < 2 || touched / (size_t)parts > PART_NBYTES_MOST) break;
        nparts = parts;
        nbytes = touched;
    }
    *out_nparts = nparts;
    *out_nbytes = nbytes;
    return n;
}

static weft_status make_group(weft_executor *x, cpu_call *first, size_t count, int64_t nparts, size_t nbytes) {
    cpu_group *g = ARENA_NEW(&x->arena, cpu_group);
    if (!g) return base_out_of_memory();
    *g = (cpu_group){.members = first, .count = count, .nparts = nparts, .nbytes = nbytes};
    g->part_rows = ARENA_ARRAY(&x->arena, int64_t, count);
    g->ns = ARENA_ARRAY(&x->arena, int64_t, count);
    if (!g->part_rows || !g->ns) return base_out_of_memory();
    int64_t part_nbytes = (int64_t)nbytes / nparts + 1;
    g->tile = part_nbytes < TILE_NBYTES ? TILE_NBYTES / part_nbytes : 1;
    for (size_t k = 0; k < count; k++) {
        g->part_rows[k] = first[k].call.split.nrows / nparts;
        first[k].group = g;
        first[k].run = k ? run_nothing : run_group;
    }
    return NULL;
}

weft_status cpu_groups_make(weft_executor *x, cpu_stream *s) {
    for (size_t i = 0; i < s->ncalls && !x->options.no_fuse;) {
        size_t planned = s->calls[i].instr->nfused + (size_t)1, left = s->ncalls - i, nbytes;
        int64_t nparts;
        if (planned > left) planned = left;
        for (size_t end = i + planned; i < end;) {
            size_t n = extent_of(&s->calls[i], end - i, &nparts, &nbytes);
            if (n > 1 && nbytes > TILE_NBYTES) TRY(make_group(x, &s->calls[i], n, nparts, nbytes));
            i += n ? n : 1;
        }
    }
    return NULL;
}

/* profile_text.c: the profile as tables for people: the machine, memory, op types, and the ops that took longest. */
#include <stdio.h>
#include <stdlib.h>

#include "executor/memory.h"
#include "executor/profile.h"

enum { CURVE = 60 };

static void print_head(const profile_report *r, buffer *out) {
    const roofline *c = &r->profile.roofline;
    char sizes[3][32];
    buffer_format(out, "profile: %lld step%s of %.3f ms, %d rank%s\n", (long long)r->profile.nsteps,
                  r->profile.nsteps == 1 ? "" : "s", 1e3 * r->step_seconds, r->nranks, r->nranks == 1 ? "" : "s");
    buffer_format(out, "machine: %d thread%s reach%s %.1f GFLOP/s (fp32); %.1f GB/s in %s, %.1f in %s, %.1f in %s\n",
                  c->nthreads, c->nthreads == 1 ? "" : "s", c->nthreads == 1 ? "es" : "", 1e-9 * c->flops,
                  1e-9 * c->bandwidth[0], memory_amount((double)c->nbytes[0], sizes[0], sizeof sizes[0]),
                  1e-9 * c->bandwidth[1], memory_amount((double)c->nbytes[1], sizes[1], sizeof sizes[1]),
                  1e-9 * c->bandwidth[2], memory_amount((double)c->nbytes[2], sizes[2], sizeof sizes[2]));
}

/* Live bytes over the step, each digit the most of a CURVE-th of the instructions, in tenths of the peak. */
static void print_curve(const profile_group *g, buffer *out) {
    size_t n = g->nops < CURVE ? g->nops : CURVE;
    if (!n || g->plan->live_nbytes <= 0) return;
    buffer_text(out, "live:    ");
    for (size_t k = 0; k < n; k++) {
        int64_t most = 0;
        for (size_t i = k * g->nops / n; i < (k + 1) * g->nops / n; i++)
            if (g->ops[i].live_nbytes > most) most = g->ops[i].live_nbytes;
        int tenths = (int)(10 * most / g->plan->live_nbytes);
        buffer_format(out, "%c", tenths >= 10 ? '#' : '0' + tenths);
    }
    buffer_text(out, " (first to last op, tenths of the peak)\n");
}

static void print_memory(const profile_group *g, buffer *out) {
    const weft_plan *plan = g->plan;
    char persistent[32], temporary[32], live[32];
    buffer_format(out, "memory:  %s persistent, %s temporary; at most %s live",
                  memory_amount((double)plan->persistent_nbytes, persistent, sizeof persistent),
                  memory_amount((double)plan->temporary_nbytes, temporary, sizeof temporary),
                  memory_amount((double)plan->live_nbytes, live, sizeof live));
    if (g->peak && plan->live_nbytes > 0)
        buffer_format(out, ", at %s #%d: %.3f times as much is reserved", g->peak->schema->type, g->peak->op_index,
                      (double)plan->temporary_nbytes / (double)plan->live_nbytes);
    buffer_text(out, "\n");
    print_curve(g, out);
}

/* Time and what follows from it. Nothing is said where nothing is counted. */
static void print_rates(const profile_row *row, double scale, buffer *out) {
    buffer_format(out, " %10.3f %5.1f%%", scale * row->seconds, 100 * row->share);
    bool timed = row->seconds > 0;
    if (timed && row->flops > 0)
        buffer_format(out, " %8.2f", 1e-9 * row->flops / row->seconds);
    else
        buffer_format(out, " %8s", "-");
    if (timed && row->nbytes > 0)
        buffer_format(out, " %8.2f %8.0f%%", 1e-9 * row->nbytes / row->seconds, 100 * row->roofline);
    else
        buffer_format(out, " %8s %9s", "-", "-");
}

static void print_types(const profile_group *g, buffer *out) {
    buffer_format(out, "\n%-36s %8s %10s %6s %8s %8s %9s\n", "op type", "count", "ms", "share", "GFLOP/s", "GB/s",
                  "roofline");
    profile_row sum = {0};
    for (size_t i = 0; i < g->ntypes; i++) {
        const profile_row *row = &g->types[i];
        char label[80];
        snprintf(label, sizeof label, row->stream ? "%s, %s" : "%s", row->type, row->stream);
        buffer_format(out, "%-36s %8.4g", label, row->calls);
        print_rates(row, 1e3, out);
        buffer_text(out, "\n");
        sum.calls += row->stream ? 0 : row->calls;
        sum.seconds += row->seconds;
        sum.share += row->share;
        sum.flops += row->flops;
        sum.nbytes += row->nbytes;
        sum.roofline += row->roofline * row->seconds;
    }
    sum.roofline = sum.seconds > 0 ? sum.roofline / sum.seconds : 0;
    buffer_format(out, "%-36s %8.4g", "all", sum.calls);
    print_rates(&sum, 1e3, out);
    buffer_text(out, "\n");
}

static int compare(const void *a, const void *b) {
    const profile_row *x = *(const profile_row *const *)a, *y = *(const profile_row *const *)b;
    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return (x > y) - (x < y);
}

/* All ops in order, or the most expensive ones. */
static void print_ops(const profile_group *g, size_t most_ops, buffer *out) {
    const profile_row **order = base_alloc(out->allocator, g->nops * sizeof *order);
    size_t n = most_ops && most_ops < g->nops ? most_ops : g->nops;
    if (!order) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < g->nops; i++) order[i] = &g->ops[i];
    if (n < g->nops) qsort(order, g->nops, sizeof *order, compare);
    buffer_format(out, "\n%-30s %-14s %8s %10s %6s %8s %8s %9s %10s  %s\n", "op", "stream", "count", "us", "share",
                  "GFLOP/s", "GB/s", "roofline", "live", "writes");
    for (size_t i = 0; i < n; i++) {
        char place[80], live[32];
        snprintf(place, sizeof place, "%s #%d", order[i]->type, order[i]->instr->op_index);
        buffer_format(out, "%-30s %-14s %8.4g", place, order[i]->stream, order[i]->calls);
        print_rates(order[i], 1e6, out);
        buffer_format(out, " %10s  %s\n", memory_amount((double)order[i]->live_nbytes, live, sizeof live),
                      order[i]->output);
    }
    if (n < g->nops) buffer_format(out, "(%zu ops more)\n", g->nops - n);
    base_free(out->allocator, order, g->nops * sizeof *order);
}

static void print_group(const profile_report *r, const profile_group *g, size_t most_ops, buffer *out) {
    if (r->ngroups > 1)
        buffer_format(out, "\nrank %d%s\n", g->first_rank, g->nranks > 1 ? " and those that run the same plan" : "");
    print_memory(g, out);
    print_types(g, out);
    print_ops(g, most_ops, out);
}

const profile_printer profile_text = {print_head, print_group, ""};

/* proof_together.c: worlds of ranks whose programs differ in a few ops, judged together by weft_verify, which asks what
 * classes have in common once, and class by class, where nothing is taken from another: the same is told.
 *
 * What is told of single ranks must agree word for word and in order; of ranks together, where alike ones are told of
 * as one, the verdicts and rings. And one rank's races are those of a closure over all pairs (tests/support/order.h).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/ir.h"
#include "proof/across.h"
#include "tests/support/must.h"
#include "tests/support/order.h"

enum { MOST_RANKS = 6, MOST_KINDS = 4, MOST_OPS = 64, MOST_TEXT = 32768, NONE = -1 };

typedef enum op_kind {
    COALESCE,
    MAKE,
    REDUCE,
    USE,
    UPDATE,
    LOOK,
    PRIVATE,
    PEEK,
    SYNC,
    WAIT_COMM,
    SHOW,       /* another name for a member */
    USE_SHOWN,  /* reads by that name; member 1: writes */
    WORK_WHOLE, /* on a bucket, in place; member 1: anew */
    PEEK_WHOLE, /* padding too */
    REGROUP,    /* the members become those of another bucket */
    GUARDED     /* runs block 1 */
} op_kind;

typedef struct toy {
    op_kind kind;
    int bucket, member, stream, record, wait, ring;
    bool of_local; /* of an update: its gradient is not reduced; of a bucket: its members are exchanged; of a reduce: of
                    * a gradient alone */
    int fills;     /* of a bucket: 1: it copies its members, 2: it sets them */
} toy;

typedef struct kind_of_rank {
    toy ops[MOST_OPS];
    int nops, extent, place; /* elements of the private value, and of the last bucket's members */
    char text[MOST_TEXT];
} kind_of_rank;

typedef struct world {
    uint64_t state;
    weft_context *context;
    int nbuckets, nkinds, nranks, inner; /* which block 1 there is; 0: none */
    kind_of_rank kinds[MOST_KINDS];
    weft_program *programs[MOST_RANKS];
    int kind_at[MOST_RANKS];
} world;

static int draw(world *w, int below) {
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((w->state >> 33) % (uint64_t)below);
}

/* --- drawing ------------------------------------------------------------------------------------------------------ */

static void add(kind_of_rank *k, toy o) {
    if (k->nops < MOST_OPS) k->ops[k->nops++] = o;
}

static void add_bucket(world *w, kind_of_rank *k, int bucket, bool updates) {
    toy o = {.bucket = bucket, .stream = NONE, .record = NONE, .wait = NONE, .ring = bucket % 2};
    int stream = draw(w, 2);
    o.kind = COALESCE, add(k, o);
    o.kind = MAKE, o.record = 2 * bucket, add(k, o);
    bool by_stream = draw(w, 2); /* the reduce's own stream makes the other member: other bytes of the same buffer */
    o.member = 1, o.stream = by_stream ? stream : NONE, o.record = by_stream ? NONE : 2 * bucket, add(k, o);
    o.stream = NONE;
    bool by_next = draw(w, 2); /* the next launch on its stream says that it is done */
    toy reduce = {REDUCE, bucket, 0, stream, by_next ? NONE : 2 * bucket + 1, 2 * bucket, bucket % 2, false, 0};
    toy next = {PRIVATE, bucket, 0, stream, 2 * bucket + 1, NONE, 0, false, 0};
    add(k, reduce);
    if (by_next) add(k, next);
    o.kind = USE, o.record = NONE, o.wait = 2 * bucket + 1, add(k, o);
    o.member = 0, o.wait = NONE, add(k, o);
    o.kind = UPDATE;
    if (updates) add(k, o);
    o.kind = LOOK;
    if (updates) add(k, o);
}

static void insert(kind_of_rank *k, int at, toy o) {
    if (k->nops == MOST_OPS) return;
    memmove(k->ops + at + 1, k->ops + at, (size_t)(k->nops - at) * sizeof *k->ops);
    k->ops[at] = o;
    k->nops++;
}

static void leave_out(kind_of_rank *k, int at) {
    k->nops--;
    memmove(k->ops + at, k->ops + at + 1, (size_t)(k->nops - at) * sizeof *k->ops);
}

/* One of the ops of a kind; any, if there is none. */
static int draw_op(world *w, const kind_of_rank *k, op_kind kind) {
    int at = draw(w, k->nops);
    for (int i = 0; i < k->nops; i++)
        if (k->ops[(at + i) % k->nops].kind == kind) return (at + i) % k->nops;
    return at;
}

/* The members of a bucket take each other's names. */
static void rename_members(kind_of_rank *k, int bucket) {
    for (int i = 0; i < k->nops; i++) {
        if (k->ops[i].bucket != bucket) continue;
        k->ops[i].member = 1 - k->ops[i].member;
        if (k->ops[i].kind == COALESCE) k->ops[i].of_local = !k->ops[i].of_local;
    }
}

static void change(world *w, kind_of_rank *k) {
    static const op_kind kinds[] = {REDUCE, REDUCE, REDUCE, REDUCE, UPDATE, UPDATE, COALESCE, COALESCE};
    int which = draw(w, 48), at = which < 8 ? draw_op(w, k, kinds[which]) : draw(w, k->nops);
    int other = which < 8 ? draw_op(w, k, kinds[which]) : draw(w, k->nops);
    if (which == 21 || which == 22) at = draw_op(w, k, PRIVATE), other = (at + k->nops - 1) % k->nops;
    toy kept = k->ops[at], extra = {PRIVATE, draw(w, w->nbuckets), 0, draw(w, 3) - 1, NONE, NONE, 0, false, 0};
    switch (which < 32 ? which : which - 16) {
    case 0:
    case 8:
    case 21:
    case 22:
        k->ops[at] = k->ops[other];
        k->ops[other] = kept;
        return;
    case 1:
    case 5:
    case 9: leave_out(k, at); return;
    case 2: k->ops[at].ring = 1 - kept.ring; return;
    case 3:
    case 10: k->ops[at].wait = NONE; return;
    case 4:
    case 6: k->ops[at].of_local = true; return;
    case 7: k->place = 6; return;
    case 11: k->ops[at].stream = draw(w, 3) - 1; return;
    case 12: k->ops[at].record = draw(w, 2 * w->nbuckets); return;
    case 13: k->extent++; return;
    case 14: extra.kind = SYNC; break;
    case 18: k->ops[at].member = 1 - kept.member; return;
    case 19: extra.record = draw(w, 2 * w->nbuckets), extra.kind = PEEK; break;
    case 20:
        if (kept.wait != NONE) k->ops[at].wait = draw(w, 2 * w->nbuckets);
        return;
    case 15: extra.kind = WAIT_COMM; break;
    case 16: extra.kind = PEEK; break;
    case 17: rename_members(k, extra.bucket); return;
    case 24: k->ops[draw_op(w, k, COALESCE)].fills = 1 + draw(w, 2); return;
    case 25: extra.kind = SHOW, extra.member = draw(w, 2); break;
    case 26:
        extra.kind = SHOW, insert(k, at, extra);
        extra.kind = USE_SHOWN, extra.member = draw(w, 2), at += 1 + draw(w, k->nops - at);
        break;
    case 27: extra.kind = WORK_WHOLE, extra.member = draw(w, 2); break;
    case 28: extra.kind = PEEK_WHOLE; break;
    case 29: extra.kind = REGROUP; break;
    case 23: extra.kind = draw(w, 2) ? REDUCE : COALESCE; break;
    case 30:
        extra.kind = REDUCE, extra.of_local = true;
        at = draw_op(w, k, UPDATE), extra.bucket = k->ops[at].bucket;
        break;
    case 31: extra.kind = w->inner ? GUARDED : PRIVATE, extra.member = draw(w, 2); break;
    default: break;
    }
    insert(k, at, extra);
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

static bool is_recorded(const kind_of_rank *k, int event) {
    for (int i = 0; i < k->nops; i++)
        if (k->ops[i].record == event && k->ops[i].kind != WAIT_COMM) return true;
    return false;
}

static void append(char *out, const char *format, ...) WEFT_PRINTF(2, 3);
static void append(char *out, const char *format, ...) {
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + n, MOST_TEXT - n, format, args);
    va_end(args);
}

static void print_op(char *out, const kind_of_rank *k, const toy *o) {
    static const char *const fills[] = {"", ", copy_data: true", ", set_constant: true"};
    int b = o->bucket, first = o->of_local, second = !o->of_local;
    switch (o->kind) {
    case COALESCE:
        append(out,
               "  - {coalesce_tensor: {Input: [g%d_%d, g%d_%d]}, out: {Output: [g%d_%d, g%d_%d], FusedOutput: f%d}, "
               "attrs: {dtype: 5, align_size: 256, use_align: true%s}",
               b, first, b, second, b, first, b, second, b, fills[o->fills]);
        break;
    case MAKE: append(out, "  - {scale: {X: x}, out: {Out: g%d_%d}, attrs: {scale: 2.0}", b, o->member); break;
    case REDUCE:
        append(out, "  - {c_allreduce_sum: {X: %s%d%s}, out: {Out: %s%d%s}, ", o->of_local ? "y" : "f", b,
               o->of_local ? "_0" : "", o->of_local ? "y" : "f", b, o->of_local ? "_0" : "");
        append(out, "attrs: {ring_id: %d, use_calc_stream: true%s}", o->ring, o->member ? ", nranks: 2" : "");
        break;
    case USE: append(out, "  - {relu: {X: g%d_%d}, out: {Out: y%d_%d}", b, o->member, b, o->member); break;
    case UPDATE:
        append(out, "  - {sgd: {Grad: %s%d_0, LearningRate: r, Param: w%d}, out: {ParamOut: w%d}",
               o->of_local ? "h" : "y", b, b, b);
        break;
    case LOOK: append(out, "  - {relu: {X: w%d}, out: {Out: z%d}", b, b); break;
    case PRIVATE:
        append(out, "  - {fill_constant: {}, out: {Out: p%d}, attrs: {shape: !longs [%d], dtype: 5}", b, k->extent);
        break;
    case PEEK: append(out, "  - {relu: {X: g%d_%d}, out: {Out: q}", b, o->member); break;
    case SYNC: append(out, "  - {c_sync_comm_stream: {X: g%d_0}, out: {Out: g%d_0}", b, b); break;
    case SHOW: append(out, "  - {getitem: {X: g%d_%d}, out: {Out: v%d}", b, o->member, b); break;
    case USE_SHOWN:
        if (o->member)
            append(out, "  - {relu: {X: x}, out: {Out: v%d}", b);
        else
            append(out, "  - {relu: {X: v%d}, out: {Out: y%d_0}", b, b);
        break;
    case WORK_WHOLE:
        if (o->member)
            append(out, "  - {relu: {X: x}, out: {Out: f%d}", b);
        else
            append(out, "  - {scale: {X: f%d}, out: {Out: f%d}, attrs: {scale: 2.0}", b, b);
        break;
    case PEEK_WHOLE: append(out, "  - {relu: {X: f%d}, out: {Out: u}", b); break;
    case REGROUP:
        append(out,
               "  - {coalesce_tensor: {Input: [g%d_0]}, out: {Output: [g%d_0], FusedOutput: e}, "
               "attrs: {dtype: 5, align_size: 256, use_align: true, copy_data: true}",
               b, b);
        break;
    case GUARDED:
        append(out, "  - {conditional_block: {Cond: [%s]}, out: {Out: [w0]}, attrs: {sub_block: !block 1}",
               o->member ? "d" : "c");
        break;
    case WAIT_COMM: append(out, "  - {c_wait_comm: {}, attrs: {ring_id: %d}}\n", o->ring); return;
    }
    static const char *const streams[] = {"s", "t"};
    append(out, ", dist: {");
    const char *comma = "";
    if (o->stream != NONE) append(out, "stream: %s", streams[o->stream]), comma = ", ";
    if (o->record != NONE) append(out, "%srecord: e%d", comma, o->record), comma = ", ";
    if (o->wait != NONE && is_recorded(k, o->wait)) append(out, "%swait: [e%d]", comma, o->wait);
    append(out, "}}\n");
}

static void print(const world *w, kind_of_rank *k, const char *rings) {
    k->text[0] = '\0';
    append(k->text,
           "weft: 1\nrank: -1\nrings: %s\nblocks:\n- vars:\n    x: {float32: [4], need_check_feed: true}\n"
           "    q: {float32: [4]}\n    r: {float32: [1], persistable: true}\n    u: {float32: [128]}\n"
           "    e: {float32: [64]}\n    c: {bool: [1], need_check_feed: true}\n    d: {bool: [1], persistable: true}\n",
           rings);
    for (int b = 0; b < w->nbuckets; b++) {
        int n = b == w->nbuckets - 1 ? k->place : 4;
        append(k->text, "    f%d: {float32: [128]}\n    w%d: {float32: [4], persistable: true}\n", b, b);
        append(k->text, "    h%d_0: {float32: [4], need_check_feed: true}\n    z%d: {float32: [4]}\n", b, b);
        append(k->text, "    p%d: {float32: [%d]}\n    v%d: {float32: [%d]}\n", b, k->extent, b, n);
        for (int i = 0; i < 2; i++)
            append(k->text, "    g%d_%d: {float32: [%d]}\n    y%d_%d: {float32: [%d]}\n", b, i, n, b, i, n);
    }
    append(k->text, "  ops:\n");
    for (int i = 0; i < k->nops; i++) print_op(k->text, k, &k->ops[i]);
    static const char *const inner[] = {
        "  - {relu: {X: g0_0}, out: {Out: i}}\n  - {sgd: {Grad: i, LearningRate: r, Param: w0}, out: {ParamOut: w0}}\n",
        "  - {c_allreduce_sum: {X: f0}, out: {Out: f0}, attrs: {ring_id: 0, use_calc_stream: true}}\n",
        "  - {scale: {X: r}, out: {Out: g0_0}, attrs: {scale: 2.0}}\n  - {relu: {X: g0_1}, out: {Out: i}}\n"};
    if (w->inner) append(k->text, "- parent: 0\n  vars: {i: {float32: [4]}}\n  ops:\n%s", inner[w->inner - 1]);
}

static void draw_world(world *w, int number) {
    static const char *const rings[] = {"{0: [0, 1], 1: [0, 1]}", "{0: [0, 1, 2], 1: [0, 2]}",
                                        "{0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}", "{0: [0, 1], 1: [0, 2]}"};
    static const int nranks[] = {2, 3, MOST_RANKS, 3};
    int shape_of_world = draw(w, 8) ? draw(w, 3) : 3;
    bool updates = draw(w, 2);
    w->nranks = nranks[shape_of_world];
    w->nbuckets = 1 + draw(w, 3);
    w->nkinds = 2 + draw(w, MOST_KINDS - 1);
    w->inner = draw(w, 4) ? 0 : 1 + draw(w, 3);
    kind_of_rank *first = &w->kinds[0];
    *first = (kind_of_rank){.extent = 4, .place = 4};
    for (int b = 0; b < w->nbuckets; b++) add_bucket(w, first, b, updates);
    for (int i = 0; i < w->nkinds; i++) {
        if (i) w->kinds[i] = *first;
        for (int n = (i > 0) + (draw(w, 4) == 0); n > 0; n--) change(w, &w->kinds[i]);
    }
    for (int i = 0; i < w->nkinds; i++) print(w, &w->kinds[i], rings[shape_of_world]);
    for (int r = 0; r < w->nranks; r++) {
        const kind_of_rank *k = &w->kinds[w->kind_at[r] = draw(w, w->nkinds)];
        char place[32];
        snprintf(place, sizeof place, "world %d", number);
        must(weft_program_parse(w->context, WEFT_FORM_YAML, k->text, strlen(k->text), NULL, 0, place, &w->programs[r]));
    }
}

/* --- class by class ----------------------------------------------------------------------------------------------- */

typedef struct apart {
    const world *w;
    weft_reading reading;
    arena arena;
    int64_t first_rank[MOST_RANKS], all[MOST_RANKS];
    uint32_t class_of[MOST_RANKS];
    size_t nclasses;
    proof_schedule programs[MOST_RANKS], schedules[MOST_RANKS];
    proof_class classes[MOST_RANKS];
    proof_ranks ranks;
    weft_findings of_ranks, together; /* of single ranks; of all */
    size_t nsure, nswept; /* programs that surely read nothing unwritten; launches that are swept without their ops */
} apart;

static void find_classes(apart *x) {
    const world *w = x->w;
    for (int r = 0; r < w->nranks; r++) {
        uint32_t c = 0;
        while (c < x->nclasses && strcmp(w->kinds[w->kind_at[x->first_rank[c]]].text, w->kinds[w->kind_at[r]].text))
            c++;
        if (c == x->nclasses) x->first_rank[x->nclasses++] = r;
        x->class_of[r] = c;
        x->all[r] = r;
    }
}

static void make_schedules(apart *x) {
    weft_verify_options o = {.reading = x->reading};
    for (size_t c = 0; c < x->nclasses; c++) {
        must(schedule_from_program(x->w->programs[x->first_rank[c]], &o, &x->arena, &x->programs[c]));
        x->schedules[c] = x->programs[c];
        if (x->reading == WEFT_READING_BY_NAME) must(schedule_order_by_name(&x->schedules[c]));
        must(sequences_list(&x->schedules[c], &x->arena, &x->classes[c]));
    }
    x->ranks = (proof_ranks){.context = x->w->context,
                             .classes = x->classes,
                             .nclasses = x->nclasses,
                             .programs = (const weft_program *const *)x->w->programs,
                             .class_of = x->class_of,
                             .all = x->all,
                             .nranks = x->w->nranks};
}

/* A schedule of which nothing is left out: not because nothing is updated, not because a look at it while it was read
 * found nothing to doubt; and ops are swept one by one. */
static proof_schedule asked_in_full(apart *x, size_t c) {
    static uint32_t first_event;
    proof_schedule copy = x->programs[c];
    if (!copy.nupdates) copy.updates = &first_event, copy.nupdates = 1;
    copy.updated.a += c;
    x->nsure += !copy.may_read_unwritten;
    copy.may_read_unwritten = true;
    copy.events = arena_copy(&x->arena, copy.events, (copy.nevents + 1) * sizeof *copy.events);
    cr_assert(copy.events);
    for (size_t i = 0; i < copy.nevents; i++) {
        x->nswept += copy.events[i].makes != PROOF_MAKES_OTHERWISE;
        copy.events[i].makes = PROOF_MAKES_OTHERWISE;
    }
    return copy;
}

static void ask_classes(apart *x) {
    across others;
    proof_schedule updating[MOST_RANKS];
    weft_findings *f = &x->of_ranks;
    must(across_begin(&others, &x->ranks, &x->arena));
    for (size_t c = 0; c < x->nclasses; c++) {
        const proof_schedule *s = &x->programs[c];
        int64_t rank = x->first_rank[c];
        member_lists lists;
        program_rings rings;
        member_lists_init(&lists, &x->arena);
        must(member_lists_add(&lists, s->program, &rings));
        updating[c] = asked_in_full(x, c);
        must(check_races_among(&others, (uint32_t)c, rank, f));
        must(check_uninitialised(&updating[c], rank, f));
        must(check_stale(s, rank, f));
        must(check_shards(s, rank, f));
        must(check_ring_sizes(s, rank, f));
        if (x->reading == WEFT_READING_BY_NAME) {
            must(check_communicators(s, rank, f));
            must(check_reused(&others, (uint32_t)c, rank, f));
        }
        must(check_replicas(&updating[c], &rings, rank, x->w->nranks, f));
    }
    must(check_owners(updating, x->nclasses, x->first_rank, f));
}

static bool is_stuck(const weft_findings *f) {
    bool stuck = false;
    for (size_t i = 0; i < f->count; i++) stuck |= f->items[i].verdict != WEFT_VERDICT_WRONG_DATA;
    return stuck;
}

static void ask_together(apart *x) {
    must(check_pairing(&x->ranks, &x->together));
    if (!is_stuck(&x->together)) must(check_deadlock(&x->ranks, &x->together));
}

static void ask_apart(apart *x) {
    weft_findings *both[] = {&x->of_ranks, &x->together};
    arena_init(&x->arena, &x->w->context->allocator);
    for (int i = 0; i < 2; i++) {
        *both[i] = (weft_findings){.context = x->w->context, .max = 10000};
        arena_init(&both[i]->arena, &x->w->context->allocator);
    }
    find_classes(x);
    make_schedules(x);
    ask_classes(x);
    ask_together(x);
}

static void free_apart(apart *x) {
    arena_fini(&x->of_ranks.arena);
    arena_fini(&x->together.arena);
    arena_fini(&x->arena);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static bool is_told(const weft_findings *f, size_t from, const weft_finding *what) {
    for (size_t i = from; i < f->count; i++)
        if (f->items[i].verdict == what->verdict && f->items[i].ring == what->ring) return true;
    return false;
}

static void compare(const apart *x, const weft_findings *found, int number, int *counts) {
    const weft_findings *single = &x->of_ranks, *all = &x->together;
    cr_assert_geq(found->count, single->count, "world %d: %zu are told, class by class %zu", number, found->count,
                  single->count);
    for (size_t i = 0; i < single->count; i++) {
        cr_assert_str_eq(found->items[i].message, single->items[i].message, "world %d: finding %zu", number, i);
        cr_assert_eq(found->items[i].verdict, single->items[i].verdict, "world %d: finding %zu", number, i);
        counts[found->items[i].verdict]++;
    }
    for (size_t i = single->count; i < found->count; i++)
        cr_assert(is_told(all, 0, &found->items[i]), "world %d: only together: %s", number, found->items[i].message);
    for (size_t i = 0; i < all->count; i++) {
        cr_assert(is_told(found, single->count, &all->items[i]), "world %d: only class by class: %s", number,
                  all->items[i].message);
        counts[all->items[i].verdict]++;
    }
}

/* Alone in its world a program has the races that its closure has. */
static void compare_alone(const weft_program *p, int number) {
    weft_findings *found;
    order_verdict closure;
    size_t nraces = 0;
    must(weft_verify(&p, 1, &(weft_verify_options){.reading = WEFT_READING_IN_ORDER, .nranks = 1}, &found));
    order_of_program(p, &closure);
    for (size_t i = 0; i < found->count; i++) {
        const weft_finding *f = &found->items[i];
        if (f->verdict != WEFT_VERDICT_RACE) continue;
        nraces++;
        cr_assert(order_has(&closure, (uint32_t)f->ops[0].index, (uint32_t)f->ops[1].index), "world %d: %s", number,
                  f->message);
    }
    cr_assert_eq(nraces > 0, closure.npairs > 0, "world %d: %zu races, %zu pairs", number, nraces, closure.npairs);
    order_free(&closure);
    weft_findings_destroy(found);
}

Test(proof_together, as_class_by_class) {
    size_t nsure = 0, nswept = 0;
    int counts[16] = {0}, nsafe = 0, nworlds = getenv("WEFT_LONG_TESTS") ? 20000 : 1000;
    if (getenv("WEFT_SANITIZED")) nworlds /= 4;
    weft_context *context;
    world *w = malloc(sizeof *w);
    apart *x = malloc(sizeof *x);
    cr_assert(w && x);
    must(weft_context_create(NULL, &context));
    for (int number = 1; number <= nworlds; number++) {
        *w = (world){.state = (uint64_t)number * 0x9E3779B97F4A7C15u, .context = context};
        draw_world(w, number);
        for (int k = 0; k < (number % 4 ? 1 : 2); k++) {
            weft_findings *found;
            weft_verify_options o = {.reading = k ? WEFT_READING_BY_NAME : WEFT_READING_IN_ORDER, .nranks = w->nranks};
            must(weft_verify((const weft_program *const *)w->programs, (size_t)w->nranks, &o, &found));
            *x = (apart){.w = w, .reading = o.reading};
            ask_apart(x);
            compare(x, found, number, counts);
            nsafe += found->count == 0;
            nsure += x->nsure;
            nswept += x->nswept;
            free_apart(x);
            weft_findings_destroy(found);
        }
        for (int r = 0; r < w->nranks; r++)
            if (!r || w->kind_at[r] != w->kind_at[r - 1]) compare_alone(w->programs[r], number);
        for (int r = 0; r < w->nranks; r++) weft_program_destroy(w->programs[r]);
    }
    static const weft_verdict wanted[] = {WEFT_VERDICT_RACE, WEFT_VERDICT_DEADLOCK, WEFT_VERDICT_WRONG_DATA,
                                          WEFT_VERDICT_MISSING_REDUCE, WEFT_VERDICT_UNINITIALISED_READ};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        cr_expect_geq(counts[wanted[i]], nworlds / 40, "%s: %d", weft_verdict_name(wanted[i]), counts[wanted[i]]);
    cr_expect_geq(nsafe, nworlds / 20, "%d without a finding", nsafe);
    cr_expect_geq(nsure, (size_t)nworlds, "%zu programs that read nothing unwritten", nsure);
    cr_expect_geq(nswept, 8 * (size_t)nworlds, "%zu launches swept without their ops", nswept);
    weft_context_destroy(context);
    free(w);
    free(x);
}

/* nccl.c: the part of NCCL that weft_cuda.so uses, on streams of the stand-in for the CUDA runtime.
 *
 * What a member launches is an item of its stream: the calls of a group on one communicator. Calls meet: a collective
 * with the same number of all members, a send with a receive of the same number between the same two. An item can go
 * when each of its calls has met all others at the heads of their streams; the first one that goes moves the data of
 * all. Arithmetic is in the order of ranks.
 *
 * The process ends (standin_broken) when members do not launch the same or a group is left open. So it does when a
 * config was not initialised, or a communicator is left at the end. */
#include "tests/standin/nccl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Thread_local standin_launch *open_group; /* what the group of this thread has so far */
static _Thread_local bool call_failed;    /* in it */
static _Atomic int nalive;

SHOWN ncclResult_t ncclGetVersion(int *version) {
    if (standin_fails("ncclversion")) return ncclSystemError;
    *version = 23102;
    return ncclSuccess;
}

SHOWN const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclSuccess ? "no error" : "a failure of the stand-in";
}

SHOWN const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

static standin_team *teams; /* all there ever were, until the process ends: with the lock */

static void check_config(const ncclConfig_t *c) {
    if (c && (c->magic != 0xcafebeef || c->size != sizeof *c)) standin_broken("a config that was not initialised");
}

/* Without it kernels of two communicators may start in different orders on two GPUs, and wait for one another. */
SHOWN void standin_check_launch_order(void);
void standin_check_launch_order(void) {
    const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    if (!order || strcmp(order, "1") != 0)
        standin_broken("NCCL_LAUNCH_ORDER_IMPLICIT is %s", order ? order : "not set");
}

static standin_team *find_team(const char *id, int nranks) {
    standin_team *t = teams;
    while (t && memcmp(t->id, id, sizeof t->id) != 0) t = t->next;
    if (!t) {
        t = calloc(1, sizeof *t);
        if (!t) abort();
        memcpy(t->id, id, sizeof t->id);
        t->nranks = nranks;
        t->next = teams;
        teams = t;
    }
    if (t->nranks != nranks) standin_broken("a communicator of %d and of %d ranks", t->nranks, nranks);
    return t;
}

static uint64_t users; /* bits of communicators that are there: with the lock */

static uint64_t take_user(void) {
    uint64_t user = ~users & (users + 1); /* the lowest that is free */
    users |= user;
    return user;
}

static standin_comm *add_comm(standin_team *t, int rank) {
    standin_comm *c = calloc(1, sizeof *c);
    if (!c || rank < 0 || rank >= STANDIN_MOST_RANKS) abort();
    if (t->members[rank]) standin_broken("rank %d joins twice", rank);
    *c = (standin_comm){.team = t, .rank = rank, .bit = take_user()};
    t->members[rank] = c;
    t->njoined++;
    nalive++;
    return c;
}

void standin_check_gpus(const standin_team *t) {
    for (int a = 0; a < t->nranks; a++)
        for (int b = 0; b < a; b++)
            if (t->gpus[a][0] && strcmp(t->gpus[a], t->gpus[b]) == 0)
                standin_broken("Duplicate GPU detected: ranks %d and %d have %s", b, a, t->gpus[a]);
}

/* That of the thread, on the host WEFT_STANDIN_HOST; without it hosts are told apart as NCCL does. */
static void take_gpu(standin_team *t, int rank) {
    const char *host = getenv("WEFT_STANDIN_HOST");
    if (!host || !*host) host = getenv("NCCL_HOSTID");
    int gpu = 0;
    if (cudaGetDevice(&gpu)) (void)cudaGetLastError(); /* NCCL has a runtime of its own */
    snprintf(t->gpus[rank], sizeof t->gpus[rank], "GPU %d of %.60s", gpu, host && *host ? host : "this host");
    standin_check_gpus(t);
}

SHOWN ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    static _Atomic int nids;
    if (standin_fails("uniqueid")) return ncclSystemError;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "id %d of %d", ++nids, (int)getpid());
    return ncclSuccess;
}

SHOWN ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int nranks, ncclUniqueId id, int rank,
                                          ncclConfig_t *config) {
    if (config && standin_bends("init.raw")) config->magic = 0;
    if (config && standin_bends("init.blocks")) config->blocking = 1;
    if (standin_bends("init.more")) nranks++;
    if (standin_bends("init.first")) rank = 0;
    check_config(config);
    if (standin_fails("init")) return ncclSystemError;
    if (!config || config->blocking != 0) standin_broken("a blocking communicator");
    standin_check_launch_order();
    standin_lock();
    standin_comm *c = add_comm(find_team(id.internal, nranks), rank);
    take_gpu(c->team, rank);
    standin_far_join(c->team, rank);
    *out = (ncclComm_t)(void *)c;
    standin_unlock();
    return ncclInProgress;
}

/* For tests that have no header of NCCL. */
SHOWN ncclComm_t standin_comm_create(const char *id, int nranks, int rank);
SHOWN ncclComm_t standin_comm_create(const char *id, int nranks, int rank) {
    char all[128] = "";
    snprintf(all, sizeof all, "%s", id);
    standin_lock();
    ncclComm_t comm = (ncclComm_t)(void *)add_comm(find_team(all, nranks), rank);
    standin_unlock();
    return comm;
}

/* Whoever asked for a split learns of the new communicator when it is there, by the address that was given. */
static void end_split(standin_comm *c) {
    c->is_splitting = false;
    __atomic_store_n(c->child_out, (ncclComm_t)(void *)c->child, __ATOMIC_RELEASE);
}

/* The communicators of a split exist when all members of the parent have called. */
static void make_children(standin_team *parent) {
    for (int color = 0; color < STANDIN_MOST_RANKS; color++) {
        standin_team *t = NULL;
        char id[128];
        for (int key = 0; key < STANDIN_MOST_RANKS; key++)
            for (int r = 0; r < parent->nranks; r++) {
                standin_comm *c = parent->members[r];
                if (c->color != color || c->key != key) continue;
                memset(id, 0, sizeof id);
                snprintf(id, sizeof id, "%.60s split %d color %d", parent->id, parent->nsplits, color);
                if (!t) {
                    t = find_team(id, 0);
                    t->nranks = 0;
                }
                c->child->team = t;
                c->child->rank = t->nranks;
                t->members[t->nranks++] = c->child;
                t->njoined++;
            }
    }
    parent->nsplits++;
    parent->nsplitting = 0;
    for (int r = 0; r < parent->nranks; r++) end_split(parent->members[r]);
}

/* The same where members are in other processes: each finds its own when all have asked. */
static void make_child(standin_comm *c) {
    int rank, nranks;
    char id[128];
    if (!c->is_splitting || !standin_far_split(c, &rank, &nranks)) return;
    memset(id, 0, sizeof id);
    snprintf(id, sizeof id, "%.60s split %d color %d", c->team->id, c->nsplits++, c->color);
    standin_team *t = c->color == NCCL_SPLIT_NOCOLOR ? NULL : find_team(id, nranks);
    if (t) {
        c->child->team = t;
        c->child->rank = rank;
        t->members[rank] = c->child;
        t->njoined++;
        t->is_complete = true;
    }
    end_split(c);
}

SHOWN ncclResult_t ncclCommSplit(ncclComm_t of, int color, int key, ncclComm_t *out, ncclConfig_t *config) {
    standin_comm *c = standin_comm_of(of);
    check_config(config);
    if (standin_fails("split")) return ncclSystemError;
    standin_lock();
    if (!standin_team_is_complete(c->team)) standin_broken("a split of a communicator that is not complete");
    if (c->is_splitting) standin_broken("a split before the one at hand is complete");
    *c = (standin_comm){.team = c->team,
                        .rank = c->rank,
                        .ncollectives = c->ncollectives,
                        .nsplits = c->nsplits,
                        .bit = c->bit,
                        .color = color,
                        .key = key,
                        .child_out = out,
                        .is_splitting = true};
    *out = NULL;
    if (color != NCCL_SPLIT_NOCOLOR) {
        c->child = calloc(1, sizeof *c->child);
        if (!c->child) abort();
        c->child->bit = take_user();
        nalive++;
    }
    if (standin_is_far())
        standin_far_ask_split(c);
    else if (++c->team->nsplitting == c->team->nranks)
        make_children(c->team);
    standin_unlock();
    return standin_bends("split.again") ? ncclCommSplit(of, color, key, out, config) : ncclInProgress;
}

static void launch_held(standin_launch *held);

SHOWN ncclResult_t ncclCommGetAsyncError(ncclComm_t of, ncclResult_t *out) {
    standin_comm *c = standin_comm_of(of);
    if (standin_fails("asyncerror")) return ncclSystemError;
    if (standin_bends("asyncerror.early")) return *out = ncclSuccess;
    standin_lock();
    standin_launch *held = c->nsettles <= 1 ? c->held : NULL;
    if (held) c->held = NULL;
    if (standin_is_far()) make_child(c);
    bool is_complete = c->team && standin_team_is_complete(c->team) && !c->is_splitting && standin_window_is_there(c) &&
                       c->nsettles == 0;
    if (c->nsettles) c->nsettles--;
    *out = c->failure ? c->failure : is_complete ? ncclSuccess : ncclInProgress;
    standin_unlock();
    launch_held(held);
    return ncclSuccess;
}

static void forget_launch(standin_launch *l);

/* With the lock: what was not put into graphs yet is not any more. What is left is of streams. */
static standin_launch *take_held(standin_comm *c) {
    standin_launch *held = c->held, **end = &held;
    c->held = NULL;
    while (*end) {
        standin_launch *l = *end;
        if (!l->is_in_graph) {
            end = &l->next;
            continue;
        }
        *end = l->next;
        free(l->held);
        forget_launch(l);
    }
    return held;
}

/* An abort tells kernels to end, and then lasts until the last graph is gone that has some of them. */
static void wait_for_graphs(const standin_comm *c) {
    const char *given = getenv("WEFT_STANDIN_PATIENCE_MS");
    for (int left_ms = given ? atoi(given) : 20000, n = 1; n; left_ms--) {
        standin_lock();
        n = c->ngraphs;
        standin_unlock();
        if (n && left_ms <= 0) standin_broken("ncclCommAbort waits for graphs that have its collectives");
        if (n) usleep(1000);
    }
}

ncclResult_t standin_end_comm(standin_comm *c, bool aborts) {
    if (aborts && standin_bends("abort.late")) usleep(50000);
    standin_lock();
    standin_launch *held = take_held(c);
    if (c->is_splitting) end_split(c);
    if (c->has_ended) standin_broken("a communicator ends twice");
    if (!aborts && c->ngraphs) standin_broken("a communicator is destroyed before graphs that have its collectives");
    if (!aborts && c->nin_flight) standin_broken("a communicator is destroyed that has work");
    c->has_ended = true;
    standin_unlock();
    launch_held(held); /* they end there, and do nothing */
    wait_for_graphs(c);
    standin_lock();
    standin_forget_known(c, aborts);
    standin_blocks_leave(c->bit);
    users &= ~c->bit;
    standin_unlock();
    nalive--;
    return ncclSuccess;
}

SHOWN ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (standin_loses("destroy")) return ncclSuccess;
    if (standin_bends("destroy.again")) standin_end_comm(standin_comm_of(comm), false);
    standin_end_comm(standin_comm_of(comm), false);
    return standin_fails("destroy") ? ncclSystemError : ncclSuccess;
}
SHOWN ncclResult_t ncclCommAbort(ncclComm_t comm) {
    standin_end_comm(standin_comm_of(comm), true);
    return standin_fails("abort") ? ncclSystemError : ncclSuccess;
}

__attribute__((destructor)) static void report_leaks(void) {
    if (nalive) standin_broken("%d communicators left at the end", nalive);
}

/* --- meetings ----------------------------------------------------------------------------------------------------- */

static bool meets(const standin_meeting *m, const standin_call *c) {
    return m->is_pair == c->is_pair && m->number == c->number &&
           (!m->is_pair || (m->from == c->from && m->to == c->to));
}

static bool agree(const standin_call *a, const standin_call *b) {
    if (a->is_pair) return a->nbytes == b->nbytes;
    return a->kind == b->kind && a->count == b->count && a->type == b->type && a->op == b->op && a->root == b->root;
}

/* With the lock: the meeting of a call, to which it is added. */
static standin_meeting *join(standin_comm *comm, const standin_call *c) {
    standin_team *t = comm->team;
    standin_meeting *m = t->meetings;
    while (m && !meets(m, c)) m = m->next;
    if (!m) {
        m = calloc(1, sizeof *m);
        if (!m) abort();
        *m = (standin_meeting){.is_pair = c->is_pair,
                               .number = c->number,
                               .from = c->from,
                               .to = c->to,
                               .nexpected = standin_far_expected(t, c),
                               .next = t->meetings};
        t->meetings = m;
    }
    for (int i = 0; i < m->ncalls; i++)
        if (!agree(m->calls[i].call, c)) standin_broken("ranks do not launch the same collective");
    for (int i = 0; i < m->ncalls; i++)
        if (!standin_same_config(&m->calls[i].call->config, &c->config))
            standin_broken("ranks configure a collective differently");
    for (int i = 0; i < m->ncalls; i++) standin_check_known(t, m->calls[i].rank, m->calls[i].call, comm->rank, c);
    m->calls[m->ncalls++] = (standin_attendance){.call = c, .rank = comm->rank};
    return m;
}

static bool can_go(standin_item *item) {
    standin_launch *l = *(standin_launch **)(void *)item->bytes;
    bool all = true;
    if (l->comm->has_ended) return true;
    if (l->hangs) return false;
    for (standin_call *c = l->calls; c; c = c->next) {
        standin_meeting *m = c->meeting;
        if (!c->has_arrived) m->narrived++;
        if (!c->has_arrived) standin_far_bring(l->comm->team, m, l->comm->rank, c);
        if (!c->has_arrived && standin_item_ns(item) > m->begin_ns) m->begin_ns = standin_item_ns(item);
        c->has_arrived = true;
        all = all && (m->is_done || (m->narrived == m->nexpected && standin_far_is_there(l->comm->team, m)));
    }
    return all;
}

/* Streams of members that have launched their part, and are not there yet. */
static cudaStream_t absent(const standin_item *item, int k) {
    const standin_launch *l = *(standin_launch *const *)(const void *)item->bytes;
    for (const standin_call *c = l->calls; c && !l->hangs && !l->comm->has_ended; c = c->next)
        for (int i = 0; !c->meeting->is_done && i < c->meeting->ncalls; i++) {
            const standin_call *other = c->meeting->calls[i].call;
            if (other->is_pushed && !other->has_arrived && k-- == 0) return other->stream;
        }
    return NULL;
}

static void leave(standin_team *t, standin_meeting *m) {
    if (++m->nleft < m->nexpected) return;
    standin_meeting **at = &t->meetings;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    free(m);
}

/* Virtual time of a ring: messages one after another, of 5 us and 50 GB a second, and 2 us for the launch. Those are
 * the figures of weft simulate where it is told no others. */
static int64_t cost_of(const standin_team *t, const standin_call *c) {
    int64_t others = t->nranks - 1, nbytes = (int64_t)c->nbytes;
    bool is_reduced = c->kind == ALL_REDUCE;
    int64_t messages = c->is_pair ? 1 : is_reduced ? 2 * others : others;
    return 2000 + messages * 5000 + messages * (is_reduced ? nbytes / t->nranks : nbytes) / 50;
}

static void run(standin_item *item) {
    standin_launch *l = *(standin_launch **)(void *)item->bytes;
    standin_team *t = l->comm->team;
    for (standin_call *c = l->calls; c && !l->comm->has_ended; c = c->next) {
        standin_touch_call(item, t, l->comm->rank, c);
        if (c->meeting->begin_ns > item->start_ns) item->start_ns = c->meeting->begin_ns;
        item->cost_ns += cost_of(t, c);
        if (!c->meeting->is_done) standin_far_move(t, c->meeting);
        c->meeting->is_done = true;
    }
    standin_lock();
    for (standin_call *c = l->calls, *next; c; c = next) {
        next = c->next;
        if (!l->comm->has_ended) leave(t, c->meeting);
        if (!l->comm->has_ended || !c->meeting) free(c);
    }
    l->comm->nin_flight--;
    standin_unlock();
    free(l);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* A member may send to itself: both sides are counted. */
static int64_t *pair_counter(standin_comm *comm, const standin_call *c) {
    return c->src ? &comm->nsent[c->to] : &comm->nreceived[c->from];
}

static void number_call(standin_comm *comm, standin_call *c) {
    c->number = c->is_pair ? (*pair_counter(comm, c))++ : comm->ncollectives++;
}

/* Of a graph: each time it is launched the node's calls meet anew. */
static void launch_again(standin_item *item) {
    const standin_launch *node = *(standin_launch **)(void *)item->bytes;
    standin_launch *l = malloc(sizeof *l);
    if (!l) abort();
    *l = *node;
    l->end = &l->calls;
    for (const standin_call *from = node->calls; from; from = from->next) {
        standin_call *c = malloc(sizeof *c);
        if (!c) abort();
        *c = *from;
        c->is_pushed = true;
        c->stream = item->stream;
        c->next = NULL;
        *l->end = c;
        l->end = &c->next;
        if (l->comm->has_ended) continue;
        number_call(l->comm, c);
        c->meeting = join(l->comm, c);
    }
    l->comm->nin_flight++;
    memcpy(item->bytes, &l, sizeof l);
}

static void forget_launch(standin_launch *l) {
    for (standin_call *c = l->calls, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    l->comm->ngraphs--;
    free(l);
}

static void forget_node(standin_item *item) {
    forget_launch(*(standin_launch **)(void *)item->bytes);
}

/* Each call waits in the list of its thread until the group ends. */
static void push_launch(standin_launch *l) {
    standin_item *item = standin_item_create(standin_op_name(l->calls->kind), sizeof l);
    memcpy(item->bytes, &l, sizeof l);
    item->can_go = can_go;
    item->waits_for = absent;
    item->run = run;
    standin_lock();
    l->comm->has_user = false;
    if (l->is_in_graph) {
        item->again = launch_again;
        item->forget = forget_node;
        l->comm->ngraphs++;
    } else {
        for (standin_call *c = l->calls; c; c = c->next) c->meeting = join(l->comm, c);
        l->comm->nin_flight++;
    }
    /* So often it says InProgress, and puts nothing on the stream before. */
    l->comm->nsettles = standin_bends("groupend.slow") ? 1000000 : 2;
    l->held = item;
    l->next = NULL;
    standin_launch **end = &l->comm->held;
    while (*end) end = &(*end)->next;
    *end = l;
    standin_unlock();
}

static void do_nothing(standin_item *item) {
    (void)item;
}
static standin_item *event_node(enum cudaGraphNodeType type) {
    standin_item *item = standin_item_create("an event of NCCL", 0);
    item->type = type;
    item->run = do_nothing;
    return item;
}

/* A graph also has events by which graphs and other launches take turns: one that is awaited before the first kernel
 * of a communicator, and one that is recorded behind each. Nothing of the caller's is ordered with them. */
static void push_node(standin_launch *l) {
    standin_item *awaited = event_node(cudaGraphNodeTypeWaitEvent);
    if (!standin_beside_begins(&l->comm->beside, l->stream, awaited)) free(awaited);
    standin_push_locked(l->stream, l->held);
    standin_beside_add(&l->comm->beside, l->stream, event_node(cudaGraphNodeTypeEventRecord));
}

/* What was held back goes to its stream. */
static void launch_held(standin_launch *held) {
    while (held) {
        standin_launch *next = held->next;
        standin_lock();
        for (standin_call *c = held->calls; c; c = c->next) c->is_pushed = !held->is_in_graph;
        if (held->is_in_graph)
            push_node(held);
        else
            standin_push_locked(held->stream, held->held);
        standin_unlock();
        held = next;
    }
}

/* Within a group a call says either, as the communicator does: nothing was launched yet. */
static ncclResult_t say_in_group(void) {
    static _Atomic int ncalls;
    return ++ncalls % 2 ? ncclInProgress : ncclSuccess;
}

SHOWN ncclResult_t ncclGroupStart(void);
SHOWN ncclResult_t ncclGroupEnd(void);

SHOWN ncclResult_t ncclGroupStart(void) {
    if (standin_fails("groupstart")) return ncclSystemError;
    if (!standin_loses("groupstart")) ++*standin_group_depth();
    return ncclSuccess;
}

/* Of a group that fails nothing is launched. */
static ncclResult_t forget_group(void) {
    call_failed = false;
    while (open_group) {
        standin_launch *l = open_group;
        open_group = l->next;
        l->comm->has_user = false;
        for (standin_call *c = l->calls, *next; c; c = next) {
            next = c->next;
            free(c);
        }
        free(l);
    }
    return ncclInternalError;
}

static ncclResult_t end_group(void) {
    if (open_group && standin_bends("groupend.waits")) cudaStreamSynchronize(open_group->stream);
    if (--*standin_group_depth() < 0) standin_broken("ncclGroupEnd without ncclGroupStart");
    if (*standin_group_depth()) return ncclSuccess;
    if (standin_fails("groupend") || call_failed) return forget_group();
    while (open_group) {
        standin_launch *l = open_group;
        standin_comm *comm = l->comm;
        open_group = l->next;
        push_launch(l);
        if (standin_bends("groupend.untells")) standin_untell(comm);
        if (standin_bends("groupend.destroys")) standin_end_comm(comm, false);
    }
    return ncclInProgress;
}

SHOWN ncclResult_t ncclGroupEnd(void) {
    return standin_loses("groupend") ? ncclSuccess : end_group();
}

/* Until the group ends: a communicator is used by one thread at a time. */
static void take_comm(standin_comm *comm) {
    standin_lock();
    if (comm->has_user && !pthread_equal(comm->user, pthread_self()))
        standin_broken("two threads use a communicator at once");
    comm->has_user = true;
    comm->user = pthread_self();
    standin_unlock();
}

ncclResult_t standin_launch_call(ncclComm_t of, cudaStream_t stream, standin_call call) {
    standin_comm *comm = standin_comm_of(of);
    bool hangs = standin_fails("hang");
    if (standin_fails("allreduce") || standin_fails(standin_op_name(call.kind))) {
        call_failed = *standin_group_depth() > 0;
        return ncclInternalError;
    }
    standin_check_error(standin_op_name(call.kind));
    if (standin_ends_early("collective")) standin_end_comm(comm, true);
    if (comm->has_ended) standin_broken("a collective on a communicator that has ended");
    take_comm(comm);
    call.stream = stream;
    standin_launch *l = open_group;
    while (l && (l->comm != comm || l->stream != stream)) l = l->next;
    if (!l) {
        l = calloc(1, sizeof *l);
        if (!l) abort();
        *l = (standin_launch){.comm = comm, .stream = stream, .next = open_group, .end = &l->calls, .hangs = hangs};
        standin_lock();
        l->is_in_graph = standin_is_capturing(stream);
        standin_unlock();
        open_group = l;
    }
    if (!l->is_in_graph) number_call(comm, &call);
    standin_call *c = malloc(sizeof *c);
    if (!c) abort();
    *c = call;
    *l->end = c;
    l->end = &c->next;
    if (++*standin_group_depth() == 1) return end_group(); /* a group of its own */
    --*standin_group_depth();
    return say_in_group();
}

#include "tests/standin/graphs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct standin_node {
    standin_item *item; /* to be copied */
    int id, npreds, nearly;
    int preds[STANDIN_MOST_DEPS], early[STANDIN_MOST_DEPS];
    int chain; /* nodes one behind another, which share a slot */
    bool is_behind_end, has_next, is_beside;
} standin_node;

/* Nodes come behind those that they depend on. */
typedef struct graph {
    standin_node **nodes;
    int n, nusers;
} graph;

typedef struct exec {
    graph *of;
    int nchains, *slots;
} exec;

typedef struct standin_launched {
    const graph *of;
    standin_stream **nodes; /* NULL: it has ended */
    int *nmissing;          /* of what each waits for */
    int nleft;
    int64_t end_ns;
    bool has_begun;
    cudaStream_t stream;
} standin_launched;

typedef struct capture {
    uint64_t id;
    graph *of;
    standin_stream *origin;
    pthread_t thread;
    struct capture *next;
} capture;

static capture *captures; /* that are active */

/* --- captures ----------------------------------------------------------------------------------------------------- */

static capture *find_capture(uint64_t id) {
    capture *c = captures;
    while (c && c->id != id) c = c->next;
    return c;
}

void standin_check_capture(const char *call) {
    for (const capture *c = captures; c; c = c->next)
        if (pthread_equal(c->thread, pthread_self())) standin_broken("%s while this thread captures", call);
}

static standin_node *add_captured(uint64_t to, standin_item *item, const standin_deps *deps) {
    graph *g = find_capture(to)->of;
    standin_node *node = calloc(1, sizeof *node);
    g->nodes = realloc(g->nodes, (size_t)(g->n + 1) * sizeof(standin_node *));
    if (!node || !g->nodes) abort();
    *node = (standin_node){.item = item, .id = g->n, .npreds = deps->n};
    for (int i = 0; i < deps->n; i++) node->preds[i] = deps->of[i]->id;
    g->nodes[g->n++] = node;
    return node;
}

void standin_capture_item(standin_stream *s, standin_item *item) {
    standin_node *node = add_captured(s->capture, item, &s->deps);
    for (int i = 0; i < s->early.n; i++) node->early[node->nearly++] = s->early.of[i]->id;
    s->early.n = 0;
    s->deps = (standin_deps){.n = 1, .of = {node}};
}

static void add_dep(standin_deps *deps, standin_node *node) {
    for (int i = 0; i < deps->n; i++)
        if (deps->of[i] == node) return;
    if (deps->n == STANDIN_MOST_DEPS) standin_broken("a node behind more than %d others", STANDIN_MOST_DEPS);
    deps->of[deps->n++] = node;
}

void standin_capture_early(standin_stream *s, uint64_t id, const standin_deps *deps) {
    for (int i = 0; i < deps->n && s->capture == id; i++) add_dep(&s->early, deps->of[i]);
}

bool standin_beside_begins(standin_beside *b, cudaStream_t stream, standin_item *item) {
    standin_stream *s = (standin_stream *)(void *)stream;
    if (b->capture == s->capture) return false;
    item->stream = stream;
    *b = (standin_beside){s->capture, add_captured(s->capture, item, &(standin_deps){0})};
    b->last->is_beside = true;
    add_dep(&s->deps, b->last);
    return true;
}

void standin_beside_add(standin_beside *b, cudaStream_t stream, standin_item *item) {
    const standin_stream *s = (const standin_stream *)(void *)stream;
    standin_deps deps = {.n = 1, .of = {b->last}};
    for (int i = 0; i < s->deps.n; i++) add_dep(&deps, s->deps.of[i]);
    item->stream = stream;
    b->last = add_captured(s->capture, item, &deps);
    b->last->is_beside = true;
}

void standin_capture_wait(standin_stream *s, uint64_t id, const standin_deps *deps) {
    if (!find_capture(id)) standin_broken("a wait for an event that a capture has, which has ended");
    if (s->capture && s->capture != id) standin_broken("captures that are joined");
    if (!s->capture && s->first) standin_broken("a stream joins a capture while it has work");
    if (!s->capture) s->deps.n = s->early.n = 0;
    s->capture = id;
    for (int i = 0; i < deps->n; i++) add_dep(&s->deps, deps->of[i]);
}

SHOWN bool standin_is_capturing(cudaStream_t stream) {
    return ((standin_stream *)(void *)stream)->capture != 0;
}

void standin_begin_capture(cudaStream_t stream) {
    cudaGraph_t of;
    if (cudaGraphCreate(&of, 0) == cudaSuccess)
        (void)cudaStreamBeginCaptureToGraph(stream, of, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal);
}

cudaStream_t standin_other_capture(void) {
    cudaStream_t stream = (cudaStream_t)(void *)standin_stream_create(0);
    standin_begin_capture(stream);
    return stream;
}

bool standin_is_origin(const standin_stream *s) {
    const capture *c = s->capture ? find_capture(s->capture) : NULL;
    return c && c->origin == s;
}

SHOWN cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t of, const cudaGraphNode_t *deps,
                                                const cudaGraphEdgeData *data, size_t ndeps,
                                                enum cudaStreamCaptureMode mode) {
    if (standin_fails("capture")) return standin_error(cudaErrorStreamCaptureUnsupported);
    static uint64_t ncaptures;
    standin_stream *s = (standin_stream *)(void *)stream;
    (void)deps, (void)data;
    if (standin_bends("capture.global")) mode = cudaStreamCaptureModeGlobal;
    if (mode != cudaStreamCaptureModeThreadLocal) standin_broken("a capture that other threads disturb");
    capture *c = calloc(1, sizeof *c);
    if (!c) abort();
    standin_lock();
    if (s->capture || ndeps || ((graph *)(void *)of)->n) standin_broken("a capture of a stream or a graph in use");
    *c = (capture){++ncaptures, (graph *)(void *)of, s, pthread_self(), captures};
    captures = c;
    s->capture = c->id;
    s->deps.n = s->early.n = 0;
    standin_unlock();
    void *taken = NULL;
    if (standin_bends("capture.again")) standin_begin_capture(stream);
    if (standin_bends("capture.waits")) return cudaStreamSynchronize(stream);
    return standin_bends("capture.takes") ? cudaMalloc(&taken, 4) : cudaSuccess;
}

/* Every node must be before the end of the stream that captures, but for those beside. */
static void check_joined(const graph *g, const standin_deps *ends) {
    for (int i = 0; i < g->n; i++) g->nodes[i]->is_behind_end = false;
    for (int i = 0; i < ends->n; i++) ends->of[i]->is_behind_end = true;
    for (int i = g->n; i-- > 0;) {
        const standin_node *node = g->nodes[i];
        if (node->is_beside && !node->is_behind_end) continue;
        if (!node->is_behind_end)
            standin_broken("the capture ends before a stream is joined: %s is left", node->item->what);
        for (int k = 0; k < node->npreds; k++) g->nodes[node->preds[k]]->is_behind_end = true;
    }
}

static void *end_beside(void *stream) {
    cudaGraph_t unused;
    (void)cudaStreamEndCapture(stream, &unused);
    return NULL;
}

SHOWN cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    pthread_t thread;
    if (standin_bends("endcapture.elsewhere") && !pthread_create(&thread, NULL, end_beside, stream))
        pthread_join(thread, NULL);
    standin_stream *s = (standin_stream *)(void *)stream;
    standin_lock();
    capture *c = find_capture(s->capture);
    if (!c || c->origin != s) standin_broken("the end of a capture on a stream where none began");
    if (!pthread_equal(c->thread, pthread_self())) standin_broken("another thread ends a capture");
    check_joined(c->of, &s->deps);
    capture **at = &captures;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    *out = (cudaGraph_t)(void *)c->of;
    standin_release_captured(c->id);
    free(c);
    standin_unlock();
    if (standin_bends("endcapture.again")) return cudaStreamEndCapture(stream, out);
    if (standin_bends("endcapture.waits")) return standin_wait_for_captured(stream);
    return standin_fails("endcapture") ? standin_error(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

SHOWN cudaError_t cudaGraphCreate(cudaGraph_t *out, unsigned flags) {
    if (standin_fails("graph")) return standin_error(cudaErrorMemoryAllocation);
    graph *g = calloc(1, sizeof *g);
    (void)flags;
    if (!g) abort();
    g->nusers = 1;
    *out = (cudaGraph_t)(void *)g;
    standin_count(STANDIN_GRAPHS, 1);
    return cudaSuccess;
}

static void leave_graph(graph *g) {
    if (--g->nusers) return;
    for (int i = 0; i < g->n; i++) {
        standin_item *item = g->nodes[i]->item;
        if (item->forget) item->forget(item);
        free(item);
        free(g->nodes[i]);
    }
    free(g->nodes);
    free(g);
}

SHOWN cudaError_t cudaGraphDestroy(cudaGraph_t of) {
    if (standin_loses("graphdestroy")) return cudaSuccess;
    standin_lock();
    leave_graph((graph *)(void *)of);
    standin_unlock();
    standin_count(STANDIN_GRAPHS, -1);
    return standin_fails("graphdestroy") ? cudaErrorLaunchFailure : cudaSuccess;
}

SHOWN cudaError_t cudaGraphGetNodes(cudaGraph_t of, cudaGraphNode_t *nodes, size_t *n) {
    if (standin_fails("nodes")) return standin_error(cudaErrorInvalidValue);
    const graph *g = (const graph *)(const void *)of;
    standin_lock();
    for (int i = 0; nodes && i < g->n; i++) nodes[i] = (cudaGraphNode_t)(void *)g->nodes[g->n - 1 - i]; /* any order */
    *n = (size_t)g->n;
    standin_unlock();
    return cudaSuccess;
}

SHOWN cudaError_t cudaGraphNodeGetType(cudaGraphNode_t of, enum cudaGraphNodeType *out) {
    if (standin_fails("nodetype")) return standin_error(cudaErrorInvalidValue);
    *out = ((const standin_node *)(const void *)of)->item->type;
    return cudaSuccess;
}

SHOWN cudaError_t cudaGraphGetEdges(cudaGraph_t of, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data,
                                    size_t *out_n) {
    if (standin_fails("edges")) return standin_error(cudaErrorInvalidValue);
    const graph *g = (const graph *)(const void *)of;
    size_t n = 0;
    if (from && standin_bends("edges.less")) --*out_n;
    if (from && standin_bends("edges.plain")) data = NULL;
    standin_lock();
    for (int i = 0; i < g->n; i++) {
        const standin_node *node = g->nodes[i];
        for (int k = 0; k < node->npreds + node->nearly; k++, n++) {
            bool is_early = k >= node->npreds;
            if (!from) continue;
            if (n >= *out_n) standin_broken("cudaGraphGetEdges: no room");
            if (!data && is_early) standin_broken("cudaGraphGetEdges: edges without what they are");
            from[n] = (cudaGraphNode_t)(void *)g->nodes[is_early ? node->early[k - node->npreds] : node->preds[k]];
            to[n] = (cudaGraphNode_t)(void *)node;
            if (!data) continue;
            memset(&data[n], 0, sizeof data[n]);
            if (is_early) data[n].from_port = cudaGraphKernelNodePortLaunchCompletion;
        }
    }
    *out_n = n;
    standin_unlock();
    return cudaSuccess;
}

/* A node goes on with the chain of one before it, where no other has. */
static int make_chains(const graph *g) {
    int n = 0;
    for (int i = 0; i < g->n; i++) {
        standin_node *node = g->nodes[i];
        node->chain = -1;
        node->has_next = false;
        for (int k = 0; k < node->npreds && node->chain < 0; k++) {
            standin_node *pred = g->nodes[node->preds[k]];
            if (pred->has_next || pred->is_beside != node->is_beside) continue;
            pred->has_next = true;
            node->chain = pred->chain;
        }
        if (node->chain < 0) node->chain = n++;
    }
    return n;
}

SHOWN cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t of, unsigned long long flags) {
    if (standin_fails("instantiate")) return standin_error(cudaErrorMemoryAllocation);
    graph *g = (graph *)(void *)of;
    exec *e = calloc(1, sizeof *e);
    (void)flags;
    if (!e) abort();
    standin_lock();
    *e = (exec){.of = g, .nchains = make_chains(g)};
    e->slots = calloc((size_t)e->nchains + 1, sizeof *e->slots);
    if (!e->slots) abort();
    for (int i = 0; i < e->nchains; i++) e->slots[i] = standin_slot_take();
    g->nusers++;
    standin_unlock();
    standin_count(STANDIN_EXECS, 1);
    *out = (cudaGraphExec_t)(void *)e;
    return cudaSuccess;
}

SHOWN cudaError_t cudaGraphExecDestroy(cudaGraphExec_t of) {
    exec *e = (exec *)(void *)of;
    if (standin_loses("execdestroy")) return cudaSuccess;
    standin_lock();
    for (int i = 0; i < e->nchains; i++) standin_slot_give(e->slots[i]);
    leave_graph(e->of);
    standin_unlock();
    standin_count(STANDIN_EXECS, -1);
    free(e->slots);
    free(e);
    return standin_fails("execdestroy") ? cudaErrorLaunchFailure : cudaSuccess;
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

bool standin_node_can_go(const standin_stream *s) {
    return s->launched->has_begun && !s->launched->nmissing[s->node];
}

cudaStream_t standin_node_waits_for(const standin_stream *s, int k) {
    const standin_launched *l = s->launched;
    const standin_node *node = l->of->nodes[s->node];
    if (!l->has_begun) return k ? NULL : l->stream;
    for (int i = 0; i < node->npreds; i++)
        if (l->nodes[node->preds[i]] && k-- == 0) return (cudaStream_t)(void *)l->nodes[node->preds[i]];
    return NULL;
}

void standin_node_ends(standin_stream *s) {
    standin_launched *l = s->launched;
    l->nodes[s->node] = NULL;
    l->nleft--;
    if (s->ns > l->end_ns) l->end_ns = s->ns;
    for (int i = s->node + 1; i < l->of->n; i++)
        for (int k = 0; k < l->of->nodes[i]->npreds; k++)
            if (l->of->nodes[i]->preds[k] == s->node) {
                l->nmissing[i]--;
                if (s->ns > l->nodes[i]->ns) l->nodes[i]->ns = s->ns;
            }
}

static standin_launched *launched_of(const standin_item *item) {
    return *(standin_launched *const *)(const void *)item->bytes;
}

static bool has_ended(standin_item *item) {
    standin_launched *l = launched_of(item);
    int64_t stream_ns = standin_stream_ns(item->stream),
            begin_ns = stream_ns > item->given_ns ? stream_ns : item->given_ns;
    for (int i = 0; i < l->of->n && !l->has_begun; i++) l->nodes[i]->ns = begin_ns;
    l->has_begun = true;
    return !l->nleft;
}

static cudaStream_t running_node(const standin_item *item, int k) {
    const standin_launched *l = launched_of(item);
    for (int i = 0; i < l->of->n; i++)
        if (l->nodes[i] && k-- == 0) return (cudaStream_t)(void *)l->nodes[i];
    return NULL;
}

static void end_launch(standin_item *item) {
    standin_launched *l = launched_of(item);
    if (l->end_ns > item->start_ns) item->start_ns = l->end_ns;
    free(l->nodes);
    free(l->nmissing);
    free(l);
}

static void add_node(standin_launched *l, const exec *e, int i, const standin_clock *base, standin_clock *end) {
    const standin_node *node = e->of->nodes[i];
    standin_stream *s = calloc(1, sizeof *s);
    standin_item *item = malloc(sizeof *item + node->item->nbytes);
    if (!s || !item) abort();
    memcpy(item, node->item, sizeof *item + node->item->nbytes);
    *s = (standin_stream){.first = item, .slot = e->slots[node->chain], .launched = l, .node = i};
    s->end = &item->next;
    s->clock = *base;
    for (int k = 0; k < node->npreds; k++) standin_clock_join(&s->clock, &l->nodes[node->preds[k]]->clock);
    standin_clock_tick(&s->clock, s->slot, item->what);
    standin_clock_join(end, &s->clock);
    item->next = NULL;
    item->slot = s->slot;
    item->clock = s->clock;
    item->stream = (cudaStream_t)(void *)s;
    if (item->again) item->again(item);
    l->nodes[i] = s;
    l->nmissing[i] = node->npreds;
    standin_stream_add(s);
}

SHOWN cudaError_t cudaGraphLaunch(cudaGraphExec_t of, cudaStream_t stream) {
    if (standin_fails("graphlaunch")) return standin_error(cudaErrorLaunchOutOfResources);
    if (standin_bends("graphlaunch.captures")) standin_begin_capture(stream);
    const exec *e = (const exec *)(const void *)of;
    standin_launched *l = calloc(1, sizeof *l);
    standin_item *item = standin_item_create("a graph", sizeof l);
    size_t n = (size_t)e->of->n + 1;
    standin_lock();
    standin_clock *clock = standin_stream_clock(stream), base;
    if (!l || !(l->nodes = calloc(n, sizeof *l->nodes)) || !(l->nmissing = calloc(n, sizeof *l->nmissing))) abort();
    if (standin_is_capturing(stream)) standin_broken("a graph is launched on a stream that captures");
    l->of = e->of;
    l->nleft = e->of->n;
    l->stream = stream;
    standin_clock_join(clock, &standin_host);
    base = *clock;
    for (int i = 0; i < e->of->n; i++) add_node(l, e, i, &base, clock);
    memcpy(item->bytes, &l, sizeof l);
    item->can_go = has_ended;
    item->waits_for = running_node;
    item->run = end_launch;
    standin_push_locked(stream, item);
    standin_unlock();
    return cudaSuccess;
}

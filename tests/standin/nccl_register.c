/* nccl_register.c: memory that NCCL gives, and that its communicators know. A window is there when all members have
 * asked for theirs; WEFT_STANDIN_NO_WINDOWS: communicators do not support them. */
#include <stdlib.h>

#include "tests/standin/nccl.h"

/* Of the header's functions some have other types in other releases. */
SHOWN ncclResult_t ncclMemAlloc(void **out, size_t nbytes) {
    if (standin_fails("memalloc")) return ncclUnhandledCudaError;
    *out = standin_take(nbytes, !standin_loses("memalloc"));
    return ncclSuccess;
}

SHOWN ncclResult_t ncclMemFree(void *block) {
    if (standin_bends("memfree.other"))
        cudaFree(block);
    else
        standin_give(block);
    return standin_fails("memfree") ? ncclUnhandledCudaError : ncclSuccess;
}

/* --- what is known ------------------------------------------------------------------------------------------------ */

static _Atomic int nknown[2]; /* ever: by registering, by windows */

SHOWN int standin_registered(bool is_window);
int standin_registered(bool is_window) {
    return nknown[is_window];
}

static void check_alive(standin_comm *c, const char *call, const char *what) {
    if (standin_ends_early(call)) standin_end_comm(c, true);
    if (c->has_ended) standin_broken("%s of a communicator that has ended", what);
}

/* What a device might say wrongly of memory. */
static void bend(const char *aside, const char *more, void **bytes, size_t *nbytes) {
    if (standin_bends(more)) ++*nbytes;
    if (!standin_bends(aside)) return;
    *bytes = (char *)*bytes + 8;
    *nbytes -= 8;
}

static standin_known *make_known(const void *bytes, size_t nbytes, bool is_window) {
    standin_known *k = malloc(sizeof *k);
    if (!k) abort();
    *k = (standin_known){bytes, nbytes, is_window, NULL};
    return k;
}

/* With the lock. */
static void add_known(standin_comm *c, standin_known *k) {
    standin_block_register(k->bytes, k->nbytes, 1);
    nknown[k->is_window]++;
    k->next = c->known;
    c->known = k;
}

static void forget(standin_comm *c, const void *handle, const char *what) {
    standin_lock();
    standin_known **at = &c->known;
    while (*at && *at != handle) at = &(*at)->next;
    standin_known *k = *at;
    if (!k) standin_broken("%s that is not there", what);
    if (c->ngraphs) standin_broken("%s goes before graphs that may use it", what);
    if (c->nin_flight) standin_broken("%s goes before work that may use it", what);
    *at = k->next;
    standin_block_register(k->bytes, k->nbytes, -1);
    standin_unlock();
    free(k);
}

void standin_forget_known(standin_comm *c, bool aborts) {
    if (c->known && !aborts) standin_broken("a communicator is destroyed that has registered memory");
    for (standin_known *k = c->known, *next; k; k = next) {
        next = k->next;
        standin_block_register(k->bytes, k->nbytes, -1);
        free(k);
    }
    c->known = NULL;
    free(c->window);
    c->window = NULL;
}

void standin_untell(standin_comm *c) {
    if (c->known) forget(c, c->known, c->known->is_window ? "a window" : "a registration");
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

SHOWN ncclResult_t ncclCommRegister(const ncclComm_t of, void *bytes, size_t nbytes, void **handle) {
    standin_comm *c = standin_comm_of(of);
    check_alive(c, "register", "a registration");
    if (standin_fails("register")) return ncclSystemError;
    bend("register.aside", "register.more", &bytes, &nbytes);
    if (standin_bends("register.gone")) bytes = (void *)nknown;
    *handle = NULL;
    if (standin_loses("register")) return ncclSuccess;
    standin_known *k = make_known(bytes, nbytes, false);
    standin_lock();
    add_known(c, k);
    standin_unlock();
    *handle = k;
    return ncclSuccess;
}

SHOWN ncclResult_t ncclCommDeregister(const ncclComm_t of, void *handle) {
    standin_comm *c = standin_comm_of(of);
    check_alive(c, "deregister", "a registration");
    if (standin_bends("deregister.twice")) forget(c, handle, "a registration");
    if (!standin_loses("deregister")) forget(c, handle, "a registration");
    return standin_fails("deregister") ? ncclSystemError : ncclSuccess;
}

SHOWN ncclResult_t ncclCommWindowRegister(ncclComm_t of, void *bytes, size_t nbytes, ncclWindow_t *out, int flags) {
    standin_comm *c = standin_comm_of(of);
    check_alive(c, "window", "a window");
    if (standin_fails("window")) return ncclSystemError;
    bend("window.aside", "window.more", &bytes, &nbytes);
    if (standin_bends("window.less")) nbytes /= 2;
    if (standin_bends("window.plain")) flags = 0;
    *out = NULL;
    if (getenv("WEFT_STANDIN_NO_WINDOWS")) return ncclSuccess;
    if (flags != NCCL_WIN_COLL_SYMMETRIC) standin_broken("a window that is not symmetric");
    standin_lock();
    if (c->window) standin_broken("a window before the one at hand is there");
    if (c->nwindows == STANDIN_MOST_WINDOWS) standin_broken("more windows than the stand-in has");
    c->window = make_known(bytes, nbytes, true);
    c->window_out = (void **)(void *)out;
    c->window_nbytes[c->nwindows++] = nbytes;
    if (standin_is_far()) standin_far_ask_window(c, c->nwindows - 1);
    standin_unlock();
    if (standin_bends("window.again")) return ncclCommWindowRegister(of, bytes, nbytes, out, flags);
    return ncclSuccess; /* as NCCL says of a communicator that does not block; it is not there yet */
}

SHOWN ncclResult_t ncclCommWindowDeregister(ncclComm_t of, ncclWindow_t window) {
    standin_comm *c = standin_comm_of(of);
    check_alive(c, "windowgone", "a window");
    if (standin_bends("windowgone.twice")) forget(c, window, "a window");
    if (!standin_loses("windowgone")) forget(c, window, "a window");
    return standin_fails("windowgone") ? ncclSystemError : ncclSuccess;
}

/* Whether a member has asked for its n-th window, which must be as large as this one's. */
static bool has_asked(const standin_comm *c, int n, int rank) {
    const standin_comm *other = c->team->members[rank];
    size_t nbytes = other && n < other->nwindows ? other->window_nbytes[n] : 0;
    bool has = other ? n < other->nwindows : standin_far_window(c, n, rank, &nbytes);
    if (has && nbytes != c->window_nbytes[n])
        standin_broken("windows of %zu and %zu bytes", nbytes, c->window_nbytes[n]);
    return has;
}

bool standin_window_is_there(standin_comm *c) {
    standin_known *k = c->window;
    if (!k) return true;
    for (int r = 0; r < c->team->nranks; r++)
        if (!has_asked(c, c->nwindows - 1, r)) return false;
    c->window = NULL;
    if (standin_loses("window")) {
        free(k);
        return true;
    }
    add_known(c, k);
    __atomic_store_n(c->window_out, (void *)k, __ATOMIC_RELEASE);
    return true;
}

/* --- buffers of collectives --------------------------------------------------------------------------------------- */

static const standin_known *find(const standin_comm *c, const void *buffer) {
    const char *at = buffer;
    const standin_known *k = c->known;
    while (k && (at < k->bytes || at >= k->bytes + k->nbytes)) k = k->next;
    return k;
}

static void compare(const standin_comm *a, const void *x, const standin_comm *b, const void *y, bool is_alone) {
    const standin_known *k = find(a, x), *l = find(b, y);
    if (!k != !l || (k && k->is_window != l->is_window))
        standin_broken("a buffer is registered by rank %d and not by rank %d", k ? a->rank : b->rank,
                       k ? b->rank : a->rank);
    if (k && !is_alone && (const char *)x - k->bytes != (const char *)y - l->bytes)
        standin_broken("buffers lie at byte %td and at byte %td of what is registered", (const char *)x - k->bytes,
                       (const char *)y - l->bytes);
}

/* A member's own part of a whole lies in it, where it is in place. */
static bool is_in_place(const standin_call *c, int rank) {
    const char *whole = c->kind == ALL_GATHER ? c->dst : c->src, *part = c->kind == ALL_GATHER ? c->src : c->dst;
    return part == whole + (size_t)rank * c->nbytes;
}

void standin_check_known(const standin_team *t, int rank_a, const standin_call *a, int rank_b, const standin_call *b) {
    const standin_comm *x = t->members[rank_a], *y = t->members[rank_b];
    if (x->has_ended || y->has_ended) return; /* an abort has let go of what it knew */
    bool gathers = a->kind == ALL_GATHER, scatters = a->kind == REDUCE_SCATTER;
    bool is_alone = (gathers || scatters) && is_in_place(a, rank_a);
    if (a->is_pair) {
        if (a->src && b->dst) compare(x, a->src, y, b->dst, true);
        if (a->dst && b->src) compare(x, a->dst, y, b->src, true);
        return;
    }
    if (a->kind != BROADCAST) compare(x, a->src, y, b->src, gathers && is_alone);
    if (a->kind != REDUCE) compare(x, a->dst, y, b->dst, scatters && is_alone);
}

/* nccl_far.c: members of a communicator in several processes. With WEFT_STANDIN_SHARED=FOLDER each leaves
 * files there: that it has joined, what it asks of a split, and what it brings to a meeting.
 *
 * A file appears whole, since it gets its name last. A member that brings something to collective n has read all of
 * n - 1. So all have read n - 2, and its own of that is removed. What is sent to a member of another process is
 * removed by that one, and until then the sender waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/standin/nccl.h"

enum { PATH = 600 };

/* What a member says of its call; its data come behind. */
typedef struct far_head {
    int64_t kind, count, nbytes, type, op, root, nsource;
} far_head;

static const char *folder(void) {
    const char *asked = getenv("WEFT_STANDIN_SHARED");
    return asked && *asked ? asked : NULL;
}

bool standin_is_far(void) {
    return folder() != NULL;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void path_of(char *out, const standin_team *t, const char *what, int64_t number, int from, int to) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof t->id; i++) hash = (hash ^ (unsigned char)t->id[i]) * 1099511628211u;
    snprintf(out, PATH, "%s/%016llx.%s.%lld.%d.%d", folder(), (unsigned long long)hash, what, (long long)number, from,
             to);
}

static bool exists(const standin_team *t, const char *what, int64_t number, int from, int to) {
    char path[PATH];
    path_of(path, t, what, number, from, to);
    return access(path, R_OK) == 0;
}

static void leave(const standin_team *t, const char *what, int64_t number, int from, int to, const void *head,
                  size_t head_nbytes, const void *data, size_t nbytes) {
    char path[PATH], whole[PATH + 8];
    path_of(path, t, what, number, from, to);
    snprintf(whole, sizeof whole, "%s.part", path);
    FILE *f = fopen(whole, "w");
    bool good = f && fwrite(head, 1, head_nbytes, f) == head_nbytes && fwrite(data, 1, nbytes, f) == nbytes;
    if (!f || fclose(f) != 0 || !good || rename(whole, path) != 0) standin_broken("%s: cannot be written", path);
}

static void forget(const standin_team *t, const char *what, int64_t number, int from, int to) {
    char path[PATH];
    path_of(path, t, what, number, from, to);
    unlink(path);
}

/* Memory for what the file has behind its head; the caller frees it. */
static void *read_all(const standin_team *t, const char *what, int64_t number, int from, int to, far_head *out_head) {
    char path[PATH];
    path_of(path, t, what, number, from, to);
    FILE *f = fopen(path, "r");
    if (!f || fread(out_head, sizeof *out_head, 1, f) != 1) standin_broken("%s: cannot be read", path);
    size_t n = (size_t)out_head->nsource;
    void *data = calloc(1, n + 1);
    if (!data || fread(data, 1, n, f) != n) standin_broken("%s: cannot be read", path);
    fclose(f);
    return data;
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

void standin_far_join(const standin_team *t, int rank) {
    if (folder()) leave(t, "join", 0, rank, 0, t->gpus[rank], sizeof t->gpus[rank], "", 0);
}

static void read_gpu(standin_team *t, int rank) {
    char path[PATH];
    path_of(path, t, "join", 0, rank, 0);
    FILE *f = fopen(path, "r");
    if (!f || fread(t->gpus[rank], sizeof t->gpus[rank], 1, f) != 1) standin_broken("%s: cannot be read", path);
    fclose(f);
}

bool standin_team_is_complete(standin_team *t) {
    bool all = t->njoined == t->nranks || t->is_complete;
    if (all || !folder()) return all;
    for (int r = 0; r < t->nranks; r++)
        if (!exists(t, "join", 0, r, 0)) return false;
    for (int r = 0; r < t->nranks; r++) read_gpu(t, r);
    standin_check_gpus(t);
    return t->is_complete = true;
}

void standin_far_ask_split(const standin_comm *c) {
    int64_t asked[2] = {c->color, c->key};
    leave(c->team, "split", c->nsplits, c->rank, 0, asked, sizeof asked, "", 0);
}

bool standin_far_split(const standin_comm *c, int *out_rank, int *out_nranks) {
    *out_rank = *out_nranks = 0;
    for (int r = 0; r < c->team->nranks; r++)
        if (!exists(c->team, "split", c->nsplits, r, 0)) return false;
    for (int r = 0; r < c->team->nranks; r++) {
        char path[PATH];
        int64_t asked[2];
        path_of(path, c->team, "split", c->nsplits, r, 0);
        FILE *f = fopen(path, "r");
        if (!f || fread(asked, sizeof asked, 1, f) != 1) standin_broken("%s: cannot be read", path);
        fclose(f);
        if (asked[0] != c->color) continue;
        ++*out_nranks;
        if (asked[1] < c->key || (asked[1] == c->key && r < c->rank)) ++*out_rank;
    }
    return true;
}

void standin_far_ask_window(const standin_comm *c, int number) {
    leave(c->team, "window", number, c->rank, 0, &c->window_nbytes[number], sizeof(size_t), "", 0);
}

bool standin_far_window(const standin_comm *c, int number, int rank, size_t *out_nbytes) {
    char path[PATH];
    if (!exists(c->team, "window", number, rank, 0)) return false;
    path_of(path, c->team, "window", number, rank, 0);
    FILE *f = fopen(path, "r");
    if (!f || fread(out_nbytes, sizeof *out_nbytes, 1, f) != 1) standin_broken("%s: cannot be read", path);
    fclose(f);
    return true;
}

/* --- meetings ----------------------------------------------------------------------------------------------------- */

static bool is_here(const standin_team *t, int rank) {
    return t->members[rank] != NULL;
}

int standin_far_expected(const standin_team *t, const standin_call *c) {
    if (!folder()) return c->is_pair ? 2 : t->nranks;
    return c->is_pair ? is_here(t, c->from) + is_here(t, c->to) : t->njoined;
}

static bool is_all_here(const standin_team *t, const standin_meeting *m) {
    return !folder() || (m->is_pair ? is_here(t, m->from) && is_here(t, m->to) : t->njoined == t->nranks);
}

void standin_far_bring(const standin_team *t, const standin_meeting *m, int rank, const standin_call *c) {
    if (is_all_here(t, m)) return;
    far_head h = {c->kind, (int64_t)c->count, (int64_t)c->nbytes, c->type, c->op, c->root, 0};
    if (c->src) h.nsource = h.nbytes * (c->kind == REDUCE_SCATTER ? t->nranks : 1);
    if (m->is_pair) {
        if (c->src) leave(t, "pair", m->number, m->from, m->to, &h, sizeof h, c->src, (size_t)h.nsource);
        return;
    }
    leave(t, "call", m->number, rank, 0, &h, sizeof h, c->src, (size_t)h.nsource);
    forget(t, "call", m->number - 2, rank, 0);
}

/* A sender waits until the receiver has what it left. */
bool standin_far_is_there(const standin_team *t, const standin_meeting *m) {
    if (is_all_here(t, m)) return true;
    if (m->is_pair) return exists(t, "pair", m->number, m->from, m->to) == is_here(t, m->to);
    for (int r = 0; r < t->nranks; r++)
        if (!is_here(t, r) && !exists(t, "call", m->number, r, 0)) return false;
    return true;
}

static void add(standin_meeting *m, int rank, standin_call *c) {
    m->calls[m->ncalls++] = (standin_attendance){.call = c, .rank = rank};
}

/* A call as the member of another process made it; what it would write goes to memory of nobody. */
static void add_far(const standin_team *t, standin_meeting *m, int rank, standin_call *c) {
    far_head h;
    const standin_call *own = m->calls[0].call;
    void *data = read_all(t, "call", m->number, rank, 0, &h);
    if (h.kind != own->kind || h.count != (int64_t)own->count || h.type != own->type || h.op != own->op ||
        h.root != own->root)
        standin_broken("ranks do not launch the same collective");
    *c = *own;
    c->src = data;
    c->dst = calloc((size_t)t->nranks + 1, own->nbytes + 1);
    if (!c->dst) abort();
    add(m, rank, c);
}

static void add_far_of_pair(const standin_team *t, standin_meeting *m, standin_call *c) {
    far_head h;
    const standin_call *own = m->calls[0].call;
    *c = (standin_call){.kind = PAIR, .is_pair = true, .nbytes = own->nbytes};
    if (own->dst) {
        c->src = read_all(t, "pair", m->number, m->from, m->to, &h);
        if (h.nbytes != (int64_t)own->nbytes) standin_broken("ranks do not launch the same collective");
        forget(t, "pair", m->number, m->from, m->to);
    } else {
        c->dst = calloc(1, own->nbytes + 1);
    }
    add(m, own->dst ? m->from : m->to, c);
}

void standin_far_move(const standin_team *t, standin_meeting *m) {
    standin_call far[STANDIN_MOST_RANKS];
    int nhere = m->ncalls;
    for (int r = 0; r < t->nranks && !m->is_pair && !is_all_here(t, m); r++)
        if (!is_here(t, r)) add_far(t, m, r, &far[m->ncalls - nhere]);
    if (m->is_pair && m->ncalls == 1) add_far_of_pair(t, m, far);
    standin_move(t, m);
    for (int i = nhere; i < m->ncalls; i++) {
        free((void *)(uintptr_t)m->calls[i].call->src);
        free(m->calls[i].call->dst);
    }
    m->ncalls = nhere;
}

/* network.c: messages over the links of one group.
 *
 * Two views of a message, as ASTRA-sim's analytical network has them: by itself it takes the latency of its hops and
 * its bytes once; among others it is stored and forwarded, and each link serves one message at a time, first come
 * first served. The second is played on a heap of what happens next: a message arrives at the end of a link, or a link
 * is free again. Ties go by the order in which events were made, so that the same messages take the same time. */
#include "plan/network.h"

#include <math.h>

enum { NONE = UINT32_MAX };

static int64_t whole_ns(double seconds) {
    double ns = floor(seconds * 1e9 + 1e-6); /* what is whole but for rounding stays so */
    return ns < 1e18 ? (int64_t)ns : INT64_C(1000000000000000000);
}

int plan_network_hops(const plan_network *net, int from, int to) {
    int up = to >= from ? to - from : to - from + net->nranks;
    if (up == 0) return 0;
    if (net->link->topology == WEFT_TOPOLOGY_SWITCH) return 2;
    if (net->link->topology == WEFT_TOPOLOGY_DIRECT) return 1;
    return up < net->nranks - up ? up : net->nranks - up;
}

int64_t plan_network_message_ns(const plan_network *net, const plan_message *m) {
    int hops = plan_network_hops(net, m->from, m->to);
    return hops ? whole_ns(hops * net->link->seconds + m->nbytes / net->link->bytes) : 0;
}

/* --- many at once ------------------------------------------------------------------------------------------------- */

/* A message at a node, on its way; the switch is node nranks. */
typedef struct traveller {
    int at, to;
    double nbytes;
    uint32_t next; /* behind it in a link's queue */
} traveller;

typedef struct lane {
    uint32_t first, last; /* of those that wait for it */
    bool busy;
} lane;

typedef struct event {
    int64_t at_ns;
    uint64_t number;
    uint32_t traveller, lane; /* traveller NONE: the lane is free */
    int node;                 /* where it arrives */
} event;

typedef struct play {
    const plan_network *net;
    traveller *travellers;
    lane *lanes; /* by node and direction */
    event *events;
    size_t nevents;
    uint64_t nmade;
} play;

static bool is_before(const event *a, const event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void put_event(play *p, event e) {
    size_t at = p->nevents++;
    e.number = p->nmade++;
    for (; at && is_before(&e, &p->events[(at - 1) / 2]); at = (at - 1) / 2) p->events[at] = p->events[(at - 1) / 2];
    p->events[at] = e;
}

static event take_event(play *p) {
    event first = p->events[0], last = p->events[--p->nevents];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < p->nevents; at = child) {
        if (child + 1 < p->nevents && is_before(&p->events[child + 1], &p->events[child])) child++;
        if (!is_before(&p->events[child], &last)) break;
        p->events[at] = p->events[child];
    }
    p->events[at] = last;
    return first;
}

/* Where a message goes next, and on which lane: a ring has one up and one down for each node. A switch has one to it
 * and one from it for each rank. A direct network has one for each pair. */
static uint32_t next_lane(const plan_network *net, const traveller *t, int *out_node) {
    int n = net->nranks, up = (t->to - t->at + n) % n;
    *out_node = t->to;
    if (net->link->topology == WEFT_TOPOLOGY_DIRECT) return (uint32_t)(t->at * n + t->to);
    if (net->link->topology == WEFT_TOPOLOGY_RING) {
        bool is_up = up <= n - up;
        *out_node = (t->at + (is_up ? 1 : n - 1)) % n;
        return (uint32_t)(2 * t->at + is_up);
    }
    if (t->at != n) *out_node = n;
    return (uint32_t)(t->at != n ? 2 * t->at : 2 * t->to + 1);
}

static void begin_hop(play *p, uint32_t who, uint32_t which, int node, int64_t now) {
    const weft_link *link = p->net->link;
    double seconds = p->travellers[who].nbytes / link->bytes;
    p->lanes[which].busy = true;
    put_event(p,
              (event){.at_ns = now + whole_ns(link->seconds + seconds), .traveller = who, .lane = which, .node = node});
    put_event(p, (event){.at_ns = now + whole_ns(seconds), .traveller = NONE, .lane = which});
}

static void send_on(play *p, uint32_t who, int64_t now) {
    int node;
    uint32_t which = next_lane(p->net, &p->travellers[who], &node);
    lane *l = &p->lanes[which];
    if (!l->busy) {
        begin_hop(p, who, which, node, now);
        return;
    }
    p->travellers[who].next = NONE;
    if (l->first == NONE)
        l->first = who;
    else
        p->travellers[l->last].next = who;
    l->last = who;
}

static void free_lane(play *p, uint32_t which, int64_t now) {
    lane *l = &p->lanes[which];
    uint32_t who = l->first;
    int node;
    l->busy = false;
    if (who == NONE) return;
    l->first = p->travellers[who].next;
    (void)next_lane(p->net, &p->travellers[who], &node);
    begin_hop(p, who, which, node, now);
}

weft_status plan_network_play(const plan_network *net, const plan_message *messages, size_t count, arena *scratch,
                              int64_t *out_ns) {
    size_t n = (size_t)net->nranks, nlanes = net->link->topology == WEFT_TOPOLOGY_DIRECT ? n * n : 2 * n;
    play p = {.net = net};
    p.travellers = ARENA_ARRAY(scratch, traveller, count + 1);
    p.lanes = ARENA_ARRAY(scratch, lane, nlanes + 1);
    p.events = ARENA_ARRAY(scratch, event, 2 * count + nlanes + 1);
    if (!p.travellers || !p.lanes || !p.events) return base_out_of_memory();
    for (size_t k = 0; k < nlanes; k++) p.lanes[k].first = NONE;
    for (size_t i = 0; i < count; i++) {
        p.travellers[i] = (traveller){.at = messages[i].from, .to = messages[i].to, .nbytes = messages[i].nbytes};
        if (messages[i].from != messages[i].to) send_on(&p, (uint32_t)i, 0);
    }
    *out_ns = 0;
    while (p.nevents) {
        event e = take_event(&p);
        if (e.traveller == NONE) {
            free_lane(&p, e.lane, e.at_ns);
            continue;
        }
        p.travellers[e.traveller].at = e.node;
        if (e.node == p.travellers[e.traveller].to)
            *out_ns = e.at_ns;
        else
            send_on(&p, e.traveller, e.at_ns);
    }
    return NULL;
}

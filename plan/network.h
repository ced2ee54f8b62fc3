/* network.h: messages between the ranks of one group: hops, and messages that share links. */
#ifndef PLAN_NETWORK_H
#define PLAN_NETWORK_H

#include "base/base.h"
#include "weft/cluster.h"

/* Ranks 0 .. nranks - 1 joined by one link of a cluster, with all its numbers. */
typedef struct plan_network {
    const weft_link *link;
    int nranks;
} plan_network;

typedef struct plan_message {
    int from, to;
    double nbytes;
} plan_message;

/* 0: it stays where it is. */
int plan_network_hops(const plan_network *net, int from, int to);
/* Alone, passed on byte by byte: the hops' seconds and the bytes once. Whole nanoseconds, rounded down as for all here.
 */
int64_t plan_network_message_ns(const plan_network *net, const plan_message *message);
/* All at once, passed on whole: a hop has a link of its own in each direction. It takes one message after another in
 * the order in which they come. The next goes as soon as the bytes of the one before are on it. When the last one has
 * arrived. Of equal ways round a ring the one upwards is taken. Cost: O(h log h) for h hops of all messages. */
WEFT_MUST_USE weft_status plan_network_play(const plan_network *net, const plan_message *messages, size_t count,
                                            arena *scratch, int64_t *out_ns);

#endif

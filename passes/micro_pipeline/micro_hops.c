/* micro_hops.c: steps of a table that is made: which message goes where, and what a step waits for. */
#include "passes/micro_pipeline/micro_plan.h"
#include "program/grow.h"

weft_status chunk_plan_add(chunk_plan *p, arena *a, const chunk_step *step, int32_t *out) {
    TRY(grow(a, &p->steps, &p->capacity, p->count + 1, sizeof *p->steps));
    chunk_step *s = &p->steps[p->count];
    int32_t *last = &p->last[step->stream];
    *s = *step;
    if (*last) memcpy(s->seen, p->steps[*last - 1].seen, sizeof s->seen);
    *out = (int32_t)p->count++;
    *last = s->seen[s->stream] = *out + 1;
    return NULL;
}

static int32_t member(const chunk_plan *p, int64_t offset) {
    return (int32_t)((p->member + offset + p->nranks) % p->nranks);
}

/* By where it stands on its circle. */
int chunk_lane(int nranks, int from, int s, bool back) {
    int step = (int)base_common_divisor(nranks, s), length = nranks / step, at = from % step, index = 0;
    for (; at != from; index++) at = (at - s + nranks) % nranks;
    return (back ? MICRO_WAY_LANES : 0) + (length % 2 && index == length - 1 ? 2 : index % 2);
}

chunk_hop chunk_find_hop(const chunk_plan *p, int32_t t) {
    int32_t n = p->nranks, nsub = p->nsub, first = 0;
    if (p->is_scattered) { /* piece by piece */
        first = t / (n - 1), t %= n - 1;
        nsub = 1;
    }
    int32_t each = p->both_ways ? 2 * nsub : nsub, step = t / each + 1;
    chunk_hop h = {.sub = first + t % each};
    if (p->both_ways && 2 * step == n) {
        h.back = h.sub % 2;
    } else if (p->both_ways) {
        h.back = t % 2;
        h.sub = first + t % each / 2;
    }
    h.is_first = step == 1 && !h.back;
    if (h.back) step = n - step;
    h.to = member(p, -step), h.from = member(p, step);
    h.to_lane = chunk_lane(n, p->member, step, h.back);
    h.from_lane = chunk_lane(n, h.from, step, h.back);
    return h;
}

/* A wait is kept where streams, and other waits, do not say it. */
void chunk_plan_wait(chunk_plan *p, int32_t step, int32_t by) {
    if (by < 0 || by < p->steps[step].seen[p->steps[by].stream]) return;
    chunk_step *s = &p->steps[step];
    const chunk_step *of = &p->steps[by];
    int32_t n = 0;
    for (int32_t k = 0; k < s->nwaits; k++)
        if (s->waits[k] >= of->seen[p->steps[s->waits[k]].stream]) s->waits[n++] = s->waits[k];
    s->waits[n] = by;
    s->nwaits = n + 1;
    for (int k = 0; k < CHUNK_STREAMS; k++)
        if (of->seen[k] > s->seen[k]) s->seen[k] = of->seen[k];
}

weft_status chunk_plan_send(chunk_plan *p, arena *a, const chunk_hop *h, int32_t chunk, chunk_space from,
                            int32_t from_buffer, int32_t *out) {
    return chunk_plan_add(p, a,
                          &(chunk_step){.action = CHUNK_SEND,
                                        .stream = h->back ? CHUNK_SENDS_BACK : CHUNK_SENDS,
                                        .from = (uint8_t)from,
                                        .to = CHUNK_SPACES,
                                        .chunk = chunk,
                                        .peer = h->to,
                                        .lane = h->to_lane,
                                        .from_buffer = from_buffer,
                                        .buffer = -1},
                          out);
}

weft_status chunk_plan_receive(chunk_plan *p, arena *a, const chunk_hop *h, int32_t chunk, chunk_space to,
                               int32_t to_buffer, int32_t *out) {
    return chunk_plan_add(p, a,
                          &(chunk_step){.action = CHUNK_RECEIVE,
                                        .stream = h->back ? CHUNK_RECEIVES_BACK : CHUNK_RECEIVES,
                                        .from = CHUNK_SPACES,
                                        .to = (uint8_t)to,
                                        .chunk = chunk,
                                        .peer = h->from,
                                        .lane = h->from_lane,
                                        .from_buffer = -1,
                                        .buffer = to_buffer},
                          out);
}

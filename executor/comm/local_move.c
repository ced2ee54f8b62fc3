/* local_move.c: the data movement of each collective, as one member does its share.
 *
 * The idea: owner computes. What all members reduce is cut into blocks of 8 KiB; each block has one owner, who reads it
 * from all members in ring order and writes the result to all members. Every element is thus added up in the same order
 * whoever owns it. In place is safe because the owner has read a block everywhere before it writes it anywhere.
 *
 * In all_gather, reduce_scatter and scatter each member makes its own result. If it asked for the result in place,
 * others may still read the source that it is about to write over. Then members go in rounds: all read a piece, meet,
 * all write it; a round writes only what no later round reads. */
#include "executor/comm/local.h"

typedef struct span {
    size_t first, end; /* blocks */
} span;

static const comm_request *asked(const local_ring *r, int index) {
    return &r->members[index].request;
}

static const char *source(const local_ring *r, int index) {
    return asked(r, index)->src;
}

static char *result(const local_ring *r, int index) {
    return asked(r, index)->dst;
}

/* Bytes of `count` elements. */
static size_t part_nbytes(const local_ring *r) {
    return (size_t)asked(r, 0)->count * weft_dtype_nbytes(asked(r, 0)->dtype);
}

static size_t nbytes_of(const comm_request *q, int64_t count) {
    return (size_t)count * weft_dtype_nbytes(q->dtype);
}

/* Part k of what a member gives, and of what it gets. */
static const char *source_part(const local_ring *r, int index, int64_t k) {
    const comm_request *q = asked(r, index);
    return q->srcs ? q->srcs[k] : (const char *)q->src + (size_t)k * nbytes_of(q, q->count);
}

static char *result_part(const local_ring *r, int index, int64_t k) {
    const comm_request *q = asked(r, index);
    return q->dsts ? q->dsts[k] : (char *)q->dst + (size_t)k * nbytes_of(q, q->count);
}

static size_t source_nbytes(const local_ring *r, int index, int64_t k) {
    const comm_request *q = asked(r, index);
    return nbytes_of(q, q->src_counts ? q->src_counts[k] : q->count);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t count_blocks(size_t nbytes) {
    return (nbytes + REDUCE_BLOCK_NBYTES - 1) / REDUCE_BLOCK_NBYTES;
}

/* Of so many blocks those that member `self` owns, as evenly as they go. */
static span owned(size_t nblocks, int self, int nranks) {
    return (span){nblocks * (size_t)self / (size_t)nranks, nblocks * ((size_t)self + 1) / (size_t)nranks};
}

static void copy(void *dst, const void *src, size_t nbytes) {
    if (dst != src && nbytes) memcpy(dst, src, nbytes);
}

/* block = the reduction over all members of bytes [at, at + nbytes) of part k of their sources. */
static void reduce_at(const local_ring *r, int64_t k, size_t at, size_t nbytes, reduce_block *block) {
    const comm_request *q = asked(r, 0);
    const void *srcs[LOCAL_MAX_RANKS];
    for (int i = 0; i < r->nranks; i++) srcs[i] = source_part(r, i, k) + at;
    reduce_sources(q->dtype, q->reduce, srcs, r->nranks, nbytes / weft_dtype_nbytes(q->dtype), block);
}

/* Blocks [first, end) of part k, reduced for every member. */
static void all_reduce_blocks(const local_ring *r, int64_t k, span blocks) {
    reduce_block block;
    size_t end = least(blocks.end * REDUCE_BLOCK_NBYTES, source_nbytes(r, 0, k));
    for (size_t at = blocks.first * REDUCE_BLOCK_NBYTES; at < end; at += REDUCE_BLOCK_NBYTES) {
        size_t nbytes = least(end - at, REDUCE_BLOCK_NBYTES);
        reduce_at(r, k, at, nbytes, &block);
        for (int i = 0; i < r->nranks; i++) memcpy(result_part(r, i, k) + at, block.bytes, nbytes);
    }
}

/* The blocks of all parts are numbered through, so that many small tensors are shared out like a large one. */
static void all_reduce(const local_ring *r, int self) {
    int64_t nparts = asked(r, 0)->nparts ? asked(r, 0)->nparts : 1;
    size_t nblocks = 0, before = 0;
    for (int64_t k = 0; k < nparts; k++) nblocks += count_blocks(source_nbytes(r, 0, k));
    span mine = owned(nblocks, self, r->nranks);
    for (int64_t k = 0; k < nparts && before < mine.end; k++) {
        size_t after = before + count_blocks(source_nbytes(r, 0, k));
        size_t first = mine.first > before ? mine.first : before, end = least(mine.end, after);
        if (first < end) all_reduce_blocks(r, k, (span){first - before, end - before});
        before = after;
    }
}

static void reduce_to_root(const local_ring *r, int self) {
    reduce_block block;
    size_t total = part_nbytes(r);
    span mine = owned(count_blocks(total), self, r->nranks);
    size_t end = least(mine.end * REDUCE_BLOCK_NBYTES, total);
    for (size_t at = mine.first * REDUCE_BLOCK_NBYTES; at < end; at += REDUCE_BLOCK_NBYTES) {
        size_t nbytes = least(end - at, REDUCE_BLOCK_NBYTES);
        reduce_at(r, 0, at, nbytes, &block);
        memcpy(result(r, asked(r, 0)->root) + at, block.bytes, nbytes);
    }
}

static void broadcast(const local_ring *r, int self) {
    copy(result(r, self), source(r, asked(r, 0)->root), part_nbytes(r));
}

/* Exchanges what i has for j with what j has for i, through the stack: either may be in place. */
static void exchange_parts(const local_ring *r, int i, int j) {
    reduce_block block;
    size_t of_i = source_nbytes(r, i, j), of_j = source_nbytes(r, j, i);
    for (size_t at = 0; at < of_i || at < of_j; at += REDUCE_BLOCK_NBYTES) {
        size_t from_i = at < of_i ? least(of_i - at, REDUCE_BLOCK_NBYTES) : 0;
        size_t from_j = at < of_j ? least(of_j - at, REDUCE_BLOCK_NBYTES) : 0;
        if (from_i) memcpy(block.bytes, source_part(r, i, j) + at, from_i);
        if (from_j) copy(result_part(r, i, j) + at, source_part(r, j, i) + at, from_j);
        if (from_i) memcpy(result_part(r, j, i) + at, block.bytes, from_i);
    }
}

/* Each pair of members has one owner, alternately the lower and the higher one. */
static void all_to_all(const local_ring *r, int self) {
    copy(result_part(r, self, self), source_part(r, self, self), source_nbytes(r, self, self));
    for (int other = 0; other < r->nranks; other++) {
        int low = other < self ? other : self, high = other < self ? self : other;
        bool low_owns = (low + high) % 2 != 0;
        if (other != self && self == (low_owns ? low : high)) exchange_parts(r, low, high);
    }
}

/* --- results that each member makes itself ------------------------------------------------------------------------ */

/* Whether some member's result lies over the source that others read (its own part of the larger buffer does not). */
static bool needs_rounds(const local_ring *r) {
    comm_kind kind = asked(r, 0)->kind;
    size_t part = part_nbytes(r);
    for (int i = 0; i < r->nranks; i++) {
        if (kind == COMM_SCATTER && i != asked(r, 0)->root) continue;
        if (asked(r, i)->srcs || asked(r, i)->dsts) continue; /* parts lie apart */
        size_t own = (size_t)i * part;
        const char *harmless = kind == COMM_ALL_GATHER ? result(r, i) + own : source(r, i) + own;
        const char *small = kind == COMM_ALL_GATHER ? source(r, i) : result(r, i);
        if (source(r, i) == result(r, i) && small != harmless) return true;
    }
    return false;
}

static void gather(const local_ring *r, int self) {
    for (int i = 0; i < r->nranks; i++) copy(result_part(r, self, i), source(r, i), part_nbytes(r));
}

static void gather_read(const local_ring *r, size_t at, size_t nbytes, reduce_block *block) {
    for (int i = 0; i < r->nranks; i++) memcpy(block->bytes + (size_t)i * nbytes, source(r, i) + at, nbytes);
}

static void gather_write(const local_ring *r, int self, size_t at, size_t nbytes, const reduce_block *block) {
    for (int i = 0; i < r->nranks; i++) {
        memcpy(result_part(r, self, i) + at, block->bytes + (size_t)i * nbytes, nbytes);
    }
}

/* Bytes [at, at + nbytes) of this member's part, reduced or taken from the root. */
static void part_read(const local_ring *r, int self, size_t at, size_t nbytes, reduce_block *block) {
    if (asked(r, 0)->kind == COMM_REDUCE_SCATTER) {
        reduce_at(r, self, at, nbytes, block);
    } else {
        memcpy(block->bytes, source_part(r, asked(r, 0)->root, self) + at, nbytes);
    }
}

static weft_status in_rounds(local_ring *r, int self) {
    reduce_block block;
    bool gathers = asked(r, 0)->kind == COMM_ALL_GATHER;
    size_t part = part_nbytes(r), step = REDUCE_BLOCK_NBYTES;
    if (gathers) step = step / (size_t)r->nranks / 16 * 16;
    for (size_t at = 0; at < part; at += step) {
        size_t nbytes = least(part - at, step);
        if (gathers) {
            gather_read(r, at, nbytes, &block);
        } else {
            part_read(r, self, at, nbytes, &block);
        }
        TRY(local_meet(r, self));
        if (gathers) {
            gather_write(r, self, at, nbytes, &block);
        } else {
            memcpy(result(r, self) + at, block.bytes, nbytes);
        }
    }
    return NULL;
}

static void own_part(const local_ring *r, int self) {
    reduce_block block;
    size_t part = part_nbytes(r);
    for (size_t at = 0; at < part; at += REDUCE_BLOCK_NBYTES) {
        size_t nbytes = least(part - at, REDUCE_BLOCK_NBYTES);
        part_read(r, self, at, nbytes, &block);
        memcpy(result(r, self) + at, block.bytes, nbytes);
    }
}

/* Of several tensors, which lie apart from what comes of them. */
static void gather_each(const local_ring *r, int self) {
    const comm_request *q = asked(r, self);
    for (int64_t k = 0; k < q->nparts; k++) {
        size_t part = source_nbytes(r, self, k);
        for (int i = 0; i < r->nranks; i++) copy((char *)q->dsts[k] + (size_t)i * part, source_part(r, i, k), part);
    }
}

static void reduce_scatter_each(const local_ring *r, int self) {
    const comm_request *q = asked(r, self);
    reduce_block block;
    for (int64_t k = 0; k < q->nparts; k++) {
        size_t part = source_nbytes(r, self, k), own = (size_t)self * part;
        for (size_t at = 0; at < part; at += REDUCE_BLOCK_NBYTES) {
            size_t nbytes = least(part - at, REDUCE_BLOCK_NBYTES);
            reduce_at(r, k, own + at, nbytes, &block);
            memcpy((char *)q->dsts[k] + at, block.bytes, nbytes);
        }
    }
}

weft_status local_move(local_ring *r, int self) {
    const comm_request *q = asked(r, 0);
    if (q->kind == COMM_BARRIER || (q->count == 0 && !q->src_counts)) return NULL;
    switch (q->kind) {
    case COMM_ALL_REDUCE: all_reduce(r, self); break;
    case COMM_REDUCE: reduce_to_root(r, self); break;
    case COMM_BROADCAST: broadcast(r, self); break;
    case COMM_ALL_TO_ALL: all_to_all(r, self); break;
    case COMM_ALL_GATHER:
        if (q->nparts) return gather_each(r, self), NULL;
        if (needs_rounds(r)) return in_rounds(r, self);
        gather(r, self);
        break;
    case COMM_REDUCE_SCATTER:
    case COMM_SCATTER:
        if (q->nparts) return reduce_scatter_each(r, self), NULL;
        if (needs_rounds(r)) return in_rounds(r, self);
        own_part(r, self);
        break;
    default: break;
    }
    return NULL;
}

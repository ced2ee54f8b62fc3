/* Forming buckets: a greedy sweep over items in the order in which they are put.
 *
 * Each item joins the open bucket of its kind; several kinds are open at once. A bucket is closed by its size ("flush":
 * when it has the limit; "cap": before it would go beyond), by its deadline, or by the pass. Everything is decided from
 * what the pass tells of its items, so it is the same on every rank where that is. Linear. Sources: paddle.md 11.19,
 * pytorch.md 1.4. */
#include "passes/bucket_former.h"

#include <math.h>

#include "program/grow.h"

weft_status bucket_limit(weft_pass_context *pass, const char *option, size_t *out_nbytes) {
    *out_nbytes = SIZE_MAX;
    if (pass_option_is_word(pass, option)) return NULL;
    double mb = weft_pass_option_float(pass, option);
    if (!(mb >= 0 && mb <= 1e9)) return weft_pass_refuse(pass, "%s: expected 0 to 1e9 MiB, found %g", option, mb);
    *out_nbytes = (size_t)ceil(mb * 1048576.0);
    return NULL;
}

void bucket_former_init(bucket_former *f, const bucket_rules *rules, arena *scratch) {
    *f = (bucket_former){.rules = *rules, .scratch = scratch};
}

weft_status bucket_former_find(bucket_former *f, const void *item, bucket **out) {
    TRY(table_reserve(f->scratch, &f->kinds, f->nopen + 1));
    TRY(grow(f->scratch, &f->open, &f->open_capacity, f->nopen + 1, sizeof *f->open));
    table_probe at = table_find(&f->kinds, table_hash(f->rules.hash(f->rules.user, item)));
    while (at.item != TABLE_NONE && !f->rules.same_kind(f->rules.user, f->open[at.item]->key, item))
        table_next(&f->kinds, &at);
    if (at.item == TABLE_NONE) {
        bucket *b = ARENA_NEW(f->scratch, bucket);
        if (!b) return base_out_of_memory();
        *b = (bucket){.key = item, .deadline = UINT32_MAX};
        f->open[f->nopen] = b;
        table_put(&f->kinds, &at, (uint32_t)f->nopen++);
    }
    *out = f->open[at.item];
    return NULL;
}

weft_status bucket_former_close(bucket_former *f, bucket *b) {
    if (b->count == 0) return NULL;
    bucket *copy = arena_copy(f->scratch, b, sizeof *b);
    if (!copy) return base_out_of_memory();
    TRY(grow(f->scratch, &f->done, &f->done_capacity, f->ndone + 1, sizeof *f->done));
    f->done[f->ndone++] = copy;
    b->last = copy;
    b->nclosed++;
    b->count = b->nbytes = b->capacity = 0;
    b->items = NULL;
    b->own = NULL;
    b->deadline = UINT32_MAX;
    return f->rules.closed ? f->rules.closed(f->rules.user, copy) : NULL;
}

static weft_status add_item(bucket_former *f, bucket *b, const void *item, size_t nbytes, uint32_t deadline) {
    if (b->count == b->capacity) {
        size_t capacity = b->capacity ? b->capacity * 2 : 8;
        const void **items = ARENA_ARRAY(f->scratch, const void *, capacity);
        if (!items) return base_out_of_memory();
        if (b->count) memcpy(items, b->items, b->count * sizeof *items);
        b->items = items;
        b->capacity = capacity;
    }
    b->items[b->count++] = item;
    b->nbytes += nbytes;
    if (deadline < b->deadline) b->deadline = deadline;
    return NULL;
}

static size_t limit_of(const bucket_former *f, const bucket *b) {
    return b->nclosed ? f->rules.limit : f->rules.first_limit;
}

/* Under a cap, an item that fills a bucket alone does so beside the open one, which goes on. */
weft_status bucket_former_put(bucket_former *f, const void *item, uint32_t position, uint32_t deadline) {
    bucket *b;
    TRY(bucket_former_find(f, item, &b));
    size_t nbytes = f->rules.nbytes(item), limit = limit_of(f, b), sum;
    if (b->deadline <= position || (f->rules.begins && f->rules.begins(f->rules.user, item)))
        TRY(bucket_former_close(f, b));
    bool fits = base_add(b->nbytes, nbytes, &sum) && (!f->rules.cap || sum <= limit);
    if (!fits && b->count && nbytes >= limit) {
        bucket alone = {.key = item};
        TRY(add_item(f, &alone, item, nbytes, deadline));
        return bucket_former_close(f, &alone);
    }
    if (!fits) TRY(bucket_former_close(f, b));
    TRY(add_item(f, b, item, nbytes, deadline));
    return b->nbytes >= limit_of(f, b) ? bucket_former_close(f, b) : NULL;
}

weft_status bucket_former_close_all(bucket_former *f) {
    for (size_t i = 0; i < f->nopen; i++) TRY(bucket_former_close(f, f->open[i]));
    return NULL;
}

static weft_status split(bucket_former *f, bucket *b, size_t limit) {
    size_t nbytes = 0, at = b->count;
    while (at > 0) {
        size_t more = f->rules.nbytes(b->items[at - 1]);
        if (at < b->count && (limit < nbytes || limit - nbytes < more)) break;
        nbytes += more;
        at--;
    }
    if (at == 0) return NULL;
    if (!(b->tail = arena_copy(f->scratch, b, sizeof *b))) return base_out_of_memory();
    b->tail->items += at;
    b->tail->count -= at;
    b->tail->nbytes = nbytes;
    b->tail->tail = NULL;
    b->count = at;
    b->nbytes -= nbytes;
    return NULL;
}

weft_status bucket_former_split(bucket_former *f, size_t limit) {
    for (size_t i = 0; i < f->nopen; i++) {
        bucket *b = f->open[i]->last;
        if (b && b->nbytes > limit) TRY(split(f, b, limit));
    }
    return NULL;
}

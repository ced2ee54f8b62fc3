/* kept_blocks.c: large blocks that are freed are kept, up to a bound, and serve later requests.
 *
 * Programs, the memory of passes and files of 100,000 ops are tens of megabytes each. They are made of blocks that libc
 * asks the system for one by one and gives back at once: clearing fresh pages then takes longer than a pass. Blocks lie
 * on huge pages for the same reason, those that are smaller side by side in a region. A request that no kept block
 * serves gives back as many bytes before it asks for new ones. So what is kept never adds to the peak for long. Small
 * requests go to libc. */
#include "base/kept_blocks.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, HEADER_NBYTES = 64, LARGEST_REGION = 8 * HUGE_PAGE };

/* In front of every large block, in use or kept. */
struct kept_block {
    struct kept_block *next;
    size_t nbytes; /* with this header */
};

static bool is_large(size_t nbytes) {
    return nbytes >= KEPT_BLOCKS_LARGE;
}

/* Else it is cut from a region. */
static bool has_own_pages(size_t nbytes) {
    return nbytes >= 2 * HUGE_PAGE;
}

/* --- what is kept ------------------------------------------------------------------------------------------------- */

static kept_block *unlink_block(kept_blocks *k, kept_block **link) {
    kept_block *b = *link;
    *link = b->next;
    k->nbytes -= b->nbytes;
    return b;
}

static void link_block(kept_blocks *k, kept_block *b, size_t nbytes) {
    *b = (kept_block){k->first, nbytes};
    k->first = b;
    k->nbytes += nbytes;
}

/* Of all kept blocks, the one that ends or begins where `b` begins or ends. */
static kept_block **find_neighbour(kept_blocks *k, const kept_block *b) {
    kept_block **link = &k->first;
    for (; *link; link = &(*link)->next) {
        const char *at = (const char *)*link, *end = at + (*link)->nbytes;
        if (end == (const char *)b || at == (const char *)b + b->nbytes) return link;
    }
    return NULL;
}

/* Keeps `b`, joined with the parts of what it was cut from. */
static void keep_block(kept_blocks *k, kept_block *b) {
    size_t nbytes = b->nbytes;
    for (kept_block **link; (link = find_neighbour(k, b));) {
        kept_block *other = unlink_block(k, link);
        nbytes += other->nbytes;
        if (other < b) b = other;
        b->nbytes = nbytes;
    }
    link_block(k, b, nbytes);
}

/* The smallest block that is large enough; what is left of it stays, if that is a block. */
static kept_block *take(kept_blocks *k, size_t nbytes) {
    kept_block **best = NULL;
    for (kept_block **link = &k->first; *link; link = &(*link)->next)
        if ((*link)->nbytes >= nbytes && (!best || (*link)->nbytes < (*best)->nbytes)) best = link;
    if (!best) return NULL;
    kept_block *b = unlink_block(k, best);
    size_t cut = has_own_pages(nbytes) ? (nbytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE : nbytes;
    if (b->nbytes < cut + KEPT_BLOCKS_LARGE) return b;
    link_block(k, (kept_block *)(void *)((char *)b + cut), b->nbytes - cut);
    b->nbytes = cut;
    return b;
}

/* Takes out blocks of `nbytes` in all, if there are as many, to be given back without the lock. */
static kept_block *take_any(kept_blocks *k, size_t nbytes) {
    kept_block *taken = NULL;
    for (size_t sum = 0; sum < nbytes && k->first;) {
        kept_block *b = unlink_block(k, &k->first);
        sum += b->nbytes;
        b->next = taken;
        taken = b;
    }
    return taken;
}

static void give_back(kept_block *b) {
    for (kept_block *next; b; b = next) {
        next = b->next;
        (void)munmap(b, b->nbytes);
    }
}

/* --- large blocks ------------------------------------------------------------------------------------------------- */

/* Whole pages that begin with a huge one: what lies in front of it and behind is unmapped. */
static char *map_pages(size_t nbytes) {
    size_t mapped_nbytes;
    if (!base_add(nbytes, HUGE_PAGE, &mapped_nbytes)) return NULL;
    char *mapped = mmap(NULL, mapped_nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return NULL;
    size_t front = (HUGE_PAGE - (uintptr_t)mapped % HUGE_PAGE) % HUGE_PAGE;
    if (front) (void)munmap(mapped, front);
    if (HUGE_PAGE > front) (void)munmap(mapped + front + nbytes, HUGE_PAGE - front);
#ifdef MADV_HUGEPAGE
    (void)madvise(mapped + front, nbytes, MADV_HUGEPAGE); /* all of it: mremap takes one kind of pages */
#endif
    return mapped + front;
}

/* With the header, in whole pages. */
static bool block_nbytes(size_t nbytes, size_t *out) {
    if (!base_add(nbytes, HEADER_NBYTES + PAGE - 1, out)) return false;
    *out = *out / PAGE * PAGE;
    return true;
}

/* Keeps `b` if there is room. */
static bool keep_if_room(kept_blocks *k, kept_block *b) {
    bool keep = b->nbytes <= k->max_nbytes && k->nbytes <= k->max_nbytes - b->nbytes;
    if (keep) keep_block(k, b);
    return keep;
}

/* A region takes as much as all before it: what nobody touches is no memory. The rest of the last one is a block. */
static bool open_region(kept_blocks *k, size_t nbytes) {
    size_t room = k->regions_nbytes < LARGEST_REGION ? k->regions_nbytes : LARGEST_REGION;
    if (room < nbytes) room = (nbytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *region = map_pages(room);
    if (!region) return false;
    kept_block *rest = (kept_block *)(void *)k->fresh;
    if (k->fresh_nbytes) rest->nbytes = k->fresh_nbytes;
    if (k->fresh_nbytes && !keep_if_room(k, rest)) (void)munmap(rest, k->fresh_nbytes);
    k->fresh = region;
    k->fresh_nbytes = room;
    k->regions_nbytes += room;
    return true;
}

static char *cut_fresh(kept_blocks *k, size_t nbytes) {
    char *cut = k->fresh;
    k->fresh += nbytes;
    k->fresh_nbytes -= nbytes;
    return cut;
}

static kept_block *new_block(kept_blocks *k, size_t nbytes) {
    char *mapped;
    if (has_own_pages(nbytes)) {
        mapped = map_pages(nbytes);
    } else {
        pthread_mutex_lock(&k->lock);
        bool fits = k->fresh_nbytes >= nbytes || open_region(k, nbytes);
        mapped = fits ? cut_fresh(k, nbytes) : NULL;
        pthread_mutex_unlock(&k->lock);
    }
    kept_block *b = (kept_block *)(void *)mapped;
    if (b) b->nbytes = nbytes;
    return b;
}

static void *alloc_large(kept_blocks *k, size_t nbytes) {
    size_t whole;
    if (!block_nbytes(nbytes, &whole)) return NULL;
    pthread_mutex_lock(&k->lock);
    kept_block *b = take(k, whole), *unfit = b ? NULL : take_any(k, whole);
    pthread_mutex_unlock(&k->lock);
    give_back(unfit);
    if (!b) b = new_block(k, whole);
    return b ? (char *)b + HEADER_NBYTES : NULL;
}

static kept_block *block_of(void *ptr) {
    return (kept_block *)(void *)((char *)ptr - HEADER_NBYTES);
}

static void free_large(kept_blocks *k, void *ptr) {
    kept_block *b = block_of(ptr);
    pthread_mutex_lock(&k->lock);
    bool keep = keep_if_room(k, b);
    pthread_mutex_unlock(&k->lock);
    if (!keep) (void)munmap(b, b->nbytes);
}

static void *move_to(kept_blocks *k, void *ptr, kept_block *to) {
    void *moved = (char *)to + HEADER_NBYTES;
    memcpy(moved, ptr, block_of(ptr)->nbytes - HEADER_NBYTES);
    free_large(k, ptr);
    return moved;
}

/* Pages are moved rather than bytes if they are the block's own, and of one kind: it may be joined from several. */
static bool move_pages(kept_block **b, size_t nbytes) {
    if (!has_own_pages((*b)->nbytes)) return false;
    kept_block *moved = mremap(*b, (*b)->nbytes, nbytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return false;
    moved->nbytes = nbytes;
    *b = moved;
    return true;
}

/* Whether fresh memory stood behind the block, which takes it. */
static bool extend(kept_blocks *k, kept_block *b, size_t nbytes) {
    const size_t more = nbytes - b->nbytes;
    if ((char *)b + b->nbytes != k->fresh || more > k->fresh_nbytes) return false;
    (void)cut_fresh(k, more);
    b->nbytes = nbytes;
    return true;
}

/* Of a large block to another large size. */
static void *resize_large(kept_blocks *k, void *ptr, size_t nbytes) {
    kept_block *b = block_of(ptr);
    size_t whole;
    if (!block_nbytes(nbytes, &whole)) return NULL;
    if (whole <= b->nbytes) return ptr;
    pthread_mutex_lock(&k->lock);
    bool is_extended = extend(k, b, whole);
    kept_block *other = is_extended ? NULL : take(k, whole);
    pthread_mutex_unlock(&k->lock);
    if (is_extended) return ptr;
    if (!other && move_pages(&b, whole)) return (char *)b + HEADER_NBYTES;
    if (!other) other = new_block(k, whole);
    return other ? move_to(k, ptr, other) : NULL;
}

/* From small to large or back. */
static void *change_kind(kept_blocks *k, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    bool was_large = is_large(old_nbytes);
    void *moved = was_large ? malloc(new_nbytes) : alloc_large(k, new_nbytes);
    if (!moved) return NULL;
    memcpy(moved, ptr, was_large ? new_nbytes : old_nbytes);
    if (was_large)
        free_large(k, ptr);
    else
        free(ptr);
    return moved;
}

/* --- the allocator ------------------------------------------------------------------------------------------------ */

static void *resize(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    kept_blocks *k = user;
    if (!new_nbytes && is_large(old_nbytes)) {
        free_large(k, ptr);
        return NULL;
    }
    if (!new_nbytes) {
        free(ptr);
        return NULL;
    }
    if (!ptr) return is_large(new_nbytes) ? alloc_large(k, new_nbytes) : malloc(new_nbytes);
    if (is_large(old_nbytes) != is_large(new_nbytes)) return change_kind(k, ptr, old_nbytes, new_nbytes);
    return is_large(new_nbytes) ? resize_large(k, ptr, new_nbytes) : realloc(ptr, new_nbytes);
}

kept_blocks *kept_blocks_create(size_t max_nbytes, weft_allocator *out) {
    kept_blocks *k = malloc(sizeof *k);
    if (!k) return NULL;
    *k = (kept_blocks){.max_nbytes = max_nbytes};
    pthread_mutex_init(&k->lock, NULL);
    *out = (weft_allocator){resize, k};
    return k;
}

void kept_blocks_trim(kept_blocks *k) {
    pthread_mutex_lock(&k->lock);
    kept_block *all = take_any(k, SIZE_MAX);
    if (k->fresh_nbytes) (void)munmap(k->fresh, k->fresh_nbytes);
    k->fresh_nbytes = 0;
    pthread_mutex_unlock(&k->lock);
    give_back(all);
}

void kept_blocks_destroy(kept_blocks *k) {
    if (!k) return;
    kept_blocks_trim(k);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

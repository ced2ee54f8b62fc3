/* far_memory.c: a block is a file in memory, mapped twice. The addresses that are given out lie in the first mapping,
 * which nobody may read or write; the device reaches the bytes by the second one. */
#include "tests/support/far_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static far_block *blocks; /* of all devices */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static weft_status map_twice(far_block *b) {
    int file = memfd_create("far", 0);
    if (file < 0 || ftruncate(file, (off_t)b->nbytes) != 0)
        return weft_status_create(WEFT_IO, NULL, "far: no memory file of %zu bytes: %s", b->nbytes, strerror(errno));
    b->front = mmap(NULL, b->nbytes, PROT_NONE, MAP_SHARED, file, 0);
    b->back = mmap(NULL, b->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (b->front != MAP_FAILED && b->back != MAP_FAILED) return NULL;
    return weft_status_create(WEFT_IO, NULL, "far: cannot map %zu bytes: %s", b->nbytes, strerror(errno));
}

weft_status far_block_create(size_t nbytes, far_block **out) {
    far_block *b = calloc(1, sizeof *b);
    if (!b) return base_out_of_memory();
    b->nbytes = nbytes;
    weft_status status = map_twice(b);
    if (status) {
        free(b);
        return status;
    }
    pthread_mutex_lock(&lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&lock);
    *out = b;
    return NULL;
}

void far_block_destroy(far_block *b) {
    pthread_mutex_lock(&lock);
    far_block **at = &blocks;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    pthread_mutex_unlock(&lock);
    munmap(b->front, b->nbytes);
    munmap(b->back, b->nbytes);
    free(b);
}

static unsigned char *translate(const unsigned char *at, bool to_back) {
    unsigned char *found = NULL;
    pthread_mutex_lock(&lock);
    for (const far_block *b = blocks; b && !found; b = b->next) {
        unsigned char *from = to_back ? b->front : b->back, *to = to_back ? b->back : b->front;
        if (at >= from && at < from + b->nbytes) found = to + (at - from);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

unsigned char *far_back(const void *front) {
    return translate(front, true);
}

unsigned char *far_front(const void *back) {
    return translate(back, false);
}

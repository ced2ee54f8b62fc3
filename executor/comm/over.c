#include "executor/comm/over.h"

#include <pthread.h>

/* A row for each engine over each other. */
typedef struct row {
    comm_world_engine engine; /* first: what worlds point to */
    const comm_world_engine *own, *below;
} row;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static row rows[8];
static comm_over *overs;

static const comm_world_engine *below(const comm_world_engine *e) {
    return ((const row *)(const void *)e)->below;
}

/* --- what is passed on -------------------------------------------------------------------------------------------- */

static weft_status gather(comm_world *world, const comm_gather *g) {
    return below(world->engine)->gather(world, g);
}
static void abort_world(comm_world *world, const char *why) {
    below(world->engine)->abort(world, why);
}
static const char *why_of(const comm_world *world) {
    return below(world->engine)->why(world);
}
static void alarm_all(comm_world *world) {
    below(world->engine)->alarm(world);
}

weft_status comm_over_host(const comm_world_engine *own, comm_host *host) {
    size_t i = 0, n = sizeof rows / sizeof *rows;
    pthread_mutex_lock(&lock);
    while (i < n && rows[i].own && (rows[i].own != own || rows[i].below != host->engine)) i++;
    if (i < n && !rows[i].own) {
        rows[i] = (row){*own, own, host->engine};
        rows[i].engine.gather = gather;
        rows[i].engine.abort = abort_world;
        rows[i].engine.why = why_of;
        rows[i].engine.alarm = alarm_all;
    }
    pthread_mutex_unlock(&lock);
    if (i == n) return weft_status_create(WEFT_LIMIT, NULL, "rings of engine %s: too many kinds of worlds", own->name);
    host->engine = &rows[i].engine;
    return NULL;
}

/* --- worlds ------------------------------------------------------------------------------------------------------- */

weft_status comm_over_create(const weft_allocator *allocator, const comm_host *host, comm_over *over,
                             comm_world **out_world) {
    comm_world *world;
    TRY(below(host->engine)->create(allocator, host, &world));
    world->engine = host->engine;
    pthread_mutex_lock(&lock);
    *over = (comm_over){world, overs};
    overs = over;
    pthread_mutex_unlock(&lock);
    *out_world = world;
    return NULL;
}

void comm_over_destroy(comm_over *over) {
    pthread_mutex_lock(&lock);
    comm_over **at = &overs;
    while (*at != over) at = &(*at)->next;
    *at = over->next;
    pthread_mutex_unlock(&lock);
    below(over->world->engine)->destroy(over->world);
}

comm_over *comm_over_of(const comm_world *world) {
    pthread_mutex_lock(&lock);
    comm_over *o = overs;
    while (o && o->world != world) o = o->next;
    pthread_mutex_unlock(&lock);
    return o;
}

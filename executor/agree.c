/* agree.c: the agreement of plan/agree.h between the processes of a world, each of which runs some ranks of an
 * executor.
 */
#include "executor/agree.h"

#include "plan/agree.h"

/* A rank's rings as they are bound. */
static weft_status describe_rings(const rank_state *rank, arena *scratch, const plan_rings **out) {
    plan_rings *rings = ARENA_NEW(scratch, plan_rings);
    if (!rings || !(rings->items = ARENA_ARRAY(scratch, plan_ring, rank->nrings + 1))) return base_out_of_memory();
    rings->count = rank->nrings;
    for (size_t k = 0; k < rank->nrings; k++) {
        const ring_use *u = &rank->rings[k];
        rings->items[k] = (plan_ring){u->id, u->comm->nranks, u->ranks, u->instrs, u->pairs, u->ninstrs, u->npairs};
    }
    *out = rings;
    return NULL;
}

typedef struct exchange {
    comm_world *world;
    double timeout_seconds;
} exchange;

static weft_status gather(void *user, const void *mine, size_t nbytes, void *all) {
    const exchange *e = user;
    return comm_world_gather(e->world, &(comm_gather){.mine = mine,
                                                      .all = all,
                                                      .nbytes_each = nbytes,
                                                      .timeout_seconds = e->timeout_seconds,
                                                      .when = "before the first step"});
}

weft_status agree_on_collectives(const weft_executor *x, comm_world *world) {
    arena scratch;
    arena_init(&scratch, &x->context->allocator);
    weft_status status = NULL;
    exchange e = {world, x->options.first_step_seconds};
    agree_exchange how = {world->nranks, world->first_rank, world->nlocal, gather, &e};
    agree_rank *ranks = ARENA_ARRAY(&scratch, agree_rank, world->nlocal);
    if (!ranks) TRY_DONE(base_out_of_memory());
    for (int i = 0; i < world->nlocal; i++) {
        const rank_state *rank = executor_rank(x, world->first_rank + i);
        ranks[i].plan = rank->plan;
        TRY_DONE(describe_rings(rank, &scratch, &ranks[i].rings));
    }
    status = plan_agree(&x->context->allocator, ranks, &how);
done:
    arena_fini(&scratch);
    return status;
}

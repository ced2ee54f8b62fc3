/* startup.c: startup programs: they run once, before the first step, and what they write is where parameters
 * and optimizer state begin.
 *
 * The rule: a program that does not communicate describes the whole model; it runs on one rank, and every rank takes
 * its part, as of a file of parameters. One that does communicate is a rank's own (it hands its values to the others),
 * and so are several: they run on all ranks, and what a rank holds then is that rank's.
 *
 * Random initialisers draw by the seed, the op and the name that they write, not by the rank, so replicas are equal. */
#include "train/trainer.h"

static bool communicates(weft_context *context, const weft_program *p) {
    for (size_t i = 0; i < p->nblocks; i++) {
        for (const weft_op *op = weft_block_first_op(p->blocks[i]); op; op = weft_op_next(op)) {
            const op_schema *schema = ops_find(context, weft_op_type(op));
            if (schema && (schema->effects & OP_COLLECTIVE)) return true;
        }
    }
    return false;
}

weft_status trainer_run_startup(weft_trainer *t) {
    const weft_trainer_options *o = &t->options;
    if (!o->nstartups) return NULL;
    if (o->nstartups != 1 && o->nstartups != (size_t)t->nranks) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu startup programs for %d ranks: expected 1 or %d",
                                  o->nstartups, t->nranks, t->nranks);
    }
    bool is_whole = o->nstartups == 1 && !communicates(t->context, o->startups[0]);
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT,
                                    .programs = o->startups,
                                    .nprograms = o->nstartups,
                                    .nranks = is_whole ? 1 : t->nranks,
                                    .nsteps = 1,
                                    .executor = &(weft_executor_options){
                                        WEFT_EXECUTOR_OPTIONS_INIT, .device = o->executor->device,
                                        .host = is_whole ? NULL : o->executor->host, .nthreads = o->executor->nthreads,
                                        .seed = o->executor->seed, .watchdog_seconds = o->executor->watchdog_seconds,
                                        .first_step_seconds = o->executor->first_step_seconds,
                                        .no_watchdog = o->executor->no_watchdog}};
    TRY(trainer_begin(t->context, &options, &t->startup));
    TRY(trainer_bind_first(t->startup));
    return weft_trainer_step(t->startup, 0);
}

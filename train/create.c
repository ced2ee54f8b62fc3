/* create.c: from programs, parameters and feeds to a trainer that is ready to step.
 *
 * The order matters for what a user hears first: the feeds' own faults (names, dtypes, shapes, missing steps) before
 * what planning makes of them, missing parameters before a step is tried. */
#include "train/trainer.h"

/* What was given for before the first step is not needed any more. */
static void forget_sources(weft_trainer *t) {
    weft_trainer_destroy(t->startup);
    t->startup = NULL;
    t->options.params = NULL;
    t->options.state = NULL;
}

weft_status weft_trainer_create(weft_context *context, const weft_trainer_options *options,
                                weft_trainer **out_trainer) {
    weft_trainer *t;
    TRY(trainer_begin(context, options, &t));
    weft_status status = trainer_run_startup(t);
    if (!status) status = trainer_bind_first(t);
    if (status) {
        weft_trainer_destroy(t);
        return status;
    }
    forget_sources(t);
    *out_trainer = t;
    return NULL;
}

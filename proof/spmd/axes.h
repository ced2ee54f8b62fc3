/* axes.h: the axes that ranks lie on, as a value may differ along them: those of the program's mesh, or its rings where
 * it has no mesh. */
#ifndef PROOF_SPMD_AXES_H
#define PROOF_SPMD_AXES_H

#include "ops/ops.h"
#include "proof/members.h"

enum { MAX_AXES = 32 };
typedef uint32_t axes; /* bit i: axis i */

typedef struct axis_grid {
    const weft_program *program;
    const mesh *mesh; /* NULL: axes are rings */
    const ring *rings[MAX_AXES];
    int naxes;
    axes all;
    axes *of_ring;  /* by place of the ring in the program: those along which its ranks differ */
    uint32_t *same; /* by place of a ring in the program: the first with the same members */
    uint8_t *set;   /* a flag for each rank that a ring speaks of, all off */
    int64_t nflags;
} axis_grid;

/* As seen from `rank`; -1: from any. */
WEFT_MUST_USE weft_status axes_find(const weft_program *p, const program_rings *rings, int64_t rank, arena *a,
                                    axis_grid *out);
/* Those along which the ranks of a ring differ, if it has every rank along them. */
axes axes_of_ring(const axis_grid *g, int64_t ring_id);
/* Those that shard a value. */
axes axes_of_shards(const axis_grid *g, const placement *p);
const char *axes_text(const axis_grid *g, axes a, char *out, size_t room);

#endif

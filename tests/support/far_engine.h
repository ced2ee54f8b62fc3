/* far_engine.h: an engine of communicators that puts collectives on streams of the far device, and cannot do otherwise:
 * what an engine over a GPU's library is like. What moves is the local engine's. */
#ifndef TESTS_SUPPORT_FAR_ENGINE_H
#define TESTS_SUPPORT_FAR_ENGINE_H

#include "executor/comm/comm.h"

/* The ranks that `local` has, a host of the local engine. */
comm_host far_engine_host(comm_host local);

/* The request on a stream of this thread's, to its end, and what the ring's error says: what comm_run would. Addresses
 * that the host reaches far memory by are taken for the device's; others may be the host's. */
WEFT_MUST_USE weft_status far_engine_perform(comm_ring *ring, const comm_request *request);

/* Whether there are rings that may still know memory of the device. */
bool far_engine_has_rings(void);

/* While it holds, collectives do not end, and rings do not let go of their buffers. */
void far_engine_hold(bool holds);

#endif

/* far_stream.h: what runs by itself: a queue of work and a thread that takes it in order. Whoever pushes goes on. */
#ifndef TESTS_SUPPORT_FAR_STREAM_H
#define TESTS_SUPPORT_FAR_STREAM_H

#include "base/base.h"

typedef struct far_stream far_stream;

/* takes_host: collectives on it may have buffers of the host too. */
WEFT_MUST_USE weft_status far_stream_create(bool takes_host, far_stream **out);
void far_stream_destroy(far_stream *s); /* what was pushed runs before; NULL is fine */
bool far_stream_takes_host(const far_stream *s);

/* Runs work(arg) when all that was pushed before has ended. Any thread; never waits. */
void far_stream_push(far_stream *s, void (*work)(void *arg), void *arg);
/* Waits until all that was pushed has ended. */
void far_stream_drain(far_stream *s);

#endif

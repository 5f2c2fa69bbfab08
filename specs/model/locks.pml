/*
 * Two batches that touch the same two jobs, in a store that locks each job it touches.
 *
 * The jobs are locked in (job, slot) order, whatever the order of the requests: nobody waits in a circle. The search for
 * a state in which nothing can go on is the checker's own.
 *
 * Bounds: two batches of two requests, in opposite orders, without end.
 */

bool locked[2];

inline touch(job) {
	atomic { !locked[job] -> locked[job] = true }
}

proctype batch(byte one; byte other) {
	do
	:: true ->
#ifdef LOCK_AS_ASKED
		touch(one);
		touch(other);
#else
		touch(0);
		touch(1);
#endif
		atomic { locked[0] = false; locked[1] = false }
	od
}

init {
	atomic { run batch(0, 1); run batch(1, 0) }
}

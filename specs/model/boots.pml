/*
 * A store without a clock of its own: each machine judges leases by its own, and a lease names the clock it was given by.
 *
 * A clock that has not counted the lease yet gives it a whole one from now, and that end is written down beside those of
 * other clocks: a reboot costs one lease, and two machines on one file neither take each other's runs nor keep a dead one.
 * A renewal voids all the other ends.
 *
 * The runner is on machine 0 and renews every tick, until it dies; BACKUPS_ON_BOTH puts backups there too, one is on
 * machine 1. Each backup checks within PAUSE ticks. Bounds: LEASE = 3 ticks; unbounded time.
 */

#define LEASE 3
#define PAUSE 2
#ifndef BACKUPS_ON_BOTH
#define LOCAL_BACKUP false
#else
#define LOCAL_BACKUP true
#endif

bool alive = true, taken;
bool counts[2];
byte left[2];
byte unchecked[2];
byte dead_for;

/* protocol.state.renewed: the runner is on machine 0. */
inline renew() {
	left[0] = LEASE;
	counts[0] = true;
#ifndef RENEWAL_KEEPS_OTHER_ENDS
	left[1] = 0;
	counts[1] = false
#endif
}

/* protocol.state.rebase, then the row that fits: a check by a backup on machine n. */
inline check(n) {
	unchecked[n] = 0;
	if
	:: !counts[n] ->
#ifdef FOREIGN_IS_OVER
		left[n] = 0;
#else
		left[n] = LEASE;
#endif
#ifdef ONE_END_FOR_ALL
		left[1 - n] = 0;
		counts[1 - n] = false;
#endif
		counts[n] = true
	:: else
	fi;
	if
	:: left[n] == 0 -> assert(!alive); taken = true /* P: a runner that renews keeps its run. */
	:: else
	fi
}

active proctype world() {
	d_step { renew() };
	do
	:: atomic { !taken && LOCAL_BACKUP -> check(0) }
	:: atomic { !taken -> check(1) }
	:: atomic { alive -> alive = false }
	:: atomic { !taken && unchecked[1] < PAUSE && (!LOCAL_BACKUP || unchecked[0] < PAUSE) -> /* A tick. */
		unchecked[0] = (LOCAL_BACKUP -> unchecked[0] + 1 : 0);
		unchecked[1]++;
		left[0] = (left[0] > 0 -> left[0] - 1 : 0);
		left[1] = (left[1] > 0 -> left[1] - 1 : 0);
		if
		:: alive -> renew()
		:: else -> dead_for++; assert(dead_for <= LEASE + 2 * PAUSE) /* P: a dead runner is replaced in time. */
		fi
	}
	:: atomic { taken -> break }
	od
}

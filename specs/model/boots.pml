/*
 * A store without a clock of its own: each machine judges leases by its own, and a lease names the clock it was given by.
 *
 * A lease that another clock has given is a whole one from now, and is written down so: a reboot costs one lease, and two
 * machines on one file do not take each other's runs.
 *
 * The runner is on machine 0 and renews every tick, until it dies; RENEWS_ON_0 backups are there too, one on machine 1.
 * Each backup checks within PAUSE ticks. Bounds: LEASE = 3 ticks; unbounded time.
 */

#define LEASE 3
#define PAUSE 2
#define NOBODY 2
#ifndef BACKUPS_ON_BOTH
#define LOCAL_BACKUP false
#else
#define LOCAL_BACKUP true
#endif

bool alive = true, taken;
byte lease_clock, left = LEASE;
byte unchecked[2];
byte dead_for;

/* protocol.state.rebase, then the row that fits: a check by a backup on machine n. */
inline check(n) {
	unchecked[n] = 0;
	if
	:: lease_clock != n ->
#ifdef FOREIGN_IS_OVER
		left = 0;
#else
		left = LEASE;
#endif
		lease_clock = n
	:: else
	fi;
	if
	:: left == 0 -> assert(!alive); taken = true /* P: a runner that renews keeps its run. */
	:: else
	fi
}

active proctype world() {
	do
	:: atomic { !taken && LOCAL_BACKUP -> check(0) }
	:: atomic { !taken -> check(1) }
	:: atomic { alive -> alive = false }
	:: atomic { !taken && unchecked[1] < PAUSE && (!LOCAL_BACKUP || unchecked[0] < PAUSE) -> /* A tick. */
		unchecked[0] = (LOCAL_BACKUP -> unchecked[0] + 1 : 0);
		unchecked[1]++;
		if
		:: left > 0 -> left--
		:: else
		fi;
		if
		:: alive -> left = LEASE; lease_clock = 0
		:: else -> dead_for++; assert(dead_for <= 2 * LEASE + 2 * PAUSE) /* P: a dead runner is replaced in time. */
		fi
	}
	:: atomic { taken -> break }
	od
}

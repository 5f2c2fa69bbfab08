/*
 * Catching up in order: catch_up = "all". Every slot runs, oldest first, one at a time, without any lock.
 *
 * An instance asks only for the first slot after the newest one that it has heard of, and lets an older run go on
 * (overlap = wait). Instances are behind, die at any moment and start again; answers get lost; a claim may arrive after
 * its sender has stopped waiting; a lease may run out at any moment; slots grow too old to be run (the shorter of
 * max_lateness and catch_up_window), which an instance learns with the next answer.
 *
 * Bounds: NI = 2 instances, NS = 4 slots, LOSSES = 2 instances die (and start again), TOO_OLD = 2 slots may grow too old.
 */

#ifndef NS
#define NS 4
#endif
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef TOO_OLD
#define TOO_OLD 2
#endif
#define NI 2
#define NOBODY 2
#define ROUNDS 30

/* The store. The owner of the live run is an instance's life; who has died owns nothing any more. */
byte high, live, owner = NOBODY, aged;
bool over;

byte due, losses_left = LOSSES;
byte heard_high[NI], heard_aged[NI], asks[NI], watch[NI], runs[NI], stray[NI];

byte ran[NS + 1];

hidden byte answered, m, first, slot;
hidden byte pick_who, pick_answered, pick_first;

inline grant(n, sl) {
	assert(sl > high);                                   /* P: no older slot after a newer one. */
	assert(sl == high + 1 || sl - 1 <= aged);            /* P: every slot that is not too old, in order. */
	assert(live == 0);                                   /* P: two slots are never both live. */
	high = sl;
	live = sl;
	owner = n;
	over = false;
	ran[sl] = 1
}

/* lease_runner._granted: whoever hears of the grant executes it. */
inline execute(n, sl) {
	if
	:: answered -> runs[n] = sl; watch[n] = 0; asks[n] = 0; heard_high[n] = high
	:: else
	fi
}

inline learn(n) {
	if
	:: answered -> heard_high[n] = high; heard_aged[n] = aged
	:: else
	fi
}

/* lease_runner._in_the_way */
inline be_backup(n) {
	if
	:: answered -> asks[n] = 0; watch[n] = live
	:: else
	fi
}

/* protocol.claims.decide_claim, for a first claim with overlap = wait. */
inline claim(n, sl) {
	if
	:: live == sl && owner == n -> execute(n, sl)
	:: live == sl && owner != n -> be_backup(n)
	:: live != sl && (sl <= high || sl <= aged) ->
		if
		:: answered -> asks[n] = 0; watch[n] = live /* Every answer but won names the run that is live. */
		:: else
		fi
	:: live != sl && sl > high && sl > aged ->
		if
#ifdef OVERLAP_SKIP
		:: live != 0 && !over -> high = sl; assert(false) /* P: every slot that is not too old, in order. */
		:: live == 0 || over -> live = 0; grant(n, sl); execute(n, sl)
#else
		:: live != 0 ->
#ifdef OVERLAP_NAMES_NO_RUN
			skip
#else
			be_backup(n)
#endif
		:: else -> grant(n, sl); execute(n, sl)
#endif
		fi
	fi;
	learn(n)
}

/* A backup's check is the claim of the next attempt. */
inline check(n) {
	if
	:: live == watch[n] && (over || owner == n) -> owner = n; over = false; execute(n, live)
	:: live == watch[n] && !(over || owner == n)
	:: else ->
		if
		:: answered -> watch[n] = live
		:: else
		fi
	fi;
	learn(n)
}

/* decide.chase_from: the first slot after the newest that was heard of. */
inline chase(n) {
#ifdef CLAIM_DUE_DIRECTLY
	slot = due;
#else
	slot = (heard_aged[n] > heard_high[n] -> heard_aged[n] : heard_high[n]) + 1;
#endif
	if
	:: slot <= due && slot > heard_high[n] -> asks[n] = slot
	:: else
	fi
}

inline finish(n) {
	if
	:: live == runs[n] && owner == n -> live = 0; owner = NOBODY; over = false
	:: else
	fi;
	if
#ifdef FINISH_TELLS_HIGH
	:: answered -> runs[n] = 0; heard_high[n] = high
#else
	:: answered -> runs[n] = 0 /* It names no run, so that its high is not taken: a run might be passed over. */
#endif
	:: else
	fi
}

#define IDLE(n) (asks[n] == 0 && watch[n] == 0 && runs[n] == 0)

/* From here on nobody dies and every request is answered: then every slot is accounted for, soon. */
inline calm_down() {
	answered = true;
	m = 0;
	do
	:: m < ROUNDS ->
		one_calm(first);
		one_calm(1 - first);
		if
		:: live != 0 && (owner == NOBODY || runs[owner] != live) -> over = true
		:: else
		fi;
		m++
	:: else -> break
	od;
	assert(live == 0 && (high == due || due <= aged)) /* P: the end is reached. */
}

inline one_calm(n) {
	if
	:: IDLE(n) -> chase(n)
	:: else
	fi;
	if
	:: runs[n] != 0 -> finish(n)
	:: runs[n] == 0 && watch[n] != 0 -> check(n)
	:: runs[n] == 0 && watch[n] == 0 && asks[n] != 0 -> slot = asks[n]; claim(n, slot)
	:: else
	fi
}

active proctype world() {
	do
	:: atomic {
		select(pick_first : 0 .. 1);
		first = pick_first;
		d_step { calm_down() };
		break
	}

	:: atomic { due < NS -> due++ }

	:: atomic { aged < TOO_OLD && aged < due -> aged++ }

	:: atomic { live != 0 && !over -> over = true }

	:: atomic {
		select(pick_who : 0 .. 1);
		if
		:: IDLE(pick_who) -> d_step { chase(pick_who) }
		:: else
		fi
	}

	:: atomic { /* A request is served; its answer may get lost. */
		select(pick_who : 0 .. 1);
		select(pick_answered : 0 .. 1);
		if
		:: asks[pick_who] != 0 && runs[pick_who] == 0 ->
			d_step { answered = pick_answered; slot = asks[pick_who]; claim(pick_who, slot) }
		:: watch[pick_who] != 0 -> d_step { answered = pick_answered; check(pick_who) }
		:: runs[pick_who] != 0 -> d_step { answered = pick_answered; finish(pick_who) }
		:: stray[pick_who] != 0 ->
			d_step { answered = false; slot = stray[pick_who]; stray[pick_who] = 0; claim(pick_who, slot) }
		:: else
		fi
	}

	:: atomic { /* An instance dies and starts again: registering tells it high, and the run that is live. */
		losses_left > 0;
		select(pick_who : 0 .. 1);
		losses_left--;
		d_step {
			if
			:: stray[pick_who] == 0 -> stray[pick_who] = asks[pick_who]
			:: else
			fi;
			if
			:: owner == pick_who -> owner = NOBODY
			:: else
			fi;
			asks[pick_who] = 0;
			runs[pick_who] = 0;
			heard_high[pick_who] = high;
			heard_aged[pick_who] = aged;
#ifdef OVERLAP_NAMES_NO_RUN
			watch[pick_who] = 0
#else
			watch[pick_who] = live
#endif
		}
	}
	od
}

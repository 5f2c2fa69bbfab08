/*
 * Clocks and slots: registration, early and late claims, max_lateness, a changed schedule.
 *
 * A tick of the store's clock is half a slot; slots are the even ticks. Instance 0's clock is fast, instance 1's is slow,
 * by AHEAD and BEHIND ticks; a third one's is right and starts at any time. A claim may be under way for any time. Handlers
 * end at once: other models look at runs. The job may be one that is new in the store, and its schedule may change with
 * the instance that starts next (CHANGES = 1); ONCE = 1 makes it a job with a single slot at tick 4.
 *
 * Bounds: NI = 3 instances, END = 7 ticks, AHEAD = BEHIND = 3, LATENESS = 3 ticks, one life of each instance.
 */

#ifndef END
#define END 7
#endif
#ifdef NOBODY_IS_FAST
#define AHEAD 0
#else
#define AHEAD 3
#endif
#define BEHIND 3
#define LATENESS 3
#define NI 3
#define NONE 0
#ifndef CHANGES
#define CHANGES 0
#endif
#ifndef ONCE
#define ONCE 0
#endif

/* slots.Schedule.last_slot and next_slot; 0 is none. */
#if ONCE
#define LAST_SLOT(at) ((at) >= 4 -> 4 : NONE)
#define NEXT_SLOT(after) ((after) < 4 -> 4 : NONE)
#else
#define LAST_SLOT(at) ((at) - (at) % 2)
#define NEXT_SLOT(after) ((after) - (after) % 2 + 2)
#endif

#define OWN_CLOCK(n) ((n) == 0 -> clock + AHEAD : ((n) == 1 -> ((clock > BEHIND) -> clock - BEHIND : 0) : clock))
#define SCHEDULE(n) ((CHANGES && (n) == 2) -> 2 : 1)

byte clock;

/* The store. */
bool known;
byte high, since, fingerprint;

/* An instance: has asked for the store's time, was registered, and what it then claims. */
#define OFF 0
#define ASKED 1
#define UP 2
byte stage[NI], asked_at[NI], armed[NI], claims[NI], early_until[NI];
bool catches_up[NI];

/* For the properties. */
byte created_at, changed_at, change_heard[NI], ran_at[END + AHEAD + 3];

hidden byte last, from;

/* engine._prepare and registering.register_jobs; protocol.registration.decide_register. */
inline register(n) {
#ifdef REGISTER_BY_OWN_CLOCK
	from = OWN_CLOCK(n);
#else
	from = asked_at[n];
#endif
	last = LAST_SLOT(from);
#ifndef REGISTER_BY_OWN_CLOCK
	assert(last <= clock);
#endif
	if
#ifdef EMPTY_IS_NEW
	:: !known || high == 0 ->
#else
	:: !known ->
#endif
		assert(!known); /* P: a job is new once. */
		known = true;
		high = last;
		created_at = asked_at[n];
		fingerprint = SCHEDULE(n);
		claims[n] = NONE
	:: else ->
		if
		:: fingerprint != SCHEDULE(n) -> since = clock; changed_at = clock; fingerprint = SCHEDULE(n)
		:: else
		fi;
		change_heard[n] = changed_at;
		/* catch_up = "latest": decide.catch_up_slot */
#ifdef SINCE_IGNORED
		claims[n] = ((last > high) -> last : NONE);
#else
		claims[n] = ((last > high && last > since) -> last : NONE);
#endif
		catches_up[n] = (claims[n] != NONE)
	fi;
	stage[n] = UP;
	armed[n] = NEXT_SLOT(from)
}

/* protocol.claims.decide_claim, as far as clocks play a part; the rest of the table is in runs.pml. */
inline claim(n) {
	last = claims[n];
	if
	:: last <= high -> claims[n] = NONE; catches_up[n] = false
#ifdef BELIEVE_FAST_CLOCKS
	:: last > high && false ->
#else
	:: last > high && last > clock ->
#endif
		early_until[n] = last;
#ifdef EARLY_IS_LATE
		early_until[n] = 0;
#endif
		claims[n] = NONE
#ifndef LATENESS_IGNORED
	:: last > high && last + LATENESS < clock -> claims[n] = NONE; catches_up[n] = false
#endif
	:: else ->
		assert(last <= clock + AHEAD + 1);
		assert(ran_at[last] == 0);                          /* P: each slot runs once. */
		assert(clock <= last + LATENESS);                  /* P: nothing runs that is too old. */
		assert(last > LAST_SLOT(created_at));               /* P: a new job has missed nothing. */
		assert(!catches_up[n] || last > change_heard[n]); /* P: a changed schedule starts from its change. */
		ran_at[last] = 1 + clock;
		high = last;
		if
		:: fingerprint != SCHEDULE(n) -> since = clock; changed_at = clock; fingerprint = SCHEDULE(n)
		:: else
		fi;
		claims[n] = NONE;
		catches_up[n] = false
	fi;
	assert(high <= clock) /* P: nobody shuts a job until a time to come. */
}

#define DUE(n) (stage[n] == UP && claims[n] == NONE && early_until[n] == 0 && armed[n] != NONE && armed[n] <= OWN_CLOCK(n))

/* The fast instance is never late for a slot that it was early for. */
#define MISSES(n) (early_until[n] != 0 && early_until[n] <= clock)

#define INSTANCE(n) \
	:: atomic { stage[n] == OFF -> stage[n] = ASKED; asked_at[n] = clock } \
	:: d_step { stage[n] == ASKED -> register(n) } \
	:: atomic { DUE(n) -> claims[n] = armed[n]; armed[n] = NEXT_SLOT(armed[n]) } \
	:: d_step { claims[n] != NONE -> claim(n) } \
	:: atomic { MISSES(n) -> claims[n] = early_until[n]; early_until[n] = 0 }

/* A request of an instance whose clock is fast has arrived before time goes on: then its slot is not late either. */
#define PROMPT (!MISSES(0) && !DUE(0) && (claims[0] == NONE))

active proctype world() {
	clock = 1;
	do
	INSTANCE(0)
	INSTANCE(1)
	INSTANCE(2)
	:: atomic { clock < END && PROMPT ->
		clock++;
		if
		:: stage[0] == UP && LAST_SLOT(clock - 1) > LAST_SLOT(created_at) && asked_at[0] < LAST_SLOT(clock - 1) ->
			assert(high >= LAST_SLOT(clock - 1)) /* P: who is early is late for nothing. */
		:: else
		fi
	}
	:: atomic { clock == END -> break }
	od
}

/*
 * Time and the lease of one run: self-fencing, the gate, freezes, hand-over, and how soon a dead runner is replaced.
 *
 * The store and two instances have clocks that tick together, but for an instance's clock that may miss DRIFT ticks of
 * each lease. A request takes any time; it or its answer may get lost; a claim may arrive after its sender has given it
 * up. An instance may freeze at any moment and thaw at any other, or die. A timer that is due fires before the next
 * tick, unless its instance is frozen: that is the lateness which the margin has to cover.
 *
 * `left` is what an instance believes to be left of its lease, counted from when the request was sent; the fence falls
 * at MARGIN. `remaining` is what the store knows. Attempts are not counted: who owns the run is all that matters here,
 * so that the search is over all attempts and all slots, without a bound on time.
 *
 * Bounds: NI = 2 instances, LEASE = 4 ticks, DRIFT = 1, MARGIN = DRIFT + 1, PAUSE = 2 ticks between checks.
 */

#ifndef LEASE
#define LEASE 4
#endif
#ifndef DRIFT
#define DRIFT 1
#endif
#ifndef MARGIN
#define MARGIN (DRIFT + 1)
#endif
#define PAUSE 2
#define NI 2
#define NOBODY 2

/* The run in an instance. */
#define NO_RUN 0
#define BODY 1
#define ENDED 2

/* A call. */
#define IDLE 0
#define SENT 1
#define HELD 2
#define REFUSED 3

byte owner = NOBODY, remaining;

byte stage[NI], left[NI], missed_ticks[NI];
bool frozen[NI], dead[NI];
bool holding[NI]; /* The gate holds the handler until the store has said whose the run is. */
#ifdef GATE_LOOKS_ONCE
bool let_go[NI];
#endif

byte claim[NI], claim_age[NI];
bool stray_claim[NI];
byte renewal[NI], renewal_age[NI];

bool calm;
byte idle_ticks[NI], unrenewed;

#define ACTS(n) (!frozen[n] && !dead[n])

/* A body that goes on by itself: neither frozen, nor held, nor ended. */
#define GOES_ON(n) (stage[n] == BODY && ACTS(n) && !holding[n])

/* runs._look: the fence has fallen, and its timer fires before the next tick. */
#define FENCE_DUE(n) (GOES_ON(n) && left[n] <= MARGIN)

#define LATE_IN_CALM(n) (calm && ACTS(n) && (claim[n] != IDLE || (stage[n] == NO_RUN && idle_ticks[n] >= PAUSE) \
	|| stage[n] == ENDED || holding[n]))

/* protocol.claims: only what nobody holds is granted; the owner's own token is won again. */
inline serve_claim(n) {
	if
	:: owner == NOBODY || owner == n || remaining == 0 ->
		assert(owner == n || !GOES_ON(1 - n)); /* P: no two bodies go on at the same time. */
		owner = n;
		remaining = LEASE;
		unrenewed = 0;
		granted = true
	:: else -> granted = false
	fi
}

/* leases.HeldLease.sent_ms: counted from when the call was sent, never backwards. */
inline count_lease(n, age) {
#ifdef COUNT_FROM_REPLY
	left[n] = LEASE;
	missed_ticks[n] = 0
#else
	if
	:: LEASE - age > left[n] -> left[n] = LEASE - age; missed_ticks[n] = 0
	:: else
	fi
#endif
}

/* grants.Grants.execute and executor._call: a grant that comes late is doubted before the first step. */
inline begin_run(n) {
	left[n] = 0;
	count_lease(n, claim_age[n]);
	claim[n] = IDLE;
	claim_age[n] = 0;
	stage[n] = BODY;
	holding[n] = (left[n] <= MARGIN)
}

inline forget(n) {
	stage[n] = NO_RUN;
	holding[n] = false;
	left[n] = 0;
	missed_ticks[n] = 0;
	renewal[n] = IDLE;
	renewal_age[n] = 0
#ifdef GATE_LOOKS_ONCE
	;
	let_go[n] = false
#endif
}

/* From here on only the release matters: what is known of the lease is forgotten. */
inline cut(n) {
	forget(n);
	stage[n] = ENDED
}

inline older(age) {
	if
	:: age < LEASE - MARGIN -> age++ /* Beyond that it is as useless as it can be. */
	:: else
	fi
}

/* A tick that an instance's clock missed is only missing in `left`: so one lease misses DRIFT of them, from send to fence. */
inline own_tick(n, misses) {
	if
	:: !misses && left[n] > 0 -> left[n]--
	:: else
	fi;
	if
	:: claim[n] != IDLE -> older(claim_age[n])
	:: else
	fi;
	if
	:: renewal[n] != IDLE -> older(renewal_age[n])
	:: else
	fi;
	if
	:: calm && idle_ticks[n] < PAUSE -> idle_ticks[n]++
	:: else
	fi
}

inline clock_of(n) {
#ifdef BLIND_TO_SUSPEND
	if
	:: frozen[n] -> skip
	:: else -> own_tick(n, false)
	fi
#else
	if
	:: stage[n] == BODY && left[n] > 0 && missed_ticks[n] < DRIFT -> missed_ticks[n]++; own_tick(n, true)
	:: own_tick(n, false)
	fi
#endif
}

hidden byte granted;

#ifdef RELEASE_BEFORE_END
#define ENDED_OR_BODY != NO_RUN
#else
#define ENDED_OR_BODY == ENDED
#endif

#ifdef GATE_LOOKS_ONCE
#define STEP(n) (GOES_ON(n) && (left[n] > MARGIN || let_go[n]))
#define STEPPED(n) let_go[n] = false
#define LET_GO(n) let_go[n] = true
#else
#define STEPPED(n) skip
#define LET_GO(n) skip
#ifdef NO_GATE
#define STEP(n) (GOES_ON(n))
#else
#define STEP(n) (GOES_ON(n) && left[n] > MARGIN)
#endif
#endif

#ifdef NO_GATE
#define HOLD(n) skip
#else
#ifdef GATE_LOOKS_ONCE
#define HOLD(n) holding[n] = !let_go[n]
#else
#define HOLD(n) holding[n] = true
#endif
#endif

/* gate.Gate.__await__ */
inline take_step(n) {
	assert(owner == n); /* P: no body takes a step of a run that is somebody else's. */
	STEPPED(n)
}

#define INSTANCE(n) \
	:: atomic { ACTS(n) && stage[n] == NO_RUN && claim[n] == IDLE -> claim[n] = SENT; idle_ticks[n] = 0 } \
	:: d_step { claim[n] == SENT -> serve_claim(n); \
		if \
		:: granted -> claim[n] = HELD \
		:: else -> claim[n] = IDLE; claim_age[n] = 0 \
		fi } \
	:: d_step { ACTS(n) && claim[n] == HELD -> begin_run(n) } \
	:: atomic { claim[n] != IDLE && !calm -> \
		if \
		:: claim[n] == SENT -> stray_claim[n] = true \
		:: skip \
		fi; \
		claim[n] = IDLE; claim_age[n] = 0 } \
	:: d_step { stray_claim[n] && !calm -> stray_claim[n] = false; serve_claim(n) } \
	:: atomic { stage[n] == BODY && renewal[n] == IDLE && ACTS(n) -> renewal[n] = SENT } \
	:: d_step { renewal[n] == SENT -> \
		if \
		:: owner == n -> remaining = LEASE; unrenewed = 0; renewal[n] = HELD \
		:: else -> renewal[n] = REFUSED \
		fi } \
	:: atomic { renewal[n] != IDLE && !calm -> renewal[n] = IDLE; renewal_age[n] = 0 } \
	:: d_step { ACTS(n) && renewal[n] == HELD -> \
		count_lease(n, renewal_age[n]); renewal[n] = IDLE; renewal_age[n] = 0; \
		if \
		:: holding[n] && left[n] > MARGIN -> holding[n] = false; LET_GO(n) \
		:: else \
		fi } \
	:: d_step { ACTS(n) && renewal[n] == REFUSED -> forget(n) } \
	:: d_step { STEP(n) -> take_step(n) } \
	:: d_step { GOES_ON(n) && left[n] <= MARGIN -> cut(n) } \
	:: d_step { ACTS(n) && stage[n] == BODY && holding[n] -> cut(n) } \
	:: d_step { GOES_ON(n) && left[n] > MARGIN -> cut(n) } \
	:: atomic { ACTS(n) && stage[n] ENDED_OR_BODY -> \
		if \
		:: owner == n -> owner = NOBODY; remaining = 0; unrenewed = 0 \
		:: else \
		fi; \
		if \
		:: stage[n] == ENDED -> forget(n) \
		:: skip /* The answer got lost: it is asked again. */ \
		fi } \
	:: atomic { ACTS(n) && !calm -> frozen[n] = true } \
	:: d_step { frozen[n] && !dead[n] -> frozen[n] = false; \
		if \
		:: stage[n] == BODY && left[n] <= MARGIN -> HOLD(n) \
		:: else \
		fi } \
	:: atomic { !dead[0] && !dead[1] && !calm -> dead[n] = true; stage[n] = NO_RUN; holding[n] = false; left[n] = 0; \
		missed_ticks[n] = 0; frozen[n] = false; claim[n] = IDLE; claim_age[n] = 0; renewal[n] = IDLE; \
		renewal_age[n] = 0 }

active proctype world() {
	do
	INSTANCE(0)
	INSTANCE(1)

	:: atomic { !calm && !(frozen[0] || frozen[1]) -> calm = true; idle_ticks[0] = 0; idle_ticks[1] = 0 }

	:: atomic { !FENCE_DUE(0) && !FENCE_DUE(1) && !LATE_IN_CALM(0) && !LATE_IN_CALM(1) ->
		if
		:: remaining > 0 -> remaining--
		:: else
		fi;
		clock_of(0);
		clock_of(1);
		if
		:: calm && owner != NOBODY && stage[owner] == NO_RUN && dead[owner] ->
			unrenewed++;
			assert(unrenewed <= LEASE + PAUSE) /* P: a dead runner is replaced in time. */
		:: else -> unrenewed = 0
		fi
	}
	od
}

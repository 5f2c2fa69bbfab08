/*
 * Renewals over two connections, either of which may fall silent at any moment, while the store itself is fine.
 *
 * A tick is a quarter of a heartbeat; a lease is three heartbeats, its margin a tick. An answer takes a tick at the most.
 * A renewal that is not answered by its deadline drops the connection and is sent over the handlers' connection, while a
 * fresh one of its own is made, and then over that one. The run must not be lost.
 *
 * Bounds: each connection falls silent once; a fresh one holds. Unbounded time.
 */

#define HEARTBEAT 4
#define LEASE (3 * HEARTBEAT)
#define MARGIN 1
#ifndef DEADLINE
#define DEADLINE (HEARTBEAT / 2)
#endif

#define PAUSE 0
#define OWN 1
#define OTHER 2
#define FRESH 3

bool silent[4];
bool fell_silent[3];

/* Ticks since the last successful renewal was sent, and since the renewal under way was sent. */
byte since, age;
byte phase = PAUSE, spent;

inline answered() {
	since = age;
	phase = PAUSE;
	spent = 0
}

inline unanswered() {
	spent = 0;
	if
#ifdef KEEP_THE_CONNECTION
	:: phase = PAUSE; spent = HEARTBEAT - 1
#else
	:: phase == OWN -> phase = OTHER; silent[OWN] = false
	:: phase == OTHER -> phase = FRESH
	:: phase == FRESH -> phase = PAUSE; spent = HEARTBEAT - 1
#endif
	fi
}

active proctype renewals() {
	do
	:: atomic { !fell_silent[OWN] -> fell_silent[OWN] = true; silent[OWN] = true }
	:: atomic { !fell_silent[OTHER] -> fell_silent[OTHER] = true; silent[OTHER] = true }

	:: atomic { phase != PAUSE && !silent[phase] -> answered() }

	:: atomic { /* A tick: what is due happens first. */
		!(phase != PAUSE && !silent[phase] && spent >= 1) ->
		since++;
		assert(since < LEASE - MARGIN); /* P: a run whose store is fine is not lost. */
		spent++;
		age++;
		if
		:: phase == PAUSE && spent >= HEARTBEAT -> phase = OWN; spent = 0; age = 0
		:: phase != PAUSE && spent >= DEADLINE -> unanswered()
		:: else
		fi;
		if
		:: phase == PAUSE -> age = 0
		:: else
		fi
	}
	od
}

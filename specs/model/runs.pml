/*
 * The runs of one job: claim, renew, take over, supersede, skip, finish, release, give up.
 *
 * The store is one atomic step a request. The network may deliver a request at any moment, any number of times, or
 * never, as long as its sender waits, and a stray one after that; an answer may be lost. An instance may stand still for any time between
 * two of its steps, so that freezes need no action of their own. A lease may run out at any moment: what real clocks do
 * is one of the possibilities, and time.pml adds them.
 *
 * Bounds (-D changes them): NI = 2 instances, NS = 2 slots, NA = 4 attempts that can be asked for, MAX_CRASHES = 2,
 * CRASHES = 1 instance dies, HAND_OVERS = 1 release, TAKEOVER = 1 (the job's option), STRAYS = 2 requests that go on
 * travelling after their sender has stopped waiting. Lost answers and repeated requests: unbounded.
 *
 * A broken variant is made by one of the names that stand in an #ifdef below; README.md says which trap it is.
 */

#ifndef NS
#define NS 2
#endif
#ifndef NA
#define NA 4
#endif
#ifndef MAX_CRASHES
#define MAX_CRASHES 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef HAND_OVERS
#define HAND_OVERS 1
#endif
#ifndef STRAYS
#define STRAYS 2
#endif
#ifndef TAKEOVER
#define TAKEOVER 1
#endif
#ifdef NO_NEXT_SLOT
#define LATER_SLOTS 0
#else
#define LATER_SLOTS 1 /* Slots that come due only when all has calmed down. */
#endif
#define NI 2
#define ROUNDS 8

#define NR (NS * NA)
#define NT (NI * NR + NI * NS) /* The last ones claim again what had expired, when all calms down. */
#define REC(asked, turn) (((asked) - 1) * NA + (turn) - 1)
#define TOK(who, asked, turn) (1 + (who) * NR + REC(asked, turn))
#define AGAIN(who, asked) (1 + NI * NR + RUN(who, asked))
#define OWNER(tk) ((tk) > NI * NR -> ((tk) - NI * NR - 1) / NS : ((tk) - 1) / NR)
#define SLOT(tk) ((tk) > NI * NR -> ((tk) - NI * NR - 1) % NS + 1 : (((tk) - 1) % NR) / NA + 1)
#define ATT(tk) ((tk) > NI * NR -> 1 : ((tk) - 1) % NA + 1)
#define RUN(who, asked) ((who) * NS + (asked) - 1)

/* Answers to a claim. */
#define WON 1
#define EXPIRED 2
#define RUNNING 3
#define GIVEN_UP 4
#define DONE 5
#define LATE 6
#define NONE 7
#define OVERLAP 8

/* A record's status with its reason. */
#define R_NONE 0
#define R_RUNNING 1
#define R_FINISHED 2
#define R_CRASHED 3
#define R_HANDED_OVER 4
#define R_GIVEN_UP 5
#define R_SUPERSEDED 6
#define R_SKIPPED 7

/* What is known of a token: which of its requests were sent, and two facts for the properties. */
#define CLAIM 1
#define RENEW 2
#define FINISH 4
#define RELEASE 8
#define PAST 16      /* The store's clock has passed the claim's not_after. */
#define GAVE_UP 32   /* The claim's sender has given it up. */
#define COMPLETED 64 /* The handler returned, or raised an error of its own. */

/* A run in an instance. */
#define NO_RUN 0
#define BODY 1
#define FINISHING 2
#define RELEASING 3

/* The store: what protocol.state keeps. */
byte high, previous_high;
byte live_slot, live_att, live_tok, crashes;
bool over;
byte skip_slot, skip_tok, skip_previous;
byte rec_tok[NR], rec[NR];

byte net[NT + 1]; /* net[0] stays 0. */

/* The instances. */
bool up[NI] = true;
byte next_due[NI] = 1, wants[NI], gave_up[NI], watch_slot[NI], watch_att[NI];
byte att[NI * NS], stage[NI * NS];

/* What happens to them. */
byte due, crashes_left = CRASHES, hand_overs_left = HAND_OVERS, strays_left = STRAYS;

/* For the properties alone. */
byte newest_granted, expiries;
byte missed[NS + 1];
#ifdef ACCOUNTS
bool unaccounted;
#define NOTE_LOSS unaccounted = true
#else
#define NOTE_LOSS skip
#endif

/* Scratch: set before it is read, so that it is no part of a state. Only a d_step may use it, since nothing undoes it. */
hidden byte tk, who, asked, turn, nth, own, mine, rounds;
hidden byte answer, range_from, named_slot, named_att, high_before, recorded, heard, keep, same, first;
hidden byte pick_who, pick_slot, pick_tok, pick_heard, pick_first; /* No d_step changes these: it could not be undone. */

/* ------------------------------------------------------------------------------------------------ the store */

/* A lease is whole again. */
inline renew_lease(tok) {
	assert(live_tok == tok);                              /* P: fencing: only the live token changes a run. */
	assert(rec[REC(live_slot, live_att)] == R_RUNNING);   /* P: nobody brings back what its runner has released. */
	over = false
}

/* One attempt begins. */
inline grant(tok, sl, at) {
	assert(rec[REC(sl, at)] == R_NONE);                           /* P: one winner for each slot and attempt. */
	assert(SLOT(tok) == sl && ATT(tok) == at);                    /* P: nobody is granted more than was asked for. */
	assert(!(net[tok] & GAVE_UP));                                /* P: no grant that its sender has given up. */
	assert(sl > newest_granted || (at > 1 && sl == newest_granted)); /* P: no older slot after a newer one. */
	if
	:: at > 1 -> assert(rec[REC(sl, at - 1)] == R_CRASHED || rec[REC(sl, at - 1)] == R_HANDED_OVER)
	:: else -> assert(live_slot == 0) /* P: two slots are never both live. */
	fi;
	newest_granted = sl;
	rec[REC(sl, at)] = R_RUNNING;
	rec_tok[REC(sl, at)] = tok;
	live_slot = sl;
	live_att = at;
	live_tok = tok;
	over = false
}

/* Close the live attempt's record; a released one was closed before. */
inline close_record(status) {
	if
	:: rec[REC(live_slot, live_att)] == R_RUNNING -> rec[REC(live_slot, live_att)] = status
	:: else
	fi
}

inline nothing_live() {
	live_slot = 0;
	live_att = 0;
	live_tok = 0;
	over = false;
	crashes = 0;
	expiries = 0;
	previous_high = 0
}

/* protocol.claims.decide_claim: the first row that fits decides. */
inline decide_claim(tok, sl, at) {
	answer = 0;
	recorded = false;
	range_from = 0;
	same = (live_slot == sl);
	if
	:: same && live_att == at && live_tok == tok ->
		renew_lease(tok);
		answer = WON;
		range_from = previous_high
	:: else
	fi;
#if !defined(EXPIRED_BEFORE_SKIP) && !defined(SKIP_ANSWERED_DONE) && !defined(NO_HIGH)
	repeat_skip(tok, sl);
#endif
#ifndef GRANT_AFTER_NOT_AFTER
	if
	:: answer == 0 && (net[tok] & PAST) -> answer = EXPIRED
	:: else
	fi;
#endif
	if
	:: answer == 0 && same -> decide_same_run(tok, sl, at)
	:: else
	fi;
#ifdef EXPIRED_BEFORE_SKIP
	repeat_skip(tok, sl);
#endif
#ifndef NO_HIGH
	if
	:: answer == 0 && sl == high -> answer = DONE
	:: else
	fi;
	if
	:: answer == 0 && sl < high -> answer = LATE
	:: else
	fi;
#endif
	if
	:: answer == 0 && at > 1 -> answer = NONE
	:: else
	fi;
	if
	:: answer == 0 -> decide_new_slot(tok, sl, at)
	:: else
	fi;
	if
#ifdef DONE_NAMES_NO_RUN
	:: live_slot != 0 && (answer == RUNNING || answer == OVERLAP) ->
#else
	:: live_slot != 0 && answer != WON ->
#endif
		named_slot = live_slot;
		named_att = live_att
	:: else ->
		named_slot = 0;
		named_att = 0
	fi
}

/* The newest slot was skipped with this very token: the same range as the first time. */
inline repeat_skip(tok, sl) {
	if
	:: answer == 0 && sl == high && skip_slot == sl && skip_tok == tok ->
		answer = OVERLAP;
		recorded = true;
		range_from = skip_previous
	:: else
	fi
}

#ifdef COUNT_HAND_OVERS
#define COUNTED true
#else
#define COUNTED (rec[REC(live_slot, live_att)] != R_HANDED_OVER)
#endif

/* protocol.claims._same_run: a backup's check. */
inline decide_same_run(tok, sl, at) {
	if
#ifdef ANY_ATTEMPT
	:: !over -> answer = RUNNING
#else
	:: !over || at != live_att + 1 -> answer = RUNNING
#endif
	:: else ->
		if
		:: rec[REC(live_slot, live_att)] != R_HANDED_OVER ->
			crashes++;
			expiries++
		:: else ->
#ifdef COUNT_HAND_OVERS
			crashes++;
#endif
			skip
		fi;
		if
		:: !TAKEOVER || (crashes >= MAX_CRASHES && COUNTED) ->
			assert(!TAKEOVER || expiries >= MAX_CRASHES); /* P: hand-overs are no crashes. */
			close_record(R_GIVEN_UP);
			nothing_live();
			answer = GIVEN_UP
		:: else ->
			nth = live_att + 1;
			range_from = previous_high;
			close_record(R_CRASHED);
			grant(tok, sl, nth);
			answer = WON
		fi
	fi
}

/* protocol.claims._new_slot: the first claim for a slot that is newer than all the store knows. */
inline decide_new_slot(tok, sl, at) {
	if
	:: live_slot != 0 && !over ->
		assert(rec[REC(sl, 1)] == R_NONE); /* P: a slot is skipped once, and not run after that. */
		rec[REC(sl, 1)] = R_SKIPPED;
		rec_tok[REC(sl, 1)] = tok;
		skip_slot = sl;
		skip_tok = tok;
		skip_previous = high;
		range_from = high;
		recorded = true;
#ifndef SKIP_LEAVES_HIGH
		high = sl;
#endif
		answer = OVERLAP
	:: else ->
		if
		:: live_slot != 0 -> close_record(R_SUPERSEDED)
		:: else
		fi;
#ifdef LIVE_OLDER_STAYS
		nth = 0;
#else
		nothing_live();
#endif
		assert(rec[REC(sl, 1)] != R_SKIPPED); /* P: a slot is skipped once, and not run after that. */
		range_from = high;
		previous_high = high;
		high = sl;
		grant(tok, sl, at);
		answer = WON
	fi
}

#ifdef OLD_TOKEN_ACCEPTED
#define OWN(tok) (live_slot == SLOT(tok) && live_tok != 0)
#else
#define OWN(tok) (live_slot == SLOT(tok) && live_att == ATT(tok) && live_tok == (tok))
#endif

/* protocol.closing.decide_renewal */
inline decide_renewal(tok) {
	if
	:: OWN(tok) -> renew_lease(tok); answer = WON
	:: else -> answer = NONE
	fi
}

/* protocol.closing.decide_finish */
inline decide_finish(tok) {
	if
	:: OWN(tok) ->
		assert(live_tok == tok);          /* P: fencing: only the live token changes a run. */
		assert(net[tok] & COMPLETED);     /* P: nobody closes a run that nobody completed. */
		rec[REC(live_slot, live_att)] = R_FINISHED;
		nothing_live();
		answer = WON
	:: else ->
		answer = ((rec_tok[REC(SLOT(tok), ATT(tok))] == tok && rec[REC(SLOT(tok), ATT(tok))] == R_FINISHED) -> WON : NONE)
	fi
}

/* protocol.closing.decide_release */
inline decide_release(tok) {
	if
	:: OWN(tok) && rec[REC(live_slot, live_att)] == R_RUNNING ->
		assert(live_tok == tok);                                       /* P: fencing: only the live token changes a run. */
		assert(!up[OWNER(tok)] || att[RUN(OWNER(tok), SLOT(tok))] != ATT(tok)
			|| stage[RUN(OWNER(tok), SLOT(tok))] != BODY);             /* P: no release before the handler has ended. */
		rec[REC(live_slot, live_att)] = R_HANDED_OVER;
#ifndef RELEASE_KEEPS_TOKEN
		live_tok = 0;
#endif
		over = true;
		if
		:: !TAKEOVER -> nothing_live()
		:: else
		fi;
		answer = WON
	:: else ->
		answer = ((rec_tok[REC(SLOT(tok), ATT(tok))] == tok && rec[REC(SLOT(tok), ATT(tok))] == R_HANDED_OVER) -> WON : NONE)
	fi
}

/* -------------------------------------------------------------------------------------------- the instances */

/*
 * The sender waits no longer for these requests of a token: either they have all arrived, or copies go on travelling.
 */
inline settle(tok, requests) {
	if
	:: (net[tok] & (requests)) && keep && strays_left > 0 -> strays_left--
	:: else -> net[tok] = net[tok] & (255 - (requests))
	fi
}

inline set_watch(n, sl, at) {
	if
	:: watch_slot[n] == sl && watch_att[n] == at
	:: else ->
		if
		:: watch_slot[n] != 0 && watch_att[n] < NA -> settle(TOK(n, watch_slot[n], watch_att[n] + 1), CLAIM)
		:: else
		fi;
		watch_slot[n] = sl;
		watch_att[n] = at;
		if
		:: sl != 0 && at < NA -> net[TOK(n, sl, at + 1)] = net[TOK(n, sl, at + 1)] | CLAIM
		:: else
		fi
	fi
}

/* The sender of a first claim waits for it no longer. */
inline set_wants(n, sl) {
	if
	:: wants[n] != 0 && wants[n] != sl -> settle(TOK(n, wants[n], 1), CLAIM | PAST | GAVE_UP)
	:: else
	fi;
	wants[n] = sl
}

/* lease_runner._pursue: a newer slot takes an older claim's place, unanswered or not. */
inline pursue(n, sl) {
	if
	:: wants[n] != 0 -> NOTE_LOSS
	:: else
	fi;
	set_wants(n, sl);
	net[TOK(n, sl, 1)] = net[TOK(n, sl, 1)] | CLAIM;
	next_due[n] = sl + 1
}

/* lease_runner._back_up */
inline be_backup(n, sl, at) {
	if
	:: att[RUN(n, sl)] == at && stage[RUN(n, sl)] != NO_RUN ->
		set_watch(n, 0, 0)
	:: else -> set_watch(n, sl, at)
	fi
}

/* reports.missed: the slots between are reported by whoever holds the answer. */
inline report_missed(sl) {
	nth = range_from + 1;
	do
	:: nth < sl ->
		missed[nth]++;
		assert(missed[nth] == 1 && rec[REC(nth, 1)] == R_NONE); /* P: no slot that ran is missed, and none twice. */
		nth++
	:: else -> break
	od
}

/* lease_runner._expired: the slot is missed. */
inline give_up(n, tok) {
	net[tok] = net[tok] | GAVE_UP;
	gave_up[n] = ((SLOT(tok) > high) -> SLOT(tok) : 0); /* decide.catch_up_slot asks again for what is above high. */
	set_wants(n, 0);
	NOTE_LOSS
}

/* lease_runner._follow */
inline hear_claim(n, tok, sl, at) {
	if
	:: answer == WON ->
		set_watch(n, 0, 0);
		if
		:: at == 1 -> set_wants(n, 0); report_missed(sl)
		:: else
		fi;
		att[RUN(n, sl)] = at;
		stage[RUN(n, sl)] = BODY;
		net[tok] = net[tok] | RENEW
	:: else ->
		if
		:: at == 1 && answer == EXPIRED -> give_up(n, tok)
		:: at == 1 && answer != EXPIRED -> set_wants(n, 0)
		:: else
		fi;
		if
		:: recorded -> report_missed(sl)
		:: else
		fi;
		if
		:: named_slot != 0 -> be_backup(n, named_slot, named_att)
		:: named_slot == 0 && at > 1 && answer != EXPIRED -> set_watch(n, 0, 0)
		:: else
		fi
	fi
}

#define TOO_LATE(n, sl) (!up[n] || gave_up[n] == sl)

#define AWAITS_CLAIM(n, sl, at) (up[n] \
	&& ((at == 1 && wants[n] == sl) || (at > 1 && watch_slot[n] == sl && watch_att[n] + 1 == at)) \
	&& !(stage[RUN(n, sl)] == BODY))

/* lease_runner.ended: a run that was lost or released may need a backup. */
inline leave_run(n, sl, left) {
	nth = att[RUN(n, sl)];
	settle(TOK(n, sl, nth), RENEW | FINISH | RELEASE | COMPLETED);
	att[RUN(n, sl)] = 0;
	stage[RUN(n, sl)] = NO_RUN;
	if
	:: left && TAKEOVER && watch_slot[n] == 0 -> be_backup(n, sl, nth)
	:: else
	fi
}

/* Nothing of a dead instance is left but what it had sent. */
inline die(n) {
	set_wants(n, 0);
	set_watch(n, 0, 0);
	own = 1;
	do
	:: own <= NS ->
		if
		:: stage[RUN(n, own)] != NO_RUN -> leave_run(n, own, false)
		:: else
		fi;
		own++
	:: else -> break
	od;
	NOTE_LOSS;
	up[n] = false;
	next_due[n] = 1;
	gave_up[n] = 0
}

inline serve_claim(tok) {
	who = OWNER(tok);
	asked = SLOT(tok);
	turn = ATT(tok);
	high_before = high;
	decide_claim(tok, asked, turn);
	assert(high >= high_before); /* P: high only grows. */
#ifndef ACCOUNTS /* Else what follows from it is asserted: no slot vanishes. */
	assert(recorded || asked != high || rec[REC(asked, 1)] != R_SKIPPED
		|| rec_tok[REC(asked, 1)] != tok); /* P: a skip is told to its asker. */
#endif
	if
	:: heard && AWAITS_CLAIM(who, asked, turn) -> hear_claim(who, tok, asked, turn)
	:: else
	fi
}

inline serve_renewal(tok) {
	who = OWNER(tok);
	asked = SLOT(tok);
	decide_renewal(tok);
	if
	:: heard && answer == NONE && up[who] && att[RUN(who, asked)] == ATT(tok) && stage[RUN(who, asked)] == BODY -> leave_run(who, asked, true)
	:: else
	fi
}

inline serve_finish(tok) {
	who = OWNER(tok);
	asked = SLOT(tok);
	decide_finish(tok);
	if
	:: heard && up[who] && att[RUN(who, asked)] == ATT(tok) && stage[RUN(who, asked)] == FINISHING -> leave_run(who, asked, answer == NONE)
	:: else
	fi
}

inline serve_release(tok) {
	who = OWNER(tok);
	asked = SLOT(tok);
	decide_release(tok);
	if
	:: heard && up[who] && att[RUN(who, asked)] == ATT(tok) && stage[RUN(who, asked)] == RELEASING -> leave_run(who, asked, true)
	:: else
	fi
}

/* --------------------------------------------------------------------------------------- when all calms down */

/*
 * From here on nobody dies, every request is answered, handlers end, and a lease runs out that nobody renews. Whatever
 * had happened before: every run is finished, given up, or superseded within a few rounds, and the newest slot is known.
 */
inline calm_down() {
	heard = true;
	rounds = 0;
	do
	:: rounds < 4 * ROUNDS ->
		mine = (rounds % 2 == 0 -> first : 1 - first);
		one_calm(mine);
		if
		:: live_tok != 0 && (!up[OWNER(live_tok)] || att[RUN(OWNER(live_tok), live_slot)] != live_att
			|| stage[RUN(OWNER(live_tok), live_slot)] == NO_RUN) -> over = true
		:: else
		fi;
		if
		:: rounds == 2 * ROUNDS && live_slot != 0 && due < NS -> due++ /* Who is no backup of a dead run supersedes it. */
		:: else
		fi;
		rounds++
	:: else -> break
	od;
	if
	:: up[0] || up[1] ->
		assert(live_slot == 0); /* P: a run whose runner died is taken over, given up or superseded. */
		assert(high == due || (TOO_LATE(0, due) && TOO_LATE(1, due))) /* P: the newest slot is known, if anybody asks in time. */
	:: else
	fi;
#ifdef ACCOUNTS
	nth = 1;
	do
	:: nth <= due && !unaccounted ->
		assert(rec[REC(nth, 1)] != R_NONE || missed[nth] == 1); /* P: no slot vanishes: it ran, was skipped, or was missed. */
		nth++
	:: else -> break
	od;
	skip
#endif
}

inline one_calm(n) {
	if
	:: up[n] ->
		if
		:: next_due[n] <= due -> pursue(n, due)
		:: else
		fi;
		own = 1;
		do
		:: own <= NS ->
			tk = TOK(n, own, (att[RUN(n, own)] == 0 -> 1 : att[RUN(n, own)]));
			if
			:: att[RUN(n, own)] == 1 && live_tok == AGAIN(n, own) -> tk = live_tok
			:: else
			fi;
			if
			:: stage[RUN(n, own)] == BODY || stage[RUN(n, own)] == FINISHING ->
				stage[RUN(n, own)] = FINISHING;
				net[tk] = net[tk] | COMPLETED;
				serve_finish(tk)
			:: stage[RUN(n, own)] == RELEASING ->
#ifdef FINISH_INTERRUPTED
				serve_finish(tk)
#else
				serve_release(tk)
#endif
			:: else
			fi;
			own++
		:: else -> break
		od;
		if
		:: wants[n] == 0 && due > 0 && watch_slot[n] == 0 && gave_up[n] == due -> wants[n] = due
		:: else
		fi;
		if
		:: wants[n] != 0 ->
			tk = (gave_up[n] == wants[n] -> AGAIN(n, wants[n]) : TOK(n, wants[n], 1));
			gave_up[n] = 0;
			serve_claim(tk)
		:: else
		fi;
		if
		:: watch_slot[n] != 0 && watch_att[n] < NA && stage[RUN(n, watch_slot[n])] != BODY ->
			tk = TOK(n, watch_slot[n], watch_att[n] + 1);
			serve_claim(tk)
		:: else
		fi
	:: else
	fi
}

/* ------------------------------------------------------------------------------------------ all that may happen */

/* The two are alike: whoever is the first is called 0. */
#define MAY_FIRE(n, sl) (up[n] && next_due[n] <= sl && sl <= due && (n == 0 || next_due[0] > 1 || !up[0]))

/* Pick a token that has one of these requests under way; 0 if there is none (any more, from where the search stands). */
inline pick_token(requests) {
	pick_tok = 1;
	do
	:: pick_tok <= NI * NR -> pick_tok++
	:: pick_tok <= NI * NR && (net[pick_tok] & (requests)) -> break
	:: pick_tok > NI * NR -> pick_tok = 0; break
	od
}

inline pick_keep() {
	if
	:: keep = 0
	:: strays_left > 0 -> keep = 1
	fi
}

active proctype world() {
	do
	:: atomic {
		select(pick_first : 0 .. 1);
		first = pick_first;
		keep = 0;
		d_step { calm_down() };
		break
	}

	:: atomic { due < NS - LATER_SLOTS -> due++ }

	:: atomic { /* An instance's timer fires, maybe late: then an older slot is passed over. */
		select(pick_who : 0 .. 1);
		select(pick_slot : 1 .. NS);
		pick_keep();
		if
		:: MAY_FIRE(pick_who, pick_slot) -> d_step { pursue(pick_who, pick_slot) }
		:: else
		fi
	}

	:: atomic { /* The store's clock passes a claim's not_after. */
		pick_token(CLAIM);
		if
		:: pick_tok != 0 && ATT(pick_tok) == 1 -> net[pick_tok] = net[pick_tok] | PAST
		:: else
		fi
	}

#ifdef GRANT_AFTER_NOT_AFTER
	:: atomic { /* Nobody tells the sender; it gives the claim up by its own clock. */
		select(pick_who : 0 .. 1);
		if
		:: up[pick_who] && wants[pick_who] != 0 && (net[TOK(pick_who, wants[pick_who], 1)] & PAST) ->
			pick_tok = TOK(pick_who, wants[pick_who], 1);
			keep = 1;
			give_up(pick_who, pick_tok)
		:: else
		fi
	}

#endif
	:: atomic { /* Any request that was ever sent arrives; its answer may be heard. */
		pick_token(CLAIM | RENEW | FINISH | RELEASE);
		select(pick_heard : 0 .. 1);
		keep = 0;
		if
		:: pick_heard -> pick_keep()
		:: else
		fi;
		if
		:: net[pick_tok] & CLAIM -> d_step { heard = pick_heard; serve_claim(pick_tok) }
		:: net[pick_tok] & RENEW -> d_step { heard = pick_heard; serve_renewal(pick_tok) }
		:: net[pick_tok] & FINISH -> d_step { heard = pick_heard; serve_finish(pick_tok) }
		:: net[pick_tok] & RELEASE -> d_step { heard = pick_heard; serve_release(pick_tok) }
		:: else
		fi
	}

	:: atomic { live_tok != 0 && !over -> over = true; NOTE_LOSS } /* A lease runs out. */

	:: atomic { /* A handler ends: by itself, or because it hands over, is stopped, or falls to its fence. */
		select(pick_who : 0 .. 1);
		select(pick_slot : 1 .. NS);
		if
		:: up[pick_who] && stage[RUN(pick_who, pick_slot)] == BODY ->
			pick_tok = TOK(pick_who, pick_slot, att[RUN(pick_who, pick_slot)]);
			if
			:: stage[RUN(pick_who, pick_slot)] = FINISHING; net[pick_tok] = net[pick_tok] | FINISH | COMPLETED
			:: hand_overs_left > 0 ->
				hand_overs_left--;
#ifdef FINISH_INTERRUPTED
				stage[RUN(pick_who, pick_slot)] = RELEASING;
				net[pick_tok] = net[pick_tok] | FINISH
#else
#ifndef RELEASE_BEFORE_END
				stage[RUN(pick_who, pick_slot)] = RELEASING;
#endif
				net[pick_tok] = net[pick_tok] | RELEASE
#endif
			fi
		:: else
		fi
	}

	:: atomic { /* An instance dies. */
		crashes_left > 0;
		crashes_left--;
		select(pick_who : 0 .. 1);
		pick_keep();
		d_step { die(pick_who) }
	}
	od
}
